/*
 * The executor over in-memory lanes: all ranks in one process, advanced in seeded random order by
 * one thread. Every case runs once at ease (one window, one stream, unbounded lanes), is compared
 * with a scalar reference, and then under other windows, streams, lane capacities, quanta and
 * stalls, which must give the same bits. A failure names its seed and parameters;
 * COLLCTL_SEED=<seed> runs one property case again, COLLCTL_LONG=1 many more.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/exec/exec.h"

#define RANKS    16
#define STREAMS  3
#define INPUTS   3
#define PATIENCE 2000    /* rounds without a byte moving: stalls are over long before */
#ifdef COLLCTL_SANITIZED /* ten times slower: a smaller sample */
#define SAMPLE 40
#define STEP   3
#else
#define SAMPLE 250
#define STEP   1
#endif
#define WAKE_MS 20000 /* a file thread's word takes no longer */

/* ---- random numbers ---- */

static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

static uint64_t draw(uint64_t *state)
{
	return mix((*state)++);
}

static unsigned below(uint64_t *state, unsigned n)
{
	return (unsigned)(draw(state) % n);
}

/* ---- a case, and how it is run ---- */

struct problem {
	const struct coll_algorithm *alg;
	int size;
	enum dtype dtype;
	enum reduce_op op;
	bool ordered;
	uint64_t count;
	int inputs[RANKS]; /* of each rank */
	uint64_t seed;     /* of the values */
	uint64_t off[RANKS + 1];
	double divisor;
};

struct timing {
	uint32_t windows;
	int streams;
	size_t capacity, quantum;
	uint64_t seed;      /* of the order of ranks and, with stalls, of them */
	bool stalls, files; /* files: transfers on threads of their own */
	int repeats;        /* runs after the first, over lanes that stay open */
};

enum fault { FAULT_NONE, FAULT_FLIP, FAULT_CUT, FAULT_EXTRA };

struct world;

/* A lane's end with a counter, and with a fault where the test wants one. */
struct tap {
	struct conn conn;
	struct conn *inner;
	struct world *world;
	bool out;
	enum fault fault;
	uint64_t at, seen; /* byte of the fault, bytes that have passed */
};

struct place { /* of a rank in its world: the context of its callbacks */
	struct world *world;
	int rank;
};

struct world {
	const struct problem *p;
	struct timing t;
	struct place places[RANKS];
	struct exec *exec[RANKS];
	struct tap *taps[RANKS][RANKS][STREAMS][2]; /* from, to, stream, out */
	uint8_t *in[RANKS][INPUTS], *out[RANKS];
	uint64_t moved; /* bytes and ends that passed any lane */
	/* the fault, on stream 0 of one lane */
	enum fault fault;
	int fault_from, fault_to;
	uint64_t fault_at;
	int fail_read, fail_write; /* the rank whose file fails at its middle, or -1 */
	char text[400];
};

static const char *describe(struct world *w)
{
	const struct problem *p = w->p;
	int n = snprintf(w->text, sizeof w->text,
	                 "%s %s, P=%d, %s, %s%s, count %llu, seed %llu; W=%u K=%d capacity %zu "
	                 "quantum %zu timing seed %llu%s%s; inputs",
	                 coll_name(p->alg->kind), p->alg->name, p->size, dtype_name(p->dtype),
	                 reduce_op_name(p->op), p->ordered ? " in rank order" : "",
	                 (unsigned long long)p->count, (unsigned long long)p->seed, w->t.windows,
	                 w->t.streams, w->t.capacity, w->t.quantum, (unsigned long long)w->t.seed,
	                 w->t.stalls ? " stalls" : "", w->t.files ? " threads" : "");
	for (int r = 0; r < p->size && n < (int)sizeof w->text - 8; r++)
		n += snprintf(w->text + n, sizeof w->text - (size_t)n, " %d", p->inputs[r]);
	return w->text;
}

/* ---- lanes ---- */

static int tap_handshake(struct conn *c, struct err *err)
{
	return conn_handshake(((struct tap *)c)->inner, err);
}

static ssize_t tap_read(struct conn *c, void *buf, size_t n, struct err *err)
{
	struct tap *t = (struct tap *)c;
	if (t->fault == FAULT_CUT) {
		if (t->seen == t->at) {
			t->world->moved++;
			return CONN_END;
		}
		if (n > t->at - t->seen)
			n = t->at - t->seen;
	}
	ssize_t got = conn_read(t->inner, buf, n, err);
	if (got == CONN_END)
		t->world->moved++;
	if (got <= 0)
		return got;
	if (t->fault == FAULT_FLIP && t->at >= t->seen && t->at < t->seen + (uint64_t)got)
		((uint8_t *)buf)[t->at - t->seen] ^= 4;
	t->seen += (uint64_t)got;
	t->world->moved += (uint64_t)got;
	return got;
}

