/*
 * gather hosts
 *
 * 1. The first rank of each host leads it; the root leads its own. The ranks of a host send their
 *    blocks to the leader, which puts them one behind the other.
 * 2. Each leader sends them to the root. Where a host's ranks are not consecutive, the root copies
 *    the blocks to their places.
 *
 * What leaves the hosts is the minimum. Scratch: a leader's host's blocks; at the root, the blocks
 * of hosts whose ranks are not consecutive.
 *
 * Hosts 0 1, 2 3 4 and 5; root 0:
 *
 *   1: send 1 to 0   3: send 3 to 2   4: send 4 to 2
 *   2: send 2 3 4 to 0                5: send 5 to 0
 */
#include "algorithms/parts/hosts.h"

/* A leader: collect the host's blocks, send them. */
static void lead(struct sched_builder *b, const struct hosts *h)
{
	const struct coll_args *a = h->a;
	const int count = hosts_ranks(h, h->host);
	const uint64_t total = h->total[h->host];
	const struct sched_span all =
	        count > 1 ? sched_scratch(b, SCHED_DATA, total) : sched_in(b, 0, 0);

	sched_fold_inputs(b, all, 0, block_range(a, a->rank).len);
	for (int k = 1; k < count; k++) {
		const int r = hosts_rank(h, h->host, k);

		sched_recv(b, r, span_add(all, h->before[r]), block_range(a, r).len);
	}
	sched_send(b, a->root, all, total);
}

/* The root: receive the blocks of host @i. */
static void collect(struct sched_builder *b, const struct hosts *h, int i)
{
	const struct coll_args *a = h->a;
	const int leader = hosts_rank(h, i, 0), count = hosts_ranks(h, i);
	struct sched_span all = sched_out(b, a->off[leader]);

	if (hosts_run(h, i, 0) == count) {
		sched_recv(b, leader, all, h->total[i]);
		return;
	}
	all = sched_scratch(b, SCHED_DATA, h->total[i]);
	sched_recv(b, leader, all, h->total[i]);
	for (int k = 0; k < count; k++) {
		const int r = hosts_rank(h, i, k);

		sched_copy(b, sched_out(b, a->off[r]), span_add(all, h->before[r]),
		           block_range(a, r).len, 0);
	}
}

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const struct range own = block_range(a, a->rank);
	struct hosts h;

	if (!hosts_list(&h, b, a, true))
		return;
	if (h.local) {
		sched_fold_inputs(b, sched_in(b, 0, 0), 0, own.len);
		sched_send(b, hosts_rank(&h, h.host, 0), sched_in(b, 0, 0), own.len);
		return;
	}
	if (a->rank != a->root) {
		lead(b, &h);
		return;
	}
	sched_fold_inputs(b, sched_out(b, own.off), 0, own.len);
	for (int k = 1; k < hosts_ranks(&h, h.host); k++) {
		const int r = hosts_rank(&h, h.host, k);

		work_recv(b, r, sched_out(b, 0), block_range(a, r));
	}
	for (int d = 1; d < h.n; d++)
		collect(b, &h, (h.host + d) % h.n);
}

static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const double p = a->size;

	*c = (struct coll_cost){
	        .rounds = 2,
	        .outer = 1,
	        .messages = 1,
	        .sent = hosts_sizes(a).most / p,
	        .received = (p - 1) / p,
	};
}

const struct coll_algorithm gather_hosts = {
        .kind = COLL_GATHER,
        .name = "hosts",
        .help = "one message from each host, where one rank collects the blocks",
        .steps = "2",
        .bytes = "out of a host: the blocks of its ranks",
        .restrictions = "needs several hosts, and two ranks on one of them; else linear",
        .source = "Open MPI coll/han",
        .cost = cost,
        .falls_back = hosts_or_linear,
        .emit = emit,
};
