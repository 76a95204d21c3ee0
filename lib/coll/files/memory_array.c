#include "lib/coll/files/memory_array.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/data/files/input.h"

void memory_array_path(int fd, char path[MEMORY_ARRAY_PATH])
{
	snprintf(path, MEMORY_ARRAY_PATH, "/proc/self/fd/%d", fd);
}

static int describe(struct array_info *info, enum dtype dtype, const uint64_t *shape, int ndim,
                    struct err *err)
{
	*info = (struct array_info){.format = &format_npy, .dtype = dtype, .ndim = ndim};
	if (ndim < 0 || ndim > ARRAY_MAX_DIMS || (ndim && !shape))
		return err_set(err, ERR_USAGE, "an array has 0 to %d dimensions, not %d",
		               ARRAY_MAX_DIMS, ndim);
	if (ndim)
		memcpy(info->shape, shape, (size_t)ndim * sizeof *shape);
	if (array_count(info) < 0)
		return err_set(err, ERR_USAGE, "an array in memory is too large");
	return 0;
}

int memory_array_begin(struct memory_array *m, const void *data, enum dtype dtype,
                       const uint64_t *shape, int ndim, struct err *err)
{
	char head[ARRAY_HEADER_MAX];
	*m = (struct memory_array){.data = data};
	if (describe(&m->info, dtype, shape, ndim, err) < 0)
		return -1;
	const long len = npy_header(&m->info, head, sizeof head);
	const uint64_t bytes = array_bytes(&m->info);
	if (len < 0 || (bytes && !data))
		return err_set(err, ERR_USAGE, "an array in memory cannot have the type %s%s",
		               dtype_name(dtype), len < 0 ? "" : " and no address");
	m->info.offset = (uint64_t)len;
	const int fd = memfd_create("collctl-array", MFD_CLOEXEC);
	if (fd < 0)
		return err_errno(err, ERR_RESOURCE, "memory for an input");
	if (write_all(fd, head, (size_t)len) == 0 &&
	    ftruncate(fd, (off_t)(m->info.offset + bytes)) == 0)
		return fd;
	err_errno(err, ERR_RESOURCE, "memory for an input");
	close(fd);
	return -1;
}

int memory_array_fill(const struct memory_array *m, int fd, struct err *err)
{
	return pwrite_all(fd, m->data, array_bytes(&m->info), m->info.offset) < 0
	               ? err_errno(err, ERR_RESOURCE, "memory for an input")
	               : 0;
}

int memory_array_describe(struct memory_array *m, int fd, enum dtype hint, struct err *err)
{
	const struct array_hints hints = {.format = &format_npy, .dtype = hint};
	struct stat st;
	*m = (struct memory_array){0};
	if (fstat(fd, &st) < 0)
		return err_errno(err, ERR_RESOURCE, "an array in memory");
	return format_npy.describe(fd, "an array in memory", 0, (uint64_t)st.st_size, &hints,
	                           &m->info, err);
}

int memory_array_read(struct memory_array *m, int fd, void *to, struct err *err)
{
	m->data = to;
	return input_pread(fd, "an array in memory", to, array_bytes(&m->info), m->info.offset,
	                   err);
}

/* The head has some bytes, so the length is not 0. */
static size_t length(const struct memory_array *m)
{
	return m->info.offset + array_bytes(&m->info);
}

int memory_array_map(struct memory_array *m, int fd, struct err *err)
{
	void *map = mmap(NULL, length(m), PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		return err_errno(err, ERR_RESOURCE, "an array in memory");
	m->map = map;
	m->data = (char *)map + m->info.offset;
	return 0;
}

void memory_array_unmap(struct memory_array *m)
{
	if (m->map)
		munmap(m->map, length(m));
	m->map = NULL;
}
