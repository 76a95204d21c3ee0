/*
 * Shared by the coordinator's files: coord.c (opening and closing, the tables of messages and of
 * timers), coord_admit.c (which connections may join), coord_seats.c (the assignment of ranks),
 * coord_round.c (--min-ranks: which ranks take part), coord_roster.c (the plan), coord_watch.c (the
 * heartbeats), coord_failure.c (the culprit, and the end), coord_vote.c (the verdict and the
 * outcome), compare_tables.c (the difference on which the ranks disagree), coord_links.c (the links
 * that failed), coord_inquiry.c (ranks that ask for the verdict), coord_probe.c (whether a rank
 * whose link broke has ended), coord_back.c (ranks that go back, because a lane broke),
 * coord_anew.c (--min-ranks: a rank was lost, and the others agree anew).
 */
#ifndef COLLCTL_JOB_COORDINATOR_COORD_INTERNAL_H
#define COLLCTL_JOB_COORDINATOR_COORD_INTERNAL_H

#include <stddef.h>

#include "lib/job/coordinator/advance.h"
#include "lib/job/coordinator/blame.h"
#include "lib/job/coordinator/compare_facts.h"
#include "lib/job/coordinator/coord.h"
#include "lib/job/ctl.h"
#include "lib/job/failed_links.h"
#include "lib/job/tables.h"

enum stage {
	STAGE_JOIN,   /* waiting for ranks and intents; again, if the job is formed anew */
	STAGE_RUN,    /* ROSTER was sent */
	STAGE_COMMIT, /* VERDICT was sent: no rank can be stopped */
	STAGE_FAILED, /* ABORT was sent; ranks that join later get it, too */
	STAGE_FINAL,  /* FINAL was sent */
};

/* A connection to the data listener of a rank whose link broke. Written by coord_probe.c. */
struct probe {
	struct loop *loop; /* NULL: there was none yet */
	struct loop_watch watch;
	struct loop_timer timer; /* of the next try, or of the message that rank 0 waits */
	bool tried;
	int64_t closed_at; /* since when the listener seems to be closed; 0: it does not */
};

/* What the coordinator knows of a rank of the job. */
struct member {
	struct coord *coord;
	int rank;
	struct ctl ctl;
	struct addr from; /* of its connection; len 0: the own rank (coord.h) */
	struct presence presence;
	bool joined, present, has_intent, voted, done, lost, has_failure;
	bool missing;  /* the job goes on without it (coord_round.c); it is lost, too */
	bool moved;    /* its data have moved */
	bool broke;    /* it has reported a lane since the session began: its data have not moved */
	bool stopped;  /* it has answered BACK */
	bool in_round; /* its part of the current round has come */
	bool has_links;   /* LINKS has come */
	bool has_peers;   /* PEERS has come */
	int clocks;       /* number of its CLOCK messages */
	struct beat beat; /* the last one */
	uint64_t counted; /* the part of its progress that is in coord.moved */
	struct intent intent;
	uint8_t *details;   /* the memory of the intent's details */
	struct err outcome; /* of its commit; or its loss after the verdict */
	enum fate fate;     /* valid once done */
	int64_t away_at; /* when its link broke after its vote, or its last sign came before that;
	                    0: it did not break, or the rank has asked, or nobody waits for it any
	                    more */
	struct probe probe; /* while it is away */
};

/* The coordinator's timers: coord.c has a row for each. */
enum coord_timer {
	TIMER_JOIN,     /* the end of the time to join */
	TIMER_GRACE,    /* the end of --grace */
	TIMER_SEATS,    /* assign numbers to the ranks that have joined */
	TIMER_JOINED,   /* send JOINED again */
	TIMER_DOUBT,    /* ranks differ in size: the end of the time for ranks of the larger size */
	TIMER_BEAT,     /* the next heartbeat */
	TIMER_EVIDENCE, /* the end of the time for better evidence */
	TIMER_COMPARE,  /* the end of the time for the tables */
	TIMER_BACK,     /* the end of the time for ranks to stop, because a lane broke */
	TIMER_AWAY,     /* the end of the time for a rank to ask for the verdict */
	TIMER_DRAIN,    /* the end of the time for ranks to disconnect */
	COORD_TIMERS
};
#define COORD_NEVER INT64_MAX

/* The most connections that are pending at the gate, and the most guests: more than a job has
 * ranks. */
#define COORD_PLACES(size) (2 * (size) + 64)

/* A guest: a connection that has sent HELLO and is not a member: it waits for a rank (--rank auto),
 * or it cannot join and only gets an error. Until it has sent PRESENT, it is dropped after
 * GATE_PATIENCE. The number of guests is limited (COORD_PLACES). */
