/*
 * Memory spaces: host memory, or the memory of a device. A space allocates the buffers of windows,
 * and runs tasks, the arithmetic on them. A task on a device completes later. Addresses in device
 * memory are dereferenced only by the device's space; the executor adds offsets to them and passes
 * them back. A task gives the same bits as the kernels of lib/data.
 *
 * The thread of the loop to which devices are attached uses their spaces, and runs `done`.
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
	MEMORY_JOINT, /* dst <- the joint operation of inputs[0] .. inputs[ninputs - 1] (joint.h) */
	MEMORY_IDENTITY, /* dst <- the operation's identity */
	MEMORY_OPS
};

/* A device accepts only CONVERT between equal types (a copy), FOLD and IDENTITY. The operands are
 * in its memory, in that of another device of the job, or in memory of the job's host space
 * (devices_host). */
struct memory_task {
	enum memory_op op;
	bool swapped, final;
	void *dst;
	const void *a, *b;
	/* FOLD, JOINT: each input is at inputs[k] + offset bytes. The array must outlive the task.
	 */
	uint8_t *const *inputs;
	uint64_t offset;
	int ninputs;
	uint64_t n;              /* elements */
	enum dtype to, of, with; /* of dst; of a and the inputs; of b */
	enum dtype acc; /* type of the computation if the types differ or the result is final */
	enum reduce_op reduce;
	double divisor;    /* for final, in an average */
	int cut;           /* JOINT: as in struct joint */
	const void *owner; /* for cancel */
	/* The task is complete; @why not NULL: it has failed. */
	void (*done)(void *ctx, const struct err *why);
	void *ctx;
};

struct memory_space {
	const char *name; /* for messages: "host", "cuda:1" */
	/* Allocate zeroed memory, aligned to 64 bytes or more. NULL: ERR_RESOURCE. */
	void *(*alloc)(const struct memory_space *, size_t bytes, struct err *err);
	void (*free)(const struct memory_space *, void *p, size_t bytes); /* @p may be NULL */
	/* Start a task; *task is copied. 1: it is complete, and done is not called (in host memory
	 * this is always so); 0: the loop calls done later; -1: error. */
	int (*start)(const struct memory_space *, const struct memory_task *task, struct err *err);
	/* Cancel the tasks of @owner: afterwards they do not access memory and do not call done. */
	void (*cancel)(const struct memory_space *, const void *owner);
};

/* Host memory: page-aligned, on huge pages if the system has them. Thread-safe. */
extern const struct memory_space memory_host;

#endif
