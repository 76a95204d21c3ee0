/*
 * The table of algorithms: each page exports a row, struct coll_algorithm (lib/sched/sched.h), that
 * rows.h lists.
 */
#ifndef COLLCTL_ALGORITHMS_TABLE_H
#define COLLCTL_ALGORITHMS_TABLE_H

#include "lib/sched/sched.h"

extern const struct coll_algorithm *const coll_algorithms[];
extern const size_t coll_algorithms_len;

const struct coll_algorithm *coll_find(enum coll_kind kind, const char *name); /* or NULL */

/* The algorithm that runs for @alg: follows falls_back. */
const struct coll_algorithm *coll_resolve(const struct coll_algorithm *alg,
                                          const struct coll_args *);

/* sched_build and sched_emit of the algorithm that @alg resolves to. */
struct sched *coll_build(const struct coll_algorithm *alg, const struct coll_args *args,
                         enum sched_error *error);
struct sched *coll_emit(const struct coll_algorithm *alg, const struct coll_args *args,
                        enum sched_error *error);

#endif
