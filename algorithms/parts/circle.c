/* Walking over the blocks of a circle. See circle.h. */
#include "algorithms/parts/circle.h"

struct walk walk_blocks(const struct circle *c, int first, int count)
{
	return (struct walk){.c = c, .first = first, .count = count, .only = -1, .but = -1};
}

/* The two runs of blocks that are contiguous; one of them may be empty. */
static bool next_run(struct walk *w, struct range *r)
{
	const int size = w->c->size, past = w->first + w->count;
	const int end = past < size ? past : size;
	const uint64_t *off = w->c->off;

	while (w->at < 2) {
		const bool wrapped = w->at++ == 1;

		*r = wrapped ? (struct range){off[0], off[past - end] - off[0]}
		             : (struct range){off[w->first], off[end] - off[w->first]};
		if (r->len)
			return true;
	}
	return false;
}

/* Piece @i, if the walk comes to it; else empty. */
static struct range piece_of(const struct walk *w, int i)
{
	const struct piece *p = &w->c->pieces[i];
	const bool skipped = i == w->but || (w->only >= 0 && i != w->only);

	if (skipped || circle_add(w->c, p->number, -w->first) >= w->count)
		return (struct range){0, 0};
	return p->range;
}

static bool next_pieces(struct walk *w, struct range *r)
{
	*r = (struct range){0, 0};
	for (; w->at < w->c->npieces; w->at++) {
		const struct range next = piece_of(w, w->at);

		if (r->len && next.len && next.off != r->off + r->len)
			break;
		if (!r->len)
			*r = next;
		else
			r->len += next.len;
	}
	return r->len > 0;
}

bool walk_next(struct walk *w, struct range *r)
{
	return w->c->pieces ? next_pieces(w, r) : next_run(w, r);
}
