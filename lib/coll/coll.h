/*
 * A job from request to result. coll_run runs every kind of job, in these stages:
 *
 *         join      the ranks meet; each gets its number
 *     agree     each rank sends its offer; rank 0 answers with terms
 *     connect   open the outputs and the connections that the schedules use
 *     run       data move
 *     commit    complete the outputs; vote; rename the outputs to their names
 *
 * With request.dry_run the ranks only agree, find out what they would do, and vote.
 *
 * Each kind of job has a row of functions for the stages (task.h). If one rank fails, the job ends
 * on all ranks with the same culprit.
 *
 * A job runs on one thread, which also calls the observer. A process may run several. Errors: any
 * code of err.h; the culprit is err.rank.
 */
#ifndef COLLCTL_COLL_COLL_H
#define COLLCTL_COLL_COLL_H

#include "lib/coll/member.h"
#include "lib/coll/pipeline.h"
#include "lib/coll/request/request.h"
#include "lib/data/digest.h"
#include "lib/data/files/sink.h"
#include "lib/exec/exec.h"
#include "lib/price/select.h"

struct coll;
struct bench_head;
struct bench_row;
struct coll_result;
struct link_matrix;

/* A part of the record of what a rank did, with request.trace; on the coordinator. A rank's record
 * has one or more parts. */
struct coll_traced {
	int rank, size;
	const char *host;                 /* "": all ranks are on one host */
	double error;                     /* seconds: the largest possible error of its times */
	uint64_t missed;                  /* number of events that were not kept (trace.h) */
	const struct trace_event *events; /* [n]; times are clock_ns() of the coordinator's host */
	size_t n;
	bool last; /* the last part of this rank */
};

/* Callbacks of coll_run. Each may be NULL. What their pointers point to is valid during the call,
 * unless they say otherwise. */
struct coll_observer {
	void *ctx;
	/* As in job.h. */
	job_note *note;
	/* Before the job is open: rank, size and meeting place, as far as the settings give
	 * them. */
	void (*joining)(void *ctx, const struct member *);
	/* The job is open. job_progress may be called until coll_run returns. */
	void (*opened)(void *ctx, struct job *);
	/* Before that, the ranks compare their files (--update, --delta, --resume): coll_progress
	 * may be called until coll_run returns. */
	void (*comparing)(void *ctx, const struct coll *);
	/* Data start to move: @bytes of this rank's files, read or written, whichever is more.
	 * coll_progress may be called until coll_run returns; or until the job is formed anew, when
	 * this is called with @coll NULL, and later once more. */
	void (*moving)(void *ctx, uint64_t bytes, const struct coll *);
	/* With request.explain, on rank 0: the prices of the algorithms, and the choice. */
	void (*selected)(void *ctx, const struct select_args *, const struct selection *);
	/* Of a bench. measuring: on rank 0, at the start. measured: on every rank, after each case.
	 * benched: on rank 0, after the last case and before the vote; -1 fails the job. */
	void (*measuring)(void *ctx, const struct bench_head *);
	void (*measured)(void *ctx, const struct bench_head *, const struct bench_row *);
	int (*benched)(void *ctx, const struct bench_head *, struct err *err);
	/* Of a check, on the coordinator, before the vote: the links. -1 fails the job. */
	int (*checked)(void *ctx, struct job *, const struct link_matrix *, struct err *err);
	/* With request.trace, on the coordinator: the parts of the ranks' records. The first call
	 * comes before data move and has no events; the others come before the vote. -1 fails the
	 * job. */
	int (*traced)(void *ctx, const struct coll_traced *, struct err *err);
	/* After the last part. The result has only what `describe` (task.h) fills. -1 fails the
	 * job. */
	int (*traced_all)(void *ctx, const struct coll_result *, struct err *err);
	/* The verdict: all ranks have voted, and this rank will commit. */
	void (*decided)(void *ctx);
};

/* clock_ns() at the start, and at the end of each stage; 0: not reached. join is the end of
 * agreeing; prepare, of collectives over files: files are compared, the outputs are open; seal: the
 * outputs are complete; verdict: all ranks have voted. */
struct coll_times {
	int64_t start, join, prepare, connect, run, seal, verdict, commit;
};
/* Seconds between two of them; 0 if one was not reached. */
static inline double coll_seconds(int64_t from, int64_t to)
{
	return from && to > from ? (double)(to - from) / 1e9 : 0;
}

/* The values of a tensor that are not finite. */
struct coll_found {
	const char *input, *tensor; /* names; tensor "": the input is an array */
	uint64_t count, nans, infs; /* elements; of these NaN; infinite */
};

/* How far a collective over files is on this rank. */
struct coll_progress {
	struct pipeline pipeline;
	uint64_t sent, received; /* bytes; PIPELINE_MOVE is both */
	uint64_t compared;       /* bytes of files, before data move, with those that were coded */
	uint64_t skipped;        /* bytes of files that are not sent, because all ranks have them */
	/* Of the bytes of PIPELINE_STORE those for which this rank has waited, and the ns: the
	 * speed of the disk. 0: it is not known. */
	uint64_t waited, waited_ns;
};
/* On the job's thread. */
void coll_progress(const struct coll *, struct coll_progress *);

struct inspection;

/* What a collective with request.dry_run would do on this rank. stats and peers of the result have
 * what its schedules would send and receive. */
