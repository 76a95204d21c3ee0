/*
 * scan recursive_doubling
 *
 * A rank has two sums: the sum of its aligned group of d ranks, and its result, the sum of the
 * group's ranks up to itself.
 * 1. For d = 1, 2, 4, .. < P rank r and rank r^d, if it exists, exchange their groups' sums. The
 *    upper rank adds the lower group's sum to its result, on the left; both compute the sum of the
 *    two groups.
 * 2. A sum is sent only if a rank uses it. The upper rank always uses it; the lower rank's new sum
 *    is needed if a later partner uses it. Incomplete groups at the end are never used, because
 *    lower groups are complete.
 *
 * At most two additions in each round. Scratch: 2S, the group's sum and what arrives.
 *
 * P = 4, (group) result; 2's group is not used after the first round:
 *
 *   rank      0            1            2             3
 *   at first  (0) 0        (1) 1        (2) 2         (3) 3
 *   d = 1     (0+1) 0      (0+1) 0+1    2             2+3
 *   d = 2     0            0+1          (0+1)+2       (0+1)+(2+3)
 *
 * Source: also Thakur, Rabenseifner, Gropp, IJHPCA 2005.
 */
#include "algorithms/scan/parts.h"

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

/* Does rank @x use the sum that its partner of round @d sends? */
static bool uses(const struct coll_args *a, int x, int64_t d)
{
	return (x & d) || goes_on(a, x, d);
}

struct scan {
	struct sched_span result, group, arrived;
	uint64_t len;
	bool empty; /* no result yet */
};

/* The lower group's sum arrives: it is the left operand of all sums here. */
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

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	recursive_doubling_prefixes(b, a, false);
}

/*
 * Rank 0 sends in all rounds, and uses all but the last. With 2^q ranks the last rank uses all
 * rounds, and rank P/2-1 adds to its result and to its group's sum in all but one. With fewer
 * ranks, those that use all other rounds do not use the last, and below 3/4 of 2^q not the one
 * before either.
 */
static void cost(const struct coll_args *a, struct coll_cost *c)
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

const struct coll_algorithm scan_recursive_doubling = {
        .kind = COLL_SCAN,
        .name = "recursive_doubling",
        .help = "partners at doubling distances exchange the sums of their groups",
        .steps = "q",
        .bytes = "≤ qS",
        .restrictions = "",
        .source = "MPICH scan recursive doubling",
        .cost = cost,
        .emit = emit,
};
