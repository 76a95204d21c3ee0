/*
 * reduce-scatter direct: direct.c, with sums in the wider type that are rounded once: --order rank.
 *
 * P-1 peers; scratch: one block in the wider type, and S where several inputs are folded first; of
 * a joint operation one block for each contribution.
 *
 * P = 3, the blocks of rank 1; acc is the scratch:
 *
 *   send 2 to 2, send 0 to 0
 *   acc = block 1 of rank 0;  acc += my block 1;  acc += block 1 of rank 2;  output = acc
 *
 * Source: Collective communication: theory, practice, and experience.
 */
#include "algorithms/parts/blocks.h"

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	if (a->joint)
		joint_reduce_scatter(b, a, sched_out(b, 0));
	else
		direct_reduce_scatter(b, a, sched_work(b), sched_out(b, 0));
}

static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const double p = a->size;

	*c = (struct coll_cost){
	        .rounds = 1,
	        .messages = p - 1,
	        .sent = (p - 1) / p,
	        .received = (p - 1) / p,
	        .reduced = (p - 1) / p,
	};
	if (a->joint) {
		const struct joint_load l = joint_load_of(a, -1);

		c->messages = l.most * (p - 1);
		c->sent = l.most * (p - 1) / p;
		c->received = (l.all - l.least) / p;
		c->reduced = (l.all - 1) / p;
	}
}

const struct coll_algorithm reduce_scatter_direct = {
        .kind = COLL_REDUCE_SCATTER,
        .name = "direct",
        .help = "each rank adds one block of all vectors in rank order",
        .steps = "1",
        .bytes = "S(P-1)/P",
        .restrictions = "",
        .source = "Chan, Heimlich, Purkayastha, van de Geijn, CCPE 2007",
        .flags = COLL_ORDERED | COLL_FINAL | COLL_JOINT,
        .cost = cost,
        .emit = emit,
};
