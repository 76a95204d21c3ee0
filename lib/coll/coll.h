/*
 * A job from request to result. Every kind of job runs through coll_run.
 *
 *     join      the ranks meet; this rank gets its number
 *     agree     each rank sends its offer; rank 0 answers with terms
 *     connect   open the connections that the schedules use
 *     run       data move
 *     commit    the output is complete; the ranks vote; the files get their names
 *
 * With request.dry_run the ranks agree, find what they would do, vote, and end.
 *
 * A table (task.h) has one row of functions per kind of job. A failure of one rank ends the job on
 * all ranks with the same culprit.
 *
 * Not thread-safe: one job per process, on one thread.
 */
#ifndef COLLCTL_COLL_COLL_H
#define COLLCTL_COLL_COLL_H

#include "lib/coll/member.h"
#include "lib/coll/request/request.h"
#include "lib/data/digest.h"
#include "lib/data/files/sink.h"
#include "lib/exec/exec.h"
#include "lib/price/select.h"

struct bench_head;
struct bench_row;
struct coll_result;
struct link_matrix;

/* What a rank did, with request.trace: on the coordinator's rank, in one or several parts. A first
 * part without events comes before data move. */
struct coll_traced {
	int rank, size;
	const char *host;                 /* "": all ranks are on one */
	double error;                     /* seconds by which its times may be wrong */
	uint64_t missed;                  /* events that it did not keep */
	const struct trace_event *events; /* times: clock_ns() of the coordinator's host */
	size_t n;
	bool last; /* no other part of this rank follows */
};

/* Callbacks while the job runs, on the job's thread. Each may be NULL. */
struct coll_observer {
	void *ctx;
	/* A note. @level 0: always shown; 1, 2: with more verbosity. @rank -1: unknown. */
	job_note *note;
	/* The rank, the size and the meeting place are known as far as the settings give them. */
	void (*joining)(void *ctx, const struct member *);
	/* The job is open. job_progress works until coll_run returns. */
	void (*opened)(void *ctx, struct job *);
	/* Data start to move: @bytes of this rank's files. @sink: the output, or NULL. */
	void (*moving)(void *ctx, uint64_t bytes, const struct sink *sink);
	/* With request.explain: the reasons for the choice of an algorithm. */
	void (*selected)(void *ctx, const struct select_args *, const struct selection *);
	/* Bench: `measuring` on rank 0 at the start; `measured` on every rank after each case;
	 * `benched` on rank 0 after the last, before the vote: -1 fails the job. */
	void (*measuring)(void *ctx, const struct bench_head *);
	void (*measured)(void *ctx, const struct bench_head *, const struct bench_row *);
	int (*benched)(void *ctx, const struct bench_head *, struct err *err);
	/* Check: the links, on the coordinator's rank, before the vote. -1 fails the job. */
	int (*checked)(void *ctx, struct job *, const struct link_matrix *, struct err *err);
	/* With request.trace: the ranks' records, on the coordinator's rank, before the vote. -1
	 * fails the job. */
	int (*traced)(void *ctx, const struct coll_traced *, struct err *err);
	/* After the last of them; the result has what describe (task.h) knows. -1 fails the job. */
	int (*traced_all)(void *ctx, const struct coll_result *, struct err *err);
	/* All ranks have voted, and this one is about to commit. */
	void (*decided)(void *ctx);
};

/* clock_ns() at the end of each stage; 0: not reached. The commit begins with the seal, when the
 * output is complete, and the verdict, when all ranks have voted. */
struct coll_times {
	int64_t start, join, connect, run, seal, verdict, commit;
};
/* Seconds between two of them; 0 if one was not reached. */
static inline double coll_seconds(int64_t from, int64_t to)
{
	return from && to > from ? (double)(to - from) / 1e9 : 0;
}

/* Counts of a tensor's values that are not finite. */
struct coll_found {
	const char *input, *tensor; /* tensor "": the input is an array */
	uint64_t count, nans, infs;
};

struct inspection;

/* What a collective with request.dry_run would do on this rank. stats, peers and steps of the
 * result have what its schedules would send and receive. */
struct coll_preview {
	struct coll_planned {
		const struct coll_algorithm *algorithm;
		enum dtype dtype, wire; /* in the files; sent */
		uint64_t count, bytes;  /* in the files */
		uint32_t windows;
	} * vectors;
	int nvectors;
	struct coll_planned_output {
		const char *path;
		enum sink_fate fate;
		bool sized; /* `bytes` is known: the file is not an archive */
		uint64_t bytes;
	} * outputs;
	int noutputs;
	uint64_t bytes_read, bytes_written; /* elements of all inputs; of all outputs */
};

struct coll_result {
	struct err err;   /* code 0: done */
	bool repeatable;  /* a rank or a link was lost, and no rank has committed: it may run again
	                   */
	enum phase phase; /* the phase that failed */
	int rank, size;   /* rank -1: not known */
	uint64_t all_inputs; /* that a collective processes together, of all ranks; 0: not known */
	int hosts;           /* of the ranks; 0: not known */
	const int *host;     /* as in struct coll_args; NULL: not known */
	const struct coll_algorithm *algorithm; /* the algorithm used, or NULL */
	const char *dtype;                      /* "mixed" for several types; NULL: none */
	const char *output;                     /* NULL: none */
	const char *const *inputs;              /* [ninputs]: names of the inputs */
	int ninputs;
	uint64_t count, bytes;
	size_t tensors; /* number of named tensors; 0: an array */
	bool has_digest;
	uint8_t digest[DIGEST_BYTES];
	struct exec_stats stats;
	struct exec_times spent; /* of a collective whose data have moved; else threads is 0 */
	/* The rank that worked longest while data moved; `on` is an enum spent, or SPENT_KINDS: it
	 * had no processor. Rank -1: not known. */
	struct workload busiest;
	int peers;
	int memory_lanes,
	        tcp_lanes; /* connections of the rank inside its host's memory, and others */
	uint32_t windows, streams;
	/* With devices: how they reach each other's memory (devices_path); else NULL. */
	const char *device_path;
	struct device_nccl nccl;
	struct coll_times times;
	/* request.stats: the tensors with NaN or Inf, and the total number of elements. */
	const struct coll_found *found;
	size_t nfound;
	struct coll_found found_all;
	const struct coll_preview *preview; /* request.dry_run, if it succeeded; else NULL */
	/* Verify, if it succeeded: [ninputs]. */
	const struct inspection *files;
	bool local; /* it compared the rank's files with each other */

	struct coll *job; /* internal; for coll_end */
};

/* Run the job. 0, or -1 with result->err set. The caller must call coll_end in either case; until
 * then @result is valid, and @request and @observer must stay valid. */
int coll_run(const struct coll_request *, const struct coll_observer *, struct coll_result *);
/* Free the result. Report it before this call: rank 0 waits here until the other ranks know of a
 * failure. */
void coll_end(struct coll_result *);

#endif
