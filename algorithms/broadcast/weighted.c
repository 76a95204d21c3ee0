/*
 * broadcast weighted (hosts.h): every host sends a part of the vector to all, the larger, the
 * faster it sends (fill.h). The blocks are those of coll_args.off: the caller has cut them. The
 * part of a host is the blocks of its ranks; its first rank, on the root's host the root, acts for
 * it.
 *
 * 1. The root sends every other host its part, and then its own part to all hosts.
 * 2. The others send their parts to all hosts but the root's. They forward data while they arrive.
 * 3. Inside a host its first rank sends the vector to all.
 *
 * A host without a part only receives. No scratch.
 *
 * P = 4, root 0, rates out 4 4 1 1: a vector of 20 elements has blocks of 2, 12, 3 and 3. Rank 0
 * sends 20 + 2 * 2 = 24 elements, rank 1 2 * 12 = 24, ranks 2 and 3 2 * 3 = 6 each: all for the
 * same time.
 *
 * Source: the bound and the filling are derived in fill.h.
 */
#include "algorithms/parts/hosts.h"

static void from_root(struct sched_builder *b, const struct hosts *h, struct sched_span out)
{
	struct range r;

	for (int d = 1; d < h->n; d++) {
		const int i = (h->host + d) % h->n;

		for (int k = 0; hosts_blocks(h, i, &k, &r);)
			work_fold(b, out, r);
		hosts_send_blocks(b, h, i, i, out);
	}
	for (int k = 0; hosts_blocks(h, h->host, &k, &r);)
		work_fold(b, out, r);
	for (int d = 1; d < h->n; d++)
		hosts_send_blocks(b, h, h->host, (h->host + d) % h->n, out);
}

static void from_others(struct sched_builder *b, const struct hosts *h, struct sched_span out)
{
	const int root = host_of_rank(h->a->host, h->a->root);

	hosts_recv_blocks(b, h, h->host, root, out);
	for (int d = 1; d < h->n; d++) {
		const int to = (h->host + d) % h->n;

		if (to != root)
			hosts_send_blocks(b, h, h->host, to, out);
	}
	for (int d = 1; d < h->n; d++) {
		const int from = (h->host + h->n - d) % h->n;

		hosts_recv_blocks(b, h, from, from, out);
	}
}

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const struct sched_span out = sched_out(b, 0);
	struct hosts h;

	if (!hosts_init_firsts(&h, b, a))
		return;
	if (a->rank == a->root)
		from_root(b, &h, out);
	else if (hosts_owner(&h))
		from_others(b, &h, out);
	hosts_from_owners(b, &h, out, HOSTS_ALL);
}

/* A host's part is one run of blocks if its ranks are consecutive, but three if they surround the
 * root. The first rank of the host with most ranks sends most. */
static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const struct hosts_sizes s = hosts_sizes(a);
	const struct hosts_parts p = hosts_parts(a);
	const double n = s.n ? s.n : a->size, m = s.n ? s.most : 1;
	const double own = s.together && m > 3 ? 3 : m;
	const double root = 1 + p.root * (n - 2), other = p.others * (n - 2);

	*c = (struct coll_cost){
	        .rounds = s.n ? 3 : 2,
	        .outer = 2,
	        .messages = (s.together ? n - 1 : a->size - 1) + own * (n - 1) + m - 1,
	        .sent = (root > other ? root : other) + m - 1,
	        .received = 1,
	};
}

static const char *falls_back(const struct coll_args *a)
{
	return hosts_or_ranks(a->host, a->size) < 3 ? "hosts" : NULL;
}

const struct coll_algorithm broadcast_weighted = {
        .kind = COLL_BROADCAST,
        .name = "weighted",
        .help = "scatter and allgather, with blocks by the rates at which hosts send",
        .steps = "2",
        .bytes = "S(1+f(N-2)) at the root, Sf(N-2) out of others, f: its part",
        .restrictions = "needs 3 hosts; else hosts",
        .source = "lib/price/fill.h; Kumar, Ross, HOTWEB 2006",
        .flags = COLL_WEIGHTED | COLL_UNEVEN,
        .cost = cost,
        .falls_back = falls_back,
        .emit = emit,
};
