/*
 * The verifier: proves the P finished schedules of one collective right, symbolically, by reading
 * the very steps and dependencies that the executor runs.
 *
 * It checks that every element that is written has every contribution exactly once (idempotent
 * algorithms: at least once) and from the right place; that the lanes match as FIFOs, message for
 * message; that conflicting steps are ordered by the dependencies (the values are the same in
 * list order and in the most eager and the laziest orders that the dependencies allow); that all
 * P schedules finish when every lane holds a single element; and that the operand trees are
 * identical on every rank unless the algorithm is marked divergent.
 */
#ifndef COLLCTL_VERIFY_H
#define COLLCTL_VERIFY_H

#include "algorithms/sched.h"

#define VERIFY_TEXT 256

/* Verify @scheds[0..size). @off is the block layout they were built for. Returns true, or false
 * with the defect in words in @why (VERIFY_TEXT bytes): rank, step and what was found. */
bool verify_schedules(const struct coll_algorithm *alg, const struct coll_args *args,
                      struct sched *const *scheds, char *why);

/* Build all ranks' schedules of @alg for @args (args->rank is ignored) and verify them. */
bool verify_algorithm(const struct coll_algorithm *alg, const struct coll_args *args, char *why);

/* Figures of a whole collective, per rank where the maximum over ranks is taken. */
struct sched_figures {
	uint64_t rounds;   /* the longest chain of messages: a send waits for what it depends on */
	uint64_t messages; /* sends of the rank that sends most */
	uint64_t elements; /* elements sent by the rank that sends most */
	uint64_t peers;    /* distinct peers of the rank that has most */
	uint64_t scratch;  /* elements of scratch of the rank that needs most */
};
/* Returns false with words in @why when the schedules do not match up. */
bool sched_figures(struct sched *const *scheds, int size, struct sched_figures *out, char *why);

#endif
