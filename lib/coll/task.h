/* Internal to lib/coll: the stages of a job (coll.c) and the functions of each kind of job. */
#ifndef COLLCTL_COLL_TASK_H
#define COLLCTL_COLL_TASK_H

#include "lib/coll/coll.h"
#include "lib/coll/files/tensor_table.h"
#include "lib/coll/tracing.h"

struct coll;

/*
 * The functions of one kind of job. NULL skips the stage. They return 0, or -1 with *err set, which
 * fails the job. `state` of struct coll belongs to the kind: state_size zeroed bytes.
 */
struct coll_task {
	size_t state_size;
	/* First; neither rank nor size is known. */
	int (*check)(struct coll *, struct err *err);
	/* The size is known; the job is not open yet. */
	int (*prepare)(struct coll *, struct err *err);
	/* The rank is known: open the inputs, fill c->intent and c->table. */
	int (*offer)(struct coll *, struct err *err);
	/* Do the ranks connect to each other for data? */
	bool (*meshes)(const struct coll *);
	/* job_decide and job_details (job.h) with this struct coll. */
	job_decide *decide;
	job_details *terms;
	/* With rounds (job_round): job_collect and job_answer, likewise. */
	job_collect *collect;
	job_answer *answer;
	/* c->plan is known. */
	int (*adopt)(struct coll *, struct err *err);
	/* With request.dry_run, instead of `connect` to `commit`: find what the job would do, and
	 * the errors that can be found without moving data or creating a file. */
	int (*preview)(struct coll *, struct err *err);
	int (*connect)(struct coll *, struct err *err);
	int (*run)(struct coll *, struct err *err);
	/* Complete the output. Sets *digest if all ranks have the same result. */
	int (*seal)(struct coll *, const uint8_t **digest, struct err *err);
	/* All ranks have voted yes; *err is filled on failure. NULL: nothing to do that can fail.
	 */
	enum fate (*commit)(struct coll *, struct err *err);
	/* What moves: algorithm, type and bytes of the result. With request.trace alone. */
	void (*describe)(const struct coll *, struct coll_result *);
	/* Fill the result, also if the job failed. */
	void (*report)(struct coll *, struct coll_result *);
	/* Before the job closes: free whatever uses its connections. */
	void (*disconnect)(struct coll *);
	void (*release)(struct coll *);
};

extern const struct coll_task coll_task_collective, coll_task_barrier, coll_task_verify,
        coll_task_bench, coll_task_check;

struct coll {
	const struct coll_request *request;
	const struct coll_observer *observer;
	const struct coll_task *task;
	void *state;
	struct member member;
	struct job *job;
	struct devices *devices; /* NULL: none */
	struct tracing *tracing; /* NULL: none */
	int rank, size;          /* rank -1: unknown */
	struct intent intent;
	struct tensor_table *table; /* for the ranks to compare; NULL: there is none */
	struct plan plan;
	struct coll_times times;
	enum phase phase;
};

/* The bytes for buffers that this rank offers: of --memory, and with devices of their memory, too.
 */
uint64_t coll_memory(const struct coll *);

/* Send a note to the observer. */
void coll_note(const struct coll *, int level, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));

#endif
