/*
 * Internal to TLS: tls_handshake.c (contexts, keys and the handshake, by OpenSSL), conn_tls.c (the
 * connection and its buffers), and two layers that make and open the records after the handshake:
 * tls_own.c and tls_openssl.c. Both produce the same bytes on the wire.
 */
#ifndef COLLCTL_NET_TLS_TLS_INTERNAL_H
#define COLLCTL_NET_TLS_TLS_INTERNAL_H

#include <openssl/ssl.h>

#include "lib/net/tls/tls.h"
#include "lib/net/tls/tls_record.h"

/* The most consecutive records without data that are accepted, as in BoringSSL and OpenSSL. */
#define TLS_IDLE_MAX 32

struct tls_layer;

struct tls {
	SSL_CTX *ctx; /* of both ends */
	BIO_METHOD *method;
	const struct credentials *credentials; /* NULL: pre-shared keys */
	const struct tls_layer *layer;
	bool carries_data;
};

/* A ring of bytes to send: [head, tail) or, if `wrapped`, [head, end) followed by [0, tail). Each
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
	bool socket_ended;  /* recv has returned the end of the stream */
	uint32_t sealed;    /* records of data written with the current key */
	uint64_t opened;    /* number of received records of any kind */
	uint64_t idle_from; /* the value of opened after the last record with data */
	struct err in_lost; /* why reading failed; reported once all earlier bytes are read */

	/* tls_own.c */
	struct tls_keys in_keys, out_keys;
	uint8_t secrets[2][TLS_SECRET]; /* the traffic secrets of client and server */
	unsigned nsecrets;
	bool key_update_due;
	uint8_t message[5]; /* the first nmessage bytes of a KeyUpdate, which may arrive in parts */
	size_t nmessage;
	size_t text, ntext; /* decrypted data that is not yet read: in.bytes[text .. text + ntext),
	                       before in.pos; ntext is 0 whenever more bytes are received */

	/* the handshake, and tls_openssl.c */
	SSL *ssl;
	bool connecting, client;
	bool peer_plain; /* the first byte did not belong to a TLS record */
	bool saw_first;
	bool key_sought; /* `find` was called: the client has sent an identity */
	char identity[TLS_IDENTITY_MAX + 1];
	uint8_t key[TLS_KEY_BYTES];
	X509 *peer;                            /* NULL: pre-shared keys */
	const struct credentials *credentials; /* NULL: pre-shared keys */
	tls_find_key *find;
	void *find_ctx;
	struct err refusal; /* why the other end's certificate is refused */
};

/* A layer that makes and opens the records after the handshake. */
struct tls_layer {
	const char *name;
	/* Configure a context for connections of this layer. May be NULL. */
	void (*prepare)(SSL_CTX *);
	/* The handshake of @c->ssl has succeeded. */
	int (*begin)(struct conn_tls *c, struct err *err);
	/* Append a record to c->out, which has room for it: of data; a KeyUpdate; close_notify. */
	int (*put)(struct conn_tls *c, const void *text, size_t n, struct err *err);
	int (*put_key_update)(struct conn_tls *c, struct err *err);
	int (*put_end)(struct conn_tls *c, struct err *err);
	/* Open the next record. 1: *got bytes of its data, at most @n, are at @buf, and the next
	 * call gives the rest; 0: it has not arrived; -1: in_ended or in_lost says why. */
	int (*take)(struct conn_tls *c, uint8_t *buf, size_t n, size_t *got);
};

extern const struct tls_layer tls_own, tls_openssl;

/* ---- conn_tls.c ---- */

/* Receive more bytes. Returns as conn_sock_readv does, but stores errors in in_lost. */
ssize_t tls_fill(struct conn_tls *c);
/* Contiguous room for @n bytes. The caller writes up to @n bytes and adds their number to out.tail.
 * NULL: there is none. */
uint8_t *tls_reserve(struct tls_out *, size_t n);
int tls_flush(struct conn *, struct err *err);
/* The stream was cut: set in_lost. Returns -1. */
int tls_cut(struct conn_tls *c);
/* Have too many consecutive records without data arrived? */
#define TLS_IDLE_WHY "too many records without data"
static inline bool tls_idles(const struct conn_tls *c)
{
	return c->opened - c->idle_from > TLS_IDLE_MAX;
}
/* After the handshake: give the buffers their full size. ERR_RESOURCE. */
int tls_grow(struct conn_tls *c, struct err *err);

/* ---- tls_handshake.c ---- */

/* Prepare the handshake of @c. On failure (ERR_RESOURCE) there is nothing to release. */
int tls_handshake_init(struct conn_tls *c, struct tls *t, bool client, struct err *err);
/* Continue the handshake. 1: it is complete, and layer->begin was called; 0: not yet; -1: error. */
int tls_handshake(struct conn *, struct err *err);
void tls_handshake_release(struct conn_tls *c);
/* Set the error for the received alert @number of an established connection. Returns -1. */
int tls_alert_error(struct conn_tls *c, int number, struct err *err);

#endif
