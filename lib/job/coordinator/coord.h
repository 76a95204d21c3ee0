/*
 * The coordinator: admits the ranks of a job, compares their requests, sends them the plan,
 * monitors their heartbeats, determines the culprit of a failure, and takes the vote. It never
 * blocks: it acts on messages and timers. One thread: the one of the loop, which calls all
 * callbacks.
 *
 * It runs in the process of one rank, its own rank: rank 0 or, with --rank auto, the first one that
 * finds no coordinator. The own rank has no connection: its messages go through coord_receive, and
 * those to it through conf.deliver.
 */
#ifndef COLLCTL_JOB_COORDINATOR_COORD_H
#define COLLCTL_JOB_COORDINATOR_COORD_H

#include "lib/crypto/secret.h"
#include "lib/job/job.h"
#include "lib/job/proto.h"
#include "lib/net/gate.h"

struct coord_conf {
	/* It uses timeout, join_timeout, min_ranks and grace. */
	const struct job_settings *settings;
	struct loop *loop;
	struct tls *tls; /* NULL: --insecure */
	int size;
	int rank; /* the own rank; -1: --rank auto, assigned as for the other ranks */
	int root; /* with min_ranks, a rank that the job cannot do without; -1: none, or not known
	           */
	const struct presence *present; /* the own rank's */
	/* The host of @rank by the hostfile, for a rank that has not joined; NULL: not known. */
	const char *(*host_of)(void *ctx, int rank);
	const uint8_t *jobtag; /* 8 bytes */
	const uint8_t *launch; /* 8 bytes, as hello.launch; NULL: zeros */
	tls_find_key *find;
	/* Does the certificate of the other end of @conn belong to @rank (-1: --rank auto, to any
	 * rank)? 0; -1: ERR_AUTH. NULL: there are no certificates. */
	int (*vouch)(void *ctx, const struct conn *conn, int rank, struct err *err);
	void *find_ctx;        /* of find and vouch */
	int64_t join_deadline; /* clock_ns() */
	/* A message to the own rank. It must not call the coordinator. */
	void (*deliver)(void *ctx, uint8_t type, struct view body);
	/* The own rank's (job.h), called with their own ctx: decide and details when all intents
	 * agree; table if the own rank's table is compared. Filled before the own rank sends its
	 * intent. */
	const struct job_callbacks *callbacks;
	/* A connection has sent HELLO for @rank; -1: --rank auto. May be NULL. */
	void (*met)(void *ctx, const struct addr *from, int rank);
	/* A warning for the user. May be NULL. */
	void (*warn)(void *ctx, const char *text);
	/* Ranks are missing, and all others have voted: 0: no other coordinator has begun with
	 * those that are missing; -1: error, ERR_RENDEZVOUS. NULL: there cannot be one. */
	int (*confirm)(void *ctx, struct err *err);
	/* Nobody joins any more: withdraw the record. Called before ROSTER is sent or, if the job
	 * can do without some ranks, before VERDICT or once the job has failed. */
	void (*complete)(void *ctx);
	void *ctx;
};

struct coord;

/* *conf is copied; what it points to must outlive the coordinator. It owns @listen_fd, also on
 * failure. NULL: ERR_RESOURCE. */
struct coord *coord_open(const struct coord_conf *, int listen_fd, struct err *err);
void coord_close(struct coord *); /* NULL: nothing */
/* Ranks that ask for the verdict dial @listen_fd, which the caller closes after the coordinator.
 * @secure: with the keys that ROSTER has given them; else --insecure. Call it before the own rank
 * sends its intent. */
void coord_take_inquiries(struct coord *, int listen_fd, bool secure);
/* Do not wait, now or later, for a rank whose link broke after its vote, and which may ask. */
void coord_await_nobody(struct coord *);
/* A message from the own rank. */
void coord_receive(struct coord *, uint8_t type, struct view body);
/* The longest time that a message of any rank may take, ns (conn_round_trip). */
int64_t coord_allowance(const struct coord *);
/* After the outcome: has every rank disconnected, or has the time for it passed? */
bool coord_drained(const struct coord *);
/* After coord_drain: is everything sent on every open link, also the announced end? */
bool coord_has_sent(const struct coord *);
/* Announce the end on all links, behind the outcome. Later coord_drained becomes true. */
void coord_drain(struct coord *);
/* The name of @rank's host, once the plan is known; "": not known, or all ranks are on one host. */
const char *coord_host(const struct coord *, int rank);
/* The control link of @rank; the first one of a rank on another machine. NULL: there is none. */
const struct conn *coord_link(const struct coord *, int rank);
const struct conn *coord_far_link(const struct coord *);
/* Does a rank that comes still get an answer? With --min-ranks to the verdict. */
bool coord_door_is_open(const struct coord *);
/* The address of its control listener. Only before ROSTER is sent. ERR_OTHER. */
int coord_local_addr(const struct coord *, struct addr *out, struct err *err);

#endif