static ssize_t tap_write(struct conn *c, const void *buf, size_t n, struct err *err)
{
	struct tap *t = (struct tap *)c;
	ssize_t put = conn_write(t->inner, buf, n, err);
	if (put > 0)
		t->world->moved += (uint64_t)put;
	return put;
}

static int tap_flush(struct conn *c, struct err *err)
{
	return conn_flush(((struct tap *)c)->inner, err);
}

static int tap_end(struct conn *c, struct err *err)
{
	struct tap *t = (struct tap *)c;
	if (t->fault == FAULT_EXTRA && conn_write(t->inner, "x", 1, err) != 1)
		return 0;
	t->world->moved++;
	return conn_end(t->inner, err);
}

static void tap_free(struct conn *c)
{
	conn_free(((struct tap *)c)->inner);
	free(c);
}

static const struct conn_ops tap_ops = {
        .name = "tap",
        .handshake = tap_handshake,
        .read = tap_read,
        .write = tap_write,
        .flush = tap_flush,
        .end = tap_end,
        .free = tap_free,
};

static struct tap *tap_new(struct world *w, struct conn *inner, bool out)
{
	struct tap *t = calloc(1, sizeof *t);
	assert_non_null(t);
	*t = (struct tap){.conn = {.ops = &tap_ops, .fd = -1, .readable = true, .writable = true},
	                  .inner = inner,
	                  .world = w,
	                  .out = out};
	return t;
}

static struct conn *lane(void *ctx, int peer, bool out, int stream)
{
	struct place *at = ctx;
	struct world *w = at->world;
	int from = out ? at->rank : peer, to = out ? peer : at->rank;
	struct tap **pair = w->taps[from][to][stream];
	if (!pair[0]) {
		struct conn *writer, *reader;
		struct err err = {0};
		uint64_t id = (uint64_t)(from * 10000 + to * 100 + stream);
		uint64_t stalls = w->t.stalls ? mix(w->t.seed ^ id) | 1 : 0;
		/* Every transport takes at least one element: an exchange in place needs that. */
		size_t capacity = dtype_size(w->p->dtype);
		if (capacity < w->t.capacity)
			capacity = w->t.capacity;
		assert_int_equal(
		        conn_memory_pair(&writer, &reader, capacity, w->t.quantum, stalls, &err),
		        0);
		pair[1] = tap_new(w, writer, true);
		pair[0] = tap_new(w, reader, false);
		if (w->fault && from == w->fault_from && to == w->fault_to && stream == 0) {
			pair[w->fault == FAULT_EXTRA]->fault = w->fault;
			pair[w->fault == FAULT_EXTRA]->at = w->fault_at;
		}
	}
	return &pair[out]->conn;
}

/* ---- files ---- */

static int read_input(void *ctx, int input, void *buf, uint64_t pos, uint64_t n, struct err *err)
{
	const struct place *at = ctx;
	const struct problem *p = at->world->p;
	size_t esize = dtype_size(p->dtype);
	assert_true(input < p->inputs[at->rank] && pos + n <= p->count);
	if (at->rank == at->world->fail_read && pos + n > p->count / 2)
		return err_set(err, ERR_INPUT, "the input ends early");
	if (at->world->t.files)
		sched_yield();
	memcpy(buf, at->world->in[at->rank][input] + pos * esize, n * esize);
	return 0;
}

static int write_output(void *ctx, const void *buf, uint64_t pos, uint64_t n, bool final,
                        struct err *err)
{
	const struct place *at = ctx;
	const struct problem *p = at->world->p;
	size_t esize = dtype_size(p->dtype);
	uint8_t *to = at->world->out[at->rank] + pos * esize;
	assert_true(pos + n <= p->count);
	if (at->rank == at->world->fail_write && pos + n > p->count / 2)
		return err_set(err, ERR_OUTPUT, "the disk is full");
	if (at->world->t.files)
		sched_yield();
	if (final && p->op == REDUCE_AVG)
		final_kernel(p->dtype, p->dtype)(to, buf, p->divisor, n);
	else
		memcpy(to, buf, n * esize);
	return 0;
}

/* ---- values and the scalar reference ---- */

static double value_of(const void *p, enum dtype d)
{
	float f;
	double x;
	int32_t i;
	switch (d) {
	case DTYPE_F16:
	case DTYPE_BF16:
		convert_kernel(DTYPE_F32, d)(&f, p, 1);
		return (double)f;
	case DTYPE_F32:
		memcpy(&f, p, sizeof f);
		return (double)f;
	case DTYPE_F64:
		memcpy(&x, p, sizeof x);
		return x;
	case DTYPE_I32:
		memcpy(&i, p, sizeof i);
		return i;
	default:
		return *(const uint8_t *)p;
	}
}

