/*
 * Shared by the coordinator's files: coord.c (opening and closing, the tables of messages and of
 * timers), coord_admit.c (which connections may join), coord_seats.c (the assignment of ranks, and
 * the missing ones), coord_roster.c (the plan), coord_watch.c (the heartbeats), coord_failure.c
 * (the culprit, and the end), coord_vote.c (the verdict and the outcome), compare_tables.c (the
 * difference on which the ranks disagree), coord_links.c (the links that failed).
 */
#ifndef COLLCTL_JOB_COORDINATOR_COORD_INTERNAL_H
#define COLLCTL_JOB_COORDINATOR_COORD_INTERNAL_H

#include "lib/job/coordinator/advance.h"
#include "lib/job/coordinator/blame.h"
#include "lib/job/coordinator/compare_facts.h"
#include "lib/job/coordinator/coord.h"
#include "lib/job/ctl.h"
#include "lib/job/failed_links.h"
#include "lib/job/tables.h"

enum stage {
	STAGE_JOIN,   /* waiting for ranks and intents */
	STAGE_RUN,    /* the roster is out */
	STAGE_COMMIT, /* the verdict is out: no rank can be stopped any more */
	STAGE_FAILED, /* the ABORT is out; ranks that join later get it too */
	STAGE_FINAL,  /* the outcome is out */
};

struct member {
	struct coord *coord;
	int rank;
	struct ctl ctl;
	struct addr from; /* len 0: the coordinator's own rank */
	struct presence presence;
	bool joined, present, has_intent, voted, done, lost, has_failure;
	bool in_round;    /* its part of the round has come */
	bool has_links;   /* LINKS has come */
	bool has_peers;   /* PEERS has come */
	int clocks;       /* how often it has asked for the clock */
	struct beat beat; /* its last */
	uint64_t counted; /* its progress that counts in coord.moved */
	struct intent intent;
	uint8_t *details;   /* the memory of the intent's details */
	struct err outcome; /* of its commit, or its loss after the verdict */
	enum fate fate;     /* once done */
};

/* The coordinator's timers: coord.c has a row for each. */
enum coord_timer {
	TIMER_JOIN,     /* the time to join */
	TIMER_SEATS,    /* ranks that have joined may get their numbers */
	TIMER_JOINED,   /* JOINED may be sent again */
	TIMER_DOUBT,    /* while ranks of the larger size may join */
	TIMER_BEAT,     /* the next heartbeat */
	TIMER_EVIDENCE, /* better evidence may come */
	TIMER_COMPARE,  /* for the tables */
	TIMER_DRAIN,    /* for the ranks to disconnect */
	COORD_TIMERS
};
#define COORD_NEVER INT64_MAX

/* Connections that are pending at the gate, or guests that wait for a rank: more than a job has. */
#define COORD_PLACES(size) (2 * (size) + 64)

/* A connection that asked for any rank, or that only gets an error because it cannot join. Until it
 * has joined or, with --rank auto, sent PRESENT, it has the time of a connection that is pending at
 * the gate (GATE_PATIENCE) and one of a bounded number of places. */
struct guest {
	struct coord *coord;
	struct loop_timer patience;
	struct ctl ctl;
	struct addr from;
	bool own;        /* the coordinator's rank, without a connection */
	bool wants_rank; /* --rank auto */
	bool present;
	struct presence presence;
	uint64_t arrival;
	int rank; /* the assigned rank */
	struct guest *next;
};

/* For each step: all ranks below this number have taken it. So a message of one rank does not make
 * the coordinator look at all ranks. */
struct upto {
	int present, has_intent, connected, in_round, voted, ended, has_failure, closed;
};

/* Who has joined, and who waits for a rank. Written by coord_seats.c and coord_admit.c. */
struct seats {
	int njoined;          /* members that have joined */
	struct guest *guests; /* the newest first */
	uint64_t arrivals;    /* the number of guests so far */
	int told_failure;     /* guests that have got the failure */
	bool complete;        /* all ranks have joined and have their numbers */
	struct joined joined; /* as last sent */
	uint32_t fewest;      /* the smallest size that a rank has given; 0: none has differed */
};

/* The ranks disagree: which do, and the tables in which the entry is looked for. Written by
 * compare_tables.c, but for what the comparisons of facts and results write. */
struct comparison {
	bool on; /* the tables are compared */
	struct disagreement disagreement;
	enum phase phase;
	struct tables tables;
};

/* The ranks have the outcome, and disconnect. */
enum drain { DRAIN_NOT_YET, DRAINING, DRAINED };

struct coord {
	struct coord_conf conf;
	struct loop_timer timers[COORD_TIMERS]; /* only coord_set_timer sets them */
	struct upto upto;
	struct gate *gate;
	enum stage stage;
	int self; /* its own rank; -1: not assigned yet */
	struct member *members;
	const struct intent **intents; /* the members' */
	struct vote *votes;
	int *host;                /* the number of each rank's host; with the plan */
	bool several_hosts;       /* by their names; with the plan */
	struct link_faults links; /* the failed links */
	struct seats seats;
	struct plan plan;
	struct pair_keys *pair_keys; /* while places may be asked for; else NULL */
	struct evidence evidence;    /* in STAGE_RUN: the best so far; a better one may come */
	struct err failure;          /* the outcome of STAGE_FAILED */
	enum phase failed_in;
	struct comparison comparison;
	struct advance advance;
	uint64_t moved; /* by all ranks, as far as it counts as progress of the job */
	int64_t roster_at;
	enum drain drain;
	int64_t drain_from;
	char refusal[GATE_REFUSAL];
	char note[240]; /* a rank with another version or certificate, for messages; "": none */
};

