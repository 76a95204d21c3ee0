/*
 * allreduce hosts (hosts.h)
 *
 * 1. The vector is cut into L lanes. Inside a host every rank sends each lane to its owner, which
 *    adds them.
 * 2. The owners of a lane run circulant's reduce-scatter and allgather (circulant.c), with a block
 *    of the lane for each of the N hosts.
 * 3. Inside a host every owner sends its lane to all.
 *
 * What leaves a host is the minimum, whatever the numbers of ranks. No scratch.
 *
 * Hosts of 2 and 3 ranks, 0 1 and 2 3 4; lanes x and y of 2 blocks each:
 *
 *   inside     0: send y to 1, add x     1: send x to 0, add y
 *              2: send y to 3, add x     3: send x to 2, add y     4: send x to 2, y to 3
 *   between    0: send x1 to 2, add x0   2: send x0 to 0, add x1   the same of y: 1 and 3
 *              0: send x0 to 2, get x1   2: send x1 to 0, get x0
 *   inside     0: send x to 1, get y     2: send x to 3 and 4, get y
 *
 * Source: Decomposing MPI Collectives for Exploiting Multi-lane Communication, CLUSTER 2020.
 */
#include "algorithms/parts/circulant.h"
#include "algorithms/parts/hosts.h"

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const struct sched_span work = sched_work(b);
	struct hosts h;

	if (!hosts_init(&h, b, a, false))
		return;
	hosts_fold(b, &h, work);
	hosts_to_owners(b, &h, work, HOSTS_ALL, true);
	if (hosts_owner(&h)) {
		circle_reduce_scatter(b, &h.lane, work);
		circle_allgather(b, &h.lane, work);
	}
	hosts_from_owners(b, &h, work, HOSTS_ALL);
}

/* An owner on the largest host sends most. */
static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const struct hosts_sizes s = hosts_sizes(a);
	const double n = s.n, l = s.least, m = s.most, q = log2_ceil(s.n);
	const double lane = 2 * (n - 1) / n;

	*c = (struct coll_cost){
	        .rounds = 2 + 2 * q,
	        .outer = 2 * q,
	        .messages = l - 1 + circle_messages(s.n) + m - 1,
	        .sent = (l - 1 + lane + m - 1) / l,
	        .received = (l - 1 + lane + m - 1) / l,
	        .reduced = (m - 1 + lane / 2) / l,
	        .steady = true, /* nearly: rounds inside hosts come between */
	};
}

const struct coll_algorithm allreduce_hosts = {
        .kind = COLL_ALLREDUCE,
        .name = "hosts",
        .help = "reduce-scatter inside hosts, allreduce between hosts, allgather inside hosts",
        .steps = "2 + 2 ceil(log2 N) of N hosts",
        .bytes = "2S(N-1)/N out of a host",
        .restrictions = "needs several hosts, and two ranks on one of them; else circulant",
        .source = "Träff, Hunold, arXiv:1910.13373",
        .cost = cost,
        .falls_back = hosts_or_circulant,
        .emit = emit,
};
