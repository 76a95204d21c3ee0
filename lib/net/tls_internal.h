/*
 * Internal to TLS: tls_handshake.c (contexts, keys and the handshake, by OpenSSL), conn_tls.c (the
 * connection: its buffers, and the records after the handshake).
 */
#ifndef COLLCTL_NET_TLS_INTERNAL_H
#define COLLCTL_NET_TLS_INTERNAL_H

#include <openssl/ssl.h>

#include "lib/net/tls.h"
#include "lib/net/tls_record.h"

struct tls {
	SSL_CTX *client, *server;
	BIO_METHOD *method;
	const struct credentials *credentials; /* NULL: pre-shared keys */
	bool carries_data;
};

/* Bytes to send, in order: [head, tail), or [head, end) and then [0, tail) if they have wrapped. A
 * record is contiguous. */
struct tls_out {
	uint8_t *bytes;
	size_t cap, head, tail, end;
	bool wrapped;
};

/* Received bytes: [pos, end). Before pos is text that a caller had no room for, decrypted in its
 * place: [text, text + ntext). It is empty whenever more bytes are received. */
struct tls_in {
	uint8_t *bytes;
	size_t cap, pos, end;
	size_t text, ntext;
};

struct conn_tls {
	struct conn conn;
	struct tls_in in;
	struct tls_out out;
	struct tls_keys in_keys, out_keys; /* after the handshake */
	bool established, in_ended, out_ended;
	bool wipes;        /* text does not stay in the buffers */
	bool socket_ended; /* recv has seen the end of the stream */
	bool key_update_due;
	uint32_t records;   /* written with the current key */
	struct err in_lost; /* why reading failed; reported after all bytes are read */

	/* the handshake */
	SSL *ssl; /* NULL: it is over */
	bool connecting, client;
	bool peer_plain; /* the first byte did not belong to a TLS record */
	bool saw_first;
	bool key_sought; /* the client has sent an identity */
	char identity[TLS_IDENTITY_MAX + 1];
	uint8_t key[TLS_KEY_BYTES];
	uint8_t secrets[2][TLS_SECRET]; /* of the client's and the server's records */
	unsigned nsecrets;
	X509 *peer;                            /* NULL: pre-shared keys */
	const struct credentials *credentials; /* NULL: pre-shared keys */
	tls_find_key *find;
	void *find_ctx;
	struct err sock_err; /* the error below OpenSSL */
	struct err refusal;  /* why the other end's certificate is refused */
};

/* conn_tls.c, for the handshake: receive more bytes. As conn_sock_readv. */
ssize_t tls_fill(struct conn_tls *, struct err *err);
/* Room for @n bytes that will be sent together; out.tail is where they end, once they are there.
 * NULL: none. */
uint8_t *tls_reserve(struct tls_out *, size_t n);
int tls_flush(struct conn *, struct err *err);

/* tls_handshake.c: prepare that of @c, which takes over nothing if this fails. */
int tls_handshake_init(struct conn_tls *c, struct tls *t, bool client, struct err *err);
/* Continue it. 1: it is complete, and the keys are set; 0: not yet; -1. */
int tls_handshake(struct conn *, struct err *err);
void tls_handshake_release(struct conn_tls *c);
/* The error that the alert @number of an established connection means; @code: of damage. */
int tls_alert_error(struct conn_tls *c, int number, int code, struct err *err);

#endif
