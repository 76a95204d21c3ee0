#include "lib/data/files/extents.h"

#include <stdlib.h>

int extents_add(struct extents *x, int set, int file, uint64_t offset, uint64_t bytes, bool swapped,
                struct err *err)
{
	const struct extent *last = x->n ? &x->v[x->n - 1] : NULL;
	if (bytes == 0)
		return 0;
	bool touches = last && last->set == set && last->file == file && last->swapped == swapped &&
	               last->offset + (x->bytes - last->at) == offset;
	if (!touches) {
		struct extent *v =
		        err_grow(x->v, x->n, sizeof *v, "the places of the tensors", err);
		if (!v)
			return -1;
		x->v = v;
	}
	if (!touches)
		x->v[x->n++] = (struct extent){x->bytes, set, file, offset, swapped};
	x->bytes += bytes;
	return 0;
}

void extents_release(struct extents *x)
{
	free(x->v);
	*x = (struct extents){0};
}

/* The last extent that begins at or before @pos. */
static size_t extent_at(const struct extents *x, uint64_t pos)
{
	size_t lo = 0, hi = x->n;
	while (hi - lo > 1) {
		size_t mid = lo + (hi - lo) / 2;
		if (x->v[mid].at <= pos)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

int extents_visit(const struct extents *x, uint64_t pos, uint64_t bytes,
                  int (*visit)(void *ctx, const struct extent *e, uint64_t bytes, struct err *err),
                  void *ctx, struct err *err)
{
	if (pos > x->bytes || bytes > x->bytes - pos)
		return err_set(err, ERR_OTHER, "bytes beyond the end of an array");
	for (size_t k = bytes ? extent_at(x, pos) : 0; bytes; k++) {
		struct extent e = x->v[k];
		uint64_t end = k + 1 < x->n ? x->v[k + 1].at : x->bytes;
		uint64_t n = end - pos < bytes ? end - pos : bytes;
		e.offset += pos - e.at;
		e.at = pos;
		int ret = visit(ctx, &e, n, err);
		if (ret)
			return ret;
		pos += n;
		bytes -= n;
	}
	return 0;
}
