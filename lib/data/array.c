#include "lib/data/array.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_READ 128 /* the whole header of nearly every .npy file */

/* ---- shapes ---- */

int array_count(struct array_info *info)
{
	uint64_t nonzero = dtype_size(info->dtype), count = 1;
	for (int i = 0; i < info->ndim; i++) {
		count *= info->shape[i];
		if (info->shape[i] && (__builtin_mul_overflow(nonzero, info->shape[i], &nonzero) ||
		                       nonzero > INT64_MAX))
			return -1;
	}
	info->count = count;
	return 0;
}

uint64_t array_bytes(const struct array_info *info)
{
	return info->count * dtype_size(info->dtype);
}

int array_check_size(const struct array_info *info, uint64_t file_size, struct err *err)
{
	char shape[ARRAY_SHAPE_TEXT];
	uint64_t data = file_size - info->offset, bytes = array_bytes(info);
	if (data == bytes)
		return 0;
	return err_set(err, ERR_INPUT,
	               "has %" PRIu64 " bytes of data: expected %" PRIu64 " for %s of shape %s",
	               data, bytes, dtype_name(info->dtype), array_shape_text(info, shape));
}

char *array_shape_text(const struct array_info *info, char buf[ARRAY_SHAPE_TEXT])
{
	size_t n = 0;
	buf[n++] = '(';
	/* With the non-zero dimensions' product below 2^63 the worst case is far from the limit; a
	 * shape that was never counted is cut. */
	for (int i = 0; i < info->ndim && n < ARRAY_SHAPE_TEXT - 32; i++)
		n += (size_t)snprintf(buf + n, ARRAY_SHAPE_TEXT - n, "%s%" PRIu64, i ? ", " : "",
		                      info->shape[i]);
	snprintf(buf + n, ARRAY_SHAPE_TEXT - n, "%s)", info->ndim == 1 ? "," : "");
	return buf;
}

bool array_same(const struct array_info *a, const struct array_info *b)
{
	return a->dtype == b->dtype && a->ndim == b->ndim &&
	       !memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof a->shape[0]);
}

/* "3,4", "(3, 4)", "3", "(3,)" or "()". */
static int parse_shape(const char *text, struct array_info *info, struct err *err)
{
	const char *p = text;
	bool parenthesis = *p == '(';
	p += parenthesis;
	info->ndim = 0;
	while (isdigit((unsigned char)*p) && info->ndim < ARRAY_MAX_DIMS) {
		char *end;
		errno = 0;
		info->shape[info->ndim++] = strtoull(p, &end, 10);
		if (errno)
			return err_set(err, ERR_USAGE, "--shape '%s': is too large", text);
		p = end;
		if (*p != ',')
			break;
		p++;
		p += strspn(p, " ");
	}
	if ((parenthesis && *p++ != ')') || *p || (!parenthesis && !info->ndim))
		return err_set(err, ERR_USAGE, "--shape '%s': expected one such as 3,4", text);
	if (array_count(info))
		return err_set(err, ERR_USAGE, "--shape '%s': is too large", text);
	return 0;
}

/* ---- formats ---- */

static bool has_suffix(const char *path, const char *suffix)
{
	size_t n = strlen(path), m = strlen(suffix);
	return n > m && !strcasecmp(path + n - m, suffix);
}

static const struct {
	const char *suffix;
	enum array_format format;
	const char *why_not; /* for those that are not read */
} suffixes[] = {
        {".npy", ARRAY_NPY, NULL},
        {".bin", ARRAY_RAW, NULL},
        {".raw", ARRAY_RAW, NULL},
        {".safetensors", ARRAY_FORMAT_AUTO, "safetensors is not supported yet: save it as .npy"},
        {".safetensors.index.json", ARRAY_FORMAT_AUTO,
         "safetensors is not supported yet: save the tensors as .npy"},
        {".npz", ARRAY_FORMAT_AUTO, ".npz is not supported yet: save each array as .npy"},
        {".pt", ARRAY_FORMAT_AUTO,
         "is a pickle, which can run code: convert it with numpy.save(\"x.npy\", tensor.numpy())"},
        {".pth", ARRAY_FORMAT_AUTO,
         "is a pickle, which can run code: convert it with numpy.save(\"x.npy\", tensor.numpy())"},
        {".gguf", ARRAY_FORMAT_AUTO,
         "holds quantised blocks, which cannot be reduced: start from the original weights"},
};

int array_format_of(const char *path, enum array_format hint, enum array_format *out,
                    struct err *err)
{
	*out = hint;
	if (hint != ARRAY_FORMAT_AUTO)
		return 0;
	for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
		if (!has_suffix(path, suffixes[i].suffix))
			continue;
		if (suffixes[i].why_not)
			return err_set(err, ERR_USAGE, "%s: %s", path, suffixes[i].why_not);
		*out = suffixes[i].format;
		return 0;
	}
	return err_set(err, ERR_USAGE,
	               "%s: unknown format: expected .npy, .bin or .raw, or --format npy|raw",
	               path);
}

/* ---- opening and reading ---- */

static int open_input(struct array_file *f, uint64_t *size, struct err *err)
{
	struct stat st;
	/* O_NONBLOCK: opening a FIFO must not wait for its writer. */
	f->fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (f->fd < 0)
		return err_errno(err, ERR_INPUT, "%s: cannot open", f->path);
	if (fstat(f->fd, &st))
		return err_errno(err, ERR_INPUT, "%s: cannot examine", f->path);
	if (S_ISDIR(st.st_mode))
		return err_set(err, ERR_INPUT, "%s: is a directory: expected a file", f->path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_INPUT, "%s: is not a regular file: write it to one first",
		               f->path);
	*size = (uint64_t)st.st_size;
	f->modified = st.st_mtim;
	return 0;
}

