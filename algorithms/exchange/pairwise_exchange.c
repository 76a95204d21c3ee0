/*
 * exchange pairwise_exchange: for benchmarks.
 *
 * 1. The vector is cut in C pieces; 2^C divides P, so the ranks fall into blocks of 2^C.
 * 2. In step i = 0 .. C-1 rank r and rank r^2^i exchange their piece i. Arriving elements go to
 *    scratch and are ignored.
 * 3. A step begins when the message of the previous step has arrived (wait_for), as in the
 *    reduce-scatter.
 *
 * Scratch: a piece, and an element for C > 1.
 *
 * P = 4, C = 2, the pairs:
 *
 *   step 0, the first half     0-1  2-3
 *   step 1, the second half    0-2  1-3
 */
#include "algorithms/parts/blocks.h"

/* The beginning of piece @i: the first pieces have one element more. */
static uint64_t piece_at(uint64_t len, uint64_t i, uint64_t pieces)
{
	return len / pieces * i + (i < len % pieces ? i : len % pieces);
}

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const uint64_t len = coll_count(a);
	const struct sched_span got = sched_scratch(b, SCHED_DATA, piece_at(len, 1, a->steps));
	const struct sched_span spare = sched_scratch(b, SCHED_DATA, a->steps > 1);

	for (unsigned i = 0; i < a->steps; i++) {
		const uint64_t lo = piece_at(len, i, a->steps);
		const uint64_t n = piece_at(len, i + 1, a->steps) - lo;
		const struct sched_span own = sched_in(b, 0, lo);

		/* The previous piece is as long or one element longer. */
		if (i && n)
			wait_for(b, own, span_add(got, lo - piece_at(len, i - 1, a->steps) - 1),
			         spare);
		sched_send(b, a->rank ^ 1 << i, own, n);
		sched_recv(b, a->rank ^ 1 << i, got, n);
	}
}

static void cost(const struct coll_args *a, struct coll_cost *c)
{
	*c = (struct coll_cost){
	        .rounds = a->steps,
	        .messages = a->steps,
	        .sent = 1,
	        .received = 1,
	};
}

const struct coll_algorithm exchange_pairwise_exchange = {
        .kind = COLL_EXCHANGE,
        .name = "pairwise_exchange",
        .help = "the pairs of a halving-doubling reduce-scatter (--steps C)",
        .steps = "C",
        .bytes = "S",
        .restrictions = "2^C must divide P",
        .source = "Gloo pairwise_exchange",
        .cost = cost,
        .emit = emit,
};
