/*
 * reduce linear
 *
 * 1. Send the vector to the root.
 * 2. The root adds the contributions in the order 0, 1, .. P-1, including its own, in the wider
 *    type, whatever the order of arrival (direct_sum); then it applies the operation's final
 * function and rounds once: --order rank.
 *
 * The root receives (P-1)S. Scratch: a vector in the wider type at the root; of a joint operation,
 * for which every input is sent by itself, a vector for each contribution.
 *
 * P = 3, root 1; acc is the scratch:
 *
 *   rank 1: acc = vector of rank 0;  acc += mine;  acc += vector of rank 2;  output = acc
 *   others: send to 1
 *
 * Source: Collective communication: theory, practice, and experience.
 */
#include "algorithms/parts/blocks.h"

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const struct range all = whole_range(a);

	if (a->joint && a->rank == a->root) {
		joint_take(b, a, all, sched_out(b, 0));
		return;
	}
	if (a->joint) {
		joint_send(b, a, a->root, all);
		return;
	}
	const struct sched_span work = sched_work(b);
	work_fold(b, work, all);
	if (a->rank == a->root)
		direct_sum(b, a, work, all.len, work);
	else
		work_send(b, a->root, work, all);
}

static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const double p = a->size;

	*c = (struct coll_cost){.rounds = 1,
	                        .messages = 1,
	                        .sent = 1,
	                        .received = p - 1,
	                        .reduced = p - 1,
	                        .steady = true};
	if (a->joint) {
		const struct joint_load l = joint_load_of(a, a->root);

		c->messages = c->sent = l.most;
		c->received = l.all - coll_inputs(a, a->root);
		c->reduced = l.all - 1;
	}
}

const struct coll_algorithm reduce_linear = {
        .kind = COLL_REDUCE,
        .name = "linear",
        .help = "every rank sends to the root, which adds in rank order",
        .steps = "1",
        .bytes = "S",
        .restrictions = "",
        .source = "Chan, Heimlich, Purkayastha, van de Geijn, CCPE 2007",
        .flags = COLL_ORDERED | COLL_FINAL | COLL_JOINT,
        .cost = cost,
        .emit = emit,
};
