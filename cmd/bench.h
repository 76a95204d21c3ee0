/*
 * bench: the parts of it. bench.c sweeps, bench_values.c makes inputs and looks at outputs,
 * bench_print.c prints.
 *
 * Sizes are nccl-tests': the bytes of the larger of a rank's input and output, so for allgather,
 * gather, scatter, reduce-scatter and alltoall those of all ranks' blocks together.
 */
#ifndef COLLCTL_CMD_BENCH_H
#define COLLCTL_CMD_BENCH_H

#include <jansson.h>

#include "algorithms/sched.h"
#include "cmd/options.h"
#include "lib/data/reduce.h"
#include "lib/exec/fileio.h"
#include "lib/exec/select.h"

/* One row of the table. */
struct bench_row {
	const struct coll_algorithm *algorithm; /* what ran */
	uint64_t size;                          /* bytes */
	uint64_t count;                         /* elements, as nccl-tests counts them */
	double min, p50, p99;                   /* seconds of an iteration: the slowest rank's */
	double algbw, busbw;                    /* bytes a second, of p50 */
	bool checked;
	uint64_t wrong; /* elements, over all ranks */
};

/* Bus bandwidth is algorithm bandwidth times this: what the links must carry at least (nccl-tests,
 * doc/PERFORMANCE.md). */
double bench_bus_factor(enum coll_kind kind, int size);
/* Do the elements of the table's size belong to all ranks together, a block to each? */
bool bench_is_blocks(enum coll_kind kind);

/* ---- values: small integers, so that every type holds every sum and the order is the same ---- */

struct bench_values {
	enum coll_kind kind;
	enum reduce_op op;
	enum dtype dtype;
	double divisor;
	const struct coll_args *args;
	bool filled; /* a rank's input is made once, but anew for each run that is checked */
	bool checking;
	uint64_t wrong; /* elements of the outputs that were written */
	uint8_t *buf;   /* BENCH_SCRATCH */
};

#define BENCH_SCRATCH (3 * BENCH_PIECE)
#define BENCH_CHUNK   8192               /* elements */
#define BENCH_PIECE   (BENCH_CHUNK * 16) /* their bytes, of the widest type */

/* The executor's files: reading makes the rank's input, writing compares with what this process
 * computes for itself from the inputs of all ranks. @ctx: struct bench_values. */
int bench_read(void *ctx, int part, int input, void *buf, uint64_t pos, uint64_t n,
               struct err *err);
int bench_write(void *ctx, int part, const void *buf, uint64_t pos, uint64_t n, bool final,
                struct err *err);

/* ---- tuning ---- */

/* Set the rates of @t to those that predict its measurements best. */
void bench_fit(struct select_tuning *t);

/* ---- printing ---- */

struct bench_head {
	const char *collective, *op; /* op: "none" where there is none */
	enum dtype dtype;
	int rank, size, warmup, iters;
	bool insecure;
};

enum bench_form { BENCH_TABLE, BENCH_CSV, BENCH_JSON };

void bench_print_head(const struct bench_head *, enum bench_form);
void bench_print_row(const struct bench_head *, const struct bench_row *, enum bench_form);
json_t *bench_row_json(const struct bench_head *, const struct bench_row *);

#endif
