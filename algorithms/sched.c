/*
 * The builder of schedules: see sched.h.
 */
#include <stdlib.h>
#include <string.h>

#include "algorithms/sched.h"
#include "algorithms/vec.h"

struct sched_builder {
	struct sched *s; /* takes shape: rank, size and buffers; the steps come at the end */
	const struct coll_args *args;
	struct coll_layout layout;
	bool shared;                /* input 0 and the output live in one buffer */
	uint64_t in_base, out_base; /* where their elements 0 lie in it */
	int lane;
	VEC(struct sched_step) steps;
	enum sched_error error; /* the first one stays */
};

static const char *const op_names[SCHED_OPS] = {
        "read", "write",  "send",         "recv",        "recv-reduce",
        "copy", "reduce", "local-reduce", "local-bcast",
};

const char *sched_op_name(unsigned op)
{
	return op < SCHED_OPS ? op_names[op] : "?";
}

const char *sched_strerror(enum sched_error e)
{
	switch (e) {
	case SCHED_OK:
		return "no error";
	case SCHED_NOMEM:
		return "out of memory";
	case SCHED_RANGE:
		return "a step reaches outside a buffer";
	case SCHED_PEER:
		return "a step's peer is not another rank of the job";
	case SCHED_OVERLAP:
		return "the operands of a step overlap";
	case SCHED_TYPE:
		return "a step's operation can't take its operands or flags";
	case SCHED_TOO_LARGE:
		return "the schedule is too large";
	}
	return "unknown error";
}

void coll_split(uint64_t n, int size, uint64_t *off)
{
	const uint64_t p = (uint64_t)size;

	for (uint64_t j = 0; j <= p; j++)
		off[j] = n / p * j + (j < n % p ? j : n % p);
}

struct coll_layout coll_layout(enum coll_kind kind, int rank, int size, int root)
{
	struct coll_layout x = {0, size, 0, size, true}; /* all in, all out */
	const bool is_root = rank == root;

	switch (kind) {
	case COLL_REDUCE:
		x.out_hi = is_root ? size : 0;
		break;
	case COLL_BROADCAST:
		x.in_hi = is_root ? size : 0;
		break;
	case COLL_REDUCE_SCATTER:
		x.out_lo = rank;
		x.out_hi = rank + 1;
		break;
	case COLL_SCATTER:
		x.in_hi = is_root ? size : 0;
		x.out_lo = rank;
		x.out_hi = rank + 1;
		break;
	case COLL_GATHER:
		x.in_lo = rank;
		x.in_hi = rank + 1;
		x.out_hi = is_root ? size : 0;
		break;
	case COLL_ALLGATHER:
		x.in_lo = rank;
		x.in_hi = rank + 1;
		break;
	case COLL_ALLTOALL:
		x.in_place = false;
		break;
	default:
		break;
	}
	return x;
}

/* ---- emitting ---- */

static void fail(struct sched_builder *b, enum sched_error e)
{
	if (!b->error)
		b->error = e;
}

struct sched_span sched_in(const struct sched_builder *b, int input, uint64_t off)
{
	if (input < 0 || input >= b->s->ninputs)
		return (struct sched_span){SCHED_NONE, off};
	if (b->shared)
		return (struct sched_span){(uint32_t)b->s->ninputs, b->in_base + off};
	return (struct sched_span){(uint32_t)input, off};
}

struct sched_span sched_out(const struct sched_builder *b, uint64_t off)
{
	return (struct sched_span){(uint32_t)b->s->ninputs, b->out_base + off};
}

struct sched_span sched_scratch(struct sched_builder *b, enum sched_type type, uint64_t len)
{
	struct sched *s = b->s;
	struct sched_buf *bufs;

	if (s->nbufs >= SCHED_NONE - 1) {
		fail(b, SCHED_TOO_LARGE);
		return (struct sched_span){SCHED_NONE, 0};
	}
	bufs = realloc(s->bufs, ((size_t)s->nbufs + 1) * sizeof(*bufs));
	if (!bufs) {
		fail(b, SCHED_NOMEM);
		return (struct sched_span){SCHED_NONE, 0};
	}
	s->bufs = bufs;
	s->bufs[s->nbufs] = (struct sched_buf){(uint8_t)type, SCHED_HOST, len};
	return (struct sched_span){s->nbufs++, 0};
}

void sched_lane(struct sched_builder *b, int lane)
{
	b->lane = lane;
}

static void add(struct sched_builder *b, enum sched_op op, int peer, struct sched_span dst,
                struct sched_span src, uint64_t len, unsigned flags)
{
	struct sched_step *st;

	if (b->error || !len)
		return;
	st = vec_push(&b->steps);
	if (!st) {
		fail(b, SCHED_NOMEM);
		return;
	}
	*st = (struct sched_step){
	        .op = (uint8_t)op,
	        .flags = (uint8_t)flags,
	        .peer = peer,
	        .lane = peer < 0 ? 0 : b->lane,
	        .dst = dst,
	        .src = src,
	        .len = len,
	};
	fail(b, flags & ~0xffu ? SCHED_TYPE : sched_check_step(b->s, st));
}

