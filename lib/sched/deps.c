/*
 * Infers the dependencies between the steps of a schedule from the elements that they access.
 *
 * 1. Every boundary of a span divides its buffer, so that each step covers whole segments. All
 *    boundaries are known in advance: segments are never split, and a binary search finds them.
 * 2. The steps are walked in list order. A segment knows its last writer and the readers since:
 *    a reader conflicts with the writer (RAW), a writer with those readers (WAR) or, where there
 *    are none, with the writer before it (WAW). All other conflicts follow from these, element by
 *    element.
 * 3. Adjacent conflicts of one step with the same earlier step at the same shift are merged: these
 *    are its dependencies.
 */
#include <string.h>

#include "lib/base/vec.h"
#include "lib/sched/sched.h"

/* ---- the elements that a step accesses ---- */

/* INPUTS: every input, at src.off; JOINT: every contribution, in the buffers from src.buf on */
enum { SRC = 1, DST = 2, INPUTS = 4, JOINT = 8 };

static const struct operation {
	const char *name;
	unsigned reads, flags; /* buffers that it reads; flags that it may have */
	bool writes;           /* dst */
	bool wire;
	bool data; /* its operands have type SCHED_DATA */
	bool host; /* its operands are in host memory */
} operations[SCHED_OPS] = {
        [SCHED_READ] = {"read", .writes = true, .data = true},
        [SCHED_WRITE] = {"write", .reads = SRC, .data = true},
        [SCHED_SEND] = {"send", .reads = SRC, .wire = true, .data = true, .host = true},
        [SCHED_RECV] = {"recv", .writes = true, .wire = true, .host = true},
        [SCHED_RECV_REDUCE] = {"recv-reduce", .reads = SRC, .flags = SCHED_FINAL | SCHED_WIRE_LEFT,
                               .writes = true, .wire = true, .host = true},
        [SCHED_COPY] = {"copy", .reads = SRC, .flags = SCHED_FINAL, .writes = true},
        [SCHED_REDUCE] = {"reduce", .reads = DST | SRC, .flags = SCHED_FINAL | SCHED_WIRE_LEFT,
                          .writes = true, .host = true},
        [SCHED_LOCAL_REDUCE] = {"local-reduce", INPUTS, .writes = true},
        [SCHED_JOINT] = {"joint", JOINT, .writes = true, .data = true, .host = true},
        [SCHED_IDENTITY] = {"identity", .writes = true},
};

const char *sched_op_name(unsigned op)
{
	return op < SCHED_OPS ? operations[op].name : "?";
}

/* The number of spans that @st reads, and the @k-th of them. */
static int reads(const struct sched *s, const struct sched_step *st)
{
	const unsigned r = operations[st->op].reads;

	if (r & JOINT)
		return (int)s->njoint;
	return r & INPUTS ? s->ninputs : !!(r & SRC) + !!(r & DST);
}

static struct sched_span step_read(const struct sched_step *st, int k)
{
	const unsigned r = operations[st->op].reads;

	if (r & INPUTS)
		return (struct sched_span){(uint32_t)k, st->src.off};
	if (r & JOINT)
		return (struct sched_span){st->src.buf + (uint32_t)k, st->src.off};
	return (r & DST) && k == 0 ? st->dst : st->src;
}

static bool writes(const struct sched_step *st)
{
	return operations[st->op].writes;
}

/* ---- checking a step ---- */

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

static bool is_data(const struct sched *s, struct sched_span span)
{
	return s->bufs[span.buf].type == SCHED_DATA;
}

static unsigned place_of(const struct sched *s, struct sched_span span)
{
	return s->bufs[span.buf].place;
}

/* A copy that leaves its place changes nothing; a fold is on devices alone or in host memory. */
static bool places_fit(const struct sched *s, const struct sched_step *st)
{
	const struct operation *o = &operations[st->op];

	for (int k = 0; k < reads(s, st); k++) {
		const struct sched_span r = step_read(st, k);

		if (o->host && place_of(s, r))
			return false;
		if (st->op == SCHED_LOCAL_REDUCE && !place_of(s, r) != !place_of(s, st->dst))
			return false;
		if (st->op == SCHED_COPY && place_of(s, r) != place_of(s, st->dst) &&
		    (st->flags || is_data(s, r) != is_data(s, st->dst)))
			return false;
	}
	return !o->host || !o->writes || !place_of(s, st->dst);
}

static enum sched_error check_operands(const struct sched *s, const struct sched_step *st)
{
	const struct operation *o = &operations[st->op];
	bool data = true;

	if (o->writes && !in_range(s, st->dst, st->len))
		return SCHED_RANGE;
	if (o->writes)
		data = is_data(s, st->dst);
	for (int k = 0; k < reads(s, st); k++) {
		const struct sched_span r = step_read(st, k);

		if (!in_range(s, r, st->len))
			return SCHED_RANGE;
		if (o->writes && !apart_or_same(r, st->dst, st->len))
			return SCHED_OVERLAP;
		data = data && is_data(s, r);
	}
	if ((o->data && !data) || (st->flags & ~o->flags))
		return SCHED_TYPE;
	return places_fit(s, st) ? SCHED_OK : SCHED_PLACE;
}

enum sched_error sched_check_step(const struct sched *s, const struct sched_step *st)
{
	if (st->op >= SCHED_OPS)
		return SCHED_TYPE;
	if (!st->len)
		return SCHED_RANGE;
	if (st->op == SCHED_JOINT && (!s->njoint || st->src.buf > UINT32_MAX - s->njoint))
		return SCHED_TYPE;
	if (st->op == SCHED_READ && st->src.buf >= (uint32_t)s->ninputs)
		return SCHED_RANGE;
	if (st->op == SCHED_WRITE && (!s->stores || st->dst.buf))
		return SCHED_RANGE;
	if (operations[st->op].wire ? st->peer < 0 || st->peer >= s->size || st->peer == s->rank
	                            : st->peer != -1)
		return SCHED_PEER;
	return check_operands(s, st);
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
	uint64_t off;        /* offset of the step's element 0 in the buffer */
};

