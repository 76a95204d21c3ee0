/*
 * The emitters, one file each, that table.c has rows for.
 */
#ifndef COLLCTL_ALGORITHMS_EMITTERS_H
#define COLLCTL_ALGORITHMS_EMITTERS_H

#include "algorithms/sched.h"

void allreduce_ring_chunked(struct sched_builder *, const struct coll_args *);
void allreduce_recursive_doubling(struct sched_builder *, const struct coll_args *);
void allreduce_circulant(struct sched_builder *, const struct coll_args *);
void allreduce_direct(struct sched_builder *, const struct coll_args *);
void barrier_all_to_all(struct sched_builder *, const struct coll_args *);
void barrier_all_to_one(struct sched_builder *, const struct coll_args *);
void barrier_dissemination(struct sched_builder *, const struct coll_args *);

#endif
