/*
 * The internals of a job, shared by its files: job.c (opening, turns of the loop, commit, failure,
 * closing), job_messages.c (the coordinator's messages), job_join.c (finding the coordinator, or
 * becoming it), job_mesh.c (the agreement and the connections to the other ranks).
 */
#ifndef COLLCTL_JOB_JOB_INTERNAL_H
#define COLLCTL_JOB_JOB_INTERNAL_H

#include "lib/job/coordinator/coord.h"
#include "lib/job/ctl.h"
#include "lib/job/job.h"
#include "lib/store/rendezvous.h"

/* What this rank has done, which decides the messages that the coordinator may send it. */
enum job_stage {
	JOB_JOINING,    /* it has not sent INTENT */
	JOB_AGREEING,   /* it has sent INTENT */
	JOB_RUNNING,    /* ROSTER has come */
	JOB_VOTED,      /* it has sent VOTE */
	JOB_COMMITTING, /* VERDICT has come: nothing stops the commit */
	JOB_DONE,       /* it has sent DONE */
};

struct job {
	struct job_conf conf;
	struct loop loop;
	struct tls *tls;     /* of the connections to other ranks; NULL: --insecure */
	struct tls *control; /* of the control links: with certificates another, else the same */
	struct rendezvous *rendezvous;
	struct coord *coord; /* on the rank that coordinates */
	struct ctl ctl;      /* on the other ranks: the link to it */
	struct mesh *mesh;
	int rank, size;
	int coordinator;                     /* its rank; -1: not known yet */
	char coordinator_host[PRESENT_HOST]; /* "": not known, or this rank's own */
	int root;                            /* -1: not known */
	char (*hosts)[PRESENT_HOST];         /* of the ranks whose places are known */
	int *host;                           /* plan.host */
	struct joined joined;
	uint8_t jobtag[8];
	int64_t join_deadline;
	int data_fd;  /* the data listener, until the mesh takes it */
	int lanes_fd; /* the listener of memory lanes, likewise; -1: none */
	bool *near;   /* near[size]: the ranks that may share this one's memory */

	struct loop_watch signal_watch;
	int signal;

	/* from the coordinator's messages */
	enum job_stage stage;
	bool answered, other_job, welcomed, closed, final, aborted;
	bool in_doubt;      /* the coordinator was lost when it may have given the verdict */
	struct err parting; /* with closed */
	struct err failure; /* with aborted */
	struct err own;     /* a failure of this rank while it handled or sent a message */
	struct err outcome; /* with final */
	struct plan plan;
	uint8_t *details;               /* the memory of the plan's details */
	struct addr *addrs;             /* of the ranks whose places are known */
	uint8_t (*keys)[TLS_KEY_BYTES]; /* of the pairs with these ranks; wiped when the
	                                 * mesh is open */
	struct buf asked;               /* the body of PEERS */
	int awaited;                    /* number of places that have not come */
	uint32_t pages; /* of this rank's table that the coordinator has asked for */
	struct job_callbacks callbacks;   /* from job_agree */
	bool clock_asked;                 /* CLOCK has no answer yet */
	int64_t clock_theirs, clock_came; /* the last answer, and when it came */
	struct workload work, busiest;    /* this rank's, for its vote; from the verdict */
	bool in_round;                    /* ROUND has no answer yet */
	struct buf answer;                /* to this rank's part of the last round */

	/* heartbeat */
	struct loop_timer beat;
	enum phase phase;
	uint64_t moved, total;
	int64_t moved_at;
	struct pace slowest;     /* from the coordinator */
	int64_t others_moved_at; /* when it last reported progress of any rank */
	int64_t unwelcome_at;    /* when a link ended without WELCOME or ABORT; 0: none did */
	bool unanswered;         /* a peer does not acknowledge what is sent to it */
	uint64_t acknowledged;   /* by the peers' machines, at the last beat */
	job_waits_fn *waits;
	void *waits_ctx;
	bool caller_watches; /* for edges without progress (job_connect_each) */
	struct buf links;    /* the body of LINKS */
	bool failing;
};

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

/* Wait until this rank's number is known, and the root if the job needs one. */
int job_await_rank(struct job *, struct err *);
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

/* Wipe the keys of the pairs. */
void job_forget_keys(struct job *);

/* Remove this rank's record from the store (@ctx: the job). */
void job_withdraw(void *ctx);

#endif
