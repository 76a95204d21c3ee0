#include "lib/coll/agreement/layout.h"

#include <stdlib.h>

#include "lib/coll/agreement/agree_wire.h"
#include "lib/price/fill.h"

static int count_array(struct array_info *info, uint64_t rows, struct err *err)
{
	info->shape[0] = rows;
	info->offset = 0;
	return array_count(info) < 0 ? err_set(err, ERR_RESOURCE, "the result is too large") : 0;
}

/* Prefix sums of @rows in elements; a row has @row elements. */
static void add_up(const uint64_t *rows, int size, uint64_t row, uint64_t *off)
{
	off[0] = 0;
	for (int j = 0; j < size; j++)
		off[j + 1] = off[j] + rows[j] * row;
}

/* The number of rows of @rank's output. */
static int rows_out(const struct layout_of *p, int rank, const uint64_t *rows, const uint64_t *from,
                    uint64_t *sum)
{
	if (p->request->kind == COLL_ALLTOALL && !from)
		return __builtin_mul_overflow(rows[rank], (uint64_t)p->size, sum) ? -1 : 0;
	if (coll_rules(p->request->kind)->cut == CUT_JOINED || from)
		return rows_sum(from ? from : rows, p->size, sum);
	*sum = rows[rank];
	return 0;
}

static int lay_out_rows(struct vector_layout *l, const struct layout_of *p, int rank,
                        const uint64_t *rows, const uint64_t *from, struct err *err)
{
	uint64_t row = 1, all, got;
	struct array_info whole = *p->array;
	for (int i = 1; i < whole.ndim; i++)
		row *= whole.shape[i];
	if (rows_sum(rows, p->size, &all) < 0 || rows_out(p, rank, rows, from, &got) < 0)
		return err_set(err, ERR_RESOURCE, "the result is too large");
	if (count_array(&whole, all, err) < 0 || count_array(&l->out, got, err) < 0)
		return -1;
	add_up(rows, p->size, row, l->off);
	if (from)
		add_up(from, p->size, row, l->recv_off);
	return 0;
}

int layout_make(struct vector_layout *l, const struct layout_of *p, int rank, const uint64_t *rows,
                const uint64_t *from, struct err *err)
{
	size_t n = (size_t)p->size + 1;
	if (!l->off)
		l->off = err_calloc(n, sizeof *l->off, "the blocks", err);
	if (!l->recv_off)
		l->recv_off = err_calloc(n, sizeof *l->recv_off, "the blocks", err);
	if (!l->off || !l->recv_off)
		return -1;
	l->out = *p->array;
	l->out.swapped = false;
	const unsigned esize = (unsigned)dtype_size(p->blocks ? DTYPE_Q8 : p->array->dtype);
	const uint64_t count = p->blocks ? p->blocks : p->array->count;
	if (coll_rules(p->request->kind)->cut == CUT_ELEMENTS && p->shares)
		fill_cuts(p->shares, p->size, count, esize, l->off);
	else if (coll_rules(p->request->kind)->cut == CUT_ELEMENTS)
		coll_split(count, p->size, l->off);
	else if (lay_out_rows(l, p, rank, rows, from, err) < 0)
		return -1;
	l->args = (struct coll_args){
	        .rank = rank,
	        .size = p->size,
	        .root = p->root,
	        .ninputs = p->ninputs && p->kind == p->request->kind ? p->ninputs : 1,
	        .joint = p->joint,
	        .stores = p->stores,
	        .off = l->off,
	        .recv_off = from ? l->recv_off : NULL,
	        .host = p->host,
	        .base = (unsigned)p->request->base,
	        .steps = (unsigned)p->request->steps,
	        .esize = esize,
	        .ordered = p->request->ordered && p->kind == p->request->kind,
	};
	return 0;
}

void layout_release(struct vector_layout *l)
{
	free(l->off);
	free(l->recv_off);
	*l = (struct vector_layout){0};
}

uint64_t layout_cut_at(uint64_t rows, const uint64_t *counts, int size, int j)
{
	return counts ? counts[j] : rows / (uint64_t)size + ((uint64_t)j < rows % (uint64_t)size);
}

void layout_cut_rows(uint64_t rows, const uint64_t *counts, int size, uint64_t *out)
{
	for (int j = 0; j < size; j++)
		out[j] = layout_cut_at(rows, counts, size, j);
}
