#include "lib/data/formats/array.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/units.h"

/* ---- shapes ---- */

int array_count(struct array_info *info)
{
	uint64_t bytes = dtype_size(info->dtype), count = 1;
	bool fits = true;
	for (int i = 0; i < info->ndim; i++) {
		count *= info->shape[i];
		if (info->shape[i] == 0) {
			info->count = 0;
			return 0;
		}
		fits = fits && !__builtin_mul_overflow(bytes, info->shape[i], &bytes) &&
		       bytes <= INT64_MAX;
	}
	info->count = count;
	return fits ? 0 : -1;
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
	return array_axes_text(info->shape, info->ndim, buf);
}

char *array_axes_text(const uint64_t *shape, int ndim, char buf[ARRAY_SHAPE_TEXT])
{
	size_t n = 0;
	buf[n++] = '(';
	/* If the array has elements, and fewer than 2^63, the text is far from the limit. Another
	 * shape may be truncated. */
	for (int i = 0; i < ndim && n < ARRAY_SHAPE_TEXT - 32; i++) {
		if (i) {
			buf[n++] = ',';
			buf[n++] = ' ';
		}
		n += digits_put(buf + n, shape[i]);
	}
	if (ndim == 1)
		buf[n++] = ',';
	buf[n++] = ')';
	buf[n] = '\0';
	return buf;
}

bool array_same(const struct array_info *a, const struct array_info *b)
{
	return a->dtype == b->dtype && a->ndim == b->ndim &&
	       !memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof a->shape[0]);
}

int array_parse_shape(const char *text, struct array_info *info, struct err *err)
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

/* ---- hints from the command line ---- */

int array_check_hints(const char *path, const struct array_hints *hints,
                      const struct array_info *info, struct err *err)
{
	char found[ARRAY_SHAPE_TEXT], given[ARRAY_SHAPE_TEXT];
	struct array_info said = *info;
	if (hints->dtype != DTYPE_NONE && hints->dtype != info->dtype)
		return err_set(err, ERR_INPUT, "%s: dtype %s differs from --dtype %s", path,
		               dtype_name(info->dtype), dtype_name(hints->dtype));
	if (hints->shape && array_parse_shape(hints->shape, &said, err))
		return -1;
	if (!array_same(&said, info))
		return err_set(err, ERR_INPUT, "%s: shape %s differs from --shape %s", path,
		               array_shape_text(info, found), array_shape_text(&said, given));
	return 0;
}
