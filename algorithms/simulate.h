/*
 * The simulator: runs the schedules of all ranks in the model of price.h and says when the last
 * step is done. It moves no data: a step is two times, when its first elements are done and when
 * its last are, and in between it is as far as a straight line between the two.
 *
 * 1. A step may start when what it needs first has begun to be delivered (the frontier rule of
 *    sched.h) and is not done before what it needs last is, plus its own time for the rest. With
 *    store_and_forward it may start when all that it needs has been delivered.
 * 2. A message is moved by its sender's core, goes through its sender's port out, then, `latency`
 *    later, its receiver's port in, and is moved and perhaps added by its receiver's core, as a
 *    stream: all at the same time but for the first grain. It does not wait at the port in for its
 *    receiver to want it: buffers between two ranks hold what they must.
 * 3. A port takes one message after another: the port out that which stands first in the schedule
 *    of those that can go, the port in that which comes first. A core turns to whatever there is:
 *    what has come to it begins at once and has ended when all that came before has, too. All work
 *    at their own rate; a stream that comes more slowly leaves them time for others.
 * 4. Messages from one rank to another on one lane stay in their order.
 * 5. READ and WRITE cost nothing, or the model's file rate, beside all else. COPY, REDUCE and the
 *    folding of local inputs are work of the core.
 *
 * Deterministic: the same schedules and model give the same bits. Memory is linear in the steps and
 * dependencies, some 50 and 20 bytes each; each rank's schedule is freed when it has been read.
 */
#ifndef COLLCTL_SIMULATE_H
#define COLLCTL_SIMULATE_H

#include "algorithms/price.h"

#define SIMULATE_TEXT 256

/* More steps than this, of all ranks, are not simulated: seconds of work and a gigabyte or two. */
#define SIMULATE_STEPS_MAX (UINT64_C(1) << 24)

struct simulation {
	double seconds;
	int last;       /* the rank whose last step is done last; the first of several */
	uint64_t steps; /* that cost something, of all ranks */
};

/* Simulate @scheds[0..size), whose elements have @esize bytes. False with words in @why
 * (SIMULATE_TEXT bytes) when they don't match up, wait for one another, or memory is short. */
bool simulate_schedules(const struct price_model *, struct sched *const *scheds, int size,
                        unsigned esize, struct simulation *out, char *why);

/* About how many steps the schedules of all ranks of @alg have, from those of three. False with
 * words in @why when these can't be built. */
bool simulate_estimate(const struct coll_algorithm *alg, const struct coll_args *args,
                       uint64_t *steps, char *why);

/* Build the schedules of all ranks of @alg for @args (args->rank is ignored), one after the other,
 * and simulate them. False too, before they are built, when they have about SIMULATE_STEPS_MAX
 * steps or more. */
bool simulate_algorithm(const struct price_model *, const struct coll_algorithm *alg,
                        const struct coll_args *args, unsigned esize, struct simulation *out,
                        char *why);

#endif
