/*
 * barrier hosts
 *
 * 1. Inside a host every rank notifies the first one.
 * 2. These run the rounds of dissemination: in the round of d = 1, 2, 4, .. < N the one of host h
 *    notifies that of host h + d.
 * 3. It notifies the ranks of its host.
 *
 * A notice is one element of `band`. No scratch.
 *
 * Hosts 0 1 and 2 3 4: 1 > 0, 3 > 2, 4 > 2; 0 > 2, 2 > 0; 0 > 1, 2 > 3, 2 > 4.
 *
 * Source: the scheme; dissemination is that of Hensgen, Finkel, Manber, IJPP 1988.
 */
#include "algorithms/parts/hosts.h"

static const char *falls_back(const struct coll_args *a)
{
	return hosts_shared(a) ? NULL : "dissemination";
}

/* The single element is in the first lane. */
static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const struct sched_span out = sched_out(b, 0);
	struct hosts h;

	if (!hosts_init(&h, b, a, false))
		return;
	hosts_fold(b, &h, out);
	hosts_to_owners(b, &h, out, HOSTS_ALL, true);
	for (int d = 1; hosts_owner(&h) && d < h.n; d *= 2) {
		const int me = h.lane.me;

		work_send(b, circle_rank(&h.lane, circle_add(&h.lane, me, d)), out, hosts_lane(&h));
		work_add(b, circle_rank(&h.lane, circle_add(&h.lane, me, -d)), out, hosts_lane(&h));
	}
	hosts_from_owners(b, &h, out, HOSTS_ALL);
}

static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const struct hosts_sizes s = hosts_sizes(a);
	const double m = s.most, q = log2_ceil(s.n);

	*c = (struct coll_cost){
	        .rounds = 2 + q,
	        .outer = q,
	        .messages = q + m - 1,
	        .sent = q + m - 1,
	        .received = q + m - 1,
	        .reduced = q + m - 1,
	};
}

const struct coll_algorithm barrier_hosts = {
        .kind = COLL_BARRIER,
        .name = "hosts",
        .help = "one rank of each host runs dissemination for the others",
        .steps = "2 + ceil(log2 N) of N hosts",
        .bytes = "ceil(log2 N) messages out of a host",
        .restrictions = "needs several hosts, and two ranks on one of them; else dissemination",
        .source = "Träff, Hunold, arXiv:1910.13373",
        .flags = COLL_DIVERGENT | COLL_COPIES | COLL_IDEMPOTENT,
        .cost = cost,
        .falls_back = falls_back,
        .emit = emit,
};
