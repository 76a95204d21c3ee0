/*
 * Early write-back of a file that will be synced: chunks are written to disk while later bytes are
 * written to the file, so that the final fsync takes little time. writeback_chunks is thread-safe,
 * and so is reading the atomic members.
 */
#ifndef COLLCTL_DATA_FILES_WRITEBACK_H
#define COLLCTL_DATA_FILES_WRITEBACK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#define WRITEBACK_CHUNK  ((uint64_t)8 << 20)
#define WRITEBACK_CHUNKS 32

struct writeback {
	pthread_mutex_t lock;
	uint64_t begun[WRITEBACK_CHUNKS]; /* offsets of the chunks being written: a ring */
	unsigned first, n;
	_Atomic uint64_t stored; /* bytes that are known to be on disk */
	/* Of these, bytes for which a call has waited, and how long: the speed of the disk. Chunks
	 * that were on disk already say nothing about it. */
	_Atomic uint64_t waited, waited_ns;
};

#define WRITEBACK_INIT                            \
	{                                         \
		.lock = PTHREAD_MUTEX_INITIALIZER \
	}

/* Call it after writing the bytes [pos, pos + bytes) of @fd, whose final size is @size. Starts the
 * write-back of the chunks that end in this range. Waits while too many chunks are being written
 * back: more than a sixteenth of the file, but at least 16 and at most 32 chunks. 0; -1 with errno:
 * writing to disk failed. */
int writeback_chunks(struct writeback *, int fd, uint64_t size, uint64_t pos, uint64_t bytes);
/* Wait for all chunks that are being written, then fsync: all @size bytes are on disk. 0, or -1
 * with errno. */
int writeback_sync(struct writeback *, int fd, uint64_t size);

#endif
