/* Opens a dataset: finds its format and spools what cannot seek. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/data/dataset/dataset_internal.h"
#include "lib/data/files/input.h"
#include "lib/data/files/spool.h"
#include "lib/data/formats/foreign.h"

/* Refuse --dtype and --shape for formats other than single arrays. */
static int check_described(const char *path, const struct format *format,
                           const struct array_hints *hints, struct err *err)
{
	if (format_is_array(format))
		return 0;
	if (hints->shape)
		return err_set(err, ERR_USAGE, "%s: its tensors have shapes: remove --shape", path);
	if (hints->dtype != DTYPE_NONE && !(format->loses && format->loses(hints->dtype)))
		return err_set(err, ERR_USAGE, "%s: its tensors have types: remove --dtype", path);
	return 0;
}

/* Copy @from to a spool. */
static int spool_input(int from, const char *name, const struct dataset_source *src,
                       struct err *err)
{
	int fd = spool_open(err);
	if (fd < 0)
		return -1;
	if (spool_copy(from, name, fd, "the spool of the input", ERR_RESOURCE, src->await, src->ctx,
	               err)) {
		close(fd);
		return -1;
	}
	return fd;
}

static int spool_fifo(const char *path, const struct dataset_source *src, struct err *err)
{
	int from = io_retry(
	        open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)); /* does not wait for a writer */
	if (from < 0)
		return err_errno(err, ERR_INPUT, "%s: cannot open", path);
	int fd = spool_input(from, path, src, err);
	close(from);
	return fd;
}

bool dataset_is_pipe(const char *path)
{
	struct stat st;
	return strcmp(path, "-") == 0 || (stat(path, &st) == 0 && S_ISFIFO(st.st_mode));
}

/* A .bin may be a file of torch.save, and a name may say no format: what do the first bytes say? */
static int find_format_of_file(struct dataset *d, const char *path, struct err *err)
{
	struct err unknown = ERR_INIT, unread = unknown;
	struct stat st;
	const int named = format_of(path, NULL, &d->format, &unknown);
	if (named == 0 && d->format == &format_torch && path_is_folder(path))
		d->format = &format_safetensors; /* folders are sets, whatever their names end in */
	if (named == 0 && d->format != &format_raw)
		return 0;
	if (format_refusal(path))
		return err_pass(err, &unknown);
	int fd = input_open(path, &st, &unread), ret = named;
	if (fd >= 0 && foreign_is_torch(fd, (uint64_t)st.st_size)) {
		d->format = &format_torch;
		ret = 0;
	} else if (ret < 0 && fd < 0) {
		err_pass(err, &unread); /* a missing file has no format */
	} else if (ret < 0 && !foreign_check(fd, path, (uint64_t)st.st_size, err)) {
		err_pass(err, &unknown);
	}
	if (fd >= 0)
		close(fd);
	return ret;
}

/* A pipe without an extension is raw if --dtype is given. --dtype bf16 may also describe .npy. */
static int find_format(struct dataset *d, const char *path, bool pipe,
                       const struct dataset_source *src, struct err *err)
{
	const struct array_hints *h = src->hints;
	struct err no_name = {0};
	d->format = src->raw_file ? &format_raw : h->format;
	if (d->format)
		return 0;
	if (!pipe)
		return find_format_of_file(d, path, err);
	if (strcmp(path, "-") == 0 || format_of(path, NULL, &d->format, &no_name))
		d->format = h->dtype == DTYPE_NONE || h->dtype == DTYPE_BF16 ? &format_npy
		                                                             : &format_raw;
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
	return d->format->open(d, src, hints, err);
}

static int open_any(struct dataset *d, const char *path, const struct dataset_source *src,
                    struct err *err)
{
	static const struct array_hints bytes = {.format = &format_raw, .dtype = DTYPE_U8};
	const struct array_hints *hints = src->raw_file ? &bytes : src->hints;
	const bool is_stdin = strcmp(path, "-") == 0, pipe = dataset_is_pipe(path);
	if (!(d->path = err_strdup(is_stdin ? "stdin" : path, "a path", err)))
		return -1;
	if (find_format(d, path, pipe, src, err) || check_described(d->path, d->format, hints, err))
		return -1;
	if (src->raw_file && src->skip && !pipe && path_is_folder(path))
		return dataset_open_tree(d, src, err);
	if (src->links)
		return err_set(err, ERR_USAGE,
		               "%s: --links copies the symbolic links of a folder, and this is a "
		               "file: name a folder, or remove --links",
		               d->path);
	if (src->raw_file && src->names && (src->names->ninclude || src->names->nexclude))
		return err_set(
		        err, ERR_USAGE,
		        "%s: --include and --exclude with --raw-file choose files of a folder "
		        "that is broadcast or gathered: remove them",
		        d->path);
	if (d->format->open_set && !pipe && (path_is_index(path) || path_is_folder(path)))
		return d->format->open_set(d, src, err);
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
