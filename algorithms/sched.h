/*
 * Schedules: a collective is data. An algorithm is a pure function that emits one rank's list of
 * steps over ranges of elements; the executor runs it, the verifier proves it, `plan` prints it.
 *
 * Units: every offset, length and count is in elements, never bytes. Nothing here does I/O, and
 * this folder includes nothing of the others.
 *
 * How to add an algorithm: write algorithms/<collective>_<name>.c with one `emit`, and add its row
 * to algorithms/table.c. Tests, help, plan and completions pick it up from there.
 */
#ifndef COLLCTL_SCHED_H
#define COLLCTL_SCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum coll_kind {
	COLL_ALLREDUCE,
	COLL_REDUCE,
	COLL_REDUCE_SCATTER,
	COLL_BROADCAST,
	COLL_SCATTER,
	COLL_GATHER,
	COLL_ALLGATHER,
	COLL_ALLTOALL,
	COLL_SCAN,
	COLL_EXSCAN,
	COLL_BARRIER,
	COLL_EXCHANGE,
	COLL_KINDS
};

enum sched_op {
	SCHED_READ,        /* dst <- the rank's input src.buf at element src.off (from the file) */
	SCHED_WRITE,       /* the rank's output dst.buf at element dst.off (into the file) <- src */
	SCHED_SEND,        /* wire <- src */
	SCHED_RECV,        /* dst <- wire, widened where dst is SCHED_ACC */
	SCHED_RECV_REDUCE, /* dst = src op wire (SCHED_WIRE_LEFT: wire op src) */
	SCHED_COPY,        /* dst <- src, converting between the buffers' types */
	SCHED_REDUCE,      /* dst = dst op src (SCHED_WIRE_LEFT: src op dst) */
	SCHED_LOCAL_REDUCE, /* dst <- IN[0] op IN[1] op ... IN[N-1] at src.off, in order, one pass
	                     */
	SCHED_LOCAL_BCAST,  /* OUT[0..M-1] at dst.off <- src, one pass */
	SCHED_IDENTITY,     /* dst <- the operation's identity (0 of a sum) */
	SCHED_OPS
};
const char *sched_op_name(unsigned op); /* "recv-reduce", ... */

/* Flags of a step. */
#define SCHED_WIRE_LEFT 1u /* the arriving (RECV_REDUCE) or src (REDUCE) operand stands left */
#define SCHED_FINAL                                                                    \
	2u /* COPY, REDUCE, RECV_REDUCE: the result is complete, apply the operation's \
	    * last function (avg: the division) before rounding to dst's type */

/* The element type of a buffer: the collective's own, or the wider one that sums are kept in. The
 * wire and the files always carry SCHED_DATA elements; SEND and WRITE read SCHED_DATA buffers only.
 * Where the operands of one step differ in type, it works in SCHED_ACC and rounds to dst's once. */
enum sched_type { SCHED_DATA, SCHED_ACC };
enum sched_space { SCHED_HOST, SCHED_DEVICE };

#define SCHED_NONE UINT32_MAX

struct sched_span {
	uint32_t buf; /* index into sched.bufs; READ's src, WRITE's dst: the input's, output's
	                 number */
	uint64_t off; /* elements */
};

struct sched_step {
	uint8_t op;    /* enum sched_op */
	uint8_t flags; /* SCHED_WIRE_LEFT, SCHED_FINAL */
	int32_t peer;  /* -1: local */
	int32_t lane;  /* steps between two ranks in one direction on one lane are a FIFO */
	struct sched_span dst, src; /* buf SCHED_NONE: the operation has none */
	uint64_t len;               /* elements, > 0 */
	uint32_t dep, ndep;         /* sched.deps[dep .. dep+ndep) */
};

/*
 * The frontier rule. The step that owns this dependency conflicts with the earlier step @step on
 * its own elements [lo, hi); element x of it corresponds to element x + shift of @step. With
 * `done` the number of elements that @step has finished (ascending), the owner may go as far as
 *     done >= hi + shift ? len : max(lo, done - shift)        (signed)
 * and its limit is the minimum over its dependencies.
 */
struct sched_dep {
	uint32_t step;
	uint64_t lo, hi;
	int64_t shift;
};

struct sched_buf {
	uint8_t type;  /* enum sched_type */
	uint8_t space; /* enum sched_space */
	uint64_t len;  /* elements */
};

/* A finished schedule. Owned by the caller of sched_finish; released with sched_free. */
struct sched {
	int rank, size;
	int ninputs, noutputs;
	struct sched_buf *bufs;
	uint32_t nbufs;
	struct sched_step *steps;
	uint32_t nsteps;
	struct sched_dep *deps;
	uint32_t ndeps;
	bool final; /* the algorithm's steps (this rank's or its peers') carry SCHED_FINAL;
	             * otherwise whoever writes the output applies the operation's last function */
};

