#include "lib/job/details.h"

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

void details_put_rows(struct buf *b, const uint64_t *rows, int size)
{
	for (int r = 0; r < size; r++)
		buf_put_u64(b, rows[r]);
}

static void get_rows(struct view *v, int size, uint64_t *rows)
{
	for (int r = 0; r < size; r++)
		rows[r] = view_u64(v);
}

int details_get_rows(struct view *v, int size, uint64_t *rows, struct err *err)
{
	uint64_t sum;
	get_rows(v, size, rows);
	return !v->failed && rows_sum(rows, size, &sum) == 0 ? 0 : malformed(err);
}

/* ---- arrays ---- */

#define FLAG_FORTRAN 0x80u /* in the byte of the format */

void details_put_array(struct buf *b, const struct array_info *info, const uint64_t *counts,
                       int size)
{
	buf_put_u8(b, (uint8_t)(info->format | (info->fortran ? FLAG_FORTRAN : 0)));
	buf_put_u8(b, (uint8_t)info->dtype);
	buf_put_u8(b, (uint8_t)info->ndim);
	for (int i = 0; i < info->ndim; i++)
		buf_put_u64(b, info->shape[i]);
	buf_put_u32(b, counts ? (uint32_t)size : 0);
	if (counts)
		details_put_rows(b, counts, size);
}

/* Are @counts the rows of @info? */
static bool cut_fits(const struct array_info *info, const uint64_t *counts, int size)
{
	uint64_t sum;
	return info->ndim > 0 && rows_sum(counts, size, &sum) == 0 && sum == info->shape[0];
}

int details_get_array(struct view *v, int size, struct array_info *info, uint64_t *counts,
                      bool *even, struct err *err)
{
	*info = (struct array_info){0};
	unsigned first = view_u8(v), dtype = view_u8(v), ndim = view_u8(v);
	unsigned format = first & ~FLAG_FORTRAN;
	if (v->failed || (format != ARRAY_NPY && format != ARRAY_RAW) ||
	    !dtype_has_arithmetic(dtype < DTYPES ? (enum dtype)dtype : DTYPE_NONE) ||
	    ndim > ARRAY_MAX_DIMS)
		return malformed(err);
	info->format = (enum array_format)format;
	info->fortran = first & FLAG_FORTRAN;
	info->dtype = (enum dtype)dtype;
	info->ndim = (int)ndim;
	for (unsigned i = 0; i < ndim; i++)
		info->shape[i] = view_u64(v);
	uint32_t n = view_u32(v);
	*even = n == 0;
	if (v->failed || (n && n != (uint32_t)size) || array_count(info) < 0)
		return malformed(err);
	if (n)
		get_rows(v, size, counts);
	return v->failed || (n && !cut_fits(info, counts, size)) ? malformed(err) : 0;
}

/* ---- names ---- */

#define NAME_BYTES 256

void details_put_name(struct buf *b, const char *name)
{
	buf_put_str(b, name);
}

int details_get_name(struct view *v, char **name, struct err *err)
{
	char text[NAME_BYTES];
	view_str(v, text, sizeof text);
	if (v->failed || !path_is_plain(text))
		return malformed(err);
	*name = strdup(text);
	return *name ? 0 : err_nomem(err, "a file name", sizeof text);
}

/* ---- parts ---- */

void details_put_part(struct buf *b, const struct told_part *p)
{
	buf_put_str(b, p->algorithm);
	buf_put_u8(b, (uint8_t)p->wire);
	buf_put_u32(b, p->windows);
}

int details_get_part(struct view *v, struct told_part *p, struct err *err)
{
	view_str(v, p->algorithm, sizeof p->algorithm);
	unsigned wire = view_u8(v);
	p->windows = view_u32(v);
	if (v->failed || !p->windows || wire >= DTYPES || !dtype_size((enum dtype)wire))
		return malformed(err);
	p->wire = (enum dtype)wire;
	return 0;
}

void details_put_weight(struct buf *b, double w)
{
	uint64_t bits;
	memcpy(&bits, &w, sizeof bits);
	buf_put_u64(b, bits);
}

int details_get_weight(struct view *v, double *w, struct err *err)
{
	uint64_t bits = view_u64(v);
	memcpy(w, &bits, sizeof *w);
	return v->failed || !isfinite(*w) || *w < 0 ? malformed(err) : 0;
}

int details_end(const struct view *v, struct err *err)
{
	return v->failed || view_left(v) ? malformed(err) : 0;
}
