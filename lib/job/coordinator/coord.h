/*
 * The coordinator: admits the ranks of a job, compares their requests, sends them the plan,
 * monitors their heartbeats, determines the culprit of a failure, and takes the vote. It never
 * waits: it acts on messages and timers of the loop.
 *
 * It runs in one of the ranks: rank 0 or, with --rank auto, the first one. That rank is a member
 * like the others; its messages go through coord_receive and conf.deliver, without a connection.
 */
#ifndef COLLCTL_JOB_COORDINATOR_COORD_H
#define COLLCTL_JOB_COORDINATOR_COORD_H

#include "lib/crypto/secret.h"
#include "lib/job/job.h"
#include "lib/job/proto.h"
#include "lib/net/gate.h"

struct coord_conf {
	const struct job_settings *settings; /* timeout and join_timeout; outlive the coordinator */
	struct loop *loop;
	struct tls *tls; /* NULL: --insecure */
	int size;
	int rank; /* its own rank; -1: --rank auto, assigned like those of the others */
	const struct presence *present; /* that rank's; outlives the coordinator */
	/* The host of a rank that has not joined, by the hostfile; NULL: not known. */
	const char *(*host_of)(void *ctx, int rank);
	const uint8_t *jobtag; /* 8 bytes */
	const uint8_t *launch; /* 8 bytes: hello.launch; NULL: as zeros */
	tls_find_key *find;
	/* Is the other end of @conn @rank (-1: it takes any), by its certificate? -1: ERR_AUTH.
	 * NULL: there are no certificates. */
	int (*vouch)(void *ctx, const struct conn *conn, int rank, struct err *err);
	void *find_ctx;        /* of find and vouch */
	int64_t join_deadline; /* clock_ns() */
	/* A message of the coordinator for its own rank. Only sets state: it does not call back.
	 */
	void (*deliver)(void *ctx, uint8_t type, struct view body);
	/* job.h, with their own context: decide and details are called when all intents agree,
	 * table if the coordinating rank's own is compared. Filled before that rank's intent
	 * comes. */
	const struct job_callbacks *callbacks;
	/* A connection has sent HELLO with @rank, or -1 for any. May be NULL. */
	void (*met)(void *ctx, const struct addr *from, int rank);
	/* For the user, who need not ask for it. May be NULL. */
	void (*warn)(void *ctx, const char *text);
	/* All ranks have joined and agree; called before the ROSTER is sent: withdraw the record.
	 */
	void (*complete)(void *ctx);
	void *ctx;
};

struct coord;

/* @listen_fd becomes the coordinator's. */
struct coord *coord_open(const struct coord_conf *, int listen_fd, struct err *err);
void coord_close(struct coord *);
/* A message from its own rank. */
void coord_receive(struct coord *, uint8_t type, struct view body);
/* How long the messages of some rank may take, ns (conn_round_trip). */
int64_t coord_allowance(const struct coord *);
/* Has every rank been sent the outcome, and disconnected (or has its time run out)? */
bool coord_drained(const struct coord *);
/* After coord_drain: is everything sent on every open link, the end too? */
bool coord_has_sent(const struct coord *);
/* End all links after the outcome is sent; then coord_drained becomes true. */
void coord_drain(struct coord *);
/* The name of the host of @rank, once the plan is known; "": all ranks are on one, or not known. */
const char *coord_host(const struct coord *, int rank);
/* The address of its control listener; before the roster is sent. */
int coord_local_addr(const struct coord *, struct addr *out, struct err *err);

#endif
