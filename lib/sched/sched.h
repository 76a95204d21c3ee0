/*
 * Schedules: a collective is data. An algorithm is a pure function that emits one rank's list of
 * steps over ranges of elements. The executor runs the list, the verifier proves it, `plan` prints
 * it.
 *
 * Units: every offset, length and count is in elements, never bytes. Nothing here does I/O.
 * Different threads may use different builders; a finished schedule is constant, and any thread may
 * read it. Errors are enum sched_error, not struct err.
 *
 * A lane is a FIFO from one rank to another: the messages of the SEND steps of the one to the
 * other, in the order of the steps. The RECV and RECV_REDUCE steps of the receiver take them in
 * that order, and must have the same lengths.
 *
 * How to add an algorithm: write algorithms/COLLECTIVE/NAME.c, which defines its struct
 * coll_algorithm, and add a row to algorithms/rows.h. Tests, help, plan and completions use these
 * rows.
 */
#ifndef COLLCTL_SCHED_SCHED_H
#define COLLCTL_SCHED_SCHED_H

#include "lib/sched/coll_args.h"

enum sched_op {
	SCHED_READ,         /* dst <- the file of input number src.buf, from element src.off on */
	SCHED_WRITE,        /* the file of the output, from element dst.off on <- src */
	SCHED_SEND,         /* the lane to peer <- src */
	SCHED_RECV,         /* dst <- the lane from peer, widened if dst is SCHED_ACC */
	SCHED_RECV_REDUCE,  /* dst <- src op the lane from peer (SCHED_WIRE_LEFT: in reverse order)
	                     */
	SCHED_COPY,         /* dst <- src, converted to dst's type */
	SCHED_REDUCE,       /* dst <- dst op src (SCHED_WIRE_LEFT: src op dst) */
	SCHED_LOCAL_REDUCE, /* dst <- IN[0] op IN[1] op ... op IN[N-1], from src.off on, in this
	                       order */
	SCHED_JOINT, /* dst <- the joint operation of the contributions of all ranks: sched.njoint
	                consecutive buffers from src.buf on, each from src.off on, in the order of
	                ranks and inputs. The result is complete, and rounded once */
	SCHED_IDENTITY, /* dst <- the operation's identity (0 of a sum) */
	SCHED_OPS
};
const char *sched_op_name(unsigned op); /* "recv-reduce", ... */

/* Flags of a step. */
#define SCHED_WIRE_LEFT 1u /* the left operand is the received one, or src (REDUCE) */
/* COPY, REDUCE, RECV_REDUCE: the result is complete: apply the operation's final function (avg: the
 * division) before rounding to dst's type */
#define SCHED_FINAL 2u

/* The element type of a buffer: the collective's type (DATA), or the wider type in which it is
 * accumulated (ACC). Lanes and files carry only SCHED_DATA elements, so SEND and WRITE read only
 * SCHED_DATA buffers. A step whose operands differ in type computes in SCHED_ACC and rounds once to
 * dst's type. */
enum sched_type { SCHED_DATA, SCHED_ACC };

#define SCHED_NONE UINT32_MAX

struct sched_span {
	uint32_t buf; /* index into sched.bufs; of READ's src: number of the input; of WRITE's dst:
	                 0 */
	uint64_t off; /* elements */
};

struct sched_step {
	uint8_t op;                 /* enum sched_op */
	uint8_t flags;              /* SCHED_WIRE_LEFT, SCHED_FINAL */
	int32_t peer;               /* the rank at the other end of the lane; -1: a local step */
	struct sched_span dst, src; /* buf SCHED_NONE: unused */
	uint64_t len;               /* elements, > 0 */
	uint32_t dep, ndep;         /* its dependencies: sched.deps[dep .. dep+ndep) */
};