static const struct sched_span none = {SCHED_NONE, 0};

void sched_send(struct sched_builder *b, int peer, struct sched_span src, uint64_t len)
{
	add(b, SCHED_SEND, peer, none, src, len, 0);
}

void sched_recv(struct sched_builder *b, int peer, struct sched_span dst, uint64_t len)
{
	add(b, SCHED_RECV, peer, dst, none, len, 0);
}

void sched_recv_reduce(struct sched_builder *b, int peer, struct sched_span dst,
                       struct sched_span src, uint64_t len, unsigned flags)
{
	add(b, SCHED_RECV_REDUCE, peer, dst, src, len, flags);
}

void sched_copy(struct sched_builder *b, struct sched_span dst, struct sched_span src, uint64_t len,
                unsigned flags)
{
	if (dst.buf == src.buf && dst.off == src.off && !flags && dst.buf != SCHED_NONE)
		return;
	add(b, SCHED_COPY, -1, dst, src, len, flags);
}

void sched_reduce(struct sched_builder *b, struct sched_span dst, struct sched_span src,
                  uint64_t len, unsigned flags)
{
	add(b, SCHED_REDUCE, -1, dst, src, len, flags);
}

void sched_fold_inputs(struct sched_builder *b, struct sched_span dst, uint64_t off, uint64_t len)
{
	if (b->s->ninputs == 1)
		sched_copy(b, dst, sched_in(b, 0, off), len, 0);
	else
		add(b, SCHED_LOCAL_REDUCE, -1, dst, sched_in(b, 0, off), len, 0);
}

/* ---- the files' steps ---- */

/* A block of the input or output, and the step that decides when its turn is. */
struct turn {
	uint64_t when;
	int block;
};

static int cmp_turns(const void *pa, const void *pb)
{
	const struct turn *a = pa, *b = pb;

	if (a->when != b->when)
		return a->when < b->when ? -1 : 1;
	return a->block < b->block ? -1 : a->block > b->block;
}

