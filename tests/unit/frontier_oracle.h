/*
 * An oracle for dependencies, element by element and by the words of the frontier rule alone: it
 * shares no code with the inference or the verifier.
 */
#ifndef COLLCTL_TESTS_FRONTIER_ORACLE_H
#define COLLCTL_TESTS_FRONTIER_ORACLE_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/sched/sched.h"

struct access {
	struct sched_span span;
	bool writes;
};

#define ACCESSES 64 /* of a step, at most */

static inline int accesses_of(const struct sched *s, const struct sched_step *st,
                              struct access *out)
{
	int n = 0;

	if (st->op == SCHED_LOCAL_REDUCE)
		for (int i = 0; i < s->ninputs; i++)
			out[n++] = (struct access){{(uint32_t)i, st->src.off}, false};
	else if (st->op == SCHED_JOINT)
		for (uint32_t i = 0; i < s->njoint; i++)
			out[n++] = (struct access){{st->src.buf + i, st->src.off}, false};
	else if (st->op != SCHED_READ && st->op != SCHED_RECV && st->op != SCHED_IDENTITY)
		out[n++] = (struct access){st->src, false};
	if (st->op == SCHED_REDUCE)
		out[n++] = (struct access){st->dst, false};
	if (st->op != SCHED_SEND && st->op != SCHED_WRITE)
		out[n++] = (struct access){st->dst, true};
	return n;
}

static inline uint64_t frontier_limit(const struct sched *s, uint32_t step, const uint64_t *done)
{
	const struct sched_step *st = &s->steps[step];
	int64_t limit = (int64_t)st->len;

	for (uint32_t k = 0; k < st->ndep; k++) {
		const struct sched_dep *d = &s->deps[st->dep + k];
		const int64_t lo = (int64_t)d->lo, hi = (int64_t)d->hi;
		const int64_t at = (int64_t)done[d->step];
		int64_t may = at - d->shift > lo ? at - d->shift : lo;

		if (at >= hi + d->shift)
			may = (int64_t)st->len;
		if (may < limit)
			limit = may;
	}
	return (uint64_t)limit;
}

/* Does some element that a step has done already, by @done, conflict with element @x of @a? */
static inline bool overtaken(const struct sched *s, uint32_t a, uint64_t x, const uint64_t *done)
{
	struct access pa[ACCESSES], pb[ACCESSES];
	const int na = accesses_of(s, &s->steps[a], pa);

	for (uint32_t b = a + 1; b < s->nsteps; b++) {
		const int nb = accesses_of(s, &s->steps[b], pb);

		for (int i = 0; i < na; i++)
			for (int j = 0; j < nb; j++) {
				const uint64_t at = pa[i].span.off + x;

				if (pa[i].span.buf == pb[j].span.buf && at >= pb[j].span.off &&
				    at < pb[j].span.off + done[b] && (pa[i].writes || pb[j].writes))
					return true;
			}
	}
	return false;
}

/*
 * Can a later step overtake an earlier one that it conflicts with? Each step in turn is stopped
 * before each of its elements, while all others go as far as the rule lets them.
 */
static inline bool oracle_racy(const struct sched *s)
{
	uint64_t done[512];

	for (uint32_t a = 0; a < s->nsteps; a++)
		for (uint64_t x = 0; x < s->steps[a].len; x++) {
			for (uint32_t i = 0; i < s->nsteps; i++) {
				done[i] = frontier_limit(s, i, done);
				if (i == a && done[i] > x)
					done[i] = x;
			}
			if (overtaken(s, a, x, done))
				return true;
		}
	return false;
}

/* Is every element of every dependency a conflict, of two steps on one place, one writing? */
static inline bool oracle_needed(const struct sched *s)
{
	struct access pa[ACCESSES], pb[ACCESSES];

	for (uint32_t b = 0; b < s->nsteps; b++)
		for (uint32_t k = 0; k < s->steps[b].ndep; k++) {
			const struct sched_dep *d = &s->deps[s->steps[b].dep + k];
			const int na = accesses_of(s, &s->steps[d->step], pa);
			const int nb = accesses_of(s, &s->steps[b], pb);
			bool found = false;

			for (int i = 0; i < na; i++)
				for (int j = 0; j < nb; j++)
					found |= pa[i].span.buf == pb[j].span.buf &&
					         (pa[i].writes || pb[j].writes) &&
					         (int64_t)(pb[j].span.off - pa[i].span.off) ==
					                 d->shift &&
					         (int64_t)d->lo + d->shift >= 0 &&
					         (uint64_t)((int64_t)d->hi + d->shift) <=
					                 s->steps[d->step].len &&
					         d->hi <= s->steps[b].len && d->lo < d->hi;
			if (!found)
				return false;
		}
	return true;
}

/* splitmix64: the tests' own numbers, the same everywhere. */
static inline uint64_t random_next(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static inline uint64_t random_below(uint64_t *state, uint64_t n)
{
	return random_next(state) % n;
}

#endif
