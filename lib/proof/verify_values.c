/*
 * Values: runs the schedules symbolically. See verifier_internal.h.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "lib/proof/verifier_internal.h"

static bool is_wide(const struct sched *s, struct sched_span span)
{
	return s->bufs[span.buf].type == SCHED_ACC;
}

/* Read @span into @to, clearing it first. Unwritten elements are a defect. */
static bool read_span(struct verify *v, uint32_t id, struct sched_span span, struct pieces *to)
{
	const struct sched_step *st = graph_step(&v->g, id);
	char text[96];

	pieces_clear(to);
	if (pieces_copy(to, &v->bufs[v->g.rank[id]][span.buf], span.off, st->len))
		return verify_nomem(v);
	for (size_t i = 0; i < to->n; i++)
		if (to->v[i].node == NODE_NONE)
			return verify_defect(
			        v, "%s reads element %" PRIu64 " before anything is there",
			        graph_step_words(&v->g, id, text), to->v[i].at);
	return true;
}

static bool write_span(struct verify *v, uint32_t id, struct sched_span span,
                       const struct pieces *from)
{
	if (pieces_write(&v->bufs[v->g.rank[id]][span.buf], span.off, from))
		return verify_nomem(v);
	return !v->nodes.nomem || verify_nomem(v);
}

static bool is_identity(const struct verify *v, uint32_t id)
{
	return v->nodes.v[id].kind == NODE_IDENTITY;
}

/* @left op @right into @to: both must have the same elements of the collective. */
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

		if (is_identity(v, left->v[i].node) || is_identity(v, right->v[j].node))
			return verify_defect(v, "%s adds the identity, which is no contribution",
			                     graph_step_words(&v->g, id, text));
		if (le != re)
			return verify_defect(v, "%s adds element %" PRIu64 " to element %" PRIu64,
			                     graph_step_words(&v->g, id, text), re, le);
		if (pieces_push(to, end - at,
		                node(&v->nodes, kind, left->v[i].node, right->v[j].node), le))
			return verify_nomem(v);
		i += iend == end;
		j += jend == end;
	}
	return true;
}

/* Wrap all values of @p. */
static void wrap(struct verify *v, struct pieces *p, enum node_kind kind)
{
	for (size_t i = 0; i < p->n; i++)
		p->v[i].node = node(&v->nodes, kind, p->v[i].node, 0);
}

/* Round or finish @p for the step's destination. @wide: @p was computed in the wider type. */
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
			ok = verify_nomem(v);
	}
	ok = ok && store(v, id, &acc, s->ninputs > 1);
	pieces_release(&acc);
	pieces_release(&in);
	pieces_release(&sum);
	return ok;
}

static bool run_joint(struct verify *v, uint32_t id)
{
	const struct sched_step *st = graph_step(&v->g, id);
	const uint32_t n = v->scheds[v->g.rank[id]]->njoint;
	struct pieces all = {0}, next = {0}, more = {0};
	bool ok = read_span(v, id, st->src, &all);

	for (uint32_t k = 1; ok && k < n; k++) {
		ok = read_span(v, id, (struct sched_span){st->src.buf + k, st->src.off}, &next) &&
		     combine(v, id, &all, &next, NODE_LIST, &more);
		pieces_clear(&all);
		if (ok && pieces_copy(&all, &more, 0, more.len))
			ok = verify_nomem(v);
	}
	wrap(v, &all, NODE_JOINT);
	ok = ok && write_span(v, id, st->dst, &all);
	pieces_release(&all);
	pieces_release(&next);
	pieces_release(&more);
	return ok;
}

static bool run_read(struct verify *v, uint32_t id)
{
	const struct sched_step *st = graph_step(&v->g, id);
	const int r = v->g.rank[id];
	const struct coll_layout x = verify_layout(v, r);
	const uint64_t base = v->args[r].off[x.in_lo];
	const uint64_t len = coll_in_at(v->alg->kind, &v->args[r], x.in_hi);
	struct pieces p = {0};
	char text[96];
	bool ok = true;

	if (st->src.off > len || st->len > len - st->src.off)
		return verify_defect(v, "%s reads behind the end of the input",
		                     graph_step_words(&v->g, id, text));
	if (pieces_push(&p, st->len, node(&v->nodes, NODE_LEAF, (uint32_t)r, st->src.buf),
	                base + st->src.off))
		ok = verify_nomem(v);
	ok = ok && write_span(v, id, st->dst, &p);
	pieces_release(&p);
	return ok;
}

