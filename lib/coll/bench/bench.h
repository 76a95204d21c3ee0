/*
 * bench: bench.c runs the sweep, bench_values.c makes inputs and checks outputs, bench_device.c
 * measures devices, bench_fit.c fits the other rates.
 *
 * Sizes follow nccl-tests: the bytes of a rank's input or output, whichever is larger. For
 * allgather, gather, scatter, reduce-scatter and alltoall the size covers the blocks of all ranks.
 */
#ifndef COLLCTL_COLL_BENCH_BENCH_H
#define COLLCTL_COLL_BENCH_BENCH_H

#include "lib/data/kernels/reduce.h"
#include "lib/exec/fileio.h"
#include "lib/exec/memory_space.h"
#include "lib/price/select.h"
#include "lib/sched/sched.h"

struct devices;
struct job;

/* One row of the table. */
struct bench_row {
	const struct coll_algorithm *algorithm; /* the algorithm used */
	uint64_t size;                          /* bytes */
	uint64_t count;                         /* elements, as nccl-tests counts them */
	double min, p50, p99;                   /* seconds per iteration, on the slowest rank */
	double algbw, busbw;                    /* bytes per second, from p50 */
	bool checked;
	uint64_t wrong; /* wrong elements on all ranks */
};

/* The ratio of bus bandwidth to algorithm bandwidth: it accounts for the least traffic that the
 * links must carry (nccl-tests, doc/PERFORMANCE.md). */
double bench_bus_factor(enum coll_kind kind, int size);
/* Does a size count the blocks of all ranks? */
bool bench_is_blocks(enum coll_kind kind);

/* ---- values: small integers, so that sums are exact in every type and in any order ---- */

struct bench_values {
	enum coll_kind kind;
	enum reduce_op op;
	enum dtype dtype;
	double divisor;
	const struct coll_args *args;
	bool filled; /* the buffer has the input: timed runs fill it once */
	bool checking;
	uint64_t wrong; /* wrong elements of the written outputs */
	uint8_t *buf;   /* BENCH_SCRATCH */
};

#define BENCH_SCRATCH (3 * BENCH_PIECE)
#define BENCH_CHUNK   8192               /* elements */
#define BENCH_PIECE   (BENCH_CHUNK * 16) /* bytes of a chunk of the widest type */

/* fileio_ops of the executor: reading generates this rank's input; writing compares the output with
 * the result that this process computes from the inputs of all ranks. @ctx: struct bench_values. */
int bench_read(void *ctx, int vector, int input, void *buf, uint64_t pos, uint64_t n,
               struct err *err);
int bench_write(void *ctx, int vector, const void *buf, uint64_t pos, uint64_t n, bool final,
                struct err *err);

/* ---- devices ---- */

/* The rates of struct price_model of the slowest device; 0: not measured. */
struct bench_device_rates {
	double start, copy, fold;
};
#define BENCH_DEVICE_RATES (sizeof(struct bench_device_rates) / sizeof(double))

/* The times of one kind of task, in seconds. */
struct bench_device_times {
	bool folds;                     /* else it copies to or from a device */
	double start;                   /* the median of small tasks */
	double few, many;               /* the fastest small task, and the fastest large one */
	uint64_t few_bytes, many_bytes; /* that they copy, or read and write */
};
/* Raise @r to the rates of @t where those are slower. */
void bench_device_take(struct bench_device_rates *r, const struct bench_device_times *t);
/* Set the measured rates in @m. */
void bench_device_set(struct price_model *m, const struct bench_device_rates *r);

/* What bench_devices_measure works on. */
struct bench_devices {
	const struct memory_space *const *spaces; /* [n] */
	int n;
	const struct memory_space *host;
	uint64_t room; /* bytes that it may use on each device, and in host memory */
	/* One turn of the loop that completes tasks. */
	int (*turn)(struct bench_devices *, struct err *err);
	struct job *job; /* set and used by bench_devices */
	/* While it measures: */
	uint64_t moved;            /* bytes of the tasks so far */
	const char *device, *what; /* the device that it waits for, and the task; NULL: none */
};
int bench_devices_measure(struct bench_devices *, struct bench_device_rates *r, struct err *err);
/* The same with @devices, on the loop of @job. */
int bench_devices(struct job *job, struct devices *devices, uint64_t room,
                  struct bench_device_rates *r, struct err *err);

/* ---- tuning ---- */

/* Set the rates of @t to those that best predict its measurements. Those of devices stay. */
void bench_fit(struct select_tuning *t);

/* ---- report ---- */

struct bench_head {
	const char *collective, *op; /* op: "none" if the collective has none */
	enum dtype dtype;
	int rank, size, warmup, iters;
	bool insecure;
	bool barrier;                /* before each iteration */
	int memory_lanes, tcp_lanes; /* of this rank */
	bool barrier_auto;           /* barrier without --algorithm: reported as all_to_one */
};

#endif
