/*
 * All ranks of a collective in one process, over in-memory lanes: advanced in seeded random order
 * by one thread, with files in memory too. Lanes have a counter, and a fault where a test wants
 * one.
 */
#ifndef COLLCTL_TESTS_EXEC_WORLD_H
#define COLLCTL_TESTS_EXEC_WORLD_H

#include <math.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/exec/exec.h"
#include "tests/unit/conn_memory.h"
#include "tests/unit/exec_loans.h"

#define RANKS    16
#define TRACED   4096 /* events of a rank with a trace */
#define STREAMS  3
#define INPUTS   3
#define PARTS    5
#define PATIENCE 2000  /* rounds without a byte moving: stalls are over long before */
#define WAKE_MS  20000 /* a file thread's word takes no longer */

/* ---- random numbers ---- */

static inline uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

static inline uint64_t draw(uint64_t *state)
{
	return mix((*state)++);
}

static inline unsigned below(uint64_t *state, unsigned n)
{
	return (unsigned)(draw(state) % n);
}

/* ---- a case, and how it is run ---- */

struct problem {
	const struct coll_algorithm *alg;
	int size, root;
	unsigned base, steps;
	enum dtype dtype;
	enum reduce_op op;
	bool ordered;
	uint64_t count;    /* of the blocks, altogether */
	int inputs[RANKS]; /* of each rank */
	uint64_t seed;     /* of the values */
	uint64_t off[RANKS + 1];
	bool uneven; /* an alltoall of parts as @parts says: off and recv_off of each rank */
	uint64_t parts[RANKS][2][RANKS + 1];
	double divisor, trim;
	bool mute[RANKS]; /* ranks that write nothing */
	bool placed;      /* the ranks' hosts are known: */
	int host[RANKS];
};

/* A job of several parts. */
struct list {
	int n;
	struct problem parts[PARTS];
	uint32_t windows[PARTS];
	/* Not the first: the part's ranks in the job, ascending; none: all. */
	int ranks[PARTS][RANKS];
	bool grouped[PARTS];
};

struct timing {
	uint32_t windows; /* where a list doesn't say */
	int streams;
	size_t capacity, quantum;
	uint64_t seed;      /* of the order of ranks and, with stalls, of them */
	bool stalls, files; /* files: each transfer on a thread */
	bool lends, lies;   /* lanes lend, or do as if all were consumed at once */
	size_t piece;       /* of coded lanes; 0: they are not coded */
	bool hung_up;       /* the sockets of receiving lanes have ended: all bytes are there */
	int repeats;        /* runs after the first, over lanes that stay open */
	const struct memory_space *const *devices; /* [ndevices]; NULL: none. Rank r uses
	                                              r mod (ndevices + 1) of them */
	int ndevices;
	bool (*turn)(void); /* a turn of the loop between the ranks': did or will it move? */
};

enum fault { FAULT_NONE, FAULT_FLIP, FAULT_CUT, FAULT_EXTRA, FAULT_RESET };

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

/* A part of a world's job: its files are in memory, of the problem's type. */
struct part_files {
	const struct problem *p;
	const int *ranks; /* [p->size] of the job; NULL: all */
	struct world *world;
	uint32_t windows;
	uint8_t *in[RANKS][INPUTS], *out[RANKS];
};

struct world {
	struct part_files parts[PARTS];
	int nparts, size;
	struct exec_vector asked[RANKS][PARTS];
	struct timing t;
	struct place places[RANKS];
	struct exec *exec[RANKS];
	struct trace traces[RANKS];
	struct tap *taps[RANKS][RANKS][STREAMS][2]; /* from, to, stream, out */
	uint64_t first;                             /* the window with which the executors begin */
	uint64_t moved;                             /* bytes and ends that passed any lane */
	/* the fault, on stream 0 of one lane */
	enum fault fault;
	int fault_from, fault_to;
	uint64_t fault_at;
	int fail_read, fail_write; /* the rank whose file fails at its middle, or -1 */
	int fail_part;
	char text[PARTS * 400];
};

/* ---- what a case asks of a rank ---- */

