/*
 * The coordinator's inside, shared by its files: coord.c (its life, the watch over the ranks, the
 * roster, the votes, and what all of it fails of), coord_admit.c (who may come), coord_seats.c (who
 * gets which rank, and who is still missing), coord_compare.c (in what the ranks disagree).
 */
#ifndef COLLCTL_JOB_COORD_INTERNAL_H
#define COLLCTL_JOB_COORD_INTERNAL_H

#include "lib/job/agree.h"
#include "lib/job/blame.h"
#include "lib/job/coord.h"
#include "lib/job/ctl.h"
#include "lib/job/links.h"
#include "lib/job/tables.h"

enum stage {
	STAGE_JOIN,   /* waiting for ranks and intents */
	STAGE_RUN,    /* the roster is out */
	STAGE_COMMIT, /* the verdict is out: nobody can be stopped any more */
	STAGE_FAILED, /* the ABORT is out; whoever still comes is told */
	STAGE_FINAL,  /* the outcome is out */
};

struct member {
	struct coord *coord;
	int rank;
	struct ctl ctl;
	struct addr from; /* len 0: the coordinator's own rank */
	struct presence presence;
	bool joined, present, has_intent, voted, done, lost, told;
	struct beat beat; /* its last */
	struct intent intent;
	uint8_t *details;   /* where the intent's are */
	struct err outcome; /* of its commit, or how it was lost after the verdict */
};

/* A connection that asked for any rank, or that is only to be told why it can't join. */
struct guest {
	struct coord *coord;
	struct ctl ctl;
	struct addr from;
	bool own;        /* the coordinator's rank, without a connection */
	bool wants_rank; /* --rank auto */
	bool present;
	struct presence presence;
	uint64_t arrival;
	int rank; /* that it is given */
	struct guest *next;
};

struct coord {
	struct coord_conf conf;
	struct gate *gate;
	enum stage stage;
	int self; /* the rank that it lives in; -1: not given yet */
	struct member *members;
	const struct intent **intents; /* the members' */
	struct vote *votes;
	struct link_faults links; /* that failed */
	struct guest *guests;     /* the newest first */
	uint64_t arrivals;        /* of guests */
	int guests_told;          /* that the job has failed */
	bool complete;            /* all ranks are there and know what they are */
	struct joined joined;     /* as last told */
	struct loop_timer seat_timer, joined_timer;
	uint32_t fewest; /* ranks by any size that a rank has given; 0: none has differed */
	struct loop_timer doubt_timer; /* runs while ranks that only a larger size has may come */
	struct plan plan;
	struct evidence evidence; /* in STAGE_RUN: the best so far, while a better one may come */
	struct err failure;       /* the outcome of STAGE_FAILED */
	enum phase failed_in;
	bool comparing; /* tables, to say in what the ranks disagree */
	struct disagreement disagreement;
	enum phase disagreed_in;
	struct tables tables;
	struct loop_timer compare_timer;
	struct loop_timer join_timer, beat_timer, evidence_timer, drain_timer;
	int64_t roster_at;
	char refusal[160];
	bool draining, drained;
};

/* A message to a member, or rank 0; @body may be NULL. */
void coord_tell(struct member *m, uint8_t type, const struct buf *body);
#define ERR_MESSAGE 1024 /* bytes, and more than one has */
void coord_err_message(const struct err *e, enum phase phase, struct buf *b,
                       uint8_t memory[ERR_MESSAGE]);
/* A control link's (ctl.h). */
void coord_lacking(void *member, const struct err *err);
void coord_tell_failure(struct coord *c, struct member *m);
/* Fail the job: everybody who has joined is told now, who still comes is told then, until the time
 * to join is over. After the roster nobody comes. */
void coord_fail(struct coord *c, const struct err *e, enum phase phase);
void coord_member_lost(struct member *m, const struct err *why);
/* Once nobody is left to tell, those who were told get a bounded time to go. */
void coord_maybe_drained(struct coord *c);

/* "rank 3 (nodeb)", of the coordinator's rank: as far as it is known. */
#define COORD_SELF_TEXT 96
const char *coord_self_text(const struct coord *, char text[COORD_SELF_TEXT]);

/* Add @conn, or with NULL the coordinator's own rank, to those who wait outside. NULL: it is
 * closed.
 */
struct guest *coord_add_guest(struct coord *, struct conn *conn, const struct addr *from);
void coord_seat(struct coord *, int rank, struct conn *conn, const struct addr *from);
/* Somebody has come, gone or said who it is: look soon who can be given a rank. Call it from
 * anywhere. */
void coord_seats_changed(struct coord *);
/* -1: no memory. */
int coord_init_seats(struct coord *);
void coord_who_joined(const struct coord *, struct joined *);
void coord_tell_guests_failure(struct coord *);
/* A message before the roster from @m: who it is. */
int coord_take_presence(struct member *m, struct view v, struct err *err);
/* Fill e->host where the ranks are on several hosts and that of e->rank is known. */
void coord_name_host(const struct coord *, struct err *e);

/* Links have failed, and all ranks have voted: fail with the names of all. */
void coord_fail_links(struct coord *c);

/* A gate's (gate.h): a connection that has said HELLO. */
void coord_admit(void *ctx, struct conn *conn, const uint8_t opening[GATE_OPENING],
                 const struct addr *from);

/* The ranks disagree, of which c->disagreement knows: fail, with the entry's name where there are
 * tables that come in time. */
void coord_disagree(struct coord *c, enum phase phase);
void coord_take_page(struct coord *c, int rank, uint32_t page, struct view entries);
void coord_compare_over(void *ctx); /* the timer's */
void coord_stop_comparing(struct coord *c);

#endif
