/*
 * Turns: the order in which the steps of a schedule need the elements of an input first, or have
 * completed those of an output.
 */
#ifndef COLLCTL_SCHED_TURNS_H
#define COLLCTL_SCHED_TURNS_H

#include "lib/sched/sched.h"

#define TURN_NEVER UINT64_MAX

/* Elements [lo, hi) of an input or the output. */
struct turn {
	uint64_t lo, hi;
	/* The step that needs them first, TURN_NEVER if none does; of the output: the step that
	 * writes them last + 1, 0 if none does. */
	uint64_t when;
};

/* The turns of the elements [0, len) of the buffer from @base on, in order. Elements that the same
 * step accesses first (@first), or writes last, are one turn. The caller frees them. NULL: no
 * memory. */
struct turn *turns_of(const struct sched_step *steps, size_t nsteps, struct sched_span base,
                      uint64_t len, bool first, size_t *nturns);

#endif
