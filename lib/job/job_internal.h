/*
 * The internals of a job, shared by its files: job.c (opening, turns of the loop, commit, failure,
 * closing), job_state.c (its state), job_join.c (finding the coordinator, or becoming it),
 * job_messages.c (the coordinator's messages), job_beat.c (heartbeats and stalls), job_places.c
 * (the addresses, hosts and keys of the others), job_mesh.c (the agreement and the connections to
 * the other ranks).
 */
#ifndef COLLCTL_JOB_JOB_INTERNAL_H
#define COLLCTL_JOB_JOB_INTERNAL_H

#include "lib/job/coordinator/coord.h"
#include "lib/job/ctl.h"
#include "lib/job/job.h"
#include "lib/store/rendezvous.h"

/*
 * What has happened to this rank, which decides what may happen next: job_rules has what follows
 * from each state, job_messages.c the messages that may come in it. Only job_move changes it. The
 * states up to JOB_DONE come in this order.
 */
enum job_state {
	JOB_SEEKING,    /* no coordinator has accepted it */
	JOB_JOINED,     /* WELCOME has come, or it coordinates */
	JOB_AGREEING,   /* it has sent INTENT */
	JOB_RUNNING,    /* ROSTER has come */
	JOB_VOTED,      /* it has sent VOTE */
	JOB_COMMITTING, /* VERDICT has come: nothing stops the commit */
	JOB_DONE,       /* it has sent DONE */
	/* The ends: no message counts any more. */
	JOB_FINAL,    /* FINAL has come: end.outcome */
	JOB_ABORTED,  /* the job has failed before the verdict: end.failure */
	JOB_IN_DOUBT, /* the coordinator is lost, but may have given the verdict: end.failure */
	JOB_ORPHANED, /* the coordinator is lost after the verdict: end.failure */
	JOB_STATES
};

struct job_rules {
	unsigned next;       /* the states that may follow: bits */
	enum job_state lost; /* what follows if the coordinator is lost or not believed */
	bool watches;        /* silence for --timeout loses the coordinator */
	bool verdict;        /* this rank has the verdict */
	bool decided;        /* some rank may have it */
	bool failed;         /* end.failure is that of the job */
	bool ended;
};
extern const struct job_rules job_rules[JOB_STATES];

/* What the coordinator that this rank has dialled last has answered before WELCOME. */
enum job_answer {
	ANSWER_NONE,
	ANSWER_SOME,      /* a message: so it is a coordinator */
	ANSWER_OTHER_JOB, /* OTHER_JOB */
};

/* The search for the coordinator. Written by job_join.c. */
struct job_join {
	int64_t deadline;
	enum job_answer answer;
	struct err parting;   /* how the last link ended */
	int64_t unwelcome_at; /* when a link ended without WELCOME or ABORT; 0: none did */
};

/* A message to the coordinator whose answer this rank waits for. */
enum job_question { ASKS_NOTHING, ASKS_CLOCK, ASKS_ROUND };

/* What the coordinator has said. Written by job_messages.c. */
struct job_said {
	char coordinator_host[PRESENT_HOST]; /* "": not known, or this rank's own */
	struct joined joined;
	struct plan plan;
	uint8_t *details; /* the memory of the plan's details */
	uint32_t pages;   /* of this rank's table that it has asked for */
	enum job_question question;
	int64_t clock_theirs, clock_came; /* the last CLOCK, and when it came */
	struct buf answer;                /* to this rank's part of the last round */
	struct workload busiest;          /* from the verdict */
};

/* How the job ended. Written by job_messages.c. */
struct job_end {
	struct err failure; /* of the states that have failed */
	struct err outcome; /* in JOB_FINAL */
};

/* Where the other ranks are. Written by job_places.c. */
struct job_places {
	int *host, hosts;               /* as in the plan */
	char (*names)[PRESENT_HOST];    /* of the hosts of the ranks whose places are known */
	struct addr *addrs;             /* of these ranks */
	uint8_t (*keys)[TLS_KEY_BYTES]; /* of the pairs with these ranks; wiped when the mesh is
	                                 * open */
	struct buf asked;               /* the body of PEERS */
	int awaited;                    /* number of places that have not come */
};

/* The connections to other ranks. Written by job_mesh.c. */
struct job_links {
	int data_fd;  /* the data listener, until the mesh takes it */
	int lanes_fd; /* the listener of memory lanes, likewise; -1: none */
	bool *near;   /* near[size]: the ranks that may share this one's memory */
	struct mesh *mesh;
	struct buf failed; /* the body of LINKS */
};

