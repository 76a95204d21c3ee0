/*
 * One rank's part in a job: join (find the other ranks), agree, connect, run, vote, commit. If one
 * rank fails, the job ends on all ranks with the same culprit.
 *
 *     job_open -> job_enter (the rank is known) -> job_offer -> job_agree (the plan is known)
 *       -> job_connect (the mesh is ready) -> ... job_turn ... -> job_vote -> job_finish ->
 *       job_close
 *
 * A call that waits runs the event loop, so heartbeats continue. If a call fails, the caller passes
 * the error to job_fail, which notifies the other ranks and replaces the error by that of the job.
 * In either case the caller then calls job_close.
 *
 * The verdict is the coordinator's decision, after all ranks have voted, that all ranks commit.
 * After it, nothing stops a commit.
 *
 * One thread: the one that calls job_open. It also calls all callbacks, except the functions that
 * run in threads (job_run_in_thread and the like). Times are ns of clock_ns().
 *
 * Errors: any call may fail with the failure of another rank; err->rank is the culprit. A signal is
 * code 128 + signal. Unless settings->embedded, job_enter blocks SIGINT, SIGTERM and SIGHUP and
 * reads them on the loop. They stay blocked after job_close: a signal after the end of the job
 * changes nothing, and the process exits with the job's outcome.
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

/* A remark about what the job does. @level: 0: for every user; 1: for -v; 2: for -vv. @rank: this
 * rank, or -1 before it is known. */
typedef void job_note(void *ctx, int level, int rank, const char *text);

struct job_conf {
	const struct job_settings *settings; /* outlive the job */
	const char *name;                    /* --job */
	const char *name_from; /* the launcher's variable from which the name is; NULL: none */
	uint8_t launch_tag[8]; /* of the launcher's id; zeros: the user has named the job */
	int rank;              /* or JOB_RANK_AUTO */
	int size;              /* 0: the coordinator's (rank auto) */
	int root; /* with settings->min_ranks: the rank without which the job does not begin; -1 */
	/* One of these, or neither: --insecure. The caller owns them; the job wipes the secret, or
	 * the credentials' key, once all ranks have joined; on the coordinator, if ranks are
	 * missing, before the verdict. */
	struct secret *secret;
	struct credentials *credentials;
	const char *rendezvous;
	bool invited; /* by `collctl invite`: withdrawing the record says that all ranks have joined
	               */
	const char *served_by; /* what may serve it, "'collctl serve'", for a hint; or NULL */
	char *store_token;     /* or NULL; the caller's; job_open wipes it */
	const struct hostfile *hosts;
	const char *coordinator; /* "ADDR:PORT" from run, or NULL */
	int listen_fd;           /* from run, for rank 0; or -1 */
	struct presence present; /* of this rank; the job fills address, start and age */
	job_note *note;          /* or NULL */
	void *note_ctx;
};

struct job;

/* *conf is copied; what it points to must outlive the job. NULL: ERR_RESOURCE, ERR_USAGE, ... */
struct job *job_open(const struct job_conf *, struct err *err);
/* Join: find the coordinator, or become it. Returns when this rank's number is known and, with
 * conf.present.finds_root, the root. ERR_RENDEZVOUS: the ranks did not meet in time; ERR_AUTH.
 *
 * @early, which may be NULL, calls job_offer. It is called, once at most, when this rank has a link
 * to the coordinator and is not yet welcome: that saves a round trip. Its error is returned once
 * the rank has joined. If that coordinator goes, the same intent is sent to the next one, also if
 * this rank becomes it. It is not called on the coordinator, nor without TLS, where whoever answers
 * may be no coordinator. The number must be given, and the root must not be sought. */
typedef int job_early_offer(void *ctx, struct err *err);
int job_enter(struct job *, job_early_offer *early, void *ctx, struct err *err);
int job_rank(const struct job *);        /* -1: not known yet */
int job_root(const struct job *);        /* with conf.present.finds_root, after job_enter */
int job_coordinator(const struct job *); /* its rank; -1: not known */
/* The name of a rank's host, owned by the job, once the plan is known; "": not known, or all ranks
 * are on one host. */
const char *job_host(const struct job *, int rank);
/* Has @rank's host the same identity as this rank's (host_groups.h)? A hint. False before the plan
 * is known. */
