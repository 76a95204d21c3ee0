/*
 * The verifier. See verifier.h.
 *
 * 1. The schedules form one graph (graph.c): they are well-formed and match lane by lane.
 * 2. Races: the dependencies order every two steps of a rank that access the same elements, if one
 *    of them writes, element by element. With the matching, this implies that every execution gives
 *    the same values.
 * 3. Values: the schedules are run symbolically in three orders that dependencies and lanes allow.
 *    The outputs are compared with the collective's definition, and between ranks.
 * 4. Lanes: the schedules are run element by element with lanes that hold one element.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "algorithms/table.h"
#include "lib/proof/verifier_internal.h"

_Static_assert(GRAPH_TEXT == VERIFY_TEXT, "one text for both");

bool verify_defect(struct verify *v, const char *fmt, ...)
{
	va_list ap;

	if (v->failed)
		return false;
	v->failed = true;
	va_start(ap, fmt);
	vsnprintf(v->why, VERIFY_TEXT, fmt, ap);
	va_end(ap);
	return false;
}

bool verify_nomem(struct verify *v)
{
	return verify_defect(v, "out of memory");
}

static bool verify_init(struct verify *v)
{
	const size_t size = (size_t)v->size;

	v->bufs = calloc(size, sizeof(struct pieces *));
	v->outs = calloc(size, sizeof(struct pieces));
	v->arrived = calloc(size, sizeof(*v->arrived));
	v->messages = calloc((size_t)v->g.n + 1, sizeof(*v->messages));
	v->first_leaf = calloc(size + 1, sizeof(*v->first_leaf));
	if (!v->bufs || !v->outs || !v->arrived || !v->messages || !v->first_leaf)
		return verify_nomem(v);
	for (int r = 0; r < v->size; r++) {
		const struct sched *s = v->scheds[r];

		v->first_leaf[r + 1] = v->first_leaf[r] + (uint32_t)s->ninputs;
		v->bufs[r] = calloc((size_t)s->nbufs + 1, sizeof(struct pieces));
		if (!v->bufs[r])
			return verify_nomem(v);
	}
	v->seen_leaf = calloc((size_t)v->first_leaf[size] + 1, sizeof(*v->seen_leaf));
	return v->seen_leaf || verify_nomem(v);
}

static void verify_release(struct verify *v)
{
	for (int r = 0; v->bufs && r < v->size; r++) {
		for (uint32_t i = 0; v->bufs[r] && i < v->scheds[r]->nbufs; i++)
			pieces_release(&v->bufs[r][i]);
		free(v->bufs[r]);
	}
	for (int r = 0; v->outs && r < v->size; r++)
		pieces_release(&v->outs[r]);
	for (int r = 0; v->arrived && r < v->size; r++)
		pieces_release(&v->arrived[r]);
	for (uint32_t id = 0; v->messages && id < v->g.n; id++)
		pieces_release(&v->messages[id]);
	free(v->bufs);
	free(v->outs);
	free(v->arrived);
	free(v->messages);
	free(v->first_leaf);
	free(v->seen_leaf);
	free(v->seen_node);
	nodes_release(&v->nodes);
	graph_release(&v->g);
}

static bool check_finals(struct verify *v)
{
	for (int r = 1; r < v->size; r++)
		if (v->scheds[r]->final != v->scheds[0]->final)
			return verify_defect(
			        v, "ranks 0 and %d disagree on who applies the last function", r);
	return true;
}

bool verify_ranks(const struct coll_algorithm *alg, const struct coll_args *args,
                  struct sched *const *scheds, char *why)
{
	alg = coll_resolve(alg, args); /* whose promises count */
	struct verify v = {
	        .alg = alg, .args = args, .scheds = scheds, .size = args->size, .why = why};
	bool ok;

	if (!graph_init(&v.g, scheds, args->size, why))
		return false;
	ok = verify_init(&v) && check_finals(&v) && verify_races(&v);
	for (int p = 0; p < GRAPH_POLICIES && ok; p++)
		ok = verify_values(&v, (enum graph_policy)p);
	ok = ok && verify_lanes(&v, false);
	if (!(alg->flags & COLL_COPIES))
		ok = ok && verify_lanes(&v, true);
	verify_release(&v);
	return ok;
}

