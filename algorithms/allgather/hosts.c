/*
 * allgather hosts (hosts.h)
 *
 * 1. The blocks of a host's ranks, one behind the other, are cut into L parts; a lane is one part
 *    of every host. Inside a host the ranks send their parts of each lane to its owner. With L
 *    ranks on every host the owner has its part already.
 * 2. The owners of a lane run circulant's allgather (circulant.c), with a host's part as its block.
 * 3. Inside a host every owner sends its lane to all, without the receiver's own block.
 *
 * If the hosts have as many ranks, what leaves them is the minimum; every rank receives each
 * element once. No scratch.
 *
 * Hosts 0 1 and 2 3, blocks 0..3; the lanes are 0 2 and 1 3:
 *
 *   between    0: send 0 to 2, get 2     1: send 1 to 3, get 3     2 and 3 the same
 *   inside     0: send 0 2 to 1          1: send 1 3 to 0
 *
 * Source: Decomposing MPI Collectives for Exploiting Multi-lane Communication, CLUSTER 2020.
 */
#include "algorithms/parts/circulant.h"
#include "algorithms/parts/hosts.h"

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const struct sched_span work = work_gather_own(b, a);
	struct hosts h;

	if (!hosts_init(&h, b, a, true))
		return;
	hosts_to_owners(b, &h, work, HOSTS_BLOCK, false);
	if (hosts_owner(&h))
		circle_allgather(b, &h.lane, work);
	hosts_from_owners(b, &h, work, HOSTS_OTHERS);
}

/* Upper bounds if the hosts have different numbers of ranks. */
static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const struct hosts_sizes s = hosts_sizes(a);
	const double n = s.n, l = s.least, m = s.most, p = a->size, q = log2_ceil(s.n);
	const bool even = s.least == s.most;
	const double pieces = s.together || even ? n : n * m; /* messages for a lane */

	*c = (struct coll_cost){
	        .rounds = q + (even ? 1 : 2),
	        .outer = q,
	        .messages = even ? l * n - 1 : (m - 1) * (pieces + 1) + pieces + 2,
	        .sent = (m - 1 + (n - 1) * m / p) / l + (even ? 0 : 1 / p),
	        .received = (p - 1) / p,
	};
}

const struct coll_algorithm allgather_hosts = {
        .kind = COLL_ALLGATHER,
        .name = "hosts",
        .help = "allgather between hosts, then inside hosts",
        .steps = "2 + ceil(log2 N) of N hosts",
        .bytes = "S(N-1)/N out of a host",
        .restrictions = "needs several hosts, and two ranks on one of them; else circulant",
        .source = "Träff, Hunold, arXiv:1910.13373",
        .cost = cost,
        .falls_back = hosts_or_circulant,
        .emit = emit,
};
