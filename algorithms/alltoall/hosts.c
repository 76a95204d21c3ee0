/*
 * alltoall hosts
 *
 * The messages from host g to the hosts d = 1, 2, .. after it are dealt out among the ranks of g:
 * number (d - 1) mod n_g, of its n_g ranks, sends that to host h, and number (d - 1) mod n_h of h
 * receives it.
 *
 * 1. The ranks of a host send each other their parts.
 * 2. Every rank gives its parts for host h to the rank that sends there. That puts the parts of its
 *    host's ranks one behind the other.
 * 3. It sends them in one message.
 * 4. The receiver sorts the parts by their ranks and gives each rank of its host its own, in one
 *    message if the ranks of g are consecutive.
 *
 * N-1 messages leave a host, and no byte that need not. A part that leaves a host is sent up to
 * three times. Scratch: about 3S. The parts for a rank have one length, whoever sends them: nobody
 * knows the parts of others else.
 *
 * Hosts 0 1 and 2 3, "02" is the part from rank 0 to rank 2:
 *
 *   inside     0: send 01 to 1             1: send 10, 12 13 to 0
 *   between    0: send 02 03 12 13 to 2    2: send 20 21 30 31 to 0
 *   inside     0: send 21 31 to 1          2: send 03 13 to 3
 *
 * Source: Decomposing MPI Collectives for Exploiting Multi-lane Communication, CLUSTER 2020, with
 * one message for each pair of hosts.
 */
#include "algorithms/alltoall/parts.h"
#include "algorithms/parts/hosts.h"

/* Who sends (@at = @from) or receives (@at = @to) what host @from sends host @to. */
static int agent(const struct hosts *h, int from, int to, int at)
{
	const int d = (to - from + h->n) % h->n;

	return hosts_rank(h, at, (d - 1) % hosts_ranks(h, at));
}

/* The elements of all parts for the ranks @k to @end - 1 of host @i, a run, which begin at @off. */
static struct range parts_of_run(const struct hosts *h, int i, int k, int end)
{
	const uint64_t *off = h->a->off;
	const int first = hosts_rank(h, i, k), last = hosts_rank(h, i, end - 1);

	return (struct range){off[first], off[last + 1] - off[first]};
}

/* ---- before the message ---- */

/* Give my parts for host @to to @peer, or, as its agent, copy them to @at. */
static void give(struct sched_builder *b, const struct hosts *h, int to, int peer,
                 struct sched_span at)
{
	for (int k = 0, end; k < hosts_ranks(h, to); k = end) {
		end = hosts_run(h, to, k);
		const struct range parts = parts_of_run(h, to, k, end);
		const struct sched_span in = sched_in(b, 0, parts.off);

		if (peer == h->a->rank)
			sched_copy(b, span_add(at, h->before[hosts_rank(h, to, k)]), in, parts.len,
			           0);
		else
			sched_send(b, peer, in, parts.len);
	}
}

/* Take the parts of rank @peer of my host for host @to to @at. */
static void take(struct sched_builder *b, const struct hosts *h, int to, int peer,
                 struct sched_span at)
{
	for (int k = 0, end; k < hosts_ranks(h, to); k = end) {
		end = hosts_run(h, to, k);
		sched_recv(b, peer, span_add(at, h->before[hosts_rank(h, to, k)]),
		           parts_of_run(h, to, k, end).len);
	}
}

/* As the agent, put the message to host @to together and send it. */
static void send_to_host(struct sched_builder *b, const struct hosts *h, int to)
{
	const int count = hosts_ranks(h, h->host);
	const uint64_t each = h->total[to], all = (uint64_t)count * each;
	const struct sched_span at = sched_scratch(b, SCHED_DATA, all);

	for (int k = 0; k < count; k++) {
		const int r = hosts_rank(h, h->host, k);
		const struct sched_span here = span_add(at, (uint64_t)k * each);

		if (r == h->a->rank)
			give(b, h, to, r, here);
		else
			take(b, h, to, r, here);
	}
	sched_send(b, agent(h, h->host, to, to), at, all);
}

/* ---- after the message ---- */

/* Rank @peer's parts from host @from, sorted by sender, are in @sorted: send them. */
static void hand_over(struct sched_builder *b, const struct hosts *h, int from, int peer,
                      struct sched_span sorted)
{
	const uint64_t each = block_range(h->a, peer).len;

	for (int k = 0, end; k < hosts_ranks(h, from); k = end) {
		end = hosts_run(h, from, k);
		sched_send(b, peer, span_add(sorted, (uint64_t)k * each),
		           (uint64_t)(end - k) * each);
	}
}

