/*
 * The cost of an algorithm (struct coll_cost): the closed form of its row, and figures that are
 * counted in its schedules. Pure functions; any thread.
 */
#ifndef COLLCTL_PRICE_COST_H
#define COLLCTL_PRICE_COST_H

#include "lib/price/price.h"
#include "lib/sched/sched.h"

/* The closed form of the algorithm that @alg resolves to, with leaves, enters and crosses; all 0
 * for size 1. If ranks share hosts, these are counted in the messages for args->off and args->root
 * (traffic.h). */
struct coll_cost coll_cost_of(const struct coll_algorithm *alg, const struct coll_args *);
/* The same, with out and in, for hosts with these ports (price_model.ports; NULL: as
 * coll_cost_of). */
struct coll_cost coll_cost_on(const struct coll_algorithm *alg, const struct coll_args *,
                              const struct price_port *ports);
/* Set moved and busy of *cost, by counting each rank's work in the schedules that @alg emits. If
 * they cannot be emitted, it sets nothing. */
void coll_count_work(const struct coll_algorithm *alg, const struct coll_args *args,
                     struct coll_cost *cost);

#endif