/* Set a timer, again if it runs; COORD_NEVER stops it. */
void coord_set_timer(struct coord *, enum coord_timer, int64_t at);
static inline bool coord_timer_runs(const struct coord *c, enum coord_timer t)
{
	return c->timers[t].prev != NULL;
}
/* Go on to @stage, and stop the timers that have nothing to do in it. */
void coord_enter(struct coord *, enum stage stage);
/* What the timers of the other files do when they are due. */
void coord_look_at_seats(void *coord);
void coord_tell_joined(void *coord);
void coord_expect_fewest(void *coord);
void coord_compare_over(void *coord);
void coord_watch_beats(void *coord);
void coord_evidence_over(void *coord);
void coord_drain_over(void *coord);

/* A message to a member, or rank 0; @body may be NULL. */
void coord_send(struct member *m, uint8_t type, const struct buf *body);
void coord_send_all(struct coord *, uint8_t type, const struct buf *body); /* all that joined */
#define ERR_MESSAGE 1024 /* bytes, more than any error message has */
void coord_err_message(const struct err *e, enum phase phase, struct buf *b,
                       uint8_t memory[ERR_MESSAGE]);
/* The on_lost and on_lacking of a control link (ctl.h). */
void coord_on_lost(void *member, const struct err *err);
void coord_lacking(void *member, const struct err *err);
void coord_send_failure(struct coord *c, struct member *m);
/* Fail the job: send the failure to all ranks that have joined, and to those that join later, until
 * the time to join is over. After the roster no rank joins. */
void coord_fail(struct coord *c, const struct err *e, enum phase phase);
/* Call it before any change of which ranks have joined: a message that arrives after the time to
 * join no longer counts, even if this process reads it before it notices the end of that time. */
void coord_look_at_deadline(struct coord *c);
void coord_member_lost(struct member *m, const struct err *why);
/* When all ranks have the failure, they get a bounded time to disconnect. */
void coord_maybe_drained(struct coord *c);

/* A rank's report @e of another one or of the link to it; @v: the rest of the REPORT. Better
 * evidence, the culprit's own message or the loss of its control link, may still come. */
void coord_suspect(struct coord *, int reporter, const struct err *e, enum phase, struct view *v);

int64_t coord_beat_interval(const struct coord *);
/* The rank's phase, as far as its messages show. */
enum phase coord_phase_of(const struct coord *, const struct member *);
/* The rank that has been silent for the longest time, and for longer than @limit and its messages
 * may take, ns; NULL: none. */
struct member *coord_most_silent(const struct coord *, int64_t limit, int64_t now);
struct evidence coord_silence_of(const struct coord *, const struct member *, int64_t now);

/* The verdict, if all ranks have voted. */
void coord_give_verdict(struct coord *);
/* A rank is lost after the verdict. @how: "lost". */
void coord_lose_after_verdict(struct member *, const char *how);
/* The outcome, once each rank has committed, has failed, or was lost after the verdict. */
void coord_finish_commit(struct coord *);

/* "rank 3 (nodeb)": the coordinator's rank and host, as far as they are known. */
#define COORD_SELF_TEXT 96
const char *coord_self_text(const struct coord *, char text[COORD_SELF_TEXT]);

/* Add @conn, or with NULL the coordinator's own rank, to the guests. NULL: it was closed. */
struct guest *coord_add_guest(struct coord *, struct conn *conn, const struct addr *from);
/* For the gate (gate.h): close the connection of the guest that can best be done without: the
 * oldest that is turned away, else the oldest that has not sent PRESENT. */
bool coord_spare_guest(void *coord);
/* All ranks have joined: no guest needs its connection any more. */
void coord_dismiss_guests(struct coord *);
void coord_free_guests(struct coord *);
void coord_end_guests(struct coord *); /* end their links */
bool coord_has_open_guests(const struct coord *);
bool coord_guests_have_sent(const struct coord *); /* ... everything, and the end */
void coord_seat(struct coord *, int rank, struct conn *conn, const struct addr *from);
/* A guest has joined, left or sent PRESENT: assign ranks soon, if possible. May be called from
 * anywhere. */
void coord_seats_changed(struct coord *);
/* -1: no memory. */
int coord_init_seats(struct coord *);
void coord_who_joined(const struct coord *, struct joined *);
void coord_send_guests_failure(struct coord *);
/* The presence in a PRESENT that has just come. */
int coord_read_presence(struct presence *, struct view v, struct err *err);
/* PRESENT from @m, before the roster. */
int coord_take_presence(struct member *m, struct view v, struct err *err);
bool coord_several_hosts(const struct coord *);
/* All have joined: warn of ranks that were started so long before another one that they may be left
 * over from an earlier job of the same name. */
void coord_look_at_ages(const struct coord *);
/* Fill e->host if the ranks are on several hosts and that of e->rank is known. */
void coord_name_host(const struct coord *, struct err *e);

/* All ranks agree: make the plan, end the joining, and send every rank the plan. */
void coord_send_rosters(struct coord *);

/* PEERS from @m: send it the places of these ranks. False: there is no such rank, a rank has no
 * such question, or all ranks are connected. */
bool coord_send_places(struct member *m, struct view peers);
void coord_forget_keys(struct coord *c); /* nobody may ask for places any more */

/* Links have failed, and all ranks have voted: fail with the names of all. */
void coord_fail_links(struct coord *c);

/* The admit of a gate (gate.h): a connection that has sent HELLO. */
void coord_admit(void *ctx, struct conn *conn, const uint8_t opening[GATE_OPENING],
                 const struct addr *from);

/* The ranks disagree (c->disagreement): fail, with the name of the entry if there are tables and
 * they arrive in time. */
void coord_disagree(struct coord *c, enum phase phase);
void coord_take_page(struct coord *c, int rank, uint32_t page, struct view entries);
void coord_stop_comparing(struct coord *c);

#endif
