/*
 * Schedules: a collective is data. An algorithm is a pure function that emits one rank's list of
 * steps over ranges of elements; the executor runs it, the verifier proves it, `plan` prints it.
 *
 * Units: every offset, length and count is in elements, never bytes. Nothing here does I/O.
 *
 * How to add an algorithm: write algorithms/COLLECTIVE/NAME.c, which exports its struct
 * coll_algorithm, and add that to algorithms/rows.h. Tests, help, plan and completions use these
 * rows.
 */
#ifndef COLLCTL_SCHED_SCHED_H
#define COLLCTL_SCHED_SCHED_H

#include "lib/sched/coll_args.h"

enum sched_op {
	SCHED_READ,        /* dst <- the rank's input src.buf at element src.off (from the file) */
	SCHED_WRITE,       /* the rank's output dst.buf at element dst.off (into the file) <- src */
	SCHED_SEND,        /* wire <- src */
	SCHED_RECV,        /* dst <- wire, widened if dst is SCHED_ACC */
	SCHED_RECV_REDUCE, /* dst = src op wire (SCHED_WIRE_LEFT: wire op src) */
	SCHED_COPY,        /* dst <- src, converted to dst's type */
	SCHED_REDUCE,      /* dst = dst op src (SCHED_WIRE_LEFT: src op dst) */
	SCHED_LOCAL_REDUCE, /* dst <- IN[0] op IN[1] op ... IN[N-1] at src.off, in order, one pass
	                     */
	SCHED_IDENTITY,     /* dst <- the operation's identity (0 of a sum) */
	SCHED_OPS
};
const char *sched_op_name(unsigned op); /* "recv-reduce", ... */

/* Flags of a step. */
#define SCHED_WIRE_LEFT 1u /* the arriving (RECV_REDUCE) or src (REDUCE) operand is left */
#define SCHED_FINAL                                                                    \
	2u /* COPY, REDUCE, RECV_REDUCE: the result is complete, apply the operation's \
	    * last function (avg: the division) before rounding to dst's type */

/* The element type of a buffer: the collective's type, or the wider type of sums. The wire and the
 * files always carry SCHED_DATA elements; SEND and WRITE read only SCHED_DATA buffers. A step whose
 * operands differ in type computes in SCHED_ACC and rounds once to dst's type. */
enum sched_type { SCHED_DATA, SCHED_ACC };

#define SCHED_NONE UINT32_MAX

struct sched_span {
	uint32_t buf; /* index into sched.bufs; READ's src, WRITE's dst: the input's, output's
	                 number */
	uint64_t off; /* elements */
};

struct sched_step {
	uint8_t op;    /* enum sched_op */
	uint8_t flags; /* SCHED_WIRE_LEFT, SCHED_FINAL */
	int32_t peer;  /* -1: local. The steps to a peer, and those from it, are a FIFO each */
	struct sched_span dst, src; /* buf SCHED_NONE: unused */
	uint64_t len;               /* elements, > 0 */
	uint32_t dep, ndep;         /* sched.deps[dep .. dep+ndep) */
};

/*
 * The frontier rule. The step that owns this dependency conflicts with the earlier step @step on
 * its own elements [lo, hi); element x of it corresponds to element x + shift of @step. If @step
 * has finished `done` elements (ascending), the owner may progress to
 *     done >= hi + shift ? len : max(lo, done - shift)        (signed)
 * and its limit, sched_limit, is the minimum over its dependencies.
 */
struct sched_dep {
	uint32_t step;
	uint64_t lo, hi;
	int64_t shift;
};

struct sched_buf {
	uint8_t type;  /* enum sched_type */
	uint8_t place; /* 0: host memory; k: the memory of device k - 1 of the rank */
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
	/* The number of buffers before those of the algorithm: with devices, on several ranks,
	 * buffers 0..N-1 are the inputs and buffer N is the output in device memory, and the
	 * algorithm's own input, output and scratch in host memory follow. Else 0. */
	uint32_t lifted;
	bool apart; /* no copy between host and device overlaps a step that conflicts with it */
	bool final; /* the algorithm's steps (on this rank or its peers) have SCHED_FINAL; otherwise
	               the writer of the output applies the operation's final function */
};

/* The algorithm's first scratch buffer. Its input and output are before it: with devices a single
 * input, else all. */
