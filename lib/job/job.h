/*
 * One rank's part in a job, from finding the others to the verdict: join, agree, connect, run,
 * vote, commit; and the abort, by which one rank's failure ends every rank with the same culprit.
 *
 *     job_open -> job_enter (the rank is known) -> job_agree (the plan is known)
 *       -> job_connect (the mesh is ready) -> ... job_turn ... -> job_vote -> job_finish ->
 *       job_close
 *
 * Every call runs the event loop until its result is known, so heartbeats continue meanwhile. If a
 * call fails, the caller passes the error to job_fail, which notifies the other ranks, gets the
 * culprit from the coordinator, and returns the error to print; then job_close.
 *
 * Unless settings->embedded, job_enter handles SIGINT, SIGTERM and SIGHUP: a call then fails with
 * code 128 + signal. They stay blocked after job_close: a signal after the end of the job changes
 * nothing, and the process exits with the job's outcome.
 */
#ifndef COLLCTL_JOB_JOB_H
#define COLLCTL_JOB_JOB_H

#include "lib/crypto/secret.h"
#include "lib/job/failed_links.h"
#include "lib/job/job_settings.h"
#include "lib/job/proto.h"
#include "lib/net/loop.h"
#include "lib/net/mesh.h"
#include "lib/store/hostfile.h"

#define JOB_RANK_AUTO (-2)

/* What the job does, for -v (level 1) and -vv (2). @rank: this one, or -1 before it is known. */
typedef void job_note(void *ctx, int level, int rank, const char *text);

struct job_conf {
	const struct job_settings *settings; /* outlive the job */
	const char *name;                    /* --job */
	const char *name_from; /* the launcher's variable that it is from; NULL: none */
	uint8_t launch_tag[8]; /* of the launcher's id; zeros: the user has named the job */
	int rank;              /* or JOB_RANK_AUTO */
	int size;              /* 0: from the other ranks (rank auto) */
	struct secret *secret; /* wiped once all have joined */
	struct credentials *credentials; /* without a secret; likewise. Neither: --insecure */
	const char *rendezvous;
	char *store_token; /* or NULL. Wiped once the store has it */
	const struct hostfile *hosts;
	const char *coordinator; /* from run; NULL */
	int listen_fd;           /* from run, for rank 0; -1 */
	struct presence present; /* of this rank; the job fills address, start and age */
	job_note *note;          /* or NULL */
	void *note_ctx;
};

struct job;

struct job *job_open(const struct job_conf *, struct err *err);
int job_enter(struct job *, struct err *err);
int job_rank(const struct job *);        /* -1 before job_enter knows it */
int job_root(const struct job *);        /* if conf.present.finds_root; known after job_enter */
int job_coordinator(const struct job *); /* its rank; -1: not known */
/* The host of a rank, once the plan is known; "" where all ranks are on one host, or not known. */
const char *job_host(const struct job *, int rank);
/* Has @rank sent the same identity of its host as this rank? A hint (host_groups.h). False before
 * the plan is known. */
bool job_shares_host(const struct job *, int rank);
struct loop *job_loop(struct job *);

/* Rank 0's decision when all agree: fill the plan except session, key and memory. */
typedef int job_decide(void *ctx, const struct intent *const *intents, struct plan *plan,
                       struct err *err);
/* The details that rank 0 sends to each rank in addition to the plan: at most DETAILS_MAX bytes,
 * which become that rank's plan.details. The intents that decide saw are still valid. */
typedef void job_details(void *ctx, int rank, struct buf *out);
/*
 * A rank's table: entries (name, value) in the order of the names' bytes, such as a checkpoint's
 * tensors with type and shape, of which the ranks compare a digest: as a fact (intent.table) or as
 * the vote's digest. If digests differ, rank 0 fetches the tables of a rank that differs and of one
 * of the majority, page by page, up to the first entry that differs, so that the failure names it.
 *
 * Write page @page of the table into @out, which is empty: entries by table_put (proto.h), as many
 * as make TABLE_PAGE bytes; nothing after the last. Called on the job's thread, any page in any
 * order, in job_agree and job_vote.
 */
