/*
 * Turns of elements. See turns.h.
 */
#include "lib/sched/turns.h"

#include <stdlib.h>

#include "lib/base/vec.h"

static int cmp_u64(const void *pa, const void *pb)
{
	const uint64_t a = *(const uint64_t *)pa, b = *(const uint64_t *)pb;

	return a < b ? -1 : a > b;
}

static int cmp_turns(const void *pa, const void *pb)
{
	const struct turn *a = pa, *b = pb;

	if (a->when != b->when)
		return a->when < b->when ? -1 : 1;
	return a->lo < b->lo ? -1 : a->lo > b->lo;
}

/* The elements [0, len), divided at the boundaries of all steps' ranges: piece cut[k] to cut[k + 1]
 * has step when[k], and next[k] leads to the first piece from k on without a step. */
struct canvas {
	uint64_t *cut, *when;
	size_t *next, n; /* pieces */
};

static size_t unpainted(struct canvas *c, size_t k)
{
	while (c->next[k] != k) {
		c->next[k] = c->next[c->next[k]];
		k = c->next[k];
	}
	return k;
}

static void paint(struct canvas *c, const struct turn *t)
{
	const uint64_t *at = bsearch(&t->lo, c->cut, c->n + 1, sizeof(*c->cut), cmp_u64);

	for (size_t k = unpainted(c, (size_t)(at - c->cut)); k < c->n && c->cut[k] < t->hi;
	     k = unpainted(c, k)) {
		c->when[k] = t->when;
		c->next[k] = k + 1;
	}
}

static int canvas_init(struct canvas *c, const struct turn *touches, size_t n, uint64_t len,
                       uint64_t untouched)
{
	size_t cuts = 0;

	c->cut = calloc(2 * n + 2, sizeof(*c->cut));
	c->when = calloc(2 * n + 2, sizeof(*c->when));
	c->next = calloc(2 * n + 2, sizeof(*c->next));
	if (!c->cut || !c->when || !c->next)
		return -1;
	c->cut[cuts++] = 0;
	c->cut[cuts++] = len;
	for (size_t i = 0; i < n; i++) {
		c->cut[cuts++] = touches[i].lo;
		c->cut[cuts++] = touches[i].hi;
	}
	qsort(c->cut, cuts, sizeof(*c->cut), cmp_u64);
	c->n = 0;
	for (size_t i = 1; i < cuts; i++)
		if (c->cut[i] != c->cut[c->n])
			c->cut[++c->n] = c->cut[i];
	for (size_t k = 0; k <= c->n; k++) {
		c->when[k] = untouched;
		c->next[k] = k;
	}
	return 0;
}

struct turn *turns_of(const struct sched_step *steps, size_t nsteps, struct sched_span base,
                      uint64_t len, bool first, size_t *nturns)
{
	VEC(struct turn) touches = {0}, turns = {0};
	struct canvas c = {0};
	bool ok = true;

	for (size_t i = 0; i < nsteps && ok; i++) {
		const struct sched_step *st = &steps[i];

		for (int src = 0; src < 1 + first; src++) {
			const struct sched_span s = src ? st->src : st->dst;
			const uint64_t lo = s.off > base.off ? s.off - base.off : 0;
			const uint64_t end = s.off + st->len, past = base.off + len;
			struct turn *t;

			if (s.buf != base.buf || end <= base.off || s.off >= past)
				continue;
			t = vec_push(&touches);
			if (!t)
				ok = false;
			else
				*t = (struct turn){lo, (end < past ? end : past) - base.off,
				                   first ? i : i + 1};
		}
	}
	ok = ok && !canvas_init(&c, touches.v, touches.n, len, first ? TURN_NEVER : 0);
	for (size_t i = 0; i < touches.n && ok; i++)
		paint(&c, &touches.v[first ? i : touches.n - 1 - i]);
	for (size_t k = 0; k < c.n && ok; k++) {
		struct turn *last = turns.n ? &turns.v[turns.n - 1] : NULL;

		if (last && last->when == c.when[k])
			last->hi = c.cut[k + 1];
		else if ((last = vec_push(&turns)))
			*last = (struct turn){c.cut[k], c.cut[k + 1], c.when[k]};
		else
			ok = false;
	}
	if (ok && turns.n)
		qsort(turns.v, turns.n, sizeof(*turns.v), cmp_turns);
	free(touches.v);
	free(c.cut);
	free(c.when);
	free(c.next);
	if (!ok) {
		free(turns.v);
		turns.v = NULL;
	}
	*nturns = turns.n;
	return turns.v;
}
