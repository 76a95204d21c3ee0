/*
 * Memory spaces hold the buffers of windows and run the arithmetic on them: one for host memory and
 * one for each device. The executor starts tasks, which a device completes later. Only a device's
 * space dereferences its addresses; the executor adds offsets to them and passes them back.
 *
 * A task gives the same bits as the kernels of lib/data.
 */
#ifndef COLLCTL_EXEC_MEMORY_SPACE_H
#define COLLCTL_EXEC_MEMORY_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/data/kernels/reduce.h"

enum memory_op {
	MEMORY_CONVERT, /* dst <- a, rounded once; final: dst <- the operation's final function of a
	                 */
	MEMORY_COMBINE, /* dst <- a op b (swapped: b op a), rounded once; final: as above */
	MEMORY_FOLD,    /* dst <- inputs[0] op .. op inputs[ninputs - 1], rounded once */
	MEMORY_IDENTITY, /* dst <- the operation's identity */
	MEMORY_OPS
};

/* A device takes CONVERT between equal types (a copy), FOLD and IDENTITY. Its operands are in its
 * own memory, in that of another device of the same job, or in memory of the job's host space. */
struct memory_task {
	enum memory_op op;
	bool swapped, final;
	void *dst;
	const void *a, *b;
	/* FOLD: each input is at inputs[k] + offset bytes. The array must outlive the task. */
	uint8_t *const *inputs;
	uint64_t offset;
	int ninputs;
	uint64_t n;              /* elements */
	enum dtype to, of, with; /* of dst; of a and the inputs; of b */
	enum dtype acc; /* type of the computation if the types differ or the result is final */
	enum reduce_op reduce;
	double divisor; /* for final, in an average */
	const void *owner;
	/* The task is complete or, if @why is set, has failed. */
	void (*done)(void *ctx, const struct err *why);
	void *ctx;
};

struct memory_space {
	const char *name; /* for messages: "host", "cuda:1" */
	/* Returns zeroed memory. It is aligned for every element, also at multiples of 64 bytes.
	 * NULL: ERR_RESOURCE. */
	void *(*alloc)(const struct memory_space *, size_t bytes, struct err *err);
	void (*free)(const struct memory_space *, void *p, size_t bytes); /* @p may be NULL */
	/* Copy and start @task. 1: complete, done is not called (always so in host memory); 0: the
	 * event loop calls done later; -1: error. */
	int (*start)(const struct memory_space *, const struct memory_task *task, struct err *err);
	/* End the tasks of @owner: afterwards they neither access memory nor call done. */
	void (*cancel)(const struct memory_space *, const void *owner);
};

/* Host memory: page-aligned, on huge pages if the system has them. Thread-safe. */
extern const struct memory_space memory_host;

#endif
