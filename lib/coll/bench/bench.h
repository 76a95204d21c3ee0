/*
 * The job `bench`: bench.c runs the sweep, bench_values.c makes inputs and checks outputs,
 * bench_device.c measures devices, bench_fit.c fits the rates of a tuning file. Internal to
 * lib/coll, except the structs that observers get (coll.h). One thread: the job's. Times are
 * seconds, rates are seconds per byte, bandwidths are bytes per second.
 *
 * Sizes are those of nccl-tests: the bytes of a rank's input or output, whichever is larger. For
 * allgather, gather, scatter, reduce-scatter and alltoall this is the bytes of the blocks of all
 * ranks.
 *
 * Source: https://github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md.
 */
#ifndef COLLCTL_COLL_BENCH_BENCH_H
#define COLLCTL_COLL_BENCH_BENCH_H

#include "lib/data/kernels/reduce.h"
#include "lib/exec/fileio.h"
#include "lib/exec/memory_space.h"
#include "lib/job/proto.h"
#include "lib/price/select.h"
#include "lib/sched/sched.h"

struct devices;
struct job;

/* ---- bench_terms.c: what the coordinator chooses ---- */

struct bench_terms {
	uint32_t *shares; /* [size] (fill.h); NULL: even */
	/* Of the cases that `auto` chooses, in the order of the sweep. */
	const struct coll_algorithm **chosen;
	size_t n;
};
void bench_terms_put(struct buf *out, const struct bench_terms *, int size);
/* ERR_INTEGRITY, ERR_DISAGREE. The caller releases them in either case. */
int bench_terms_get(struct view v, enum coll_kind kind, int size, struct bench_terms *,
                    struct err *err);
int bench_terms_add(struct bench_terms *, const struct coll_algorithm *, struct err *err);
void bench_terms_release(struct bench_terms *);

/* The network by the links in the ranks' intents, not settled. The caller releases it in either
 * case. ERR_INTEGRITY. */
int bench_network(struct network *, const int *host, int size, const struct intent *const *intents,
                  bool tuned, struct err *err);

/* The result of one case: an algorithm and a size. */
struct bench_row {
	const struct coll_algorithm *algorithm; /* the one that ran (coll_resolve) */
	uint64_t size;                          /* bytes */
	uint64_t count;                         /* elements, as nccl-tests counts them */
	double min, p50, p99;                   /* seconds per iteration, on the slowest rank */
	double algbw, busbw;                    /* bytes per second, from p50 */
	bool checked;                           /* the outputs were checked */
	uint64_t wrong;                         /* number of wrong elements, on all ranks */
};

/* The ratio of bus bandwidth to algorithm bandwidth: the least bytes that a link must carry,
 * divided by the size. */
double bench_bus_factor(enum coll_kind kind, int size);

/* ---- values: small integers, so that sums are exact in every type and in any order ---- */

struct bench_values {
	enum coll_kind kind;
	enum reduce_op op;
	enum dtype dtype;
	double divisor; /* of an average */
	const struct coll_args *args;
	bool filled;    /* the executor's buffer has the input already: bench_read does nothing */
	bool checking;  /* the run checks outputs, and is not timed */
	uint64_t wrong; /* number of wrong elements that bench_write has found */
	uint8_t *buf;   /* [BENCH_SCRATCH], the caller's */
};

#define BENCH_SCRATCH (3 * BENCH_PIECE)
#define BENCH_CHUNK   8192               /* elements that are made and compared at a time */
#define BENCH_PIECE   (BENCH_CHUNK * 16) /* bytes of these in the widest type */

/* The executor's fileio_ops; @ctx is a struct bench_values. bench_read makes this rank's input.
 * bench_write compares the output with the result that this process computes from the inputs of all
 * ranks. */
int bench_read(void *ctx, int vector, int input, void *buf, uint64_t pos, uint64_t n,
               struct err *err);
int bench_write(void *ctx, int vector, const void *buf, uint64_t pos, uint64_t n, bool final,
                struct err *err);

/* ---- devices ---- */

/* device_start (seconds), device_copy and device_fold (seconds per byte) of struct price_model, of
 * the slowest device; 0: not measured. */
struct bench_device_rates {
	double start, copy, fold;
};
#define BENCH_DEVICE_RATES (sizeof(struct bench_device_rates) / sizeof(double))

/* The times of one kind of task, in seconds. */
struct bench_device_times {
	bool folds;                     /* the tasks fold; else they copy to or from a device */
	double start;                   /* the median of small tasks */
	double few, many;               /* the fastest small task; the fastest large task */
	uint64_t few_bytes, many_bytes; /* the bytes that these copy, or read and write */
};
/* Compute the rates from @t, and replace those of @r that are faster. */
void bench_device_take(struct bench_device_rates *r, const struct bench_device_times *t);
/* Set the rates of @m that were measured. */
void bench_device_set(struct price_model *m, const struct bench_device_rates *r);

/* The arguments and the state of bench_devices_measure. The caller owns what the members point
 * to. */
struct bench_devices {
	const struct memory_space *const *spaces; /* [n] */
	int n;
	const struct memory_space *host;
	uint64_t room;        /* the most bytes that it uses on each device, and in host memory */
	uint64_t device_room; /* the most that it uses on a device where it uses no host memory */
	/* Run one turn of the loop that completes tasks; -1 ends the measurement. */
	int (*turn)(struct bench_devices *, struct err *err);
	struct job *job; /* for `turn`; set by bench_devices */
	/* Its state while it measures: */
	uint64_t moved;            /* bytes of the completed tasks */
	const char *device, *what; /* the device that it waits for, and the task; NULL: none */
};
/* Measure all devices, one after the other. -1: ERR_RESOURCE, or the error of a task or of turn. */
int bench_devices_measure(struct bench_devices *, struct bench_device_rates *r, struct err *err);
/* The same for @devices, on the loop of @job. */
int bench_devices(struct job *job, struct devices *devices, uint64_t room, uint64_t device_room,
                  struct bench_device_rates *r, struct err *err);

/* ---- tuning ---- */

/* Set t->rates and t->memory to the rates that best predict t->measured. The rates of devices are
 * unchanged. Without memory for the computation: the built-in rates. */
void bench_fit(struct select_tuning *t);

/* ---- report ---- */

/* What all cases share, for the report. */
struct bench_head {
	const char *collective, *op; /* op: "none" if the collective has none */
	enum dtype dtype;
	int rank, size, warmup, iters;
	bool insecure;
	bool barrier;                /* the ranks wait for each other before each iteration */
	int memory_lanes, tcp_lanes; /* number of this rank's connections, as in mesh_count */
	bool barrier_auto;           /* a barrier without --algorithm: all_to_one is measured */
};

#endif
