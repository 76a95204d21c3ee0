/*
 * Would files fit on their file systems? For file systems and files whose bytes cannot be allocated
 * before they are written. One thread.
 */
#ifndef COLLCTL_DATA_FILES_ROOM_H
#define COLLCTL_DATA_FILES_ROOM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/vfs.h>

#include "lib/base/err.h"

/* Bytes that this user may still write; UINT64_MAX: the file system does not say, or compresses. */
uint64_t room_left(const struct statfs *);

/* What the outputs need, by file system. Zeroed: nothing. */
struct room {
	struct room_needs {
		int host;        /* of several hosts' needs (room_merge) */
		uint64_t device; /* st_dev */
		uint64_t bytes, left;
		const char *first; /* a file on it, of the lowest rank; borrowed */
		int rank;          /* of that file; 0 within one rank */
		uint64_t files;
	} * on;
	size_t n;
};
/* @files, of which one is @path, are to be written to the file system of @fd, @bytes in all. */
int room_add(struct room *, int fd, const char *path, uint64_t files, uint64_t bytes,
             struct err *err);
/* The same, for one file in a folder that does not exist yet: on the file system of the next folder
 * above that exists. */
int room_add_absent(struct room *, const char *path, uint64_t bytes, struct err *err);
/* Add the needs of another rank, whose `first` must outlive @r. ERR_RESOURCE. */
int room_merge(struct room *, const struct room_needs *, struct err *err);
/* ERR_OUTPUT: they do not fit; names the first file, what all need and what is left. */
int room_check(const struct room *, struct err *err);
void room_release(struct room *);

#endif
