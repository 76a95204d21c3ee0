/*
 * broadcast hosts (hosts.h)
 *
 * 1. The vector is cut into L lanes. The root sends each lane to its owner on the root's host; it
 *    owns one itself.
 * 2. The owners of a lane run circulant's broadcast (traeff.h) from the one on the root's host.
 * 3. Inside a host every owner sends its lane to all; on the root's host not to the root.
 *
 * At most as much as leaves the root's host leaves another one; every rank receives S. No scratch.
 *
 * Hosts 0 1 and 2 3 4, root 0; lanes x and y:
 *
 *   inside     0: send y to 1
 *   between    0: send x to 2            1: send y to 3
 *   inside     0: send x to 1            2: send x to 3 and 4      3: send y to 2 and 4
 *
 * Source: Decomposing MPI Collectives for Exploiting Multi-lane Communication, CLUSTER 2020; the
 * broadcast is that of Träff's paper.
 */
#include "algorithms/parts/hosts.h"
#include "algorithms/parts/traeff.h"

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const struct sched_span out = sched_out(b, 0);
	struct hosts h;

	if (!hosts_init(&h, b, a, false))
		return;
	if (a->rank == a->root)
		hosts_fold(b, &h, out);
	if (h.host == a->host[a->root])
		hosts_to_owners(b, &h, out, HOSTS_ROOT, false);
	if (hosts_owner(&h))
		traeff_broadcast(b, &h.lane, out, hosts_lane(&h));
	hosts_from_owners(b, &h, out, HOSTS_NOT_ROOT);
}

/* If its host is the largest, the root sends most. */
static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const struct hosts_sizes s = hosts_sizes(a);
	const double l = s.least, m = s.most, n = traeff_blocks(s.n), q = log2_ceil(s.n);
	const double chain = q > 1 ? q + 1 : 1;

	*c = (struct coll_cost){
	        .rounds = 2 + chain,
	        .outer = chain,
	        .messages = l - 1 + n - 1 + q + m - 1,
	        .sent = (l - 1 + (n - 1 + q) / n + m - 1) / l,
	        .received = 1,
	};
}

const struct coll_algorithm broadcast_hosts = {
        .kind = COLL_BROADCAST,
        .name = "hosts",
        .help = "scatter on the root's host, broadcast between hosts, allgather inside hosts",
        .steps = "2 + ceil(log2 N) of N hosts, in blocks",
        .bytes = "S + S(q-1)/n out of the root's host",
        .restrictions = "needs several hosts, and two ranks on one of them; else circulant",
        .source = "Träff, Hunold, arXiv:1910.13373; Träff, arXiv:2407.18004",
        .cost = cost,
        .falls_back = hosts_or_circulant,
        .emit = emit,
};