/*
 * A dependency of a step, its owner, on the earlier step number `step`. The elements [lo, hi) of
 * the owner conflict with the earlier step: element x of the owner is in the same memory as element
 * x + shift of the earlier step. Steps process their elements in ascending order.
 *
 * The frontier rule: when the earlier step has finished `done` elements, the owner may progress to
 *     done >= hi + shift ? len : max(lo, done - shift)        (signed)
 * elements. The owner's limit (sched_limit) is the minimum over its dependencies.
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

/* A finished schedule. The caller of sched_build owns it, and frees it with sched_free. */
struct sched {
	int rank, size;
	int ninputs;
	bool stores;     /* coll_args.stores */
	uint32_t njoint; /* the contributions of a joint operation; 0: a fold of pairs */
	struct sched_buf *bufs;
	uint32_t nbufs;
	struct sched_step *steps;
	uint32_t nsteps;
	struct sched_dep *deps;
	uint32_t ndeps;
	/* With devices, on several ranks, the schedule is lifted (sched_build): buffers 0..N-1 are
	 * the inputs and buffer N is the output, in device memory; then follow the algorithm's
	 * input, output and scratch, in host memory. If the output is stored, buffer N is empty. If
	 * it is not, and may be in the place of an input, the two are in one buffer: N, or with
	 * several inputs 0. `lifted` is the number of buffers in device memory, else 0. */
	uint32_t lifted;
	bool apart; /* a copy between host and device does not overlap a step that it conflicts with
	             */
	bool final; /* steps of this rank or its peers have SCHED_FINAL; else the writer of the
	               output applies the operation's final function */
};

/* The index of the algorithm's first scratch buffer. Before it are the algorithm's inputs (one if
 * the schedule is lifted) and its output. */
static inline uint32_t sched_scratch_from(const struct sched *s)
{
	return s->lifted + (s->lifted ? 1 : (uint32_t)s->ninputs) + 1;
}

struct sched_builder;

/* Requirements and properties of an algorithm. */
#define COLL_DIVERGENT  1u /* ranks reduce in different orders: their results may differ in bits */
#define COLL_ORDERED    2u /* reduces contributions in rank order: valid with --order rank */
#define COLL_IDEMPOTENT 4u /* may add a contribution to an element more than once (barriers) */
/* Its steps have SCHED_FINAL, on all ranks or on none, also on ranks whose blocks are empty,
 * because a receiver of a final block must know it. */
#define COLL_FINAL   8u
#define COLL_DEVICES 32u /* runs the steps of another row, and only with a device */
#define COLL_APART \
	64u /* copies between host and device do not overlap the steps before and after */
/* Two ranks exchange elements in place. This needs sends that are done before the peer has consumed
 * the elements, so elements must be copied and not lent to the peer (conn.h). */
#define COLL_COPIES 128u
/* It runs joint operations: every contribution reaches the owner of a block as it is. */
#define COLL_JOINT 256u
/* Its blocks are cut by the rates of the hosts' links (lib/price/fill.h). */
#define COLL_WEIGHTED 512u
/* `auto` chooses it only where hosts' links have different rates. */
#define COLL_UNEVEN 1024u
#define COLL_PARTIALS \
	16u /* COLL_ORDERED, and it sends partial sums: with --order rank in the wider type */

/*
 * The cost of an algorithm on size > 1 ranks with even blocks. It depends on size, base, steps and
 * host of struct coll_args, and on off only with COLL_WEIGHTED; not on rank. The unit S is the
 * bytes of coll_count() elements: for an allgather the output of a rank, for an alltoall the input
 * of a rank.
 */