/* The first block of [lo, hi) that ends behind element @pos. */
static int block_at(const uint64_t *off, int lo, int hi, uint64_t pos)
{
	while (lo < hi) {
		const int mid = lo + (hi - lo) / 2;

		if (off[mid + 1] <= pos)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* The emitted step @when touches @span: for the blocks [lo, hi), whose first element lies at @base,
 * keep the first such step (@first) or the last. */
static void touch(const struct sched_builder *b, struct turn *turns, int lo, int hi,
                  struct sched_span base, struct sched_span span, uint64_t len, uint64_t when,
                  bool first)
{
	const uint64_t *off = b->args->off;
	uint64_t at;

	if (span.buf != base.buf || span.off + len <= base.off)
		return;
	at = span.off > base.off ? span.off - base.off : 0;
	for (int j = block_at(off, lo, hi, off[lo] + at);
	     j < hi && off[j] - off[lo] + base.off < span.off + len; j++) {
		struct turn *t = &turns[j - lo];

		if (!first || t->when == UINT64_MAX)
			t->when = when;
	}
}

/* Add one READ per input and block, the block that is needed first in front. */
static void add_reads(struct sched_builder *b, size_t emitted, struct turn *turns)
{
	const int lo = b->layout.in_lo, hi = b->layout.in_hi;
	const uint64_t *off = b->args->off;

	for (int j = lo; j < hi; j++)
		turns[j - lo] = (struct turn){UINT64_MAX, j};
	for (size_t i = 0; i < emitted; i++) {
		const struct sched_step *st = &b->steps.v[i];
		const struct sched_span in = sched_in(b, 0, 0);

		touch(b, turns, lo, hi, in, st->dst, st->len, i, true);
		touch(b, turns, lo, hi, in, st->src, st->len, i, true);
	}
	qsort(turns, (size_t)(hi - lo), sizeof(*turns), cmp_turns);
	for (int k = 0; k < hi - lo; k++) {
		const int j = turns[k].block;
		const uint64_t at = off[j] - off[lo];

		for (int i = 0; i < b->s->ninputs; i++)
			add(b, SCHED_READ, -1, sched_in(b, i, at),
			    (struct sched_span){(uint32_t)i, at}, off[j + 1] - off[j], 0);
	}
}

/* Add one WRITE per output and block, the block that is complete first in front. */
static void add_writes(struct sched_builder *b, size_t emitted, struct turn *turns)
{
	const int lo = b->layout.out_lo, hi = b->layout.out_hi;
	const uint64_t *off = b->args->off;

	if (!b->s->noutputs)
		return;
	for (int j = lo; j < hi; j++)
		turns[j - lo] = (struct turn){0, j};
	for (size_t i = 0; i < emitted; i++) {
		const struct sched_step *st = &b->steps.v[i];

		if (st->op != SCHED_SEND)
			touch(b, turns, lo, hi, sched_out(b, 0), st->dst, st->len, i + 1, false);
	}
	qsort(turns, (size_t)(hi - lo), sizeof(*turns), cmp_turns);
	for (int k = 0; k < hi - lo; k++) {
		const int j = turns[k].block;
		const uint64_t at = off[j] - off[lo];

		for (int i = 0; i < b->s->noutputs; i++)
			add(b, SCHED_WRITE, -1, (struct sched_span){(uint32_t)i, at},
			    sched_out(b, at), off[j + 1] - off[j], 0);
	}
}

/* ---- from beginning to end ---- */

static enum sched_error check_args(const struct coll_args *a)
{
	if (a->size < 1 || a->rank < 0 || a->rank >= a->size || a->root < 0 || a->root >= a->size)
		return SCHED_PEER;
	if (a->ninputs < 1 || a->noutputs < 0 || a->off[0])
		return SCHED_RANGE;
	for (int j = 0; j < a->size; j++)
		if (a->off[j + 1] < a->off[j])
			return SCHED_RANGE;
	return a->off[a->size] > INT64_MAX ? SCHED_TOO_LARGE : SCHED_OK;
}

/* Lay out the inputs and the output, in one buffer where that can be. */
static void lay_out(struct sched_builder *b)
{
	const struct coll_layout x = b->layout;
	const uint64_t *off = b->args->off;
	const uint64_t nin = off[x.in_hi] - off[x.in_lo], nout = off[x.out_hi] - off[x.out_lo];
	const bool in_holds = x.out_lo == x.out_hi || (x.in_lo <= x.out_lo && x.out_hi <= x.in_hi);
	const bool out_holds = x.in_lo == x.in_hi || (x.out_lo <= x.in_lo && x.in_hi <= x.out_hi);

	b->shared = x.in_place && b->s->ninputs == 1 && (in_holds || out_holds);
	for (int i = 0; i < b->s->ninputs; i++)
		sched_scratch(b, SCHED_DATA, b->shared ? 0 : nin);
	sched_scratch(b, SCHED_DATA, b->shared && nin > nout ? nin : nout);
	if (b->shared && nin && nout) {
		b->in_base = off[x.in_lo] > off[x.out_lo] ? off[x.in_lo] - off[x.out_lo] : 0;
		b->out_base = off[x.out_lo] > off[x.in_lo] ? off[x.out_lo] - off[x.in_lo] : 0;
	}
}

static void emit(struct sched_builder *b, const struct coll_algorithm *alg)
{
	const struct coll_layout x = b->layout;

	if (b->args->size > 1)
		alg->emit(b, b->args);
	else
		sched_fold_inputs(b, sched_out(b, 0), 0,
		                  b->args->off[x.out_hi] - b->args->off[x.out_lo]);
}

/* The emitted steps with the READs, which were added last, in front. */
static void take_steps(struct sched_builder *b, size_t first_read, size_t nreads)
{
	struct sched *s = b->s;

	if (b->error)
		return;
	if (b->steps.n >= UINT32_MAX) {
		fail(b, SCHED_TOO_LARGE);
		return;
	}
	s->steps = calloc(b->steps.n + 1, sizeof(*s->steps));
	if (!s->steps) {
		fail(b, SCHED_NOMEM);
		return;
	}
	s->nsteps = (uint32_t)b->steps.n;
	for (size_t i = 0; i < b->steps.n; i++) {
		const bool is_read = i >= first_read && i < first_read + nreads;
		const size_t to = is_read ? i - first_read : i < first_read ? i + nreads : i;

		s->steps[to] = b->steps.v[i];
	}
}

static void build(struct sched_builder *b, const struct coll_algorithm *alg)
{
	struct turn *turns = calloc((size_t)b->args->size, sizeof(*turns));
	size_t emitted, reads;

	if (!turns) {
		fail(b, SCHED_NOMEM);
		return;
	}
	lay_out(b);
	if (!b->error)
		emit(b, alg);
	emitted = b->steps.n;
	add_reads(b, emitted, turns);
	reads = b->steps.n - emitted;
	add_writes(b, emitted, turns);
	take_steps(b, emitted, reads);
	if (!b->error)
		fail(b, sched_infer(b->s));
	free(turns);
}

struct sched *sched_build(const struct coll_algorithm *alg, const struct coll_args *args,
                          enum sched_error *error)
{
	struct sched_builder b = {.args = args, .error = check_args(args)};

	if (!b.error) {
		b.s = calloc(1, sizeof(*b.s));
		if (!b.s)
			b.error = SCHED_NOMEM;
	}
	if (!b.error) {
		b.layout = coll_layout(alg->kind, args->rank, args->size, args->root);
		b.s->rank = args->rank;
		b.s->size = args->size;
		b.s->ninputs = args->ninputs;
		b.s->noutputs = args->noutputs;
		b.s->final = args->size > 1 && (alg->flags & COLL_FINAL);
		build(&b, alg);
	}
	free(b.steps.v);
	*error = b.error;
	if (b.error) {
		sched_free(b.s);
		return NULL;
	}
	return b.s;
}

void sched_free(struct sched *s)
{
	if (!s)
		return;
	free(s->bufs);
	free(s->steps);
	free(s->deps);
	free(s);
}
