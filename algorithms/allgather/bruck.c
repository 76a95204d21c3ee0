/*
 * allgather bruck: every rank sends all its blocks to ranks below it, at distances that grow
 * k-fold.
 *
 * Slot i is for block (r + i) mod P: each rank numbers the blocks from its own, which is in slot 0.
 * 1. For d = 1, k, k^2, .. < P, and j = 1 .. k-1 with jd < P: send the first c slots to rank r -
 * jd, receive slots jd .. jd+c-1 from rank r + jd; c = d, or P - jd where that is less.
 * 2. Rotate the slots down by r, so that block 0 comes first.
 *
 * The k-1 messages of a round need not wait for one another. Scratch: S, except on rank 0, whose
 * slots are the blocks.
 *
 * P = 5, k = 2, the slots of rank 1:
 *
 *   send 1 to 0, receive from 2             1 2
 *   send 1,2 to 4, receive from 3           1 2 3 4
 *   send 1 to 2, receive from 0             1 2 3 4 0
 *   rotate                                  0 1 2 3 4
 *
 * Source: Efficient Algorithms for All-to-All Communications in Multiport Message-Passing Systems.
 */
#include "algorithms/parts/blocks.h"

/* Slots [i, i + count), i + count <= P, of the slots one after the other. */
static struct range slots(const struct coll_args *a, int i, int count)
{
	struct range before[2], run[2];

	block_runs(a, a->rank, i, before);
	block_runs(a, rank_add(a, a->rank, i), count, run);
	return (struct range){before[0].len + before[1].len, run[0].len + run[1].len};
}

/* Move the slots after the first, which are the blocks above mine and then those below, to their
 * places. */
static void rotate(struct sched_builder *b, const struct coll_args *a, struct sched_span work,
                   struct sched_span from)
{
	const uint64_t below = a->off[a->rank], end = a->off[a->rank + 1];
	const uint64_t above = coll_count(a) - end;

	sched_copy(b, span_add(work, end), from, above, 0);
	sched_copy(b, work, span_add(from, above), below, 0);
}

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const int64_t k = bruck_base(a);
	const struct range own = block_range(a, a->rank);
	const struct sched_span work = work_gather_own(b, a);
	const struct sched_span slot = a->rank ? sched_scratch(b, SCHED_DATA, coll_count(a)) : work;

	sched_copy(b, slot, span_add(work, own.off), own.len, 0);
	for (int64_t d = 1; d < a->size; d *= k)
		for (int64_t at = d; at < a->size && at < k * d; at += d) {
			const int i = (int)at, c = (int)(at + d <= a->size ? d : a->size - at);

			work_send(b, rank_add(a, a->rank, -i), slot, slots(a, 0, c));
			work_recv(b, rank_add(a, a->rank, i), slot, slots(a, i, c));
		}
	if (a->rank)
		rotate(b, a, work, span_add(slot, own.len));
}

static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const double p = a->size;

	*c = (struct coll_cost){.sent = (p - 1) / p, .received = (p - 1) / p};
	for (int64_t d = 1; d < a->size; d *= bruck_base(a)) {
		const int64_t places = (a->size - 1) / d;

		c->rounds++;
		c->messages += (double)(places < bruck_base(a) ? places : bruck_base(a) - 1);
	}
}

const struct coll_algorithm allgather_bruck = {
        .kind = COLL_ALLGATHER,
        .name = "bruck",
        .help = "each rank sends all its blocks; distances grow k-fold (--base, default 2)",
        .steps = "ceil(log_k P)",
        .bytes = "(P-1)b",
        .restrictions = "",
        .source = "Bruck, Ho, Kipnis, Upfal, Weathersby, TPDS 1997; Open MPI "
                  "allgather_intra_bruck",
        .cost = cost,
        .emit = emit,
};
