/* Opening a dataset: the format, what can't seek, and the header of each format. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/data/dataset_internal.h"
#include "lib/data/input.h"
#include "lib/data/npz.h"
#include "lib/data/safetensors.h"
#include "lib/data/spool.h"

/* ---- .npy and raw ---- */

static int add_array(struct dataset *d, const char *name, const struct array_info *info,
                     uint64_t at, int file, struct err *err)
{
	const struct tensor t = {
	        .name = name,
	        .dtype = info->dtype,
	        .ndim = info->ndim,
	        .shape = info->shape,
	        .count = info->count,
	        .bytes = array_bytes(info),
	        .offset = at + info->offset,
	        .swapped = info->swapped,
	        .fortran = info->fortran,
	};
	return dataset_add_tensor(d, &t, file, err);
}

static int read_array(struct dataset *d, const struct array_hints *hints, struct err *err)
{
	const struct dataset_file *f = &d->files[0];
	struct array_info info;
	if (array_describe(f->fd, f->path, 0, f->size, d->format, hints, &info, err) ||
	    array_check_hints(f->path, hints, &info, err))
		return -1;
	return add_array(d, "", &info, 0, 0, err);
}

/* ---- .npz ---- */

struct unpacking {
	struct dataset *dataset;
	const struct array_hints *hints;
	int from, spool, file;
};

static int add_member(void *ctx, const char *name, uint64_t at, uint64_t bytes, struct err *err)
{
	const struct unpacking *u = ctx;
	const struct dataset_file *f = &u->dataset->files[u->file];
	struct array_info info;
	char *path;
	if (asprintf(&path, "%s: member '%.200s.npy'", f->path, name) < 0)
		return err_nomem(err, "a name", strlen(name));
	int ret = array_describe(f->fd, path, at, bytes, ARRAY_NPY, u->hints, &info, err);
	free(path);
	return ret ? -1 : add_array(u->dataset, name, &info, at, u->file, err);
}

static int unpack(void *arg, struct err *err)
{
	struct unpacking *u = arg;
	return npz_unpack(u->from, u->dataset->path, u->spool, add_member, u, err);
}

/* Unpack the archive @fd, the dataset's only file, into a spool. */
static int read_npz(struct dataset *d, int fd, const struct dataset_source *src,
                    const struct array_hints *hints, struct err *err)
{
	struct unpacking u = {.dataset = d, .hints = hints, .from = fd, .spool = spool_open(err)};
	struct stat st;
	if (u.spool < 0)
		return -1;
	u.file = dataset_add_file(d, u.spool, d->path, true, err);
	if (u.file < 0)
		return -1;
	d->files[u.file].unpacked = true;
	if (src->aside ? src->aside(src->ctx, unpack, &u, err) : unpack(&u, err))
		return -1;
	if (fstat(u.spool, &st))
		return err_errno(err, ERR_RESOURCE, "%s: the spool", d->path);
	d->files[u.file].size = (uint64_t)st.st_size;
	return 0;
}

/* ---- .safetensors ---- */

struct shard {
	struct dataset *dataset;
	int file;
};

static int add_shard_tensor(void *ctx, const struct tensor *t, struct err *err)
{
	const struct shard *s = ctx;
	return dataset_add_tensor(s->dataset, t, s->file, err);
}

int dataset_add_safetensors(struct dataset *d, int file, struct err *err)
{
	struct dataset_file *f = &d->files[file];
	struct shard shard = {d, file};
	struct err why = {0};
	uint8_t prefix[SAFETENSORS_PREFIX] = {0};
	size_t len = 0, have = f->size < sizeof prefix ? (size_t)f->size : sizeof prefix;
	if (input_pread(f->fd, f->path, prefix, have, 0, err))
		return -1;
	if (safetensors_header_len(prefix, f->size, &len, &why))
		return err_set(err, why.code, "%s: %s", f->path, why.text);
	char *json = malloc(len + 1);
	if (!json)
		return err_nomem(err, "a header", len);
	int ret = input_pread(f->fd, f->path, json, len, sizeof prefix, err);
	if (ret == 0) {
		ret = safetensors_parse(json, len, f->size, add_shard_tensor, &shard, &f->metadata,
		                        &why);
		if (ret)
			err_set(err, why.code, "%s: %s", f->path, why.text);
	}
	free(json);
	return ret;
}

/* ---- opening ---- */

