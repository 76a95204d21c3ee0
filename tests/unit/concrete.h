/*
 * An oracle for whole collectives: the schedules of all ranks run with numbers, element by element,
 * by the words of the frontier rule alone and over lanes of one element. It shares no code with the
 * verifier or the executor.
 *
 * A number stands for what has been added: once with a sum that forgets the order (each
 * contribution is a random number), once with a string that knows it (a polynomial of the
 * contributions, in order), once with the way it was added (a hash of the tree, with its
 * roundings).
 */
#ifndef COLLCTL_TESTS_CONCRETE_H
#define COLLCTL_TESTS_CONCRETE_H

#include "tests/model/collective_model.h"
#include "tests/unit/frontier_oracle.h"
#include "tests/unit/sets.h"

#define CONCRETE_BASE UINT64_C(0x9e3779b97f4a7c15)
#define CONCRETE_SIZE MODEL_RANKS

struct number {
	bool there, final;
	uint64_t sum;
	uint64_t ranks;         /* one bit each */
	uint64_t string, scale; /* scale: CONCRETE_BASE to the string's length */
	uint64_t tree;
};

static inline uint64_t concrete_hash(uint64_t kind, uint64_t a, uint64_t b)
{
	uint64_t state = kind;

	state = random_next(&state) ^ a;
	state = random_next(&state) ^ b;
	return random_next(&state);
}

static inline struct number contribution(int rank, uint32_t input, uint64_t elem)
{
	const uint64_t h = concrete_hash(1, (uint64_t)rank << 32 | input, elem) | UINT64_C(1) << 40;

	return (struct number){.there = true,
	                       .sum = h,
	                       .ranks = UINT64_C(1) << rank,
	                       .string = h,
	                       .scale = CONCRETE_BASE,
	                       .tree = h};
}

static inline struct number the_identity(void)
{
	return (struct number){.there = true, .scale = 1, .tree = 77};
}

enum { TREE_OP = 2, TREE_WIDE, TREE_ROUND, TREE_FINAL, TREE_LIST, TREE_JOINT };

/* A finished number, or the identity, is no operand: the sum shows that it was one. */
static inline struct number added(struct number a, struct number b, bool wide)
{
	const bool bad = a.final || b.final || a.tree == 77 || b.tree == 77;

	return (struct number){.there = a.there && b.there,
	                       .sum = a.sum + b.sum + bad,
	                       .ranks = a.ranks | b.ranks,
	                       .string = a.string * b.scale + b.string,
	                       .scale = a.scale * b.scale,
	                       .tree = concrete_hash(wide ? TREE_WIDE : TREE_OP, a.tree, b.tree)};
}

/* The contributions of a joint operation, one after the other, and the operation of them all. */
static inline struct number listed(struct number a, struct number b)
{
	struct number n = added(a, b, false);

	n.tree = concrete_hash(TREE_LIST, a.tree, b.tree);
	return n;
}

static inline struct number joined(struct number n)
{
	n.tree = concrete_hash(TREE_JOINT, n.tree, 0);
	return n;
}

/* ---- the run ---- */

struct concrete {
	const struct set *t;
	struct model model;
	struct number **bufs[CONCRETE_SIZE], *out[CONCRETE_SIZE];
	uint64_t *done[CONCRETE_SIZE];
	uint64_t nout[CONCRETE_SIZE]; /* of each output; all follow one another in out */
	/* [from][to]: a lane, holding one element */
	struct number lane[CONCRETE_SIZE][CONCRETE_SIZE];
	bool full[CONCRETE_SIZE][CONCRETE_SIZE];
	unsigned *arrived[CONCRETE_SIZE]; /* exchange: how often each element has come */
	bool wrong;
};

static inline struct number *number_at(struct concrete *c, int r, struct sched_span s, uint64_t x)
{
	return &c->bufs[r][s.buf][s.off + x];
}

static inline bool buf_wide(const struct concrete *c, int r, uint32_t buf)
{
	return c->t->s[r]->bufs[buf].type == SCHED_ACC;
}

static inline struct number fetch(struct concrete *c, int r, struct sched_span s, uint64_t x)
{
	const struct number n = *number_at(c, r, s, x);

	c->wrong |= !n.there;
	return n;
}

static inline void put_number(struct concrete *c, int r, const struct sched_step *st, uint64_t x,
                              struct number n, bool wide)
{
	if (st->flags & SCHED_FINAL) {
		c->wrong |= n.final;
		n.final = true;
		n.tree = concrete_hash(TREE_FINAL, n.tree, 0);
	} else if (wide && !buf_wide(c, r, st->dst.buf)) {
		n.tree = concrete_hash(TREE_ROUND, n.tree, 0);
	}
	*number_at(c, r, st->dst, x) = n;
}

static inline struct number in_order(const struct sched_step *st, struct number mine,
                                     struct number other, bool wide)
{
	return st->flags & SCHED_WIRE_LEFT ? added(other, mine, wide) : added(mine, other, wide);
}