static int open_npy(struct array_file *f, const struct array_hints *hints, uint64_t size,
                    struct err *err)
{
	/* The parser never asks for more: it refuses longer headers. */
	char buf[ARRAY_HEADER_MAX];
	struct err why = {0};
	size_t len = size < FIRST_READ ? (size_t)size : FIRST_READ, need;
	int r;
	do {
		if (array_pread(f, buf, len, 0, err))
			return -1;
		r = npy_parse(buf, len, size, hints->dtype, &f->info, &need, &why);
		len = need;
	} while (r > 0);
	if (r)
		return err_set(err, why.code, "%s: %s", f->path, why.text);
	if (f->info.swapped || f->info.fortran)
		return err_set(err, ERR_INPUT,
		               "%s: is %s, which is not supported yet: save it with "
		               "numpy.ascontiguousarray(a, a.dtype.newbyteorder('<'))",
		               f->path, f->info.swapped ? "big-endian" : "in Fortran's order");
	return 0;
}

static int open_raw(struct array_file *f, const struct array_hints *hints, uint64_t size,
                    struct err *err)
{
	struct array_info *info = &f->info;
	struct err why = {0};
	*info = (struct array_info){.format = ARRAY_RAW, .dtype = hints->dtype};
	if (hints->dtype == DTYPE_NONE)
		return err_set(err, ERR_USAGE, "%s: a raw file needs --dtype", f->path);
	if (hints->shape) {
		if (parse_shape(hints->shape, info, err))
			return -1;
	} else {
		info->ndim = 1;
		info->shape[0] = size / dtype_size(hints->dtype);
		if (array_count(info))
			return err_set(err, ERR_INPUT, "%s: is too large", f->path);
		if (size % dtype_size(hints->dtype))
			return err_set(err, ERR_INPUT,
			               "%s: has %" PRIu64 " bytes: expected a multiple of %zu for "
			               "%s",
			               f->path, size, dtype_size(hints->dtype),
			               dtype_name(hints->dtype));
	}
	if (array_check_size(info, size, &why))
		return err_set(err, why.code, "%s: %s", f->path, why.text);
	return 0;
}

/* What the file says must be what the command line says, where both say it. */
static int check_hints(const struct array_file *f, const struct array_hints *hints, struct err *err)
{
	char found[ARRAY_SHAPE_TEXT], given[ARRAY_SHAPE_TEXT];
	struct array_info said = f->info;
	if (hints->dtype != DTYPE_NONE && hints->dtype != f->info.dtype)
		return err_set(err, ERR_INPUT, "%s: dtype %s differs from --dtype %s", f->path,
		               dtype_name(f->info.dtype), dtype_name(hints->dtype));
	if (hints->shape && parse_shape(hints->shape, &said, err))
		return -1;
	if (!array_same(&said, &f->info))
		return err_set(err, ERR_INPUT, "%s: shape %s differs from --shape %s", f->path,
		               array_shape_text(&f->info, found), array_shape_text(&said, given));
	return 0;
}

int array_open(struct array_file *f, const char *path, const struct array_hints *hints,
               struct err *err)
{
	enum array_format format;
	uint64_t size = 0;
	*f = (struct array_file){.fd = -1};
	if (array_format_of(path, hints->format, &format, err))
		return -1;
	f->path = strdup(path);
	if (!f->path)
		return err_nomem(err, "a path", strlen(path));
	if (open_input(f, &size, err) ||
	    (format == ARRAY_NPY ? open_npy : open_raw)(f, hints, size, err) ||
	    check_hints(f, hints, err)) {
		array_close(f);
		return -1;
	}
	return 0;
}

void array_close(struct array_file *f)
{
	if (f->path && f->fd >= 0)
		close(f->fd);
	free(f->path);
	f->path = NULL;
	f->fd = -1;
}

int array_pread(const struct array_file *f, void *buf, size_t bytes, uint64_t pos, struct err *err)
{
	char *p = buf;
	size_t left = bytes;
	uint64_t at = pos;
	while (left) {
		ssize_t n = pread(f->fd, p, left, (off_t)at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(err, ERR_INPUT, "%s: cannot read", f->path);
		if (n == 0)
			return err_set(
			        err, ERR_INPUT,
			        "%s: became shorter while it was read: expected %zu bytes at "
			        "offset %" PRIu64,
			        f->path, bytes, pos);
		p += n;
		at += (uint64_t)n;
		left -= (size_t)n;
	}
	return 0;
}

int array_unchanged(const struct array_file *f, struct err *err)
{
	struct stat st;
	if (fstat(f->fd, &st))
		return err_errno(err, ERR_INPUT, "%s: cannot examine", f->path);
	if (st.st_mtim.tv_sec != f->modified.tv_sec || st.st_mtim.tv_nsec != f->modified.tv_nsec)
		return err_set(err, ERR_INPUT, "%s: was changed while it was read", f->path);
	return 0;
}

long array_header(const struct array_info *info, char *buf, size_t cap)
{
	return info->format == ARRAY_NPY ? npy_header(info, buf, cap) : 0;
}