struct coll_cost {
	double rounds;   /* messages in sequence on the longest chain (sched_figures.rounds) */
	double outer;    /* the number of these rounds that are between hosts; 0: not known */
	double messages; /* upper bound of the sends of the rank that sends most */
	double sent;     /* S; by the rank that sends most */
	double received; /* S; by the rank that receives most */
	double reduced;  /* S; added (RECV_REDUCE, REDUCE) by the rank that adds most */
	/* The rounds in which the rank that sends most is idle, because its first element has not
	 * arrived or its last element has left; 0: few */
	double idle;
	/* Set by coll_cost_of (cost.h), not by cost(). If every rank has its own host: sent,
	 * received and their sum. */
	double leaves;  /* S; out of the host that sends most to other hosts */
	double enters;  /* S; into the host that receives most from other hosts */
	double crosses; /* S; between a rank and other hosts, both ways; of the rank with most */
	/* Set by coll_cost_on (cost.h), in S * s/B: the longest time that the bytes of a host need
	 * at its port out, and in; 0: all ports have the same rates. */
	double out, in;
	bool steady; /* set by cost(): messages of several ranks seldom meet at a port, as in a ring
	              */
	bool pairs;  /* set by cost(): ranks exchange in pairs, and both wait for the slower one */
	bool meets;  /* more than two ranks all send and receive, and it is not steady */
	double copies;  /* S; the part of sent that is copied even in shared memory (COLL_COPIES) */
	double widened; /* S; the part of reduced that is added in a wider type (COLL_FINAL) */
	double apiece; /* S; the size of a message to other hosts, of the rank that sends most there
	                */
	double sharing; /* how many ranks of a host use its port at the same time, at least 1 */
	/* Set by coll_count_work (cost.h); 0: not known. A rank's work is the elements that it
	 * receives, adds or copies. */
	double moved; /* S; copied inside its memory by the rank with most work */
	double busy;  /* the average work of a rank over the most: 1/P if one rank does all */
};

struct coll_algorithm {
	enum coll_kind kind;
	const char *name;
	const char *help;          /* one line */
	const char *steps, *bytes; /* rounds and bytes per rank, as text: "2q", "2S(P-1)/P" */
	const char *restrictions;  /* "" or words: "float sums need --allow-divergent" */
	const char *source;        /* paper or document */
	unsigned flags;            /* COLL_* */
	/* The closed form of the cost, into a zeroed struct. Selection computes the price from it;
	 * tests compare it with the emitted schedules. */
	void (*cost)(const struct coll_args *, struct coll_cost *);
	/* Returns the name of the algorithm of the same collective that replaces this one for these
	 * arguments, or NULL: none does. The member is NULL: none ever does. An algorithm that is
	 * always replaced has no cost and no emit. */
	const char *(*falls_back)(const struct coll_args *);
	/* Append the steps of rank args->rank. */
	void (*emit)(struct sched_builder *, const struct coll_args *);
};

/* ---- the builder ----
 *
 * For emitters, during emit. They contain no error handling: the builder keeps the first error
 * (sticky), and sched_build returns it. Steps without elements are dropped. Buffers 0..N-1 are the
 * inputs; then follow the output and scratch. If the layout allows it (coll_layout.in_place), a
 * single input shares the output's buffer; its own buffer then has length 0, and copies from a span
 * to itself are dropped. So an emitter must assume that writing to the output destroys the
 * input. */
enum sched_error {
	SCHED_OK = 0,
	SCHED_NOMEM,
	SCHED_RANGE,   /* a span outside its buffer */
	SCHED_PEER,    /* a peer outside the job, or the rank itself */
	SCHED_OVERLAP, /* operands of one step overlap without coinciding */
	SCHED_STEPS,   /* an exchange whose 2^steps does not divide the size */
	SCHED_TYPE,  /* a type or flag that the operation does not accept (SEND of an ACC buffer) */
	SCHED_PLACE, /* an operand in memory that the operation cannot access */
	SCHED_TOO_LARGE /* more than 2^32-1 steps, buffers or dependencies */
};
const char *sched_strerror(enum sched_error e); /* constant words */

/* Zeroed memory for @n objects of @size bytes, which the builder frees when the schedule is
 * finished. NULL: no memory; the builder keeps this error. */
void *sched_memory(struct sched_builder *, size_t n, size_t size);

/* Element @off of the rank's input or output; 0 is the first element of the layout's range. With
 * devices the algorithm has a single input. */
struct sched_span sched_in(const struct sched_builder *, int input, uint64_t off);
struct sched_span sched_out(const struct sched_builder *, uint64_t off);
/* A new scratch buffer of @len elements. */
struct sched_span sched_scratch(struct sched_builder *, enum sched_type type, uint64_t len);
static inline struct sched_span span_add(struct sched_span s, uint64_t n)
{
	return (struct sched_span){s.buf, s.off + n};
}

