/*
 * scatter hosts
 *
 * 1. The first rank of each host leads it; the root leads its own. The root sends each leader the
 *    blocks of its host. Where a host's ranks are not consecutive, it first puts their blocks one
 *    behind the other.
 * 2. The leaders, and the root, send the ranks of their host their blocks.
 *
 * What leaves the root's host is the minimum. Scratch: a leader's host's blocks; at the root, the
 * blocks of hosts whose ranks are not consecutive.
 *
 * Hosts 0 1, 2 3 4 and 5; root 0:
 *
 *   0: send 2 3 4 to 2, 5 to 5, 1 to 1
 *   2: send 3 to 3, 4 to 4
 */
#include "algorithms/parts/hosts.h"

/* The root: send the blocks of host @i. */
static void deal(struct sched_builder *b, const struct hosts *h, struct sched_span work, int i)
{
	const struct coll_args *a = h->a;
	const int leader = hosts_rank(h, i, 0), count = hosts_ranks(h, i);
	struct sched_span all;

	if (hosts_run(h, i, 0) == count) {
		const struct range blocks = {a->off[leader], h->total[i]};

		work_fold(b, work, blocks);
		work_send(b, leader, work, blocks);
		return;
	}
	all = sched_scratch(b, SCHED_DATA, h->total[i]);
	for (int k = 0; k < count; k++) {
		const int r = hosts_rank(h, i, k);
		const struct range block = block_range(a, r);

		sched_fold_inputs(b, span_add(all, h->before[r]), block.off, block.len);
	}
	sched_send(b, leader, all, h->total[i]);
}

/* A leader: receive the host's blocks, send them on. */
static void lead(struct sched_builder *b, const struct hosts *h)
{
	const struct coll_args *a = h->a;
	const int count = hosts_ranks(h, h->host);
	const uint64_t total = h->total[h->host];
	const struct sched_span all =
	        count > 1 ? sched_scratch(b, SCHED_DATA, total) : sched_out(b, 0);

	sched_recv(b, a->root, all, total);
	for (int k = 1; k < count; k++) {
		const int r = hosts_rank(h, h->host, k);

		sched_send(b, r, span_add(all, h->before[r]), block_range(a, r).len);
	}
	sched_copy(b, sched_out(b, 0), all, block_range(a, a->rank).len, 0);
}

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	struct sched_span work;
	struct hosts h;

	if (!hosts_list(&h, b, a, true))
		return;
	if (h.local) {
		sched_recv(b, hosts_rank(&h, h.host, 0), sched_out(b, 0),
		           block_range(a, a->rank).len);
		return;
	}
	if (a->rank != a->root) {
		lead(b, &h);
		return;
	}
	work = sched_work(b);
	for (int d = 1; d < h.n; d++)
		deal(b, &h, work, (h.host + d) % h.n);
	for (int k = 1; k < hosts_ranks(&h, h.host); k++) {
		const int r = hosts_rank(&h, h.host, k);

		work_fold(b, work, block_range(a, r));
		work_send(b, r, work, block_range(a, r));
	}
	work_fold(b, work, block_range(a, a->rank));
	work_scatter_own(b, a, work);
}

static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const struct hosts_sizes s = hosts_sizes(a);
	const double p = a->size;

	*c = (struct coll_cost){
	        .rounds = 2,
	        .outer = 1,
	        .messages = s.n - 1 + s.most - 1,
	        .sent = (p - 1) / p,
	        .received = s.most / p,
	};
}

const struct coll_algorithm scatter_hosts = {
        .kind = COLL_SCATTER,
        .name = "hosts",
        .help = "one message to each host, where one rank distributes it",
        .steps = "2",
        .bytes = "out of the root's host: the blocks of the others",
        .restrictions = "needs several hosts, and two ranks on one of them; else linear",
        .source = "Open MPI coll/han",
        .cost = cost,
        .falls_back = hosts_or_linear,
        .emit = emit,
};
