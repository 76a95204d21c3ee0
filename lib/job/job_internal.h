/*
 * The internals of a job, shared by its files: job.c (opening, turns of the loop, commit, failure,
 * closing), job_state.c (its state), job_join.c (finding the coordinator, or becoming it),
 * job_messages.c (the coordinator's messages), job_inquiry.c (a new link in place of a broken one),
 * job_beat.c (heartbeats and stalls), job_places.c (the addresses, hosts and keys of the others),
 * job_mesh.c (the agreement and the connections to the other ranks), job_back.c (a lane broke: they
 * are made anew), job_anew.c (a rank was lost: the others agree anew).
 */
#ifndef COLLCTL_JOB_JOB_INTERNAL_H
#define COLLCTL_JOB_JOB_INTERNAL_H

#include "lib/job/coordinator/coord.h"
#include "lib/job/ctl.h"
#include "lib/job/job.h"
#include "lib/store/rendezvous.h"

/*
 * The state of this rank. job_rules has the properties of each state; job_messages.c has the
 * messages that may come in it. Only job_move changes the state. Up to JOB_DONE, the states follow
 * each other in this order, but for ANEW, which leads back to JOB_JOINED.
 */
enum job_state {
	JOB_SEEKING,    /* no coordinator has accepted this rank */
	JOB_JOINED,     /* WELCOME has come, or this rank is the coordinator; or ANEW has come */
	JOB_AGREEING,   /* it has sent INTENT, perhaps before WELCOME came */
	JOB_RUNNING,    /* ROSTER has come */
	JOB_VOTED,      /* it has sent VOTE */
	JOB_COMMITTING, /* VERDICT has come: nothing stops the commit */
	JOB_DONE,       /* it has sent DONE */
	/* Final states: messages are ignored. */
	JOB_FINAL,    /* FINAL has come; see end.outcome */
	JOB_ABORTED,  /* the job has failed before the verdict; see end.failure */
	JOB_IN_DOUBT, /* the coordinator is lost and may have given the verdict; see end.failure */
	JOB_ORPHANED, /* the coordinator is lost after the verdict; see end.failure */
	JOB_STATES
};

struct job_rules {
	unsigned next; /* bit i: state i may follow */
	enum job_state
	        lost; /* the state that follows if the coordinator is lost or sends nonsense */
	bool watches; /* a coordinator that is silent for --timeout counts as lost */
	bool verdict; /* this rank has the verdict */
	bool decided; /* some rank may have the verdict */
	bool failed;  /* end.failure is the failure of the job */
	bool ended;   /* a final state */
};
extern const struct job_rules job_rules[JOB_STATES];

/* What the last dialled coordinator has answered before WELCOME. */
enum job_answer {
	ANSWER_NONE,
	ANSWER_SOME,      /* some message, so it is a coordinator */
	ANSWER_OTHER_JOB, /* OTHER_JOB */
};

/* The search for the coordinator. Written by job_join.c. */
struct job_join {
	int64_t deadline;
	enum job_answer answer;
	struct err parting;     /* why the last link ended */
	int64_t unwelcome_at;   /* when a link ended without WELCOME or ABORT; 0: none did */
	job_early_offer *early; /* not called yet; else NULL */
	void *early_ctx;
	struct err failed;     /* of that call */
	struct intent *intent; /* offered; ROSTER has not come. Else NULL. By job_mesh.c */
	bool mesh;             /* listens for data, likewise */
};

/* The message to the coordinator for whose answer this rank waits. */
enum job_question { ASKS_NOTHING, ASKS_CLOCK, ASKS_ROUND };

/* What the coordinator has said. Written by job_messages.c. */
struct job_said {
	char coordinator_host[PRESENT_HOST]; /* "": not known, or this rank's own */
	struct joined joined;
	struct plan plan;
	uint8_t *details; /* the memory of the plan's details */
	uint32_t pages;   /* the number of pages of this rank's table that it has requested */
	enum job_question question;
	int64_t clock_theirs, clock_came; /* the last CLOCK, and when it came */
	struct buf answer;                /* to this rank's part of the last round */
	struct workload busiest;          /* from the verdict */
};

/* How the job ended. Written by job_messages.c. */
struct job_end {
	struct err failure; /* of the states that have failed */
	struct err outcome; /* in JOB_FINAL */
	struct err commit;  /* from JOB_DONE on: of this rank's own; written by job.c, as is fate */
	enum fate fate;
};

