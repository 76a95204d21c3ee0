/* Costs of algorithms, with what leaves hosts. See cost.h. */
#include <math.h>

#include "algorithms/table.h"
#include "lib/price/cost.h"
#include "lib/price/traffic.h"
#include "lib/sched/placement.h"

static double ratio(uint64_t a, uint64_t b)
{
	return b ? (double)a / (double)b : 1;
}

/* What leaves hosts if it is not counted: the most that is possible. */
static void bound_traffic(const struct coll_args *args, struct coll_cost *c)
{
	const double most = hosts_shared(args) ? hosts_sizes(args).most : 1;

	c->outer = hosts_shared(args) ? c->outer : c->rounds;
	c->leaves = most * c->sent;
	c->enters = most * c->received;
	c->crosses = c->sent + c->received;
	c->sharing = most;
	c->apiece = c->messages > 0 ? c->sent / c->messages : 0;
}

/* What leaves hosts, counted. */
static void count_traffic(const struct coll_algorithm *alg, const struct coll_args *args,
                          const struct price_port *ports, struct coll_cost *c)
{
	const double n = (double)coll_count(args);
	struct traffic t;

	if (n <= 0 || !traffic_of(alg, args, ports, &t))
		return;
	c->out = t.out / n;
	c->in = t.in / n;
	if (!hosts_shared(args))
		return;
	c->leaves = (double)t.leaves / n;
	c->enters = (double)t.enters / n;
	c->crosses = (double)t.crosses / n;
	c->sharing = ratio(t.leaves, t.sent);
	if (ratio(t.enters, t.received) > c->sharing)
		c->sharing = ratio(t.enters, t.received);
	c->apiece = t.pieces ? (double)t.sent / (double)t.pieces / n : 0;
	/* As many of the rounds as of the messages, rounded up. */
	if (c->outer <= 0 && t.messages)
		c->outer = ceil(c->rounds * (double)t.outer / (double)t.messages - 1e-9);
}

struct coll_cost coll_cost_of(const struct coll_algorithm *alg, const struct coll_args *args)
{
	return coll_cost_on(alg, args, NULL);
}

struct coll_cost coll_cost_on(const struct coll_algorithm *alg, const struct coll_args *args,
                              const struct price_port *ports)
{
	struct coll_cost c = {0};

	if (args->size < 2)
		return c;
	alg = coll_resolve(alg, args);
	alg->cost(args, &c);
	c.pairs &= args->size > 2;
	c.meets = !c.steady && args->size > 2 &&
	          (alg->kind == COLL_ALLREDUCE || alg->kind == COLL_REDUCE_SCATTER ||
	           alg->kind == COLL_ALLGATHER || alg->kind == COLL_BROADCAST ||
	           alg->kind == COLL_REDUCE);
	c.copies = alg->flags & COLL_COPIES ? c.sent : 0;
	c.widened = alg->flags & COLL_FINAL ? c.reduced : 0;
	bound_traffic(args, &c);
	if (ports || hosts_shared(args))
		count_traffic(alg, args, ports, &c);
	return c;
}

struct work {
	uint64_t touched, copied;
};

static struct work work_of(const struct sched *s)
{
	struct work w = {0};

	for (uint32_t i = 0; i < s->nsteps; i++) {
		const struct sched_step *st = &s->steps[i];

		if (st->op != SCHED_SEND)
			w.touched += st->op == SCHED_JOINT ? s->njoint * st->len : st->len;
		if (st->op == SCHED_COPY || st->op == SCHED_IDENTITY)
			w.copied += st->len;
	}
	return w;
}

void coll_count_work(const struct coll_algorithm *alg, const struct coll_args *args,
                     struct coll_cost *cost)
{
	const uint64_t n = coll_count(args);
	struct coll_args a = *args;
	struct work most = {0};
	uint64_t all = 0;

	for (a.rank = 0; a.rank < a.size; a.rank++) {
		enum sched_error e;
		struct sched *s = coll_emit(alg, &a, &e);
		if (!s)
			return;
		const struct work w = work_of(s);
		sched_free(s);
		all += w.touched;
		most = w.touched > most.touched ? w : most;
	}
	if (!n || !most.touched)
		return;
	cost->moved = (double)most.copied / (double)n;
	cost->busy = (double)all / (double)most.touched / args->size;
}
