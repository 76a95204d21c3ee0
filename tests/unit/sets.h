/*
 * The schedules of all ranks of a collective, as the tests of algorithms and of the verifier make
 * them: from a shape, which says what is asked for, to a set.
 */
#ifndef COLLCTL_TESTS_SETS_H
#define COLLCTL_TESTS_SETS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algorithms/table.h"
#include "lib/proof/verifier.h"
#include "tests/unit/unit.h"

#define MAX_SIZE 64

static inline bool long_run(void)
{
	const char *s = getenv("COLLCTL_LONG");

	return s && *s && strcmp(s, "0") != 0;
}

/* The largest number of ranks to go to. Sanitizers see the same code in smaller jobs. */
static inline int up_to(int size, int sanitized)
{
#ifdef COLLCTL_SANITIZED
	return long_run() ? size : sanitized;
#else
	(void)sanitized;
	return size;
#endif
}

/* ---- shapes ---- */

struct shape {
	int size, root;
	int ninputs; /* 0: 1 + rank % 3 */
	int devices; /* -1: rank % 3 */
	unsigned base, steps;
	uint64_t off[MAX_SIZE + 1];
	bool joins; /* a joint operation, of so many inputs of each rank: */
	uint32_t joint[MAX_SIZE];
	const int *host;        /* as in struct coll_args */
	const uint64_t *counts; /* alltoall: [size * size], as coll_offsets takes them; or NULL */
};

static inline void shape_split(struct shape *sh, uint64_t n)
{
	coll_split(n, sh->size, sh->off);
}

/* The steps that an exchange of @size ranks can have at most: 2^steps divides the size. */
static inline unsigned most_steps(int size)
{
	unsigned c = 0;

	while (size % (2 << c) == 0)
		c++;
	return c;
}

/* What @alg can be asked for: as @sh, but a barrier has one element and one input, an exchange is
 * of as many steps as can be if it has none. False: not on so many ranks. */
static inline bool shape_fit(struct shape *sh, const struct coll_algorithm *alg)
{
	if (alg->kind == COLL_BARRIER)
		shape_split(sh, 1);
	if (!coll_takes_several(alg->kind))
		sh->ninputs = 1;
	for (int r = 0; r < sh->size; r++)
		sh->joint[r] = (uint32_t)(sh->ninputs ? sh->ninputs : 1 + r % 3);
	if (sh->joins && (!(alg->flags & COLL_JOINT) || sh->devices))
		return false;
	if (alg->kind == COLL_EXCHANGE && (!sh->steps || sh->steps > most_steps(sh->size)))
		sh->steps = most_steps(sh->size);
	return alg->kind != COLL_EXCHANGE || sh->size == 1 || sh->steps;
}

static inline struct coll_args shape_args(const struct shape *sh)
{
	return (struct coll_args){.size = sh->size,
	                          .root = sh->root,
	                          .ninputs = sh->ninputs,
	                          .joint = sh->joins ? sh->joint : NULL,
	                          .stores = true,
	                          .devices = sh->devices,
	                          .off = sh->off,
	                          .host = sh->host,
	                          .base = sh->base,
	                          .steps = sh->steps};
}

static inline const char *shape_words(const struct coll_algorithm *alg, const struct shape *sh)
{
	static char text[1200];
	int n = snprintf(text, sizeof(text),
	                 "%s %s of %d ranks, root %d, %d inputs, %d devices, base %u, %u steps,",
	                 coll_name(alg->kind), alg->name, sh->size, sh->root, sh->ninputs,
	                 sh->devices, sh->base, sh->steps);

	for (int j = 0; j < sh->size && n < (int)sizeof(text) - 24; j++)
		n += snprintf(text + n, sizeof(text) - (size_t)n, " %llu",
		              (unsigned long long)(sh->off[j + 1] - sh->off[j]));
	if (sh->joins)
		n += snprintf(text + n, sizeof(text) - (size_t)n, ", joint");
	if (sh->host)
		n += snprintf(text + n, sizeof(text) - (size_t)n, ", hosts");
	for (int j = 0; sh->host && j < sh->size && n < (int)sizeof(text) - 24; j++)
		n += snprintf(text + n, sizeof(text) - (size_t)n, " %d", sh->host[j]);
	snprintf(text + n, sizeof(text) - (size_t)n, "%s", sh->counts ? ", and a matrix" : "");
	return text;
}