static inline void do_read(struct concrete *c, int r, const struct sched_step *st, uint64_t x)
{
	const uint64_t at = st->src.off + x;

	if (at < c->model.rows[r])
		*number_at(c, r, st->dst, x) = contribution(r, st->src.buf, at);
	else
		c->wrong = true;
}

static inline void do_write(struct concrete *c, int r, const struct sched_step *st, uint64_t x)
{
	const uint64_t at = st->dst.off + x;

	if (at >= c->nout[r] || c->out[r][at].there)
		c->wrong = true;
	else
		c->out[r][at] = fetch(c, r, st->src, x);
}

static inline void do_receive(struct concrete *c, int r, const struct sched_step *st, uint64_t x)
{
	const struct number n = c->lane[st->peer][r];
	const bool wide = st->op == SCHED_RECV_REDUCE &&
	                  (buf_wide(c, r, st->dst.buf) || buf_wide(c, r, st->src.buf));
	uint64_t e = 0;

	c->full[st->peer][r] = false;
	if (c->t->alg->kind == COLL_EXCHANGE) {
		const uint64_t len = coll_count(&c->t->args[r]);

		while (e < len && contribution(st->peer, 0, e).sum != n.sum)
			e++;
		c->wrong |= e == len || c->arrived[r][e]++;
	}
	if (st->op == SCHED_RECV)
		*number_at(c, r, st->dst, x) = n;
	else
		put_number(c, r, st, x, in_order(st, fetch(c, r, st->src, x), n, wide), wide);
}

static inline void do_element(struct concrete *c, int r, const struct sched_step *st, uint64_t x)
{
	const struct sched *s = c->t->s[r];
	struct number n;
	bool wide = false;

	switch (st->op) {
	case SCHED_READ:
		do_read(c, r, st, x);
		break;
	case SCHED_WRITE:
		do_write(c, r, st, x);
		break;
	case SCHED_SEND:
		c->lane[r][st->peer] = fetch(c, r, st->src, x);
		c->full[r][st->peer] = true;
		break;
	case SCHED_RECV:
	case SCHED_RECV_REDUCE:
		do_receive(c, r, st, x);
		break;
	case SCHED_COPY:
		put_number(c, r, st, x, fetch(c, r, st->src, x), buf_wide(c, r, st->src.buf));
		break;
	case SCHED_REDUCE:
		wide = buf_wide(c, r, st->dst.buf) || buf_wide(c, r, st->src.buf);
		n = in_order(st, fetch(c, r, st->dst, x), fetch(c, r, st->src, x), wide);
		put_number(c, r, st, x, n, wide);
		break;
	case SCHED_LOCAL_REDUCE:
		n = fetch(c, r, (struct sched_span){0, st->src.off}, x);
		for (uint32_t i = 1; i < (uint32_t)s->ninputs; i++)
			n = added(n, fetch(c, r, (struct sched_span){i, st->src.off}, x), true);
		put_number(c, r, st, x, n, s->ninputs > 1);
		break;
	case SCHED_JOINT:
		n = fetch(c, r, st->src, x);
		for (uint32_t i = 1; i < s->njoint; i++)
			n = listed(n, fetch(c, r, (struct sched_span){st->src.buf + i, st->src.off},
			                    x));
		*number_at(c, r, st->dst, x) = joined(n);
		break;
	case SCHED_IDENTITY:
		*number_at(c, r, st->dst, x) = the_identity();
		break;
	default:
		c->wrong = true;
	}
}

/* May the lane of @st, step @i of rank @r, take or give an element? Its steps go in their order. */
static inline bool lane_ready(const struct concrete *c, int r, uint32_t i)
{
	const struct sched *s = c->t->s[r];
	const struct sched_step *st = &s->steps[i];
	const bool sends = st->op == SCHED_SEND;

	if (st->peer < 0)
		return true;
	for (uint32_t k = 0; k < i; k++)
		if (s->steps[k].peer == st->peer && (s->steps[k].op == SCHED_SEND) == sends &&
		    c->done[r][k] < s->steps[k].len)
			return false;
	return sends ? !c->full[r][st->peer] : c->full[st->peer][r];
}

static inline bool all_done(struct concrete *c)
{
	for (int r = 0; r < c->t->size; r++)
		for (uint32_t i = 0; i < c->t->s[r]->nsteps; i++)
			if (c->done[r][i] < c->t->s[r]->steps[i].len)
				return false;
	return true;
}

static inline void run_concrete(struct concrete *c)
{
	for (bool moved = true; moved && !c->wrong;) {
		moved = false;
		for (int r = 0; r < c->t->size; r++)
			for (uint32_t i = 0; i < c->t->s[r]->nsteps; i++) {
				const struct sched *s = c->t->s[r];
				uint64_t *done = &c->done[r][i];

				while (!c->wrong && *done < frontier_limit(s, i, c->done[r]) &&
				       lane_ready(c, r, i)) {
					do_element(c, r, &s->steps[i], *done);
					++*done;
					moved = true;
				}
			}
	}
	c->wrong |= !all_done(c);
}

/* ---- what must come out ---- */