bool job_shares_host(const struct job *, int rank);
/* The least round trip so far between this rank and @rank, ns, by the kernel (TCP). One of the two
 * is the coordinator. 0: not known. */
int64_t job_round_trip(const struct job *, int rank);
/* The speed of the interface by which this rank reaches the coordinator or, on the coordinator, the
 * first rank on another machine; as iface_speed_of. */
uint64_t job_link_speed(const struct job *);
struct loop *job_loop(struct job *);

/* On the coordinator, when all ranks agree: fill the plan. session, came, ncame, hosts, host,
 * host_cpus, total_inputs and memory are set by the job. @intents[size]; NULL: a missing rank. */
typedef int job_decide(void *ctx, const struct intent *const *intents, struct plan *plan,
                       struct err *err);
/* On the coordinator, after decide: append the details for @rank, at most DETAILS_MAX bytes; they
 * become that rank's plan.details. The intents of decide are still valid. */
typedef void job_details(void *ctx, int rank, struct buf *out);
/*
 * A rank's table: entries (name, value), sorted by the bytes of the names; for instance a
 * checkpoint's tensors with types and shapes. The ranks compare a digest of the table: as a fact
 * (intent.table) or as the vote's digest. If digests differ, the coordinator fetches the tables of
 * a rank that differs and of a rank of the majority, page by page, up to the first entry that
 * differs. The failure names this entry.
 *
 * Write page @page of the table into the empty buffer @out: entries, by table_put (proto.h), until
 * it has TABLE_PAGE bytes; nothing if there are no more entries. Called in job_agree and job_vote,
 * for any page in any order.
 */
typedef void job_table(void *ctx, uint32_t page, struct buf *out);

/* On the coordinator, in job_round. collect: the part of @rank has arrived; -1 fails the job,
 * of which err->rank is to blame, or else @rank.
 * answer: all parts have arrived: append the answer to @rank. */
typedef int job_collect(void *ctx, int rank, struct view part, struct err *err);
typedef void job_answer(void *ctx, int rank, struct buf *out);

struct job_callbacks {
	job_decide *decide;   /* NULL: the plan has one window and one stream */
	job_details *details; /* NULL: there are none */
	job_table *table;     /* NULL: this rank has no table */
	const char *noun;     /* of a table's entry in messages: "tensor" gives "tensor NAME is
	                       * missing"; rank 0 needs it even without a table */
	job_collect *collect; /* both NULL: the job has no rounds */
	job_answer *answer;
	bool forms_anew; /* with settings->min_ranks, the loss of a rank does (job_form_anew); the
	                    same on all ranks */
	bool goes_back;  /* a lane that breaks takes the job back (job_go_back); the same on all
	                    ranks, which then call job_await_moved */
	void *ctx;
};
/* Send the intent. @mesh: also listen for data connections, and set in->data_addr. The callbacks
 * are copied; *in must stay valid until job_agree has returned. */
int job_offer(struct job *, struct intent *in, bool mesh, const struct job_callbacks *,
              struct err *err);
/* Agree: wait for the plan, after job_offer. plan->details and plan->host are valid until
 * job_close. ERR_DISAGREE, ERR_RENDEZVOUS. */
int job_agree(struct job *, struct plan *plan, struct err *err);

/* Connect to the peers @out[nout] to send to and @in[nin] to receive from, both ascending, by
 * @streams connections each, and wait until all are ready. Returns the mesh, which the job owns.
 * @buffer: bytes of each connection's buffer; 0: the default. @arena: bytes of this rank's arena
 * (mesh_arena), from which the caller allocates what it sends to ranks of its host; 0: no memory
 * lanes. NULL: ERR_PEER_LOST of a peer, or another error. */
struct mesh *job_connect(struct job *, const int *out, int nout, const int *in, int nin,
                         int streams, size_t buffer, size_t arena, struct err *err);

/* The same without waiting, by one connection each, and edges that fail do not fail the job: @fn is
 * called for each edge (mesh.h, on_edge) until job_connect_end. The caller detects edges without
 * progress (job_caller_watches). */
typedef void job_edge(void *ctx, int peer, bool out, int stream, struct conn *conn,
                      const struct err *err);
struct mesh *job_connect_each(struct job *, const int *out, int nout, const int *in, int nin,
                              size_t buffer, job_edge *fn, void *ctx, struct err *err);