typedef void job_table(void *ctx, uint32_t page, struct buf *out);

/* On the coordinator, in job_round: the part of @rank has come (-1: malformed), and, when all have,
 * the answer to @rank. */
typedef int job_collect(void *ctx, int rank, struct view part, struct err *err);
typedef void job_answer(void *ctx, int rank, struct buf *out);

/* The job keeps a copy. */
struct job_callbacks {
	job_decide *decide;   /* NULL: the plan has one window and one stream */
	job_details *details; /* NULL: there are none */
	job_table *table;     /* NULL: this rank has no table */
	const char *noun;     /* of a table's entry in messages: "tensor" gives "tensor NAME is
	                       * missing"; rank 0 needs it even without a table */
	job_collect *collect; /* both NULL: the job has no rounds */
	job_answer *answer;
	void *ctx;
};
/* Listen for data (unless @mesh is false), send the intent, get the plan. @in->data_addr is filled
 * here; plan->details are valid until job_close; the job owns plan->key. */
int job_agree(struct job *, struct intent *in, bool mesh, const struct job_callbacks *,
              struct plan *plan, struct err *err);

/* The mesh of the given edges (ascending peers), all ready. The job owns it until job_close.
 * @arena: bytes of the memory that this rank shares with others of its host, from which the caller
 * allocates what it sends (mesh_arena). */
struct mesh *job_connect(struct job *, const int *out, int nout, const int *in, int nin,
                         int streams, size_t buffer, size_t arena, struct err *err);

/* The same without waiting, and an edge that fails does not fail the job: @fn is called for each
 * edge (mesh.h, on_edge) until job_connect_end, and the caller watches (job_caller_watches).
 * NULL: error. */
typedef void job_edge(void *ctx, int peer, bool out, int stream, struct conn *conn,
                      const struct err *err);
struct mesh *job_connect_each(struct job *, const int *out, int nout, const int *in, int nin,
                              size_t buffer, job_edge *fn, void *ctx, struct err *err);
void job_connect_end(struct job *);
/* The link from @from to @to, one of them this rank, has failed: the job fails at the vote, and
 * names all links that failed on any rank. */
void job_link_failed(struct job *, int from, int to, enum link_state state, const char *why);
/* The failures of this rank so far, as link_encode (failed_links.h) writes them. */
struct view job_failed_links(const struct job *);
/* Does the caller look for edges and ranks without progress? Otherwise the job does. */
void job_caller_watches(struct job *, bool yes);
int64_t job_timeout(const struct job *); /* ns */

/*
 * A round: every rank sends its @part to the coordinator, which answers each when it has the parts
 * of all. So no rank returns before all have called. Valid from job_agree to job_vote; all ranks
 * make the same number of calls. @answer is valid until the next call; it may be NULL. Ranks wait
 * here as long as the others take: the caller watches (job_caller_watches).
 */
#define JOB_ROUND_MAX (1u << 20) /* bytes of a part, and of an answer */
int job_round(struct job *, const struct buf *part, struct view *answer, struct err *err);

/* How the coordinator's clock (clock_ns) differs from this rank's. */
struct clock_offset {
	int64_t at;     /* ns, this rank's clock: when it was measured */
	int64_t offset; /* ns, to add to this rank's clock */
	int64_t error;  /* ns: at most so much is the offset wrong */
};
/* Measure it, over the control link. Valid from job_agree to job_vote. */
int job_clock(struct job *, struct clock_offset *, struct err *err);
/* The exchange of CLOCK messages that the rank sent at @sent and whose answer @theirs came at
 * @came: is it better than the best so far (error -1: there is none)? Then it replaces it. */
void clock_offset_take(struct clock_offset *best, int64_t sent, int64_t theirs, int64_t came);
/* The coordinator's clock at @t of this rank's, from two measurements. Between them the clocks
 * drift, if their offsets differ by more than their errors; before and after them they do not. */
