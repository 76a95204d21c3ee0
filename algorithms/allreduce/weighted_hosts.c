/*
 * allreduce weighted_hosts (hosts.h): weighted between hosts that several ranks share.
 *
 * 1. Inside a host every rank sends its vector to the first rank of the host, which adds them.
 * 2. The first ranks of the N hosts exchange directly: the blocks of all ranks of a host are summed
 *    by its first rank, in the order of the hosts, in the wider type, and sent to the other first
 *    ranks.
 * 3. Inside a host its first rank sends the vector to all.
 *
 * A host's part is the larger, the faster its link is (fill.h). Scratch: the host's blocks in the
 * wider type.
 *
 * Hosts of ranks 0 1, 2 3 and 4, whose blocks are x (of 0), y (of 2) and z (of 4):
 *
 *   inside     1: send all to 0          3: send all to 2
 *   between    0: send y to 2, z to 4; add x of 0, 2, 4 in this order; send x to 2 and 4
 *   inside     0: send all to 1          2: send all to 3
 *
 * Source: the filling is derived in fill.h.
 */
#include "algorithms/parts/hosts.h"

/* Sum the range @r of all first ranks' vectors, in the order of the hosts. */
static void sum_range(struct sched_builder *b, const struct hosts *h, struct sched_span work,
                      struct range r)
{
	const struct sched_span acc = sched_scratch(b, SCHED_ACC, r.len);
	const struct sched_span mine = span_add(work, r.off);

	for (int i = 0; i < h->n; i++)
		direct_add(b, h->a, hosts_rank(h, i, 0), i == 0, acc, mine, r.len);
	sched_copy(b, mine, acc, r.len, 0);
}

static void exchange(struct sched_builder *b, const struct hosts *h, struct sched_span work)
{
	struct range r;

	for (int d = 1; d < h->n; d++) {
		const int i = (h->host + d) % h->n;

		hosts_send_blocks(b, h, i, i, work);
	}
	for (int k = 0; hosts_blocks(h, h->host, &k, &r);)
		sum_range(b, h, work, r);
	for (int d = 1; d < h->n; d++)
		hosts_send_blocks(b, h, h->host, (h->host + d) % h->n, work);
	for (int d = 1; d < h->n; d++) {
		const int i = (h->host + h->n - d) % h->n;

		hosts_recv_blocks(b, h, i, i, work);
	}
}

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const struct sched_span work = sched_work(b);
	struct hosts h;

	if (!hosts_init_firsts(&h, b, a))
		return;
	hosts_fold(b, &h, work);
	hosts_to_owners(b, &h, work, HOSTS_ALL, true);
	if (hosts_owner(&h))
		exchange(b, &h, work);
	hosts_from_owners(b, &h, work, HOSTS_ALL);
}

/* The first rank of the host with most ranks sends most. Runs of blocks are single ranks at most.
 */
static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const struct hosts_sizes s = hosts_sizes(a);
	const struct hosts_parts p = hosts_parts(a);
	const double n = s.n, m = s.most, f = p.root > p.others ? p.root : p.others;
	const double between = s.together ? 2 * (n - 1) : a->size - s.least + (n - 1) * m;

	*c = (struct coll_cost){
	        .rounds = 4,
	        .outer = 2,
	        .messages = between + m - 1,
	        .sent = 1 + f * (n - 2) + m - 1,
	        .received = 1 + f * (n - 2) + m - 1,
	        .reduced = m - 1 + f * (n - 1),
	};
}

static const char *falls_back(const struct coll_args *a)
{
	return !hosts_shared(a) ? "weighted" : hosts_count(a) < 3 ? "hosts" : NULL;
}

const struct coll_algorithm allreduce_weighted_hosts = {
        .kind = COLL_ALLREDUCE,
        .name = "weighted_hosts",
        .help = "weighted between hosts: the first rank of each adds for its host",
        .steps = "4",
        .bytes = "S(1+f(N-2)) out of a host, f: its part",
        .restrictions = "needs 3 hosts, and two ranks on one of them; else hosts or weighted",
        .source = "lib/price/fill.h",
        .flags = COLL_WEIGHTED,
        .cost = cost,
        .falls_back = falls_back,
        .emit = emit,
};