/* Heartbeats, and what shows that the job makes progress. Written by job_beat.c. */
struct job_beats {
	struct loop_timer timer;
	enum phase phase;
	uint64_t moved, total;
	int64_t moved_at;
	struct pace slowest;     /* from the coordinator */
	int64_t others_moved_at; /* when it last reported progress of any rank */
	uint64_t acknowledged;   /* by the peers' machines, at the last beat */
	bool unanswered;         /* a peer does not acknowledge what is sent to it */
	bool caller_watches;     /* for edges without progress (job_connect_each) */
	job_waits_fn *waits;
	void *waits_ctx;
};

/* What is in no part is written by job.c; rank, coordinator and root by job_join.c before WELCOME
 * and job_messages.c after it, size by job_places.c. */
struct job {
	struct job_conf conf;
	struct job_callbacks callbacks; /* from job_agree */
	struct loop loop;
	struct tls *tls;     /* of the connections to other ranks; NULL: --insecure */
	struct tls *control; /* of the control links: with certificates another, else the same */
	struct rendezvous *rendezvous;
	struct coord *coord; /* on the rank that coordinates */
	struct ctl ctl;      /* on the other ranks: the link to it */
	enum job_state state;
	int rank, size;
	int coordinator; /* its rank; -1: not known yet */
	int root;        /* -1: not known */
	uint8_t jobtag[8];
	struct job_join join;
	struct job_said said;
	struct job_end end;
	struct job_places places;
	struct job_links links;
	struct job_beats beats;
	struct loop_watch signal_watch;
	int signal;
	struct workload work; /* this rank's, for its vote */
	struct err own;       /* a failure of this rank while it handled or sent a message */
	bool failing;         /* job_fail has been called */
};

/* Go to @state. False: job_rules does not let it follow, and nothing changes. */
bool job_move(struct job *, enum job_state state);
static inline const struct job_rules *job_rules_of(const struct job *j)
{
	return &job_rules[j->state];
}

/* The name of the coordinator in messages while its rank is not known. */
#define COORDINATOR(j) ((j)->conf.rank == JOB_RANK_AUTO ? "the coordinator" : "rank 0")
/* Call conf.note with this rank's number. */
void job_log(const struct job *, int level, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));

/* A message to the coordinator, which may be this rank; @b may be NULL. */
void job_send(struct job *, uint8_t type, const struct buf *b);
void job_send_err(struct job *, uint8_t type, const struct err *);
/* This rank failed while it handled or sent a message: the next call returns the error, and
 * job_fail reports it to the others. */
void job_fail_later(struct job *, const struct err *);

/* Send a message, and wait for its answer (job_messages.c); @b may be NULL. */
int job_ask(struct job *, enum job_question question, uint8_t type, const struct buf *b,
            struct err *err);
/* What has come of this rank's link before WELCOME: a message; its end. */
void job_join_answered(struct job *, enum job_answer answer);
void job_join_lost(struct job *, const struct err *err);

/* Wait until this rank's number is known, and the root if the job needs one. */
int job_await_rank(struct job *, struct err *);
/* The part of ROSTER after the plan; the body of PLACES. */
int job_read_roster(struct job *, struct view v, struct err *err);
int job_read_places(struct job *, struct view v, struct err *err);
/* Get the places of the peers, which in a small job came with the plan. */
int job_find_peers(struct job *, const int *out, int nout, const int *in, int nin, struct err *);

/* struct ctl's callbacks; the context is the job. */
void job_handle_message(void *ctx, uint8_t type, struct view body);
void job_coordinator_lost(void *ctx, const struct err *err);
void job_coordinator_lacking(void *ctx, const struct err *err);
/* The coordinator sends no more messages. @how: "lost"; @tail: ": " and the cause, or "". A rank
 * that has voted and has no verdict is in doubt. */
void job_lose_coordinator(struct job *, int code, const char *how, const char *tail);

int job_take_signals(struct job *, struct err *);
int job_check_signal(struct job *, struct err *);
/* -1: the job was aborted, this rank failed, or a signal came. */
int job_check(struct job *, struct err *);
/* One turn of the loop until @until at most; -1: the job has ended, failed or stalled. */
int job_turn_before(struct job *, int64_t until, struct err *);
/* For calls that block (@ctx: the job): has a signal come? */
bool job_interrupted(void *ctx);
/* The heartbeat's timer (@ctx: the job): send a beat, and check those of the coordinator. */
void job_beat(void *ctx);

/* -1: the job is stalled, or has ended. Else *until becomes the time when it will be stalled, if
 * that is earlier. */
int job_watch_stall(struct job *, int64_t *until, struct err *err);
/* This rank makes progress. */
void job_advances(struct job *);
/* The coordinator has reported the progress of all. */
void job_take_pace(struct job *, const struct pace *pace);

/* Wipe the keys of the pairs. */
void job_forget_keys(struct job *);
void job_release_places(struct job *);
void job_release_links(struct job *);

/* Remove this rank's record from the store (@ctx: the job). */
void job_withdraw(void *ctx);

#endif
