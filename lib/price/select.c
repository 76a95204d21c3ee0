#include "algorithms/table.h"
#include "lib/data/kernels/delta.h"
#include "lib/price/cost.h"
#include "lib/price/fill.h"
#include "lib/price/select.h"

#include "lib/sched/placement.h"

#include <math.h>
#include <stdlib.h>

/* The ranks up to which the work of each is counted: the schedules of all take 1 ms. */
#define COUNTED_MAX 16

/* Are all ranks known to share a host? */
static bool on_one_host(const struct select_args *a)
{
	const struct coll_args args = {.size = a->size, .host = a->host};

	return a->host ? hosts_count(&args) == 1 : a->host_cpus > 0;
}

bool select_in_memory(const struct select_args *a)
{
	return a->memory && a->size > 1 && on_one_host(a);
}

/* The built-in rates where the ranks are. */
static struct price_model placed(const struct select_args *a, const struct price_model *m)
{
	const struct coll_args args = {.size = a->size, .host = a->host};
	const struct hosts_sizes s = hosts_sizes(&args);

	if (s.n)
		return price_on_hosts(m, s.most, a->host_cpus);
	if (!on_one_host(a))
		return *m;
	const int cpus = a->host_cpus ? a->host_cpus : a->size;
	return a->memory ? price_in_memory(m, a->size, cpus) : price_on_one_host(m, a->size, cpus);
}

struct price_model select_model(const struct select_args *a)
{
	const bool memory = select_in_memory(a);
	const struct select_tuning *t = a->tuning;
	const struct price_model base =
	        t ? price_with_devices(&price_default, &t->rates) : price_default;
	struct price_model m = placed(a, &base);

	if (t && memory && t->memory.lends)
		m = t->memory;
	else if (t && !memory)
		m = t->rates;
	if (a->network)
		m = network_model(a->network, &m);
	return price_placed(&m, a->insecure);
}

/* ---- the wire type ---- */

/* The type of the sum: an average with weights, or of integers, is summed in a wider type and
 * rounded once. */
static enum dtype summed(const struct select_args *a)
{
	if (coll_reduces(a->kind) && a->op == REDUCE_AVG &&
	    (a->weighted || dtype_is_integer(a->dtype)))
		return reduce_avg_dtype(a->dtype, a->weighted, a->ordered);
	return a->dtype;
}

/* The type for a reduction without a conversion of its output. */
static enum dtype reduced_in(const struct select_args *a, const struct coll_algorithm *alg)
{
	const enum dtype d = summed(a);
	const bool once = a->op == REDUCE_AVG || dtype_size(d) == 1;
	const bool rounds = !(alg->flags & COLL_FINAL);

	if (d != a->dtype || !coll_reduces(a->kind))
		return d;
	if (a->ordered && (a->folds || (alg->flags & COLL_PARTIALS)))
		return reduce_acc_dtype(a->op, d, true);
	return a->folds || (rounds && once) ? reduce_acc_dtype(a->op, d, false) : d;
}

enum dtype select_wire(const struct select_args *a, const struct coll_algorithm *alg)
{
	const enum dtype d = reduced_in(a, alg), out = a->out ? a->out : a->dtype;

	if (a->blocks)
		return DTYPE_Q8;
	if (a->origin) /* the output is rounded when the origin is added */
		return a->ordered ? DTYPE_F64 : delta_dtype(a->dtype);
	if (out == d || out == a->dtype)
		return d;
	if (!coll_reduces(a->kind) && convert_kernel(out, d))
		return out;
	if (a->joint) /* whose means are rounded once */
		return DTYPE_F64;
	return d == DTYPE_F64 || out == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
}

/* The bytes of all elements in type @wire. */
static uint64_t bytes_of(const struct select_args *a, enum dtype wire)
{
	const uint64_t size = dtype_size(a->dtype) ? dtype_size(a->dtype) : 1;
	uint64_t bytes;

	if (wire == a->dtype)
		return a->bytes;
	return __builtin_mul_overflow(a->bytes / size, dtype_size(wire), &bytes) ? UINT64_MAX
	                                                                         : bytes;
}

/* ---- the candidates ---- */