void job_connect_end(struct job *);
/*
 * Going back: if a lane breaks while data move, and both its ranks live, all ranks stop and connect
 * anew as the next session; at most JOB_RECONNECTS_MOST times. Only with callbacks.goes_back:
 *
 *     job_connect, data move    until all have, or job_goes_back is true: check it after each turn
 *     job_await_moved           at the end, before the output is sealed
 *     job_go_back               if job_goes_back is true: then again from job_connect on
 *
 * While job_goes_back is true, job_connect returns a mesh that may be incomplete.
 */
#define JOB_RECONNECTS_MOST 8
bool job_goes_back(const struct job *);
/* A lane failed with *err, ERR_PEER_LOST of its peer: report it, and wait. 0: job_goes_back is
 * true; -1: the job has failed. */
int job_lane_broke(struct job *, struct err *err);
/* This rank's data have moved: wait for those of the others. -1 with err->code 0: job_goes_back is
 * true. */
int job_await_moved(struct job *, struct err *err);
/* This rank has stopped: nothing uses the mesh any more. Wait for the others, then close it. @can:
 * the rank can go back, and has all windows before @complete; else the job fails. *window: where
 * all begin again. */
int job_go_back(struct job *, bool can, uint64_t complete, uint64_t *window, struct err *err);
int job_reconnects(const struct job *); /* how often the job went back */

/*
 * Forming the job anew: with settings->min_ranks and callbacks.forms_anew, if a rank is lost after
 * job_agree and before the verdict, and enough are left, the others begin again without it, from
 * unchanged inputs. Then the call that runs, or the next one, fails. The caller asks job_forms_anew
 * whether this is why:
 *
 *     a call fails with *err          job_forms_anew: the job goes on without a rank
 *     give up all outputs, and free what uses the mesh
 *     job_form_anew                   then again from job_offer on, whose plan has other ranks
 *
 * The old plan's memory is valid until then, and the mesh until job_agree returns.
 */
/* @err: not of this rank, or of its failure. It may wait, until the coordinator knows whether a
 * rank is lost. False: the job has failed with *err, which the caller passes to job_fail. */
bool job_forms_anew(struct job *, struct err *err);
void job_form_anew(struct job *);

/* Report that the link from @from to @to, one of which is this rank, has failed. The job then fails
 * at the vote, and names all links that failed on any rank. @why is copied. */
void job_link_failed(struct job *, int from, int to, enum link_state state, const char *why);
/* The links that this rank has reported, as link_encode (failed_links.h) writes them. Valid until
 * the next report. */
struct view job_failed_links(const struct job *);
/* @yes: the caller, not the job, detects edges and ranks without progress. */
void job_caller_watches(struct job *, bool yes);
int64_t job_timeout(const struct job *); /* ns */

/*
 * A round: every rank sends its @part to the coordinator, and gets an answer when all parts have
 * arrived. So no rank returns before all ranks have called it. Valid after job_agree and before
 * job_vote; all ranks must make the same number of calls. *@answer (may be NULL) is valid until the
 * next call. There is no time limit while ranks wait here: the caller must set job_caller_watches.
 */
#define JOB_ROUND_MAX (1u << 20) /* bytes of a part, and of an answer */
int job_round(struct job *, const struct buf *part, struct view *answer, struct err *err);

/* The difference of the coordinator's clock (clock_ns) and this rank's. */
struct clock_offset {
	int64_t at;     /* ns of this rank's clock: the time of the measurement */
	int64_t offset; /* ns: the coordinator's clock minus this rank's */
	int64_t error;  /* ns: the largest possible error of offset */
};
/* Measure it, over the control link. Valid after job_agree and before job_vote. */
int job_clock(struct job *, struct clock_offset *, struct err *err);
/* Take one exchange of CLOCK messages: this rank asked at @sent, and the answer @theirs, the
 * coordinator's time, arrived at @came. It replaces *best if its error is smaller, or if
 * best->error is -1. */
void clock_offset_take(struct clock_offset *best, int64_t sent, int64_t theirs, int64_t came);
/* Convert the time @t of this rank's clock to the coordinator's, by two measurements. If their
 * offsets differ by more than their errors, the offset is interpolated between them. Before the
 * first and after the last it is constant. */
int64_t clock_offset_apply(const struct clock_offset *first, const struct clock_offset *last,
                           int64_t t);

/* The index of this rank among the ranks of its host, in the order of ranks. Once the plan is
 * known. */