/* What a collective is asked to do: the input of an emitter. */
struct coll_args {
	int rank, size, root;
	int ninputs;         /* N local input buffers, >= 1 (a barrier: one element of `band`, that
	                      * comes in and goes out as an array's would) */
	int noutputs;        /* files that the output is written to; 0: it stays in its buffer */
	const uint64_t *off; /* off[size+1], off[0] = 0: block j is elements [off[j], off[j+1]).
	                      * alltoall: the part of this rank's input that rank j gets */
	/* alltoall: recv_off[size+1]: where in this rank's output the part from rank j stands.
	 * NULL: every rank's off is the same one (and for all other collectives). */
	const uint64_t *recv_off;
	unsigned base;  /* bcube, bruck: the radix; 0: the algorithm's default */
	unsigned steps; /* exchange: C */
	unsigned esize; /* bytes of an element, for those that choose by size (tuned) */
};

/* The elements of all blocks: the vector; of an alltoall, the rank's input. */
static inline uint64_t coll_count(const struct coll_args *a)
{
	return a->off[a->size];
}

/* alltoall: where the part from rank @j begins in the output (j = size: its end). */
static inline uint64_t coll_recv_at(const struct coll_args *a, int j)
{
	return a->recv_off ? a->recv_off[j] : (uint64_t)j * (a->off[a->rank + 1] - a->off[a->rank]);
}

/*
 * Which blocks the input and the output of a rank cover: [lo, hi), empty where the rank has no
 * part. Element 0 of the input is element off[in_lo] of the collective. Where one range contains
 * the other and in_place says so, a single input and the output share a buffer. The output of an
 * alltoall has blocks of its own (coll_recv_at).
 */
struct coll_layout {
	int in_lo, in_hi, out_lo, out_hi;
	bool in_place;
};
struct coll_layout coll_layout(enum coll_kind kind, int rank, int size, int root);

/* Where block @j of the rank's input or output begins in it, for j in [lo, hi] of its layout. So
 * coll_in_at(.., in_hi) is the input's length. */
uint64_t coll_in_at(enum coll_kind kind, const struct coll_args *, int j);
uint64_t coll_out_at(enum coll_kind kind, const struct coll_args *, int j);

/* Has the collective an operation? (A barrier's is its own.) */
bool coll_reduces(enum coll_kind kind);
/* Does the collective take several local inputs, which are folded to one contribution? The others
 * take one. */
bool coll_takes_several(enum coll_kind kind);

/* An alltoall in which @counts[i * size + j] elements go from rank i to rank j: where the parts of
 * @rank stand in its input (@off) and in its output (@recv_off), with room for size + 1 each. */
void coll_offsets(const uint64_t *counts, int size, int rank, uint64_t *off, uint64_t *recv_off);

struct sched_builder;

/* What an algorithm needs or promises: the flags of its row. */
#define COLL_DIVERGENT  1u /* the operand order differs by rank */
#define COLL_ORDERED    2u /* adds contributions in rank order (--order rank) ... */
#define COLL_IDEMPOTENT 4u /* an element may receive a contribution more than once (barriers) */
#define COLL_FINAL                                                              \
	8u /* its steps carry SCHED_FINAL: on every rank or on none, whatever a \
	    * rank's own blocks, for who receives a final block must know it */
#define COLL_PARTIALS                                                                      \
	16u /* ... and sends partial sums on: with --order rank the wire is the wider type \
	     */

/*
 * What an algorithm costs on @a->size > 1 ranks, where the blocks are even: a function of size,
 * base and steps alone, never of rank and off. In units of S, the bytes of coll_count() elements:
 * so the S of an allgather is what every rank has at its end, and that of an alltoall a rank's
 * input.
 */
struct coll_cost {
	double rounds;   /* messages in sequence on the longest chain (sched_figures.rounds) */
	double messages; /* sends of the rank that sends most: at most so many */
	double sent;     /* S; by the rank that sends most */
	double received; /* S; by the rank that receives most */
	double reduced;  /* S; added (RECV_REDUCE, REDUCE) by the rank that adds most */
};

struct coll_algorithm {
	enum coll_kind kind;
	const char *name;
	const char *help;          /* one line */
	const char *steps, *bytes; /* as text, per rank: "2q", "2S(P-1)/P" */
	const char *restrictions;  /* "" or words: "float sum and prod need --allow-divergent" */
	const char *source;        /* paper or document */
	unsigned flags;
	/* The closed form: the figures that the tests hold the emitted schedules to and that
	 * selection prices. */
	void (*cost)(const struct coll_args *, struct coll_cost *);
	/* Where it can't serve these arguments, or stands for another: the name of the algorithm of
	 * the same collective that takes its place; else NULL. NULL itself: it serves all. One that
	 * always stands for another has no cost and no emit. */
	const char *(*falls_back)(const struct coll_args *);
	void (*emit)(struct sched_builder *, const struct coll_args *);
};

/* What really runs when @alg is asked for: follows falls_back. */
const struct coll_algorithm *coll_resolve(const struct coll_algorithm *alg,
                                          const struct coll_args *);

/* The closed form of what @alg resolves to; nothing for size 1. */
struct coll_cost coll_cost_of(const struct coll_algorithm *alg, const struct coll_args *);

/* The registry (table.c). */
extern const struct coll_algorithm coll_algorithms[];
extern const size_t coll_algorithms_len;

