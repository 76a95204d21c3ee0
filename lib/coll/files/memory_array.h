/*
 * Arrays in memory, as .npy files in memory (memfd): a job reads and writes them as other files.
 * The file of an array that a job reads or writes in its place has only its head, and the right
 * length. One thread.
 */
#ifndef COLLCTL_COLL_FILES_MEMORY_ARRAY_H
#define COLLCTL_COLL_FILES_MEMORY_ARRAY_H

#include "lib/base/err.h"
#include "lib/data/formats/array.h"

/* The name of the file, with which this process opens it. */
#define MEMORY_ARRAY_PATH 32
void memory_array_path(int fd, char path[MEMORY_ARRAY_PATH]);

struct memory_array {
	struct array_info info;
	const void *data; /* the elements, in C order; memory_array_read and _map set it */
	void *map;        /* the file, if it is mapped; else NULL */
};

/* Describe the array @data in C order, and make its file, without the elements. Returns the file,
 * which the caller closes. -1: ERR_USAGE: there is no such array, or .npy lacks its type. */
int memory_array_begin(struct memory_array *, const void *data, enum dtype dtype,
                       const uint64_t *shape, int ndim, struct err *err);
/* Copy the elements to the file. */
int memory_array_fill(const struct memory_array *, int fd, struct err *err);

/* Describe the array of the file @fd. @hint: the type, if .npy lacks its name. */
int memory_array_describe(struct memory_array *, int fd, enum dtype hint, struct err *err);
/* Then copy its elements to @to, or map the file. */
int memory_array_read(struct memory_array *, int fd, void *to, struct err *err);
int memory_array_map(struct memory_array *, int fd, struct err *err);
void memory_array_unmap(struct memory_array *);

#endif