/* Factors stay close to one, or the product of many would overflow the narrow types. */
static void make_value(const struct problem *p, uint64_t x, uint8_t *out)
{
	double unit = (double)(x >> 11) * 0x1p-53;
	double v = p->op == REDUCE_PROD ? 0.8 + 0.45 * unit : 4 * unit - 2;
	float f = (float)v;
	switch (p->dtype) {
	case DTYPE_F16:
	case DTYPE_BF16:
		convert_kernel(p->dtype, DTYPE_F32)(out, &f, 1);
		return;
	case DTYPE_F32:
		memcpy(out, &f, sizeof f);
		return;
	case DTYPE_F64:
		memcpy(out, &v, sizeof v);
		return;
	default:
		memcpy(out, &x, dtype_size(p->dtype));
	}
}

static double roundoff(enum dtype d)
{
	switch (d) {
	case DTYPE_BF16:
		return 0x1p-8;
	case DTYPE_F16:
		return 0x1p-11;
	case DTYPE_F32:
		return 0x1p-24;
	default:
		return 0x1p-53;
	}
}

static uint64_t combine(enum reduce_op op, enum dtype d, uint64_t a, uint64_t b)
{
	bool less = d == DTYPE_I32 ? (int32_t)a < (int32_t)b : a < b;
	switch (op) {
	case REDUCE_SUM:
		return a + b;
	case REDUCE_PROD:
		return a * b;
	case REDUCE_MIN:
		return less ? a : b;
	case REDUCE_MAX:
		return less ? b : a;
	case REDUCE_BAND:
		return a & b;
	case REDUCE_BOR:
		return a | b;
	default:
		return a ^ b;
	}
}

static void check_integer(struct world *w, uint64_t i)
{
	const struct problem *p = w->p;
	size_t esize = dtype_size(p->dtype);
	uint64_t want = 0, got = 0, mask = esize == 1 ? 0xff : 0xffffffff;
	bool first = true;
	for (int r = 0; r < p->size; r++)
		for (int k = 0; k < p->inputs[r]; k++, first = false) {
			uint64_t x = 0;
			memcpy(&x, w->in[r][k] + i * esize, esize);
			want = first ? x : combine(p->op, p->dtype, want, x) & mask;
		}
	memcpy(&got, w->out[0] + i * esize, esize);
	if (got != want)
		fail_msg("element %llu is %llx, not %llx: %s", (unsigned long long)i,
		         (unsigned long long)got, (unsigned long long)want, describe(w));
}

static void check_float(struct world *w, uint64_t i)
{
	const struct problem *p = w->p;
	size_t esize = dtype_size(p->dtype);
	long double want = p->op == REDUCE_PROD ? 1 : 0, sum_abs = 0;
	bool first = true;
	int terms = 0;
	for (int r = 0; r < p->size; r++)
		for (int k = 0; k < p->inputs[r]; k++, first = false, terms++) {
			long double x = value_of(w->in[r][k] + i * esize, p->dtype);
			if (p->op == REDUCE_SUM || p->op == REDUCE_AVG)
				want += x;
			else if (p->op == REDUCE_PROD)
				want *= x;
			else if (first || (p->op == REDUCE_MIN ? x < want : x > want))
				want = x;
			sum_abs += fabsl(x);
		}
	double got = value_of(w->out[0] + i * esize, p->dtype);
	long double slack = 0;
	if (p->op == REDUCE_PROD)
		slack = fabsl(want) * (terms + 2) * 1.05L * roundoff(p->dtype);
	else if (p->op == REDUCE_SUM || p->op == REDUCE_AVG)
		slack = sum_abs * (terms + 2) * 1.05L * roundoff(p->dtype) + terms * 0x1p-25L;
	if (p->op == REDUCE_AVG) {
		want /= p->divisor;
		slack /= p->divisor;
	}
	if (!(fabsl((long double)got - want) <= slack))
		fail_msg("element %llu is %.17g, not %.17Lg: %s", (unsigned long long)i, got, want,
		         describe(w));
}

/* --order rank: the very bits of a sum in f64 in rank order, rounded once. */
static void check_ordered(struct world *w, uint64_t i)
{
	const struct problem *p = w->p;
	size_t esize = dtype_size(p->dtype);
	uint8_t want[8];
	double sum = value_of(w->in[0][0] + i * esize, p->dtype);
	for (int r = 1; r < p->size; r++) {
		double x = value_of(w->in[r][0] + i * esize, p->dtype);
		sum = p->op == REDUCE_PROD ? sum * x : sum + x;
	}
	if (p->op == REDUCE_AVG)
		sum /= p->divisor;
	convert_kernel(p->dtype, DTYPE_F64)(want, &sum, 1);
	if (memcmp(want, w->out[0] + i * esize, esize) != 0)
		fail_msg("element %llu is %.17g, not %.17g: %s", (unsigned long long)i,
		         value_of(w->out[0] + i * esize, p->dtype), value_of(want, p->dtype),
		         describe(w));
}