/* Descriptions on the command line are for single arrays. */
static int check_described(const char *path, enum array_format format,
                           const struct array_hints *hints, struct err *err)
{
	bool may_lose_type = hints->dtype == DTYPE_BF16 || hints->dtype == DTYPE_F8E4M3 ||
	                     hints->dtype == DTYPE_F8E5M2;
	if (format == ARRAY_NPY || format == ARRAY_RAW)
		return 0;
	if (hints->shape)
		return err_set(err, ERR_USAGE, "%s: its tensors have shapes: leave out --shape",
		               path);
	if (hints->dtype != DTYPE_NONE && !(format == ARRAY_NPZ && may_lose_type))
		return err_set(err, ERR_USAGE, "%s: its tensors have types: leave out --dtype",
		               path);
	return 0;
}

/* Spool all that comes from @from. */
static int spool_input(int from, const char *name, const struct dataset_source *src,
                       struct err *err)
{
	int fd = spool_open(err);
	if (fd < 0)
		return -1;
	if (spool_copy(from, name, fd, "the spool of what came", ERR_RESOURCE, src->await, src->ctx,
	               err)) {
		close(fd);
		return -1;
	}
	return fd;
}

static int spool_fifo(const char *path, const struct dataset_source *src, struct err *err)
{
	int from = io_retry(
	        open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)); /* nor waits for a writer */
	if (from < 0)
		return err_errno(err, ERR_INPUT, "%s: cannot open", path);
	int fd = spool_input(from, path, src, err);
	close(from);
	return fd;
}

static bool is_fifo(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 && S_ISFIFO(st.st_mode);
}

/* What no name tells of a pipe's format, --dtype does. */
static int find_format(struct dataset *d, const char *path, bool pipe,
                       const struct dataset_source *src, struct err *err)
{
	const struct array_hints *h = src->hints;
	struct err no_name = {0};
	d->format = src->raw_file ? ARRAY_RAW : h->format;
	if (d->format != ARRAY_FORMAT_AUTO)
		return 0;
	if (!pipe)
		return array_format_of(path, ARRAY_FORMAT_AUTO, &d->format, err);
	if (strcmp(path, "-") == 0 ||
	    array_format_of(path, ARRAY_FORMAT_AUTO, &d->format, &no_name))
		d->format =
		        h->dtype == DTYPE_NONE || h->dtype == DTYPE_BF16 ? ARRAY_NPY : ARRAY_RAW;
	return 0;
}

static int open_input(const struct dataset *d, const char *path, bool pipe,
                      const struct dataset_source *src, struct err *err)
{
	struct stat st;
	if (!pipe)
		return input_open(path, &st, err);
	return strcmp(path, "-") == 0 ? spool_input(STDIN_FILENO, d->path, src, err)
	                              : spool_fifo(path, src, err);
}

static int open_file(struct dataset *d, const char *path, bool pipe,
                     const struct dataset_source *src, const struct array_hints *hints,
                     struct err *err)
{
	int fd = open_input(d, path, pipe, src, err);
	if (fd < 0)
		return -1;
	if (dataset_add_file(d, fd, d->path, pipe, err) < 0)
		return -1;
	if (d->format == ARRAY_NPZ)
		return read_npz(d, fd, src, hints, err);
	return d->format == ARRAY_SAFETENSORS ? dataset_add_safetensors(d, 0, err)
	                                      : read_array(d, hints, err);
}

static int open_any(struct dataset *d, const char *path, const struct dataset_source *src,
                    struct err *err)
{
	static const struct array_hints bytes = {.format = ARRAY_RAW, .dtype = DTYPE_U8};
	const struct array_hints *hints = src->raw_file ? &bytes : src->hints;
	bool is_stdin = strcmp(path, "-") == 0, pipe = is_stdin || is_fifo(path);
	d->path = strdup(is_stdin ? "stdin" : path);
	if (!d->path)
		return err_nomem(err, "a path", strlen(path));
	if (find_format(d, path, pipe, src, err) || check_described(d->path, d->format, hints, err))
		return -1;
	if (src->raw_file && src->skip && !pipe && array_is_folder(path))
		return dataset_open_tree(d, src, err);
	if (d->format == ARRAY_SAFETENSORS && !pipe &&
	    (array_is_index(path) || array_is_folder(path)))
		return dataset_open_set(d, err);
	return open_file(d, path, pipe, src, hints, err);
}

int dataset_open(struct dataset *d, const char *path, const struct dataset_source *src,
                 struct err *err)
{
	*d = (struct dataset){0};
	if (open_any(d, path, src, err) || dataset_sort(d, err)) {
		dataset_close(d);
		return -1;
	}
	return 0;
}
