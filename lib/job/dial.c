#include "lib/job/dial.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/hex.h"
#include "lib/crypto/crypto.h"
#include "lib/net/transport.h"

int dial_identity(const uint8_t jobtag[8], const char *nonce, char *text, size_t cap)
{
	char tag[17];
	return snprintf(text, cap, "C1|%s|ctl|%s", hex_text(jobtag, 8, tag), nonce);
}

static struct conn *connection(const struct dial_conf *c, const struct addr *to, struct err *err)
{
	uint8_t nonce[16], key[TLS_KEY_BYTES];
	char nonce_text[33], identity[TLS_IDENTITY_MAX + 1];
	const struct transport_edge edge = {.tls = c->tls,
	                                    .to = to,
	                                    .identity = identity,
	                                    .key = key,
	                                    .congestion = c->congestion};
	if (!c->secret)
		return transport_of(&edge)->dial(&edge, err);
	if (crypto_random(nonce, sizeof nonce, err) < 0)
		return NULL;
	dial_identity(c->hello.jobtag, hex_text(nonce, sizeof nonce, nonce_text), identity,
	              sizeof identity);
	if (secret_derive(c->secret->key, SECRET_BYTES, identity, strlen(identity), key, sizeof key,
	                  err) < 0)
		return NULL;
	struct conn *conn = transport_of(&edge)->dial(&edge, err);
	OPENSSL_cleanse(key, sizeof key);
	return conn;
}

static void woken(void *ctx)
{
	*(bool *)ctx = true;
}

/* What a failed try (@err) shows about the peer. */
static enum met judge(const struct conn *conn, const struct err *err)
{
	switch (err->code) {
	case ERR_PEER_LOST: /* the first bytes are sent when the connection is established */
		return conn && conn_wire_out(conn) ? MET_CLOSE : MET_NOBODY;
	case ERR_AUTH:
	case ERR_INTEGRITY:
		return MET_STRANGER;
	default:
		return MET_NOTHING;
	}
}

static int greet(const struct dial_conf *c, struct conn *conn, enum met *met, struct err *err)
{
	struct greeting g = {0};
	bool event = false;
	int ret;
	hello_encode(&c->hello, g.opening);
	if (conn_watch(conn, c->loop, woken, &event, err) < 0)
		return -1;
	while ((ret = greeting_advance(&g, conn, err)) == 0) {
		for (event = false; !event;) {
			if (clock_ns() >= c->until) {
				*met = MET_SILENCE;
				return err_set(err, ERR_PEER_LOST, "no answer");
			}
			if (loop_turn(c->loop, c->until, err) < 0)
				return -1;
			if (c->interrupted(c->ctx))
				return err_set(err, ERR_PEER_LOST, "interrupted");
		}
	}
	conn->on_ready = NULL; /* @event goes out of scope */
	*met = g.authenticated && c->tls ? MET_LIFE : ret < 0 ? judge(conn, err) : MET_NOTHING;
	return ret;
}

struct conn *dial_coordinator(const struct dial_conf *c, const struct addr *to, enum met *met,
                              struct err *err)
{
	struct conn *conn = connection(c, to, err);
	if (!conn) {
		*met = judge(NULL, err);
		return NULL;
	}
	if (greet(c, conn, met, err) > 0)
		return conn;
	conn_free(conn);
	return NULL;
}
