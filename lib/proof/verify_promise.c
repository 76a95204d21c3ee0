/*
 * Checks the outputs against the collective's definition. See verifier_internal.h.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/proof/verifier_internal.h"

/* Expected values up to position @end of an output: elements @elem, @elem + 1, .. of the
 * contributions of ranks [lo, hi), or the operation's identity if there are no ranks. */
struct promise {
	uint64_t elem, end;
	int lo, hi;
};

/* The block of @off that contains position @pos. */
static int block_of(const uint64_t *off, uint64_t pos)
{
	int j = 0;

	while (off[j + 1] <= pos)
		j++;
	return j;
}

static struct promise promised_block(const struct coll_args *a, uint64_t base, uint64_t elem)
{
	const int j = block_of(a->off, elem);

	return (struct promise){elem, a->off[j + 1] - base, j, j + 1};
}

static struct promise promised_part(const struct verify *v, int rank, uint64_t pos)
{
	const struct coll_args *a = &v->args[rank];
	int i = 0;

	while (coll_recv_at(a, i + 1) <= pos)
		i++;
	return (struct promise){v->args[i].off[rank] + (pos - coll_recv_at(a, i)),
	                        coll_recv_at(a, i + 1), i, i + 1};
}

/* The expected value at position @pos < @len of @rank's output. */
static struct promise promise_at(const struct verify *v, int rank, uint64_t pos, uint64_t len)
{
	const struct coll_args *a = &v->args[rank];
	const uint64_t base = a->off[verify_layout(v, rank).out_lo];
	struct promise p = {base + pos, len, 0, v->size};

	switch (v->alg->kind) {
	case COLL_SCAN:
		p.hi = rank + 1;
		return p;
	case COLL_EXSCAN:
		p.hi = rank;
		return p;
	case COLL_BROADCAST:
	case COLL_SCATTER:
		p.lo = a->root;
		p.hi = a->root + 1;
		return p;
	case COLL_GATHER:
	case COLL_ALLGATHER:
		return promised_block(a, base, base + pos);
	case COLL_ALLTOALL:
		return promised_part(v, rank, pos);
	default:
		return p;
	}
}

/* Is an element of the output a reduction, not a copy? */
static bool reduces(enum coll_kind kind)
{
	return coll_reduces(kind) || kind == COLL_BARRIER;
}

/* Is it the reduction of some ranks in rank order? */
static bool is_prefix(enum coll_kind kind)
{
	return kind == COLL_SCAN || kind == COLL_EXSCAN;
}

/* Must all ranks that have an element have the same tree? */
static bool must_agree(const struct verify *v)
{
	return !(v->alg->flags & COLL_DIVERGENT) && v->alg->kind != COLL_ALLTOALL &&
	       !is_prefix(v->alg->kind);
}

/* Count the contributions under @top: leaves of ranks [lo, hi), each once. Returns their number, or
 * 0 with a defect. */
static uint64_t count_leaves(struct verify *v, uint32_t top, int lo, int hi, uint32_t *stack)
{
	const bool again = v->alg->flags & COLL_IDEMPOTENT, in_order = is_prefix(v->alg->kind);
	uint64_t count = 0, next = 0; /* next: the smallest leaf that may follow, in rank order */
	size_t n = 0;

	v->epoch++;
	stack[n++] = top;
	while (n) {
		const uint32_t id = stack[--n];
		const struct node *x = &v->nodes.v[id];
		uint32_t *seen = x->kind == NODE_LEAF ? &v->seen_leaf[v->first_leaf[x->a] + x->b]
		                                      : &v->seen_node[id];

		if (*seen == v->epoch && !again) {
			verify_defect(v, "a contribution occurs twice");
			return 0;
		}
		if (*seen == v->epoch)
			continue;
		*seen = v->epoch;
		if (x->kind == NODE_LEAF) {
			if ((int)x->a < lo || (int)x->a >= hi) {
				verify_defect(
				        v, "rank %" PRIu32 "'s contribution does not belong there",
				        x->a);
				return 0;
			}
			if (in_order && v->first_leaf[x->a] + x->b < next) {
				verify_defect(v, "the operands do not stand in rank order");
				return 0;
			}
			next = v->first_leaf[x->a] + x->b;
			count++;
			continue;
		}
		if (x->kind == NODE_FINAL) {
			verify_defect(v,
			              "the operation's final function is applied before the end");
			return 0;
		}
		if (x->kind == NODE_IDENTITY) {
			verify_defect(v, "the identity does not belong there");
			return 0;
		}
		if (x->kind != NODE_ROUND && x->kind != NODE_JOINT)
			stack[n++] = x->b;
		stack[n++] = x->a;
	}
	return count;
}

