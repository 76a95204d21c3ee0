/*
 * The verifier: see verify.h.
 *
 * 1. The schedules are joined to one graph (graph.c): well-formed, and matched lane by lane.
 * 2. Races: every two steps of a rank that touch the same elements, one of them writing, are
 *    ordered by the dependencies, element by element. With that and the matching, every execution
 *    gives the same values.
 * 3. Values: the schedules are run symbolically in three orders that dependencies and lanes allow.
 *    What is written is compared with what the collective promises, and between ranks.
 * 4. Lanes: the schedules are run element by element with lanes that hold one element.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algorithms/graph.h"
#include "algorithms/values.h"
#include "algorithms/verify.h"

_Static_assert(GRAPH_TEXT == VERIFY_TEXT, "one text for both");

struct verify {
	const struct coll_algorithm *alg;
	const struct coll_args *args;
	struct sched *const *scheds;
	int size;
	struct graph g;
	struct nodes nodes;
	struct pieces **bufs;    /* [rank][buffer] */
	struct pieces **outs;    /* [rank][output] */
	struct pieces *messages; /* [step]: what a send has put on its lane */
	uint32_t *first_leaf;    /* [size + 1]: the rank's inputs among all */
	uint32_t *seen_leaf;     /* [all inputs] */
	uint32_t *seen_node;     /* [nodes] */
	size_t seen_cap;
	uint32_t epoch; /* what marks in seen_* are of this walk */
	bool failed;
	char *why;
};

/* Keep the first defect in words; returns false. */
__attribute__((format(printf, 2, 3))) static bool defect(struct verify *v, const char *fmt, ...)
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

static bool nomem(struct verify *v)
{
	return defect(v, "out of memory");
}

static struct coll_layout layout_of(const struct verify *v, int rank)
{
	return coll_layout(v->alg->kind, rank, v->size, v->args->root);
}

/* ---- races ---- */

struct races {
	struct verify *v;
	const struct sched *s;
	uint64_t *need; /* [steps]: what must be done of each; zero between uses */
};

/* How far step @a of the schedule is when step @b works on element @x, at least. */
static uint64_t guaranteed(struct races *k, uint32_t b, uint64_t x, uint32_t a)
{
	uint64_t *need = k->need, done;

	need[b] = x + 1;
	for (uint32_t i = b; i > a; i--) {
		const struct sched_step *st = &k->s->steps[i];

		for (uint32_t j = 0; need[i] && j < st->ndep; j++) {
			const struct sched_dep *d = &k->s->deps[st->dep + j];
			const uint64_t hi = need[i] < d->hi ? need[i] : d->hi;

			if (need[i] > d->lo && hi + (uint64_t)d->shift > need[d->step])
				need[d->step] = hi + (uint64_t)d->shift;
		}
	}
	done = need[a];
	memset(&need[a], 0, (b - a + 1) * sizeof(*need));
	return done;
}

/* The first of the later step's dependencies that may speak of the earlier one at this shift: they
 * are sorted when they were inferred. Others are found by guaranteed(). */
