/*
 * The view is cut into boxes whose bytes in the file, from the first to the last, fit the memory,
 * and of which not far more lie between the elements than they have. A box is read at once, and
 * written in runs that are consecutive in C order.
 */
#include "lib/data/torch/strided.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/base/offload.h"
#include "lib/data/dataset/dataset.h"
#include "lib/data/formats/array.h"

#define SPARSE 64 /* the most bytes of the file that are read for one of the view */

struct copy {
	int ndim; /* axes that are longer than one */
	uint64_t shape[ARRAY_MAX_DIMS], stride[ARRAY_MAX_DIMS], extent[ARRAY_MAX_DIMS];
	uint64_t origin[ARRAY_MAX_DIMS];
	enum dtype dtype;
	bool swapped;
	size_t esize;
	int in, out;
	uint64_t at, out_at;
	char *read, *written; /* of @cap bytes each */
	size_t cap;
	size_t pending;      /* bytes in written */
	uint64_t pending_at; /* where they go in out */
	struct err *err;
};

bool strided_is_c_order(const struct strided *s)
{
	uint64_t dense = 1;
	for (int i = s->ndim - 1; i >= 0; i--) {
		if (s->shape[i] == 0)
			return true;
		if (s->shape[i] > 1 && s->stride[i] != dense)
			return false;
		dense *= s->shape[i];
	}
	return true;
}

static int flush(struct copy *c)
{
	const size_t n = c->pending;
	c->pending = 0;
	if (c->swapped)
		dataset_swap(c->dtype, c->written, n / c->esize);
	if (n && pwrite_all(c->out, c->written, n, c->pending_at) < 0)
		return err_errno(c->err, ERR_RESOURCE, "the spool cannot be written");
	c->pending_at += n;
	return 0;
}

/* Append an element that goes to @at of the output. */
static int put(struct copy *c, const void *element, uint64_t at)
{
	if ((at != c->pending_at + c->pending || c->pending + c->esize > c->cap) && flush(c))
		return -1;
	if (!c->pending)
		c->pending_at = at;
	memcpy(c->written + c->pending, element, c->esize);
	c->pending += c->esize;
	return 0;
}

static int get(struct copy *c, void *to, size_t n, uint64_t at)
{
	const ssize_t got = pread_full(c->in, to, n, at);
	if (got < 0)
		return err_errno(c->err, ERR_INPUT, "cannot be read");
	return (size_t)got == n ? 0
	                        : err_set(c->err, ERR_INPUT, "became shorter while it was read");
}

/* Copy the elements of the box in C order. @span: its bytes in the file. */
static int copy_elements(struct copy *c, const char *span)
{
	uint64_t index[ARRAY_MAX_DIMS] = {0};
	for (;;) {
		uint64_t from = 0, to = 0, row = 1;
		for (int i = c->ndim - 1; i >= 0; i--) {
			from += index[i] * c->stride[i];
			to += (c->origin[i] + index[i]) * row;
			row *= c->shape[i];
		}
		if (put(c, span + from * c->esize, c->out_at + to * c->esize))
			return -1;
		int axis = c->ndim - 1;
		while (axis >= 0 && ++index[axis] == c->extent[axis])
			index[axis--] = 0;
		if (axis < 0)
			return 0;
	}
}

static int copy_box(struct copy *c)
{
	uint64_t span = 1, count = 1, begin = 0;
	int widest = -1;
	for (int i = 0; i < c->ndim; i++) {
		span += (c->extent[i] - 1) * c->stride[i];
		count *= c->stride[i] ? c->extent[i] : 1;
		begin += c->origin[i] * c->stride[i];
		if (c->extent[i] > 1 && (widest < 0 || c->stride[i] > c->stride[widest]))
			widest = i;
	}
	if (offload_stopped(c->err) < 0)
		return -1;
	if (span * c->esize <= c->cap && span / SPARSE <= count) {
		if (get(c, c->read, span * c->esize, c->at + begin * c->esize))
			return -1;
		return copy_elements(c, c->read);
	}
	/* A box of one element fits: widest is an axis. */
	const uint64_t extent = c->extent[widest], origin = c->origin[widest];
	c->extent[widest] = extent / 2;
	int ret = copy_box(c);
	c->origin[widest] = origin + extent / 2;
	c->extent[widest] = extent - extent / 2;
	if (ret == 0)
		ret = copy_box(c);
	c->origin[widest] = origin;
	c->extent[widest] = extent;
	return ret;
}

int strided_to_c(const struct strided *s, int in, int out, uint64_t out_at, size_t memory,
                 struct err *err)
{
	const size_t esize = dtype_size(s->dtype);
	struct copy c = {.dtype = s->dtype,
	                 .swapped = s->swapped,
	                 .esize = esize,
	                 .in = in,
	                 .out = out,
	                 .at = s->at,
	                 .out_at = out_at,
	                 .pending_at = out_at,
	                 .cap = memory / 2 < esize ? esize : memory / 2,
	                 .err = err};
	for (int i = 0; i < s->ndim; i++) {
		if (s->shape[i] == 0)
			return 0;
		if (s->shape[i] == 1)
			continue;
		c.shape[c.ndim] = c.extent[c.ndim] = s->shape[i];
		c.stride[c.ndim++] = s->stride[i];
	}
	c.read = err_malloc(c.cap, "a view", err);
	c.written = err_malloc(c.cap, "a view", err);
	int ret = c.read && c.written ? copy_box(&c) : -1;
	if (ret == 0)
		ret = flush(&c);
	free(c.read);
	free(c.written);
	return ret;
}
