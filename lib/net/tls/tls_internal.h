/*
 * Internal to TLS: tls_handshake.c (contexts, keys and the handshake, by OpenSSL), conn_tls.c (the
 * connection and its buffers), and the two layers that make the records after the handshake:
 * tls_own.c and tls_openssl.c. The bytes on the wire are the same.
 */
#ifndef COLLCTL_NET_TLS_TLS_INTERNAL_H
#define COLLCTL_NET_TLS_TLS_INTERNAL_H

#include <openssl/ssl.h>

#include "lib/net/tls/tls.h"
#include "lib/net/tls/tls_record.h"

/* Records without data in a row; BoringSSL and OpenSSL allow as many empty ones. */
#define TLS_IDLE_MAX 32

struct tls_layer;

struct tls {
	SSL_CTX *client, *server;
	BIO_METHOD *method;
	const struct credentials *credentials; /* NULL: pre-shared keys */
	const struct tls_layer *layer;
	bool carries_data;
};

/* Bytes to send, in order: [head, tail), or [head, end) and then [0, tail) if they have wrapped. A
 * record is contiguous. */
struct tls_out {
	uint8_t *bytes;
	size_t cap, head, tail, end;
	bool wrapped;
};

/* Received bytes: [pos, end). */
struct tls_in {
	uint8_t *bytes;
	size_t cap, pos, end;
};

struct conn_tls {
	struct conn conn;
	struct tls_in in;
	struct tls_out out;
	const struct tls_layer *layer;
	size_t buffer; /* bytes of data that the buffers hold after the handshake */
	bool established, in_ended, out_ended;
	bool socket_ended;  /* recv has seen the end of the stream */
	uint32_t sealed;    /* records of data written with the current key */
	uint64_t opened;    /* records of any kind */
	uint64_t idle_from; /* opened, after the last one with data */
	struct err in_lost; /* why reading failed; reported after all bytes are read */

	/* tls_own.c */
	struct tls_keys in_keys, out_keys;
	uint8_t secrets[2][TLS_SECRET]; /* of the client's and the server's records */
	unsigned nsecrets;
	bool key_update_due;
	uint8_t message[5]; /* the first nmessage bytes of a KeyUpdate, which may come in parts */
	size_t nmessage;
	size_t text, ntext; /* data that a caller had no room for, decrypted in in.bytes before
	                     * in.pos; none whenever more bytes are received */

	/* the handshake, and tls_openssl.c */
	SSL *ssl;
	bool connecting, client;
	bool peer_plain; /* the first byte did not belong to a TLS record */
	bool saw_first;
	bool key_sought; /* the client has sent an identity */
	char identity[TLS_IDENTITY_MAX + 1];
	uint8_t key[TLS_KEY_BYTES];
	X509 *peer;                            /* NULL: pre-shared keys */
	const struct credentials *credentials; /* NULL: pre-shared keys */
	tls_find_key *find;
	void *find_ctx;
	struct err refusal; /* why the other end's certificate is refused */
};

/* Who makes the records after the handshake. */
struct tls_layer {
	const char *name;
	/* The contexts are for connections of this layer. May be NULL. */
	void (*prepare)(SSL_CTX *);
	/* The handshake of @c->ssl has succeeded. */
	int (*begin)(struct conn_tls *c, struct err *err);
	/* Append to c->out a record of data, which has room for it; a key update; close_notify. */
	int (*put)(struct conn_tls *c, const void *text, size_t n, struct err *err);
	int (*put_key_update)(struct conn_tls *c, struct err *err);
	int (*put_end)(struct conn_tls *c, struct err *err);
	/* Open the next record. 1: *got bytes of its data are at @buf, at most @n, the next call
	 * gives the rest; 0: it has not arrived; -1: in_ended or in_lost says why not. */
	int (*take)(struct conn_tls *c, uint8_t *buf, size_t n, size_t *got);
};

extern const struct tls_layer tls_own, tls_openssl;

/* ---- conn_tls.c ---- */

/* Receive more bytes. As conn_sock_readv, but what is lost is in in_lost. */
ssize_t tls_fill(struct conn_tls *c);
/* Room for @n bytes that will be sent together; out.tail is where they end, once they are there.
 * NULL: none. */
uint8_t *tls_reserve(struct tls_out *, size_t n);
int tls_flush(struct conn *, struct err *err);
/* No more bytes will come: the reason is in in_lost from now on. Returns -1. */
int tls_cut(struct conn_tls *c);
/* Have too many records without data come? */
#define TLS_IDLE_WHY "too many records without data"
static inline bool tls_idles(const struct conn_tls *c)
{
	return c->opened - c->idle_from > TLS_IDLE_MAX;
}
/* The handshake is over: buffers of their full size. */
int tls_grow(struct conn_tls *c, struct err *err);

/* ---- tls_handshake.c ---- */

/* Prepare that of @c, which takes over nothing if this fails. */
int tls_handshake_init(struct conn_tls *c, struct tls *t, bool client, struct err *err);
/* Continue it. 1: it is complete, and the layer has begun; 0: not yet; -1. */
int tls_handshake(struct conn *, struct err *err);
void tls_handshake_release(struct conn_tls *c);
/* The error that the alert @number of an established connection means; @code: of damage. */
int tls_alert_error(struct conn_tls *c, int number, int code, struct err *err);

#endif
