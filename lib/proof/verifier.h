/*
 * The verifier: proves symbolically that the P finished schedules of one collective are correct. It
 * reads the same steps and dependencies that the executor runs.
 *
 * It checks:
 * - Every element that is written has every contribution exactly once (idempotent algorithms: at
 *   least once), from the right place, and SCHED_FINAL once or not at all.
 * - The operand trees are identical on every rank, unless the algorithm is marked divergent. If it
 * is marked ordered, they are the left fold in rank order in the wider type. (If partial sums are
 * sent too, COLL_PARTIALS, the wire has that type, so no rounding counts.)
 * - The operands of a scan are in rank order.
 * - In an exchange every rank receives every element once, each with the value of the peer that
 * sends it.
 * - The lanes match as FIFOs, message for message.
 * - The dependencies order all conflicting steps, element by element, so that every execution gives
 *   the same values. Three very different executions confirm this.
 * - All P schedules finish when every lane holds a single element and, unless the algorithm is
 *   marked COLL_COPIES, when a send is done only when its peer has taken the elements.
 */
#ifndef COLLCTL_PROOF_VERIFIER_H
#define COLLCTL_PROOF_VERIFIER_H

#include "lib/sched/sched.h"

#define VERIFY_TEXT 256

/* A lane holds one element if all lanes together carry less than VERIFY_LANE_MOVES elements, and
 * one more for each further such amount. If blocks are longer than VERIFY_SHORT elements,
 * verify_algorithm therefore also verifies blocks shortened to that length. */
#define VERIFY_LANE_MOVES (UINT64_C(1) << 23)
#define VERIFY_SHORT      UINT64_C(16)

/* Verify @scheds[0..size), which were built for @args[0..size), one per rank (ignores ninputs: the
 * schedule has the number of inputs). False, with the defect in @why (VERIFY_TEXT bytes): rank,
 * step and what was found. */
bool verify_ranks(const struct coll_algorithm *alg, const struct coll_args *args,
                  struct sched *const *scheds, char *why);

/* The same if the ranks' arguments differ only in the rank; args->rank is ignored. */
bool verify_schedules(const struct coll_algorithm *alg, const struct coll_args *args,
                      struct sched *const *scheds, char *why);

/* Build all ranks' schedules of @alg for @args (args->rank is ignored) and verify them. */
bool verify_algorithm(const struct coll_algorithm *alg, const struct coll_args *args, char *why);

/* The same for an alltoall of uneven parts: @counts as for coll_offsets; args->off and recv_off are
 * ignored. */
bool verify_alltoallv(const struct coll_algorithm *alg, const struct coll_args *args,
                      const uint64_t *counts, char *why);

/* Figures of a whole collective; figures per rank are the maximum over ranks. */
struct sched_figures {
	uint64_t rounds; /* length of the longest chain; sends that do not wait for each other count
	                    as one */
	uint64_t messages; /* sends of the rank that sends most */
	uint64_t elements; /* elements sent by the rank that sends most */
	uint64_t received; /* elements received by the rank that receives most */
	uint64_t reduced;  /* elements added by the rank that adds most: RECV_REDUCE, REDUCE */
	uint64_t peers;    /* distinct peers of the rank that has most */
	uint64_t scratch;  /* elements of scratch of the rank that needs most */
};
/* False, with the reason in @why, if the schedules do not match. */
bool sched_figures(struct sched *const *scheds, int size, struct sched_figures *out, char *why);

#endif
