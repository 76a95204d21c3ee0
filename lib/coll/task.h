/* Internal to lib/coll: the stages of a job (coll.c) and the functions of each kind of job. */
#ifndef COLLCTL_COLL_TASK_H
#define COLLCTL_COLL_TASK_H

#include "lib/coll/coll.h"
#include "lib/coll/files/tensor_table.h"
#include "lib/coll/tracing.h"

struct coll;

/*
 * The functions of one kind of job, one per stage; docs/ARCHITECTURE.md has a table of them. NULL:
 * the stage does nothing. They return 0, or -1 with *err, which fails the job. They run on the
 * job's thread. coll.state is memory for the kind: state_size zeroed bytes.
 */
struct coll_task {
	size_t state_size;
	/* Check the request; rank and size are not known. */
	int (*check)(struct coll *, struct err *err);
	/* Before the job is opened; the size is known if the settings give it. */
	int (*prepare)(struct coll *, struct err *err);
	/* The rank is known: open the inputs, fill c->intent and c->table. Called again if the job
	 * is formed anew (job.h), after `renew`, which undoes all from offer to seal, but keeps the
	 * inputs open. renew NULL: a rank that is lost ends the job. */
	void (*renew)(struct coll *);
	int (*offer)(struct coll *, struct err *err);
	/* Will the ranks open a mesh? */
	bool (*meshes)(const struct coll *);
	/* Does a lane that breaks take the ranks back (job.h)? The same on all ranks. NULL: no. */
	bool (*goes_back)(const struct coll *);
	/* job_decide and job_details (job.h); their ctx is the struct coll. */
	job_decide *decide;
	job_details *terms;
	/* For job_round: job_collect and job_answer, likewise. */
	job_collect *collect;
	job_answer *answer;
	/* c->plan is known. */
	int (*adopt)(struct coll *, struct err *err);
	/* With request.dry_run, instead of connect to commit: find out what the job would do, and
	 * the errors that can be found without moving data or creating a file. */
	int (*preview)(struct coll *, struct err *err);
	int (*connect)(struct coll *, struct err *err);
	int (*run)(struct coll *, struct err *err);
	/* Complete the output. If all ranks have the same result, set *digest, which must stay
	 * valid. */
	int (*seal)(struct coll *, const uint8_t **digest, struct err *err);
	/* After the verdict: commit; *err is filled on failure. Returns what the outputs are. NULL:
	 * the kind has no commit. */
	enum fate (*commit)(struct coll *, struct err *err);
	/* Only with request.trace: fill algorithm, type and bytes of the result. */
	void (*describe)(const struct coll *, struct coll_result *);
	/* Fill the result, also if the job failed. */
	void (*report)(struct coll *, struct coll_result *);
	/* Before the job is closed: free what uses its connections. */
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
	bool offered;               /* it has been sent */
	struct tensor_table *table; /* which the ranks compare; NULL: none */
	struct plan plan;
	struct network_found link; /* coll_link, and the round trip to the coordinator, s; 0: not */
	double round_trip;         /* known. Once the plan is known, if there are several hosts */
	struct coll_times times;
	enum phase phase; /* the current one, or the one that failed */
};

/* The bytes for buffers that this rank offers: --memory or, with devices, budget_with_devices. */
uint64_t coll_memory(const struct coll *);
/* The bytes of each device's memory that the job may have; it has devices. */
uint64_t coll_device_memory(const struct coll *c);
/* Open the devices for more threads, up to @threads. Returns how many of them may use them; -1: the
 * driver does not answer. The job has no devices then. */
int coll_devices_for(struct coll *c, int threads, struct err *err);

/* What this rank knows of its host's link. Once it has joined; on the coordinator once all ranks
 * have. */
struct network_found coll_link(const struct coll *);
/* The same with what one connection can have on its way, for the offer to the coordinator. */
struct network_found coll_offered_link(const struct coll *);
/* On the coordinator, before the plan: add to a network of what the ranks offer its own link, the
 * round trips and what the tuning file (NULL: none) knows of the hosts, and settle it. @host: as in
 * the plan. ERR_RESOURCE. */
int coll_find_network(const struct coll *, const int *host, const struct select_tuning *tuning,
                      struct network *, struct err *err);

/* A round (job_round) with @part, which is released; if it has failed, ERR_RESOURCE for @what. */
int coll_round(struct coll *, struct buf *part, const char *what, struct view *answer,
               struct err *err);
/* The same, while other ranks may do long work of their own: waiting for them is no stall. */
int coll_await_round(struct coll *, struct buf *part, const char *what, struct view *answer,
                     struct err *err);

/* Send a note to the observer. */
void coll_note(const struct coll *, int level, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));

#endif