/* ---- sets ---- */

struct set {
	const struct coll_algorithm *alg;
	struct shape shape;
	int size;
	struct coll_args args[MAX_SIZE];
	uint64_t *offs; /* with counts: off and recv_off of each rank */
	struct sched *s[MAX_SIZE];
};

static inline void set_init(struct set *t, const struct coll_algorithm *alg, const struct shape *sh)
{
	const size_t n = (size_t)sh->size + 1;

	*t = (struct set){.alg = alg, .shape = *sh, .size = sh->size};
	t->offs = sh->counts ? calloc(2 * n * n, sizeof(*t->offs)) : NULL;
	for (int r = 0; r < sh->size; r++) {
		struct coll_args *a = &t->args[r];
		enum sched_error e;

		*a = shape_args(&t->shape);
		a->rank = r;
		a->ninputs = sh->ninputs ? sh->ninputs : 1 + r % 3;
		a->devices = sh->devices < 0 ? r % 3 : sh->devices;
		a->unlinked = r % 2;
		if (sh->counts) {
			uint64_t *off = &t->offs[2 * n * (size_t)r];

			coll_offsets(sh->counts, sh->size, r, off, off + n);
			a->off = off;
			a->recv_off = off + n;
		}
		t->s[r] = coll_build(alg, a, &e);
		if (e)
			fail_msg("%s: %s", shape_words(alg, sh), sched_strerror(e));
	}
}

static inline void set_release(struct set *t)
{
	for (int r = 0; r < t->size; r++)
		sched_free(t->s[r]);
	free(t->offs);
}

static inline bool set_verify(const struct set *t, char *why)
{
	return verify_ranks(t->alg, t->args, t->s, why);
}

static inline void assert_verified(const struct coll_algorithm *alg, const struct shape *sh)
{
	const struct coll_args a = shape_args(sh);
	char why[VERIFY_TEXT];
	struct set t;
	bool ok;

	if (!sh->ninputs || sh->devices < 0) { /* the ranks differ */
		set_init(&t, alg, sh);
		ok = set_verify(&t, why);
		set_release(&t);
	} else if (sh->counts) {
		ok = verify_alltoallv(alg, &a, sh->counts, why);
	} else {
		ok = verify_algorithm(alg, &a, why);
	}
	if (!ok)
		fail_msg("%s: %s", shape_words(alg, sh), why);
}

/* ---- copies, to be broken ---- */

static inline void copy_steps(struct sched *to, const struct sched *from)
{
	memcpy(to->steps, from->steps, from->nsteps * sizeof(*to->steps));
	to->nsteps = from->nsteps;
}

static inline struct sched *clone(const struct sched *s)
{
	struct sched *c = malloc(sizeof(*c));

	assert_non_null(c);
	*c = *s;
	c->steps = calloc((size_t)s->nsteps + 1, sizeof(*c->steps));
	c->bufs = calloc((size_t)s->nbufs + 1, sizeof(*c->bufs));
	c->deps = calloc((size_t)s->ndeps + 1, sizeof(*c->deps));
	assert_non_null(c->steps);
	assert_non_null(c->bufs);
	assert_non_null(c->deps);
	memcpy(c->steps, s->steps, s->nsteps * sizeof(*c->steps));
	memcpy(c->bufs, s->bufs, s->nbufs * sizeof(*c->bufs));
	if (s->ndeps) /* else there is no array */
		memcpy(c->deps, s->deps, s->ndeps * sizeof(*c->deps));
	return c;
}

#endif
