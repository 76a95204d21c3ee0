/*
 * Races: the dependencies must order every two steps of a rank that access the same elements, if
 * one of them writes, element by element. See verifier_internal.h.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lib/proof/verifier_internal.h"

struct races {
	struct verify *v;
	const struct sched *s;
	uint64_t *need; /* [steps]: elements that each must have finished; zero between uses */
};

/* The least progress of step @a when step @b works on element @x. */
static uint64_t guaranteed(struct races *k, uint32_t b, uint64_t x, uint32_t a)
{
	uint64_t *need = k->need, done;

	need[b] = x + 1;
	for (uint32_t i = b; i > a; i--) {
		const struct sched_step *st = &k->s->steps[i];

		for (uint32_t j = 0; need[i] && j < st->ndep; j++) {
			const struct sched_dep *d = &k->s->deps[st->dep + j];
			const uint64_t hi = need[i] < d->hi ? need[i] : d->hi;

			if (need[i] > d->lo && hi + (uint64_t)d->shift > need[d->step])
				need[d->step] = hi + (uint64_t)d->shift;
		}
	}
	done = need[a];
	memset(&need[a], 0, (b - a + 1) * sizeof(*need));
	return done;
}

/* The first of the later step's dependencies that may be on the earlier step at this shift.
 * Inferred dependencies are sorted; guaranteed() finds others. */
static uint32_t first_dep(const struct sched *s, const struct sched_conflict *c)
{
	const struct sched_step *st = &s->steps[c->later];
	uint32_t lo = 0, hi = st->ndep;

	while (lo < hi) {
		const uint32_t mid = lo + (hi - lo) / 2;
		const struct sched_dep *d = &s->deps[st->dep + mid];

		if (d->step < c->earlier ||
		    (d->step == c->earlier &&
		     (d->shift < c->shift || (d->shift == c->shift && d->hi <= c->lo))))
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static enum sched_error check_conflict(void *ctx, const struct sched_conflict *c)
{
	struct races *k = ctx;
	const struct sched_step *st = &k->s->steps[c->later];
	const uint32_t base = k->v->g.first[k->s->rank];
	uint64_t x = c->lo;
	char a[96], b[96];

	for (uint32_t j = first_dep(k->s, c); j < st->ndep; j++) {
		const struct sched_dep *d = &k->s->deps[st->dep + j];

		if (d->step != c->earlier || d->shift != c->shift || d->lo > x)
			break;
		x = d->hi > x ? d->hi : x;
	}
	while (x < c->hi) {
		const uint64_t done = guaranteed(k, c->later, x, c->earlier);

		if (done <= x + (uint64_t)c->shift) {
			verify_defect(k->v, "%s may overtake %s on its element %" PRIu64,
			              graph_step_words(&k->v->g, base + c->later, a),
			              graph_step_words(&k->v->g, base + c->earlier, b), x);
			return SCHED_RANGE;
		}
		x = done - (uint64_t)c->shift;
	}
	return SCHED_OK;
}

bool verify_races(struct verify *v)
{
	for (int r = 0; r < v->size && !v->failed; r++) {
		struct races k = {v, v->scheds[r],
		                  calloc((size_t)v->scheds[r]->nsteps + 1, sizeof(uint64_t))};

		if (!k.need || sched_conflicts(k.s, check_conflict, &k) == SCHED_NOMEM)
			verify_nomem(v);
		free(k.need);
	}
	return !v->failed;
}
