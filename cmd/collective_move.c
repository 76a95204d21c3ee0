/* Elements between the files and the executor's buffers: converted, weighed, divided, compared,
 * counted and hashed on the way. See collective.h. */
#include <stdlib.h>
#include <string.h>

#include "cmd/collective.h"

/* ---- reading ---- */

struct reading {
	struct collective *c;
	const struct part *part;
	uint8_t *to;
};

static int read_piece(void *ctx, const struct extent *e, uint64_t bytes, struct err *err)
{
	struct reading *r = ctx;
	struct collective *c = r->c;
	int ret = e->set == c->ninputs ? sink_pread(c->sink, e->file, r->to, bytes, e->offset, err)
	                               : dataset_pread(&c->inputs[e->set], e->file, r->to, bytes,
	                                               e->offset, err);
	if (ret < 0)
		return -1;
	if (e->swapped)
		dataset_swap(r->part->dtype, r->to, bytes / dtype_size(r->part->dtype));
	r->to += bytes;
	return 0;
}

/* Elements of a local input, as they are in the file but for the order of their bytes. */
static int read_elements(struct collective *c, const struct part *p, int input, void *buf,
                         uint64_t pos, uint64_t n, struct err *err)
{
	size_t esize = dtype_size(p->dtype);
	struct reading r = {c, p, buf};
	return extents_visit(&p->in[input], pos * esize, n * esize, read_piece, &r, err);
}