/* The same arguments for every rank. NULL: no memory. */
static struct coll_args *all_alike(const struct coll_args *args, char *why)
{
	struct coll_args *ranks = calloc((size_t)args->size, sizeof(*ranks));

	for (int r = 0; ranks && r < args->size; r++) {
		ranks[r] = *args;
		ranks[r].rank = r;
	}
	if (!ranks)
		snprintf(why, VERIFY_TEXT, "out of memory");
	return ranks;
}

static bool build_and_verify(const struct coll_algorithm *alg, const struct coll_args *ranks,
                             char *why)
{
	const int size = ranks->size;
	struct sched **scheds = calloc((size_t)size, sizeof(struct sched *));
	enum sched_error e = scheds ? SCHED_OK : SCHED_NOMEM;
	bool ok = false;
	int built = 0;

	for (; built < size && !e; built++)
		scheds[built] = coll_build(alg, &ranks[built], &e);
	if (e)
		snprintf(why, VERIFY_TEXT, "rank %d: %s", built ? built - 1 : 0, sched_strerror(e));
	else
		ok = verify_ranks(alg, ranks, scheds, why);
	for (int r = 0; scheds && r < size; r++)
		sched_free(scheds[r]);
	free(scheds);
	return ok;
}

/* Shorten to at most VERIFY_SHORT elements, few enough for lanes of one element. Odd lengths stay
 * odd. */
static uint64_t shortened(uint64_t len)
{
	return len > VERIFY_SHORT ? VERIFY_SHORT - (len & 1) : len;
}

bool verify_algorithm(const struct coll_algorithm *alg, const struct coll_args *args, char *why)
{
	const size_t size = (size_t)args->size;
	uint64_t *off = calloc(size + 1, sizeof(*off));
	struct coll_args *ranks = all_alike(args, why);
	bool ok = ranks && build_and_verify(alg, ranks, why);

	if (ok && !off) {
		snprintf(why, VERIFY_TEXT, "out of memory");
		ok = false;
	}
	for (size_t j = 0; ok && j < size; j++)
		off[j + 1] = off[j] + shortened(args->off[j + 1] - args->off[j]);
	for (size_t r = 0; ok && r < size; r++)
		ranks[r].off = off;
	if (ok && off[size] < coll_count(args))
		ok = build_and_verify(alg, ranks, why);
	free(ranks);
	free(off);
	return ok;
}

/* Verify for exactly these @counts. */
static bool verify_counts(const struct coll_algorithm *alg, const struct coll_args *args,
                          const uint64_t *counts, char *why)
{
	const size_t size = (size_t)args->size;
	struct coll_args *ranks = all_alike(args, why);
	uint64_t *offs = ranks ? calloc(size * (size + 1) * 2, sizeof(*offs)) : NULL;
	bool ok;

	if (ranks && !offs)
		snprintf(why, VERIFY_TEXT, "out of memory");
	for (size_t r = 0; offs && r < size; r++) {
		uint64_t *off = &offs[2 * r * (size + 1)], *recv_off = off + size + 1;

		coll_offsets(counts, args->size, (int)r, off, recv_off);
		ranks[r].off = off;
		ranks[r].recv_off = recv_off;
	}
	ok = offs && build_and_verify(alg, ranks, why);
	free(offs);
	free(ranks);
	return ok;
}

bool verify_alltoallv(const struct coll_algorithm *alg, const struct coll_args *args,
                      const uint64_t *counts, char *why)
{
	const size_t n = (size_t)args->size * (size_t)args->size;
	uint64_t *cut = calloc(n, sizeof(*cut));
	bool ok = verify_counts(alg, args, counts, why), shorter = false;

	if (ok && !cut) {
		snprintf(why, VERIFY_TEXT, "out of memory");
		ok = false;
	}
	for (size_t i = 0; ok && i < n; i++) {
		cut[i] = shortened(counts[i]);
		shorter |= cut[i] < counts[i];
	}
	if (ok && shorter)
		ok = verify_counts(alg, args, cut, why);
	free(cut);
	return ok;
}
