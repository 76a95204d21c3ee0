/*
 * The cost of an algorithm: the closed form of its row (struct coll_cost), and what is counted in
 * its schedules.
 */
#ifndef COLLCTL_PRICE_COST_H
#define COLLCTL_PRICE_COST_H

#include "lib/sched/sched.h"

/* The closed form of the algorithm that @alg resolves to, with what leaves hosts; zero for size 1.
 * Where ranks share hosts it counts the messages of @args->off and @args->root (traffic.h). */
struct coll_cost coll_cost_of(const struct coll_algorithm *alg, const struct coll_args *);
/* Count the work of each rank in the schedules that @alg emits: sets the counted figures of @cost.
 * If they cannot be emitted, it sets nothing. */
void coll_count_work(const struct coll_algorithm *alg, const struct coll_args *args,
                     struct coll_cost *cost);

#endif