static inline struct coll_args args_of(const struct problem *p, int r)
{
	return (struct coll_args){.rank = r,
	                          .size = p->size,
	                          .root = p->root,
	                          .ninputs = p->inputs[r],
	                          .joint = reduce_is_joint(p->op) ? (const uint32_t *)p->inputs
	                                                          : NULL,
	                          .stores = !p->mute[r],
	                          .off = p->uneven ? p->parts[r][0] : p->off,
	                          .recv_off = p->uneven ? p->parts[r][1] : NULL,
	                          .host = p->placed ? p->host : NULL,
	                          .ordered = p->ordered,
	                          .base = p->base,
	                          .steps = p->steps};
}

static inline struct coll_layout layout_of(const struct problem *p, int r)
{
	return coll_layout(p->alg->kind, r, p->size, p->root);
}

/* Elements of an input, and of the output, of rank @r. */
static inline uint64_t input_len(const struct problem *p, int r)
{
	struct coll_args a = args_of(p, r);
	return coll_in_at(p->alg->kind, &a, layout_of(p, r).in_hi);
}

static inline uint64_t output_len(const struct problem *p, int r)
{
	struct coll_args a = args_of(p, r);
	return coll_out_at(p->alg->kind, &a, layout_of(p, r).out_hi);
}

/* The type of the buffers and the wire: in rank order nothing is rounded on its way. */
static inline enum dtype wire_of(const struct problem *p)
{
	bool folds = false;
	for (int r = 0; r < p->size; r++)
		folds |= p->inputs[r] > 1;
	return p->ordered && (folds || (p->alg->flags & COLL_PARTIALS))
	               ? reduce_acc_dtype(p->op, p->dtype, true)
	               : p->dtype;
}

static inline int describe_part(const struct part_files *f, char *text, size_t size)
{
	const struct problem *p = f->p;
	int n = snprintf(text, size,
	                 "; %s %s, root %d, base %u, %u steps, %s, %s%s, seed %llu, W=%u; "
	                 "inputs, blocks%s:",
	                 coll_name(p->alg->kind), p->alg->name, p->root, p->base, p->steps,
	                 dtype_name(p->dtype), reduce_op_name(p->op),
	                 p->ordered ? " in rank order" : "", (unsigned long long)p->seed,
	                 f->windows, p->uneven ? " of a matrix" : "");
	for (int r = 0; r < p->size && n < (int)size - 40; r++)
		n += snprintf(text + n, size - (size_t)n, " %d,%llu", p->inputs[r],
		              (unsigned long long)(p->off[r + 1] - p->off[r]));
	for (int r = 0; p->placed && r < p->size && n < (int)size - 40; r++)
		n += snprintf(text + n, size - (size_t)n, "%s %d", r ? "" : "; hosts", p->host[r]);
	return n;
}

static inline const char *describe(struct world *w)
{
	size_t n = (size_t)snprintf(w->text, sizeof w->text,
	                            "P=%d K=%d capacity %zu quantum %zu piece %zu timing seed "
	                            "%llu%s%s%s",
	                            w->size, w->t.streams, w->t.capacity, w->t.quantum, w->t.piece,
	                            (unsigned long long)w->t.seed, w->t.stalls ? " stalls" : "",
	                            w->t.files ? " threads" : "", w->t.lends ? " lent" : "");
	for (int k = 0; k < w->nparts && n < sizeof w->text - 300; k++)
		n += (size_t)describe_part(&w->parts[k], w->text + n, sizeof w->text - n);
	return w->text;
}

/* ---- lanes ---- */

static inline int tap_handshake(struct conn *c, struct err *err)
{
	return conn_handshake(((struct tap *)c)->inner, err);
}

/* Does the stream end here? Else no more than *@n bytes come before its end. */
static inline bool tap_is_cut(struct tap *t, size_t *n)
{
	if (t->fault != FAULT_CUT && t->fault != FAULT_RESET)
		return false;
	if (*n > t->at - t->seen)
		*n = t->at - t->seen;
	t->world->moved += t->seen == t->at;
	return t->seen == t->at;
}

static inline ssize_t tap_broken(const struct tap *t, struct err *err)
{
	return t->fault == FAULT_CUT ? CONN_END : err_set(err, ERR_PEER_LOST, "reset");
}

