/*
 * The simulator: runs the schedules of all ranks in the model of price.h and computes when the last
 * step is done, in seconds. It moves no data: a step has two times, at which its first and its last
 * elements are done; its progress between them is linear.
 *
 * 1. A step may start when the first elements that it needs are available (the frontier rule of
 *    sched.h). It ends no earlier than the last elements that it needs, plus its own time for the
 *    rest. With store_and_forward it starts when all elements that it needs are available.
 * 2. A message is a stream: the sender's core moves it, it passes the sender's port out and,
 *    `latency` later, the receiver's port in, and the receiver's core moves and perhaps adds it.
 *    All this overlaps, except for the first grain. The buffers between two ranks are unlimited: a
 *    message does not wait until its receiver needs it.
 * 3. The ports of a host have its own rates (price_model.ports). A port carries one message after
 * another. The port out takes, of the messages that can start, the first in the schedule; the port
 * in takes the one that arrives first. A core begins new work at once; the work ends when all
 * earlier work has ended, too. Ports and cores work at their own rates; if a stream is slower, they
 * have time for others. If ranks share hosts, a message to another host also passes, after the
 * sender's port out, the port out of its host and, before the receiver's port in, the port in of
 * the receiver's host, first come, first served. A message inside a host passes no port of a host,
 * is not encrypted, and has the latency `inside`; the ranks' own ports only take their time per
 * message.
 * 4. Messages from one rank to another stay in their order.
 * 5. READ and WRITE take no time or, if the model has a file rate, time that overlaps with
 *    everything. COPY, REDUCE, LOCAL_REDUCE and JOINT are work of the core.
 *
 * Deterministic: the same schedules and model give the same result. Memory: about 50 bytes per step
 * and 20 per dependency; simulate_algorithm frees each rank's schedule after reading it. One
 * thread.
 */
#ifndef COLLCTL_PRICE_SIMULATE_H
#define COLLCTL_PRICE_SIMULATE_H

#include "lib/price/price.h"

#define SIMULATE_TEXT 256

/* The most steps, of all ranks, that are simulated: this takes seconds, and one to two
 * gigabytes. */
#define SIMULATE_STEPS_MAX (UINT64_C(1) << 24)

struct simulation {
	double seconds;
	int last;       /* the rank whose last step ends last; the lowest of several */
	uint64_t steps; /* steps of all ranks that have a cost */
};

/* Something that a rank does. Times are seconds. */
struct simulated_event {
	enum { SIMULATED_MESSAGE, SIMULATED_STEP } kind;
	int rank, peer;    /* of a message: from, to; else peer is -1 */
	unsigned op;       /* enum sched_op: of the step; of a message, of the receiver's step */
	double start, end; /* of a message: the sender's first element, the receiver's last */
	uint64_t bytes;
};

/* After the simulation, `event` is called for each message and each local step that takes time,
 * rank by rank, in the order of the schedules (of a message, the sender's). It returns false if
 * memory is short, which fails the simulation. */
struct simulate_observer {
	bool (*event)(void *ctx, const struct simulated_event *);
	void *ctx;
};

/* Simulate @scheds[0..size), whose elements have @esize bytes. @host: as in struct coll_args.
 * False, with the reason in @why (SIMULATE_TEXT bytes), if they do not match, deadlock, or memory
 * is short. */
bool simulate_schedules(const struct price_model *, struct sched *const *scheds, int size,
                        const int *host, unsigned esize, struct simulation *out, char *why);

/* The same with an observer. */
bool simulate_observed(const struct price_model *, struct sched *const *scheds, int size,
                       const int *host, unsigned esize, const struct simulate_observer *,
                       struct simulation *out, char *why);

/* Estimate the number of steps of all ranks of @alg from the schedules of three ranks. False, with
 * the reason in @why, if these cannot be built. */
bool simulate_estimate(const struct coll_algorithm *alg, const struct coll_args *args,
                       uint64_t *steps, char *why);

/* Build the schedules of all ranks of @alg for @args (args->rank is ignored), one after the other,
 * and simulate them. Also false, before building them, if they have about SIMULATE_STEPS_MAX steps
 * or more. */
bool simulate_algorithm(const struct price_model *, const struct coll_algorithm *alg,
                        const struct coll_args *args, unsigned esize, struct simulation *out,
                        char *why);

#endif
