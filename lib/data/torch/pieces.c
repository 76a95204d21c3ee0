#include "lib/data/torch/pieces.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/io.h"
#include "lib/base/offload.h"
#include "lib/data/torch/cover.h"

#define COPY_BYTES (4u << 20) /* of one read of a box */

/* ---- do the boxes have every element once? ---- */

static uint64_t elements(const struct tensor_box *b, int ndim)
{
	uint64_t count = 1;
	for (int i = 0; i < ndim; i++)
		count *= b->size[i];
	return count;
}

static bool meet(const struct tensor_box *a, const struct tensor_box *b, int ndim)
{
	for (int i = 0; i < ndim; i++)
		if (a->first[i] >= b->first[i] + b->size[i] ||
		    b->first[i] >= a->first[i] + a->size[i])
			return false;
	return true;
}

static int by_first(const void *a, const void *b)
{
	const struct tensor_box *x = a, *y = b;
	for (int i = 0; i < ARRAY_MAX_DIMS; i++)
		if (x->first[i] != y->first[i])
			return x->first[i] < y->first[i] ? -1 : 1;
	return x->file < y->file ? -1 : x->file > y->file;
}

static int wrong(const struct torch_spool *spool, const struct tensor *t, const char *what,
                 const struct tensor_box *b, struct err *err)
{
	char text[ARRAY_SHAPE_TEXT], shape[ARRAY_SHAPE_TEXT];
	return err_set(err, ERR_INPUT, "%s: tensor '%.200s' %s: %s %s of %.40s",
	               spool->dataset->path, t->name, tensor_shape_text(t, shape), what,
	               cover_text(b->first, b->size, t->ndim, text),
	               spool->dataset->files[b->file].name);
}

static int check_inside(const struct torch_spool *spool, const struct tensor *t,
                        const struct tensor_box *boxes, int n, struct err *err)
{
	for (int k = 0; k < n; k++)
		for (int i = 0; i < t->ndim; i++)
			if (boxes[k].first[i] > t->shape[i] ||
			    boxes[k].size[i] > t->shape[i] - boxes[k].first[i])
				return wrong(spool, t, "outside of it lies the piece", &boxes[k],
				             err);
	return 0;
}

/* The boxes lie in the tensor, do not meet, and have as many elements together. */
static int check_cover(const struct torch_spool *spool, const struct tensor *t,
                       struct tensor_box *boxes, int n, struct err *err)
{
	uint64_t count = 0;
	if (check_inside(spool, t, boxes, n, err))
		return -1;
	for (int k = 0; k < n; k++)
		count += elements(&boxes[k], t->ndim);
	qsort(boxes, (size_t)n, sizeof *boxes, by_first);
	for (int k = 0; k < n; k++)
		for (int m = k + 1;
		     m < n &&
		     (!t->ndim || boxes[m].first[0] < boxes[k].first[0] + boxes[k].size[0]);
		     m++)
			if (meet(&boxes[k], &boxes[m], t->ndim))
				return wrong(spool, t, "another piece has elements of the piece",
				             &boxes[m], err);
	if (count == t->count)
		return 0;
	return err_set(err, ERR_INPUT,
	               "%s: tensor '%.200s' has %" PRIu64 " elements: its pieces have %" PRIu64
	               " of them",
	               spool->dataset->path, t->name, t->count, count);
}

/* ---- where they lie ---- */

/* Are the box's elements consecutive in the tensor? The axes after its first longer one are whole.
 */
static bool is_run(const struct tensor_box *b, const struct tensor *t)
{
	int i = 0;
	while (i < t->ndim && b->size[i] == 1)
		i++;
	for (i++; i < t->ndim; i++)
		if (b->size[i] != t->shape[i])
			return false;
	return true;
}