static inline ssize_t tap_read(struct conn *c, void *buf, size_t n, struct err *err)
{
	struct tap *t = (struct tap *)c;
	if (tap_is_cut(t, &n))
		return tap_broken(t, err);
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

static inline ssize_t tap_write(struct conn *c, const void *buf, size_t n, struct err *err)
{
	struct tap *t = (struct tap *)c;
	ssize_t put = conn_write(t->inner, buf, n, err);
	if (put > 0)
		t->world->moved += (uint64_t)put;
	return put;
}

static inline int tap_flush(struct conn *c, struct err *err)
{
	return conn_flush(((struct tap *)c)->inner, err);
}

static inline int tap_end(struct conn *c, struct err *err)
{
	struct tap *t = (struct tap *)c;
	if (t->fault == FAULT_EXTRA && conn_write(t->inner, "x", 1, err) != 1)
		return 0;
	t->world->moved++;
	return conn_end(t->inner, err);
}

static inline void tap_free(struct conn *c)
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

static inline bool tap_reaches(const struct conn *c, const void *p, size_t n)
{
	const struct tap *t = (const struct tap *)c;
	return t->inner->ops->lending->reaches(t->inner, p, n);
}

static inline ssize_t tap_lend(struct conn *c, const void *p, size_t n, struct err *err)
{
	struct tap *t = (struct tap *)c;
	ssize_t put = t->inner->ops->lending->lend(t->inner, p, n, err);
	if (put > 0) {
		t->world->moved += (uint64_t)put;
		conn_count_out(c, (uint64_t)put);
	}
	return put;
}

static inline ssize_t tap_copy(struct conn *c, const void *buf, size_t n, struct err *err)
{
	ssize_t put = tap_write(c, buf, n, err);
	if (put > 0)
		conn_count_out(c, (uint64_t)put);
	return put;
}

static inline int64_t tap_consumed(struct conn *c, struct err *err)
{
	struct tap *t = (struct tap *)c;
	return t->inner->ops->lending->consumed(t->inner, err);
}

static inline ssize_t tap_borrow(struct conn *c, const void **p, size_t n, struct err *err)
{
	struct tap *t = (struct tap *)c;
	if (tap_is_cut(t, &n))
		return tap_broken(t, err);
	return t->inner->ops->lending->borrow(t->inner, p, n, err);
}

static inline void tap_give_back(struct conn *c, size_t n)
{
	struct tap *t = (struct tap *)c;
	t->world->moved += n;
	t->seen += n;
	t->inner->ops->lending->give_back(t->inner, n);
}

static const struct conn_lending tap_lending = {
        .least = LOANS_LEAST,
        .reaches = tap_reaches,
        .lend = tap_lend,
        .consumed = tap_consumed,
        .borrow = tap_borrow,
        .give_back = tap_give_back,
};

static const struct conn_ops lending_tap_ops = {
        .name = "lending tap",
        .sums = true,
        .handshake = tap_handshake,
        .read = tap_read,
        .write = tap_copy,
        .flush = tap_flush,
        .end = tap_end,
        .free = tap_free,
        .lending = &tap_lending,
};

static inline struct tap *tap_new(struct world *w, struct conn *inner, bool out)
{
	struct tap *t = calloc(1, sizeof *t);
	assert_non_null(t);
	const struct conn_ops *ops = inner->ops->lending ? &lending_tap_ops : &tap_ops;
	*t = (struct tap){.conn = {.ops = ops, .fd = -1, .readable = true, .writable = true},
	                  .inner = inner,
	                  .world = w,
	                  .out = out};
	return t;
}

/* Bytes of the largest element on the wire. */
static inline size_t largest_element(const struct world *w)
{
	size_t most = 0;
	for (int k = 0; k < w->nparts; k++)
		if (dtype_size(wire_of(w->parts[k].p)) > most)
			most = dtype_size(wire_of(w->parts[k].p));
	return most;
}

static inline struct conn *lane(void *ctx, int peer, bool out, int stream)
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
		size_t capacity = largest_element(w);
		if (capacity < w->t.capacity)
			capacity = w->t.capacity;
		if (w->t.lends)
			loans_pair(&writer, &reader, capacity, largest_element(w), w->t.quantum,
			           stalls, w->t.lies);
		else
			assert_int_equal(conn_memory_pair(&writer, &reader, capacity, w->t.quantum,
			                                  stalls, &err),
			                 0);
		pair[1] = tap_new(w, writer, true);
		pair[0] = tap_new(w, reader, false);
		pair[0]->conn.hung_up = w->t.hung_up;
		if (w->fault && from == w->fault_from && to == w->fault_to && stream == 0) {
			pair[w->fault == FAULT_EXTRA]->fault = w->fault;
			pair[w->fault == FAULT_EXTRA]->at = w->fault_at;
		}
	}
	return &pair[out]->conn;
}

