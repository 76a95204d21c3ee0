/* The bytes of --consolidate in files: pieces in the inputs, whole tensors in the output. */
#include "lib/coll/files/consolidated.h"

#include <stdlib.h>

#include "lib/coll/collective.h"
#include "lib/data/dataset/dataset_output.h"

/* ---- inputs ---- */

int consolidated_map_input(const struct collective *c, struct extents *in, struct err *err)
{
	const struct consolidated *p = c->consolidated;
	for (size_t i = 0; i < p->nown && c->request->consolidate; i++) {
		const struct tensor *t = p->own[i].tensor;
		if (p->own[i].chosen && extents_add(in, p->own[i].set, t->file, t->offset, t->bytes,
		                                    t->swapped, err) < 0)
			return -1;
	}
	return 0;
}

/* ---- the output ---- */

/* As the other outputs that are made of files of torch. */
int consolidated_name(struct collective *c, const char *path, struct err *err)
{
	static char metadata[] = "{\"format\":\"pt\"}";
	struct dataset_file file = {.metadata = metadata};
	struct dataset like = {
	        .format = &format_dcp, .files = &file, .nfiles = 1, .ntensors = c->agreed.ntensors};
	like.tensors = err_calloc(like.ntensors + 1, sizeof *like.tensors, "the tensors", err);
	if (!like.tensors)
		return -1;
	for (size_t i = 0; i < like.ntensors; i++)
		like.tensors[i] = c->agreed.tensors[i].tensor;
	struct dataset_output out;
	int ret = dataset_output_of(&out, &like, DTYPE_NONE, err);
	if (ret == 0 && c->request->max_shard)
		ret = dataset_output_cut(&out, path, c->request->max_shard, err);
	if (ret == 0)
		ret = sink_add_like(c->transfer.sink, path, NULL, &out.like, c->transfer.places,
		                    err);
	dataset_output_release(&out);
	free(like.tensors);
	return ret;
}

/* The first axis of which the box has only a part of what follows: elements along this axis and
 * those after it are consecutive in the tensor. */
static int run_axis(const struct piece *p, const struct tensor *t)
{
	int axis = t->ndim;
	while (axis > 0 && (axis == t->ndim || p->size[axis] == t->shape[axis]))
		axis--;
	return axis;
}

/* Are all its elements consecutive in the tensor? */
static bool is_run(const struct piece *p, const struct tensor *t)
{
	for (int i = run_axis(p, t) - 1; i >= 0; i--)
		if (p->size[i] != 1)
			return false;
	return true;
}

/* The offset in the tensor of the run @run of the piece, bytes. */
static uint64_t run_offset(const struct piece *p, const struct tensor *t, int axis, uint64_t run)
{
	uint64_t at = 0, row = dtype_size(t->dtype);
	for (int i = t->ndim - 1; i >= 0; i--) {
		uint64_t index = p->first[i];
		if (i < axis) {
			index += run % p->size[i];
			run /= p->size[i];
		}
		at += index * row;
		row *= t->shape[i];
	}
	return at;
}

/* The bytes of each of its runs. */
static uint64_t run_bytes(const struct piece *p, const struct tensor *t, int axis)
{
	uint64_t bytes = dtype_size(t->dtype);
	for (int i = axis; i < t->ndim; i++)
		bytes *= p->size[i];
	return bytes;
}

/* Write @n bytes at @at of the piece. */
static int store_piece(const struct collective *c, const struct piece *p, const uint8_t *buf,
                       uint64_t at, uint64_t n, struct err *err)
{
	const struct whole_tensor *w = &c->consolidated->all.tensors[p->tensor];
	const struct place *to = &c->transfer.places[p->tensor];
	const bool whole = is_run(p, &w->tensor);
	const int axis = run_axis(p, &w->tensor);
	const uint64_t run = run_bytes(p, &w->tensor, axis);
	for (uint64_t len; n; at += len, buf += len, n -= len) {
		const uint64_t begin = run_offset(p, &w->tensor, axis, at / run) + at % run;
		len = run - at % run < n ? run - at % run : n;
		if (whole)
			digest_update(c->transfer.files[0].digest, w->at + begin, buf, len);
		if (sink_pwrite(c->transfer.sink, to->file, buf, len, to->offset + begin, err) < 0)
			return -1;
		if (whole &&
		    output_digest_settle(c, c->transfer.files, w->at + begin, len, err) < 0)
			return -1;
	}
	return 0;
}

/* Where the piece's bytes begin in the vector. */
static uint64_t begins(const struct collective *c, size_t sent)
{
	const struct consolidated *p = c->consolidated;
	const struct piece *q = &p->all.pieces.v[p->sent[sent]];
	return c->agreed.vectors[0].layout.off[q->rank] + q->at;
}

int consolidated_store(const struct collective *c, const uint8_t *buf, uint64_t pos, uint64_t n,
                       struct err *err)
{
	const struct consolidated *p = c->consolidated;
	size_t lo = 0, hi = p->nsent;
	while (hi - lo > 1) {
		const size_t mid = lo + (hi - lo) / 2;
		if (begins(c, mid) <= pos)
			lo = mid;
		else
			hi = mid;
	}
	for (uint64_t len; n && lo < p->nsent; lo++, pos += len, buf += len, n -= len) {
		const struct piece *q = &p->all.pieces.v[p->sent[lo]];
		const uint64_t at = pos - begins(c, lo);
		len = q->bytes - at < n ? q->bytes - at : n;
		if (store_piece(c, q, buf, at, len, err) < 0)
			return -1;
	}
	return 0;
}
