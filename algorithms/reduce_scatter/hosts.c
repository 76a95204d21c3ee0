/*
 * reduce-scatter hosts (hosts.h)
 *
 * 1. The blocks of a host's ranks, one behind the other, are cut into L parts; a lane is one part
 *    of every host. Inside a host every rank sends each lane to its owner, which adds them.
 * 2. The owners of a lane run circulant's reduce-scatter (circulant.c), with a host's part as its
 *    block.
 * 3. Inside a host every owner sends its part to the ranks whose blocks it is. With L ranks on
 * every host it is the owner's own.
 *
 * If the hosts have as many ranks, what leaves them is the minimum. A single input is overwritten
 * in place; several are folded into scratch of S.
 *
 * Hosts 0 1 and 2 3, blocks 0..3; the lanes are 0 2 and 1 3:
 *
 *   inside     0: send 1 3 to 1, add 0 2     1: send 0 2 to 0, add 1 3     2 and 3 the same
 *   between    0: send 2 to 2, add 0         1: send 3 to 3, add 1
 *
 * Source: Decomposing MPI Collectives for Exploiting Multi-lane Communication, CLUSTER 2020.
 */
#include "algorithms/parts/circulant.h"
#include "algorithms/parts/hosts.h"

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const struct sched_span work = sched_work(b);
	struct hosts h;

	if (!hosts_init(&h, b, a, true))
		return;
	hosts_fold(b, &h, work);
	hosts_to_owners(b, &h, work, HOSTS_ALL, true);
	if (hosts_owner(&h))
		circle_reduce_scatter(b, &h.lane, work);
	hosts_from_owners(b, &h, work, HOSTS_BLOCK);
	work_scatter_own(b, a, work);
}

/* Upper bounds if the hosts have different numbers of ranks. A rank that owns no lane sends S. */
static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const struct hosts_sizes s = hosts_sizes(a);
	const double n = s.n, l = s.least, m = s.most, p = a->size, q = log2_ceil(s.n);
	const bool even = s.least == s.most;
	const double out = even ? 0 : m / p;
	const double pieces = s.together || even ? n : n * m; /* messages for a lane */

	*c = (struct coll_cost){
	        .rounds = q + (even ? 1 : 2),
	        .outer = q,
	        .messages = l * pieces - 1 + (even ? 0 : m),
	        .sent = (l - 1 + 1 - l / p + out) / l,
	        .received = (m - 1 + (n - 1) * m / p) / l + (even ? 0 : 1 / p),
	        .reduced = (m - 1 + (n - 1) * m / p) / l,
	};
	c->sent = even || c->sent > 1 ? c->sent : 1;
}

const struct coll_algorithm reduce_scatter_hosts = {
        .kind = COLL_REDUCE_SCATTER,
        .name = "hosts",
        .help = "reduce-scatter inside hosts, then between hosts",
        .steps = "2 + ceil(log2 N) of N hosts",
        .bytes = "S(N-1)/N out of a host",
        .restrictions = "needs several hosts, and two ranks on one of them; else circulant",
        .source = "Träff, Hunold, arXiv:1910.13373",
        .cost = cost,
        .falls_back = hosts_or_circulant,
        .emit = emit,
};