/* Is @id the contribution of @rank: its single input, or the ordered fold of several, rounded as on
 * the wire? */
static bool is_contribution(const struct verify *v, uint32_t id, int rank)
{
	const struct node *x = &v->nodes.v[id];
	int n = v->scheds[rank]->ninputs;

	if (n > 1 && x->kind != NODE_ROUND)
		return false;
	if (n > 1)
		x = &v->nodes.v[x->a];
	for (; n > 1; n--) {
		const struct node *b;

		if (x->kind != NODE_WIDE)
			return false;
		b = &v->nodes.v[x->b];
		if (b->kind != NODE_LEAF || (int)b->a != rank || (int)b->b != n - 1)
			return false;
		x = &v->nodes.v[x->a];
	}
	return x->kind == NODE_LEAF && (int)x->a == rank && x->b == 0;
}

/* Is @id the left fold, in the wider type, of the contributions [lo, hi) in rank order? If partial
 * sums are sent, the wire has the wider type: every addition is in it, and rounding has no effect.
 */
static bool is_ordered(const struct verify *v, uint32_t id, int lo, int hi)
{
	const bool partials = v->alg->flags & COLL_PARTIALS;

	for (int r = hi - 1; r > lo; r--) {
		const struct node *x = &v->nodes.v[id];

		if (partials && x->kind == NODE_ROUND)
			x = &v->nodes.v[x->a];
		if (x->kind != NODE_WIDE && !(partials && x->kind == NODE_OP))
			return false;
		if (!is_contribution(v, x->b, r))
			return false;
		id = x->a;
	}
	return is_contribution(v, id, lo);
}

/* Is @id the joint operation of all contributions, in the order of ranks and inputs? */
static bool is_joint(const struct verify *v, uint32_t id)
{
	const struct node *x = &v->nodes.v[id];

	if (x->kind != NODE_JOINT) /* the only contribution of all */
		return v->first_leaf[v->size] == 1 && x->kind == NODE_LEAF;
	x = &v->nodes.v[x->a];
	for (int r = v->size - 1; r >= 0; r--)
		for (uint32_t k = (uint32_t)v->scheds[r]->ninputs; k-- > 0;) {
			const bool first = r == 0 && k == 0;
			const struct node *leaf = first ? x : &v->nodes.v[x->b];

			if ((!first && x->kind != NODE_LIST) || leaf->kind != NODE_LEAF ||
			    (int)leaf->a != r || leaf->b != k)
				return false;
			x = &v->nodes.v[first ? NODE_NONE : x->a];
		}
	return true;
}

/* Grow seen_node to cover every node. */
static bool grow_seen(struct verify *v)
{
	if (v->seen_cap >= v->nodes.n)
		return true;
	free(v->seen_node);
	v->seen_cap = 2 * v->nodes.n;
	v->seen_node = calloc(v->seen_cap, sizeof(*v->seen_node));
	if (v->seen_node)
		return true;
	v->seen_cap = 0;
	return verify_nomem(v);
}

/* Is @id the reduction of the contributions of ranks [lo, hi)? */
static bool check_sum(struct verify *v, uint32_t id, int lo, int hi)
{
	const uint64_t want = v->first_leaf[hi] - v->first_leaf[lo];
	uint32_t *stack;
	uint64_t count;

	if (!grow_seen(v))
		return false;
	stack = malloc((2 * v->nodes.n + 2) * sizeof(*stack));
	if (!stack)
		return verify_nomem(v);
	count = count_leaves(v, id, lo, hi, stack);
	free(stack);
	if (v->failed)
		return false;
	if (count != want)
		return verify_defect(v, "%" PRIu64 " of %" PRIu64 " contributions are missing",
		                     want - count, want);
	if (v->args->joint)
		return is_joint(v, id) ||
		       verify_defect(v, "the operation is not of all contributions at once, in the "
		                        "order of ranks and inputs");
	if ((v->alg->flags & COLL_ORDERED) && !is_ordered(v, id, lo, hi))
		return verify_defect(v, "the contributions are not added in rank order");
	return true;
}

static bool check_tree(struct verify *v, int rank, uint32_t id, int lo, int hi)
{
	const bool final = v->scheds[rank]->final;
	const struct node *x = &v->nodes.v[id];

	if (final != (x->kind == NODE_FINAL))
		return verify_defect(
		        v, final ? "the operation's final function is not applied"
		                 : "the operation's final function is applied, but not declared");
	if (final)
		x = &v->nodes.v[id = x->a];
	if (lo == hi)
		return x->kind == NODE_IDENTITY || verify_defect(v, "it is not the identity");
	if (reduces(v->alg->kind))
		return check_sum(v, id, lo, hi);
	if (x->kind == NODE_LEAF && (int)x->a != lo)
		return verify_defect(v, "rank %" PRIu32 "'s contribution does not belong there",
		                     x->a);
	return x->kind == NODE_LEAF || verify_defect(v, "it is not the input element");
}

