/*
 * scan recursive_doubling: partners at distance 1, 2, 4, .. exchange what their groups have added
 * up to.
 *
 * A rank has two sums: its group's, of the aligned group of d ranks that it is in, and its result,
 * of those of them up to itself.
 * 1. For d = 1, 2, 4, .. < P rank r and rank r^d exchange their groups' sums, where there is such a
 *    rank. The upper one adds the lower group's to its result, on the left; both make the sum of
 *    the two groups.
 * 2. A sum that nobody will use is not sent. The upper one uses what it gets; the lower one's new
 *    sum goes on if some later partner uses it in turn. What the groups beyond the last rank lack
 *    nobody uses: all of a lower group are there.
 *
 * q rounds of S bytes, at most two additions in each. Scratch: 2S, the group's sum and what
 * arrives.
 *
 * P = 4, (group) result; 2's group is not used after the first round:
 *
 *   rank      0            1            2             3
 *   at first  (0) 0        (1) 1        (2) 2         (3) 3
 *   d = 1     (0+1) 0      (0+1) 0+1    2             2+3
 *   d = 2     0            0+1          (0+1)+2       (0+1)+(2+3)
 *
 * Source: MPICH, MPIR_Scan_intra_recursive_doubling; Thakur, Rabenseifner, Gropp, IJHPCA 2005.
 */
#include "algorithms/emitters.h"
#include "algorithms/scan.h"

/* Is the sum that rank @x makes in round @d used by any later partner? */
static bool goes_on(const struct coll_args *a, int x, int64_t d)
{
	for (int64_t e = 2 * d; e < a->size; e *= 2) {
		const int y = x ^ (int)e;

		if (y < a->size && (y > x || goes_on(a, y, e)))
			return true;
	}
	return false;
}

/* Has rank @x any use for what its partner of round @d sends? */
static bool uses(const struct coll_args *a, int x, int64_t d)
{
	return (x & d) || goes_on(a, x, d);
}

struct scan {
	struct sched_span result, group, arrived;
	uint64_t len;
	bool empty; /* there is no result yet */
};

/* The lower group's sum arrives: it stands left of all that I have. */
static void take_lower(struct sched_builder *b, struct scan *s, int peer, bool on)
{
	const struct sched_span to = s->empty ? s->result : s->arrived;

	if (!on && !s->empty) {
		sched_recv_reduce(b, peer, s->result, s->result, s->len, SCHED_WIRE_LEFT);
		return;
	}
	sched_recv(b, peer, to, s->len);
	if (!s->empty)
		sched_reduce(b, s->result, to, s->len, SCHED_WIRE_LEFT);
	if (on)
		sched_reduce(b, s->group, to, s->len, SCHED_WIRE_LEFT);
	s->empty = false;
}

void recursive_doubling_prefixes(struct sched_builder *b, const struct coll_args *a, bool exclusive)
{
	struct scan s = {.result = sched_out(b, 0), .len = coll_count(a), .empty = exclusive};

	s.group = sched_scratch(b, SCHED_DATA, s.len);
	s.arrived = sched_scratch(b, SCHED_DATA, s.len);
	sched_copy(b, s.group, sched_in(b, 0, 0), s.len, 0);
	if (!exclusive)
		sched_fold_inputs(b, s.result, 0, s.len);
	else if (a->rank == 0)
		sched_identity(b, s.result, s.len);
	for (int64_t d = 1; d < a->size; d *= 2) {
		const int peer = a->rank ^ (int)d;

		if (peer >= a->size)
			continue;
		if (uses(a, peer, d))
			sched_send(b, peer, s.group, s.len);
		if (a->rank & d)
			take_lower(b, &s, peer, goes_on(a, a->rank, d));
		else if (uses(a, a->rank, d))
			sched_recv_reduce(b, peer, s.group, s.group, s.len, 0);
	}
}

void scan_recursive_doubling(struct sched_builder *b, const struct coll_args *a)
{
	recursive_doubling_prefixes(b, a, false);
}

/*
 * Rank 0 sends in all rounds, and uses all but the last. With 2^q ranks the last one uses all, and
 * rank P/2-1 adds to its result and to its group's sum in all but one. With fewer the last round is
 * of no use to those who had use for all others, and below 3/4 of 2^q neither is the one before.
 */
void scan_recursive_doubling_cost(const struct coll_args *a, struct coll_cost *c)
{
	const int q = log2_ceil(a->size), lack = (1 << q) - a->size;
	const int additions = 2 * q - 2 - (lack > 0) - (lack > 1 << q >> 2);

	*c = (struct coll_cost){
	        .rounds = q,
	        .messages = q,
	        .sent = q,
	        .received = q - (lack > 0),
	        .reduced = additions > 1 ? additions : 1,
	};
}
