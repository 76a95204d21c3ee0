/*
 * exscan doubling_123: sums of twice as many ranks in each round, from the left only.
 *
 * V is the rank's own vector, W the sum of the last ranks before it, as far as the rank has them.
 * 1. Skip 1: send V to rank r+1. The vector from r-1 is W, of one rank.
 * 2. Skip 2: send W+V to rank r+2. The operand from r-2 goes left of W, which then has three ranks.
 * 3. Skips s = 3, 6, 12, .. < P-1: send W, of s ranks, to rank r+s; the operand from r-s goes left
 *    of W, which then has 2s ranks. A rank r <= s has all ranks before it and stops receiving; rank
 * 0 has no W.
 * 4. W is the result; rank 0's is the identity.
 *
 * 1, 2, 3, 4, 5 rounds up to P = 2, 4, 7, 13, 25; in each but the first one addition, and one for
 * W+V. Scratch: S, for W+V. The longest chain (the row's steps) may miss one of the rounds.
 *
 * P = 6, the vectors sent, and W below them:
 *
 *   rank      0      1      2        3            4              5
 *   skip 1    0      1      2        3            4
 *             -      0      1        2            3              4
 *   skip 2    0      0+1    1+2      2+3
 *             -      0      0+1      (0+1)+2      (1+2)+3        (2+3)+4
 *   skip 3           0      0+1
 *             -      0      0+1      (0+1)+2      0+((1+2)+3)    (0+1)+((2+3)+4)
 *
 * Source: Optimizing the exclusive prefix sums operation (123-doubling).
 */
#include "algorithms/scan/parts.h"

/* The skip of round @k, from 0 on. */
static int64_t skip(int k)
{
	return k < 2 ? k + 1 : INT64_C(3) << (k - 2);
}

/* Rounds until W has the P-1 ranks that the last rank needs. From the third round on, W has as many
 * ranks as the next skip; after one round 1, after two rounds 3. */
static int rounds(const struct coll_args *a)
{
	int k = 1;

	while ((k == 1 ? 1 : skip(k)) < a->size - 1)
		k++;
	return k;
}

struct scan {
	struct sched_span v, w, sum; /* sum: for W+V */
	uint64_t len;
};

static void send_round(struct sched_builder *b, const struct coll_args *a, const struct scan *s,
                       int k)
{
	const int64_t to = a->rank + skip(k);

	if (to >= a->size || (k >= 2 && a->rank == 0))
		return;
	if (k == 1 && a->rank > 0)
		sched_reduce(b, s->sum, s->w, s->len, SCHED_WIRE_LEFT);
	sched_send(b, (int)to, k == 0 ? s->v : k == 1 ? s->sum : s->w, s->len);
}

static void recv_round(struct sched_builder *b, const struct coll_args *a, const struct scan *s,
                       int k)
{
	const int64_t from = a->rank - skip(k);

	if (from < (k >= 2))
		return;
	if (k == 0)
		sched_recv(b, (int)from, s->w, s->len);
	else
		sched_recv_reduce(b, (int)from, s->w, s->w, s->len, SCHED_WIRE_LEFT);
}

void doubling_123_prefixes(struct sched_builder *b, const struct coll_args *a, struct sched_span v,
                           struct sched_span w)
{
	const struct scan s = {v, w, sched_scratch(b, SCHED_DATA, coll_count(a)), coll_count(a)};

	if (a->rank + 2 < a->size)
		sched_copy(b, s.sum, v, s.len, 0);
	for (int k = 0; k < rounds(a); k++) {
		send_round(b, a, &s, k);
		recv_round(b, a, &s, k);
	}
}

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const struct sched_span out = sched_out(b, 0);

	doubling_123_prefixes(b, a, sched_in(b, 0, 0), out);
	if (a->rank == 0)
		sched_identity(b, out, coll_count(a));
}

/* The longest chain. It has every round only where there is a rank as far from rank 0 as all skips
 * together: for the last skip s >= 3 that is 2s. */
static int longest_chain(const struct coll_args *a, int q)
{
	const int64_t s = skip(q - 1);

	return q - (q > 1 && a->size < (q == 2 ? 4 : 2 * s + 1));
}

/* Some rank both computes W+V and receives in every round if rank s+1, with s the last skip, has
 * r+2 < P. */
static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const int q = rounds(a);

	*c = (struct coll_cost){
	        .rounds = longest_chain(a, q),
	        .messages = q,
	        .sent = q,
	        .received = q,
	        .reduced = q - 1 + (a->size >= skip(q - 1) + 4),
	};
}

const struct coll_algorithm exscan_doubling_123 = {
        .kind = COLL_EXSCAN,
        .name = "doubling_123",
        .help = "doubling with skips 1, 2, 3, 6, 12, ...: fewest additions",
        .steps = "max(1, floor(log2(4(P-1)/3)))",
        .bytes = "S ceil(log2(4(P-1)/3))",
        .restrictions = "",
        .source = "Träff, arXiv:2507.04785",
        .cost = cost,
        .emit = emit,
};
