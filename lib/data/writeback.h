/*
 * Write-back of a file that will be synced: what is written goes to the disk early, chunk by chunk,
 * and no more than a few chunks are on their way at once. So the fsync at the end finds little left
 * to do, and what has been written tells how much is on the disk, but for `behind` bytes.
 * writeback_chunks is thread-safe.
 */
#ifndef COLLCTL_DATA_WRITEBACK_H
#define COLLCTL_DATA_WRITEBACK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#define WRITEBACK_CHUNK  ((uint64_t)8 << 20)
#define WRITEBACK_CHUNKS 32

struct writeback {
	pthread_mutex_t lock;
	uint64_t begun[WRITEBACK_CHUNKS]; /* where the chunks begin that are on their way: a ring */
	unsigned first, n;
	_Atomic uint64_t behind; /* their bytes */
};

#define WRITEBACK_INIT                            \
	{                                         \
		.lock = PTHREAD_MUTEX_INITIALIZER \
	}

/* Bytes [pos, pos + bytes) of @fd, which is to have @size, were written: begin the write-back of
 * the chunks that end in them, and wait until not more than a sixteenth of the file, but at least
 * 16 and at most 32 chunks, is on its way. 0, or -1 with errno: the disk refuses what was written.
 */
int writeback_chunks(struct writeback *, int fd, uint64_t size, uint64_t pos, uint64_t bytes);
/* Wait for all that has begun. 0, or -1 with errno. */
int writeback_finish(struct writeback *, int fd);

#endif
