/* Dialling the coordinator: connect, authenticate with the job's key, send HELLO. */
#ifndef COLLCTL_JOB_DIAL_H
#define COLLCTL_JOB_DIAL_H

#include "lib/crypto/secret.h"
#include "lib/job/proto.h"
#include "lib/store/suspect.h"

/* The identity of a control link, "C1|jobtag|ctl|nonce"; returns its length. With an empty nonce
 * it is the prefix of all identities of the job. */
int dial_identity(const uint8_t jobtag[8], const char *nonce, char *text, size_t cap);

struct dial_conf {
	struct loop *loop;
	struct tls *tls;             /* NULL: --insecure */
	const struct secret *secret; /* NULL: @tls has certificates */
	struct hello hello;
	int64_t until;                  /* clock_ns() */
	bool (*interrupted)(void *ctx); /* asked after every turn of the loop */
	void *ctx;
};

/* One try. NULL: *err has the cause; ERR_PEER_LOST if nothing answers at @to (yet), ERR_AUTH if
 * another try would fail too. *@met: what a failed try shows about the peer; with TLS, a connection
 * proves that a process listens. */
struct conn *dial_coordinator(const struct dial_conf *, const struct addr *to, enum met *met,
                              struct err *err);

#endif
