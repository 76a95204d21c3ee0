/*
 * Symbolic values. See values.h.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/proof/values.h"
#include "lib/base/vec.h"

/* ---- trees ---- */

static size_t hash_node(const struct node *x, size_t slots)
{
	uint64_t h = ((uint64_t)x->a << 32 | x->b) * 0x9e3779b97f4a7c15u;

	h ^= (h >> 29) + x->kind;
	h *= 0xbf58476d1ce4e5b9u;
	return (size_t)(h >> 32) & (slots - 1);
}

static void enter(struct nodes *t, uint32_t id)
{
	size_t i = hash_node(&t->v[id], t->slots);

	while (t->table[i])
		i = (i + 1) & (t->slots - 1);
	t->table[i] = id;
}

static bool grow_table(struct nodes *t)
{
	const size_t slots = t->slots ? t->slots * 2 : 256;
	uint32_t *table = calloc(slots, sizeof(*table));

	if (!table)
		return false;
	free(t->table);
	t->table = table;
	t->slots = slots;
	for (size_t id = 1; id < t->n; id++)
		enter(t, (uint32_t)id);
	return true;
}

uint32_t node(struct nodes *t, enum node_kind kind, uint32_t a, uint32_t b)
{
	const struct node x = {(uint8_t)kind, a, b};
	struct node *slot;

	if (t->nomem)
		return NODE_NONE;
	if (!t->n && (slot = vec_push(t)))
		*slot = (struct node){0};
	if (2 * (t->n + 1) > t->slots && !grow_table(t))
		goto nomem;
	for (size_t i = hash_node(&x, t->slots); t->table[i]; i = (i + 1) & (t->slots - 1)) {
		const struct node *y = &t->v[t->table[i]];

		if (y->kind == x.kind && y->a == x.a && y->b == x.b)
			return t->table[i];
	}
	if (!t->n || t->n >= UINT32_MAX || !(slot = vec_push(t)))
		goto nomem;
	*slot = x;
	enter(t, (uint32_t)(t->n - 1));
	return (uint32_t)(t->n - 1);
nomem:
	t->nomem = true;
	return NODE_NONE;
}

void nodes_release(struct nodes *t)
{
	free(t->v);
	free(t->table);
	*t = (struct nodes){0};
}

/* ---- intervals ---- */

void pieces_release(struct pieces *p)
{
	free(p->v);
	*p = (struct pieces){0};
}

void pieces_clear(struct pieces *p)
{
	p->n = 0;
	p->len = 0;
}

int pieces_push(struct pieces *p, uint64_t len, uint32_t node, uint64_t elem)
{
	const struct piece *last = p->n ? &p->v[p->n - 1] : NULL;
	struct piece *x;

	if (!len)
		return 0;
	if (!last || last->node != node ||
	    (node != NODE_NONE && last->elem + (p->len - last->at) != elem)) {
		x = vec_push(p);
		if (!x)
			return -1;
		*x = (struct piece){p->len, elem, node};
	}
	p->len += len;
	return 0;
}

/* The piece that contains position @pos. */
static size_t find(const struct pieces *p, uint64_t pos)
{
	size_t lo = 0, hi = p->n;

	while (hi - lo > 1) {
		const size_t mid = lo + (hi - lo) / 2;

		if (p->v[mid].at <= pos)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

int pieces_copy(struct pieces *p, const struct pieces *from, uint64_t off, uint64_t len)
{
	const uint64_t end = off + len;

	for (size_t i = find(from, off); off < end; i++) {
		const uint64_t stop = piece_end(from, i) < end ? piece_end(from, i) : end;

		if (pieces_push(p, stop - off, from->v[i].node,
		                from->v[i].elem + (off - from->v[i].at)))
			return -1;
		off = stop;
	}
	return 0;
}

int pieces_write(struct pieces *p, uint64_t off, const struct pieces *from)
{
	const uint64_t end = off + from->len;
	struct pieces mid = {0};
	size_t i, j;
	int ret = -1;

	if (!from->len)
		return 0;
	/* Replace the pieces i .. j-1 by @mid: their remainders at both ends, and @from. Include
	 * one more piece on either side, so that neighbours are merged. */
	i = find(p, off ? off - 1 : 0);
	j = find(p, end < p->len ? end : p->len - 1) + 1;
	mid.len = p->v[i].at;
	if (pieces_copy(&mid, p, p->v[i].at, off - p->v[i].at) ||
	    pieces_copy(&mid, from, 0, from->len) ||
	    pieces_copy(&mid, p, end, piece_end(p, j - 1) - end))
		goto out;
	while (p->n + mid.n > p->cap)
		if (vec_grow((void **)&p->v, &p->cap, p->cap, sizeof(*p->v)))
			goto out;
	memmove(&p->v[i + mid.n], &p->v[j], (p->n - j) * sizeof(*p->v));
	memcpy(&p->v[i], mid.v, mid.n * sizeof(*p->v));
	p->n = p->n - (j - i) + mid.n;
	ret = 0;
out:
	pieces_release(&mid);
	return ret;
}
