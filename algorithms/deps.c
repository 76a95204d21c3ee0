/*
 * What the steps of a schedule touch, and the dependencies that follow from it.
 *
 * 1. Every boundary of every span cuts its buffer, so that each step covers whole segments. The
 *    cuts are known beforehand: no segment is ever split, and finding one is a binary search.
 * 2. The steps are walked in list order. A segment knows its last writer and the readers since:
 *    a reader conflicts with the writer (RAW), a writer with those readers (WAR) or, where there
 *    are none, with the writer before it (WAW). All other conflicts follow from these, element by
 *    element.
 * 3. Conflicts of one step with the same earlier step at the same shift are joined where they
 *    touch: these are its dependencies.
 */
#include <string.h>

#include "algorithms/sched.h"
#include "algorithms/vec.h"

/* ---- what a step touches ---- */

/* The buffers' elements that @st reads: the @k-th span, or buf SCHED_NONE behind the last. */
static struct sched_span step_read(const struct sched *s, const struct sched_step *st, int k)
{
	const struct sched_span none = {SCHED_NONE, 0};

	switch (st->op) {
	case SCHED_WRITE:
	case SCHED_SEND:
	case SCHED_RECV_REDUCE:
	case SCHED_COPY:
		return k == 0 ? st->src : none;
	case SCHED_REDUCE:
		return k == 0 ? st->dst : k == 1 ? st->src : none;
	case SCHED_LOCAL_REDUCE:
		return k < s->ninputs ? (struct sched_span){(uint32_t)k, st->src.off} : none;
	default:
		return none;
	}
}

static struct sched_span step_write(const struct sched_step *st)
{
	const struct sched_span none = {SCHED_NONE, 0};

	return st->op == SCHED_SEND || st->op == SCHED_WRITE ? none : st->dst;
}

/* ---- is a step sound? ---- */

static bool in_range(const struct sched *s, struct sched_span span, uint64_t len)
{
	return span.buf < s->nbufs && len <= s->bufs[span.buf].len &&
	       span.off <= s->bufs[span.buf].len - len;
}

static bool apart_or_same(struct sched_span a, struct sched_span b, uint64_t len)
{
	if (a.buf != b.buf || a.off == b.off)
		return true;
	return a.off < b.off ? b.off - a.off >= len : a.off - b.off >= len;
}

static unsigned flags_allowed(unsigned op)
{
	switch (op) {
	case SCHED_COPY:
		return SCHED_FINAL;
	case SCHED_REDUCE:
	case SCHED_RECV_REDUCE:
		return SCHED_FINAL | SCHED_WIRE_LEFT;
	default:
		return 0;
	}
}

static bool uses_wire(unsigned op)
{
	return op == SCHED_SEND || op == SCHED_RECV || op == SCHED_RECV_REDUCE;
}

static bool is_data(const struct sched *s, struct sched_span span)
{
	return s->bufs[span.buf].type == SCHED_DATA;
}

static enum sched_error check_types(const struct sched *s, const struct sched_step *st)
{
	const struct sched_span w = step_write(st);
	bool ok = !(st->flags & ~flags_allowed(st->op));

	if (st->op == SCHED_READ)
		ok = ok && is_data(s, st->dst);
	if (st->op == SCHED_SEND || st->op == SCHED_WRITE)
		ok = ok && is_data(s, st->src);
	if (uses_wire(st->op))
		for (int k = 0; k < 2; k++) {
			const struct sched_span span = k ? w : step_read(s, st, 0);

			if (span.buf != SCHED_NONE)
				ok = ok && s->bufs[span.buf].space == SCHED_HOST;
		}
	return ok ? SCHED_OK : SCHED_TYPE;
}

enum sched_error sched_check_step(const struct sched *s, const struct sched_step *st)
{
	const struct sched_span w = step_write(st);
	struct sched_span r;

