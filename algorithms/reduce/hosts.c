/*
 * reduce hosts (hosts.h)
 *
 * 1. The vector is cut into L lanes. Inside a host every rank sends each lane to its owner, which
 *    adds them. The root owns one.
 * 2. The owners of a lane run circulant's reduction (traeff.h) to the one on the root's host.
 * 3. The owners on the root's host send their lanes to the root.
 *
 * What leaves a host is the minimum, whatever the numbers of ranks. Scratch only if several inputs
 * are folded.
 *
 * Hosts 0 1 and 2 3 4, root 0; lanes x and y:
 *
 *   inside     0: send y to 1, add x     1: send x to 0, add y
 *              2: send y to 3, add x     3: send x to 2, add y     4: send x to 2, y to 3
 *   between    2: send x to 0            3: send y to 1
 *   inside     1: send y to 0
 *
 * Source: Decomposing MPI Collectives for Exploiting Multi-lane Communication, CLUSTER 2020; the
 * reduction is that of Träff's paper.
 */
#include "algorithms/parts/hosts.h"
#include "algorithms/parts/traeff.h"

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const struct sched_span work = sched_work(b);
	struct hosts h;

	if (!hosts_init(&h, b, a, false))
		return;
	hosts_fold(b, &h, work);
	hosts_to_owners(b, &h, work, HOSTS_ALL, true);
	if (hosts_owner(&h))
		traeff_reduce(b, &h.lane, work, hosts_lane(&h));
	if (h.host == a->host[a->root])
		hosts_from_owners(b, &h, work, HOSTS_ROOT);
}

/* If the root's host is the largest, the root receives most. */
static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const struct hosts_sizes s = hosts_sizes(a);
	const double l = s.least, m = s.most, n = traeff_blocks(s.n), q = log2_ceil(s.n);
	const double chain = q > 1 ? q + 1 : 1, lane = (n - 1 + q) / n;

	*c = (struct coll_cost){
	        .rounds = 2 + chain,
	        .outer = chain,
	        .messages = l - 1 + n,
	        .sent = 1,
	        .received = (m - 1 + lane + l - 1) / l,
	        .reduced = (m - 1 + lane) / l,
	};
}

const struct coll_algorithm reduce_hosts = {
        .kind = COLL_REDUCE,
        .name = "hosts",
        .help = "reduce-scatter inside hosts, reduction between hosts, gather on the root's host",
        .steps = "2 + ceil(log2 N) of N hosts, in blocks",
        .bytes = "S out of a host",
        .restrictions = "needs several hosts, and two ranks on one of them; else circulant",
        .source = "Träff, Hunold, arXiv:1910.13373; Träff, arXiv:2407.18004",
        .cost = cost,
        .falls_back = hosts_or_circulant,
        .emit = emit,
};
