/*
 * bench: bench.c runs the sweep, bench_values.c makes inputs and checks outputs, bench_fit.c fits
 * the rates.
 *
 * Sizes follow nccl-tests: the bytes of a rank's input or output, whichever is larger. For
 * allgather, gather, scatter, reduce-scatter and alltoall the size covers the blocks of all ranks.
 */
#ifndef COLLCTL_COLL_BENCH_H
#define COLLCTL_COLL_BENCH_H

#include "algorithms/sched.h"
#include "lib/data/reduce.h"
#include "lib/exec/fileio.h"
#include "lib/exec/select.h"

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

/* ---- tuning ---- */

/* Set the rates of @t to those that best predict its measurements. */
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