static uint32_t first_dep(const struct sched *s, const struct sched_conflict *c)
{
	const struct sched_step *st = &s->steps[c->later];
	uint32_t lo = 0, hi = st->ndep;

	while (lo < hi) {
		const uint32_t mid = lo + (hi - lo) / 2;
		const struct sched_dep *d = &s->deps[st->dep + mid];

		if (d->step < c->earlier ||
		    (d->step == c->earlier &&
		     (d->shift < c->shift || (d->shift == c->shift && d->hi <= c->lo))))
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static enum sched_error check_conflict(void *ctx, const struct sched_conflict *c)
{
	struct races *k = ctx;
	const struct sched_step *st = &k->s->steps[c->later];
	const uint32_t base = k->v->g.first[k->s->rank];
	uint64_t x = c->lo;
	char a[96], b[96];

	for (uint32_t j = first_dep(k->s, c); j < st->ndep; j++) {
		const struct sched_dep *d = &k->s->deps[st->dep + j];

		if (d->step != c->earlier || d->shift != c->shift || d->lo > x)
			break;
		x = d->hi > x ? d->hi : x;
	}
	while (x < c->hi) {
		const uint64_t done = guaranteed(k, c->later, x, c->earlier);

		if (done <= x + (uint64_t)c->shift) {
			defect(k->v, "%s may overtake %s on its element %" PRIu64,
			       graph_step_words(&k->v->g, base + c->later, a),
			       graph_step_words(&k->v->g, base + c->earlier, b), x);
			return SCHED_RANGE;
		}
		x = done - (uint64_t)c->shift;
	}
	return SCHED_OK;
}

static bool check_races(struct verify *v)
{
	for (int r = 0; r < v->size && !v->failed; r++) {
		struct races k = {v, v->scheds[r],
		                  calloc((size_t)v->scheds[r]->nsteps + 1, sizeof(uint64_t))};

		if (!k.need || sched_conflicts(k.s, check_conflict, &k) == SCHED_NOMEM)
			nomem(v);
		free(k.need);
	}
	return !v->failed;
}

/* ---- values ---- */

static bool is_wide(const struct sched *s, struct sched_span span)
{
	return s->bufs[span.buf].type == SCHED_ACC;
}

/* Read @span into @to (cleared first); what nothing has written is a defect. */
static bool read_span(struct verify *v, uint32_t id, struct sched_span span, struct pieces *to)
{
	const struct sched_step *st = graph_step(&v->g, id);
	char text[96];

	pieces_clear(to);
	if (pieces_copy(to, &v->bufs[v->g.rank[id]][span.buf], span.off, st->len))
		return nomem(v);
	for (size_t i = 0; i < to->n; i++)
		if (to->v[i].node == NODE_NONE)
			return defect(v, "%s reads element %" PRIu64 " before anything is there",
			              graph_step_words(&v->g, id, text), to->v[i].at);
	return true;
}

static bool write_span(struct verify *v, uint32_t id, struct sched_span span,
                       const struct pieces *from)
{
	if (pieces_write(&v->bufs[v->g.rank[id]][span.buf], span.off, from))
		return nomem(v);
	return !v->nodes.nomem || nomem(v);
}

/* @left op @right into @to: both must hold the same elements of the collective. */
static bool combine(struct verify *v, uint32_t id, const struct pieces *left,
                    const struct pieces *right, enum node_kind kind, struct pieces *to)
{
	char text[96];

	pieces_clear(to);
	for (size_t i = 0, j = 0; to->len < left->len;) {
		const uint64_t at = to->len;
		const uint64_t iend = piece_end(left, i), jend = piece_end(right, j);
		const uint64_t end = iend < jend ? iend : jend;
		const uint64_t le = left->v[i].elem + (at - left->v[i].at);
		const uint64_t re = right->v[j].elem + (at - right->v[j].at);

		if (le != re)
			return defect(v, "%s adds element %" PRIu64 " to element %" PRIu64,
			              graph_step_words(&v->g, id, text), re, le);
		if (pieces_push(to, end - at,
		                node(&v->nodes, kind, left->v[i].node, right->v[j].node), le))
			return nomem(v);
		i += iend == end;
		j += jend == end;
	}
	return true;
}

/* Wrap what @p holds. */
static void wrap(struct verify *v, struct pieces *p, enum node_kind kind)
{
	for (size_t i = 0; i < p->n; i++)
		p->v[i].node = node(&v->nodes, kind, p->v[i].node, 0);
}

/* Round or finish @p, which was worked out in the wider type or not, for the step's destination. */
static bool store(struct verify *v, uint32_t id, struct pieces *p, bool wide)
{
	const struct sched_step *st = graph_step(&v->g, id);
	const struct sched *s = v->scheds[v->g.rank[id]];

	if (st->flags & SCHED_FINAL)
		wrap(v, p, NODE_FINAL);
	else if (wide && !is_wide(s, st->dst))
		wrap(v, p, NODE_ROUND);
	return write_span(v, id, st->dst, p);
}

/* dst = @mine op @other, or the other way round. */
static bool run_reduce(struct verify *v, uint32_t id, struct sched_span mine,
                       const struct pieces *other, bool other_wide)
{
	const struct sched_step *st = graph_step(&v->g, id);
	const struct sched *s = v->scheds[v->g.rank[id]];
	const bool wide = other_wide || is_wide(s, mine) || is_wide(s, st->dst);
	const bool swap = st->flags & SCHED_WIRE_LEFT;
	struct pieces a = {0}, sum = {0};
	const bool ok = read_span(v, id, mine, &a) &&
	                combine(v, id, swap ? other : &a, swap ? &a : other,
	                        wide ? NODE_WIDE : NODE_OP, &sum) &&
	                store(v, id, &sum, wide);

	pieces_release(&a);
	pieces_release(&sum);
	return ok;
}

static bool run_local_reduce(struct verify *v, uint32_t id)
{
	const struct sched_step *st = graph_step(&v->g, id);
	const struct sched *s = v->scheds[v->g.rank[id]];
	struct pieces acc = {0}, in = {0}, sum = {0};
	bool ok = read_span(v, id, (struct sched_span){0, st->src.off}, &acc);

	for (uint32_t i = 1; ok && i < (uint32_t)s->ninputs; i++) {
		ok = read_span(v, id, (struct sched_span){i, st->src.off}, &in) &&
		     combine(v, id, &acc, &in, NODE_WIDE, &sum);
		pieces_clear(&acc);
		if (ok && pieces_copy(&acc, &sum, 0, sum.len))
			ok = nomem(v);
	}
	ok = ok && store(v, id, &acc, s->ninputs > 1);
	pieces_release(&acc);
	pieces_release(&in);
	pieces_release(&sum);
	return ok;
}

static bool run_read(struct verify *v, uint32_t id)
{
	const struct sched_step *st = graph_step(&v->g, id);
	const int r = v->g.rank[id];
	const struct coll_layout x = layout_of(v, r);
	const uint64_t base = v->args->off[x.in_lo], len = v->args->off[x.in_hi] - base;
	struct pieces p = {0};
	char text[96];
	bool ok = true;

	if (st->src.off > len || st->len > len - st->src.off)
		return defect(v, "%s reads behind the end of the input",
		              graph_step_words(&v->g, id, text));
	if (pieces_push(&p, st->len, node(&v->nodes, NODE_LEAF, (uint32_t)r, st->src.buf),
	                base + st->src.off))
		ok = nomem(v);
	ok = ok && write_span(v, id, st->dst, &p);
	pieces_release(&p);
	return ok;
}

static bool run_write(struct verify *v, uint32_t id)
{
	const struct sched_step *st = graph_step(&v->g, id);
	struct pieces *out = &v->outs[v->g.rank[id]][st->dst.buf];
	struct pieces p = {0}, there = {0};
	char text[96];
	bool ok = read_span(v, id, st->src, &p);

	if (ok && (st->dst.off > out->len || st->len > out->len - st->dst.off))
		ok = defect(v, "%s writes behind the end of the output",
		            graph_step_words(&v->g, id, text));
	if (ok && pieces_copy(&there, out, st->dst.off, st->len))
		ok = nomem(v);
	for (size_t i = 0; ok && i < there.n; i++)
		if (there.v[i].node != NODE_NONE)
			ok = defect(v, "%s writes element %" PRIu64 " a second time",
			            graph_step_words(&v->g, id, text), st->dst.off + there.v[i].at);
	if (ok && pieces_write(out, st->dst.off, &p))
		ok = nomem(v);
	pieces_release(&p);
	pieces_release(&there);
	return ok;
}

static bool run_local(struct verify *v, uint32_t id)
{
	const struct sched_step *st = graph_step(&v->g, id);
	const struct sched *s = v->scheds[v->g.rank[id]];
	struct pieces p = {0};
	bool ok = read_span(v, id, st->src, &p);

	if (ok && st->op == SCHED_COPY)
		ok = store(v, id, &p, is_wide(s, st->src));
	else if (ok)
		ok = run_reduce(v, id, st->dst, &p, is_wide(s, st->src));
	pieces_release(&p);
	return ok;
}

static bool run_step(struct verify *v, uint32_t id)
{
	const struct sched_step *st = graph_step(&v->g, id);
	struct pieces *message;
	bool ok;

	switch (st->op) {
	case SCHED_READ:
		return run_read(v, id);
	case SCHED_WRITE:
		return run_write(v, id);
	case SCHED_SEND:
		return read_span(v, id, st->src, &v->messages[id]);
	case SCHED_COPY:
	case SCHED_REDUCE:
		return run_local(v, id);
	case SCHED_LOCAL_REDUCE:
		return run_local_reduce(v, id);
	case SCHED_IDENTITY:
		return defect(v, "rank %d writes an identity, for which there is no rule",
		              v->g.rank[id]);
	default:
		break;
	}
	message = &v->messages[v->g.match[id]];
	ok = st->op == SCHED_RECV ? write_span(v, id, st->dst, message)
	                          : run_reduce(v, id, st->src, message, false);
	pieces_release(message);
	return ok;
}

/* ---- what is promised ---- */

/* The ranks [lo, hi) whose contributions make element @elem of @rank's output. False: no rule. */
static bool contributors(const struct verify *v, int rank, uint64_t elem, int *lo, int *hi)
{
	int j = 0;

	*lo = 0;
	*hi = v->size;
	switch (v->alg->kind) {
	case COLL_ALLREDUCE:
	case COLL_REDUCE:
	case COLL_REDUCE_SCATTER:
	case COLL_BARRIER:
		return true;
	case COLL_SCAN:
		*hi = rank + 1;
		return true;
	case COLL_BROADCAST:
	case COLL_SCATTER:
		*lo = v->args->root;
		*hi = *lo + 1;
		return true;
	case COLL_GATHER:
	case COLL_ALLGATHER:
		while (v->args->off[j + 1] <= elem)
			j++;
		*lo = j;
		*hi = j + 1;
		return true;
	default:
		return false;
	}
}

/* Count the contributions under @top: leaves of ranks [lo, hi), each once. Returns how many, or 0
 * with a defect. */
static uint64_t count_leaves(struct verify *v, uint32_t top, int lo, int hi, uint32_t *stack)
{
	const bool again = v->alg->flags & COLL_IDEMPOTENT;
	uint64_t count = 0;
	size_t n = 0;

	v->epoch++;
	stack[n++] = top;
	while (n) {
		const uint32_t id = stack[--n];
		const struct node *x = &v->nodes.v[id];
		uint32_t *seen = x->kind == NODE_LEAF ? &v->seen_leaf[v->first_leaf[x->a] + x->b]
		                                      : &v->seen_node[id];

		if (*seen == v->epoch && !again) {
			defect(v, "a contribution is there twice");
			return 0;
		}
		if (*seen == v->epoch)
			continue;
		*seen = v->epoch;
		if (x->kind == NODE_LEAF) {
			if ((int)x->a < lo || (int)x->a >= hi) {
				defect(v, "rank %" PRIu32 "'s contribution does not belong there",
				       x->a);
				return 0;
			}
			count++;
			continue;
		}
		if (x->kind == NODE_FINAL) {
			defect(v, "the operation's last function is applied before the end");
			return 0;
		}
		if (x->kind != NODE_ROUND)
			stack[n++] = x->b;
		stack[n++] = x->a;
	}
	return count;
}

/* Is @id the contribution of @rank: its one input, or the fold of several in order, rounded as
 * those are that come over the wire? */
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

/* Is @id the left fold, in the wider type, of the contributions [lo, hi) in rank order? */
static bool is_ordered(const struct verify *v, uint32_t id, int lo, int hi)
{
	for (int r = hi - 1; r > lo; r--) {
		const struct node *x = &v->nodes.v[id];

		if (x->kind != NODE_WIDE || !is_contribution(v, x->b, r))
			return false;
		id = x->a;
	}
	return is_contribution(v, id, lo);
}

static bool check_tree(struct verify *v, int rank, uint32_t id, int lo, int hi)
{
	const bool final = v->scheds[rank]->final;
	const uint64_t want = v->first_leaf[hi] - v->first_leaf[lo];
	uint32_t *stack;
	uint64_t count;

	if (final != (v->nodes.v[id].kind == NODE_FINAL))
		return defect(v, final ? "the operation's last function is not applied"
		                       : "the operation's last function is applied unannounced");
	if (final)
		id = v->nodes.v[id].a;
	if (v->seen_cap < v->nodes.n) {
		free(v->seen_node);
		v->seen_cap = 2 * v->nodes.n;
		v->seen_node = calloc(v->seen_cap, sizeof(*v->seen_node));
		if (!v->seen_node) {
			v->seen_cap = 0;
			return nomem(v);
		}
	}
	stack = malloc((2 * v->nodes.n + 2) * sizeof(*stack));
	if (!stack)
		return nomem(v);
	count = count_leaves(v, id, lo, hi, stack);
	free(stack);
	if (v->failed)
		return false;
	if (count != want)
		return defect(v, "%" PRIu64 " of %" PRIu64 " contributions are missing",
		              want - count, want);
	if ((v->alg->flags & COLL_ORDERED) && !is_ordered(v, id, lo, hi))
		return defect(v, "the contributions are not added in rank order");
	return true;
}

/* Check output @o of @rank; what is right is kept in @all, the collective's elements, for
 * comparison with the other ranks' where they must agree. */
static bool check_output(struct verify *v, int rank, const struct pieces *o, struct pieces *all)
{
	const struct coll_layout x = layout_of(v, rank);
	const uint64_t base = v->args->off[x.out_lo];
	const bool agree = !(v->alg->flags & COLL_DIVERGENT) && v->alg->kind != COLL_SCAN;
	struct pieces ref = {0};
	bool ok = true;

	if (pieces_copy(&ref, all, base, o->len))
		ok = nomem(v);
	for (size_t i = 0, k = 0; i < o->n && ok; i++) {
		const struct piece *p = &o->v[i];
		char text[VERIFY_TEXT];
		int lo, hi;

		if (p->node == NODE_NONE)
			ok = defect(v, "rank %d never writes element %" PRIu64 " of its output",
			            rank, p->at);
		else if (p->elem != base + p->at)
			ok = defect(v,
			            "rank %d writes element %" PRIu64 " in the place of %" PRIu64,
			            rank, p->elem, base + p->at);
		else if (!contributors(v, rank, p->elem, &lo, &hi))
			ok = defect(v, "there is no rule to verify %s by", coll_name(v->alg->kind));
		else if (agree && ref.v[k].node == p->node && piece_end(&ref, k) >= piece_end(o, i))
			; /* the same tree as another rank's, which is right */
		else if (!check_tree(v, rank, p->node, lo, hi)) {
			memcpy(text, v->why, VERIFY_TEXT);
			snprintf(v->why, VERIFY_TEXT, "rank %d, element %" PRIu64 ": %.160s", rank,
			         p->elem, text);
			ok = false;
		}
		for (; ok && agree && k < ref.n && ref.v[k].at < piece_end(o, i); k++) {
			if (ref.v[k].node != NODE_NONE && ref.v[k].node != p->node)
				ok = defect(v,
				            "rank %d, element %" PRIu64
				            ": the operands stand in another order than elsewhere",
				            rank, p->elem);
			if (piece_end(&ref, k) > piece_end(o, i))
				break;
		}
	}
	if (ok && pieces_write(all, base, o))
		ok = nomem(v);
	pieces_release(&ref);
	return ok;
}

static bool check_outputs(struct verify *v)
{
	struct pieces all = {0};
	bool ok = true;

	if (pieces_push(&all, v->args->off[v->size], NODE_NONE, 0))
		ok = nomem(v);
	for (int r = 0; r < v->size && ok; r++)
		for (int o = 0; o < v->scheds[r]->noutputs && ok; o++)
			if (v->outs[r][o].len)
				ok = check_output(v, r, &v->outs[r][o], &all);
	pieces_release(&all);
	return ok;
}

/* ---- one symbolic run ---- */

/* Fill @p with @len elements of nothing. */
static bool blank(struct verify *v, struct pieces *p, uint64_t len)
{
	pieces_clear(p);
	return !pieces_push(p, len, NODE_NONE, 0) || nomem(v);
}

static bool blank_all(struct verify *v)
{
	for (int r = 0; r < v->size; r++) {
		const struct sched *s = v->scheds[r];
		const struct coll_layout x = layout_of(v, r);
		const uint64_t nout = v->args->off[x.out_hi] - v->args->off[x.out_lo];

		for (uint32_t i = 0; i < s->nbufs; i++)
			if (!blank(v, &v->bufs[r][i], s->bufs[i].len))
				return false;
		for (int o = 0; o < s->noutputs; o++)
			if (!blank(v, &v->outs[r][o], nout))
				return false;
	}
	return true;
}

static bool check_values(struct verify *v, enum graph_policy policy)
{
	uint32_t *order = malloc(((size_t)v->g.n + 1) * sizeof(*order));
	uint32_t stuck = 0;
	const int e = order ? graph_order(&v->g, policy, order, &stuck) : -1;
	char text[96];
	bool ok = !e;

	if (e > 0)
		defect(v, "%s waits for itself, through its dependencies and messages",
		       graph_step_words(&v->g, stuck, text));
	else if (e)
		nomem(v);
	ok = ok && blank_all(v);
	for (uint32_t i = 0; i < v->g.n && ok; i++)
		ok = run_step(v, order[i]);
	free(order);
	return ok && check_outputs(v);
}

/* ---- lanes of one element ---- */

struct flow {
	struct verify *v;
	const struct graph *g;
	uint64_t *done;  /* [step] */
	uint64_t *in;    /* [lane]: elements on it */
	uint32_t *sends; /* [lane]: the send at its head */
	uint32_t *queue; /* [step], a ring; each step is in it once at most */
	bool *queued;
	uint32_t head, n;
	uint64_t capacity;
};

static void enqueue(struct flow *f, uint32_t id)
{
	uint32_t at;

	if (id == GRAPH_NONE || f->queued[id])
		return;
	at = f->head + f->n++;
	f->queue[at < f->g->n ? at : at - f->g->n] = id;
	f->queued[id] = true;
}

/* The frontier rule: how far the dependencies let a step go. */
static uint64_t limit_of(const struct flow *f, uint32_t id)
{
	const int r = f->g->rank[id];
	const struct sched *s = f->g->scheds[r];
	const struct sched_step *st = graph_step(f->g, id);
	uint64_t limit = st->len;

	for (uint32_t k = 0; k < st->ndep; k++) {
		const struct sched_dep *d = &s->deps[st->dep + k];
		const int64_t done = (int64_t)f->done[f->g->first[r] + d->step];
		int64_t may;

		if (done >= (int64_t)d->hi + d->shift)
			continue;
		may = done - d->shift > (int64_t)d->lo ? done - d->shift : (int64_t)d->lo;
		if ((uint64_t)may < limit)
			limit = (uint64_t)may;
	}
	return limit;
}

static bool complete(const struct flow *f, uint32_t id)
{
	return id == GRAPH_NONE || f->done[id] == graph_step(f->g, id)->len;
}

/* How far the lane lets a step go. */
static uint64_t lane_limit(const struct flow *f, uint32_t id)
{
	const uint32_t lane = f->g->lane[id];

	if (lane == GRAPH_NONE)
		return UINT64_MAX;
	if (!complete(f, f->g->prev[id]))
		return 0;
	if (step_receives(graph_step(f->g, id)))
		return f->done[f->g->match[id]];
	return f->done[id] + (f->capacity - f->in[lane]);
}

static void advance(struct flow *f, uint32_t id)
{
	const uint64_t lane_may = lane_limit(f, id), deps_may = limit_of(f, id);
	const uint64_t to = lane_may < deps_may ? lane_may : deps_may;
	const uint32_t lane = f->g->lane[id];

	if (to <= f->done[id])
		return;
	if (lane != GRAPH_NONE && step_receives(graph_step(f->g, id))) {
		f->in[lane] -= to - f->done[id];
		enqueue(f, f->sends[lane]);
	} else if (lane != GRAPH_NONE) {
		f->in[lane] += to - f->done[id];
	}
	f->done[id] = to;
	if (lane != GRAPH_NONE && !step_receives(graph_step(f->g, id)) && complete(f, id))
		f->sends[lane] = f->g->next[id];
	for (uint32_t e = f->g->succ_first[id]; e < f->g->succ_first[id + 1]; e++)
		enqueue(f, f->g->succ[e]);
}

static void flow_run(struct flow *f)
{
	for (uint32_t id = 0; id < f->g->n; id++) {
		const bool sends =
		        f->g->lane[id] != GRAPH_NONE && !step_receives(graph_step(f->g, id));

		if (sends && f->g->prev[id] == GRAPH_NONE)
			f->sends[f->g->lane[id]] = id;
		enqueue(f, id);
	}
	while (f->n) {
		const uint32_t id = f->queue[f->head];

		f->head = f->head + 1 < f->g->n ? f->head + 1 : 0;
		f->n--;
		f->queued[id] = false;
		advance(f, id);
	}
}

/* One element, unless moving them all one by one would take too long. */
static uint64_t lane_capacity(const struct graph *g)
{
	uint64_t moves = 0;

	for (uint32_t id = 0; id < g->n; id++)
		if (g->lane[id] != GRAPH_NONE && moves < UINT64_MAX / 2)
			moves += graph_step(g, id)->len;
	return moves / VERIFY_LANE_MOVES + 1;
}

static bool check_lanes(struct verify *v)
{
	const struct graph *g = &v->g;
	const size_t n = (size_t)g->n + 1, lanes = (size_t)g->nlanes + 1;
	struct flow f = {.v = v, .g = g, .capacity = lane_capacity(g)};
	char text[96];

	f.done = calloc(n, sizeof(*f.done));
	f.in = calloc(lanes, sizeof(*f.in));
	f.sends = calloc(lanes, sizeof(*f.sends));
	f.queue = calloc(n, sizeof(*f.queue));
	f.queued = calloc(n, sizeof(*f.queued));
	if (f.done && f.in && f.sends && f.queue && f.queued)
		flow_run(&f);
	else
		nomem(v);
	for (uint32_t id = 0; id < g->n && !v->failed; id++)
		if (!complete(&f, id))
			defect(v,
			       "%s ends at element %" PRIu64
			       ": on short lanes all wait in a circle",
			       graph_step_words(g, id, text), f.done[id]);
	free(f.done);
	free(f.in);
	free(f.sends);
	free(f.queue);
	free(f.queued);
	return !v->failed;
}

/* ---- together ---- */

static bool verify_init(struct verify *v)
{
	const size_t size = (size_t)v->size;

	v->bufs = calloc(size, sizeof(struct pieces *));
	v->outs = calloc(size, sizeof(struct pieces *));
	v->messages = calloc((size_t)v->g.n + 1, sizeof(*v->messages));
	v->first_leaf = calloc(size + 1, sizeof(*v->first_leaf));
	if (!v->bufs || !v->outs || !v->messages || !v->first_leaf)
		return nomem(v);
	for (int r = 0; r < v->size; r++) {
		const struct sched *s = v->scheds[r];

		v->first_leaf[r + 1] = v->first_leaf[r] + (uint32_t)s->ninputs;
		v->bufs[r] = calloc((size_t)s->nbufs + 1, sizeof(struct pieces));
		v->outs[r] = calloc((size_t)s->noutputs + 1, sizeof(struct pieces));
		if (!v->bufs[r] || !v->outs[r])
			return nomem(v);
	}
	v->seen_leaf = calloc((size_t)v->first_leaf[size] + 1, sizeof(*v->seen_leaf));
	return v->seen_leaf || nomem(v);
}

static void release_rows(struct pieces **rows, int r, uint32_t n)
{
	if (!rows || !rows[r])
		return;
	for (uint32_t i = 0; i < n; i++)
		pieces_release(&rows[r][i]);
	free(rows[r]);
}

static void verify_release(struct verify *v)
{
	for (int r = 0; r < v->size; r++) {
		release_rows(v->bufs, r, v->scheds[r]->nbufs);
		release_rows(v->outs, r, (uint32_t)v->scheds[r]->noutputs);
	}
	for (uint32_t id = 0; v->messages && id < v->g.n; id++)
		pieces_release(&v->messages[id]);
	free(v->bufs);
	free(v->outs);
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
			return defect(v, "ranks 0 and %d disagree on who applies the last function",
			              r);
	return true;
}

bool verify_schedules(const struct coll_algorithm *alg, const struct coll_args *args,
                      struct sched *const *scheds, char *why)
{
	struct verify v = {
	        .alg = alg, .args = args, .scheds = scheds, .size = args->size, .why = why};
	bool ok;

	if (!graph_init(&v.g, scheds, args->size, why))
		return false;
	ok = verify_init(&v) && check_finals(&v) && check_races(&v);
	for (int p = 0; p < GRAPH_POLICIES && ok; p++)
		ok = check_values(&v, (enum graph_policy)p);
	ok = ok && check_lanes(&v);
	verify_release(&v);
	return ok;
}

static bool build_and_verify(const struct coll_algorithm *alg, const struct coll_args *args,
                             char *why)
{
	struct sched **scheds = calloc((size_t)args->size, sizeof(struct sched *));
	struct coll_args a = *args;
	enum sched_error e = scheds ? SCHED_OK : SCHED_NOMEM;
	bool ok = false;

	for (a.rank = 0; a.rank < a.size && !e; a.rank++)
		scheds[a.rank] = sched_build(alg, &a, &e);
	if (e)
		snprintf(why, VERIFY_TEXT, "rank %d: %s", a.rank ? a.rank - 1 : 0,
		         sched_strerror(e));
	else
		ok = verify_schedules(alg, args, scheds, why);
	for (int r = 0; scheds && r < a.size; r++)
		sched_free(scheds[r]);
	free(scheds);
	return ok;
}

/* The same blocks, at most VERIFY_SHORT elements each: short enough for lanes of one element.
 * Odd ones stay odd. Returns whether any is shorter now. */
static bool shorten(const struct coll_args *args, uint64_t *off)
{
	bool shorter = false;

	off[0] = 0;
	for (int j = 0; j < args->size; j++) {
		uint64_t len = args->off[j + 1] - args->off[j];

		if (len > VERIFY_SHORT) {
			len = VERIFY_SHORT - (len & 1);
			shorter = true;
		}
		off[j + 1] = off[j] + len;
	}
	return shorter;
}

bool verify_algorithm(const struct coll_algorithm *alg, const struct coll_args *args, char *why)
{
	uint64_t *off = calloc((size_t)args->size + 1, sizeof(*off));
	struct coll_args a = *args;
	bool ok;

	if (!off) {
		snprintf(why, VERIFY_TEXT, "out of memory");
		return false;
	}
	ok = build_and_verify(alg, args, why);
	a.off = off;
	if (ok && shorten(args, off))
		ok = build_and_verify(alg, &a, why);
	free(off);
	return ok;
}

/* ---- figures ---- */

static void raise_to(uint64_t *most, uint64_t x)
{
	if (x > *most)
		*most = x;
}

static void count_rank(const struct sched *s, bool *peer_seen, struct sched_figures *out)
{
	struct sched_figures f = {0};

	memset(peer_seen, 0, (size_t)s->size * sizeof(*peer_seen));
	for (uint32_t i = 0; i < s->nsteps; i++) {
		const struct sched_step *st = &s->steps[i];

		if (st->op == SCHED_SEND) {
			f.messages++;
			f.elements += st->len;
		}
		if (step_receives(st))
			f.received += st->len;
		if (st->op == SCHED_RECV_REDUCE || st->op == SCHED_REDUCE)
			f.reduced += st->len;
		if (st->peer >= 0 && !peer_seen[st->peer]) {
			peer_seen[st->peer] = true;
			f.peers++;
		}
	}
	for (uint32_t i = (uint32_t)s->ninputs + 1; i < s->nbufs; i++)
		f.scratch += s->bufs[i].len;
	raise_to(&out->messages, f.messages);
	raise_to(&out->elements, f.elements);
	raise_to(&out->received, f.received);
	raise_to(&out->reduced, f.reduced);
	raise_to(&out->peers, f.peers);
	raise_to(&out->scratch, f.scratch);
}

/*
 * The longest chain of rounds, along @order. A send is one round after what it waits for, and its
 * receive is in the same round or later; @level[i] is the round in which step i is done. What waits
 * for a send to be rid of its elements (an exchange in place) is not before it.
 */
static uint64_t longest_chain(const struct graph *g, const uint32_t *order, uint64_t *level)
{
	uint64_t longest = 0;

	for (uint32_t i = 0; i < g->n; i++) {
		const uint32_t id = order[i], first = g->first[g->rank[id]];
		const struct sched *s = g->scheds[g->rank[id]];
		const struct sched_step *st = graph_step(g, id);

		level[id] = step_receives(st) ? level[g->match[id]] : 0;
		for (uint32_t k = 0; k < st->ndep; k++) {
			const uint64_t l = level[first + s->deps[st->dep + k].step];

			level[id] = l > level[id] ? l : level[id];
		}
		level[id] += st->op == SCHED_SEND;
		longest = level[id] > longest ? level[id] : longest;
	}
	return longest;
}

bool sched_figures(struct sched *const *scheds, int size, struct sched_figures *out, char *why)
{
	struct graph g;
	uint32_t *order = NULL, stuck;
	uint64_t *level = NULL;
	bool *peers = NULL, ok = false;
	int e = -1;

	*out = (struct sched_figures){0};
	if (!graph_init(&g, scheds, size, why))
		return false;
	order = calloc((size_t)g.n + 1, sizeof(*order));
	level = calloc((size_t)g.n + 1, sizeof(*level));
	peers = calloc((size_t)size, sizeof(*peers));
	if (order && level && peers)
		e = graph_order(&g, GRAPH_LIST, order, &stuck);
	if (!e) {
		out->rounds = longest_chain(&g, order, level);
		for (int r = 0; r < size; r++)
			count_rank(scheds[r], peers, out);
		ok = true;
	} else {
		snprintf(why, VERIFY_TEXT, "%s",
		         e < 0 ? "out of memory" : "steps wait for one another in a circle");
	}
	free(order);
	free(level);
	free(peers);
	graph_release(&g);
	return ok;
}
