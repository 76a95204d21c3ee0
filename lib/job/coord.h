/*
 * The coordinator: admits the ranks of a job, compares what they are asked to do, tells
 * all of them the plan, watches over them, decides on one culprit when something fails, and takes
 * the vote. It never waits: it acts on messages and timers of the loop.
 *
 * It lives in one of the ranks: rank 0 or, with --rank auto, the one that came first. That rank is
 * a member like the others; its messages go by coord_receive and come by conf.deliver, without a
 * connection.
 */
#ifndef COLLCTL_JOB_COORD_H
#define COLLCTL_JOB_COORD_H

#include "lib/job/proto.h"
#include "lib/job/secret.h"
#include "lib/net/gate.h"

struct coord_conf {
	struct loop *loop;
	struct tls *tls; /* NULL: --insecure */
	int size;
	int rank; /* the rank that it lives in; -1: --rank auto, to be given as the others' are */
	const struct presence *present; /* that rank's; outlives the coordinator */
	/* The host of a rank that has not joined, by the hostfile; NULL: not known. */
	const char *(*host_of)(void *ctx, int rank);
	const uint8_t *jobtag; /* 8 bytes */
	const uint8_t *launch; /* 8 bytes: hello.launch; NULL: as zeros */
	tls_find_key *find;
	void *find_ctx;
	int64_t join_deadline; /* clock_ns() */
	int64_t timeout;       /* ns */
	/* A message of the coordinator for its own rank. Only sets state: it does not call back.
	 */
	void (*deliver)(void *ctx, uint8_t type, struct view body);
	/* All intents agree: fill the plan (algorithm, dtype, windows, streams). -1: fail the job.
	 */
	int (*decide)(void *ctx, const struct intent *const *intents, struct plan *plan,
	              struct err *err);
	/* Then, for each rank: write the details of its plan. NULL: there are none. The intents
	 * that decide saw are still there. */
	void (*details)(void *ctx, int rank, struct buf *out);
	/* A page of the coordinating rank's table (job_shows), if its intent or vote has one. */
	void (*table)(void *ctx, uint32_t page, struct buf *out);
	/* What an entry of a table is: "tensor". */
	const char *(*noun)(void *ctx);
	/* All ranks are there and agree; before the ROSTER goes out: withdraw the record. */
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
/* Has everybody who is to be told the outcome been told, and gone (or their time run out)? */
bool coord_drained(const struct coord *);
/* Tell everybody that it is over, once the outcome is out; then coord_drained becomes true. */
void coord_drain(struct coord *);
/* The address that its control listener is bound to; before the roster goes out. */
int coord_local_addr(const struct coord *, struct addr *out, struct err *err);

#endif
