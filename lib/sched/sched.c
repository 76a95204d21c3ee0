/*
 * Builds schedules. See sched.h.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/base/vec.h"
#include "lib/sched/sched.h"
#include "lib/sched/turns.h"

struct sched_builder {
	struct sched
	        *s; /* under construction: rank, size and buffers; the steps are added at the end */
	const struct coll_args *args;
	enum coll_kind kind;
	struct coll_layout layout;
	uint64_t nin, nout;         /* elements of an input and of the output */
	int ninputs;                /* as the emitter sees them */
	uint32_t first;             /* buffer of the emitter's input 0 */
	bool shared;                /* the emitter's input 0 and its output share a buffer */
	bool back;                  /* lifted: the output is copied to device 0 ... */
	uint32_t output;            /* ... into this buffer */
	uint64_t in_base, out_base; /* offsets of their elements 0 in that buffer */
	struct sched_span work;     /* buf SCHED_NONE: not used yet */
	VEC(struct sched_step) steps;
	VEC(void *) memory;     /* sched_memory */
	enum sched_error error; /* the first error */
};

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
	case SCHED_STEPS:
		return "the ranks do not fall into blocks of 2^steps";
	case SCHED_TYPE:
		return "a step's operation can't take its operands or flags";
	case SCHED_PLACE:
		return "a step's operation can't access the memory of its operands";
	case SCHED_TOO_LARGE:
		return "the schedule is too large";
	}
	return "unknown error";
}

/* ---- emitting ---- */

static void fail(struct sched_builder *b, enum sched_error e)
{
	if (!b->error)
		b->error = e;
}

void *sched_memory(struct sched_builder *b, size_t n, size_t size)
{
	void **at = vec_push(&b->memory);

	if (at)
		*at = calloc(n, size);
	if (!at || !*at)
		fail(b, SCHED_NOMEM);
	return at ? *at : NULL;
}

struct sched_span sched_in(const struct sched_builder *b, int input, uint64_t off)
{
	if (input < 0 || input >= b->ninputs)
		return (struct sched_span){SCHED_NONE, off};
	if (b->shared)
		return (struct sched_span){b->first + (uint32_t)b->ninputs, b->in_base + off};
	return (struct sched_span){b->first + (uint32_t)input, off};
}

struct sched_span sched_out(const struct sched_builder *b, uint64_t off)
{
	return (struct sched_span){b->first + (uint32_t)b->ninputs, b->out_base + off};
}

static struct sched_span add_buf(struct sched_builder *b, enum sched_type type, unsigned place,
                                 uint64_t len)
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
	s->bufs[s->nbufs] = (struct sched_buf){(uint8_t)type, (uint8_t)place, len};
	return (struct sched_span){s->nbufs++, 0};
}

struct sched_span sched_scratch(struct sched_builder *b, enum sched_type type, uint64_t len)
{
	return add_buf(b, type, 0, len);
}

struct sched_span sched_work(struct sched_builder *b)
{
	const uint64_t n = coll_count(b->args);

