#include "lib/coll/files/memory_array.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/io.h"

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

int memory_array_write(const void *data, enum dtype dtype, const uint64_t *shape, int ndim,
                       struct err *err)
{
	struct array_info info;
	char head[ARRAY_HEADER_MAX];
	if (describe(&info, dtype, shape, ndim, err) < 0)
		return -1;
	const long len = npy_header(&info, head, sizeof head);
	const uint64_t bytes = array_bytes(&info);
	if (len < 0 || (bytes && !data))
		return err_set(err, ERR_USAGE, "an array in memory cannot have the type %s%s",
		               dtype_name(dtype), len < 0 ? "" : " and no address");
	const int fd = memfd_create("collctl-array", MFD_CLOEXEC);
	if (fd < 0)
		return err_errno(err, ERR_RESOURCE, "memory for an input");
	if (write_all(fd, head, (size_t)len) == 0 && write_all(fd, data, bytes) == 0)
		return fd;
	err_errno(err, ERR_RESOURCE, "memory for an input");
	close(fd);
	return -1;
}

int memory_array_map(struct memory_array *m, int fd, enum dtype hint, struct err *err)
{
	const struct array_hints hints = {.format = &format_npy, .dtype = hint};
	struct stat st;
	*m = (struct memory_array){0};
	if (fstat(fd, &st) < 0)
		return err_errno(err, ERR_RESOURCE, "an array in memory");
	const uint64_t size = (uint64_t)st.st_size;
	if (format_npy.describe(fd, "an array in memory", 0, size, &hints, &m->info, err) < 0)
		return -1;
	void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		return err_errno(err, ERR_RESOURCE, "an array in memory");
	m->map = map;
	m->bytes = size;
	return 0;
}

void memory_array_unmap(struct memory_array *m)
{
	if (m->map)
		munmap(m->map, m->bytes);
	m->map = NULL;
}

void *memory_array_data(const struct memory_array *m)
{
	return (char *)m->map + m->info.offset;
}
