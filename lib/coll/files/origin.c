#include "lib/coll/files/origin.h"

#include <math.h>
#include <stdlib.h>

#include "lib/base/offload.h"
#include "lib/coll/collective.h"
#include "lib/coll/files/ties.h"
#include "lib/coll/request/paths.h"
#include "lib/data/kernels/delta.h"

/* ---- the file ---- */

static int step(void *ctx, struct err *err)
{
	(void)ctx;
	return offload_stopped(err);
}

static int digest(void *ctx, struct err *err)
{
	return inspect_read(ctx, false, step, NULL, err);
}

int origin_digest(const struct collective *c, struct inspection *in, struct err *err)
{
	return c->request->dry_run ? 0 : job_run_in_thread(c->life->job, digest, in, err);
}

int origin_open(struct collective *c, struct err *err)
{
	const struct coll_request *r = c->request;
	struct inspection *in = &c->transfer.origin.file;
	const struct input_source from = {.o = &r->files,
	                                  .heads_only = r->dry_run,
	                                  .memory = r->settings.memory,
	                                  .job = c->life->job};
	if (!r->origin || !c->transfer.ninputs)
		return 0;
	char *path = paths_fill(r->origin, c->agreed.rank, c->agreed.size, NULL, err);
	int ret = path ? inspect_open(in, path, &from, err) : -1;
	free(path);
	if (ret == 0)
		ret = files_check_alike(&in->data, &c->transfer.inputs[0], err);
	return ret == 0 ? origin_digest(c, in, err) : -1;
}

void origin_fact(const struct collective *c, struct intent *in)
{
	const struct inspection *file = &c->transfer.origin.file;
	char text[DIGEST_TEXT];
	if (!coll_rules(c->request->kind)->averages)
		return;
	intent_add(in, "--origin",
	           !c->request->origin ? "not given"
	           : file->digests     ? digest_text(file->digest, text)
	                               : "given");
}

void origin_release(struct collective *c)
{
	struct origin *o = &c->transfer.origin;
	for (int i = 0; i < c->agreed.nvectors; i++) {
		if (o->places)
			extents_release(&o->places[i]);
		if (o->least)
			free(o->least[i]);
	}
	free(o->places);
	free(o->least);
	free(o->keys);
	free(o->read);
	free(o->write);
	inspect_release(&o->file);
}

/* ---- before the transfer ---- */

static int make_keys(struct collective *c, struct err *err)
{
	struct origin *o = &c->transfer.origin;
	o->keys = err_calloc(c->agreed.ntensors + 1, sizeof *o->keys, "random numbers", err);
	for (size_t i = 0; o->keys && i < c->agreed.ntensors; i++)
		o->keys[i] = delta_key(c->request->param.seed, c->agreed.tensors[i].tensor.name);
	for (int r = 0; r < agreement_number(&c->agreed, c->agreed.rank); r++)
		o->first += c->agreed.joint ? c->agreed.joint[r] : 1;
	return o->keys ? 0 : -1;
}

static int map(struct collective *c, struct err *err)
{
	struct origin *o = &c->transfer.origin;
	const int n = c->agreed.nvectors;
	o->places = err_calloc((size_t)n + 1, sizeof *o->places, "the origin's bytes", err);
	o->least = err_calloc((size_t)n + 1, sizeof *o->least, "the magnitudes", err);
	o->read = err_malloc(STAGING, "staging", err);
	o->write = err_malloc(STAGING, "staging", err);
	if (!o->places || !o->least || !o->read || !o->write)
		return -1;
	for (int i = 0; i < n; i++) {
		const struct vector *v = &c->agreed.vectors[i];
		for (size_t k = 0; vector_is_delta(v, c->request) && k < v->ntensors; k++) {
			const size_t index = c->agreed.tensors[v->tensors[k]].index;
			const struct tensor *t = &o->file.data.tensors[index];
			if (files_map_tensor(&o->places[i], 0, t, t->swapped, err) < 0)
				return -1;
		}
	}
	return 0;
}

