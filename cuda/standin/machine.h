/*
 * The stand-in's devices: their memory, and streams that do work on it in an order that the seed
 * draws from those that CUDA permits. runtime.cc lists the variables. All is guarded by the lock
 * of the machine.
 */
#ifndef COLLCTL_CUDA_STANDIN_MACHINE_H
#define COLLCTL_CUDA_STANDIN_MACHINE_H

#include <stddef.h>
#include <stdint.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "cuda/standin/conflicts.h"
#include "cuda/standin/standin.h"

#define DEVICES_MOST 8
#define HOST         (-1)

typedef std::unique_lock<std::mutex> Lock;

/* Memory of a device, or pinned host memory. */
struct region {
	uint8_t *p;
	size_t bytes;
	int device; /* HOST */
	int users;  /* operations that run on it */
};

/* What a region of @bytes occupies. Those of a device are opened and closed for each operation,
 * which takes long for many pages; so large ones have huge pages, if the system gives them. */
#define HUGE_PAGE ((size_t)2 << 20)
static inline size_t room_of(size_t bytes, int device)
{
	return device != HOST && bytes > HUGE_PAGE / 4
	               ? (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE
	               : bytes;
}

/* A place in a stream, of which an event tells whether the stream has reached it. */
struct mark {
	std::condition_variable changed;
	int device;
	bool reached;
	Known known; /* to have ended then */
};

enum direction { TO_DEVICE, TO_HOST, DIRECTIONS };

struct operation {
	/* With the lock held, a step of the stream itself; or work on memory, in @parts, in any
	 * order, without the lock. */
	std::function<void(Lock &)> step;
	std::function<void(unsigned part, unsigned parts)> work;
	unsigned parts;
	std::shared_ptr<deed> does;
	bool is_kernel; /* it reaches what its device has access to */
	size_t bytes;   /* that occupy the device's copies in @direction */
	enum direction direction;

	bool waits; /* for another stream, or a kernel there */

	/* Filled when it is queued. */
	uint64_t serial;
	unsigned stops; /* the part before which it fails or hangs */
	bool fails, hangs;
	std::vector<unsigned> order; /* of the parts */
	std::vector<int64_t> pauses; /* ns, before each part and at the end */
};

struct CUstream_st {
	int device;
	unsigned slow;       /* its pauses are that many quarters of the longest */
	unsigned connection; /* see begin_turn */
	unsigned number;     /* see conflicts_open */
	Known known;         /* to have ended when it comes to what it is given next */
	std::thread *thread; /* NULL: nothing has been queued */
	std::condition_variable more;
	std::deque<operation> queue;
	bool busy, stop, stuck, orphan;
};

struct device {
	uint64_t used;
	bool access[DEVICES_MOST];        /* to the memory of other devices */
	cudaError_t error;                /* once it has failed */
	int64_t copies_until[DIRECTIONS]; /* ns: its copies occupy it until then */
	std::set<const void *> kernels;   /* that are loaded */
	unsigned streams;                 /* ever made */
	std::map<unsigned, std::deque<uint64_t>> connections;
};

struct machine {
	std::mutex lock;
	std::condition_variable ended; /* an operation, or a part of one */
	std::map<const uint8_t *, region> regions;
	std::map<uint64_t, int> pending; /* devices of what is queued or runs, by serial: the order
	                                    in which it was queued */
	std::set<mark *> marks;          /* that have not been reached */
	std::map<const void *const *, const void *> pointers; /* that kernels have stored */
	device devices[DEVICES_MOST];
	uint64_t serial, dice;
	int64_t late; /* ns: the longest that an operation of a usual stream pauses; 0: all is done
	                 in the order of the threads */
	unsigned long long begun, allocations;
	bool kernels_meet;
	bool direct; /* what a stream without other work is given is done in the call, and memory
	                stays open */
};

extern machine &m;

/* ---- with the lock held ---- */

/* A number below @n. */
uint64_t draw(uint64_t n);
/* Do devices do what CUDA permits, not only what is usual? Then, one time in two. */
bool is_strict(void);
bool is_odd(void);

/* The region that has @p. NULL: other host memory. */
region *region_of(const void *p);
bool inside(const void *p, size_t bytes, int device);
/* Open the region for an operation, or close it: @change is 1 or -1. */
void use(region *r, int change);

/* Queue a step of the stream; @waits: it may wait for another stream. */
void queue_step(Lock &, cudaStream_t s, bool waits, std::function<void(Lock &)> step);
/* Queue a copy or a kernel, with its deed; @counts: for COLLCTL_STANDIN_FAIL and HANG. */
cudaError_t queue_work(Lock &, cudaStream_t s, operation &&o, bool counts);
/* The end of what the stream has been given. */
std::shared_ptr<mark> mark_end(Lock &, cudaStream_t s);
/* Wait until the mark is reached, or its device has failed. */
void await_mark(Lock &, mark &);
/* The same; then the host knows the end. */
void await_told(Lock &, mark &);
/* Make @s wait for the mark, if it is one. */
void follow(Lock &, cudaStream_t s, std::shared_ptr<mark> mark);

/* Wait until all is done that has been queued on the device (HOST: on any), unless it fails. */
void await_device(Lock &, int device);
/* Wait until no part of an operation runs on the memory. */
void await_users(Lock &, const region *r);

cudaStream_t stream_make(int device);
/* It returns at once if the device still works for the stream. */
void stream_end(Lock &, cudaStream_t s);

/* End the process: the caller has done what CUDA does not define. */
[[noreturn]] __attribute__((format(printf, 1, 2))) void undefined(const char *format, ...);

#endif
