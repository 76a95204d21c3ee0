/* Moves elements between the files and the executor's buffers: converts, weights, divides,
 * compares, counts and hashes them. See collective.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/coll/collective.h"
#include "lib/coll/files/consolidated.h"
#include "lib/coll/files/shards.h"
#include "lib/data/kernels/q8.h"

/* A vector and the places of its bytes. */
struct moved {
	const struct collective *c;
	const struct vector *v;
	const struct vector_files *files;
};

static struct moved moved_of(const struct collective *c, int vector)
{
	return (struct moved){c, &c->agreed.vectors[vector], &c->transfer.files[vector]};
}

/* ---- tensors of a range ---- */

/* The index, among the vector's tensors, of the one that contains element @at. */
static size_t find_tensor(const struct collective *c, const struct vector *v, uint64_t at)
{
	size_t lo = 0, hi = v->ntensors;
	while (hi - lo > 1) {
		size_t mid = lo + (hi - lo) / 2;
		if (c->agreed.tensors[v->tensors[mid]].at <= at)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

bool elements_run(const struct collective *c, const struct vector *v, uint64_t pos, uint64_t n,
                  struct tensor_run *r)
{
	const struct vector_tensor *t;
	uint64_t left = 0;
	size_t i = r->n ? r->i + 1 : find_tensor(c, v, pos);
	r->from += r->n;
	for (; r->from < n && !left; i++) { /* a tensor may be empty */
		t = &c->agreed.tensors[v->tensors[i]];
		r->i = i;
		r->at = pos + r->from - t->at;
		left = i + 1 == v->ntensors ? n - r->from : t->tensor.count - r->at;
	}
	r->n = left < n - r->from ? left : n - r->from;
	return r->n > 0;
}

/* @i: index among the vector's tensors. */
typedef int tensor_visit(const struct moved *, int input, size_t i, const uint8_t *buf,
                         const uint8_t *with, uint64_t n, struct err *err);

/* Call @visit for the elements of each tensor in [pos, pos + n). */
static int visit_tensors(const struct moved *m, int input, const uint8_t *buf, const uint8_t *with,
                         uint64_t pos, uint64_t n, tensor_visit *visit, struct err *err)
{
	const size_t esize = dtype_size(m->v->dtype);
	for (struct tensor_run r = {0}; elements_run(m->c, m->v, pos, n, &r);)
		if (visit(m, input, r.i, buf + r.from * esize, with ? with + r.from * esize : NULL,
		          r.n, err) < 0)
			return -1;
	return 0;
}

/* "shard.safetensors: tensor 'a.b'", or only the file: the tensor's name and file in input @k. */
static const char *tensor_text(const struct collective *c, const struct vector_tensor *t, int k,
                               char *buf, size_t cap)
{
	const struct dataset *d = &c->transfer.inputs[c->request->each ? t->input : k];
	const char *name = t->tensor.name;
	snprintf(buf, cap, "%s%s%s%s", d->path, *name ? ": tensor '" : "", name, *name ? "'" : "");
	return buf;
}

/* ---- reading ---- */

struct reading {
	const struct moved *m;
	uint8_t *to;
};

static int read_piece(void *ctx, const struct extent *e, uint64_t bytes, struct err *err)
{
	struct reading *r = ctx;
	const struct transfer *t = &r->m->c->transfer;
	enum dtype dtype = r->m->v->dtype;
	int ret = e->set == t->ninputs ? sink_pread(t->sink, e->file, r->to, bytes, e->offset, err)
	                               : dataset_pread(&t->inputs[e->set], e->file, r->to, bytes,
	                                               e->offset, err);
	if (ret < 0)
		return -1;
	if (e->swapped)
		dataset_swap(dtype, r->to, bytes / dtype_size(dtype));
	r->to += bytes;
	return 0;
}

/* With --delta a vector is a stream. */
static enum update_stream coded_stream(const struct moved *m)
{
	return m->v == m->c->agreed.vectors ? UPDATE_TO_ALL : UPDATE_WHOLE;
}

/* Read elements of a local input; only the byte order is converted. */
static int read_elements(const struct moved *m, int input, void *buf, uint64_t pos, uint64_t n,
                         struct err *err)
{
	size_t esize = dtype_size(m->v->dtype);
	struct reading r = {m, buf};
	if (m->c->request->have_shard_dim)
		return shards_read(m->c, buf, pos, n, err);
	if (m->c->transfer.update.coded)
		return update_read_coded(&m->c->transfer.update, coded_stream(m), buf, pos, n, err);
	return extents_visit(&m->files->in[input], pos * esize, n * esize, read_piece, &r, err);
}

static int count(const struct moved *m, int input, size_t i, const uint8_t *buf,
                 const uint8_t *with, uint64_t n, struct err *err)
{
	(void)with;
	(void)err;
	stats_add(&m->files->stats[(size_t)input * m->v->ntensors + i], m->v->dtype, buf, n);
	return 0;
}

/* Normalise bools to 0 or 1, also if one input is the whole result. */
static void settle_truth(const struct vector *v, void *buf, uint64_t n)
{
	bool logical = v->op == REDUCE_LAND || v->op == REDUCE_LOR || v->op == REDUCE_LXOR;
	if (coll_reduces(v->kind) && (logical || v->dtype == DTYPE_BOOL))
		reduce_kernel(REDUCE_LOR, v->dtype, v->dtype, false)(buf, buf, buf, n);
}

static int read_counted(const struct moved *m, int input, void *buf, uint64_t pos, uint64_t n,
                        struct err *err)
{
	if (read_elements(m, input, buf, pos, n, err) < 0)
		return -1;
	if (!m->files->stats || m->c->transfer.slerp.measuring)
		return 0;
	return visit_tensors(m, input, buf, NULL, pos, n, count, err);
}

/* The weight of a local input. A contribution that is alone is copied, and not divided. */
static double weight_of(const struct collective *c, const struct vector *v, int input)
{
	const bool alone = c->agreed.ncame == 1 && c->agreed.joint && c->agreed.joint[0] == 1;
	if (v->op != REDUCE_AVG || !c->agreed.weighted || alone)
		return 1;
	return ldexp(request_weight(c->request, input), -c->agreed.exponent);
}

static int read_blocks(const struct moved *m, int input, struct q8_block *to, uint64_t pos,
                       uint64_t n, struct err *err)
{
	const struct collective *c = m->c;
	uint8_t *staging = c->transfer.read_staging;
	const uint64_t most = STAGING / Q8_VALUES / dtype_size(m->v->dtype);
	for (struct block_run r; n; n -= r.n, pos += r.n, to += r.n) {
		r = vector_block_run(&c->agreed, m->v, pos, n < most ? n : most);
		if (read_counted(m, input, staging, r.at, r.count, err) < 0)
			return -1;
		q8_take(to, m->v->dtype, staging, weight_of(c, m->v, input), r.count);
	}
	return 0;
}

int elements_read(void *ctx, int vector, int input, void *buf, uint64_t pos, uint64_t n,
                  struct err *err)
{
	const struct collective *c = ctx;
	const struct moved m = moved_of(c, vector);
	const struct vector *v = m.v;
	uint8_t *staging = c->transfer.read_staging;
	size_t wide = dtype_size(v->wire);
	const double weight = weight_of(c, v, input);
	bool weigh = weight != 1;
	const bool delta = vector_is_delta(v, c->request), arc = slerp_applies(c, v);
	if (v->blocks)
		return read_blocks(&m, input, buf, pos, n, err);
	if (v->wire == v->dtype && !weigh && !delta && !arc) {
		if (read_counted(&m, input, buf, pos, n, err) < 0)
			return -1;
		settle_truth(v, buf, n);
		return 0;
	}
	for (uint64_t i = 0, len; i < n; i += len) {
		uint8_t *to = (uint8_t *)buf + i * wide;
		len = n - i < STAGING / wide ? n - i : STAGING / wide;
		if (read_counted(&m, input, staging, pos + i, len, err) < 0)
			return -1;
		if (delta && origin_subtract(c, vector, input, to, staging, pos + i, len, err) < 0)
			return -1;
		if (arc)
			slerp_weigh(c, vector, input, to, staging, pos + i, len);
		if (delta || arc)
			continue;
		if (weigh)
			scale_kernel(v->wire, v->dtype)(to, staging, weight, len);
		else
			convert_kernel(v->wire, v->dtype)(to, staging, len);
	}
	return 0;
}

/* ---- writing ---- */

struct writing {
	struct sink *sink;
	const uint8_t *from;
};

static int write_piece(void *ctx, const struct extent *e, uint64_t bytes, struct err *err)
{
	struct writing *w = ctx;
	if (sink_pwrite(w->sink, e->file, w->from, bytes, e->offset, err) < 0)
		return -1;
	w->from += bytes;
	return 0;
}

int elements_put(const struct collective *c, const struct extents *places, const void *buf,
                 uint64_t pos, uint64_t bytes, struct err *err)
{
	struct writing w = {c->transfer.sink, buf};
	return extents_visit(places, pos, bytes, write_piece, &w, err);
}

static int same(const struct moved *m, int input, size_t i, const uint8_t *buf, const uint8_t *with,
                uint64_t n, struct err *err)
{
	const struct vector_tensor *t = &m->c->agreed.tensors[m->v->tensors[i]];
	char text[512];
	if (memcmp(buf, with, n * dtype_size(m->v->dtype)) == 0)
		return 0;
	return err_set(err, ERR_DISAGREE, "%s: differs from rank 0's (--integers equal)",
	               tensor_text(m->c, t, input, text, sizeof text));
}

/* INTEGERS_EQUAL: compare the received elements with every local input. */
static int compare(const struct moved *m, const uint8_t *buf, uint64_t pos, uint64_t n,
                   struct err *err)
{
	uint8_t *staging = m->c->transfer.compare_staging;
	size_t esize = dtype_size(m->v->dtype);
	for (uint64_t i = 0, len; i < n; i += len) {
		len = n - i < STAGING / esize ? n - i : STAGING / esize;
		for (int k = 0; k < m->v->ninputs; k++) {
			if (read_elements(m, k, staging, pos + i, len, err) < 0 ||
			    visit_tensors(m, k, buf + i * esize, staging, pos + i, len, same, err) <
			            0)
				return -1;
		}
	}
	return 0;
}

/* Clip [*pos, *pos + *n) to this rank's block and make *pos relative to its beginning. */
static const uint8_t *own_block(const struct moved *m, const uint8_t *buf, uint64_t *pos,
                                uint64_t *n)
{
	const uint64_t *off = m->v->layout.off + m->v->layout.args.rank;
	uint64_t begin = off[0], end = off[1];
	uint64_t from = *pos > begin ? *pos : begin, to = *pos + *n < end ? *pos + *n : end;
	const uint8_t *own = from < to ? buf + (from - *pos) * dtype_size(m->v->out) : buf;
	*n = from < to ? to - from : 0;
	*pos = from < to ? from - begin : 0;
	return own;
}

static int store(const struct moved *m, const uint8_t *buf, uint64_t pos, uint64_t n,
                 struct err *err)
{
	const struct transfer *t = &m->c->transfer;
	size_t esize = dtype_size(m->v->out);
	if (m->v->equal && compare(m, buf, pos, n, err) < 0)
		return -1;
	if (m->v->stores_block)
		buf = own_block(m, buf, &pos, &n);
	if (!t->sink || !n)
		return 0;
	if (m->c->request->consolidate)
		return consolidated_store(m->c, buf, pos, n, err);
	digest_update(m->files->digest, pos * esize, buf, n * esize);
	if (m->c->transfer.update.coded)
		return update_write_coded(&m->c->transfer.update, coded_stream(m), buf, pos, n,
		                          err);
	for (int k = 0; k < t->copies; k++)
		if (elements_put(m->c, &m->files->out[k], buf, pos * esize, n * esize, err) < 0)
			return -1;
	return output_digest_settle(m->c, m->files, pos * esize, n * esize, err);
}

/* The number of finite elements that the conversion to the output's type has made Inf or NaN. */
static uint64_t overflow_of(const struct vector *v, const void *from, const void *to, uint64_t n)
{
	struct stats before, after;
	stats_init(&before);
	stats_init(&after);
	stats_add(&before, v->wire, from, n);
	stats_add(&after, v->out, to, n);
	return after.nans + after.infs - before.nans - before.infs;
}

static int write_blocks(const struct moved *m, double *bounds, const struct q8_block *from,
                        uint64_t pos, uint64_t n, struct err *err)
{
	uint8_t *staging = m->c->transfer.write_staging;
	const uint64_t most = STAGING / Q8_VALUES / dtype_size(m->v->out);
	for (struct block_run r; n; n -= r.n, pos += r.n, from += r.n) {
		r = vector_block_run(&m->c->agreed, m->v, pos, n < most ? n : most);
		double *bound = &bounds[m->v->tensors[r.i]];
		const double off = q8_give(m->v->out, staging, from, r.count);
		*bound = off > *bound ? off : *bound;
		if (store(m, staging, r.at, r.count, err) < 0)
			return -1;
	}
	return 0;
}

int elements_write(void *ctx, int vector, const void *buf, uint64_t pos, uint64_t n, bool final,
                   struct err *err)
{
	struct collective *c = ctx;
	const struct moved m = moved_of(c, vector);
	const struct vector *v = m.v;
	uint8_t *staging = c->transfer.write_staging;
	size_t wide = dtype_size(v->wire);
	bool divide = final && v->op == REDUCE_AVG;
	bool counts = c->request->stats && v->out != v->dtype;
	bool delta = vector_is_delta(v, c->request);
	if (c->transfer.slerp.measuring) {
		slerp_store(c, vector, buf, pos, n, !divide);
		return 0;
	}
	if (v->blocks)
		return write_blocks(&m, c->transfer.bounds, buf, pos, n, err);
	if (v->wire == v->out && !divide && !delta)
		return store(&m, buf, pos, n, err);
	for (uint64_t i = 0, len; i < n; i += len) {
		const uint8_t *from = (const uint8_t *)buf + i * wide;
		len = n - i < STAGING / wide ? n - i : STAGING / wide;
		if (delta && origin_add(c, vector, staging, from, pos + i, len, err) < 0)
			return -1;
		if (delta)
			; /* done */
		else if (divide)
			final_kernel(v->out, v->wire)(staging, from, c->agreed.divisor, len);
		else
			convert_kernel(v->out, v->wire)(staging, from, len);
		if (counts)
			c->transfer.overflowed += overflow_of(v, from, staging, len);
		if (store(&m, staging, pos + i, len, err) < 0)
			return -1;
	}
	return 0;
}

/* ---- how much elements may be off (--wire q8) ---- */

/* The tensor that may be off by most. */
static const struct vector_tensor *farthest(const struct collective *c, double *bound)
{
	const struct vector_tensor *most = c->agreed.tensors;
	*bound = 0;
	for (size_t i = 0; i < c->agreed.ntensors; i++)
		if (c->transfer.bounds[i] > *bound) {
			*bound = c->transfer.bounds[i];
			most = &c->agreed.tensors[i];
		}
	return most;
}

int elements_check_error(struct collective *c, struct err *err)
{
	char name[512];
	double bound;
	if (!c->transfer.bounds || !c->agreed.ntensors)
		return 0;
	const struct vector_tensor *t = farthest(c, &bound);
	c->transfer.max_error = q8_round_up(bound);
	tensor_text(c, t, 0, name, sizeof name);
	if (c->request->have_max_error && bound > c->request->max_error)
		return err_set(err, ERR_DISAGREE,
		               "%s: with --wire q8 elements may be off by %.3g, and --max-error "
		               "allows %g: --wire lossless or raw is exact",
		               name, (double)c->transfer.max_error, c->request->max_error);
	coll_note(c->life, c->agreed.rank == 0 ? 0 : 1,
	          "%s: elements are off by at most %.3g (--wire q8)%s", name,
	          (double)c->transfer.max_error,
	          c->agreed.ntensors > 1 ? ", those of other tensors by less" : "");
	return 0;
}

/* ---- preparation ---- */

static void init_stats(struct stats *stats, const struct vector *v)
{
	for (size_t i = 0; i < (size_t)v->ninputs * v->ntensors; i++)
		stats_init(&stats[i]);
}

static struct stats *make_stats(const struct vector *v)
{
	struct stats *stats = calloc((size_t)v->ninputs * v->ntensors + 1, sizeof *stats);
	if (stats)
		init_stats(stats, v);
	return stats;
}

int elements_prepare(struct collective *c, struct err *err)
{
	struct transfer *t = &c->transfer;
	bool counts = c->request->stats && t->ninputs && c->agreed.content != CONTENT_BYTES;
	t->read_staging = err_malloc(STAGING, "staging", err);
	t->write_staging = err_malloc(STAGING, "staging", err);
	t->compare_staging = err_malloc(STAGING, "staging", err);
	t->digests = err_calloc(agreement_entries(&c->agreed) + 1, sizeof *t->digests,
	                        "the digests", err);
	if (!t->read_staging || !t->write_staging || !t->compare_staging || !t->digests)
		return -1;
	if (request_is_q8(c->request) &&
	    !(t->bounds = err_calloc(agreement_entries(&c->agreed) + 1, sizeof *t->bounds,
	                             "the bounds", err)))
		return -1;
	for (int i = 0; i < c->agreed.nvectors; i++) {
		const struct vector *v = &c->agreed.vectors[i];
		struct vector_files *f = &t->files[i];
		f->digest = t->sink ? output_digest_new(c, v) : NULL;
		const bool counted = counts && !agreement_is_beside(&c->agreed, i);
		f->stats = counted ? make_stats(v) : NULL;
		if ((t->sink && !f->digest) || (counted && !f->stats))
			return err_nomem(err, "the digest", v->ntensors * sizeof(void *));
	}
	return files_map_inputs(c, err);
}

void elements_go_back(void *collective)
{
	struct collective *c = collective;
	c->transfer.overflowed = 0;
	for (int i = 0; i < c->agreed.nvectors; i++) {
		const struct vector *v = &c->agreed.vectors[i];
		struct vector_files *f = &c->transfer.files[i];
		if (f->digest)
			digest_go_back(f->digest);
		if (f->stats)
			init_stats(f->stats, v);
	}
	if (c->life->tracing)
		trace_clear(&c->life->tracing->trace);
}

void elements_release(struct collective *c)
{
	struct transfer *t = &c->transfer;
	for (int i = 0; t->files && i < c->agreed.nvectors; i++) {
		struct vector_files *f = &t->files[i];
		for (int k = 0; f->in && k < c->agreed.vectors[i].ninputs; k++)
			extents_release(&f->in[k]);
		for (int k = 0; f->out && k < t->copies; k++)
			extents_release(&f->out[k]);
		free(f->in);
		free(f->out);
		free(f->stats);
		digest_free(f->digest);
	}
	free(t->files);
	free(t->read_staging);
	free(t->write_staging);
	free(t->compare_staging);
	free(t->digests);
	free(t->bounds);
}
