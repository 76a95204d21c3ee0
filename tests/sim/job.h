/* A job that is drawn, between the files that draw it (job.c), write and read its files
 * (job_files.c), bring its faults (faults.c) and judge how it ended (judge.c). */
#ifndef COLLCTL_TESTS_SIM_JOB_H
#define COLLCTL_TESTS_SIM_JOB_H

#include "lib/data/dtype.h"
#include "lib/data/kernels/reduce.h"
#include "lib/sched/coll_args.h"
#include "tests/sim/sim.h"

#define INPUTS_MOST 2

enum fault {
	/* from which a job must end well, if they are bounded */
	LATENCY,
	SMALL_BUFFERS,
	SHORT_IO,
	PAUSE,
	PARTITION,
	STORE_FAILS,
	STALE_RECORD,
	RESTART,
	SLOW_DISK,
	LATE,
	REPLAY,
	SCAN,
	/* from which it may fail */
	CRASH,
	HOST_DIES,
	RESET,
	CUT,
	LONG_PAUSE,
	DISK_FAILS,
	STORE_LIES,
	SIGNALS,
	FLIPS,
	MISSING,
	TWICE,
	BREAKS, /* the control link of a rank, after its vote */
	/* drawn apart */
	INSIDER,
	LANES,  /* lanes are reset while data move: all ranks go back, and the job must end well */
	ABSENT, /* with --min-ranks: ranks that never start */
	FAULTS
};

#define BIT(fault) (1u << (fault))
#define LOSSES     (~0u << CRASH & ~(BIT(LANES) | BIT(ABSENT)))

struct job {
	enum coll_kind kind;
	int size, root;
	enum dtype dtype;
	const char *descr;
	enum reduce_op op;
	int breaks;           /* the rank whose link breaks */
	int64_t breaks_after; /* its vote */
	int lanes;            /* that are still to be reset */
	bool tls, store, automatic, counts, sync;
	const char *algorithm;
	uint64_t rows[RANKS_MOST]; /* of each rank's input */
	/* Where its part for each rank begins; with --counts as they say. */
	uint64_t cuts[RANKS_MOST][RANKS_MOST + 1];
	int ninputs[RANKS_MOST];
	uint8_t *in[RANKS_MOST][INPUTS_MOST];
	int hosts[RANKS_MOST];
	bool had_old[RANKS_MOST];
	int streams;
	uint64_t memory; /* 0: the default */
	bool ordered;
	int64_t timeout, join_timeout;
	bool bounded;
	unsigned faults;           /* drawn: bits */
	unsigned struck;           /* happened while ranks ran: bits */
	int signalled;             /* signals that processes got */
	int crashed;               /* processes that crashed */
	unsigned dark;             /* hosts whose power has failed: bits */
	uint8_t *want[RANKS_MOST]; /* the outputs; NULL: this rank has none */
	uint64_t nwant[RANKS_MOST];
	struct proc *procs[RANKS_MOST]; /* whose end counts */
	struct proc *first;             /* the coordinator before its restart */
	int insider;                    /* its rank; -1: nobody */
	int fewest;                     /* --min-ranks; 0: all */
	int64_t grace;
	unsigned absent; /* ranks that never start: bits */
	unsigned came;   /* ranks whose parts are in the outputs, as these show: bits */
	struct rng fewer, early;
	bool breaks_early; /* with LANES: lanes also break before data move */
	int64_t deadline;
	struct rng rng;
};

extern struct job job;

/* ---- job.c ---- */

struct proc *make_proc(int r);

/* ---- job_files.c ---- */

/* What must come out, by the model, if the ranks @came take part. */
void expect(unsigned came);
/* With --min-ranks: find those that take part, by the outputs. False: there are no such ranks. */
bool find_came(void);
void write_files(void);

enum found { FOUND_OLD, FOUND_NEW, FOUND_WRONG };

enum found look_at_output(int r);
/* Is its output a whole .npy file, whatever is in it? *@sum then identifies its bytes. */
bool is_whole(int r, uint64_t *sum);
/* Removes all of its files. Returns how many there were besides the inputs and the output. */
int clear_folder(int r);

/* ---- faults.c ---- */

void draw_setting(void);
void extend(int64_t until); /* the deadline of all: some time after what happens then */
int random_host(void);
void power_fails(int host);
void set_bounded_faults(void);
void set_unbounded_faults(void);
void set_insider(void);
void draw_fewer(void);  /* --min-ranks, and who never starts */
void start_ranks(void); /* or, where the first coordinator is killed, that one before */

/* ---- judge.c ---- */

void complain(struct verdict *, const char *fmt, ...);
const char *said(const struct proc *);
void judge(struct verdict *);
void judge_insider(struct verdict *);
void judge_leftovers(struct verdict *);
void judge_names(struct verdict *);

/* ---- for all of them ---- */

static inline uint64_t below(uint64_t n)
{
	return rng_below(&job.rng, n);
}

static inline bool chance(unsigned per_mille)
{
	return rng_chance(&job.rng, per_mille);
}

static inline bool reduces(void)
{
	return coll_reduces(job.kind);
}

static inline bool rooted(void)
{
	return job.kind == COLL_REDUCE || job.kind == COLL_BROADCAST || job.kind == COLL_SCATTER ||
	       job.kind == COLL_GATHER;
}

static inline bool has_input(int r)
{
	return (job.kind != COLL_BROADCAST && job.kind != COLL_SCATTER) || r == job.root;
}

static inline unsigned all_ranks(void)
{
	return (1u << job.size) - 1;
}

static inline size_t bytes_of(uint64_t rows)
{
	return rows * dtype_size(job.dtype);
}

static inline bool has(enum fault f)
{
	return job.faults >> f & 1;
}

static inline void strikes(enum fault f)
{
	job.struck |= 1u << f;
}

#endif
