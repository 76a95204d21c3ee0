#include "lib/coll/files/slerp.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/offload.h"
#include "lib/coll/agreement/agree_wire.h"
#include "lib/coll/collective.h"
#include "lib/data/kernels/slerp.h"

#define ENTRY 9 /* bytes of a tensor in a round: squares, lengthy */
#define MOST  ((JOB_ROUND_MAX - 1024) / ENTRY)

bool slerp_applies(const struct collective *c, const struct vector *v)
{
	return c->request->op == REDUCE_SLERP && v->kind == c->request->kind;
}

/* ---- lengths ---- */

static int add_length(const struct dataset *d, const struct tensor *t, double *length, uint8_t *buf,
                      struct err *err)
{
	const size_t esize = dtype_size(t->dtype), most = STAGING / esize;
	struct slerp_length sum = {0};
	for (uint64_t at = 0, n; at < t->count; at += n) {
		n = t->count - at < most ? t->count - at : most;
		if (offload_stopped(err) < 0 ||
		    dataset_read_native(d, t, buf, n * esize, at * esize, err) < 0)
			return -1;
		slerp_length_add(&sum, t->dtype, buf, n);
	}
	*length = slerp_length(&sum);
	return 0;
}

static int add_lengths(struct collective *c, const struct vector *v, uint8_t *buf, struct err *err)
{
	for (size_t i = 0; i < v->ntensors; i++) {
		const uint32_t g = v->tensors[i];
		struct slerp_tensor *t = &c->transfer.slerp.tensors[g];
		for (int k = 0; k < v->ninputs; k++) {
			const struct dataset *d = &c->transfer.inputs[k];
			if (add_length(d, &d->tensors[c->agreed.tensors[g].index], &t->lengths[k],
			               buf, err) < 0)
				return -1;
			if (!(t->lengths[k] <= 0)) /* NaN is one, too */
				t->sum.lengthy++;
		}
	}
	return 0;
}

static int find_lengths(void *ctx, struct err *err)
{
	struct collective *c = ctx;
	uint8_t *buf = err_malloc(STAGING, "staging", err);
	int ret = buf ? 0 : -1;
	for (int i = 0; i < c->agreed.nvectors && ret == 0; i++)
		if (slerp_applies(c, &c->agreed.vectors[i]))
			ret = add_lengths(c, &c->agreed.vectors[i], buf, err);
	free(buf);
	return ret;
}

int slerp_prepare(struct collective *c, struct err *err)
{
	struct slerp *s = &c->transfer.slerp;
	const size_t n = agreement_entries(&c->agreed) + 1;
	if (c->request->op != REDUCE_SLERP || !coll_reduces(c->request->kind))
		return 0;
	if (c->agreed.size > 1 && c->agreed.ntensors > MOST)
		return err_set(err, ERR_RESOURCE,
		               "--op slerp: at most %zu tensors over several ranks, but there are "
		               "%zu: give both inputs to one rank",
		               (size_t)MOST, c->agreed.ntensors);
	s->tensors = err_calloc(n, sizeof *s->tensors, "the lengths", err);
	s->all = err_calloc(n, sizeof *s->all, "the lengths", err);
	if (!s->tensors || !s->all)
		return -1;
	return job_run_in_thread(c->life->job, find_lengths, c, err);
}

void slerp_release(struct collective *c)
{
	free(c->transfer.slerp.tensors);
	free(c->transfer.slerp.all);
}

/* ---- elements ---- */

void slerp_weigh(const struct collective *c, int vector, int input, void *to, const void *x,
                 uint64_t pos, uint64_t n)
{
	const struct slerp *s = &c->transfer.slerp;
	const struct vector *v = &c->agreed.vectors[vector];
	const int contribution = c->agreed.ncame > 1 ? v->layout.args.rank : input;
	for (struct tensor_run r = {0}; elements_run(c, v, pos, n, &r);) {
		const struct slerp_tensor *t = &s->tensors[v->tensors[r.i]];
		const double length = t->lengths[input];
		double weight = t->weights[contribution];
		if (s->measuring)
			weight = !isfinite(length) ? (double)NAN : length > 0 ? 1 / length : 0;
		/* Averages divide by the divisor, a power of two. */
		scale_kernel(v->wire, v->dtype)((uint8_t *)to + r.from * dtype_size(v->wire),
		                                (const uint8_t *)x + r.from * dtype_size(v->dtype),
		                                weight * c->agreed.divisor, r.n);
	}
}

