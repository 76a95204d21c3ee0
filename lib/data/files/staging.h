/*
 * The bytes of many small outputs, one after the other in one unnamed file, until the outputs are
 * sealed. A file for each from the beginning would cost a descriptor each, and twice the time: the
 * file system would record that the file has no name yet. Sizes are bytes. One thread, except where
 * a function is thread-safe.
 */
#ifndef COLLCTL_DATA_FILES_STAGING_H
#define COLLCTL_DATA_FILES_STAGING_H

#include "lib/data/files/outfile.h"

#define STAGED_MOST (64u << 10) /* bytes of an output that is staged */
#define STAGED_FROM 64          /* so many of them are worth it */

/* Empty when zeroed. */
struct staging {
	struct outfile spool;
	uint64_t bytes; /* of all outputs */
	char *ahead;    /* what staging_read has read: */
	uint64_t from;
	size_t len;
};

/* May one file have so many bytes (ulimit -f)? */
bool staging_may_hold(uint64_t bytes);
/* Before staging_open: the place of an output of @bytes. */
uint64_t staging_add(struct staging *, uint64_t bytes);
/* Create the file by outfile_open_aside, for an output @path below its first @top bytes. Errors
 * name this folder. */
int staging_open(struct staging *, const char *path, size_t top, struct err *err);
/* Thread-safe for different ranges. */
int staging_pwrite(struct staging *, const void *buf, size_t bytes, uint64_t at, struct err *err);
int staging_pread(struct staging *, void *buf, size_t bytes, uint64_t at, struct err *err);
/* The @bytes at @at, at most STAGED_MOST, until the next call; NULL: error. Best in the order of
 * the places. */
const void *staging_read(struct staging *, size_t bytes, uint64_t at, struct err *err);
void staging_release(struct staging *);

/* Write all data of the file system of @dirfd to disk: of many files it is faster than an fsync of
 * each. Returns as fsync does; errors count from when @dirfd was opened. */
int staging_sync(int dirfd);
/* Is that as good as an fsync of each? The file system must do all that fsync does (FUSE and SMB do
 * not ask their servers), and the kernel report errors: Linux does from 5.8 on. */
bool staging_can_sync(int dirfd);

#endif
