/*
 * Arrays in memory, as .npy files in memory (memfd): a job reads and writes them as other files.
 * One thread.
 */
#ifndef COLLCTL_COLL_FILES_MEMORY_ARRAY_H
#define COLLCTL_COLL_FILES_MEMORY_ARRAY_H

#include "lib/base/err.h"
#include "lib/data/formats/array.h"

/* The name of the file, with which this process opens it. */
#define MEMORY_ARRAY_PATH 32
void memory_array_path(int fd, char path[MEMORY_ARRAY_PATH]);

/* A file with a copy of the array @data in C order. The caller closes it. -1: ERR_USAGE: there is
 * no such array, or .npy lacks its type. */
int memory_array_write(const void *data, enum dtype dtype, const uint64_t *shape, int ndim,
                       struct err *err);

/* A file that is mapped. */
struct memory_array {
	struct array_info info;
	void *map; /* NULL: it is not mapped */
	size_t bytes;
};

/* Map the file @fd. @hint: the type, if .npy lacks its name. */
int memory_array_map(struct memory_array *, int fd, enum dtype hint, struct err *err);
void memory_array_unmap(struct memory_array *);
/* Its elements. */
void *memory_array_data(const struct memory_array *);

#endif
