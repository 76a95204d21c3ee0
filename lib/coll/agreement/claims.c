#include "lib/coll/agreement/claims.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/fields.h"
#include "lib/base/path.h"
#include "lib/job/ranks.h"

#define PATH_TEXT 256 /* of a path in a message */

void claims_put(struct buf *b, const char *path, const uint64_t *places, uint32_t n)
{
	char text[PATH_TEXT];
	snprintf(text, sizeof text, "%s", path);
	buf_put_str(b, text);
	buf_put_u32(b, n);
	for (uint32_t i = 0; i < n; i++)
		buf_put_u64(b, places[i]);
}

void claims_release(struct claims *c)
{
	free(c->list);
	*c = (struct claims){0};
}

/* ---- reading ---- */

static int reserve(struct claims *c, size_t n, struct err *err)
{
	if (n <= c->cap - c->n)
		return 0;
	size_t cap = 2 * c->cap > c->n + n ? 2 * c->cap : c->n + n;
	struct claim *list = err_realloc(c->list, cap, sizeof *list, "the ranks' outputs", err);
	if (!list)
		return -1;
	c->list = list;
	c->cap = cap;
	return 0;
}

int claims_get(struct claims *c, int rank, struct view *v, struct err *err)
{
	uint32_t at = 0;
	while (view_left(v)) {
		struct view path = *v;
		view_bytes(v, view_u16(v));
		uint32_t n = view_u32(v);
		if (v->failed || n > CLAIMS_MAX - at || n > view_left(v) / 8)
			return malformed(err, "INTENT", "claims");
		if (reserve(c, n, err) < 0)
			return -1;
		for (uint32_t k = 0; k < n; k++)
			c->list[c->n++] = (struct claim){.place = view_u64(v),
			                                 .rank = rank,
			                                 .at = at++,
			                                 .result = k,
			                                 .path = path};
	}
	return 0;
}

/* ---- comparing ---- */

static int by_place(const void *a, const void *b)
{
	const struct claim *x = a, *y = b;
	if (x->place != y->place)
		return x->place < y->place ? -1 : 1;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return (x->at > y->at) - (x->at < y->at);
}

static int by_rank(const void *a, const void *b)
{
	const struct claim *x = a, *y = b;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return (x->at > y->at) - (x->at < y->at);
}

/* "dir/part.npy" as "dir/part.{rank}.npy", a folder as "out.{rank}". */
static void with_rank(const char *path, char *out, size_t cap)
{
	const int len = (int)path_trim(path, strlen(path));
	const char *dot = strchr(path_name(path), '.');
	int stem = dot && dot > path_name(path) && dot < path + len ? (int)(dot - path) : len;
	snprintf(out, cap, "%.*s.{rank}%.*s", stem, path, len - stem, path + stem);
}

/* Set the error for @list[n], which claim one place for different results. */
static int clash(const struct claim *list, size_t n, struct err *err)
{
	char path[PATH_TEXT], own[PATH_TEXT + 8], ranks[128];
	struct rank_list names;
	int last = -1, second = -1;
	rank_list_init(&names, ranks, sizeof ranks);
	for (size_t i = 0; i < n; i++) {
		if (list[i].rank == last)
			continue;
		second = last >= 0 && second < 0 ? list[i].rank : second;
		last = list[i].rank;
		rank_list_add(&names, last);
	}
	struct view v = list[0].path;
	view_str(&v, path, sizeof path);
	with_rank(path, own, sizeof own);
	return err_rank(err, ERR_USAGE, second,
	                "%.200s: is the output of ranks %s, whose results differ: give each rank "
	                "its own, such as %.200s",
	                path, rank_list_end(&names), own);
}

/* Settle the claims of one place, sorted by rank. If one rank claims it twice, that rank's sink
 * reports the error. */
static int settle_place(struct claim *list, size_t n, bool replicated, int root, struct err *err)
{
	bool same = replicated, twice = false;
	int writer = list[0].rank;
	for (size_t i = 1; i < n; i++) {
		same &= list[i].result == list[0].result;
		twice |= list[i].rank == list[i - 1].rank;
	}
	if (list[0].rank == list[n - 1].rank || (twice && !same))
		return 0;
	if (!same)
		return clash(list, n, err);
	for (size_t i = 0; i < n; i++)
		if (list[i].rank == root)
			writer = root;
	for (size_t i = 0; i < n; i++)
		list[i].dropped = list[i].rank != writer;
	return 0;
}

int claims_settle(struct claims *c, bool replicated, int root, struct err *err)
{
	int ret = 0;
	if (!c->n)
		return 0;
	qsort(c->list, c->n, sizeof *c->list, by_place);
	for (size_t i = 0, n; ret == 0 && i < c->n; i += n) {
		for (n = 1; i + n < c->n && c->list[i + n].place == c->list[i].place; n++)
			;
		if (c->list[i].place)
			ret = settle_place(&c->list[i], n, replicated, root, err);
	}
	qsort(c->list, c->n, sizeof *c->list, by_rank);
	return ret;
}

/* ---- results ---- */

static size_t first_of(const struct claims *c, int rank)
{
	size_t lo = 0, hi = c->n;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (c->list[mid].rank < rank)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

int claims_dropped(const struct claims *c, int rank, bool **dropped, uint32_t *n, struct err *err)
{
	size_t first = first_of(c, rank), end = first;
	while (end < c->n && c->list[end].rank == rank)
		end++;
	*n = (uint32_t)(end - first);
	if (!(*dropped = err_calloc((size_t)*n + 1, sizeof **dropped, "the outputs", err)))
		return -1;
	for (uint32_t i = 0; i < *n; i++)
		(*dropped)[i] = c->list[first + i].dropped;
	return 0;
}

void claims_put_dropped(struct buf *b, const bool *dropped, uint32_t n)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < n; i++)
		count += dropped[i];
	buf_put_u32(b, count);
	for (uint32_t i = 0; i < n; i++)
		if (dropped[i])
			buf_put_u32(b, i);
}

int claims_get_dropped(struct view *v, bool *dropped, uint32_t n, struct err *err)
{
	uint32_t count = view_u32(v);
	if (v->failed || count > n || count > view_left(v) / 4)
		return malformed(err, "ROSTER", "dropped");
	for (uint32_t i = 0; i < count; i++) {
		uint32_t at = view_u32(v);
		if (at >= n)
			return malformed(err, "ROSTER", "dropped");
		dropped[at] = true;
	}
	return 0;
}
