/*
 * Symbolic values: the value of an element is an expression tree over the ranks' inputs. Trees are
 * hash-consed: equal trees have equal numbers. The content of a buffer maps intervals of positions
 * (elements) to trees. One thread.
 */
#ifndef COLLCTL_PROOF_VALUES_H
#define COLLCTL_PROOF_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum node_kind {
	NODE_LEAF,     /* the element of input b of rank a */
	NODE_OP,       /* a op b, rounded to the collective's type */
	NODE_WIDE,     /* a op b in the wider type */
	NODE_ROUND,    /* a rounded to the collective's type */
	NODE_FINAL,    /* the operation's final function of a */
	NODE_LIST,     /* the contributions of a, followed by b */
	NODE_JOINT,    /* the joint operation of the list a */
	NODE_IDENTITY, /* the operation's identity: the same for all elements */
};

struct node {
	uint8_t kind;
	uint32_t a, b;
};

#define NODE_NONE 0 /* no value: nothing was written yet */

struct nodes {
	struct node *v; /* [0] is NODE_NONE */
	size_t n, cap;
	uint32_t *table; /* open addressing */
	size_t slots;
	bool nomem; /* sticky: memory ran out, and node() returns NODE_NONE */
};
/* The number of the tree (@kind, @a, @b); @a and @b are numbers of trees, except in a leaf. */
uint32_t node(struct nodes *, enum node_kind kind, uint32_t a, uint32_t b);
void nodes_release(struct nodes *);

/* The positions from `at` up to the next piece have the tree `node`, applied to the elements elem,
 * elem + 1, ... of the collective. */
struct piece {
	uint64_t at, elem;
	uint32_t node;
};

/* Pieces that cover the positions [0, len) without gaps, in ascending order. Adjacent pieces are
 * merged if one continues the other. Empty when zeroed. 0, or -1: no memory. */
struct pieces {
	struct piece *v;
	size_t n, cap;
	uint64_t len;
};
void pieces_release(struct pieces *);
/* Remove all pieces. */
void pieces_clear(struct pieces *);
/* Append @len positions with the tree @node, from element @elem on. */
int pieces_push(struct pieces *, uint64_t len, uint32_t node, uint64_t elem);
/* Append [off, off + len) of @from. */
int pieces_copy(struct pieces *, const struct pieces *from, uint64_t off, uint64_t len);
/* Replace the positions [off, off + from->len), which must exist, by @from. */
int pieces_write(struct pieces *, uint64_t off, const struct pieces *from);
/* The position after piece @i. */
static inline uint64_t piece_end(const struct pieces *p, size_t i)
{
	return i + 1 < p->n ? p->v[i + 1].at : p->len;
}

#endif