int job_local_index(const struct job *);
/* The number of ranks on this rank's host. Once the plan is known. */
int job_ranks_here(const struct job *);

/* One turn of the loop, which waits for an event. -1: the job was aborted, a signal came, or
 * ERR_STALLED. */
int job_turn(struct job *, struct err *err);
/* The same; waits at most until @until. */
int job_turn_until(struct job *, int64_t until, struct err *err);
/* The same without waiting. */
int job_poll(struct job *, struct err *err);
/* Run turns until @fd is readable. A regular file is always readable. */
int job_await(struct job *, int fd, struct err *err);
/* Run @fn, which may take long, on a new thread, and run the loop until it has returned. If the job
 * ends first, @fn is asked to stop (offload_stopped) and waited for, and its result is ignored.
 * Returns the result of @fn. */
int job_run_in_thread(struct job *, int (*fn)(void *ctx, struct err *err), void *ctx,
                      struct err *err);
/* The same for a call that may never return, such as one into the driver @who. If the job ends
 * first, or --timeout passes (ERR_RESOURCE), the thread is left running (offload_leave). So @fn may
 * use only *@ctx, which is malloced. If this returns -1, @drop frees @ctx, now or once @fn has
 * returned, on either thread. */
int job_ask_in_thread(struct job *, const char *who, int (*fn)(void *ctx, struct err *err),
                      void (*drop)(void *ctx), void *ctx, struct err *err);
/* For heartbeats and the detection of stalls. job_phase: the phase of this rank; PHASE_COMMIT, in
 * which only this machine works, cannot stall. job_moved: a number that grows with progress, for
 * instance bytes, and its final value. job_waits: @fn (NULL: none) returns the number of peers for
 * which this rank waits, and writes up to @cap of them to @peers; if it waits for a device, it
 * writes the device's name and the unfinished step to @device. */
void job_phase(struct job *, enum phase);
void job_moved(struct job *, uint64_t moved, uint64_t total); /* total 0: not known */
typedef int job_waits_fn(void *ctx, int *peers, int cap, char *device, size_t device_cap);
void job_waits(struct job *, job_waits_fn *fn, void *ctx);

/* The progress of the job, for display. Valid from job_open to job_close. */
struct job_progress {
	enum phase phase;      /* this rank's */
	uint64_t moved, total; /* this rank's, from job_moved */
	int slowest;           /* the slowest rank, by the last heartbeats; -1: not known */
	enum phase slowest_phase;
	double slowest_done;  /* its progress, 0 to 1 */
	struct joined joined; /* in PHASE_JOIN: the ranks that have joined; size 0: not known */
};
void job_progress(const struct job *, struct job_progress *out);

/* Before job_vote: how long this rank worked while data moved. Its rank member is ignored. */
void job_worked(struct job *, const struct workload *);
/* The workload of the rank that worked longest, after job_vote; rank -1: no rank has given one. */
const struct workload *job_busiest(const struct job *);

/* Vote for the commit: the output is complete. @digest: of a result that all ranks have; else NULL.
 * 0: the verdict: all ranks have voted for it; -1: the job has failed (ERR_INTEGRITY: digests
 * differ). */
int job_vote(struct job *, const uint8_t digest[VOTE_DIGEST], struct err *err);
/* After the verdict: run @fn, which commits, on a separate thread to its end, and run the loop
 * meanwhile, for heartbeats. Returns the result of @fn. */
int job_commit_in_thread(struct job *, int (*fn)(void *ctx, struct err *err), void *ctx,
                         struct err *err);
/* Was the verdict given, or may it have been? Then some rank may have committed. */
bool job_decided(const struct job *);
/* Report whether this rank has committed (@mine NULL or code 0: yes) and what its outputs are, and
 * wait for the outcome. 0: all ranks have committed; -1: a rank failed, or was lost before its
 * report; *err names it, and the ranks with new outputs. */
int job_finish(struct job *, const struct err *mine, enum fate fate, struct err *err);

/* A call has failed with *err: notify the coordinator, wait a bounded time for the failure of the
 * job, and store it in *err. A second call does nothing. */
void job_fail(struct job *, struct err *err);
/* Close all connections and free the job, with its mesh; NULL: nothing. On the coordinator it waits
 * a bounded time until the other ranks have the outcome. */
void job_close(struct job *);

#endif