int origin_prepare(struct collective *c, struct err *err)
{
	if (!c->request->origin || !c->transfer.ninputs)
		return 0;
	if (map(c, err) < 0)
		return -1;
	if (c->request->op == REDUCE_DARE)
		return make_keys(c, err);
	return c->request->op == REDUCE_TIES ? job_run_in_thread(c->life->job, ties_prepare, c, err)
	                                     : 0;
}

/* ---- elements ---- */

struct reading {
	const struct dataset *from;
	enum dtype dtype;
	uint8_t *to;
};

static int read_piece(void *ctx, const struct extent *e, uint64_t bytes, struct err *err)
{
	struct reading *r = ctx;
	if (dataset_pread(r->from, e->file, r->to, bytes, e->offset, err) < 0)
		return -1;
	if (e->swapped)
		dataset_swap(r->dtype, r->to, bytes / dtype_size(r->dtype));
	r->to += bytes;
	return 0;
}

int origin_read(const struct dataset *from, const struct extents *places, enum dtype dtype,
                uint8_t *to, uint64_t pos, uint64_t n, struct err *err)
{
	struct reading r = {from, dtype, to};
	return extents_visit(places, pos * dtype_size(dtype), n * dtype_size(dtype), read_piece, &r,
	                     err);
}

/* Elements @pos to @pos + n - 1 of the vector. */
static int read_origin(const struct collective *c, int vector, uint8_t *to, uint64_t pos,
                       uint64_t n, struct err *err)
{
	const struct origin *o = &c->transfer.origin;
	return origin_read(&o->file.data, &o->places[vector], c->agreed.vectors[vector].dtype, to,
	                   pos, n, err);
}

/* ties and dare: drop differences @d of the vector from element @pos on. */
static void drop(const struct collective *c, int vector, int input, uint8_t *d, uint64_t pos,
                 uint64_t n)
{
	const struct vector *v = &c->agreed.vectors[vector];
	const struct origin *o = &c->transfer.origin;
	const enum reduce_op op = c->request->op;
	if (op != REDUCE_TIES && op != REDUCE_DARE)
		return;
	for (struct tensor_run r = {0}; elements_run(c, v, pos, n, &r);) {
		uint8_t *of = d + r.from * dtype_size(v->wire);
		if (op == REDUCE_TIES)
			delta_keep(v->wire, of, o->least[vector][(size_t)input * v->ntensors + r.i],
			           r.n);
		else
			delta_drop(v->wire, of, c->request->param.part, o->keys[v->tensors[r.i]],
			           o->first + (uint32_t)input, r.at, r.n);
	}
}

int origin_subtract(const struct collective *c, int vector, int input, void *to, const void *x,
                    uint64_t pos, uint64_t n, struct err *err)
{
	const struct vector *v = &c->agreed.vectors[vector];
	const double weight =
	        c->agreed.weighted ? ldexp(request_weight(c->request, input), -c->agreed.exponent)
	                           : 1;
	uint8_t *origin = c->transfer.origin.read;
	if (read_origin(c, vector, origin, pos, n, err) < 0)
		return -1;
	delta_take(v->wire, to, v->dtype, x, origin, weight, n);
	drop(c, vector, input, to, pos, n);
	return 0;
}

/* The factor of the executor's result, which is a mean for sums and averages. */
static double factor(const struct collective *c, const struct vector *v)
{
	const double n = (double)coll_contributions(&v->layout.args);
	if (c->request->op == REDUCE_SUM)
		return c->request->scale * n;
	return c->request->op == REDUCE_AVG ? c->request->scale * (n / c->agreed.divisor)
	                                    : c->request->scale;
}

int origin_add(const struct collective *c, int vector, void *to, const void *from, uint64_t pos,
               uint64_t n, struct err *err)
{
	const struct vector *v = &c->agreed.vectors[vector];
	const bool rows = coll_rules(c->request->kind)->cut == CUT_ROWS;
	uint8_t *origin = c->transfer.origin.write;
	if (rows) /* the output is this rank's block */
		pos += v->layout.off[v->layout.args.rank];
	if (read_origin(c, vector, origin, pos, n, err) < 0)
		return -1;
	if (c->request->have_outer)
		return outer_step(c, vector, to, origin, from, factor(c, v), pos, n, err);
	delta_apply(v->out, to, v->dtype, origin, v->wire, from, factor(c, v), n);
	return 0;
}
