#include "lib/data/array.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "lib/data/input.h"

#define INDEX_SUFFIX ".safetensors.index.json"
#define FIRST_READ   128 /* the whole header of nearly every .npy file */

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

bool array_is_index(const char *path)
{
	return has_suffix(path, INDEX_SUFFIX);
}

bool array_is_folder(const char *path)
{
	struct stat st;
	size_t n = strlen(path);
	return (n && path[n - 1] == '/') || (stat(path, &st) == 0 && S_ISDIR(st.st_mode));
}

static const struct {
	const char *suffix;
	enum array_format format;
	const char *why_not; /* for those that are not read */
} suffixes[] = {
        {".npy", ARRAY_NPY, NULL},
        {".bin", ARRAY_RAW, NULL},
        {".raw", ARRAY_RAW, NULL},
        {".safetensors", ARRAY_SAFETENSORS, NULL},
        {INDEX_SUFFIX, ARRAY_SAFETENSORS, NULL},
        {".npz", ARRAY_NPZ, NULL},
        {".pt", ARRAY_FORMAT_AUTO,
         "is a pickle, which can run code: convert it with numpy.save(\"x.npy\", tensor.numpy())"},
        {".pth", ARRAY_FORMAT_AUTO,
         "is a pickle, which can run code: convert it with numpy.save(\"x.npy\", tensor.numpy())"},
        {".gguf", ARRAY_FORMAT_AUTO,
         "holds quantised blocks, which cannot be reduced: start from the original weights"},
};

static const char *const format_names[] = {
        [ARRAY_FORMAT_AUTO] = "auto",        [ARRAY_NPY] = "npy", [ARRAY_RAW] = "raw",
        [ARRAY_SAFETENSORS] = "safetensors", [ARRAY_NPZ] = "npz",
};

enum array_format array_format_by_name(const char *name)
{
	for (int f = ARRAY_NPY; name && f <= ARRAY_NPZ; f++)
		if (strcmp(name, format_names[f]) == 0)
			return (enum array_format)f;
	return ARRAY_FORMAT_AUTO;
}

const char *array_format_name(enum array_format format)
{
	return format_names[format];
}

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
	if (array_is_folder(path)) {
		*out = ARRAY_SAFETENSORS;
		return 0;
	}
	return err_set(err, ERR_USAGE,
	               "%s: unknown format: expected .npy, .safetensors, .npz, .bin or .raw, a "
	               "folder, or --format npy|safetensors|npz|raw",
	               path);
}

/* ---- reading ---- */

static int describe_npy(int fd, const char *path, uint64_t at, uint64_t size,
                        const struct array_hints *hints, struct array_info *info, struct err *err)
{
	/* The parser never asks for more: it refuses longer headers. */
	char buf[ARRAY_HEADER_MAX];
	struct err why = {0};
	size_t len = size < FIRST_READ ? (size_t)size : FIRST_READ, need;
	int r;
	do {
		if (input_pread(fd, path, buf, len, at, err))
			return -1;
		r = npy_parse(buf, len, size, hints->dtype, info, &need, &why);
		len = need;
	} while (r > 0);
	return r ? err_set(err, why.code, "%s: %s", path, why.text) : 0;
}

static int describe_raw(const char *path, uint64_t size, const struct array_hints *hints,
                        struct array_info *info, struct err *err)
{
	struct err why = {0};
	*info = (struct array_info){.format = ARRAY_RAW, .dtype = hints->dtype};
	if (hints->dtype == DTYPE_NONE)
		return err_set(err, ERR_USAGE, "%s: a raw file needs --dtype", path);
	if (hints->shape) {
		if (parse_shape(hints->shape, info, err))
			return -1;
	} else {
		info->ndim = 1;
		info->shape[0] = size / dtype_size(hints->dtype);
		if (array_count(info))
			return err_set(err, ERR_INPUT, "%s: is too large", path);
		if (size % dtype_size(hints->dtype))
			return err_set(err, ERR_INPUT,
			               "%s: has %" PRIu64 " bytes: expected a multiple of %zu for "
			               "%s",
			               path, size, dtype_size(hints->dtype),
			               dtype_name(hints->dtype));
	}
	if (array_check_size(info, size, &why))
		return err_set(err, why.code, "%s: %s", path, why.text);
	return 0;
}

int array_describe(int fd, const char *path, uint64_t at, uint64_t size, enum array_format format,
                   const struct array_hints *hints, struct array_info *info, struct err *err)
{
	return format == ARRAY_NPY ? describe_npy(fd, path, at, size, hints, info, err)
	                           : describe_raw(path, size, hints, info, err);
}

int array_check_hints(const char *path, const struct array_hints *hints,
                      const struct array_info *info, struct err *err)
{
	char found[ARRAY_SHAPE_TEXT], given[ARRAY_SHAPE_TEXT];
	struct array_info said = *info;
	if (hints->dtype != DTYPE_NONE && hints->dtype != info->dtype)
		return err_set(err, ERR_INPUT, "%s: dtype %s differs from --dtype %s", path,
		               dtype_name(info->dtype), dtype_name(hints->dtype));
	if (hints->shape && parse_shape(hints->shape, &said, err))
		return -1;
	if (!array_same(&said, info))
		return err_set(err, ERR_INPUT, "%s: shape %s differs from --shape %s", path,
		               array_shape_text(info, found), array_shape_text(&said, given));
	return 0;
}

long array_header(const struct array_info *info, char *buf, size_t cap)
{
	return info->format == ARRAY_NPY ? npy_header(info, buf, cap) : 0;
}