struct coll_preview {
	struct coll_planned {
		const struct coll_algorithm *algorithm;
		enum dtype dtype, wire, out; /* in the inputs; on lanes; in the outputs */
		uint64_t count, bytes;       /* elements; their bytes in the inputs */
		uint32_t windows;
		double seconds; /* predicted, as in the result */
	} * vectors;
	int nvectors;
	struct coll_planned_output {
		const char *path;
		const char *points_to; /* of a symbolic link; NULL: it is a file */
		enum sink_fate fate;
		bool sized; /* bytes is known: the file is no archive */
		uint64_t bytes;
	} * outputs;
	int noutputs;
	const char **deletes; /* [ndeletes]: with delete: paths below `output` of the result */
	size_t ndeletes;
	uint64_t bytes_read, bytes_written; /* of the elements of all inputs; of all outputs */
};

/* The result owns everything that its members point to, until coll_end. */
struct coll_result {
	struct err err;         /* code 0: success */
	bool has_files;         /* a broadcast of files: */
	size_t sent_files;      /* of which something was sent, without hard links to others */
	uint64_t content_bytes; /* of the files, those of hard links once, holes included */
	/* How they travelled, in pieces of 1 MiB and the shorter last ones of files. Not known if
	 * the job failed, and in a dry run in which ranks compare files. */
	struct coll_pieces {
		bool known;
		uint64_t equal;      /* not sent: no rank lacks them */
		uint64_t delta;      /* sent as differences to the old version */
		uint64_t compressed; /* sent compressed, by themselves */
		uint64_t raw;        /* the others */
	} pieces;
	size_t deleted_files; /* with delete: files and folders that this rank has removed */
	size_t equal_files;   /* with update: files of which all ranks had a copy */
	uint64_t
	        plain_bytes; /* with delta: of the files' pieces that `bytes` of differences gave */
	const int *without_old; /* with delta, [nwithout]: the ranks that lack pieces of the old
	                           version */
	int nwithout;
	uint64_t whole_bytes; /* with delta: of pieces that were coded for these ranks alone */
	bool repeatable;      /* the job failed because a rank or a link was lost, and no rank has
	                         committed: the same job may run again */
	enum phase phase;     /* in which the job failed, or the last one */
	int rank, size;       /* rank -1: not known */
	int ncame;           /* the number of ranks that take part: size, unless some are missing */
	const int *came;     /* [ncame], ascending: they; NULL: all ranks, as far as is known */
	uint64_t all_inputs; /* of a collective: the number of inputs of all ranks; 0: not known */
	int hosts;           /* number of hosts; 0: not known */
	const int *host;     /* as in the plan; NULL: not known, or each has its own */
	const struct coll_algorithm *algorithm; /* the one that ran; NULL: none */
	const char *dtype;                      /* "mixed": several types; NULL: none */
	const char *output;                     /* name of the first output; NULL: none */
	bool cloned;               /* the outputs are clones of those of another rank of the host */
	const char *const *inputs; /* [ninputs]: names of the inputs */
	int ninputs;
	uint64_t count, bytes; /* elements of the result's data; their bytes */
	size_t tensors;        /* number of named tensors; 0: an array */
	bool has_digest;       /* digest is set: all ranks have the same result */
	uint8_t digest[DIGEST_BYTES];
	struct exec_stats stats;
	struct exec_times spent; /* of a collective whose data have moved; else its threads is 0 */
	/* The rank that worked longest while data moved; rank -1: not known. `on` is an enum spent;
	 * SPENT_KINDS: it was ready and had no processor. */
	struct workload busiest;
	int peers;                   /* number of ranks to which this rank was connected */
	int reconnects;              /* how often the job went back, because a lane broke */
	int memory_lanes, tcp_lanes; /* number of this rank's connections, as in mesh_count */
	uint32_t windows, streams;
	double predicted;  /* s, of the run without files and devices: on the coordinator of a
	                      collective; 0: not known */
	double plain_part; /* --wire q8: the bytes of the elements over those of their blocks */
	float max_error;   /* --wire q8: by how much an element may be off, at most */
	bool coded;        /* data travel to other hosts as coded pieces: stats.coded */
	struct network_found link; /* of this rank's host; zeros: not known, or there is one host */
	double round_trip;         /* to the coordinator, s; 0: not known */
	/* With devices: devices_path; else NULL. */
	const char *device_path;
	struct device_nccl nccl;
	struct coll_times times;
	/* request.stats: the tensors with NaN or Inf; the totals of all tensors. */
	const struct coll_found *found;
	size_t nfound;
	struct coll_found found_all;
	uint64_t overflowed; /* elements that this rank has written as Inf or NaN, because they are
	                        too large for request.output_dtype */
	const struct coll_preview *preview; /* request.dry_run, if it succeeded; else NULL */
	/* Verify, if it succeeded: [ninputs]. */
	const struct inspection *files;
	bool local; /* the rank's files were compared with each other, too */

	struct coll *job; /* private */
};

/* Run the job, and fill *result. 0; -1: result->err says why. The caller must call coll_end in
 * either case. @request and @observer must stay valid until then. */
int coll_run(const struct coll_request *, const struct coll_observer *, struct coll_result *);
/* Close the job and free what the result owns; its numbers and err stay valid. Report the result
 * before this call: the coordinator waits here until the other ranks have the outcome.
 * Idempotent. */
void coll_end(struct coll_result *);

#endif
