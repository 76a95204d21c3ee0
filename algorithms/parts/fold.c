/*
 * The fold: reduces any number of ranks to a power of two (see blocks.h).
 *
 * P = 6, so 2^L = 4 and x = 2:
 *
 *   rank      0    1    2    3    4    5
 *   in        -> 1      -> 3                 1 has 0+1, 3 has 2+3
 *   number    -    0    -    1    2    3     the power-of-two algorithm runs among these
 *   out       <- 1      <- 3
 *
 * The numbers keep the order of the ranks, so neighbours remain neighbours.
 *
 * Source: Thakur, Rabenseifner, Gropp, Optimization of Collective Communication Operations in
 * MPICH, IJHPCA 2005, section 4.5.
 */
#include "algorithms/parts/blocks.h"

struct fold fold_in(struct sched_builder *b, const struct coll_args *a, struct range r)
{
	struct fold f = {.core = 1 << log2_floor(a->size)};
	const struct sched_span out = sched_out(b, r.off);

	f.extra = a->size - f.core;
	if (a->rank >= 2 * f.extra) {
		f.id = a->rank - f.extra;
	} else if (a->rank % 2) {
		f.id = a->rank / 2;
		sched_recv_reduce(b, a->rank - 1, out, out, r.len, SCHED_WIRE_LEFT);
	} else {
		f.id = -1;
		sched_send(b, a->rank + 1, out, r.len);
	}
	return f;
}

void fold_out(struct sched_builder *b, const struct coll_args *a, struct range r,
              const struct fold *f)
{
	if (a->rank >= 2 * f->extra)
		return;
	if (a->rank % 2)
		sched_send(b, a->rank - 1, sched_out(b, r.off), r.len);
	else
		sched_recv(b, a->rank + 1, sched_out(b, r.off), r.len);
}

int fold_rank(const struct fold *f, int id)
{
	return id < f->extra ? 2 * id + 1 : id + f->extra;
}
