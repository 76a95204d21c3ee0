/*
 * File transfers in parallel with the network: one thread reads and one thread writes, each with a
 * list of jobs. A job moves a range of elements, in ascending order, between a buffer and a file.
 * `limit` is the number of elements that may be moved, `done` the number that were moved; so the
 * frontier rule (sched.h) applies to files, too.
 *
 * The owner's thread calls all functions. Only ops and the file threads run elsewhere.
 */
#ifndef COLLCTL_EXEC_FILEIO_H
#define COLLCTL_EXEC_FILEIO_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/exec/trace.h"

/* The caller's reads and writes. They run on the file threads: at most one read and one write at a
 * time. 0, or -1 with *err. */
struct fileio_ops {
	/* Fill @buf with @n elements of input @input of vector @vector (exec.h), starting at
	 * element @pos. */
	int (*read)(void *ctx, int vector, int input, void *buf, uint64_t pos, uint64_t n,
	            struct err *err);
	/* Store @n elements at @pos of the vector's output. @final: apply the operation's final
	 * function. It must not change @buf, because the same elements may still be sent. */
	int (*write)(void *ctx, int vector, const void *buf, uint64_t pos, uint64_t n, bool final,
	             struct err *err);
	void *ctx;
};

/* Where a window's elements are in the file: block k is the elements [at[k], at[k+1]) of the
 * window, and begins at element file[k] of the file. Ascending. */
struct fileio_map {
	int nblocks;
	uint64_t *at;   /* [nblocks + 1] */
	uint64_t *file; /* [nblocks] */
};

struct fileio_job {
	bool write, final;
	int vector, input;
	uint32_t window, step; /* with stream: for the trace */
	uint16_t stream;
	size_t esize; /* bytes of an element in the buffer */
	uint8_t *buf;
	const struct fileio_map *map;
	uint64_t pos, count; /* elements, in the window */
	uint64_t limit;      /* protected by the worker's lock */
	_Atomic uint64_t done;
	struct fileio_job *next;
};

struct fileio_worker {
	struct fileio *io;
	pthread_t thread;
	bool started;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct fileio_job *jobs, **tail; /* unfinished, in order */
	bool stop;
	_Atomic int64_t busy; /* ns in transfers */
};

struct fileio {
	struct fileio_ops ops;
	int eventfd; /* readable after a transfer or a failure; -1: no threads: jobs run in submit
	              */
	_Atomic bool armed; /* the owner is about to sleep: the next transfer makes the eventfd
	                       readable */
	/* Number of finished transfers. The owner stores armed, then loads moves; a file thread
	 * adds to moves, then loads armed. All four are sequentially consistent, so that one of
	 * them sees the other. */
	_Atomic unsigned moves;
	_Atomic bool failed;
	struct err err;      /* valid once failed is set */
	bool timed;          /* count busy; the owner sets it before the first job */
	struct trace *trace; /* with timed; NULL: none */
	struct fileio_worker reader, writer;
};

/* @threads false: jobs run at once on the caller's thread (small files, tests). ERR_RESOURCE. */
int fileio_init(struct fileio *, const struct fileio_ops *, bool threads, struct err *err);
/* Stops the threads after the current transfer. */
void fileio_release(struct fileio *);
/* Queue @job with its first limit. The caller keeps it valid until done == count. */
void fileio_submit(struct fileio *, struct fileio_job *job);
/* Raise the job's limit. */
void fileio_raise(struct fileio *, struct fileio_job *job, uint64_t limit);
/* Call it before waiting for the eventfd: the next transfer makes it readable, once. Check the jobs
 * again between this call and the wait. */
void fileio_arm(struct fileio *);
/* 0, or -1 and the first failure. */
int fileio_check(struct fileio *, struct err *err);

#endif
