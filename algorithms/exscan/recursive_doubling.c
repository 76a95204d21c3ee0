/*
 * exscan recursive_doubling: like scan recursive_doubling, without the rank's own vector in its
 * result: the first sum that a rank gets from a lower group is its result, and rank 0's is the
 * identity.
 *
 * At most two additions in each round. Scratch: 2S, the group's sum and what arrives.
 *
 * P = 4, (group) result:
 *
 *   rank      0            1            2           3
 *   at first  (0) -        (1) -        (2) -       (3) -
 *   d = 1     (0+1) -      (0+1) 0      -           2
 *   d = 2     -            0            0+1         (0+1)+2
 */
#include "algorithms/scan/parts.h"

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	recursive_doubling_prefixes(b, a, true);
}

/* The first sum from a lower group is no addition; rank 0 makes its group's. */
static void cost(const struct coll_args *a, struct coll_cost *c)
{
	scan_recursive_doubling.cost(a, c);
	c->reduced--;
	if (c->reduced < c->rounds - 1)
		c->reduced = c->rounds - 1;
}

const struct coll_algorithm exscan_recursive_doubling = {
        .kind = COLL_EXSCAN,
        .name = "recursive_doubling",
        .help = "partners at doubling distances exchange the sums of their groups",
        .steps = "q",
        .bytes = "≤ qS",
        .restrictions = "",
        .source = "MPICH exscan recursive doubling",
        .cost = cost,
        .emit = emit,
};
