#include "lib/job/details.h"

static int malformed(struct err *err)
{
	return err_set(err, ERR_INTEGRITY, "malformed details of an array");
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

int details_get_rows(struct view v, int size, uint64_t *rows, struct err *err)
{
	uint64_t sum;
	get_rows(&v, size, rows);
	bool sane = !v.failed && !view_left(&v) && rows_sum(rows, size, &sum) == 0;
	return sane ? 0 : malformed(err);
}

void details_put_array(struct buf *b, const struct array_info *info, const uint64_t *counts,
                       int size)
{
	buf_put_u8(b, (uint8_t)info->format);
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

int details_get_array(struct view v, int size, struct array_info *info, uint64_t *counts,
                      bool *even, struct err *err)
{
	*info = (struct array_info){0};
	unsigned format = view_u8(&v), dtype = view_u8(&v), ndim = view_u8(&v);
	if (v.failed || (format != ARRAY_NPY && format != ARRAY_RAW) || dtype == DTYPE_NONE ||
	    dtype >= DTYPES || ndim > ARRAY_MAX_DIMS)
		return malformed(err);
	info->format = (enum array_format)format;
	info->dtype = (enum dtype)dtype;
	info->ndim = (int)ndim;
	for (unsigned i = 0; i < ndim; i++)
		info->shape[i] = view_u64(&v);
	uint32_t n = view_u32(&v);
	*even = n == 0;
	if (v.failed || (n && n != (uint32_t)size) || array_count(info) < 0)
		return malformed(err);
	if (n)
		get_rows(&v, size, counts);
	if (v.failed || view_left(&v) || (n && !cut_fits(info, counts, size)))
		return malformed(err);
	return 0;
}