void slerp_store(struct collective *c, int vector, const void *sum, uint64_t pos, uint64_t n,
                 bool divided)
{
	const struct vector *v = &c->agreed.vectors[vector];
	const double by = divided ? 1 : 1 / c->agreed.divisor;
	if (!slerp_applies(c, v))
		return;
	if (coll_rules(c->request->kind)->cut == CUT_ROWS) /* the output is this rank's block */
		pos += v->layout.off[v->layout.args.rank];
	for (struct tensor_run r = {0}; elements_run(c, v, pos, n, &r);)
		c->transfer.slerp.tensors[v->tensors[r.i]].sum.squares += slerp_squares(
		        v->wire, (const uint8_t *)sum + r.from * dtype_size(v->wire), by, r.n);
}

/* ---- the angles ---- */

bool slerp_exchanges(const struct collective *c)
{
	return c->request->op == REDUCE_SLERP && coll_reduces(c->request->kind) &&
	       !c->request->dry_run && c->agreed.size > 1 &&
	       c->transfer.slerp.answered < c->agreed.ncame;
}

static int get_sum(struct view *part, struct slerp_sum *sum)
{
	const uint64_t bits = view_u64(part);
	memcpy(&sum->squares, &bits, sizeof bits);
	sum->lengthy = view_u8(part);
	return part->failed ? -1 : 0;
}

static void put_sum(const struct slerp_sum *sum, struct buf *out)
{
	uint64_t bits;
	memcpy(&bits, &sum->squares, sizeof bits);
	buf_put_u64(out, bits);
	buf_put_u8(out, sum->lengthy);
}

int slerp_take(struct collective *c, struct view part, struct err *err)
{
	struct slerp_sum more, *all = c->transfer.slerp.all;
	for (size_t g = 0; g < c->agreed.ntensors; g++) {
		if (get_sum(&part, &more) < 0)
			return malformed(err, "ROUND", "squares");
		all[g].squares += more.squares;
		all[g].lengthy += more.lengthy;
	}
	return view_left(&part) ? malformed(err, "ROUND", "squares") : 0;
}

void slerp_answer(struct collective *c, struct buf *out)
{
	for (size_t g = 0; g < c->agreed.ntensors; g++)
		put_sum(&c->transfer.slerp.all[g], out);
	c->transfer.slerp.answered++;
}

/* Ranks that store the same elements count once. */
static int add_up(struct collective *c, struct err *err)
{
	struct slerp_tensor *t = c->transfer.slerp.tensors;
	const size_t n = c->agreed.ntensors;
	const bool counts = !coll_rules(c->request->kind)->replicated ||
	                    c->agreed.rank == job_coordinator(c->life->job);
	struct view answer;
	struct buf b;
	buf_init(&b, JOB_ROUND_MAX);
	for (size_t g = 0; g < n; g++) {
		t[g].sum.squares = counts ? t[g].sum.squares : 0;
		put_sum(&t[g].sum, &b);
	}
	if (coll_await_round(c->life, &b, "the lengths", &answer, err) < 0)
		return -1;
	for (size_t g = 0; g < n; g++)
		(void)get_sum(&answer, &t[g].sum);
	return answer.failed || view_left(&answer)
	               ? err_rank(err, ERR_INTEGRITY, job_coordinator(c->life->job),
	                          "a malformed ANSWER message (squares)")
	               : 0;
}

int slerp_measure(struct collective *c, struct err *err)
{
	struct slerp *s = &c->transfer.slerp;
	if (c->request->op != REDUCE_SLERP || !coll_reduces(c->request->kind))
		return 0;
	s->measuring = true;
	int ret = drive_run_first(&c->transfer.drive, err);
	if (ret == 0 && c->agreed.size > 1)
		ret = add_up(c, err);
	s->measuring = false;
	for (size_t g = 0; g < c->agreed.ntensors && ret == 0; g++)
		slerp_weights(c->request->param.part, s->tensors[g].sum.squares,
		              s->tensors[g].sum.lengthy, s->tensors[g].weights);
	return ret;
}
