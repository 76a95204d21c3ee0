/*
 * allreduce bcube: a mixed radix for any P.
 *
 * P is divided by B as often as possible; the rest is one last factor (6 by 2: 2, 3).
 * 1. For each factor f, at distance d, the product of the factors before it: my group is the f
 * ranks that differ only in digit g = (r / d) mod f. All of them process the same P / d blocks. Cut
 *    these blocks into f runs, send run i to member i of the group, and add what arrives to run g,
 *    the only one that I process further. At the end it is one block.
 * 2. For each factor, the last one first: send my complete part to the group, and receive the parts
 *    of the others.
 *
 * f-1 peers per factor. B = 2 is halving if P is a power of two; B >= P is one exchange with all
 * ranks. No scratch.
 *
 * P = 6, B = 2: factors 2 and 3, the blocks cut into 0,1,2 and 3,4,5; what a rank keeps:
 *
 *   rank           0        1        2        3        4        5
 *   f = 2, d = 1   0,1,2    3,4,5    0,1,2    3,4,5    0,1,2    3,4,5    with r ^ 1
 *   f = 3, d = 2   0        3        1        4        2        5        with r +- 2, r +- 4
 *   back           0,1,2    3,4,5    0,1,2    3,4,5    0,1,2    3,4,5
 *                  0..5     0..5     0..5     0..5     0..5     0..5
 */
#include "algorithms/parts/blocks.h"

/* The factor at distance @d. */
static int factor(const struct coll_args *a, int d)
{
	const int base = a->base >= 2 && a->base <= (unsigned)a->size ? (int)a->base : 2;
	const int rest = a->size / d;

	return a->base > (unsigned)a->size || rest % base ? rest : base;
}

/* The group of a factor. */
struct group {
	int f, d, g;
	int first, count; /* the blocks that it processes */
};

static int digit(const struct group *x, int k)
{
	return (x->g + k + x->f) % x->f;
}

static int member(const struct group *x, int rank, int k)
{
	return rank + (digit(x, k) - x->g) * x->d;
}

/* The part of the member @k places after me. */
static struct range part(const struct coll_args *a, const struct group *x, int k)
{
	const int each = x->count / x->f, first = x->first + each * digit(x, k);

	return (struct range){a->off[first], a->off[first + each] - a->off[first]};
}

/* Run the factors from distance @d on, for the blocks from @first on. */
static void exchange(struct sched_builder *b, const struct coll_args *a, struct sched_span work,
                     int d, int first)
{
	struct group x = {.d = d, .first = first, .count = a->size / d};

	if (d == a->size)
		return;
	x.f = factor(a, d);
	x.g = a->rank / d % x.f;
	for (int k = 1; k < x.f; k++) {
		if (d == 1)
			work_fold(b, work, part(a, &x, k));
		work_send(b, member(&x, a->rank, k), work, part(a, &x, k));
	}
	if (d == 1)
		work_fold(b, work, part(a, &x, 0));
	for (int k = 1; k < x.f; k++)
		work_add(b, member(&x, a->rank, -k), work, part(a, &x, 0));
	exchange(b, a, work, d * x.f, first + x.g * (x.count / x.f));
	for (int k = 1; k < x.f; k++)
		work_send(b, member(&x, a->rank, k), work, part(a, &x, 0));
	for (int k = 1; k < x.f; k++)
		work_recv(b, member(&x, a->rank, -k), work, part(a, &x, -k));
}

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	exchange(b, a, sched_work(b), 1, 0);
}

static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const double p = a->size;

	*c = (struct coll_cost){
	        .sent = 2 * (p - 1) / p,
	        .received = 2 * (p - 1) / p,
	        .reduced = (p - 1) / p,
	        .pairs = true,
	};
	for (int d = 1; d < a->size; d *= factor(a, d)) {
		c->rounds += 2;
		c->messages += 2 * (factor(a, d) - 1);
	}
}

const struct coll_algorithm allreduce_bcube = {
        .kind = COLL_ALLREDUCE,
        .name = "bcube",
        .help = "groups of k ranks (--base, default 2) reduce-scatter, then allgather",
        .steps = "2 for each factor of P",
        .bytes = "2S(P-1)/P",
        .restrictions = "",
        .source = "Gloo allreduce_bcube",
        .cost = cost,
        .emit = emit,
};
