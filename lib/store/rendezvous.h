/*
 * How the ranks find the coordinator: by a record in a store (record.h), by the first line of a
 * hostfile, or by what `collctl run` passes to its ranks (to rank 0 a listening socket, to the
 * others its address).
 *
 * One thread. Deadlines are absolute times, clock_ns(). Errors: as store.h; ERR_USAGE also for
 * addresses.
 */
#ifndef COLLCTL_STORE_RENDEZVOUS_H
#define COLLCTL_STORE_RENDEZVOUS_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/crypto/secret.h"
#include "lib/net/addr.h"
#include "lib/store/hostfile.h"
#include "lib/store/store.h"
#include "lib/store/suspect.h"

struct rendezvous_conf {
	const char *job;
	const struct secret *secret;              /* NULL: there is none */
	struct store_conf store;                  /* url NULL: no store */
	const struct hostfile *hosts;             /* or NULL */
	const char *coordinator;                  /* "ADDR:PORT" from run, or NULL */
	int listen_fd;                            /* from run, for rank 0; or -1 */
	const struct address_settings *addresses; /* outlive the rendezvous */
	bool (*interrupted)(void *ctx); /* called while it waits for a store; true: stop */
	/* Called at the first failure of the store, and at the first record that is not of this
	 * job, which need not last: it goes on until the deadline. */
	void (*tell)(void *ctx, const char *why);
	void *ctx;
};

struct rendezvous;

/* *conf is copied; what it points to must outlive the rendezvous. */
struct rendezvous *rendezvous_new(const struct rendezvous_conf *, struct err *err);
void rendezvous_free(struct rendezvous *); /* NULL: nothing */

enum published {
	PUBLISH_FAILED, /* *err says why */
	PUBLISH_DONE,   /* *fd listens at *where */
	PUBLISH_TAKEN,  /* *where has another coordinator of this job, or another process has the
	                   port: try to join it */
};
/* Rank 0: listen, and publish the address. The caller owns *fd; it is -1 unless PUBLISH_DONE.
 * Replaces only a stale record (suspect.h), by compare-and-swap. */
enum published rendezvous_publish(struct rendezvous *, struct addr *where, int *fd,
                                  int64_t deadline, struct err *err);
/* Report the result of a try to connect to the address that was found last. */
void rendezvous_met(struct rendezvous *, enum met);
/* Start a thread that publishes the record again whenever the store loses it (keeper.h), until
 * rendezvous_withdraw or _free. */
void rendezvous_keep(struct rendezvous *);
/* Do the ranks meet at a store? Then any rank can become the coordinator. */
bool rendezvous_has_store(const struct rendezvous *);

/* Other ranks: find the coordinator's address. 1: found; 0: not yet; -1: error. With a store, each
 * call but the first waits until the record changes or until @until. */
int rendezvous_locate(struct rendezvous *, struct addr *where, int64_t until, struct err *err);
/* Why it was not found, for a message: "no record collctl/JOB in the store URL". Owned by the
 * rendezvous. */
const char *rendezvous_trouble(const struct rendezvous *);
/* The source of the address that was found: "record collctl/JOB in URL". Returns @text. */
const char *rendezvous_source(const struct rendezvous *, char *text, size_t cap);
/* Call it when all ranks have joined: closes the store and wipes its token, unless this rank's
 * record must still be removed. */
void rendezvous_settle(struct rendezvous *);
/* The local address of the connection to the store, in @buf; "": not known yet, or no store. */
const char *rendezvous_local_address(const struct rendezvous *, char *buf, size_t cap);
/* Has the record been this coordinator's all the time, so that no other has begun? 0: yes, or there
 * is no store; -1: error, ERR_RENDEZVOUS. The record is not kept any more. */
int rendezvous_confirm(struct rendezvous *, int64_t deadline, struct err *err);
/* Remove this coordinator's record. 0; -1: error, which the caller may ignore. */
int rendezvous_withdraw(struct rendezvous *, int64_t deadline, struct err *err);

#endif