static void check_values(struct world *w)
{
	const struct problem *p = w->p;
	for (uint64_t i = 0; i < p->count; i++)
		if (p->ordered)
			check_ordered(w, i);
		else if (dtype_is_float(p->dtype))
			check_float(w, i);
		else
			check_integer(w, i);
}

/* ---- running ---- */

static void world_init(struct world *w, const struct problem *p, const struct timing *t)
{
	size_t esize = dtype_size(p->dtype);
	*w = (struct world){.p = p, .t = *t, .fail_read = -1, .fail_write = -1};
	for (int r = 0; r < p->size; r++) {
		w->places[r] = (struct place){w, r};
		for (int k = 0; k < p->inputs[r]; k++) {
			w->in[r][k] = malloc(p->count * esize + 1);
			for (uint64_t i = 0; i < p->count; i++)
				make_value(p, mix(p->seed ^ mix((uint64_t)(r * 64 + k) << 32 | i)),
				           w->in[r][k] + i * esize);
		}
		w->out[r] = malloc(p->count * esize + 1);
		memset(w->out[r], 0xa5, p->count * esize + 1);
	}
}

static void world_free(struct world *w)
{
	for (int r = 0; r < w->p->size; r++) {
		exec_free(w->exec[r]);
		for (int k = 0; k < INPUTS; k++)
			free(w->in[r][k]);
		free(w->out[r]);
	}
	for (int from = 0; from < RANKS; from++)
		for (int to = 0; to < RANKS; to++)
			for (int k = 0; k < STREAMS; k++)
				for (int out = 0; out < 2; out++)
					if (w->taps[from][to][k][out])
						conn_free(&w->taps[from][to][k][out]->conn);
}

static void start(struct world *w)
{
	const struct problem *p = w->p;
	for (int r = 0; r < p->size; r++) {
		struct err err = {0};
		struct exec_conf conf = {
		        .algorithm = p->alg,
		        .args = {.rank = r,
		                 .size = p->size,
		                 .ninputs = p->inputs[r],
		                 .noutputs = 1,
		                 .off = p->off},
		        .op = p->op,
		        .dtype = p->dtype,
		        .ordered = p->ordered,
		        .divisor = p->divisor,
		        .windows = w->t.windows,
		        .streams = w->t.streams,
		        .io = {read_input, write_output, &w->places[r], dtype_size(p->dtype)},
		        .threads = w->t.files,
		        .repeat = w->t.repeats > 0,
		        .conn = lane,
		        .conn_ctx = &w->places[r],
		};
		w->exec[r] = exec_new(&conf, &err);
		if (!w->exec[r])
			fail_msg("exec_new: %s: %s", err.text, describe(w));
	}
}

static uint64_t progress(const struct world *w)
{
	uint64_t n = w->moved;
	for (int r = 0; r < w->p->size; r++) {
		struct exec_stats s;
		exec_stats(w->exec[r], &s);
		n += s.bytes_moved;
	}
	return n;
}

static void drain_fd(int fd)
{
	uint64_t n;
	if (fd >= 0)
		(void)!read(fd, &n, sizeof n);
}

/* Nothing moves any more but, perhaps, files: one of them must wake somebody. */
static void wait_for_files(struct world *w)
{
	struct pollfd fds[RANKS];
	for (int r = 0; r < w->p->size; r++)
		fds[r] = (struct pollfd){exec_fd(w->exec[r]), POLLIN, 0};
	if (poll(fds, (nfds_t)w->p->size, WAKE_MS) <= 0)
		fail_msg("nobody was woken: %s", describe(w));
}

/* Advance all ranks until they have finished (0), or one fails: -1, and which in *failed. */
static int play(struct world *w, int *failed, struct err *err)
{
	int size = w->p->size, order[RANKS], runs[RANKS] = {0}, idle = 0, left = size;
	bool done[RANKS] = {false};
	uint64_t state = w->t.seed, before = 0;
	for (int r = 0; r < size; r++)
		order[r] = r;
	while (left) {
		for (int i = size - 1; i > 0; i--) {
			int k = (int)below(&state, (unsigned)i + 1), swap = order[i];
			order[i] = order[k];
			order[k] = swap;
		}
		for (int i = 0; i < size; i++) {
			int r = order[i];
			if (done[r])
				continue;
			drain_fd(exec_fd(w->exec[r]));
			int ret = exec_advance(w->exec[r], err);
			if (ret < 0) {
				*failed = r;
				return -1;
			}
			done[r] = ret == 1 && runs[r] == w->t.repeats;
			left -= done[r];
			if (ret == 1 && !done[r]) {
				runs[r]++;
				memset(w->out[r], 0, w->p->count * dtype_size(w->p->dtype));
				exec_repeat(w->exec[r]);
			}
		}
		uint64_t now = progress(w);
		idle = now == before ? idle + 1 : 0;
		before = now;
		if (idle && left && w->t.files && !w->t.stalls)
			wait_for_files(w);
		else if (idle > PATIENCE)
			fail_msg("deadlock: %s", describe(w));
	}
	return 0;
}

