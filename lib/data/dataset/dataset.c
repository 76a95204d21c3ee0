#include "lib/data/dataset/dataset.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/base/path.h"
#include "lib/base/sort.h"
#include "lib/data/dataset/dataset_internal.h"
#include "lib/data/files/input.h"

/* ---- building ---- */

/* Takes ownership of @fd, also on failure. */
static int add_file(struct dataset *d, int fd, const char *path, const struct stat *was,
                    bool spooled, struct err *err)
{
	struct dataset_file *files =
	        err_grow(d->files, (size_t)d->nfiles, sizeof *files, "the files", err);
	if (!files) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	d->files = files;
	struct dataset_file *f = &files[d->nfiles++];
	*f = (struct dataset_file){.fd = fd,
	                           .path = err_strdup(path, "a path", err),
	                           .name = err_strdup(path_name(path), "a path", err),
	                           .size = (uint64_t)was->st_size,
	                           .was = *was,
	                           .spooled = spooled};
	return f->path && f->name ? d->nfiles - 1 : -1;
}

int dataset_add_file(struct dataset *d, int fd, const char *path, bool spooled, struct err *err)
{
	struct stat st;
	if (fstat(fd, &st) == 0)
		return add_file(d, fd, path, &st, spooled, err);
	err_errno(err, ERR_INPUT, "%s: cannot examine", path);
	close(fd);
	return -1;
}

int dataset_add_closed(struct dataset *d, const char *path, const struct stat *was, struct err *err)
{
	return add_file(d, -1, path, was, false, err);
}

/* Copy a number for each axis to *kept, and advance that. */
static const uint64_t *keep_axes(char **kept, const uint64_t *axes, size_t bytes)
{
	char *copy = *kept;
	if (bytes)
		memcpy(copy, axes, bytes);
	*kept += bytes;
	return (const uint64_t *)(const void *)copy;
}

int dataset_add_tensor(struct dataset *d, const struct tensor *t, int file, struct err *err)
{
	const size_t shape_bytes = (size_t)t->ndim * sizeof *t->shape;
	const size_t piece_bytes = (size_t)t->npieces * sizeof *t->pieces;
	const size_t name_bytes = strlen(t->name) + 1;
	char *kept = pool_alloc(&d->pool, 3 * shape_bytes + piece_bytes + name_bytes, "the tensors",
	                        err);
	struct tensor *tensors =
	        kept ? err_grow(d->tensors, d->ntensors, sizeof *tensors, "the tensors", err)
	             : NULL;
	if (!tensors)
		return -1;
	d->tensors = tensors;
	struct tensor *n = &tensors[d->ntensors++];
	*n = *t;
	n->file = file;
	n->shape = keep_axes(&kept, t->shape, shape_bytes);
	n->first = t->first ? keep_axes(&kept, t->first, shape_bytes) : NULL;
	n->whole = t->whole ? keep_axes(&kept, t->whole, shape_bytes) : NULL;
	if (piece_bytes)
		memcpy(kept, t->pieces, piece_bytes);
	n->pieces = (const struct tensor_piece *)(const void *)kept;
	kept += piece_bytes;
	memcpy(kept, t->name, name_bytes);
	n->name = kept;
	return 0;
}

int dataset_add_value(struct dataset *d, const char *name, const char *json, size_t len,
                      struct err *err)
{
	const size_t n = strlen(name) + 1;
	char *kept = pool_alloc(&d->pool, n + len + 1, "the tensors", err);
	struct dataset_value *values =
	        kept ? err_grow(d->values, d->nvalues, sizeof *values, "the values", err) : NULL;
	if (!values)
		return -1;
	d->values = values;
	memcpy(kept, name, n);
	memcpy(kept + n, json, len);
	kept[n + len] = '\0';
	values[d->nvalues++] = (struct dataset_value){kept, kept + n};
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct tensor *)a)->name, ((const struct tensor *)b)->name);
}

void dataset_arrange(struct dataset *d)
{
	sort_list(d->tensors, d->ntensors, sizeof *d->tensors, by_name);
}

int dataset_sort(struct dataset *d, struct err *err)
{
	dataset_arrange(d);
	for (size_t i = 1; i < d->ntensors; i++) {
		const struct tensor *a = &d->tensors[i - 1], *b = &d->tensors[i];
		if (a->first && b->first)
			continue;
		if (strcmp(a->name, b->name) == 0 && a->file == b->file)
			return err_set(err, ERR_INPUT, "%s: two tensors have the name '%.200s'",
			               d->path, a->name);
		if (strcmp(a->name, b->name) == 0)
			return err_set(err, ERR_INPUT, "%s: tensor '%.200s' is in both %s and %s",
			               d->path, a->name, d->files[a->file].name,
			               d->files[b->file].name);
	}
	return 0;
}

