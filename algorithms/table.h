/*
 * The table of algorithms: each algorithm's file defines a struct coll_algorithm
 * (lib/sched/sched.h), and rows.h lists them. Constant; any thread may use it.
 */
#ifndef COLLCTL_ALGORITHMS_TABLE_H
#define COLLCTL_ALGORITHMS_TABLE_H

#include "lib/sched/sched.h"

extern const struct coll_algorithm *const coll_algorithms[];
extern const size_t coll_algorithms_len;

const struct coll_algorithm *coll_find(enum coll_kind kind, const char *name); /* or NULL */

/* The algorithm that runs if @alg is chosen for these arguments: follows falls_back. */
const struct coll_algorithm *coll_resolve(const struct coll_algorithm *alg,
                                          const struct coll_args *);

/* sched_build and sched_emit of the algorithm that @alg resolves to, after sched_check_args. The
 * caller frees the schedule. NULL: *@error says why. */
struct sched *coll_build(const struct coll_algorithm *alg, const struct coll_args *args,
                         enum sched_error *error);
struct sched *coll_emit(const struct coll_algorithm *alg, const struct coll_args *args,
                        enum sched_error *error);

#endif