/* ---- files ---- */

/* The number of the job's rank @r in the part; -1: it does not take part. */
static inline int number_in(const struct part_files *f, int r)
{
	for (int k = 0; f->ranks && k < f->p->size; k++)
		if (f->ranks[k] == r)
			return k;
	return f->ranks ? -1 : r;
}

static inline int read_input(void *ctx, int part, int input, void *buf, uint64_t pos, uint64_t n,
                             struct err *err)
{
	const struct place *at = ctx;
	const struct part_files *f = &at->world->parts[part];
	const struct problem *p = f->p;
	const int r = number_in(f, at->rank);
	assert_true(r >= 0);
	uint64_t len = input_len(p, r);
	assert_true(input < p->inputs[r] && pos + n <= len);
	if (at->rank == at->world->fail_read && part == at->world->fail_part && pos + n > len / 2)
		return err_set(err, ERR_INPUT, "the input ends early");
	if (at->world->t.files)
		sched_yield();
	convert_kernel(wire_of(p), p->dtype)(buf, f->in[r][input] + pos * dtype_size(p->dtype), n);
	return 0;
}

static inline int write_output(void *ctx, int part, const void *buf, uint64_t pos, uint64_t n,
                               bool final, struct err *err)
{
	const struct place *at = ctx;
	const struct part_files *f = &at->world->parts[part];
	const struct problem *p = f->p;
	const int r = number_in(f, at->rank);
	assert_true(r >= 0);
	uint64_t len = output_len(p, r);
	uint8_t *to = f->out[r] + pos * dtype_size(p->dtype);
	assert_true(pos + n <= len && !p->mute[r]);
	if (at->rank == at->world->fail_write && part == at->world->fail_part && pos + n > len / 2)
		return err_set(err, ERR_OUTPUT, "the disk is full");
	if (at->world->t.files)
		sched_yield();
	if (final && p->op == REDUCE_AVG)
		final_kernel(p->dtype, wire_of(p))(to, buf, p->divisor, n);
	else
		convert_kernel(p->dtype, wire_of(p))(to, buf, n);
	return 0;
}

/* ---- running ---- */

/* Factors stay close to one, or the product of many would overflow the narrow types. */
static inline void make_float(enum reduce_op op, enum dtype d, uint64_t x, uint8_t *out)
{
	double unit = (double)(x >> 11) * 0x1p-53;
	double v = op == REDUCE_PROD ? 0.8 + 0.45 * unit : 4 * unit - 2;
	float f = (float)v;
	if (d == DTYPE_F64)
		memcpy(out, &v, sizeof v);
	else
		convert_kernel(d, DTYPE_F32)(out, &f, 1);
}

static inline void make_value(const struct problem *p, uint64_t x, uint8_t *out)
{
	enum dtype part = model_part(p->dtype);
	bool truth = p->op == REDUCE_LAND || p->op == REDUCE_LOR || p->op == REDUCE_LXOR;
	x = truth ? x & 1 : x;
	if (!dtype_is_float(p->dtype))
		memcpy(out, &x, dtype_size(p->dtype));
	for (size_t k = 0; dtype_is_float(p->dtype) && k < dtype_size(p->dtype); x = mix(x)) {
		make_float(p->op, part, x, out + k);
		k += dtype_size(part);
	}
}

static inline void part_init(struct part_files *f, const struct problem *p, struct world *w,
                             uint32_t windows)
{
	size_t esize = dtype_size(p->dtype);
	*f = (struct part_files){.p = p, .world = w, .windows = windows};
	for (int r = 0; r < p->size; r++) {
		uint64_t nin = input_len(p, r), nout = output_len(p, r);
		for (int k = 0; k < p->inputs[r]; k++) {
			f->in[r][k] = malloc(nin * esize + 1);
			for (uint64_t i = 0; i < nin; i++)
				make_value(p, mix(p->seed ^ mix((uint64_t)(r * 64 + k) << 32 | i)),
				           f->in[r][k] + i * esize);
		}
		f->out[r] = malloc(nout * esize + 1);
		memset(f->out[r], 0xa5, nout * esize + 1);
	}
}