/* Receive my parts from host @from, which @peer has. */
static void receive_parts(struct sched_builder *b, const struct hosts *h, int from, int peer)
{
	const uint64_t each = block_range(h->a, h->a->rank).len;

	for (int k = 0, end; k < hosts_ranks(h, from); k = end) {
		end = hosts_run(h, from, k);
		sched_recv(b, peer, sched_out(b, coll_recv_at(h->a, hosts_rank(h, from, k))),
		           (uint64_t)(end - k) * each);
	}
}

/* As the agent, receive the message from host @from and give each rank its parts. */
static void recv_from_host(struct sched_builder *b, const struct hosts *h, int from)
{
	const int count = hosts_ranks(h, from);
	const uint64_t each = h->total[h->host], all = (uint64_t)count * each;
	const struct sched_span at = sched_scratch(b, SCHED_DATA, all);

	sched_recv(b, agent(h, from, h->host, from), at, all);
	for (int j = 0; j < hosts_ranks(h, h->host); j++) {
		const int r = hosts_rank(h, h->host, j);
		const bool mine = r == h->a->rank;
		const uint64_t len = block_range(h->a, r).len;
		const struct sched_span sorted =
		        mine ? sched_out(b, 0)
		             : sched_scratch(b, SCHED_DATA, (uint64_t)count * len);

		for (int k = 0; k < count; k++) {
			const uint64_t to = mine ? coll_recv_at(h->a, hosts_rank(h, from, k))
			                         : (uint64_t)k * len;

			sched_copy(b, span_add(sorted, to),
			           span_add(at, (uint64_t)k * each + h->before[r]), len, 0);
		}
		if (!mine)
			hand_over(b, h, from, r, sorted);
	}
}

/* ---- the schedule ---- */

static void exchange_inside(struct sched_builder *b, const struct hosts *h)
{
	const int count = hosts_ranks(h, h->host);

	for (int d = 1; d < count; d++)
		alltoall_send(b, h->a, hosts_rank(h, h->host, (h->local + d) % count));
	alltoall_keep(b, h->a);
	for (int d = 1; d < count; d++)
		alltoall_recv(b, h->a, hosts_rank(h, h->host, (h->local + count - d) % count));
}

static void emit(struct sched_builder *b, const struct coll_args *args)
{
	struct coll_args a = *args;
	struct hosts h;

	a.root = 0; /* no root: the ranks of every host are in ascending order */
	if (!hosts_list(&h, b, &a, true))
		return;
	exchange_inside(b, &h);
	for (int d = 1; d < h.n; d++) {
		const int to = (h.host + d) % h.n, peer = agent(&h, h.host, to, h.host);

		if (peer == a.rank)
			send_to_host(b, &h, to);
		else
			give(b, &h, to, peer, (struct sched_span){SCHED_NONE, 0});
	}
	for (int d = 1; d < h.n; d++) {
		const int from = (h.host + h.n - d) % h.n, peer = agent(&h, from, h.host, h.host);

		if (peer == a.rank)
			recv_from_host(b, &h, from);
		else
			receive_parts(b, &h, from, peer);
	}
}

static const char *falls_back(const struct coll_args *a)
{
	return a->recv_off || !hosts_shared(a) ? "pairwise" : NULL;
}

/* Of the first rank of a host, whose messages are most. Upper bounds if the hosts have different
 * numbers of ranks, or ranks of a host are not consecutive. */
static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const struct hosts_sizes s = hosts_sizes(a);
	const double n = s.n, m = s.most, p = a->size, runs = s.together ? 1 : m;
	const int most = (s.n - 1 + s.least - 1) / s.least; /* messages to, or from, hosts */
	const double even = m - 1 + (n - 1) * m + 2 * most * m * (m - 1);
	const double bound = m - 1 + p - 1 + 2 * (n - 2 + m) * m;

	*c = (struct coll_cost){
	        .rounds = 3,
	        .outer = 1,
	        .messages = m - 1 + (n - 1) * runs + most * (m - 1) * runs,
	        .sent = (s.least == s.most ? even : bound) / p,
	};
	c->received = c->sent;
}

const struct coll_algorithm alltoall_hosts = {
        .kind = COLL_ALLTOALL,
        .name = "hosts",
        .help = "one message from host to host; ranks inside the hosts combine and divide it",
        .steps = "3",
        .bytes = "nS(P-n)/P out of a host of n ranks",
        .restrictions =
                "needs equal counts on all ranks, several hosts, and two ranks on one of them; "
                "else pairwise",
        .source = "Träff, Hunold, arXiv:1910.13373",
        .cost = cost,
        .falls_back = falls_back,
        .emit = emit,
};