	if (st->op >= SCHED_OPS || st->op == SCHED_LOCAL_BCAST)
		return SCHED_TYPE;
	if (!st->len || (w.buf != SCHED_NONE && !in_range(s, w, st->len)))
		return SCHED_RANGE;
	if (w.buf == SCHED_NONE && st->op != SCHED_SEND && st->op != SCHED_WRITE)
		return SCHED_RANGE;
	for (int k = 0; k == 0 || r.buf != SCHED_NONE; k++) {
		r = step_read(s, st, k);
		if (r.buf == SCHED_NONE) {
			if (k == 0 && st->op != SCHED_READ && st->op != SCHED_RECV &&
			    st->op != SCHED_IDENTITY)
				return SCHED_RANGE;
			break;
		}
		if (!in_range(s, r, st->len))
			return SCHED_RANGE;
		if (w.buf != SCHED_NONE && !apart_or_same(r, w, st->len))
			return SCHED_OVERLAP;
	}
	if (st->op == SCHED_READ && st->src.buf >= (uint32_t)s->ninputs)
		return SCHED_RANGE;
	if (st->op == SCHED_WRITE && st->dst.buf >= (uint32_t)s->noutputs)
		return SCHED_RANGE;
	if (uses_wire(st->op) ? st->peer < 0 || st->peer >= s->size || st->peer == s->rank
	                      : st->peer != -1)
		return SCHED_PEER;
	return check_types(s, st);
}

enum sched_error sched_check(const struct sched *s)
{
	enum sched_error e = SCHED_OK;

	for (uint32_t i = 0; i < s->nsteps && !e; i++)
		e = sched_check_step(s, &s->steps[i]);
	return e;
}

/* ---- conflicts ---- */

struct reader {
	uint32_t step, next; /* next: index in the pool, or NOBODY */
	uint64_t off;        /* where the step's element 0 lies in the buffer */
};

#define NOBODY UINT32_MAX

struct segment {
	struct sched_span at; /* up to the next segment of the buffer */
	uint32_t writer, readers;
	uint64_t writer_off;
};

struct walk {
	VEC(struct segment) segs;
	VEC(struct reader) pool;
	enum sched_error (*visit)(void *ctx, const struct sched_conflict *);
	void *ctx;
};

static int cmp_segments(const void *pa, const void *pb)
{
	const struct sched_span a = ((const struct segment *)pa)->at;
	const struct sched_span b = ((const struct segment *)pb)->at;

	if (a.buf != b.buf)
		return a.buf < b.buf ? -1 : 1;
	return a.off < b.off ? -1 : a.off > b.off;
}

static enum sched_error cut(struct walk *w, struct sched_span span, uint64_t len)
{
	for (int end = 0; end < 2; end++) {
		struct segment *seg = vec_push(&w->segs);

		if (!seg)
			return SCHED_NOMEM;
		*seg = (struct segment){span_add(span, end ? len : 0), NOBODY, NOBODY, 0};
	}
	return SCHED_OK;
}

static enum sched_error cut_all(struct walk *w, const struct sched *s)
{
	enum sched_error e = SCHED_OK;
	size_t n = 0;

	for (uint32_t i = 0; i < s->nsteps && !e; i++) {
		const struct sched_step *st = &s->steps[i];
		struct sched_span span = step_write(st);

		if (span.buf != SCHED_NONE)
			e = cut(w, span, st->len);
		for (int k = 0; !e && (span = step_read(s, st, k)).buf != SCHED_NONE; k++)
			e = cut(w, span, st->len);
	}
	if (e || !w->segs.n)
		return e;
	qsort(w->segs.v, w->segs.n, sizeof(*w->segs.v), cmp_segments);
	for (size_t i = 1; i < w->segs.n; i++)
		if (cmp_segments(&w->segs.v[n], &w->segs.v[i]))
			w->segs.v[++n] = w->segs.v[i];
	w->segs.n = n + 1;
	return SCHED_OK;
}

static struct segment *find(struct walk *w, struct sched_span span)
{
	const struct segment key = {.at = span};

	return bsearch(&key, w->segs.v, w->segs.n, sizeof(key), cmp_segments);
}

static enum sched_error conflict(struct walk *w, uint32_t later, struct sched_span span,
                                 const struct segment *seg, uint32_t earlier, uint64_t earlier_off)
{
	const struct sched_conflict c = {
	        .later = later,
	        .earlier = earlier,
	        .lo = seg[0].at.off - span.off,
	        .hi = seg[1].at.off - span.off,
	        .shift = (int64_t)(span.off - earlier_off),
	};
	return w->visit(w->ctx, &c);
}

static enum sched_error note_read(struct walk *w, uint32_t step, struct sched_span span,
                                  uint64_t len)
{
	enum sched_error e = SCHED_OK;

	for (struct segment *seg = find(w, span); seg->at.off < span.off + len && !e; seg++) {
		struct reader *r;

		if (seg->writer != NOBODY)
			e = conflict(w, step, span, seg, seg->writer, seg->writer_off);
		if (w->pool.n >= NOBODY)
			return SCHED_TOO_LARGE;
		r = vec_push(&w->pool);
		if (!r)
			return SCHED_NOMEM;
		*r = (struct reader){step, seg->readers, span.off};
		seg->readers = (uint32_t)(w->pool.n - 1);
	}
	return e;
}