/* Check that positions [pos, end) of @rank's output, with value @p, are correct and equal to @ref
 * of another rank. */
static bool check_piece(struct verify *v, int rank, uint64_t pos, const struct piece *p,
                        const struct promise *want, uint32_t ref)
{
	const uint64_t elem = p->elem + (pos - p->at);
	char text[VERIFY_TEXT];

	if (p->node == NODE_NONE)
		return verify_defect(v, "rank %d never writes element %" PRIu64 " of its output",
		                     rank, pos);
	if (elem != want->elem && want->lo < want->hi)
		return verify_defect(v,
		                     "rank %d writes element %" PRIu64 " in the place of %" PRIu64,
		                     rank, elem, want->elem);
	if (ref == p->node) /* which is right */
		return true;
	if (!check_tree(v, rank, p->node, want->lo, want->hi)) {
		memcpy(text, v->why, VERIFY_TEXT);
		snprintf(v->why, VERIFY_TEXT, "rank %d, element %" PRIu64 ": %.160s", rank,
		         want->elem, text);
		return false;
	}
	return ref == NODE_NONE ||
	       verify_defect(v,
	                     "rank %d, element %" PRIu64
	                     ": the operands are in another order than on another rank",
	                     rank, elem);
}

/* Check output @o of @rank. If ranks must agree, store the correct values in @all, indexed by the
 * collective's elements, for comparison. */
static bool check_output(struct verify *v, int rank, const struct pieces *o, struct pieces *all)
{
	const uint64_t base = v->args[rank].off[verify_layout(v, rank).out_lo];
	const bool agree = must_agree(v);
	struct pieces ref = {0};
	bool ok = true;

	if (agree ? pieces_copy(&ref, all, base, o->len) : pieces_push(&ref, o->len, NODE_NONE, 0))
		ok = verify_nomem(v);
	for (uint64_t pos = 0, i = 0, k = 0; ok && pos < o->len;) {
		const struct promise want = promise_at(v, rank, pos, o->len);
		const uint64_t iend = piece_end(o, i), kend = piece_end(&ref, k);

		ok = check_piece(v, rank, pos, &o->v[i], &want, ref.v[k].node);
		pos = want.end < iend ? want.end : iend;
		pos = kend < pos ? kend : pos;
		i += pos == iend;
		k += pos == kend;
	}
	if (ok && agree && pieces_write(all, base, o))
		ok = verify_nomem(v);
	pieces_release(&ref);
	return ok;
}

bool verify_outputs(struct verify *v)
{
	struct pieces all = {0};
	bool ok = true;

	if (pieces_push(&all, coll_count(v->args), NODE_NONE, 0))
		ok = verify_nomem(v);
	for (int r = 0; r < v->size && ok; r++)
		if (v->outs[r].len)
			ok = check_output(v, r, &v->outs[r], &all);
	pieces_release(&all);
	return ok;
}

/* ---- an exchange, which has no output ---- */

bool verify_arrival(struct verify *v, int rank, int peer, const struct pieces *message)
{
	struct pieces *all = &v->arrived[rank], there = {0};
	bool ok = true;

	for (size_t i = 0; ok && i < message->n; i++) {
		const struct piece *p = &message->v[i];
		const struct node *x = &v->nodes.v[p->node];
		struct pieces one = {0};

		pieces_clear(&there);
		if (x->kind != NODE_LEAF || (int)x->a != peer)
			ok = verify_defect(v,
			                   "rank %d sends rank %d an element that is not its own",
			                   peer, rank);
		else if (pieces_push(&one, piece_end(message, i) - p->at, p->node, p->elem) ||
		         pieces_copy(&there, all, p->elem, one.len) ||
		         pieces_write(all, p->elem, &one))
			ok = verify_nomem(v);
		for (size_t k = 0; ok && k < there.n; k++)
			if (there.v[k].node != NODE_NONE)
				ok = verify_defect(
				        v, "rank %d receives element %" PRIu64 " a second time",
				        rank, p->elem + there.v[k].at);
		pieces_release(&one);
	}
	pieces_release(&there);
	return ok;
}

bool verify_arrivals(struct verify *v)
{
	for (int r = 0; v->alg->kind == COLL_EXCHANGE && v->size > 1 && r < v->size; r++)
		for (size_t i = 0; i < v->arrived[r].n; i++)
			if (v->arrived[r].v[i].node == NODE_NONE)
				return verify_defect(v, "rank %d never receives element %" PRIu64,
				                     r, v->arrived[r].v[i].at);
	return true;
}
