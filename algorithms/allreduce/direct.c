/*
 * allreduce direct: the reduce-scatter and the allgather of direct.c.
 *
 * P-1 peers; scratch: one block in the wider type, in which an element is added. The sum is rounded
 * once: --order rank. A joint operation has one block for each contribution.
 *
 * P = 3, the blocks of rank 0; acc is the scratch:
 *
 *   send 1 to 1, send 2 to 2
 *   acc = my block 0;  acc += block 0 of rank 1;  acc += block 0 of rank 2;  block 0 = acc
 *   send 0 to 1, send 0 to 2;  receive 2 from 2, receive 1 from 1
 *
 * Source: Collective communication: theory, practice, and experience.
 */
#include "algorithms/parts/blocks.h"

static void cost(const struct coll_args *a, struct coll_cost *c)
{
	direct_allreduce_cost(a, 1.0 / a->size, c);
}

const struct coll_algorithm allreduce_direct = {
        .kind = COLL_ALLREDUCE,
        .name = "direct",
        .help = "each rank adds one block of all vectors in rank order, and sends it to all",
        .steps = "2",
        .bytes = "2S(P-1)/P",
        .restrictions = "",
        .source = "Chan, Heimlich, Purkayastha, van de Geijn, CCPE 2007",
        .flags = COLL_ORDERED | COLL_FINAL | COLL_JOINT,
        .cost = cost,
        .emit = direct_allreduce,
};