static enum select_verdict judge(const struct select_price *p, const struct select_args *a)
{
	if (p->runs != p->alg)
		return SELECT_FALLS_BACK;
	if (a->joint && !(p->alg->flags & COLL_JOINT))
		return SELECT_FOLDS;
	if (a->ordered && !(p->alg->flags & COLL_ORDERED))
		return SELECT_UNORDERED;
	if ((p->alg->flags & COLL_DIVERGENT) && !a->divergent &&
	    reduce_order_matters(a->op, summed(a)))
		return SELECT_DIVERGENT;
	if ((p->alg->flags & COLL_UNEVEN) && !(a->network && a->network->uneven))
		return SELECT_EVEN;
	return SELECT_CANDIDATE;
}

/* @args, whose blocks are cut by the rates of the hosts into @off. */
static int weigh(const struct select_args *a, const struct coll_args *args, uint64_t *off,
                 struct coll_args *weighted, struct err *err)
{
	uint32_t *share = err_calloc((size_t)a->size, sizeof *share, "the blocks", err);
	int ret = share ? network_shares(a->network, a->kind, args, share, err) : -1;

	if (ret == 0)
		fill_cuts(share, a->size, coll_count(args), args->esize, off);
	free(share);
	*weighted = *args;
	weighted->off = off;
	return ret;
}

/* @args: with even blocks; @weighted: with blocks by the rates of the hosts. */
static int price_all(const struct select_args *a, const struct coll_args *even,
                     const struct coll_args *weighted, struct selection *s, struct err *err)
{
	const struct price_model model = select_model(a);

	if (!(s->prices = err_calloc(coll_algorithms_len, sizeof *s->prices, "the prices", err)))
		return -1;
	for (size_t i = 0; i < coll_algorithms_len; i++) {
		struct select_price *p = &s->prices[s->nprices];
		if (coll_algorithms[i]->kind != a->kind ||
		    (coll_algorithms[i]->flags & COLL_DEVICES))
			continue;
		p->alg = coll_algorithms[i];
		p->runs = coll_resolve(p->alg, even);
		const struct coll_args *args = p->runs->flags & COLL_WEIGHTED ? weighted : even;
		struct coll_cost cost = coll_cost_on(p->runs, args, model.ports);
		if (model.crowd > 1 && a->size <= COUNTED_MAX)
			coll_count_work(p->runs, args, &cost);
		p->verdict = judge(p, a);
		p->wire = select_wire(a, p->runs);
		p->bytes = bytes_of(a, p->wire);
		p->formula = price_formula(&model, &cost, (double)p->bytes);
		p->measured = -1;
		s->nprices++;
	}
	return 0;
}

/* ---- measurements ---- */

static struct select_price *candidate(const struct selection *s, const struct coll_algorithm *alg)
{
	for (size_t i = 0; i < s->nprices; i++)
		if (s->prices[i].alg == alg && s->prices[i].verdict == SELECT_CANDIDATE)
			return &s->prices[i];
	return NULL;
}

/* How far apart two sizes are on a logarithmic scale. */
static double distance(uint64_t a, uint64_t b)
{
	return fabs(log2((double)a + 1) - log2((double)b + 1));
}

static bool fits(const struct select_measured *m, const struct select_args *a)
{
	const bool memory = select_in_memory(a);

	return m->alg->kind == a->kind && m->size == a->size && m->memory == memory &&
	       (memory || m->secure != a->insecure);
}

/* The measurement at the size nearest to @bytes, among candidates that send @bytes. If two sizes
 * are equally near, the smaller. NULL: no size is near enough. */
static const struct select_measured *nearest(const struct select_args *a, const struct selection *s,
                                             uint64_t bytes)
{
	const struct select_measured *best = NULL;
	double least = INFINITY;

	for (size_t i = 0; i < a->tuning->nmeasured; i++) {
		const struct select_measured *m = &a->tuning->measured[i];
		const struct select_price *p = fits(m, a) ? candidate(s, m->alg) : NULL;
		const double d = distance(m->bytes, bytes);
		if (!p || p->bytes != bytes || d > SELECT_NEAR)
			continue;
		if (d < least || (d <= least && m->bytes < best->bytes)) {
			best = m;
			least = d;
		}
	}
	return best;
}

/* Set the candidates' measurements. Candidates that send the same number of bytes are compared at
 * the same measured size. */