/* An algorithm whose operand order differs by rank says so, and may round differently. */
static bool same_everywhere(const struct problem *p)
{
	bool rounds = dtype_is_float(p->dtype) &&
	              (p->op == REDUCE_SUM || p->op == REDUCE_AVG || p->op == REDUCE_PROD);
	return !(rounds && (p->alg->flags & COLL_DIVERGENT));
}

static void run(struct world *w, const struct problem *p, const struct timing *t)
{
	struct err err = {0};
	int failed = -1;
	world_init(w, p, t);
	start(w);
	if (play(w, &failed, &err) < 0)
		fail_msg("rank %d failed (%d): %s: %s", failed, err.code, err.text, describe(w));
	for (int r = 1; same_everywhere(p) && r < p->size; r++)
		if (memcmp(w->out[r], w->out[0], p->count * dtype_size(p->dtype)) != 0)
			fail_msg("rank %d's result differs from rank 0's: %s", r, describe(w));
	for (int r = 0; r < p->size; r++)
		assert_int_equal(w->out[r][p->count * dtype_size(p->dtype)], 0xa5);
}

static const struct timing at_ease = {.windows = 1, .streams = 1, .capacity = 1u << 20, .seed = 1};

/* The case at ease, and the same again under @t: the same bits. */
static void try(const struct problem *p, const struct timing *t, int n)
{
	static struct world easy, other;
	run(&easy, p, &at_ease);
	check_values(&easy);
	for (int i = 0; i < n; i++) {
		run(&other, p, &t[i]);
		for (int r = 0; r < p->size; r++)
			if (memcmp(other.out[r], easy.out[r], p->count * dtype_size(p->dtype)) != 0)
				fail_msg("rank %d has other bits than at ease: %s", r,
				         describe(&other));
		world_free(&other);
	}
	world_free(&easy);
}

/* ---- making cases ---- */

static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16,
                                    DTYPE_I32, DTYPE_U8,   DTYPE_F64};
#define NDTYPES (sizeof dtypes / sizeof dtypes[0])

static uint64_t pick_count(uint64_t *state, int size)
{
	static const uint64_t primes[] = {2, 7, 97, 101, 509, 1009};
	switch (below(state, 7)) {
	case 0:
		return 0;
	case 1:
		return 1;
	case 2:
		return (uint64_t)size - 1;
	case 3:
		return (uint64_t)size;
	case 4:
		return 2000 + below(state, 3000);
	default:
		return primes[below(state, 6)];
	}
}

static struct timing pick_timing(uint64_t *state, uint64_t bytes)
{
	static const size_t capacities[] = {1, 2, 3, 5, 7, 16, 61, 256, 4096, 65536};
	static const size_t quanta[] = {1, 3, 0, 0, 0, 1000};
	struct timing t = {
	        .windows = 1 + below(state, 5),
	        .streams = 1 + (int)below(state, STREAMS),
	        .capacity = capacities[below(state, 10)],
	        .quantum = quanta[below(state, 6)],
	        .stalls = below(state, 2),
	};
	/* A byte at a time is for small vectors: it costs a round a byte. */
	size_t least = bytes / 2000;
	if (t.capacity < least)
		t.capacity = least;
	if (t.quantum && t.quantum < least)
		t.quantum = least;
	t.seed = draw(state) >> 40;
	return t;
}

static void problem_fill(struct problem *p, uint64_t *state, int size, int most_inputs)
{
	p->size = size;
	p->divisor = 0;
	for (int r = 0; r < size; r++) {
		p->inputs[r] = 1 + (int)below(state, (unsigned)most_inputs);
		p->divisor += p->inputs[r];
	}
	coll_split(p->count, size, p->off);
}

/* Uneven blocks, with empty ones among them: emitters take any. */
static void uneven(struct problem *p, uint64_t *state)
{
	uint64_t cuts[RANKS + 1] = {0};
	for (int j = 1; j < p->size; j++)
		cuts[j] = draw(state) % (p->count + 1);
	cuts[p->size] = p->count;
	for (int j = 1; j < p->size; j++)
		for (int k = j; k > 1 && cuts[k - 1] > cuts[k]; k--) {
			uint64_t x = cuts[k];
			cuts[k] = cuts[k - 1];
			cuts[k - 1] = x;
		}
	memcpy(p->off, cuts, sizeof cuts);
}