/* Copy the box to its places in the tensor, which begins at @at of the spool. */
static int copy_box(const struct torch_spool *spool, const struct tensor *t,
                    const struct tensor_box *b, uint64_t at, char *buf, struct err *err)
{
	const struct dataset *d = spool->dataset;
	const size_t esize = dtype_size(t->dtype);
	uint64_t index[ARRAY_MAX_DIMS] = {0}, run = esize, read = 0, begin = 0, end = 0;
	int last = t->ndim; /* axes from here on are in one run */
	while (last > 0 && (last == t->ndim || b->size[last] == t->shape[last]))
		run *= b->size[--last];
	const uint64_t bytes = elements(b, t->ndim) * esize;
	for (; read < bytes; read += run) {
		if (offload_stopped(err) < 0)
			return -1;
		uint64_t to = 0, row = 1;
		for (int i = t->ndim - 1; i >= 0; i--) {
			to += (b->first[i] + index[i]) * row;
			row *= t->shape[i];
		}
		for (uint64_t done = 0, n; done < run; done += n) {
			if (read + done >= end) {
				begin = read + done;
				end = bytes - begin < COPY_BYTES ? bytes : begin + COPY_BYTES;
				if (dataset_pread(d, b->file, buf, (size_t)(end - begin),
				                  b->offset + begin, err))
					return -1;
			}
			n = run - done < end - (read + done) ? run - done : end - (read + done);
			if (pwrite_all(d->files[spool->file].fd, buf + (read + done - begin),
			               (size_t)n, at + to * esize + done) < 0)
				return err_errno(err, ERR_RESOURCE,
				                 "%s: the spool cannot be written", d->path);
		}
		for (int i = last - 1; i >= 0 && ++index[i] == b->size[i]; i--)
			index[i] = 0;
	}
	return 0;
}

static int join_in_spool(struct torch_spool *spool, struct tensor *t,
                         const struct tensor_box *boxes, int n, struct err *err)
{
	char *buf = err_malloc(COPY_BYTES, "the pieces of a tensor", err);
	int ret = buf ? torch_spool_reserve(spool, t->bytes, &t->offset, err) : -1;
	for (int k = 0; ret == 0 && k < n; k++)
		ret = copy_box(spool, t, &boxes[k], t->offset, buf, err);
	free(buf);
	return ret ? -1 : dataset_add_tensor(spool->dataset, t, spool->file, err);
}

static int join_in_place(struct torch_spool *spool, struct tensor *t,
                         const struct tensor_box *boxes, int n, struct err *err)
{
	struct tensor_piece *pieces = err_calloc((size_t)n, sizeof *pieces, "the pieces", err);
	if (!pieces)
		return -1;
	for (int k = 0; k < n; k++)
		pieces[k] =
		        (struct tensor_piece){boxes[k].file, boxes[k].offset,
		                              elements(&boxes[k], t->ndim) * dtype_size(t->dtype)};
	t->pieces = pieces;
	t->npieces = n;
	t->offset = pieces[0].offset;
	int ret = dataset_add_tensor(spool->dataset, t, pieces[0].file, err);
	free(pieces);
	return ret;
}

/* Append each box as a part of @whole. No part of it is here (@n is 0): append one without
 * elements. */
static int list_parts(struct torch_spool *spool, const struct tensor *whole,
                      const struct tensor_box *boxes, int n, struct err *err)
{
	static const struct tensor_box none;
	if (check_inside(spool, whole, boxes, n, err))
		return -1;
	for (int k = 0; k < n || k == 0; k++) {
		const struct tensor_box *b = n ? &boxes[k] : &none;
		struct tensor t = *whole;
		t.shape = b->size;
		t.first = b->first;
		t.whole = whole->shape;
		t.count = n ? elements(b, t.ndim) : 0;
		t.bytes = t.count * dtype_size(t.dtype);
		t.offset = b->offset;
		if (dataset_add_tensor(spool->dataset, &t, b->file, err))
			return -1;
	}
	return 0;
}

int pieces_join(struct torch_spool *spool, const struct tensor *whole, struct tensor_box *boxes,
                int n, struct err *err)
{
	struct tensor t = *whole;
	bool runs = true;
	if (spool->source->parts)
		return list_parts(spool, whole, boxes, n, err);
	if (check_cover(spool, &t, boxes, n, err))
		return -1;
	if (!n) /* an empty tensor without pieces */
		return dataset_add_tensor(spool->dataset, &t, 0, err);
	for (int k = 0; k < n; k++)
		runs = runs && is_run(&boxes[k], &t);
	t.copied = !runs;
	if (runs || spool->source->heads_only)
		return join_in_place(spool, &t, boxes, n, err);
	return join_in_spool(spool, &t, boxes, n, err);
}