static inline uint32_t sched_scratch_from(const struct sched *s)
{
	return s->lifted + (s->lifted ? 1 : (uint32_t)s->ninputs) + 1;
}

struct sched_builder;

/* Requirements and properties of an algorithm. */
#define COLL_DIVERGENT  1u /* the operand order differs by rank */
#define COLL_ORDERED    2u /* reduces contributions in rank order (--order rank) ... */
#define COLL_IDEMPOTENT 4u /* an element may receive a contribution more than once (barriers) */
#define COLL_FINAL                                                                            \
	8u               /* its steps carry SCHED_FINAL: on every rank or on none, whatever a \
	                  * rank's own blocks, for who receives a final block must know it */
#define COLL_DEVICES 32u /* a name for another row's steps with devices; needs a device */
#define COLL_APART \
	64u /* copies between host and device do not overlap the steps before and after */
#define COLL_COPIES                                                                        \
	128u /* two ranks exchange elements in place: it ends only if a send is done       \
	      * before the peer has taken the elements, so they cannot be lent to the peer \
	      */
#define COLL_PARTIALS                                                                      \
	16u /* ... and sends partial sums on: with --order rank the wire is the wider type \
	     */

/*
 * The cost of an algorithm on @a->size > 1 ranks with even blocks: a function of size, base, steps
 * and host, not of rank and off. In units of S, the bytes of coll_count() elements: for an
 * allgather the output of every rank, for an alltoall a rank's input.
 */
struct coll_cost {
	double rounds;   /* messages in sequence on the longest chain (sched_figures.rounds) */
	double outer;    /* the rounds between hosts; a row that does not know leaves it 0 */
	double messages; /* upper bound of the sends of the rank that sends most */
	double sent;     /* S; by the rank that sends most */
	double received; /* S; by the rank that receives most */
	double reduced;  /* S; added (RECV_REDUCE, REDUCE) by the rank that adds most */
	/* The rounds in which the rank that sends most is idle, because the first part has not come
	 * to it or the last has left it; 0: few */
	double idle;
	/* Not by the rows, but counted (coll_cost_of). If every rank has its own host: sent,
	 * received and their sum. */
	double leaves;  /* S; out of the host that sends most to others */
	double enters;  /* S; into the host that receives most */
	double crosses; /* S; sent to and received from other hosts by the rank that does it most */
	bool steady;   /* of a row: messages of several ranks seldom meet at a port, as in a ring */
	bool pairs;    /* of a row: ranks exchange in pairs, so that both wait for the slower one */
	bool meets;    /* more than two ranks all send and receive, and the row is not steady */
	double copies; /* S; of sent, copied even where ranks share memory (COLL_COPIES) */
	double widened; /* S; of reduced, added in a wider type than is sent (COLL_FINAL) */
	double apiece;  /* S; a message between hosts of the rank that sends most there */
	double sharing; /* how many ranks of a host use its port at the same time, at least 1 */
	/* Counted by coll_count_work; 0: not known. */
	double moved; /* S; copied inside its memory by the rank that touches most */
	double busy;  /* what all ranks touch, of P times what the busiest one does: 1/P if it does
	               * all. A rank touches what it receives, adds or copies. */
};

struct coll_algorithm {
	enum coll_kind kind;
	const char *name;
	const char *help;          /* one line */
	const char *steps, *bytes; /* as text, per rank: "2q", "2S(P-1)/P" */
	const char *restrictions;  /* "" or words: "float sums need --allow-divergent" */
	const char *source;        /* paper or document */
	unsigned flags;
	/* The closed form of the cost. Selection prices it, and tests compare it with the emitted
	 * schedules. */
	void (*cost)(const struct coll_args *, struct coll_cost *);
	/* The name of the algorithm of the same collective that replaces this one for these
	 * arguments, or NULL. If the member is NULL, nothing replaces it. An algorithm that is
	 * always replaced has no cost and no emit. */
	const char *(*falls_back)(const struct coll_args *);
	void (*emit)(struct sched_builder *, const struct coll_args *);
};

/* ---- the builder ----
 *
 * Emitters contain no error handling: the builder keeps the first error (sticky) and sched_build
 * returns it. Zero-length steps are dropped. Buffers 0..N-1 are the inputs, followed by the output
 * and by scratch. A single input shares the output's buffer if the layout allows it (in place): its
 * own buffer then has length 0, and identity copies are dropped. So an emitter must assume that
 * writing the output destroys the input.
 */