/* Where the other ranks are. Written by job_places.c. */
struct job_places {
	int *came, ncame; /* as in the plan, as the next two */
	int *host, hosts;
	/* [size], filled for the ranks whose places are known: */
	char (*names)[PRESENT_HOST];    /* names of their hosts */
	struct addr *addrs;             /* of their data listeners */
	uint8_t (*keys)[TLS_KEY_BYTES]; /* of the pairs with them; wiped when the mesh is open */
	struct buf asked;               /* the body of PEERS */
	int awaited;                    /* number of requested places that have not come */
};

/* The connections to other ranks. Written by job_mesh.c. */
struct job_links {
	int data_fd;               /* the data listener, until the mesh owns it; -1: none */
	int lanes_fd;              /* the listener of memory lanes, likewise */
	bool *near;                /* as in mesh_conf */
	struct addr lanes;         /* where lanes_fd listens; len 0: nowhere */
	char data_addr[ADDR_TEXT]; /* of data_fd, as intent.data_addr */
	struct mesh *mesh;
	struct buf failed; /* the body of LINKS */
};

/* A lane broke, and all ranks go back. Written by job_back.c. */
struct job_back {
	enum job_back_state {
		BACK_NOT,     /* data may move */
		BACK_MOVED,   /* this rank's have: it waits for the others */
		BACK_OVER,    /* those of all have */
		BACK_ASKED,   /* BACK has come */
		BACK_STOPPED, /* STOPPED was sent: it waits for AGAIN */
	} state;
	int times;
	struct err why;
	uint8_t session[MESH_SESSION_BYTES]; /* of lanes: the plan's, or that of AGAIN */
	uint64_t window;
};

/* A rank was lost, and the job is formed anew. Written by job_anew.c. */
struct job_anew {
	bool asked; /* ANEW has come: whatever this rank does ends */
	int times;
	struct err why;
};

/* The link to the coordinator broke after this rank's vote, so it asks again. Written by
 * job_inquiry.c; possible, at and key by job_places.c. */
struct job_inquiry {
	bool possible; /* `at` and `key` are known */
	char how[64];  /* "lost", "no message for ...": how the link was lost */
	bool asking;   /* no message has come on a new link yet */
	struct addr at;
	uint8_t key[TLS_KEY_BYTES];
	int64_t until;           /* then it gives up; clock_ns() */
	int64_t refused_at;      /* since when its connections are refused; 0: they are not */
	int64_t wait;            /* before the next try */
	struct loop_timer timer; /* the end of a try, or of the wait */
	struct tls *tls;
	struct conn *conn; /* that is being opened; else NULL */
	struct greeting greeting;
};

/* Heartbeats, and what shows that the job makes progress. Written by job_beat.c. */
struct job_beats {
	struct loop_timer timer;
	enum phase phase;
	uint64_t moved, total;
	int64_t moved_at;
	struct pace slowest;     /* from the coordinator */
	int64_t others_moved_at; /* when the coordinator last reported progress of any rank */
	uint64_t acknowledged;   /* mesh_acknowledged at the last beat */
	bool unanswered;         /* a peer's kernel does not acknowledge bytes (mesh_unanswered) */
	bool caller_watches;     /* job_caller_watches */
	job_waits_fn *waits;
	void *waits_ctx;
};

/* Who writes the members: each part by the file that is named at its struct; rank, coordinator and
 * root by job_join.c up to WELCOME, then by job_messages.c; size by job_places.c; all others by
 * job.c. */
struct job {
	struct job_conf conf;
	struct job_callbacks callbacks; /* from job_agree */
	struct loop loop;
	struct tls *tls;     /* for connections between ranks; NULL: --insecure */
	struct tls *control; /* for control links: without certificates the same */
	struct rendezvous *rendezvous;
	struct coord *coord; /* on the coordinator; else NULL */
	struct ctl ctl;      /* on other ranks: the link to the coordinator */
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
	struct job_back back;
	struct job_anew anew;
	struct job_inquiry inquiry;
	struct job_beats beats;
	struct loop_watch signal_watch;
	int signal;
	struct workload work; /* this rank's, for its vote */
	struct err own;       /* a failure of this rank while it handled or sent a message */
	bool failing;         /* job_fail has been called */
};

