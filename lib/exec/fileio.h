/*
 * File transfers beside the network: one thread reads ahead, one writes behind, each through a
 * list of jobs. A job is a range of elements between a buffer and the file; it may go as far as
 * its `limit`, and `done` tells how far it is. Both are counts of elements in ascending order: the
 * frontier rule reaches into the files.
 */
#ifndef COLLCTL_EXEC_FILEIO_H
#define COLLCTL_EXEC_FILEIO_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"

/* What moves elements: called on the file threads, one at a time for reads and one for writes. */
struct fileio_ops {
	/* Fill @buf with @n elements of input @input of part @part (exec.h), from element @pos of
	 * it on. */
	int (*read)(void *ctx, int part, int input, void *buf, uint64_t pos, uint64_t n,
	            struct err *err);
	/* Store @n elements at @pos of the part's output. @final: the operation's last function is
	 * still to be applied.
	 * @buf is not to be written: the same elements may be on their way to a peer. */
	int (*write)(void *ctx, int part, const void *buf, uint64_t pos, uint64_t n, bool final,
	             struct err *err);
	void *ctx;
};

/* Where a window's elements stand in the file: block k is elements [at[k], at[k+1]) of the window
 * and begins at file[k]. Ascending. */
struct fileio_map {
	int nblocks;
	uint64_t *at;   /* [nblocks + 1] */
	uint64_t *file; /* [nblocks] */
};

struct fileio_job {
	bool write, final;
	int part, input;
	size_t esize; /* bytes of an element in the buffer */
	uint8_t *buf;
	const struct fileio_map *map;
	uint64_t pos, count; /* elements of the window */
	uint64_t limit;      /* guarded by the worker's lock */
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
};

struct fileio {
	struct fileio_ops ops;
	int eventfd; /* readable: something moved or failed; -1: no threads, jobs run in submit */
	_Atomic bool armed; /* the owner is about to sleep: the next transfer writes the eventfd */
	_Atomic unsigned moves; /* transfers that have ended */
	_Atomic bool failed;
	struct err err; /* valid once failed is set */
	struct fileio_worker reader, writer;
};

/* @threads: false runs every job at once in the caller (small files, tests). */
int fileio_init(struct fileio *, const struct fileio_ops *, bool threads, struct err *err);
/* Stops the threads after the transfer under way. */
void fileio_release(struct fileio *);
/* Queue @job (the caller's until done == count) with its first limit. */
void fileio_submit(struct fileio *, struct fileio_job *job);
void fileio_raise(struct fileio *, struct fileio_job *job, uint64_t limit);
/* The owner is about to wait on the eventfd: from now on a transfer makes it readable, once. After
 * it the owner must look at its jobs once more. */
void fileio_arm(struct fileio *);
/* 0, or -1 and the first failure. */
int fileio_check(struct fileio *, struct err *err);

#endif