#define NOBODY UINT32_MAX

struct segment {
	struct sched_span at; /* extends to the next segment of the buffer */
	uint32_t writer, readers;
	uint64_t writer_off;
};

struct walk {
	VEC(struct sched_span) cuts; /* the boundaries */
	struct segment *segs;
	size_t nsegs;
	VEC(struct reader) pool;
	enum sched_error (*visit)(void *ctx, const struct sched_conflict *);
	void *ctx;
};

static bool before(struct sched_span a, struct sched_span b)
{
	return a.buf != b.buf ? a.buf < b.buf : a.off < b.off;
}

/* Sort @v[n]; @space: [n / 2]. plan does it for each rank, and qsort would call a function per
 * comparison.
 */
static void sort(struct sched_span *v, size_t n, struct sched_span *space)
{
	const size_t half = n / 2;
	size_t i = 0, j = half, k = 0;

	if (n < 2)
		return;
	sort(v, half, space);
	sort(v + half, n - half, space);
	if (!before(v[half], v[half - 1]))
		return;
	memcpy(space, v, half * sizeof(*v));
	while (i < half)
		v[k++] = j < n && before(v[j], space[i]) ? v[j++] : space[i++];
}

static enum sched_error cut(struct walk *w, struct sched_span span, uint64_t len)
{
	for (int end = 0; end < 2; end++) {
		struct sched_span *at = vec_push(&w->cuts);

		if (!at)
			return SCHED_NOMEM;
		*at = span_add(span, end ? len : 0);
	}
	return SCHED_OK;
}

static enum sched_error cut_all(struct walk *w, const struct sched *s)
{
	enum sched_error e = SCHED_OK;

	for (uint32_t i = 0; i < s->nsteps && !e; i++) {
		const struct sched_step *st = &s->steps[i];

		if (writes(st))
			e = cut(w, st->dst, st->len);
		for (int k = 0; k < reads(s, st) && !e; k++)
			e = cut(w, step_read(st, k), st->len);
	}
	return e;
}

/* Between two different boundaries is a segment. */
static enum sched_error make_segments(struct walk *w)
{
	const size_t n = w->cuts.n;
	struct sched_span *space = calloc(n / 2 + 1, sizeof(*space));

	w->segs = calloc(n + 1, sizeof(*w->segs));
	if (space)
		sort(w->cuts.v, n, space);
	for (size_t i = 0; i < n && w->segs; i++)
		if (i == 0 || before(w->cuts.v[i - 1], w->cuts.v[i]))
			w->segs[w->nsegs++] = (struct segment){w->cuts.v[i], NOBODY, NOBODY, 0};
	free(space);
	return space && w->segs ? SCHED_OK : SCHED_NOMEM;
}

/* The segment that begins at @span, which is a boundary. */
static struct segment *find(const struct walk *w, struct sched_span span)
{
	size_t lo = 0, n = w->nsegs;

	while (n > 1) {
		const size_t half = n / 2;

		if (!before(span, w->segs[lo + half].at))
			lo += half;
		n -= half;
	}
	return &w->segs[lo];
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

	if (!e)
		e = make_segments(&w);
	for (uint32_t i = 0; i < s->nsteps && !e; i++) {
		const struct sched_step *st = &s->steps[i];

		for (int k = 0; k < reads(s, st) && !e; k++)
			e = note_read(&w, i, step_read(st, k), st->len);
		if (!e && writes(st))
			e = note_write(&w, i, st->dst, st->len);
	}
	free(w.cuts.v);
	free(w.segs);
	free(w.pool.v);
	return e;
}

/* ---- dependencies ---- */

uint64_t sched_limit(const struct sched *s, uint32_t i, const uint64_t *done)
{
	const struct sched_step *st = &s->steps[i];
	int64_t limit = (int64_t)st->len;

	for (uint32_t k = 0; k < st->ndep; k++) {
		const struct sched_dep *d = &s->deps[st->dep + k];
		const int64_t at = (int64_t)done[d->step], lo = (int64_t)d->lo;
		const int64_t reach = at - d->shift > lo ? at - d->shift : lo;

		if (at < (int64_t)d->hi + d->shift && reach < limit)
			limit = reach;
	}
	return (uint64_t)limit;
}

struct infer {
	struct sched *s;
	VEC(struct sched_dep) deps;
};

static bool crosses(const struct sched *s, const struct sched_step *st)
{
	return st->op == SCHED_COPY && place_of(s, st->src) != place_of(s, st->dst);
}

/* Of the elements of a conflict, those that wait; if one of the two must not overlap the other, the
 * first element waits for the last. */
static struct sched_dep dep_of(const struct sched *s, const struct sched_conflict *c)
{
	const struct sched_step *earlier = &s->steps[c->earlier];

	if (s->apart && (crosses(s, earlier) || crosses(s, &s->steps[c->later])))
		return (struct sched_dep){c->earlier, 0, 1, (int64_t)earlier->len - 1};
	return (struct sched_dep){c->earlier, c->lo, c->hi, c->shift};
}

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
	*d = dep_of(in->s, c);
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

/* Merge adjacent dependencies of one step and move them to @to. Returns their number. */
static uint32_t join_deps(struct sched_dep *to, struct sched_dep *from, uint32_t n)
{
	uint32_t m = 0;

	if (n > 1)
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