static const int sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16};

/* ---- tests ---- */

static void every_algorithm_type_and_operation(void **state)
{
	uint64_t seed = 7;
	(void)state;
	for (size_t a = 0; a < coll_algorithms_len; a++) {
		const struct coll_algorithm *alg = &coll_algorithms[a];
		if (alg->kind != COLL_ALLREDUCE)
			continue;
		for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s += STEP)
			for (size_t d = 0; d < NDTYPES; d++)
				for (unsigned op = (unsigned)d % STEP; op < REDUCE_OPS;
				     op += STEP) {
					struct problem p = {.alg = alg,
					                    .dtype = dtypes[d],
					                    .op = (enum reduce_op)op,
					                    .seed = draw(&seed) >> 40};
					if (!reduce_op_defined(p.op, p.dtype))
						continue;
					p.count = 40 + below(&seed, 60);
					problem_fill(&p, &seed, sizes[s], INPUTS);
					struct timing t = pick_timing(&seed, p.count * 8);
					try(&p, &t, 1);
				}
	}
}

static void one_property(uint64_t seed)
{
	uint64_t state = seed * 1000003;
	struct problem p = {.seed = seed};
	do
		p.alg = &coll_algorithms[below(&state, (unsigned)coll_algorithms_len)];
	while (p.alg->kind != COLL_ALLREDUCE);
	do {
		p.dtype = dtypes[below(&state, NDTYPES)];
		p.op = (enum reduce_op)below(&state, REDUCE_OPS);
	} while (!reduce_op_defined(p.op, p.dtype));
	int size = sizes[below(&state, 10)];
	p.count = pick_count(&state, size);
	p.ordered = (p.alg->flags & COLL_ORDERED) && dtype_is_float(p.dtype) &&
	            (p.op == REDUCE_SUM || p.op == REDUCE_AVG || p.op == REDUCE_PROD) &&
	            below(&state, 2);
	problem_fill(&p, &state, size, p.ordered ? 1 : INPUTS);
	if (below(&state, 3) == 0)
		uneven(&p, &state);
	struct timing t[4];
	for (int i = 0; i < 4; i++)
		t[i] = pick_timing(&state, p.count * dtype_size(p.dtype));
	try(&p, t, 4);
}

static bool long_run(void)
{
	const char *s = getenv("COLLCTL_LONG");
	return s && s[0] && strcmp(s, "0") != 0;
}

static void any_timing_gives_the_same_bits(void **state)
{
	const char *one = getenv("COLLCTL_SEED");
	uint64_t n = long_run() ? 20000 : SAMPLE;
	(void)state;
	if (one) {
		one_property(strtoull(one, NULL, 10));
		return;
	}
	for (uint64_t seed = 1; seed <= n; seed++)
		one_property(seed);
}

static void lanes_of_one_element(void **state)
{
	(void)state;
	for (size_t a = 0; a < coll_algorithms_len; a++)
		for (int size = 2; size <= 9; size++) {
			uint64_t seed = 5;
			struct problem p = {.alg = &coll_algorithms[a],
			                    .dtype = DTYPE_F64,
			                    .op = REDUCE_SUM,
			                    .count = 3 * (uint64_t)size + 1,
			                    .seed = 3};
			if (p.alg->kind != COLL_ALLREDUCE)
				continue;
			problem_fill(&p, &seed, size, 2);
			struct timing t[] = {{.windows = 1, .streams = 1, .capacity = 1, .seed = 1},
			                     {.windows = 3, .streams = 2, .capacity = 1, .seed = 2},
			                     {.windows = 5,
			                      .streams = 3,
			                      .capacity = 1,
			                      .quantum = 1,
			                      .stalls = true,
			                      .seed = 3}};
			try(&p, t, 3);
		}
}

/* More windows than elements: most are empty. */
static void windows_without_elements(void **state)
{
	(void)state;
	for (size_t a = 0; a < coll_algorithms_len; a++)
		for (uint64_t count = 0; count < 7; count++) {
			uint64_t seed = 9;
			struct problem p = {.alg = &coll_algorithms[a],
			                    .dtype = DTYPE_I32,
			                    .op = REDUCE_SUM,
			                    .count = count,
			                    .seed = 3};
			if (p.alg->kind != COLL_ALLREDUCE)
				continue;
			problem_fill(&p, &seed, 5, 2);
			struct timing t[] = {
			        {.windows = 5, .streams = 3, .capacity = 64, .seed = 1},
			        {.windows = 2, .streams = 3, .capacity = 64, .seed = 2}};
			try(&p, t, 2);
		}
}

