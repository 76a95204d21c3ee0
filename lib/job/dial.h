/* Dialling the coordinator: connect, authenticate, send HELLO. One thread. */
#ifndef COLLCTL_JOB_DIAL_H
#define COLLCTL_JOB_DIAL_H

#include "lib/crypto/secret.h"
#include "lib/job/proto.h"
#include "lib/store/suspect.h"

/* Write the identity of a control link, "C1|jobtag|ctl|nonce", to @text[cap]; returns its length.
 * With an empty nonce it is the prefix of all identities of the job. */
int dial_identity(const uint8_t jobtag[8], const char *nonce, char *text, size_t cap);

struct dial_conf {
	struct loop *loop;
	struct tls *tls;             /* NULL: --insecure */
	const struct secret *secret; /* NULL: @tls has certificates */
	const char *congestion;      /* as in conn_sock_dial */
	struct hello hello;
	int64_t until;                  /* the end of the try, clock_ns() */
	bool (*interrupted)(void *ctx); /* called after every turn of the loop; true: stop */
	void *ctx;
};

/* Try once, on the loop, until conf.until. Returns the connection, which the caller owns, once
 * HELLO is sent. NULL: ERR_PEER_LOST: nothing answers at @to yet; ERR_AUTH: another try would fail,
 * too; or another error. *@met: what the try shows about the peer (suspect.h). */
struct conn *dial_coordinator(const struct dial_conf *, const struct addr *to, enum met *met,
                              struct err *err);

#endif