const char *coll_name(enum coll_kind kind);              /* "allreduce", "reduce-scatter", ... */
int coll_by_name(const char *name, enum coll_kind *out); /* 0, or -1: unknown */
const struct coll_algorithm *coll_find(enum coll_kind kind, const char *name); /* or NULL */

/* ---- the builder ----
 *
 * Emitters contain no error handling: the builder keeps the first error (sticky) and
 * sched_build returns it. Zero-length steps are dropped. Buffers 0..N-1 are the inputs, then comes
 * the output, then scratch. A single input is mapped onto the output's buffer where the layout
 * allows it (in place): its own buffer then has length 0, and identity copies vanish. So an emitter
 * takes for granted that writing the output destroys the input.
 */
enum sched_error {
	SCHED_OK = 0,
	SCHED_NOMEM,
	SCHED_RANGE,    /* a span outside its buffer */
	SCHED_PEER,     /* a peer outside the job, or the rank itself */
	SCHED_OVERLAP,  /* operands of one step overlap without coinciding */
	SCHED_STEPS,    /* an exchange whose 2^steps does not divide the size */
	SCHED_TYPE,     /* a type or flag that the operation can't take (SEND of an ACC buffer) */
	SCHED_TOO_LARGE /* more than 2^32-1 steps, buffers or dependencies */
};
const char *sched_strerror(enum sched_error e);

/* Element @off of the rank's input or output (0: the first of the layout's range). */
struct sched_span sched_in(const struct sched_builder *, int input, uint64_t off);
struct sched_span sched_out(const struct sched_builder *, uint64_t off);
struct sched_span sched_scratch(struct sched_builder *, enum sched_type type, uint64_t len);
static inline struct sched_span span_add(struct sched_span s, uint64_t n)
{
	return (struct sched_span){s.buf, s.off + n};
}

void sched_send(struct sched_builder *, int peer, struct sched_span src, uint64_t len);
void sched_recv(struct sched_builder *, int peer, struct sched_span dst, uint64_t len);
void sched_recv_reduce(struct sched_builder *, int peer, struct sched_span dst,
                       struct sched_span src, uint64_t len, unsigned flags);
void sched_copy(struct sched_builder *, struct sched_span dst, struct sched_span src, uint64_t len,
                unsigned flags);
void sched_reduce(struct sched_builder *, struct sched_span dst, struct sched_span src,
                  uint64_t len, unsigned flags);
/* The first phase of every algorithm with local inputs: dst <- IN[0] op ... op IN[N-1] on the
 * inputs' elements [off, off+len). One input: a copy, which is nothing when in place. */
void sched_fold_inputs(struct sched_builder *, struct sched_span dst, uint64_t off, uint64_t len);
/* dst <- the operation's identity. */
void sched_identity(struct sched_builder *, struct sched_span dst, uint64_t len);
/* A place for the whole vector, coll_count() elements, in which the rank works: the output where it
 * is as long; else the single input, which is destroyed by it; else scratch (the same at every
 * call). What the rank's own input, or its output, has there already needs no copy. */
struct sched_span sched_work(struct sched_builder *);
/* The steps that follow go on @lane (0 until said otherwise). */
void sched_lane(struct sched_builder *, int lane);

/*
 * Emit what @alg resolves to for @args and finish: adds READ steps in front (one per input and run
 * of elements that the same step needs first, in that order), WRITE steps behind (one per output
 * and run that the same step completes, in that order), and infers every dependency (RAW, WAR, WAW
 * on overlapping ranges). For size 1 the emitter is not called: the inputs are folded into the
 * output (exscan: the identity). Returns NULL and *@error on failure.
 */
struct sched *sched_build(const struct coll_algorithm *alg, const struct coll_args *args,
                          enum sched_error *error);
void sched_free(struct sched *);

/* Drop the dependencies and infer them anew, after steps were changed (mutation tests). Every step
 * is checked as the builder checks it. */
enum sched_error sched_infer(struct sched *);

/*
 * Two steps of one schedule that touch the same elements, one of them writing: elements [lo, hi) of
 * @later correspond to [lo + shift, hi + shift) of @earlier. Reported are the conflicts that
 * generate all others: with the last writer, or with the readers since.
 */
struct sched_conflict {
	uint32_t later, earlier;
	uint64_t lo, hi;
	int64_t shift;
};
/* Call @visit for each, in the order of @later; SCHED_NOMEM or the first error that it returns.
 * The steps have passed sched_check. */
enum sched_error sched_conflicts(const struct sched *,
                                 enum sched_error (*visit)(void *ctx,
                                                           const struct sched_conflict *),
                                 void *ctx);
/* Are the operands of a step, of every step, in range, disjoint or the same, and of a type that it
 * can take? */
enum sched_error sched_check_step(const struct sched *, const struct sched_step *);
enum sched_error sched_check(const struct sched *);

/* The block layout of numpy.array_split: the first n mod size blocks have one element more. Where
 * block @j begins (j = size: the last one's end); and all of them, with room in @off for size + 1.
 */
uint64_t coll_split_at(uint64_t n, int size, int j);
void coll_split(uint64_t n, int size, uint64_t *off);

#endif