	if (b->work.buf == SCHED_NONE && b->shared)
		b->work = (struct sched_span){b->first + (uint32_t)b->ninputs, 0};
	else if (b->work.buf == SCHED_NONE && b->nout == n)
		b->work = sched_out(b, 0);
	if (b->work.buf == SCHED_NONE || b->s->bufs[b->work.buf].len < n)
		b->work = sched_scratch(b, SCHED_DATA, n);
	return b->work;
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

void sched_identity(struct sched_builder *b, struct sched_span dst, uint64_t len)
{
	add(b, SCHED_IDENTITY, -1, dst, none, len, 0);
}

void sched_fold_inputs(struct sched_builder *b, struct sched_span dst, uint64_t off, uint64_t len)
{
	if (b->ninputs == 1)
		sched_copy(b, dst, sched_in(b, 0, off), len, 0);
	else
		add(b, SCHED_LOCAL_REDUCE, -1, dst, sched_in(b, 0, off), len, 0);
}

void sched_joint(struct sched_builder *b, struct sched_span dst, struct sched_span src,
                 uint64_t len)
{
	add(b, SCHED_JOINT, -1, dst, src, len, 0);
}

/* ---- READ and WRITE steps ---- */

/* The rank's input @i at element @off: on its device or, without devices, the emitter's. */
static struct sched_span input_at(const struct sched_builder *b, int i, uint64_t off)
{
	if (!b->s->lifted)
		return sched_in(b, i, off);
	if (b->back && b->shared && b->s->ninputs == 1)
		return (struct sched_span){1, b->in_base + off};
	return (struct sched_span){(uint32_t)i, off};
}

/* The sum of all inputs, on device 0. */
static struct sched_span folded_at(const struct sched_builder *b, uint64_t off)
{
	if (b->back && b->shared)
		return (struct sched_span){b->output, b->in_base + off};
	return (struct sched_span){0, off};
}

/* The turns of the emitter's input (@first) or output; one if copies do not overlap other steps. */
static struct turn *turns(const struct sched_builder *b, size_t emitted, bool first, size_t *n)
{
	const uint64_t len = first ? b->nin : b->nout;
	struct turn *one;