int64_t clock_offset_apply(const struct clock_offset *first, const struct clock_offset *last,
                           int64_t t);

/* Which of the ranks on its host this is, from 0 in the order of ranks. Once the plan is known. */
int job_local_index(const struct job *);
/* How many ranks are on this rank's host, with it. Once the plan is known. */
int job_ranks_here(const struct job *);

/* One turn of the loop, at most until something happens. -1: aborted, signalled or stalled. */
int job_turn(struct job *, struct err *err);
/* The same, at most until @until (clock_ns()). */
int job_turn_until(struct job *, int64_t until, struct err *err);
/* The same without waiting. */
int job_poll(struct job *, struct err *err);
/* Turns until @fd is readable. A regular file is readable at once. */
int job_await(struct job *, int fd, struct err *err);
/* Run @fn, which may take long, on a thread; the job goes on meanwhile. If the job ends first, @fn
 * is asked to stop (offload.h) and waited for, and its result no longer counts. */
int job_run_in_thread(struct job *, int (*fn)(void *ctx, struct err *err), void *ctx,
                      struct err *err);
/* The same for a call that may never return, such as one into a driver, whose name is @who. If the
 * job ends first, or --timeout passes (ERR_RESOURCE), the thread is left behind. @fn uses only
 * *@ctx, which is on the heap. On -1 @drop frees it, once @fn has returned, on either thread. */
int job_ask_in_thread(struct job *, const char *who, int (*fn)(void *ctx, struct err *err),
                      void (*drop)(void *ctx), void *ctx, struct err *err);
/* For heartbeats and the detection of stalls: the phase, a number that grows with progress, and the
 * peers for which this rank waits (may be NULL). If this rank waits for a device, @fn writes
 * its name and the step that it has not completed into @device. A phase in which only this machine
 * works (PHASE_COMMIT) cannot stall. */
void job_phase(struct job *, enum phase);
void job_moved(struct job *, uint64_t moved, uint64_t total); /* total: at the end; 0: not known */
typedef int job_waits_fn(void *ctx, int *peers, int cap, char *device, size_t device_cap);
void job_waits(struct job *, job_waits_fn *fn, void *ctx);

/* The progress of the job, for display. */
struct job_progress {
	enum phase phase;      /* this rank's */
	uint64_t moved, total; /* this rank's, from job_moved */
	int slowest;           /* the slowest rank, by the last beats; -1: not known */
	enum phase slowest_phase;
	double slowest_done;  /* the fraction that it has moved */
	struct joined joined; /* in PHASE_JOIN: the ranks that have joined; size 0: not known */
};
void job_progress(const struct job *, struct job_progress *out);

/* How long this rank worked while data moved, for its vote; the rank is filled in. */
void job_worked(struct job *, const struct workload *);
/* The workload of the rank that worked longest, after job_vote; rank -1: no rank has given one. */
const struct workload *job_busiest(const struct job *);

/* The output is complete: vote for the commit, with the digest of a replicated result or NULL.
 * 0: all ranks have voted for it. */
int job_vote(struct job *, const uint8_t digest[VOTE_DIGEST], struct err *err);
/* After the verdict: run @fn, which commits, on a separate thread to its end, so that this rank
 * sends heartbeats meanwhile. Returns the result of @fn. */
int job_commit_in_thread(struct job *, int (*fn)(void *ctx, struct err *err), void *ctx,
                         struct err *err);
/* Has the verdict been given, or may it have been? Then some rank may have committed. */
bool job_decided(const struct job *);
/* Report whether this rank has committed (@mine NULL or code 0), and get whether all have. -1: a
 * rank failed, or was lost before its report; *err names it, and the ranks with new outputs. */
int job_finish(struct job *, const struct err *mine, enum fate fate, struct err *err);

/* *err: the failure of this rank; afterwards the failure of the job. Idempotent. */
void job_fail(struct job *, struct err *err);
void job_close(struct job *);

#endif
