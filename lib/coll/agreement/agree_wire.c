#include "lib/coll/agreement/agree_wire.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/path.h"

static int malformed(struct err *err)
{
	return err_set(err, ERR_INTEGRITY, "malformed details");
}

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

static void get_rows(struct view *v, int size, uint64_t *rows)
{
	for (int r = 0; r < size; r++)
		rows[r] = view_u64(v);
}

int wire_get_rows(struct view *v, int size, uint64_t **rows, struct err *err)
{
	size_t n = (size_t)size;
	uint64_t sum;
	*rows = NULL;
	if (view_left(v) / 8 < n)
		return malformed(err);
	uint64_t *out = err_calloc(n, sizeof *out, "the ranks' rows", err);
	if (!out)
		return -1;
	get_rows(v, size, out);
	if (rows_sum(out, size, &sum) < 0) {
		free(out);
		return malformed(err);
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

/* Do @counts add up to the rows of @info? */
static bool cut_fits(const struct array_info *info, const uint64_t *counts, int size)
{
	uint64_t sum;
	return info->ndim > 0 && rows_sum(counts, size, &sum) == 0 && sum == info->shape[0];
}

/* The rows of @info for each of @size ranks, malloced. */
static int get_counts(struct view *v, int size, const struct array_info *info, uint64_t **counts,
                      struct err *err)
{
	size_t n = (size_t)size;
	if (view_left(v) / 8 < n)
		return malformed(err);
	uint64_t *rows = err_calloc(n, sizeof *rows, "the ranks' rows", err);
	if (!rows)
		return -1;
	get_rows(v, size, rows);
	if (!cut_fits(info, rows, size)) {
		free(rows);
		return malformed(err);
	}
	*counts = rows;
	return 0;
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
		return malformed(err);
	info->format = format;
	info->fortran = first & FLAG_FORTRAN;
	info->dtype = (enum dtype)dtype;
	info->ndim = (int)ndim;
	for (unsigned i = 0; i < ndim; i++)
		info->shape[i] = view_u64(v);
	uint32_t n = view_u32(v);
	if (v->failed || (n && n != (uint32_t)size) || array_count(info) < 0)
		return malformed(err);
	return n ? get_counts(v, size, info, counts, err) : 0;
}

/* ---- names ---- */

void wire_put_name(struct buf *b, const char *name)
{
	buf_put_str(b, name);
}

int wire_get_name(struct view *v, char **name, struct err *err)
{
	size_t n = view_u16(v);
	const uint8_t *text = view_bytes(v, n);
	if (!text || memchr(text, '\0', n))
		return malformed(err);
	if (!(*name = err_strndup((const char *)text, n, "a file name", err)))
		return -1;
	if (path_check_plain(*name, ERR_DISAGREE, err) == 0)
		return 0;
	free(*name);
	*name = NULL;
	return -1;
}

/* ---- the rest ---- */

void wire_put_weight(struct buf *b, double w)
{
	uint64_t bits;
	memcpy(&bits, &w, sizeof bits);
	buf_put_u64(b, bits);
}

int wire_get_weight(struct view *v, double *w, struct err *err)
{
	uint64_t bits = view_u64(v);
	memcpy(w, &bits, sizeof *w);
	return v->failed || !isfinite(*w) || *w < 0 ? malformed(err) : 0;
}

int wire_end(const struct view *v, struct err *err)
{
	return v->failed || view_left(v) ? malformed(err) : 0;
}