/* Vectors larger than a lane's turn, a conversion's piece and a writer's quantum. */
static void large_vectors(void **state)
{
	(void)state;
	for (size_t a = 0; a < coll_algorithms_len; a++)
		for (int d = 0; d < 2; d++) {
			uint64_t seed = 11;
			struct problem p = {.alg = &coll_algorithms[a],
			                    .dtype = d ? DTYPE_BF16 : DTYPE_F32,
			                    .op = d ? REDUCE_AVG : REDUCE_SUM,
			                    .count = 500009,
			                    .seed = 3};
			if (p.alg->kind != COLL_ALLREDUCE)
				continue;
			problem_fill(&p, &seed, 3, 2);
			struct timing t = {.windows = 4,
			                   .streams = 2,
			                   .capacity = 70001,
			                   .stalls = true,
			                   .seed = 1};
			try(&p, &t, 1);
		}
}

static void files_on_threads(void **state)
{
	uint64_t seed = 21;
	(void)state;
	for (size_t a = 0; a < coll_algorithms_len; a++)
		for (int i = 0; i < (long_run() ? 200 : 6); i++) {
			struct problem p = {.alg = &coll_algorithms[a],
			                    .dtype = dtypes[below(&seed, NDTYPES)],
			                    .op = REDUCE_MAX,
			                    .count = i ? pick_count(&seed, 4) : 300007,
			                    .seed = draw(&seed) >> 40};
			if (p.alg->kind != COLL_ALLREDUCE)
				continue;
			if (reduce_op_defined(REDUCE_AVG, p.dtype))
				p.op = REDUCE_AVG;
			problem_fill(&p, &seed, 1 + (int)below(&seed, 5), INPUTS);
			struct timing t[2];
			for (int k = 0; k < 2; k++) {
				t[k] = pick_timing(&seed, p.count * dtype_size(p.dtype));
				t[k].files = true;
				t[k].stalls = false; /* only files may wake */
			}
			try(&p, t, 2);
		}
}

static void a_barrier_is_one_element(void **state)
{
	(void)state;
	for (size_t a = 0; a < coll_algorithms_len; a++)
		for (int size = 1; size <= RANKS; size++) {
			static struct world w;
			struct err err = {0};
			int failed = -1;
			struct problem p = {.alg = &coll_algorithms[a],
			                    .size = size,
			                    .dtype = DTYPE_U8,
			                    .op = REDUCE_BAND,
			                    .count = 1,
			                    .seed = 1};
			struct timing t = {.windows = 1,
			                   .streams = 1,
			                   .capacity = 1,
			                   .stalls = true,
			                   .seed = (uint64_t)size};
			if (p.alg->kind != COLL_BARRIER)
				continue;
			for (int j = 1; j <= size; j++)
				p.off[j] = 1;
			for (int r = 0; r < size; r++)
				p.inputs[r] = 1;
			world_init(&w, &p, &t);
			start(&w);
			/* Nobody may pass before the last has come: it is held back. */
			int late = size / 2;
			for (int round = 0; round < 50 * size; round++)
				for (int r = 0; r < size; r++)
					if (r != late && exec_advance(w.exec[r], &err) == 1)
						fail_msg("rank %d passed without rank %d: %s", r,
						         late, describe(&w));
			if (play(&w, &failed, &err) < 0)
				fail_msg("%s: %s", err.text, describe(&w));
			check_values(&w);
			world_free(&w);
		}
}

/* ---- faults ---- */

/* Run @p with a fault on the lane from -> to: rank @to must fail with ERR_INTEGRITY and blame
 * @from. */
static void must_notice(const struct problem *p, const struct timing *t, enum fault fault, int from,
                        int to, uint64_t at)
{
	static struct world w;
	struct err err = {0};
	int failed = -1;
	world_init(&w, p, t);
	w.fault = fault;
	w.fault_from = from;
	w.fault_to = to;
	w.fault_at = at;
	start(&w);
	if (play(&w, &failed, &err) == 0)
		fail_msg("fault %d at byte %llu from %d to %d went unnoticed: %s", fault,
		         (unsigned long long)at, from, to, describe(&w));
	if (failed != to || err.code != ERR_INTEGRITY || err.rank != from)
		fail_msg("fault %d at %llu from %d to %d: rank %d says %d, rank %d: %s: %s", fault,
		         (unsigned long long)at, from, to, failed, err.code, err.rank, err.text,
		         describe(&w));
	world_free(&w);
}

/* Bytes that go from @from to @to on stream 0. */
static uint64_t lane_bytes(const struct problem *p, const struct timing *t, int from, int to)
{
	static struct world w;
	run(&w, p, t);
	uint64_t n = w.taps[from][to][0][0] ? w.taps[from][to][0][0]->seen : 0;
	world_free(&w);
	return n;
}

