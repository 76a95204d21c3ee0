/*
 * What operations read and write, and which of them are ordered: by their stream, by events, or
 * because the host knew that the first had ended when it queued the second. Two operations of
 * which one writes what the other reads or writes, and that nothing orders, end the process when
 * the second is queued, whether they run at the same time or not. So does the release of memory,
 * unless the host knows that all operations that use it have ended. An allocation, a release or
 * a copy of pageable memory may wait for operations, but tells the host nothing.
 *
 * The host's own reads and writes are not seen. When strict, what a copy writes to host memory
 * arrives when the host knows that the copy has ended, and is garbage before; a change to it
 * before, or to what a copy reads from host memory, ends the process then.
 *
 * All is guarded by the lock of the machine.
 */
#ifndef COLLCTL_CUDA_STANDIN_CONFLICTS_H
#define COLLCTL_CUDA_STANDIN_CONFLICTS_H

#include <stddef.h>
#include <stdint.h>

#include <memory>
#include <vector>

#include "cuda/standin/standin.h"

#define GARBAGE 0xa5

/* Of the stream with number n, known[n] operations have ended. */
typedef std::vector<uint64_t> Known;

/* What an operation does to memory. */
struct deed {
	const char *what; /* "a copy" */
	std::vector<touch> touches;
	const touch *host; /* its end in host memory, if that is to be watched; else NULL */

	/* Filled when it is queued. */
	uint64_t serial; /* of the operation */
	int device;
	unsigned stream; /* its number ... */
	uint64_t index;  /* ... and the operation's in it, from 1 on */
	bool done;
	bool shared;               /* another operation uses what is watched */
	uint64_t sum;              /* of what it reads there */
	std::vector<uint8_t> late; /* what it writes there, until the host knows its end */
};

/* Queue it to the stream. */
void conflicts_queue(cudaStream_t s, uint64_t serial, const std::shared_ptr<deed> &d);
/* It has ended. */
void conflicts_done(deed &d);
/* From now on the host knows that all these have ended. */
void conflicts_tell(const Known &known);
/* Nobody waits for what the device was to do. */
void conflicts_forget(int device);
/* The host releases memory. */
void conflicts_release(const void *p, size_t bytes);

/* Add what @from knows. */
void learn(Known &known, const Known &from);
/* A number for a new stream, which may be that of one that ended, and the end of a stream. */
unsigned conflicts_open(void);
void conflicts_close(unsigned number);

#endif
