/*
 * One rank's part in a job, from finding the others to the verdict: join, agree, connect, run,
 * vote, commit; and the abort, by which one rank's failure ends every rank with the same culprit.
 *
 *     job_open -> job_enter (the rank is known) -> job_agree (the plan is known)
 *       -> job_connect (the mesh stands) -> ... job_turn ... -> job_vote -> job_finish -> job_close
 *
 * Every call runs the event loop until its answer is there, so heartbeats go on meanwhile. Whatever
 * fails, the caller passes the error to job_fail, which tells the others, learns the culprit from
 * the coordinator, and leaves the error to print; then job_close.
 *
 * SIGINT, SIGTERM and SIGHUP are taken over by job_enter: a call then fails with code 128 + signal.
 * They stay blocked after job_close: a signal that comes when the job has ended changes nothing,
 * and the process ends with the job's outcome.
 */
#ifndef COLLCTL_JOB_JOB_H
#define COLLCTL_JOB_JOB_H

#include "lib/job/hostfile.h"
#include "lib/job/proto.h"
#include "lib/job/secret.h"
#include "lib/net/loop.h"
#include "lib/net/mesh.h"

#define JOB_RANK_AUTO (-2)

/* What the job does, for -v (level 1) and -vv (2). @rank: this one, or -1 before it is known. */
typedef void job_note(void *ctx, int level, int rank, const char *text);

struct job_conf {
	const char *name;      /* --job */
	const char *name_from; /* the launcher's variable that it is from; NULL: none */
	uint8_t launch_tag[8]; /* of the launcher's id; zeros: the user has named the job */
	int rank;              /* or JOB_RANK_AUTO */
	int size;              /* 0: told by the others (rank auto) */
	struct secret *secret; /* NULL: --insecure. Wiped once all have joined */
	const char *rendezvous;
	char *store_token; /* or NULL. Wiped once the store has it */
	const struct hostfile *hosts;
	const char *coordinator; /* from run; NULL */
	int listen_fd;           /* from run, for rank 0; -1 */
	const char *listen, *advertise, *iface;
	int port_lo, port_hi;
	int64_t join_timeout, timeout; /* ns */
	struct presence present;       /* of this rank; the job fills the address */
	job_note *note;                /* or NULL */
	void *note_ctx;
};

struct job;

struct job *job_open(const struct job_conf *, struct err *err);
int job_enter(struct job *, struct err *err);
int job_rank(const struct job *);        /* -1 before job_enter knows it */
int job_root(const struct job *);        /* where conf.present.finds_root, from job_enter on */
int job_coordinator(const struct job *); /* its rank; -1: not known */
/* The host of a rank, once the plan is known; "" where all ranks are on one host, or not known. */
const char *job_host(const struct job *, int rank);
struct loop *job_loop(struct job *);

/* Rank 0's decision once all agree: fill the plan but for session, key and memory. */
typedef int job_decide(void *ctx, const struct intent *const *intents, struct plan *plan,
                       struct err *err);
/* And what it tells each rank beside the plan, if anything: at most DETAILS_MAX bytes, which become
 * that rank's plan.details. The intents that decide saw are still there. To be set before
 * job_agree. */
typedef void job_details(void *ctx, int rank, struct buf *out);
void job_tells(struct job *, job_details *fn, void *ctx);
/* Listen for data (unless @mesh is false), say what is to be done, learn the plan. @in->data_addr
 * is filled here; plan->details live as long as the job; plan->key stays the job's. @decide NULL:
 * there is nothing to decide, the plan has one window and one stream. */
int job_agree(struct job *, struct intent *in, bool mesh, job_decide *decide, void *ctx,
              struct plan *plan, struct err *err);

/*
 * A rank's table: entries (name, value) in the order of the names' bytes, such as a checkpoint's
 * tensors with type and shape, of which the ranks compare a digest: as a fact (intent.table) or as
 * the vote's digest. Where that differs, rank 0 fetches the tables of a dissenter and of one who is
 * with the most, page by page, up to the first entry that differs, so that the failure names it.
 */