/* Rank @r's contribution of element @elem: its inputs, folded. */
static inline struct number own_fold(const struct set *t, int r, uint64_t elem)
{
	struct number n = contribution(r, 0, elem);

	for (uint32_t i = 1; i < (uint32_t)t->s[r]->ninputs; i++)
		n = added(n, contribution(r, i, elem), true);
	if (t->s[r]->ninputs > 1)
		n.tree = concrete_hash(TREE_ROUND, n.tree, 0);
	return n;
}

/* Of a joint operation: the contributions of all ranks, rank by rank. A single one is left as it
 * is. */
static inline struct number wanted_joint(const struct set *t, uint64_t elem)
{
	struct number n = contribution(0, 0, elem);

	for (int q = 0; q < t->size; q++)
		for (uint32_t k = q == 0; k < (uint32_t)t->s[q]->ninputs; k++)
			n = listed(n, contribution(q, k, elem));
	return t->size > 1 || t->s[0]->ninputs > 1 ? joined(n) : n;
}

/* What position @pos of rank @r's output must be: a left fold in the wider type. */
static inline struct number wanted(const struct concrete *c, int r, uint64_t pos)
{
	const struct model_source s = model_source(&c->model, r, pos);
	if (c->t->shape.joins)
		return wanted_joint(c->t, s.at);
	struct number n = s.lo < s.hi ? own_fold(c->t, s.lo, s.at) : the_identity();

	for (int q = s.lo + 1; q < s.hi; q++)
		n = added(n, own_fold(c->t, q, s.at), true);
	return n;
}

/* Is @got what row and collective promise? */
static inline bool is_wanted(const struct set *t, int r, struct number got, struct number want)
{
	const unsigned flags = t->alg->flags;
	const bool prefix = t->alg->kind == COLL_SCAN || t->alg->kind == COLL_EXSCAN;

	if (t->shape.joins)
		return got.there && !got.final && got.sum == want.sum &&
		       got.string == want.string && got.tree == want.tree;
	if (!got.there || got.final != t->s[r]->final || got.ranks != want.ranks)
		return false;
	if (!(flags & COLL_IDEMPOTENT) && got.sum != want.sum)
		return false;
	if ((prefix || (flags & COLL_ORDERED)) && got.string != want.string)
		return false;
	if (t->s[r]->final)
		want.tree = concrete_hash(TREE_FINAL, want.tree, 0);
	return !(flags & COLL_ORDERED) || (flags & COLL_PARTIALS) || got.tree == want.tree;
}

static inline bool outputs_right(const struct concrete *c)
{
	const struct set *t = c->t;
	const enum coll_kind kind = t->alg->kind;
	const bool agree = !(t->alg->flags & COLL_DIVERGENT) &&
	                   (kind == COLL_ALLREDUCE || kind == COLL_BARRIER);

	for (int r = 0; r < t->size; r++)
		for (uint64_t at = 0; at < c->nout[r]; at++)
			if (!is_wanted(t, r, c->out[r][at], wanted(c, r, at)) ||
			    (agree && c->out[r][at].tree != c->out[0][at].tree))
				return false;
	for (int r = 0; r < t->size && kind == COLL_EXCHANGE && t->size > 1; r++)
		for (uint64_t e = 0; e < coll_count(&t->args[r]); e++)
			if (c->arrived[r][e] != 1)
				return false;
	return true;
}

/* ---- together ---- */

static inline struct model model_of_set(const struct set *t)
{
	struct model m = model_of_blocks(t->alg->kind, t->size, t->shape.root, t->args[0].off);

	for (int r = 0; r < t->size && t->shape.counts; r++) {
		m.cut[r] = t->args[r].off;
		m.rows[r] = m.cut[r][t->size];
	}
	return m;
}

/* Do the schedules of @t, whatever they have become, make what the collective promises? */
static inline bool concretely_right(const struct set *t)
{
	static struct concrete c; /* large */
	bool right;

	assert_true(t->size <= CONCRETE_SIZE);
	memset(&c, 0, sizeof(c));
	c.t = t;
	c.model = model_of_set(t);
	for (int r = 0; r < t->size; r++) {
		const struct sched *s = t->s[r];
		const struct coll_args *a = &t->args[r];

		c.nout[r] = model_rows(&c.model, r);
		c.done[r] = calloc((size_t)s->nsteps + 1, sizeof(*c.done[r]));
		c.out[r] = calloc(c.nout[r] + 1, sizeof(*c.out[r]));
		c.arrived[r] = calloc(coll_count(a) + 1, sizeof(*c.arrived[r]));
		c.bufs[r] = calloc((size_t)s->nbufs + 1, sizeof(*c.bufs[r]));
		for (uint32_t b = 0; b < s->nbufs; b++)
			c.bufs[r][b] = calloc(s->bufs[b].len + 1, sizeof(struct number));
	}
	run_concrete(&c);
	right = !c.wrong && outputs_right(&c);
	for (int r = 0; r < t->size; r++) {
		for (uint32_t b = 0; b < t->s[r]->nbufs; b++)
			free(c.bufs[r][b]);
		free(c.bufs[r]);
		free(c.done[r]);
		free(c.out[r]);
		free(c.arrived[r]);
	}
	return right;
}

#endif
