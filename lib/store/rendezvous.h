/*
 * How the ranks find the coordinator: by a record in a store, by the first line of a hostfile, or
 * by what `collctl run` passes to its ranks (a listening socket for rank 0, its address for the
 * others).
 *
 * The record, "collctl/JOB" in the store: {"v":1,"addr":"192.0.2.7:4242","nonce":"...","mac":"..."}
 * with an HMAC keyed from the job secret, so that whoever controls the store can at worst deny
 * service; with --insecure it has no mac.
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
	const struct secret *secret;              /* NULL: --insecure */
	struct store_conf store;                  /* url NULL: none */
	const struct hostfile *hosts;             /* or NULL */
	const char *coordinator;                  /* "ADDR:PORT" given by run, or NULL */
	int listen_fd;                            /* given by run to rank 0, or -1 */
	const struct address_settings *addresses; /* outlive the rendezvous */
	bool (*interrupted)(void *ctx);           /* called while waiting for a store */
	void *ctx;
};

struct rendezvous;

struct rendezvous *rendezvous_new(const struct rendezvous_conf *, struct err *err);
void rendezvous_free(struct rendezvous *);

enum published {
	PUBLISH_FAILED, /* *err says why */
	PUBLISH_DONE,   /* *fd listens at *where */
	PUBLISH_TAKEN,  /* another coordinator of this job is at *where, or something has the port:
	                 * try to join it */
};
/* Rank 0: listen and publish. The caller owns *fd, which is -1 unless PUBLISH_DONE. A stale record
 * (suspect.h) is replaced by compare-and-swap. */
enum published rendezvous_publish(struct rendezvous *, struct addr *where, int *fd,
                                  int64_t deadline, struct err *err);
/* Report the result of a try at the last address. */
void rendezvous_met(struct rendezvous *, enum met);
/* From now on publish the record again whenever the store loses it, until it is withdrawn. */
void rendezvous_keep(struct rendezvous *);
/* Do the ranks meet at a store? Then any rank can become the coordinator. */
bool rendezvous_has_store(const struct rendezvous *);

/* The others: the coordinator's address. 1: found; 0: not yet; -1: error. With a store it waits
 * after the first call until the record changes, or @until. */
int rendezvous_locate(struct rendezvous *, struct addr *where, int64_t until, struct err *err);
/* Why it has not been found, for the message at the end ("no record collctl/JOB at URL"). */
const char *rendezvous_trouble(const struct rendezvous *);
/* Where the address that was found comes from ("record collctl/JOB in URL"). Returns @text. */
const char *rendezvous_source(const struct rendezvous *, char *text, size_t cap);
/* All ranks have joined: close the store and wipe its token, unless a record must still be removed
 * from it. */
void rendezvous_settle(struct rendezvous *);
/* The local address of the connection to the store; "": not known yet, or no store. */
const char *rendezvous_local_address(const struct rendezvous *, char *buf, size_t cap);
/* Remove this coordinator's record. Failure is the caller's to ignore. */
int rendezvous_withdraw(struct rendezvous *, int64_t deadline, struct err *err);

#endif