struct guest {
	struct coord *coord;
	struct loop_timer patience;
	struct ctl ctl;
	struct addr from;
	bool own;        /* the own rank (coord.h), which has no connection */
	bool wants_rank; /* --rank auto */
	bool present;
	struct presence presence;
	uint64_t arrival;
	int rank; /* the assigned rank */
	struct guest *next;
};

/* For each step (a flag of struct member): all ranks below this number have taken it. So the
 * coordinator need not examine all ranks for each message. */
struct upto {
	int present, has_intent, connected, moved, stopped, in_round, voted, ended, has_failure,
	        closed;
};

/* Seats are the numbers of ranks: which are taken, and which guests wait for one. Written by
 * coord_seats.c and coord_admit.c. */
struct seats {
	int njoined;          /* members that have joined */
	struct guest *guests; /* the newest first */
	uint64_t arrivals;    /* the number of guests so far */
	int told_failure;     /* number of guests to which the failure was sent */
	bool complete;        /* all ranks that take part have joined and have their numbers */
	bool grace_over;      /* --grace is: --min-ranks are enough */
	bool closed;          /* with --min-ranks, complete: no other rank may join */
	int nmissing;         /* number of members that are missing */
	struct joined joined; /* as it was sent last */
	uint32_t fewest;      /* the smallest size that a rank has given; 0: all gave the same */
};

/* The ranks disagree: the disagreement, and the tables that are compared to find the entry. Written
 * by compare_tables.c; `disagreement` also by the comparisons of facts and results. */
struct comparison {
	bool on; /* the tables are being compared */
	struct disagreement disagreement;
	enum phase phase;
	struct tables tables;
};

/* Ranks that ask for the verdict. Written by coord_inquiry.c; keys by coord_roster.c. */
struct inquiries {
	int fd; /* listening; -1: none can ask */
	bool secure;
	struct pair_keys *keys;
	bool open;               /* ranks are answered: from the own rank's vote on */
	bool over;               /* nobody waits for a rank that may ask */
	struct loop_watch watch; /* of fd, for the first connection */
	struct tls *tls;         /* these two from then on */
	struct gate *gate;
};

/* A lane broke, and the ranks go back. Written by coord_back.c. */
struct going_back {
	bool on; /* BACK was sent, and AGAIN not yet */
	int times;
	struct evidence why;
	uint64_t window; /* the least of STOPPED */
};

/* After the outcome the ranks disconnect. */
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
	int *came;                /* the ranks that take part, ascending; with the plan */
	int *host;                /* the number of each rank's host; with the plan */
	bool several_hosts;       /* by their names; with the plan */
	struct link_faults links; /* the failed links */
	struct seats seats;
	struct plan plan;
	struct pair_keys *pair_keys; /* while ranks may ask for places; else NULL */
	struct evidence evidence;    /* in STAGE_RUN: the best so far; better evidence may come */
	struct err failure;          /* in STAGE_FAILED and STAGE_FINAL: the outcome */
	enum phase failed_in;
	struct comparison comparison;
	struct inquiries inquiries;
	struct going_back back;
	bool anew; /* the job was formed anew (coord_anew.c) */
	struct advance advance;
	uint64_t moved;    /* by all ranks; only what counts as progress (advance.h) */
	int64_t roster_at; /* when ROSTER was sent */
	enum drain drain;
	int64_t drain_from;
	char refusal[GATE_REFUSAL]; /* gate_last_refusal */
	char note[240]; /* a rank with another version or certificate, for messages; "": none */
};

/* Set a timer, again if it runs; COORD_NEVER stops it. */
void coord_set_timer(struct coord *, enum coord_timer, int64_t at);
static inline bool coord_timer_runs(const struct coord *c, enum coord_timer t)
{
	return c->timers[t].prev != NULL;
}
/* Enter @stage, and stop the timers that are not used in it. */
void coord_enter(struct coord *, enum stage stage);
/* The functions of the timers, defined in other files than coord.c. */
void coord_look_at_seats(void *coord);
void coord_tell_joined(void *coord);
void coord_expect_fewest(void *coord);
void coord_compare_over(void *coord);
void coord_watch_beats(void *coord);
void coord_evidence_over(void *coord);
void coord_back_over(void *coord);
void coord_drain_over(void *coord);
void coord_grace_over(void *coord);
/* Do the ranks wait for all until --join-timeout is over, and then begin with as many as are
 * enough? That is a --grace that is no shorter. */
bool coord_waits_to_the_end(const struct coord *);
/* The time to join is over: they begin, and have --timeout for their requests. False: they do not.
 */