/* The item of @p that holds the byte at @at. */
static size_t item_at(const struct collective *c, const struct part *p, uint64_t at)
{
	size_t lo = 0, hi = p->nitems;
	while (hi - lo > 1) {
		size_t mid = lo + (hi - lo) / 2;
		if (c->items[p->items[mid]].at <= at)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

typedef int item_visit(struct collective *c, struct part *p, int input, size_t i,
                       const uint8_t *buf, const uint8_t *with, uint64_t n, struct err *err);

/* Call @visit for the elements of each item in [pos, pos + n). Of an array that is cut there is one
 * item, whatever it holds. */
static int visit_items(struct collective *c, struct part *p, int input, const uint8_t *buf,
                       const uint8_t *with, uint64_t pos, uint64_t n, item_visit *visit,
                       struct err *err)
{
	size_t esize = dtype_size(p->dtype);
	for (size_t i = item_at(c, p, pos * esize); n; i++) {
		const struct item *it = &c->items[p->items[i]];
		bool last = i + 1 == p->nitems;
		uint64_t left = last ? n : (it->at + it->tensor.bytes) / esize - pos;
		uint64_t len = left < n ? left : n;
		if (len && visit(c, p, input, i, buf, with, len, err) < 0)
			return -1;
		buf += len * esize;
		with += with ? len * esize : 0;
		pos += len;
		n -= len;
	}
	return 0;
}

static int count(struct collective *c, struct part *p, int input, size_t i, const uint8_t *buf,
                 const uint8_t *with, uint64_t n, struct err *err)
{
	(void)c;
	(void)with;
	(void)err;
	stats_add(&p->stats[(size_t)input * p->nitems + i], p->dtype, buf, n);
	return 0;
}

/* Truth is 0 or 1, also where one contribution is the whole result. */
static void settle_truth(const struct part *p, void *buf, uint64_t n)
{
	bool logical = p->op == REDUCE_LAND || p->op == REDUCE_LOR || p->op == REDUCE_LXOR;
	if (coll_reduces(p->kind) && (logical || p->dtype == DTYPE_BOOL))
		reduce_kernel(REDUCE_LOR, p->dtype, p->dtype, false)(buf, buf, buf, n);
}

static int read_counted(struct collective *c, struct part *p, int input, void *buf, uint64_t pos,
                        uint64_t n, struct err *err)
{
	if (read_elements(c, p, input, buf, pos, n, err) < 0)
		return -1;
	return p->stats ? visit_items(c, p, input, buf, NULL, pos, n, count, err) : 0;
}

int move_read(void *ctx, int part, int input, void *buf, uint64_t pos, uint64_t n, struct err *err)
{
	struct collective *c = ctx;
	struct part *p = &c->parts[part];
	size_t wide = dtype_size(p->wire);
	bool weigh = p->op == REDUCE_AVG && c->weighted && c->weight != 1;
	if (p->wire == p->dtype && !weigh) {
		if (read_counted(c, p, input, buf, pos, n, err) < 0)
			return -1;
		settle_truth(p, buf, n);
		return 0;
	}
	for (uint64_t i = 0, len; i < n; i += len) {
		uint8_t *to = (uint8_t *)buf + i * wide;
		len = n - i < STAGING / wide ? n - i : STAGING / wide;
		if (read_counted(c, p, input, c->read_staging, pos + i, len, err) < 0)
			return -1;
		if (weigh)
			scale_kernel(p->wire, p->dtype)(to, c->read_staging, c->weight, len);
		else
			convert_kernel(p->wire, p->dtype)(to, c->read_staging, len);
	}
	return 0;
}

/* ---- writing ---- */

struct writing {
	struct collective *c;
	const uint8_t *from;
};

static int write_piece(void *ctx, const struct extent *e, uint64_t bytes, struct err *err)
{
	struct writing *w = ctx;
	if (sink_pwrite(w->c->sink, e->file, w->from, bytes, e->offset, err) < 0)
		return -1;
	w->from += bytes;
	return 0;
}

static int same(struct collective *c, struct part *p, int input, size_t i, const uint8_t *buf,
                const uint8_t *with, uint64_t n, struct err *err)
{
	char text[512];
	if (memcmp(buf, with, n * dtype_size(p->dtype)) == 0)
		return 0;
	return err_set(err, ERR_DISAGREE, "%s: differs from rank 0's (--integers equal)",
	               item_text(c, &c->items[p->items[i]], input, text, sizeof text));
}

/* --integers equal: what has come must be what every local input has. */
static int compare(struct collective *c, struct part *p, const uint8_t *buf, uint64_t pos,
                   uint64_t n, struct err *err)
{
	size_t esize = dtype_size(p->dtype);
	for (uint64_t i = 0, len; i < n; i += len) {
		len = n - i < STAGING / esize ? n - i : STAGING / esize;
		for (int k = 0; k < p->nin; k++) {
			if (read_elements(c, p, k, c->compare_staging, pos + i, len, err) < 0 ||
			    visit_items(c, p, k, buf + i * esize, c->compare_staging, pos + i, len,
			                same, err) < 0)
				return -1;
		}
	}
	return 0;
}

/* What of [*pos, *pos + *n) lies in this rank's block, counted from its beginning. */
static const uint8_t *own_block(const struct collective *c, const struct part *p,
                                const uint8_t *buf, uint64_t *pos, uint64_t *n)
{
	uint64_t begin = p->layout.off[c->rank], end = p->layout.off[c->rank + 1];
	uint64_t from = *pos > begin ? *pos : begin, to = *pos + *n < end ? *pos + *n : end;
	const uint8_t *own = from < to ? buf + (from - *pos) * dtype_size(p->dtype) : buf;
	*n = from < to ? to - from : 0;
	*pos = from < to ? from - begin : 0;
	return own;
}

static int store(struct collective *c, struct part *p, const uint8_t *buf, uint64_t pos, uint64_t n,
                 struct err *err)
{
	size_t esize = dtype_size(p->dtype);
	if (p->equal && compare(c, p, buf, pos, n, err) < 0)
		return -1;
	if (p->stores_block)
		buf = own_block(c, p, buf, &pos, &n);
	if (!c->sink || !n)
		return 0;
	digest_update(p->digest, pos * esize, buf, n * esize);
	for (int k = 0; k < c->copies; k++) {
		struct writing w = {c, buf};
		if (extents_visit(&p->out[k], pos * esize, n * esize, write_piece, &w, err) < 0)
			return -1;
	}
	return 0;
}

int move_write(void *ctx, int part, const void *buf, uint64_t pos, uint64_t n, bool final,
               struct err *err)
{
	struct collective *c = ctx;
	struct part *p = &c->parts[part];
	size_t wide = dtype_size(p->wire);
	bool divide = final && p->op == REDUCE_AVG;
	if (p->wire == p->dtype && !divide)
		return store(c, p, buf, pos, n, err);
	for (uint64_t i = 0, len; i < n; i += len) {
		const uint8_t *from = (const uint8_t *)buf + i * wide;
		len = n - i < STAGING / wide ? n - i : STAGING / wide;
		if (divide)
			final_kernel(p->dtype, p->wire)(c->write_staging, from, c->divisor, len);
		else
			convert_kernel(p->dtype, p->wire)(c->write_staging, from, len);
		if (store(c, p, c->write_staging, pos + i, len, err) < 0)
			return -1;
	}
	return 0;
}

/* ---- what they need ---- */

/* The digest of a part's output, whose runs are the blocks that this rank has of it. */
static int prepare_digest(struct collective *c, struct part *p, struct err *err)
{
	const struct coll_args *args = &p->layout.args;
	const struct coll_layout l = coll_layout(p->kind, c->rank, c->size, args->root);
	size_t esize = dtype_size(p->dtype);
	size_t n = p->stores_block ? 1 : (size_t)(l.out_hi - l.out_lo);
	uint64_t *starts = calloc(n + 1, sizeof *starts);
	const struct tensor **tensors = calloc(p->nitems + 1, sizeof *tensors);
	for (size_t j = 0; starts && !p->stores_block && j < n; j++)
		starts[j] = coll_out_at(p->kind, args, l.out_lo + (int)j) * esize;
	for (size_t i = 0; tensors && i < p->nitems; i++)
		tensors[i] = &c->items[p->items[i]].tensor;
	if (starts && tensors)
		p->digest = digest_new(tensors, p->nitems, starts, n);
	free(starts);
	free(tensors);
	return p->digest ? 0 : err_nomem(err, "the digest", p->nitems * sizeof *tensors);
}

static int prepare_stats(struct part *p, struct err *err)
{
	size_t n = (size_t)p->nin * p->nitems;
	p->stats = calloc(n + 1, sizeof *p->stats);
	if (!p->stats)
		return err_nomem(err, "the statistics", n * sizeof *p->stats);
	for (size_t i = 0; i < n; i++)
		stats_init(&p->stats[i]);
	return 0;
}

int move_prepare(struct collective *c, struct err *err)
{
	c->read_staging = malloc(STAGING);
	c->write_staging = malloc(STAGING);
	c->compare_staging = malloc(STAGING);
	c->digests = calloc(c->nitems + 1, sizeof *c->digests);
	if (!c->read_staging || !c->write_staging || !c->compare_staging || !c->digests)
		return err_nomem(err, "staging", 3 * STAGING);
	for (int i = 0; i < c->nparts; i++) {
		struct part *p = &c->parts[i];
		if ((c->sink && prepare_digest(c, p, err) < 0) ||
		    (c->o->stats && c->ninputs && c->shape != OF_BYTES &&
		     prepare_stats(p, err) < 0))
			return -1;
	}
	return parts_map_inputs(c, err);
}

void move_release(struct collective *c)
{
	free(c->read_staging);
	free(c->write_staging);
	free(c->compare_staging);
	free(c->digests);
}
