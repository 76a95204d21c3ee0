/*
 * allreduce census: every rank adds the vectors of more and more ranks that follow it.
 *
 * A rank has A, the sum of its own vector and the next s - 1, and B, the same without its own. At
 * first s = 1: A is the rank's vector, and B is empty. In the rounds s becomes s', until it is P:
 *
 * 1. s' = 2s: send A to r - s, receive A' from r + s.
 *    s' = 2s - 1: send B to r - s + 1, receive B' from r + s - 1.
 * 2. Add what arrived to A, and to B if a later round sends B.
 *
 * Rank r adds r, r+1, r+2, ... Scratch: S for what arrives, and S for B if it is sent.
 *
 * P = 5, s = 1, 2, 3, 5:
 *
 *   rank    0            1            2            3            4
 *   s = 2   A 01 B 1     A 12 B 2     A 23 B 3     A 34 B 4     A 40 B 0
 *   s = 3   A 012 B 12   A 123 B 23   A 234 B 34   A 340 B 40   A 401 B 01
 *   s = 5   A 01234      A 12340      A 23401      A 34012      A 40123
 *
 * Source: An Optimal Algorithm for Computing Census Functions in Message-Passing Systems.
 */
#include "algorithms/parts/blocks.h"

/* s after @round of the @rounds: P halved, and rounded up, as often as rounds follow. */
static int span_after(const struct coll_args *a, int rounds, int round)
{
	int s = a->size;

	for (int i = round; i < rounds; i++)
		s -= s / 2;
	return s;
}

/* Does round @round, 1 to @rounds, send B? */
static bool sends_rest(const struct coll_args *a, int rounds, int round)
{
	return span_after(a, rounds, round) % 2;
}

/* The last round that sends B, 0: none. */
static int last_rest(const struct coll_args *a)
{
	const int rounds = log2_ceil(a->size);
	int last = 0;

	for (int i = 1; i <= rounds; i++)
		last = sends_rest(a, rounds, i) ? i : last;
	return last;
}

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const int rounds = log2_ceil(a->size), last = last_rest(a);
	const struct range all = whole_range(a);
	const struct sched_span sum = sched_work(b);
	struct sched_span rest = {SCHED_NONE, 0}, arrived = rest;

	work_fold(b, sum, all);
	if (last)
		rest = sched_scratch(b, SCHED_DATA, all.len);
	if (rounds > 1 || !last)
		arrived = sched_scratch(b, SCHED_DATA, all.len);
	for (int i = 1; i <= rounds; i++) {
		const bool send_rest = sends_rest(a, rounds, i);
		const int d = span_after(a, rounds, i - 1) - send_rest;
		/* B is empty before the first round. */
		const struct sched_span to = i == 1 && last ? rest : arrived;

		work_send(b, rank_add(a, a->rank, -d), send_rest ? rest : sum, all);
		work_recv(b, rank_add(a, a->rank, d), to, all);
		sched_reduce(b, sum, to, all.len, 0);
		if (i > 1 && i < last)
			sched_reduce(b, rest, to, all.len, 0);
	}
}

static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const double q = log2_ceil(a->size);
	const int last = last_rest(a);

	*c = (struct coll_cost){
	        .rounds = q,
	        .messages = q,
	        .sent = q,
	        .received = q,
	        .reduced = q + (last > 2 ? last - 2 : 0),
	};
}

const struct coll_algorithm allreduce_census = {
        .kind = COLL_ALLREDUCE,
        .name = "census",
        .help = "each rank adds whole vectors in a different order, in the fewest rounds for any P",
        .steps = "q",
        .bytes = "qS",
        .restrictions = "sum, prod and avg of floats need --allow-divergent",
        .source = "Bar-Noy, Kipnis, Schieber, PPL 1993",
        .flags = COLL_DIVERGENT,
        .cost = cost,
        .emit = emit,
};
