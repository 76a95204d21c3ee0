/*
 * Turns: which step of a schedule is the first that accesses an element of an input, or the last
 * that writes an element of the output. sched_build orders READ and WRITE steps by them. Pure;
 * lengths are elements.
 */
#ifndef COLLCTL_SCHED_TURNS_H
#define COLLCTL_SCHED_TURNS_H

#include "lib/sched/sched.h"

#define TURN_NEVER UINT64_MAX

/* Elements [lo, hi) of an input or the output that have the same step. */
struct turn {
	uint64_t lo, hi;
	/* Of an input: the index of the first step that accesses them; TURN_NEVER: no step does. Of
	 * the output: 1 + the index of the last step that writes them; 0: no step does. */
	uint64_t when;
};

/* The turns of the @len elements at @base, sorted by `when`, then by lo. @first: of an input; else
 * of the output. *@nturns: their number. The caller frees them. NULL: no memory. */
struct turn *turns_of(const struct sched_step *steps, size_t nsteps, struct sched_span base,
                      uint64_t len, bool first, size_t *nturns);

#endif