static enum sched_error note_write(struct walk *w, uint32_t step, struct sched_span span,
                                   uint64_t len)
{
	enum sched_error e = SCHED_OK;

	for (struct segment *seg = find(w, span); seg->at.off < span.off + len && !e; seg++) {
		if (seg->readers == NOBODY && seg->writer != NOBODY)
			e = conflict(w, step, span, seg, seg->writer, seg->writer_off);
		for (uint32_t i = seg->readers; i != NOBODY && !e; i = w->pool.v[i].next)
			if (w->pool.v[i].step != step)
				e = conflict(w, step, span, seg, w->pool.v[i].step,
				             w->pool.v[i].off);
		seg->readers = NOBODY;
		seg->writer = step;
		seg->writer_off = span.off;
	}
	return e;
}

enum sched_error sched_conflicts(const struct sched *s,
                                 enum sched_error (*visit)(void *ctx,
                                                           const struct sched_conflict *),
                                 void *ctx)
{
	struct walk w = {.visit = visit, .ctx = ctx};
	enum sched_error e = cut_all(&w, s);

	for (uint32_t i = 0; i < s->nsteps && !e; i++) {
		const struct sched_step *st = &s->steps[i];
		struct sched_span span;

		for (int k = 0; !e && (span = step_read(s, st, k)).buf != SCHED_NONE; k++)
			e = note_read(&w, i, span, st->len);
		span = step_write(st);
		if (!e && span.buf != SCHED_NONE)
			e = note_write(&w, i, span, st->len);
	}
	free(w.segs.v);
	free(w.pool.v);
	return e;
}

/* ---- dependencies ---- */

struct infer {
	struct sched *s;
	VEC(struct sched_dep) deps;
};

static enum sched_error add_dep(void *ctx, const struct sched_conflict *c)
{
	struct infer *in = ctx;
	struct sched_step *owner = &in->s->steps[c->later];
	struct sched_dep *d;

	if (in->deps.n >= UINT32_MAX)
		return SCHED_TOO_LARGE;
	d = vec_push(&in->deps);
	if (!d)
		return SCHED_NOMEM;
	*d = (struct sched_dep){c->earlier, c->lo, c->hi, c->shift};
	if (!owner->ndep++)
		owner->dep = (uint32_t)(in->deps.n - 1);
	return SCHED_OK;
}

static int cmp_deps(const void *pa, const void *pb)
{
	const struct sched_dep *a = pa, *b = pb;

	if (a->step != b->step)
		return a->step < b->step ? -1 : 1;
	if (a->shift != b->shift)
		return a->shift < b->shift ? -1 : 1;
	return a->lo < b->lo ? -1 : a->lo > b->lo;
}

/* Join the dependencies of one step that touch, and move them down to @to; returns their number. */
static uint32_t join_deps(struct sched_dep *to, struct sched_dep *from, uint32_t n)
{
	uint32_t m = 0;

	qsort(from, n, sizeof(*from), cmp_deps);
	for (uint32_t i = 0; i < n; i++) {
		struct sched_dep *last = m ? &to[m - 1] : NULL;
		const struct sched_dep d = from[i];

		if (last && last->step == d.step && last->shift == d.shift && d.lo <= last->hi)
			last->hi = d.hi > last->hi ? d.hi : last->hi;
		else
			to[m++] = d;
	}
	return m;
}

enum sched_error sched_infer(struct sched *s)
{
	struct infer in = {.s = s};
	enum sched_error e = sched_check(s);
	uint32_t n = 0;

	if (e)
		return e;
	for (uint32_t i = 0; i < s->nsteps; i++)
		s->steps[i].dep = s->steps[i].ndep = 0;
	e = sched_conflicts(s, add_dep, &in);
	if (e) {
		free(in.deps.v);
		return e;
	}
	for (uint32_t i = 0; i < s->nsteps; i++) {
		struct sched_step *st = &s->steps[i];

		if (st->ndep)
			st->ndep = join_deps(&in.deps.v[n], &in.deps.v[st->dep], st->ndep);
		st->dep = n;
		n += st->ndep;
	}
	free(s->deps);
	s->deps = in.deps.v;
	s->ndeps = n;
	return SCHED_OK;
}
