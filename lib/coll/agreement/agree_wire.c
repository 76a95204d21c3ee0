#include "lib/coll/agreement/agree_wire.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/path.h"

int rows_sum(const uint64_t *rows, int n, uint64_t *sum)
{
	*sum = 0;
	for (int i = 0; i < n; i++)
		if (__builtin_add_overflow(*sum, rows[i], sum) || *sum > INT64_MAX)
			return -1;
	return 0;
}

void wire_put_rows(struct buf *b, const uint64_t *rows, int size)
{
	for (int r = 0; r < size; r++)
		buf_put_u64(b, rows[r]);
}

int wire_get_rows(struct view *v, int size, uint64_t **rows, struct err *err)
{
	size_t n = (size_t)size;
	uint64_t sum;
	*rows = NULL;
	if (view_left(v) / 8 < n)
		return malformed(err, WIRE_BOTH, "rows");
	uint64_t *out = err_calloc(n, sizeof *out, "the ranks' rows", err);
	if (!out)
		return -1;
	for (size_t r = 0; r < n; r++)
		out[r] = view_u64(v);
	if (rows_sum(out, size, &sum) < 0) {
		free(out);
		return malformed(err, WIRE_BOTH, "rows");
	}
	*rows = out;
	return 0;
}

/* ---- arrays ---- */

#define FLAG_FORTRAN 0x80u /* in the byte of the format */

void wire_put_array(struct buf *b, const struct array_info *info, const uint64_t *counts, int size)
{
	buf_put_u8(b, (uint8_t)(info->format->number | (info->fortran ? FLAG_FORTRAN : 0)));
	buf_put_u8(b, (uint8_t)info->dtype);
	buf_put_u8(b, (uint8_t)info->ndim);
	for (int i = 0; i < info->ndim; i++)
		buf_put_u64(b, info->shape[i]);
	buf_put_u32(b, counts ? (uint32_t)size : 0);
	if (counts)
		wire_put_rows(b, counts, size);
}

int wire_get_array(struct view *v, int size, struct array_info *info, uint64_t **counts,
                   struct err *err)
{
	*info = (struct array_info){0};
	*counts = NULL;
	unsigned first = view_u8(v), dtype = view_u8(v), ndim = view_u8(v);
	const struct format *format = format_by_number(first & ~FLAG_FORTRAN);
	if (v->failed || !format || !format_is_array(format) ||
	    !dtype_has_arithmetic(dtype < DTYPES ? (enum dtype)dtype : DTYPE_NONE) ||
	    ndim > ARRAY_MAX_DIMS)
		return malformed(err, WIRE_BOTH, "array");
	info->format = format;
	info->fortran = first & FLAG_FORTRAN;
	info->dtype = (enum dtype)dtype;
	info->ndim = (int)ndim;
	for (unsigned i = 0; i < ndim; i++)
		info->shape[i] = view_u64(v);
	uint32_t n = view_u32(v);
	if (v->failed || (n && n != (uint32_t)size) || array_count(info) < 0)
		return malformed(err, WIRE_BOTH, "array");
	if (!n)
		return 0;
	uint64_t sum;
	if (wire_get_rows(v, size, counts, err) < 0)
		return -1;
	if (info->ndim > 0 && rows_sum(*counts, size, &sum) == 0 && sum == info->shape[0])
		return 0;
	free(*counts);
	*counts = NULL;
	return malformed(err, WIRE_BOTH, "counts");
}

/* ---- names ---- */

int wire_get_name(struct view *v, char **name, struct err *err)
{
	size_t n = view_u16(v);
	const uint8_t *text = view_bytes(v, n);
	if (!text || memchr(text, '\0', n))
		return malformed(err, WIRE_BOTH, "name");
	*name = err_strndup((const char *)text, n, "a file name", err);
	if (!*name)
		return -1;
	if (path_check_plain(*name, ERR_DISAGREE, err) == 0)
		return 0;
	free(*name);
	*name = NULL;
	return -1;
}

/* ---- the rest ---- */

bool wire_is_weight(const void *number)
{
	const double *w = number;
	return isfinite(*w) && *w >= 0;
}

int wire_end(const struct view *v, struct err *err)
{
	return v->failed || view_left(v) ? malformed(err, WIRE_BOTH, "its end") : 0;
}