void dataset_close(struct dataset *d)
{
	for (int i = 0; i < d->nfiles; i++) {
		if (d->files[i].fd >= 0)
			close(d->files[i].fd);
		free(d->files[i].path);
		free(d->files[i].name);
		free(d->files[i].metadata);
	}
	for (int i = 0; i < d->nfolders; i++)
		free(d->folders[i].name);
	for (int i = 0; i < d->nlinks; i++) {
		free(d->links[i].name);
		free(d->links[i].target);
	}
	free(d->links);
	free(d->folders);
	free(d->files);
	free(d->tensors);
	free(d->values);
	free(d->path);
	free(d->index);
	free(d->index_metadata);
	pool_release(&d->pool);
	*d = (struct dataset){0};
}

/* ---- comparison ---- */

bool dataset_is_array(const struct dataset *d)
{
	return format_is_array(d->format);
}

bool dataset_is_archive(const struct dataset *d)
{
	return d->nfiles && d->files[d->nfiles - 1].unpacked;
}

/* The error begins "x.safetensors: tensor 'a': ", or "x.npy: " if the tensor has no name. */
static int differ(const struct dataset *a, const struct tensor *t, const struct dataset *b,
                  const struct tensor *u, struct err *err)
{
	char shape[ARRAY_SHAPE_TEXT], other[ARRAY_SHAPE_TEXT], which[256] = "";
	if (*t->name)
		snprintf(which, sizeof which, "tensor '%.200s': ", t->name);
	if (t->dtype != u->dtype)
		return err_set(err, ERR_INPUT, "%s: %sdtype %s differs from %s of %s", b->path,
		               which, dtype_name(u->dtype), dtype_name(t->dtype), a->path);
	return err_set(err, ERR_INPUT, "%s: %sshape %s differs from %s of %s", b->path, which,
	               tensor_shape_text(u, other), tensor_shape_text(t, shape), a->path);
}

static int lacks(const struct dataset *without, const struct dataset *with, const struct tensor *t,
                 struct err *err)
{
	return err_set(err, ERR_INPUT, "%s: lacks the tensor '%.200s' of %s", without->path,
	               t->name, with->path);
}

int dataset_same(const struct dataset *a, const struct dataset *b, struct err *err)
{
	for (size_t i = 0; i < a->ntensors || i < b->ntensors; i++) {
		const struct tensor *t = i < a->ntensors ? &a->tensors[i] : NULL;
		const struct tensor *u = i < b->ntensors ? &b->tensors[i] : NULL;
		int order = !t ? 1 : !u ? -1 : strcmp(t->name, u->name);
		if (order)
			return order < 0 ? lacks(b, a, t, err) : lacks(a, b, u, err);
		if (t->dtype != u->dtype || t->ndim != u->ndim ||
		    (t->ndim &&
		     memcmp(t->shape, u->shape, (size_t)t->ndim * sizeof *t->shape) != 0))
			return differ(a, t, b, u, err);
	}
	return 0;
}

/* ---- has a file changed? ---- */

static bool differs(struct timespec a, struct timespec b)
{
	return a.tv_sec != b.tv_sec || a.tv_nsec != b.tv_nsec;
}

/* Has the file, which now has the attributes @st, changed? */
static int compare(const struct dataset_file *f, const struct stat *st, struct err *err)
{
	if (st->st_size != f->was.st_size)
		return err_set(
		        err, ERR_INPUT,
		        "%s: was changed while it was read: its size is %llu bytes, not %llu",
		        f->path, (unsigned long long)st->st_size,
		        (unsigned long long)f->was.st_size);
	if (differs(st->st_mtim, f->was.st_mtim))
		return err_set(err, ERR_INPUT,
		               "%s: was changed while it was read: it has been written since",
		               f->path);
	/* A change in the number of links changes the ctime too: another rank may link this file to
	 * keep it as an old output. */
	if (differs(st->st_ctim, f->was.st_ctim) && st->st_nlink == f->was.st_nlink)
		return err_set(
		        err, ERR_INPUT,
		        "%s: was changed while it was read: its ctime differs, but not its size "
		        "and modification time",
		        f->path);
	return 0;
}

/* Of a file of a tree, by its name. */
static int compare_named(const struct dataset_file *f, const struct stat *st, struct err *err)
{
	if (!io_same_file(st, &f->was))
		return err_set(err, ERR_INPUT, "%s: was replaced while the folder was read",
		               f->path);
	return compare(f, st, err);
}

static int name_error(const struct dataset_file *f, struct err *err)
{
	if (errno == EMFILE || errno == ENFILE)
		return err_errno(err, ERR_RESOURCE, "%s: cannot open", f->path);
	if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)
		return err_set(err, ERR_INPUT, "%s: was %s while the folder was read", f->path,
		               errno == ENOENT ? "removed" : "replaced");
	return err_errno(err, ERR_INPUT, "%s: cannot open", f->path);
}