static void take_measured(const struct select_args *a, struct selection *s)
{
	const struct select_tuning *t = a->tuning;
	const bool limited = a->network && a->network->limited;

	s->reason = SELECT_BY_FORMULA;
	for (size_t i = 0; t && !limited && i < t->nmeasured; i++) {
		const struct select_measured *m = &t->measured[i];
		struct select_price *p = fits(m, a) ? candidate(s, m->alg) : NULL;
		const struct select_measured *at = p ? nearest(a, s, p->bytes) : NULL;
		if (!at || m->bytes != at->bytes)
			continue;
		p->measured = m->seconds;
		p->measured_at = m->bytes;
		s->reason = SELECT_BY_MEASUREMENT;
	}
}

/* ---- the choice ---- */

static const struct coll_algorithm *rounds_once(const struct select_args *a,
                                                const struct selection *s)
{
	const bool reduces = a->kind == COLL_ALLREDUCE || a->kind == COLL_REDUCE_SCATTER;
	const bool narrow = dtype_is_float(a->dtype) && dtype_size(a->dtype) == 2;

	const struct coll_args args = {.size = a->size, .host = a->host};

	if (hosts_shared(&args)) /* direct is dear there */
		return NULL;
	if (!reduces || !narrow || a->op != REDUCE_SUM || a->folds || a->size > SELECT_DIRECT_MAX)
		return NULL;
	const struct select_price *direct = candidate(s, coll_find(a->kind, "direct"));
	const struct select_price *weighted = candidate(s, coll_find(a->kind, "weighted"));
	if (direct && weighted && weighted->formula < direct->formula)
		direct = weighted; /* with the same bits */
	return direct ? direct->alg : NULL;
}

static const struct coll_algorithm *fastest(const struct selection *s)
{
	const bool measured = s->reason == SELECT_BY_MEASUREMENT;
	const struct coll_algorithm *best = NULL;
	double least = INFINITY;

	for (size_t i = 0; i < s->nprices; i++) {
		const struct select_price *p = &s->prices[i];
		const double price = measured ? p->measured : p->formula;
		if (p->verdict != SELECT_CANDIDATE || price < 0 || price >= least)
			continue;
		best = p->alg;
		least = price;
	}
	return best;
}

static void choose(const struct select_args *a, struct selection *s)
{
	if (a->kind == COLL_BARRIER) {
		s->alg = coll_find(a->kind, "all_to_one");
		s->reason = SELECT_BY_LINKS;
		return;
	}
	s->alg = rounds_once(a, s);
	if (s->alg)
		s->reason = SELECT_BY_ROUNDING;
	else
		s->alg = fastest(s);
}

int select_all(const struct select_args *a, struct selection *s, struct err *err)
{
	const size_t esize = dtype_size(a->dtype) ? dtype_size(a->dtype) : 1;
	const size_t n = (size_t)a->size + 1;
	uint64_t *off = err_calloc(2 * n, sizeof *off, "the blocks", err);
	struct coll_args weighted;

	*s = (struct selection){0};
	if (!off)
		return -1;
	coll_split(a->bytes / esize, a->size, off);
	const struct coll_args args = {
	        .size = a->size,
	        .root = a->root,
	        .ninputs = 1,
	        .joint = a->joint,
	        .stores = true,
	        .off = off,
	        .recv_off = a->uneven ? off : NULL,
	        .host = a->host,
	        .base = a->base,
	        .steps = a->steps,
	        .esize = (unsigned)esize,
	        .ordered = a->ordered,
	};
	int ret = weigh(a, &args, off + n, &weighted, err);
	if (ret == 0)
		ret = price_all(a, &args, &weighted, s, err);
	free(off);
	if (ret < 0)
		return -1;
	take_measured(a, s);
	choose(a, s);
	const struct select_price *chosen = selection_price(s, s->alg);
	s->measured_at = chosen ? chosen->measured_at : 0;
	return 0;
}

const struct select_price *selection_price(const struct selection *s,
                                           const struct coll_algorithm *alg)
{
	for (size_t i = 0; i < s->nprices; i++)
		if (s->prices[i].alg == alg)
			return &s->prices[i];
	return NULL;
}

void selection_release(struct selection *s)
{
	free(s->prices);
	*s = (struct selection){0};
}

int select_auto(const struct select_args *a, const struct coll_algorithm **alg, struct err *err)
{
	struct selection s = {0};
	const int ret = select_all(a, &s, err);

	*alg = s.alg;
	selection_release(&s);
	return ret;
}