static inline void world_begin(struct world *w, int size, const struct timing *t)
{
	*w = (struct world){.size = size, .t = *t, .fail_read = -1, .fail_write = -1};
	for (int r = 0; r < size; r++)
		w->places[r] = (struct place){w, r};
}

static inline void world_init(struct world *w, const struct problem *p, const struct timing *t)
{
	world_begin(w, p->size, t);
	part_init(&w->parts[w->nparts++], p, w, t->windows);
}

static inline void world_init_list(struct world *w, const struct list *l, const struct timing *t)
{
	world_begin(w, l->parts[0].size, t);
	while (w->nparts < l->n) {
		int k = w->nparts++;
		part_init(&w->parts[k], &l->parts[k], w, l->windows[k]);
		w->parts[k].ranks = l->grouped[k] ? l->ranks[k] : NULL;
	}
}

static inline void part_release(struct part_files *f)
{
	for (int r = 0; r < f->p->size; r++) {
		for (int k = 0; k < INPUTS; k++)
			free(f->in[r][k]);
		free(f->out[r]);
	}
}

/* Stop all ranks, and close the lanes. */
static inline void stop(struct world *w)
{
	for (int r = 0; r < w->size; r++) {
		exec_free(w->exec[r]);
		w->exec[r] = NULL;
		trace_release(&w->traces[r]);
	}
	for (int from = 0; from < RANKS; from++)
		for (int to = 0; to < RANKS; to++)
			for (int k = 0; k < STREAMS; k++)
				for (int out = 0; out < 2; out++) {
					struct tap **t = &w->taps[from][to][k][out];
					if (*t)
						conn_free(&(*t)->conn);
					*t = NULL;
				}
}

static inline void world_free(struct world *w)
{
	stop(w);
	for (int k = 0; k < w->nparts; k++)
		part_release(&w->parts[k]);
}

static inline struct exec_vector asked_of(const struct part_files *f, int r)
{
	static const uint64_t nothing[2];
	static const uint32_t one[1] = {1};
	const int k = number_in(f, r);
	struct coll_args args =
	        k >= 0 ? args_of(f->p, k)
	               : (struct coll_args){.size = 1,
	                                    .ninputs = 1,
	                                    .joint = reduce_is_joint(f->p->op) ? one : NULL,
	                                    .off = nothing};
	args.devices = r % (f->world->t.ndevices + 1);
	args.unlinked = r % 4 > 1;
	return (struct exec_vector){
	        .algorithm = f->p->alg,
	        .args = args,
	        .ranks = k >= 0 ? f->ranks : NULL,
	        .op = f->p->op,
	        .dtype = wire_of(f->p),
	        .ordered = f->p->ordered,
	        .divisor = f->p->divisor,
	        .trim = f->p->trim,
	        .windows = f->windows,
	};
}

static inline void start(struct world *w)
{
	for (int r = 0; r < w->size; r++) {
		struct err err = {0};
		struct exec_conf conf = {
		        .vectors = w->asked[r],
		        .nvectors = w->nparts,
		        .streams = w->t.streams,
		        .io = {read_input, write_output, &w->places[r]},
		        .threads = w->t.files,
		        .devices = w->t.devices,
		        .ndevices = w->t.ndevices,
		        .piece = w->t.piece,
		        .timed = r % 2,
		        .trace = r % 4 == 1 ? &w->traces[r] : NULL,
		        .repeat = w->t.repeats > 0,
		        .first = w->first,
		        .conn = lane,
		        .conn_ctx = &w->places[r],
		};
		for (int k = 0; k < w->nparts; k++)
			w->asked[r][k] = asked_of(&w->parts[k], r);
		trace_release(&w->traces[r]);
		if (conf.trace && trace_init(conf.trace, TRACED, &err) < 0)
			fail_msg("%s", err.text);
		w->exec[r] = exec_new(&conf, &err);
		if (!w->exec[r])
			fail_msg("exec_new: %s: %s", err.text, describe(w));
	}
}