/* Write page @page of the table into @out, which is empty: entries by table_put (proto.h), as many
 * as make TABLE_PAGE bytes; nothing behind the last. Called on the job's thread, any page in any
 * order, in job_agree and job_vote. */
typedef void job_table(void *ctx, uint32_t page, struct buf *out);
/* What a difference is said of: "tensor" gives "tensor NAME is missing"; rank 0 says so to all, be
 * its own @fn NULL. To be set before job_agree; the table of before the vote may be another (it has
 * digests), or NULL. @noun lives as long as the job. */
void job_shows(struct job *, const char *noun, job_table *fn, void *ctx);

/* The mesh over the given edges (ascending peers), standing. The job's until job_close. */
struct mesh *job_connect(struct job *, const int *out, int nout, const int *in, int nin,
                         int streams, size_t buffer, struct err *err);

/* The same without waiting, and one edge that fails is no failure of the job: @fn learns of each
 * (mesh.h, on_edge), and the caller watches for those that do not move. NULL: error. Until
 * job_connect_end. */
typedef void job_edge(void *ctx, int peer, bool out, int stream, struct conn *conn,
                      const struct err *err);
struct mesh *job_connect_each(struct job *, const int *out, int nout, const int *in, int nin,
                              size_t buffer, job_edge *fn, void *ctx, struct err *err);
void job_connect_end(struct job *);
/* The link from @from to @to, one of them this rank, has failed: the job fails at the vote, and
 * names all links that failed on any rank. */
void job_link_failed(struct job *, int from, int to, const char *why);
int64_t job_timeout(const struct job *); /* ns */

/* Which of the ranks at its address this is, from 0 in the order of ranks. Once the plan is known.
 */
int job_local_index(const struct job *);

/* One turn of the loop, at most until something happens. -1: aborted, signalled or stalled. */
int job_turn(struct job *, struct err *err);
/* The same, at most until @until (clock_ns()). */
int job_turn_until(struct job *, int64_t until, struct err *err);
/* The same without waiting. */
int job_poll(struct job *, struct err *err);
/* Turns until @fd is readable. A file, which keeps no reader waiting, is so at once. */
int job_await(struct job *, int fd, struct err *err);
/* Run @fn, which may take long, on a thread of its own meanwhile. Where the job ends before, @fn is
 * told to stop (offload.h) and waited for, and what it returns no longer counts. */
int job_aside(struct job *, int (*fn)(void *ctx, struct err *err), void *ctx, struct err *err);
/* For heartbeats and the watch for stalls: the phase, a number that grows with progress, and who
 * is waited for (may be NULL). A phase in which only this machine works (PHASE_COMMIT) can't
 * stall. */
void job_phase(struct job *, enum phase);
void job_moved(struct job *, uint64_t moved, uint64_t total); /* total: at the end; 0: not known */
void job_waits(struct job *, int (*fn)(void *ctx, int *peers, int cap), void *ctx);

/* What there is to show of how the job goes. */
struct job_progress {
	enum phase phase;      /* this rank's */
	uint64_t moved, total; /* this rank's, as job_moved was told */
	int slowest;           /* the rank that is least far, by the last beats; -1: not known */
	enum phase slowest_phase;
	double slowest_done;  /* the fraction that it has moved */
	struct joined joined; /* in PHASE_JOIN: who is there; size 0: not known */
};
void job_progress(const struct job *, struct job_progress *out);

/* The output is complete: vote for the commit, with the digest of a replicated result or NULL.
 * 0: everybody voted yes. */
int job_vote(struct job *, const uint8_t digest[VOTE_DIGEST], struct err *err);
/* Committed (@mine NULL or code 0) or not: tell, and learn whether all did. -1: a rank failed to,
 * or was lost before it said so; *err names it. */
int job_finish(struct job *, const struct err *mine, struct err *err);

/* *err: what failed here. Afterwards: what the job failed of. Idempotent. */
void job_fail(struct job *, struct err *err);
void job_close(struct job *);

#endif