/* Append a step (enum sched_op). @flags: SCHED_*. */
void sched_send(struct sched_builder *, int peer, struct sched_span src, uint64_t len);
void sched_recv(struct sched_builder *, int peer, struct sched_span dst, uint64_t len);
void sched_recv_reduce(struct sched_builder *, int peer, struct sched_span dst,
                       struct sched_span src, uint64_t len, unsigned flags);
void sched_copy(struct sched_builder *, struct sched_span dst, struct sched_span src, uint64_t len,
                unsigned flags);
void sched_reduce(struct sched_builder *, struct sched_span dst, struct sched_span src,
                  uint64_t len, unsigned flags);
/* Append the fold of the elements [off, off+len) of all inputs: dst <- IN[0] op ... op IN[N-1].
 * Every algorithm begins with it. With one input it is a copy, which is dropped if in place. */
void sched_fold_inputs(struct sched_builder *, struct sched_span dst, uint64_t off, uint64_t len);
/* dst <- the joint operation of all contributions, which are at @src and at the same offset of the
 * buffers that follow its buffer (SCHED_JOINT). */
void sched_joint(struct sched_builder *, struct sched_span dst, struct sched_span src,
                 uint64_t len);
/* dst <- the operation's identity. */
void sched_identity(struct sched_builder *, struct sched_span dst, uint64_t len);
/* The work area: coll_count() elements, for the whole vector. It is the output if that is as long;
 * else the single input, which is then overwritten; else scratch. Every call returns the same.
 * Copies of parts of the input or output that are already there are dropped. */
struct sched_span sched_work(struct sched_builder *);

/* ---- finished schedules ---- */

/* Can schedules be built for these arguments? sched_build and sched_emit require SCHED_OK. */
enum sched_error sched_check_args(enum coll_kind kind, const struct coll_args *args);

/*
 * Emit the schedule of @alg for @args, and finish it. @alg must have an emitter, and
 * sched_check_args must accept @args; coll_build (algorithms/table.h) ensures both. NULL: *@error
 * says why.
 *
 * Finishing adds READ steps at the beginning, one per input and per run of elements that the same
 * step needs first, in the order of these steps. It adds WRITE steps at the end, one per
 * run of elements that the same step completes, in the order of these steps. Then it infers all
 * dependencies (RAW, WAR, WAW on overlapping ranges). For size 1 the emitter is not called: the
 * inputs are folded into the output, or joined if the operation is joint (exscan: the output is the
 * identity).
 *
 * With devices the schedule is lifted. Each READ stores to device memory. LOCAL_REDUCE folds
 * several inputs on device 0. COPY steps copy the elements to the algorithm's input in host memory,
 * in the order in which the algorithm needs them. Lanes and all other arithmetic use only host
 * memory, and WRITEs read complete elements from there. If the output is not written to a file,
 * COPY steps copy to device memory what the algorithm has changed. For size 1 nothing leaves the
 * devices.
 */
struct sched *sched_build(const struct coll_algorithm *alg, const struct coll_args *args,
                          enum sched_error *error);
void sched_free(struct sched *); /* NULL: nothing */

/* sched_build without READ and WRITE steps and without dependencies, for callers that only
 * count. */
struct sched *sched_emit(const struct coll_algorithm *alg, const struct coll_args *args,
                         enum sched_error *error);

/* Infer the dependencies again, after the caller has changed steps (mutation tests). Checks every
 * step as the builder does. */
enum sched_error sched_infer(struct sched *);

/* The frontier rule: the limit of step @i if the steps have finished @done[0..nsteps) elements. */
uint64_t sched_limit(const struct sched *, uint32_t i, const uint64_t *done);

/*
 * Two steps of one schedule that access the same memory, and at least one of them writes: elements
 * [lo, hi) of step `later` are elements [lo + shift, hi + shift) of step `earlier`. sched_conflicts
 * reports only the conflicts that imply all others: a step's conflicts with the last writer before
 * it, and a writer's conflicts with the readers since then.
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