static int file_unchanged(const struct dataset *d, const struct dataset_file *f, struct err *err)
{
	struct stat st;
	if (d->tree)
		return lstat(f->path, &st) ? name_error(f, err) : compare_named(f, &st, err);
	if (fstat(f->fd, &st))
		return err_errno(err, ERR_INPUT, "%s: cannot examine", f->path);
	return compare(f, &st, err);
}

int dataset_unchanged(const struct dataset *d, struct err *err)
{
	for (int i = 0; i < d->nfiles; i++)
		if (!d->files[i].spooled && file_unchanged(d, &d->files[i], err))
			return -1;
	return 0;
}

/* ---- reading ---- */

int dataset_file_open(const struct dataset_file *f, struct err *err)
{
	struct stat st;
	if (f->fd >= 0)
		return f->fd;
	/* O_NONBLOCK: a FIFO that has replaced the file meanwhile must not block. */
	const int fd = io_retry(open(f->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
	if (fd < 0 || fstat(fd, &st))
		name_error(f, err);
	else if (compare_named(f, &st, err) == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

void dataset_file_close(const struct dataset_file *f, int fd)
{
	if (f->fd < 0 && fd >= 0)
		close(fd);
}

void dataset_in_memory(struct dataset *d, const void *data)
{
	d->files[0].memory = data;
	d->files[0].head = d->tensors[0].offset;
}

int dataset_pread(const struct dataset *d, int file, void *buf, size_t bytes, uint64_t pos,
                  struct err *err)
{
	const struct dataset_file *f = &d->files[file];
	/* Of these are in the file: */
	const size_t n = f->memory ? io_before(pos, bytes, f->head) : bytes;
	if (n < bytes)
		memcpy((char *)buf + n, f->memory + (pos + n - f->head), bytes - n);
	if (!n && bytes)
		return 0;
	const int fd = dataset_file_open(f, err);
	const int ret = fd < 0 ? -1 : input_pread(fd, f->path, buf, n, pos, err);
	dataset_file_close(f, fd);
	return ret;
}

int dataset_read(const struct dataset *d, const struct tensor *t, void *buf, size_t n, uint64_t at,
                 struct err *err)
{
	const struct tensor_piece whole = {t->file, t->offset, t->bytes};
	const struct tensor_piece *p = t->npieces ? t->pieces : &whole;
	char *to = buf;
	for (; n; p++) {
		if (at >= p->bytes) {
			at -= p->bytes;
			continue;
		}
		const size_t part = n < p->bytes - at ? n : (size_t)(p->bytes - at);
		if (dataset_pread(d, p->file, to, part, p->offset + at, err))
			return -1;
		to += part;
		n -= part;
		at = 0;
	}
	return 0;
}

int dataset_read_native(const struct dataset *d, const struct tensor *t, void *buf, size_t n,
                        uint64_t at, struct err *err)
{
	if (dataset_read(d, t, buf, n, at, err) < 0)
		return -1;
	if (t->swapped)
		dataset_swap(t->dtype, buf, n / dtype_size(t->dtype));
	return 0;
}

void dataset_swap(enum dtype dtype, void *buf, size_t n)
{
	size_t width = dtype_size(dtype);
	char *p = buf;
	if (dtype_is_complex(dtype)) {
		width /= 2;
		n *= 2;
	}
	for (size_t i = 0; i < n; i++, p += width) {
		uint16_t x2;
		uint32_t x4;
		uint64_t x8;
		switch (width) {
		case 2:
			memcpy(&x2, p, 2);
			x2 = __builtin_bswap16(x2);
			memcpy(p, &x2, 2);
			break;
		case 4:
			memcpy(&x4, p, 4);
			x4 = __builtin_bswap32(x4);
			memcpy(p, &x4, 4);
			break;
		case 8:
			memcpy(&x8, p, 8);
			x8 = __builtin_bswap64(x8);
			memcpy(p, &x8, 8);
			break;
		default:
			return;
		}
	}
}

/* ---- descriptions ---- */

void tensor_set_dtype(struct tensor *t, enum dtype dtype)
{
	if (dtype == t->dtype)
		return;
	t->dtype = dtype;
	t->bytes = t->count * dtype_size(dtype);
}

int tensor_info(const struct tensor *t, struct array_info *info)
{
	if (t->ndim > ARRAY_MAX_DIMS)
		return -1;
	*info = (struct array_info){.dtype = t->dtype,
	                            .ndim = t->ndim,
	                            .count = t->count,
	                            .swapped = t->swapped,
	                            .fortran = t->fortran};
	if (t->ndim)
		memcpy(info->shape, t->shape, (size_t)t->ndim * sizeof *t->shape);
	return 0;
}

char *tensor_shape_text(const struct tensor *t, char buf[ARRAY_SHAPE_TEXT])
{
	return array_axes_text(t->shape, t->ndim > ARRAY_MAX_DIMS ? 0 : t->ndim, buf);
}

uint64_t dataset_bytes(const struct dataset *d)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < d->ntensors; i++)
		bytes += d->tensors[i].bytes;
	return bytes;
}
