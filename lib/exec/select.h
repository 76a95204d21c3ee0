/*
 * Selection: `auto` prices every candidate by formula and takes the cheapest that keeps identical
 * bits. A pure function of its arguments, so that a script gets the same bits every day.
 */
#ifndef COLLCTL_EXEC_SELECT_H
#define COLLCTL_EXEC_SELECT_H

#include "algorithms/sched.h"
#include "lib/data/reduce.h"

struct select_args {
	enum coll_kind kind;
	int size;
	uint64_t bytes; /* of a rank's vector */
	enum reduce_op op;
	enum dtype dtype;
	bool ordered;   /* --order rank */
	bool divergent; /* --allow-divergent */
};

/* The price of @alg in seconds. */
double select_price(const struct coll_algorithm *alg, const struct select_args *);
/* The cheapest; never NULL for a kind that has an algorithm. */
const struct coll_algorithm *select_auto(const struct select_args *);

#endif