static bool run_write(struct verify *v, uint32_t id)
{
	const struct sched_step *st = graph_step(&v->g, id);
	struct pieces *out = &v->outs[v->g.rank[id]];
	struct pieces p = {0}, there = {0};
	char text[96];
	bool ok = read_span(v, id, st->src, &p);

	if (ok && (st->dst.off > out->len || st->len > out->len - st->dst.off))
		ok = verify_defect(v, "%s writes behind the end of the output",
		                   graph_step_words(&v->g, id, text));
	if (ok && pieces_copy(&there, out, st->dst.off, st->len))
		ok = verify_nomem(v);
	for (size_t i = 0; ok && i < there.n; i++)
		if (there.v[i].node != NODE_NONE)
			ok = verify_defect(v, "%s writes element %" PRIu64 " a second time",
			                   graph_step_words(&v->g, id, text),
			                   st->dst.off + there.v[i].at);
	if (ok && pieces_write(out, st->dst.off, &p))
		ok = verify_nomem(v);
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

static bool run_identity(struct verify *v, uint32_t id)
{
	const struct sched_step *st = graph_step(&v->g, id);
	struct pieces p = {0};
	const bool ok = pieces_push(&p, st->len, node(&v->nodes, NODE_IDENTITY, 0, 0), 0)
	                        ? verify_nomem(v)
	                        : write_span(v, id, st->dst, &p);

	pieces_release(&p);
	return ok;
}

static bool run_receive(struct verify *v, uint32_t id)
{
	const struct sched_step *st = graph_step(&v->g, id);
	struct pieces *message = &v->messages[v->g.match[id]];
	bool ok = v->alg->kind != COLL_EXCHANGE ||
	          verify_arrival(v, v->g.rank[id], st->peer, message);

	if (ok && st->op == SCHED_RECV)
		ok = write_span(v, id, st->dst, message);
	else if (ok)
		ok = run_reduce(v, id, st->src, message, false);
	pieces_release(message);
	return ok;
}

static bool run_step(struct verify *v, uint32_t id)
{
	switch (graph_step(&v->g, id)->op) {
	case SCHED_READ:
		return run_read(v, id);
	case SCHED_WRITE:
		return run_write(v, id);
	case SCHED_SEND:
		return read_span(v, id, graph_step(&v->g, id)->src, &v->messages[id]);
	case SCHED_COPY:
	case SCHED_REDUCE:
		return run_local(v, id);
	case SCHED_LOCAL_REDUCE:
		return run_local_reduce(v, id);
	case SCHED_JOINT:
		return run_joint(v, id);
	case SCHED_IDENTITY:
		return run_identity(v, id);
	default:
		return run_receive(v, id);
	}
}

/* ---- one symbolic run ---- */

/* Fill @p with @len elements of nothing. */
static bool blank(struct verify *v, struct pieces *p, uint64_t len)
{
	pieces_clear(p);
	return !pieces_push(p, len, NODE_NONE, 0) || verify_nomem(v);
}

static bool blank_all(struct verify *v)
{
	for (int r = 0; r < v->size; r++) {
		const struct sched *s = v->scheds[r];
		const struct coll_layout x = verify_layout(v, r);
		const uint64_t nout = coll_out_at(v->alg->kind, &v->args[r], x.out_hi);

		for (uint32_t i = 0; i < s->nbufs; i++)
			if (!blank(v, &v->bufs[r][i], s->bufs[i].len))
				return false;
		if (s->stores && !blank(v, &v->outs[r], nout))
			return false;
		if (!blank(v, &v->arrived[r], coll_count(&v->args[r])))
			return false;
	}
	return true;
}

bool verify_values(struct verify *v, enum graph_policy policy)
{
	uint32_t *order = malloc(((size_t)v->g.n + 1) * sizeof(*order));
	uint32_t stuck = 0;
	const int e = order ? graph_order(&v->g, policy, order, &stuck) : -1;
	char text[96];
	bool ok = !e;

	if (e > 0)
		verify_defect(v, "%s waits for itself, through its dependencies and messages",
		              graph_step_words(&v->g, stuck, text));
	else if (e)
		verify_nomem(v);
	ok = ok && blank_all(v);
	for (uint32_t i = 0; i < v->g.n && ok; i++)
		ok = run_step(v, order[i]);
	free(order);
	return ok && verify_outputs(v) && verify_arrivals(v);
}