enum sched_error {
	SCHED_OK = 0,
	SCHED_NOMEM,
	SCHED_RANGE,   /* a span outside its buffer */
	SCHED_PEER,    /* a peer outside the job, or the rank itself */
	SCHED_OVERLAP, /* operands of one step overlap without coinciding */
	SCHED_STEPS,   /* an exchange whose 2^steps does not divide the size */
	SCHED_TYPE,  /* a type or flag that the operation does not accept (SEND of an ACC buffer) */
	SCHED_PLACE, /* an operand in memory that the operation does not access */
	SCHED_TOO_LARGE /* more than 2^32-1 steps, buffers or dependencies */
};
const char *sched_strerror(enum sched_error e);

/* @n objects of @size bytes, zero, which exist until the schedule is finished. NULL: no memory,
 * which sched_build returns as its error. */
void *sched_memory(struct sched_builder *, size_t n, size_t size);

/* Element @off of the rank's input or output (0: the first of the layout's range). With devices the
 * emitter sees a single input. */
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
 * inputs' elements [off, off+len). One input: a copy, which is dropped if in place. */
void sched_fold_inputs(struct sched_builder *, struct sched_span dst, uint64_t off, uint64_t len);
/* dst <- the operation's identity. */
void sched_identity(struct sched_builder *, struct sched_span dst, uint64_t len);
/* The work area for the whole vector, coll_count() elements: the output if it is as long; else the
 * single input, which is then overwritten; else scratch (the same at every call). Parts of the
 * rank's input or output that are already there need no copy. */
struct sched_span sched_work(struct sched_builder *);

/* Can schedules be built for these arguments? The builder takes only such. */
enum sched_error sched_check_args(enum coll_kind kind, const struct coll_args *args);

/*
 * Emit the schedule of @alg, which has an emitter, for @args, which sched_check_args accepts, and
 * finish it (coll_build in algorithms/table.h checks and resolves): adds READ steps at the
 * beginning (one per input and run of elements that the same step needs first, in that order) and
 * WRITE steps at the end (one per output and run that the same step completes, in that order), and
 * infers all dependencies (RAW, WAR, WAW on overlapping ranges). For size 1 the emitter is not
 * called: the inputs are folded into the output (exscan: the identity). Returns NULL and
 * *@error on failure.
 *
 * With devices the schedule is lifted: each READ goes to device memory; LOCAL_REDUCE folds several
 * inputs on device 0; a COPY takes the elements to the algorithm's input in host memory, in the
 * order in which the algorithm needs them. A COPY takes what is complete back to device memory,
 * where the WRITEs read it. Elements that the algorithm does not change stay on the device. The
 * network and all other arithmetic use host memory alone. For size 1 nothing leaves the devices.
 */
struct sched *sched_build(const struct coll_algorithm *alg, const struct coll_args *args,
                          enum sched_error *error);
void sched_free(struct sched *);

/* The same without READ and WRITE steps and without dependencies: for those who only count. */
struct sched *sched_emit(const struct coll_algorithm *alg, const struct coll_args *args,
                         enum sched_error *error);

/* Infer the dependencies again after steps were changed (mutation tests). Checks every step like
 * the builder. */
enum sched_error sched_infer(struct sched *);

/* The frontier rule: the limit of step @i if the steps have finished @done[0..nsteps) elements. */
uint64_t sched_limit(const struct sched *, uint32_t i, const uint64_t *done);

/*
 * Two steps of one schedule that access the same elements, where at least one writes: elements [lo,
 * hi) of @later correspond to [lo + shift, hi + shift) of @earlier. sched_conflicts reports the
 * conflicts that imply all others: with the last writer, or with the readers since.
 */
struct sched_conflict {
	uint32_t later, earlier;
	uint64_t lo, hi;
	int64_t shift;
};
/* Call @visit for each conflict, in the order of @later. Returns SCHED_NOMEM or the first error of
 * @visit. The steps must have passed sched_check. */
enum sched_error sched_conflicts(const struct sched *,
                                 enum sched_error (*visit)(void *ctx,
                                                           const struct sched_conflict *),
                                 void *ctx);
/* Check that the operands of one step, or of every step, are in range, disjoint or identical, and
 * of an accepted type. */
enum sched_error sched_check_step(const struct sched *, const struct sched_step *);
enum sched_error sched_check(const struct sched *);

#endif