/* Change to @state. False: job_rules does not allow it, and nothing changes. */
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

/* Send a message to the coordinator, which may be this rank; @b may be NULL. */
void job_send(struct job *, uint8_t type, const struct buf *b);
void job_send_abort(struct job *, const struct err *);
/* This rank failed while it handled or sent a message: the next call returns the error, and
 * job_fail reports it to the others. */
void job_fail_later(struct job *, const struct err *);

/* Send a message, and wait for its answer (job_messages.c); @b may be NULL. */
int job_ask(struct job *, enum job_question question, uint8_t type, const struct buf *b,
            struct err *err);
/* Before WELCOME: a message has come on this rank's link; the link has ended. */
void job_join_answered(struct job *, enum job_answer answer);
void job_join_lost(struct job *, const struct err *err);

/* Offer again: to another coordinator, which this rank may be, or over another link. */
int job_offer_again(struct job *, struct err *err);
/* Wait until this rank's number is known, and the root if the job needs one. */
int job_await_rank(struct job *, struct err *);
/* MOVED, BACK and AGAIN: as the take of job_messages.c. */
int job_take_moved(struct job *, struct view v, struct err *err);
int job_take_back(struct job *, struct view v, struct err *err);
int job_take_again(struct job *, struct view v, struct err *err);
/* ANEW: as the take of job_messages.c. */
int job_take_anew(struct job *, struct view v, struct err *err);
/* REPORT: this rank blames a peer. */
void job_report(struct job *, const struct err *, enum report_then);
/* Accept and dial no more lanes, and listen for those of the next session; then close the mesh. */
void job_stop_links(struct job *);
void job_drop_links(struct job *);
/* Decode the part of ROSTER after the plan; the body of PLACES. */
int job_read_roster(struct job *, struct view v, struct err *err);
int job_read_places(struct job *, struct view v, struct err *err);
/* Get the places of the peers, which in a small job came with the plan. */
int job_find_peers(struct job *, const int *out, int nout, const int *in, int nin, struct err *);

/* struct ctl's callbacks; the context is the job. */
void job_handle_message(void *ctx, uint8_t type, struct view body);
void job_coordinator_lost(void *ctx, const struct err *err);
void job_coordinator_lacking(void *ctx, const struct err *err);
/* The coordinator is lost: change to the state job_rules.lost, and set end.failure. @how: "lost";
 * @tail: ": " and the cause, or "". */
void job_lose_coordinator(struct job *, int code, const char *how, const char *tail);

/* The link broke, @how ("lost"): open another one and ask, until --timeout (job_inquiry.c). False:
 * this rank has not voted, or cannot ask, or has no time left: the coordinator is lost. */
bool job_inquire(struct job *, const char *how);
/* A message has come: the new link works. */
void job_inquiry_answered(struct job *);
/* A signal has come, or this rank has failed: do not wait for an answer. */
void job_stop_inquiry(struct job *);
void job_release_inquiry(struct job *);
void job_send_done(struct job *);

/* Read signals on the loop from now on. */
int job_take_signals(struct job *, struct err *);
/* -1: a signal has come: code 128 + signal. */
int job_check_signal(struct job *, struct err *);
/* -1: the job was aborted, this rank has failed, or a signal has come. */
int job_check(struct job *, struct err *);
/* One turn of the loop until @until at most; -1: the job has ended, failed or stalled. */
int job_turn_before(struct job *, int64_t until, struct err *);
/* For calls that block (@ctx: the job): has a signal come? */
bool job_interrupted(void *ctx);
/* The heartbeat's timer (@ctx: the job): send a beat, and check those of the coordinator. */
void job_beat(void *ctx);

/* -1: the job is stalled, or has ended. Else lowers *until to the time at which it will be
 * stalled. */
int job_watch_stall(struct job *, int64_t *until, struct err *err);
/* This rank has made progress. */
void job_advances(struct job *);
/* The coordinator has reported the progress of all ranks. */
void job_take_pace(struct job *, const struct pace *pace);

/* Wipe the keys of the pairs. */
void job_forget_keys(struct job *);
void job_release_places(struct job *);
void job_release_links(struct job *);

/* Remove this rank's record from the store. */
void job_withdraw(struct job *);
/* Nobody joins any more: forget what joining needs. */
void job_settle(struct job *);

#endif