static inline uint64_t progress(const struct world *w)
{
	uint64_t n = w->moved;
	for (int r = 0; r < w->size; r++) {
		struct exec_stats s;
		exec_stats(w->exec[r], &s);
		for (int k = 0; k < EXEC_MOVES; k++)
			n += s.moved[k];
	}
	return n;
}

static inline void drain_fd(int fd)
{
	uint64_t n;
	if (fd >= 0)
		(void)!read(fd, &n, sizeof n);
}

/* Nothing moves any more but, perhaps, files: one of them must wake somebody. */
static inline void wait_for_files(struct world *w)
{
	struct pollfd fds[RANKS];
	for (int r = 0; r < w->size; r++)
		fds[r] = (struct pollfd){exec_fd(w->exec[r]), POLLIN, 0};
	if (poll(fds, (nfds_t)w->size, WAKE_MS) <= 0)
		fail_msg("nobody was woken: %s", describe(w));
}

/* The times are those of all that happened; the trace has every message and every byte of the
 * files, if it has room. */
static inline void check_record(const struct world *w, int r)
{
	const struct trace *t = &w->traces[r];
	struct exec_times times = {.peers = calloc((size_t)w->size, sizeof(int64_t))};
	uint64_t bytes[TRACE_KINDS] = {0}, messages = 0;
	struct exec_stats stats;
	assert_non_null(times.peers);
	exec_stats(w->exec[r], &stats);
	if (r % 2) {
		exec_times(w->exec[r], &times);
		assert_int_equal(times.threads, 1);
		for (int k = 0; k < SPENT_KINDS; k++)
			assert_true(times.ns[k] >= 0);
	}
	int64_t waited = 0;
	for (int p = 0; p < w->size; p++)
		waited += times.peers[p];
	assert_true(waited == times.ns[SPENT_RECV] + times.ns[SPENT_SEND]);
	free(times.peers);
	for (size_t i = 0; i < trace_kept(t); i++) {
		const struct trace_event *e = &t->events[i];
		assert_true(e->end >= e->start && e->kind < TRACE_KINDS && e->peer < w->size);
		bytes[e->kind] += e->bytes;
		messages += e->kind == TRACE_SEND;
	}
	if (!t->cap || atomic_load(&t->added) > t->cap)
		return;
	assert_int_equal(bytes[TRACE_SEND], stats.bytes_sent);
	assert_int_equal(bytes[TRACE_RECV] + bytes[TRACE_ADD], stats.bytes_received);
	assert_int_equal(messages, stats.messages);
	assert_int_equal(bytes[TRACE_READ] + bytes[TRACE_WRITE],
	                 stats.moved[EXEC_READ] + stats.moved[EXEC_WRITE]);
}

/* Advance all ranks until they have finished (0), or one fails: -1, and which in *failed. */
static inline int play(struct world *w, int *failed, struct err *err)
{
	int size = w->size, order[RANKS], runs[RANKS] = {0}, idle = 0, left = size;
	bool done[RANKS] = {false}, tasks = false;
	uint64_t state = w->t.seed, before = 0;
	for (int r = 0; r < size; r++)
		order[r] = r;
	while (left) {
		tasks = false;
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
			if (w->t.turn)
				tasks |= w->t.turn();
			int ret = exec_advance(w->exec[r], err);
			if (ret < 0) {
				*failed = r;
				return -1;
			}
			done[r] = ret == 1 && runs[r] == w->t.repeats;
			left -= done[r];
			if (ret == 1 && !done[r]) {
				runs[r]++;
				memset(w->parts[0].out[r], 0,
				       output_len(w->parts[0].p, r) *
				               dtype_size(w->parts[0].p->dtype));
				exec_repeat(w->exec[r]);
			}
		}
		if (w->t.turn)
			tasks |= w->t.turn();
		uint64_t now = progress(w);
		idle = now == before && !tasks ? idle + 1 : 0;
		before = now;
		if (idle && left && w->t.files && !w->t.stalls)
			wait_for_files(w);
		else if (idle > PATIENCE)
			fail_msg("deadlock: %s", describe(w));
	}
	for (int r = 0; r < size; r++)
		check_record(w, r);
	return 0;
}

#endif