	if (!b->s->apart)
		return turns_of(b->steps.v, emitted, first ? sched_in(b, 0, 0) : sched_out(b, 0),
		                len, first, n);
	one = calloc(1, sizeof(*one));
	*n = one ? 1 : 0;
	if (one)
		*one = (struct turn){0, len, 1};
	return one;
}

/* Add one READ per input and turn, in the order in which elements are needed. With devices, fold
 * what was read and copy it to the emitter's input, also what no step uses if it is a part of the
 * output that a WRITE takes from there. */
static void add_reads(struct sched_builder *b, size_t emitted)
{
	size_t n = 0;
	struct turn *t = b->nin ? turns(b, emitted, true, &n) : NULL;

	if (b->nin && !t)
		fail(b, SCHED_NOMEM);
	for (size_t k = 0; t && k < n; k++) {
		const uint64_t lo = t[k].lo, len = t[k].hi - lo;

		for (int i = 0; i < b->s->ninputs; i++)
			add(b, SCHED_READ, -1, input_at(b, i, lo),
			    (struct sched_span){(uint32_t)i, lo}, len, 0);
		if (b->s->lifted && b->s->ninputs > 1)
			add(b, SCHED_LOCAL_REDUCE, -1, folded_at(b, lo), input_at(b, 0, lo), len,
			    0);
		if (b->s->lifted && (t[k].when != TURN_NEVER || (b->shared && !b->back)))
			sched_copy(b, sched_in(b, 0, lo), folded_at(b, lo), len, 0);
	}
	free(t);
}

/* Add one WRITE per turn, in the order in which elements are complete. With devices they are
 * written from host memory, too; if no file takes them, those that the emitter changed are copied
 * to device 0. */
static void add_writes(struct sched_builder *b, size_t emitted)
{
	const bool any = b->nout && (b->s->stores || b->back);
	size_t n = 0;
	struct turn *t = any ? turns(b, emitted, false, &n) : NULL;

	if (any && !t)
		fail(b, SCHED_NOMEM);
	for (size_t k = 0; t && k < n; k++) {
		const uint64_t lo = t[k].lo, len = t[k].hi - lo;

		if (b->s->stores)
			add(b, SCHED_WRITE, -1, (struct sched_span){0, lo}, sched_out(b, lo), len,
			    0);
		else if (t[k].when || !b->shared)
			sched_copy(b, (struct sched_span){b->output, b->out_base + lo},
			           sched_out(b, lo), len, 0);
	}
	free(t);
}

/* ---- building ---- */

static bool ascends(const uint64_t *off, int size)
{
	for (int j = 0; j < size; j++)
		if (off[j] > off[j + 1])
			return false;
	return true;
}

/* Are the hosts numbered by their first rank? */
static bool numbered(const int *host, int size)
{
	int hosts = 0;

	for (int r = 0; r < size; r++) {
		if (host[r] < 0 || host[r] > hosts)
			return false;
		hosts += host[r] == hosts;
	}
	return true;
}

/* The schedules of a joint operation use host memory alone. */
static enum sched_error check_joint(enum coll_kind kind, const struct coll_args *a)
{
	if (!coll_takes_several(kind))
		return SCHED_TYPE;
	for (int r = 0; r < a->size; r++)
		if (!a->joint[r])
			return SCHED_RANGE;
	if (coll_contributions(a) > UINT16_MAX)
		return SCHED_TOO_LARGE;
	return a->devices ? SCHED_PLACE : SCHED_OK;
}

enum sched_error sched_check_args(enum coll_kind kind, const struct coll_args *a)
{
	if (a->size < 1 || a->rank < 0 || a->rank >= a->size || a->root < 0 || a->root >= a->size)
		return SCHED_PEER;
	if (a->joint && check_joint(kind, a))
		return check_joint(kind, a);
	if ((!a->joint && a->ninputs < 1) || a->off[0] || a->devices < 0 || a->devices > UINT8_MAX)
		return SCHED_RANGE;
	if (!a->checked &&
	    (!ascends(a->off, a->size) || (a->recv_off && !ascends(a->recv_off, a->size))))
		return SCHED_RANGE;
	if (!a->checked && a->host && !numbered(a->host, a->size))
		return SCHED_RANGE;
	if (kind == COLL_EXCHANGE && a->size > 1 &&
	    (a->steps < 1 || a->steps > 30 || a->size % (1 << a->steps)))
		return SCHED_STEPS;
	return a->off[a->size] > INT64_MAX ? SCHED_TOO_LARGE : SCHED_OK;
}

/* Add the buffers of @ninputs inputs and of the output, in one buffer if they are @shared: that of
 * the output, or the first of several inputs, which are folded into it. A buffer of the output
 * alone has @nout elements. They are on @devices devices; 0: in host memory. */
static void add_bufs(struct sched_builder *b, int ninputs, bool shared, int devices, uint64_t nout)
{
	const uint64_t longer = b->nin > b->nout ? b->nin : b->nout;
	const bool several = shared && ninputs > 1;
	const unsigned first = devices ? 1 : 0;
	const int spread = b->args->unlinked ? 1 : devices;

	for (int i = 0; i < ninputs; i++)
		add_buf(b, SCHED_DATA, devices ? first + (unsigned)(i % spread) : 0,
		        several && i == 0        ? longer
		        : shared && ninputs == 1 ? 0
		                                 : b->nin);
	add_buf(b, SCHED_DATA, first, several ? 0 : shared ? longer : nout);
}

/* Lay out the inputs and the output, in one buffer if possible. */
static void lay_out(struct sched_builder *b)
{
	const struct coll_layout x = b->layout;
	const uint64_t *off = b->args->off;
	const bool in_holds = x.out_lo == x.out_hi || (x.in_lo <= x.out_lo && x.out_hi <= x.in_hi);
	const bool out_holds = x.in_lo == x.in_hi || (x.out_lo <= x.in_lo && x.in_hi <= x.out_hi);
	const bool lifts = b->args->devices && b->args->size > 1;

	b->nin = coll_in_at(b->kind, b->args, x.in_hi);
	b->nout = coll_out_at(b->kind, b->args, x.out_hi);
	b->ninputs = lifts ? 1 : b->s->ninputs;
	b->shared = x.in_place && b->ninputs == 1 && (in_holds || out_holds);
	if (b->shared && b->nin && b->nout) {
		b->in_base = off[x.in_lo] > off[x.out_lo] ? off[x.in_lo] - off[x.out_lo] : 0;
		b->out_base = off[x.out_lo] > off[x.in_lo] ? off[x.out_lo] - off[x.in_lo] : 0;
	}
	b->back = lifts && !b->s->stores;
	if (lifts && !b->back)
		add_bufs(b, b->s->ninputs, false, b->args->devices, 0);
	else if (b->args->devices)
		add_bufs(b, b->s->ninputs, b->shared, b->args->devices, b->nout);
	b->output = b->shared && b->s->ninputs > 1 ? 0 : (uint32_t)b->s->ninputs;
	if (lifts)
		b->first = b->s->lifted = b->s->nbufs;
	if (lifts || !b->args->devices)
		add_bufs(b, b->ninputs, b->shared, 0, b->nout);
}

static void emit(struct sched_builder *b, const struct coll_algorithm *alg)
{
	if (b->args->size > 1)
		alg->emit(b, b->args);
	else if (alg->kind == COLL_EXSCAN)
		sched_identity(b, sched_out(b, 0), b->nout);
	else if (b->args->joint && b->ninputs > 1)
		sched_joint(b, sched_out(b, 0), sched_in(b, 0, 0), b->nout);
	else
		sched_fold_inputs(b, sched_out(b, 0), 0, b->nout);
}

/* Add @n of the builder's steps, from @first on, to the schedule's. */
static void put_steps(struct sched_builder *b, size_t first, size_t n)
{
	struct sched *s = b->s;

	if (n)
		memcpy(s->steps + s->nsteps, b->steps.v + first, n * sizeof(*s->steps));
	s->nsteps += (uint32_t)n;
}

/* The schedule's steps: the READs first, then the emitted steps, then the WRITEs. The builder has
 * @emitted steps, then @nreads READs, then the WRITEs. */
static void take_steps(struct sched_builder *b, size_t emitted, size_t nreads)
{
	const size_t added = emitted + nreads;
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
	put_steps(b, emitted, nreads);
	put_steps(b, 0, emitted);
	put_steps(b, added, b->steps.n - added);
}

/* @whole: with READ and WRITE steps and dependencies. */
static void build(struct sched_builder *b, const struct coll_algorithm *alg, bool whole)
{
	size_t emitted, reads;

	lay_out(b);
	if (!b->error)
		emit(b, alg);
	emitted = b->steps.n;
	if (!b->error && whole && !b->args->loaded)
		add_reads(b, emitted);
	reads = b->steps.n - emitted;
	if (!b->error && whole)
		add_writes(b, emitted);
	take_steps(b, emitted, reads);
	if (!b->error && whole)
		fail(b, sched_infer(b->s));
}

static struct sched *build_or_emit(const struct coll_algorithm *alg, const struct coll_args *args,
                                   bool whole, enum sched_error *error)
{
	struct sched_builder b = {.args = args, .work = {SCHED_NONE, 0}};

	b.s = calloc(1, sizeof(*b.s));
	if (!b.s) {
		b.error = SCHED_NOMEM;
	} else {
		b.kind = alg->kind;
		b.layout = coll_layout(alg->kind, args->rank, args->size, args->root);
		b.s->rank = args->rank;
		b.s->size = args->size;
		b.s->ninputs = coll_inputs(args, args->rank);
		b.s->njoint = (uint32_t)coll_contributions(args);
		b.s->stores = args->stores;
		b.s->final = args->size > 1 && (alg->flags & COLL_FINAL) && !args->joint;
		b.s->apart = args->size > 1 && args->devices && (alg->flags & COLL_APART);
		build(&b, alg, whole);
	}
	free(b.steps.v);
	for (size_t i = 0; i < b.memory.n; i++)
		free(b.memory.v[i]);
	free(b.memory.v);
	*error = b.error;
	if (b.error) {
		sched_free(b.s);
		return NULL;
	}
	return b.s;
}

struct sched *sched_build(const struct coll_algorithm *alg, const struct coll_args *args,
                          enum sched_error *error)
{
	return build_or_emit(alg, args, true, error);
}

struct sched *sched_emit(const struct coll_algorithm *alg, const struct coll_args *args,
                         enum sched_error *error)
{
	return build_or_emit(alg, args, false, error);
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