bool coord_begins_late(struct coord *);
/* The number of guests that have sent PRESENT and wait for a rank. */
int coord_present_guests(const struct coord *);

/* Send a message to a member, which may be the own rank, unless it is missing; @body may be NULL.
 */
void coord_send(struct member *m, uint8_t type, const struct buf *body);
void coord_send_all(struct coord *, uint8_t type, const struct buf *body); /* all that joined */
#define ERR_MESSAGE 1024 /* bytes, more than any error message has */
void coord_err_message(const struct err *e, enum phase phase, struct buf *b,
                       uint8_t memory[ERR_MESSAGE]);
/* The on_lost and on_lacking of a control link (ctl.h). */
void coord_on_lost(void *member, const struct err *err);
void coord_lacking(void *member, const struct err *err);
void coord_send_failure(struct coord *c, struct member *m);
/* Fail the job: send the failure to all ranks that have joined and, if ROSTER was not sent, to
 * ranks that join until the end of the time to join. */
void coord_fail(struct coord *c, const struct err *e, enum phase phase);
/* Check whether the time to join is over. Call it before a rank joins or leaves: a message that
 * arrives too late does not count, even if this process reads it before the timer runs. */
void coord_look_at_deadline(struct coord *c);
void coord_member_lost(struct member *m, const struct err *why);
/* When all ranks have the failure, they get a bounded time to disconnect. */
void coord_maybe_drained(struct coord *c);

/* Have all ranks that take part taken the step of which struct member has the flag at offset @flag?
 * *@upto is that step's of struct upto. */
bool coord_all_have(const struct coord *, int *upto, size_t flag);

/* REPORT from @reporter: @e is about another rank or the link to it; @v is the rest of the message.
 * Waits a while for better evidence. */
void coord_suspect(struct member *reporter, const struct err *e, enum phase, struct view *v);

/* Does a lane of the job that breaks take all ranks back, as far as @reporter is concerned? */
bool coord_can_go_back(const struct coord *, const struct member *reporter);
/* Is *@e a reason to go back? False also if the ranks have gone back too often, which is added to
 * its text. */
bool coord_goes_back(const struct coord *, struct evidence *e);
void coord_go_back(struct coord *, const struct evidence *why);
/* ROSTER was sent, and a rank that takes no part any more is lost, as @why says: all others send
 * INTENT again. */
void coord_form_anew(struct coord *, const struct err *why, enum phase);
/* Did @m send a message of @type before ANEW came to it? */
bool coord_is_stale(const struct member *m, uint8_t type);
/* MOVED and STOPPED. False: the message is malformed, or must not come now. */
bool coord_take_moved(struct member *m, struct view v);
bool coord_take_stopped(struct member *m, struct view v);

int64_t coord_beat_interval(const struct coord *);
/* The rank's phase, by its messages. */
enum phase coord_phase_of(const struct coord *, const struct member *);
/* The rank that has been silent for the longest time; NULL: none has been silent for longer than
 * @limit, ns, plus the time that its messages may take. */
struct member *coord_most_silent(const struct coord *, int64_t limit, int64_t now);
/* "no message for 20.3 s". Returns @text. */
#define COORD_SILENT_TEXT 64
const char *coord_silent_text(const struct member *, int64_t now, char text[COORD_SILENT_TEXT]);
struct evidence coord_silence_of(const struct coord *, const struct member *, int64_t now);

/* The verdict was given. */
static inline bool coord_gave_verdict(const struct coord *c)
{
	return c->stage == STAGE_COMMIT || c->stage == STAGE_FINAL;
}

/* Answer ranks that ask from now on: the mesh of the own rank has its connections. */
void coord_open_inquiries(struct coord *);
void coord_close_inquiries(struct coord *); /* they may be opened again, with other keys */
/* How long after the last sign of a rank the verdict is kept for it: it may notice a broken link
 * one --timeout later, and ask for another one. */
int64_t coord_verdict_kept(const struct coord *);
/* The link of @m broke after its vote; its last sign came at @since. True: it may ask, so it is
 * away until one of the next two is called. */
bool coord_leaves(struct member *m, int64_t since);
void coord_came_back(struct member *m);
void coord_stays_away(struct member *m, const char *how); /* it asks no more; @how: "lost" */
/* The last moment at which a rank that is away may ask; 0: none is away. */
int64_t coord_away_until(const struct coord *);
void coord_look_for_away(void *coord); /* of TIMER_AWAY */
/* Find out, from the next turn of the loop on, whether the process of @m has ended. If so,
 * coord_stays_away is called. */
void coord_probe(struct member *m);
void coord_stop_probe(struct member *m);

