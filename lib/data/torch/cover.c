/*
 * The tensor is cut along its first axis wherever a box begins or ends. The boxes that have a slab
 * must have every element of it once: the same question with one axis less.
 */
#include "lib/data/torch/cover.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_MOST (UINT64_C(1) << 27) /* boxes of all slabs: more are no checkpoint's */

struct cover_search {
	const uint64_t *shape;
	int ndim;
	const struct cover_box *boxes;
	uint64_t steps;
	struct cover_found *found;
	struct err *err;
};

/* A box, for sorting by one axis. */
struct ranged {
	uint64_t first;
	size_t box;
};

static int by_first(const void *a, const void *b)
{
	const struct ranged *x = a, *y = b;
	if (x->first != y->first)
		return x->first < y->first ? -1 : 1;
	return (x->box > y->box) - (x->box < y->box);
}

/* The answer for the place whose axes before @axis are set; the others are whole. 1: the end. */
static int found_at(struct cover_search *s, int axis, enum cover cover)
{
	for (int i = axis; i < s->ndim; i++) {
		s->found->first[i] = 0;
		s->found->size[i] = s->shape[i];
	}
	s->found->cover = cover;
	return 1;
}

static int search(struct cover_search *s, int axis, const size_t *boxes, size_t n);

/* The slab [from, to) of @axis, which the @n boxes have. */
static int search_slab(struct cover_search *s, int axis, uint64_t from, uint64_t to,
                       const size_t *boxes, size_t n)
{
	s->found->first[axis] = from;
	s->found->size[axis] = to - from;
	if (!n)
		return found_at(s, axis + 1, COVER_HOLE);
	return search(s, axis + 1, boxes, n);
}

/* Remove from @active the boxes that end at @at. */
static size_t drop_ended(const struct cover_search *s, int axis, size_t *active, size_t n,
                         uint64_t at)
{
	size_t kept = 0;
	for (size_t i = 0; i < n; i++) {
		const struct cover_box *b = &s->boxes[active[i]];
		if (b->first[axis] + b->size[axis] > at)
			active[kept++] = active[i];
	}
	return kept;
}

/* Where the slab that begins now ends: where the next box begins, or the first active one ends. */
static uint64_t slab_end(const struct cover_search *s, int axis, const size_t *active, size_t n,
                         uint64_t next)
{
	uint64_t end = next;
	for (size_t i = 0; i < n; i++) {
		const struct cover_box *b = &s->boxes[active[i]];
		const uint64_t own = b->first[axis] + b->size[axis];
		end = own < end ? own : end;
	}
	return end;
}

static int search_slabs(struct cover_search *s, int axis, const struct ranged *sorted, size_t n,
                        size_t *active)
{
	size_t nactive = 0, next = 0;
	int ret = 0;
	for (uint64_t at = 0, end; ret == 0 && at < s->shape[axis]; at = end) {
		nactive = drop_ended(s, axis, active, nactive, at);
		while (next < n && sorted[next].first == at)
			active[nactive++] = sorted[next++].box;
		s->steps += nactive + 1;
		if (s->steps > STEPS_MOST)
			return found_at(s, axis, COVER_MANY);
		end = slab_end(s, axis, active, nactive,
		               next < n ? sorted[next].first : s->shape[axis]);
		ret = search_slab(s, axis, at, end, active, nactive);
	}
	return ret;
}

/* 0: the boxes have every element of the place once, whose axes before @axis are set. */
static int search(struct cover_search *s, int axis, const size_t *boxes, size_t n)
{
	if (axis == s->ndim && n == 1)
		return 0;
	if (axis == s->ndim) {
		s->found->a = boxes[0] < boxes[1] ? boxes[0] : boxes[1];
		s->found->b = boxes[0] < boxes[1] ? boxes[1] : boxes[0];
		return found_at(s, axis, COVER_TWICE);
	}
	struct ranged *sorted = err_calloc(n, sizeof *sorted, "the pieces", s->err);
	size_t *active = sorted ? err_calloc(n, sizeof *active, "the pieces", s->err) : NULL;
	for (size_t i = 0; active && i < n; i++)
		sorted[i] = (struct ranged){s->boxes[boxes[i]].first[axis], boxes[i]};
	if (active)
		qsort(sorted, n, sizeof *sorted, by_first);
	int ret = active ? search_slabs(s, axis, sorted, n, active) : -1;
	free(sorted);
	free(active);
	return ret;
}

int cover_check(const uint64_t *shape, int ndim, const struct cover_box *boxes, size_t n,
                struct cover_found *found, struct err *err)
{
	struct cover_search s = {
	        .shape = shape, .ndim = ndim, .boxes = boxes, .found = found, .err = err};
	*found = (struct cover_found){.cover = COVER_ONCE};
	for (int i = 0; i < ndim; i++)
		if (!shape[i])
			return 0;
	if (!n) {
		found_at(&s, 0, COVER_HOLE);
		return 0;
	}
	size_t *all = err_calloc(n, sizeof *all, "the pieces", err);
	for (size_t i = 0; all && i < n; i++)
		all[i] = i;
	const int ret = all ? search(&s, 0, all, n) : -1;
	free(all);
	return ret < 0 ? -1 : 0;
}

bool cover_touches(const uint64_t *first, const uint64_t *size, const struct cover_box *b, int ndim)
{
	int apart = 0;
	for (int i = 0; i < ndim; i++) {
		const uint64_t end = first[i] + size[i], other = b->first[i] + b->size[i];
		if (end < b->first[i] || other < first[i])
			return false;
		apart += end == b->first[i] || other == first[i];
	}
	return apart <= 1;
}

char *cover_text(const uint64_t *first, const uint64_t *size, int ndim, char buf[ARRAY_SHAPE_TEXT])
{
	size_t n = (size_t)snprintf(buf, ARRAY_SHAPE_TEXT, "[");
	for (int i = 0; i < ndim && n < ARRAY_SHAPE_TEXT; i++)
		n += (size_t)snprintf(buf + n, ARRAY_SHAPE_TEXT - n, "%s%" PRIu64 ":%" PRIu64,
		                      i ? ", " : "", first[i], first[i] + size[i]);
	if (n < ARRAY_SHAPE_TEXT)
		snprintf(buf + n, ARRAY_SHAPE_TEXT - n, "]");
	return buf;
}
