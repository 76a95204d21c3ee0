/*
 * The verifier: proves by symbolic execution that the P finished schedules of one collective are
 * correct. It reads the same steps and dependencies that the executor runs. One thread; no I/O.
 *
 * It checks:
 * - Every element of an output includes every contribution exactly once (COLL_IDEMPOTENT: at least
 *   once), each from the right input element. SCHED_FINAL was applied once, or not at all.
 * - The operand trees are identical on every rank, unless COLL_DIVERGENT. With COLL_ORDERED they
 *   are the left fold in rank order in the wider type. (With COLL_PARTIALS the lanes carry the
 *   wider type, so roundings between steps are ignored.)
 * - A joint operation has all contributions at once, in the order of ranks and inputs.
 * - The operands of a scan are in rank order.
 * - In an exchange, every rank receives every element of each partner once, with the partner's
 *   value.
 * - The sends and receives of each lane match in order and length.
 * - The dependencies order all conflicting steps, element by element, so that every execution gives
 *   the same values. Three different orders of execution (enum graph_policy) confirm this.
 * - All P schedules finish, without deadlock, in two cases: if a lane buffers a single element;
 *   and, unless COLL_COPIES, if a send is done only once its peer has consumed the elements.
 */
#ifndef COLLCTL_PROOF_VERIFIER_H
#define COLLCTL_PROOF_VERIFIER_H

#include "lib/sched/sched.h"

#define VERIFY_TEXT 256

/* To limit the time, a lane buffers one more element for each VERIFY_LANE_MOVES elements that all
 * lanes together carry. So if blocks are longer than VERIFY_SHORT elements, verify_algorithm also
 * verifies blocks shortened to that length. */
#define VERIFY_LANE_MOVES (UINT64_C(1) << 23)
#define VERIFY_SHORT      UINT64_C(16)

/* Verify @scheds[0..size), which were built for @args[0..size), one per rank. The number of inputs
 * is the schedule's; args' ninputs is ignored. False, with the defect in @why[VERIFY_TEXT]: rank,
 * step and what was found, or no memory. */
bool verify_ranks(const struct coll_algorithm *alg, const struct coll_args *args,
                  struct sched *const *scheds, char *why);

/* Build all ranks' schedules of @alg for @args (args->rank is ignored) and verify them. */
bool verify_algorithm(const struct coll_algorithm *alg, const struct coll_args *args, char *why);

/* The same for an alltoall of uneven parts: @counts as in coll_offsets; args->off and recv_off are
 * ignored. */
bool verify_alltoallv(const struct coll_algorithm *alg, const struct coll_args *args,
                      const uint64_t *counts, char *why);

/* Figures of a whole collective; figures per rank are the maximum over ranks. */
struct sched_figures {
	uint64_t rounds; /* messages on the longest chain; sends that do not wait for each other are
	                    one */
	uint64_t messages; /* sends of the rank that sends most */
	uint64_t elements; /* elements sent by the rank that sends most */
	uint64_t received; /* elements received by the rank that receives most */
	uint64_t reduced;  /* elements added by the rank that adds most: RECV_REDUCE, REDUCE,
	                    and all but one of the contributions of a JOINT */
	uint64_t peers;    /* different peers of the rank that has most */
	uint64_t scratch;  /* elements of scratch of the rank that needs most */
};
/* Count the figures. False, with the reason in @why[VERIFY_TEXT]: the schedules do not match, or no
 * memory. */
bool sched_figures(struct sched *const *scheds, int size, struct sched_figures *out, char *why);

#endif