void coord_send_verdict(struct member *m);
void coord_send_final(struct member *m);
/* Send the verdict if all ranks have voted. */
void coord_give_verdict(struct coord *);
/* A rank is lost after the verdict. @how: "lost". */
void coord_lose_after_verdict(struct member *, const char *how);
/* Send the outcome if each rank has committed, has failed, or was lost after the verdict. */
void coord_finish_commit(struct coord *);

/* "rank 3 (nodeb)": the own rank and its host, as far as they are known. Returns @text. */
#define COORD_SELF_TEXT 96
const char *coord_self_text(const struct coord *, char text[COORD_SELF_TEXT]);

/* Add @conn to the guests; @conn NULL: the own rank. NULL: @conn was closed instead. */
struct guest *coord_add_guest(struct coord *, struct conn *conn, const struct addr *from);
/* The gate's `spare` (gate.h): close the connection of one guest: the oldest that cannot join, else
 * the oldest that has not sent PRESENT. */
bool coord_spare_guest(void *coord);
/* All ranks have joined: no guest needs its connection any more. */
void coord_dismiss_guests(struct coord *);
void coord_free_guests(struct coord *);
void coord_end_guests(struct coord *); /* end their links */
bool coord_has_open_guests(const struct coord *);
bool coord_guests_have_sent(const struct coord *); /* ... everything, and the end */
void coord_seat(struct coord *, int rank, struct conn *conn, const struct addr *from);
/* A guest has joined, left or sent PRESENT: assign ranks soon, by a timer, if possible. May be
 * called from any callback. */
void coord_seats_changed(struct coord *);
/* -1: no memory. */
int coord_init_seats(struct coord *);
void coord_who_joined(const struct coord *, struct joined *);
/* Give the guests that wait their numbers, if all that take part are here. */
void coord_settle_seats(struct coord *);
/* @m may join again. */
void coord_unseat(struct member *m);
/* Make the plan if all that take part have sent their intents. */
void coord_maybe_complete(struct coord *);

/* With --min-ranks: may the job do without some ranks? */
bool coord_can_miss(const struct coord *);
/* May it do without ranks that are lost after ROSTER, too? */
bool coord_may_lose(const struct coord *);
/* May it begin without those that have not joined, once @guests of those that wait have numbers? */
bool coord_may_begin(const struct coord *, int guests);
/* All others are missing from now on. */
void coord_close_round(struct coord *);
/* HELLO @h came too late: *e tells the rank so. */
bool coord_is_late(const struct coord *, const struct hello *h, struct err *e);
/* Before VERDICT @m has failed in @phase, as @why says, or is lost. True: the job goes on without
 * it or, before ROSTER, it may join again. */
bool coord_does_without(struct member *m, const struct err *why, enum phase phase);
/* The time to join is over: do without the ranks that have sent no intent. False: too few have. */
bool coord_drops_silent(struct coord *);
/* Withdraw the record and close the listener: nobody joins any more, or gets an answer. */
void coord_close_door(struct coord *);
void coord_send_guests_failure(struct coord *);
/* PRESENT from @m, before the roster. */
int coord_take_presence(struct member *m, struct view v, struct err *err);
bool coord_several_hosts(const struct coord *);
/* All ranks have joined: warn about ranks that were started much earlier than others, because they
 * may belong to an earlier job of the same name. */
void coord_look_at_ages(const struct coord *);
/* Fill e->host if the ranks are on several hosts and that of e->rank is known. */
void coord_name_host(const struct coord *, struct err *e);

/* All ranks agree: make the plan, stop accepting ranks, and send ROSTER to every rank. */
void coord_send_rosters(struct coord *);

/* In a small job, append the places of all ranks for @reader. ERR_RESOURCE. */
int coord_put_places(const struct coord *, int reader, struct buf *b, struct err *err);
/* PEERS from @m: send it the places of these ranks. False: the message is not valid: a rank does
 * not exist, @m may not ask, or all ranks are connected. */
bool coord_send_places(struct member *m, struct view peers);
void coord_forget_keys(struct coord *c); /* no rank may ask for places from now on */

/* All ranks have voted, and links have failed: fail with the names of all these links. */
void coord_fail_links(struct coord *c);

/* The admit of a gate (gate.h): a connection that has sent HELLO. */
void coord_admit(void *ctx, struct conn *conn, const uint8_t opening[GATE_OPENING],
                 const struct addr *from);

/* The ranks disagree (c->comparison): fail; if there are tables, and they arrive in time, with the
 * name of the entry. */
void coord_disagree(struct coord *c, enum phase phase);
void coord_take_page(struct coord *c, int rank, uint32_t page, struct view entries);
void coord_stop_comparing(struct coord *c);

#endif
