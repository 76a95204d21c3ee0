/*
 * Symbolic values: the value of an element is a tree of contributions. Trees are hash-consed, so
 * equal trees have equal numbers. A buffer maps intervals to trees.
 */
#ifndef COLLCTL_PROOF_VALUES_H
#define COLLCTL_PROOF_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum node_kind {
	NODE_LEAF,     /* input b of rank a */
	NODE_OP,       /* a op b, rounded to the collective's type */
	NODE_WIDE,     /* a op b in the wider type */
	NODE_ROUND,    /* a rounded to the collective's type */
	NODE_FINAL,    /* the operation's final function of a */
	NODE_IDENTITY, /* the operation's identity: the same for all elements */
};

struct node {
	uint8_t kind;
	uint32_t a, b;
};

#define NODE_NONE 0 /* nothing written yet; not a node's number */

struct nodes {
	struct node *v; /* [0] is NODE_NONE */
	size_t n, cap;
	uint32_t *table; /* open addressing */
	size_t slots;
	bool nomem; /* sticky; node() then returns NODE_NONE */
};
uint32_t node(struct nodes *, enum node_kind kind, uint32_t a, uint32_t b);
void nodes_release(struct nodes *);

/* From position @at up to the next piece: tree @node over elements @elem, @elem + 1, ... */
struct piece {
	uint64_t at, elem;
	uint32_t node;
};

/* Pieces that cover [0, len) without gaps. Adjacent pieces are merged if one continues the other.
 */
struct pieces {
	struct piece *v;
	size_t n, cap;
	uint64_t len;
};
void pieces_release(struct pieces *);
/* Remove all pieces. */
void pieces_clear(struct pieces *);
/* Append @len positions. 0, or -1: no memory. */
int pieces_push(struct pieces *, uint64_t len, uint32_t node, uint64_t elem);
/* Append [off, off + len) of @from. */
int pieces_copy(struct pieces *, const struct pieces *from, uint64_t off, uint64_t len);
/* Replace [off, off + from->len), which must be inside. */
int pieces_write(struct pieces *, uint64_t off, const struct pieces *from);
/* The end of piece @i. */
static inline uint64_t piece_end(const struct pieces *p, size_t i)
{
	return i + 1 < p->n ? p->v[i + 1].at : p->len;
}

#endif