static void a_damaged_lane_is_noticed(void **state)
{
	(void)state;
	for (size_t a = 0; a < coll_algorithms_len; a++) {
		uint64_t seed = 3;
		struct problem p = {.alg = &coll_algorithms[a],
		                    .dtype = DTYPE_F32,
		                    .op = REDUCE_SUM,
		                    .count = 11,
		                    .seed = 3};
		struct timing t = {.windows = 2, .streams = 2, .capacity = 4096, .seed = 5};
		int lanes = 0;
		if (p.alg->kind != COLL_ALLREDUCE)
			continue;
		problem_fill(&p, &seed, 3, 1);
		for (int from = 0; from < 3; from++)
			for (int to = 0; to < 3; to++) {
				uint64_t n = from == to ? 0 : lane_bytes(&p, &t, from, to);
				for (uint64_t at = 0; at < n; at++) {
					must_notice(&p, &t, FAULT_FLIP, from, to, at);
					must_notice(&p, &t, FAULT_CUT, from, to, at);
				}
				if (n)
					must_notice(&p, &t, FAULT_EXTRA, from, to, 0);
				lanes += n > 0;
			}
		assert_true(lanes >= 3);
	}
}

static void a_failing_file_fails_its_rank(void **state)
{
	(void)state;
	for (int i = 0; i < 8; i++) {
		static struct world w;
		uint64_t seed = 3;
		bool reading = i & 1;
		struct err err = {0};
		int failed = -1;
		struct problem p = {.alg = coll_find(COLL_ALLREDUCE, "ring_chunked"),
		                    .dtype = DTYPE_F32,
		                    .op = REDUCE_SUM,
		                    .count = i & 4 ? 400009 : 1009,
		                    .seed = 3};
		struct timing t = {.windows = 3,
		                   .streams = 2,
		                   .capacity = 4096,
		                   .files = i & 2,
		                   .seed = (uint64_t)i};
		problem_fill(&p, &seed, 3, 2);
		world_init(&w, &p, &t);
		*(reading ? &w.fail_read : &w.fail_write) = 1;
		start(&w);
		assert_int_equal(play(&w, &failed, &err), -1);
		assert_int_equal(failed, 1);
		assert_int_equal(err.code, reading ? ERR_INPUT : ERR_OUTPUT);
		assert_int_equal(err.rank, ERR_RANK_SELF);
		world_free(&w);
	}
}

/* Again and again over the same lanes, each rank as soon as it has finished. */
static void a_schedule_is_repeated(void **state)
{
	uint64_t seed = 11;
	(void)state;
	for (size_t a = 0; a < coll_algorithms_len; a++) {
		const struct coll_algorithm *alg = &coll_algorithms[a];
		if (alg->kind != COLL_ALLREDUCE)
			continue;
		for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s += STEP) {
			struct problem p = {.alg = alg,
			                    .dtype = dtypes[s % NDTYPES],
			                    .op = REDUCE_SUM,
			                    .count = 50 + below(&seed, 500),
			                    .seed = seed};
			struct timing t = pick_timing(&seed, 2000);
			problem_fill(&p, &seed, sizes[s], 2);
			t.windows = 1;
			t.streams = 1;
			t.repeats = 4;
			try(&p, &t, 1);
		}
	}
}

/* Who is waited for: those whose data is due. */
static void it_says_whom_it_waits_for(void **state)
{
	static struct world w;
	uint64_t seed = 3;
	struct err err = {0};
	struct problem p = {.alg = coll_find(COLL_ALLREDUCE, "ring_chunked"),
	                    .dtype = DTYPE_F32,
	                    .op = REDUCE_SUM,
	                    .count = 100,
	                    .seed = 3};
	int peers[8];
	(void)state;
	problem_fill(&p, &seed, 4, 1);
	world_init(&w, &p, &at_ease);
	start(&w);
	for (int i = 0; i < 10; i++)
		for (int r = 0; r < 3; r++)
			assert_int_equal(exec_advance(w.exec[r], &err), 0);
	assert_int_equal(exec_waits_for(w.exec[0], peers, 8), 1);
	assert_int_equal(peers[0], 3);
	world_free(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(every_algorithm_type_and_operation),
	        cmocka_unit_test(any_timing_gives_the_same_bits),
	        cmocka_unit_test(lanes_of_one_element),
	        cmocka_unit_test(windows_without_elements),
	        cmocka_unit_test(large_vectors),
	        cmocka_unit_test(files_on_threads),
	        cmocka_unit_test(a_barrier_is_one_element),
	        cmocka_unit_test(a_damaged_lane_is_noticed),
	        cmocka_unit_test(a_failing_file_fails_its_rank),
	        cmocka_unit_test(a_schedule_is_repeated),
	        cmocka_unit_test(it_says_whom_it_waits_for),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
