/*
 * TLS connections. OpenSSL writes into a memory ring, which is sent in large pieces: a send per 16
 * KiB record would cost a third more time. OpenSSL reads ahead in large pieces into its own buffer,
 * decrypts there, and copies out the bytes that the caller asks for.
 */
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "lib/base/memory.h"
#include "lib/net/certificate.h"
#include "lib/net/credentials.h"
#include "lib/net/crypto.h"
#include "lib/net/tls.h"
#include "lib/net/tls_gcm.h"

#define RING_DEFAULT    (256u << 10)
#define RECORD          16384u
#define RECORD_OVERHEAD 64u /* header, type, tag and reserve: more than any suite here adds */

/* Of the other end's, with what TLS adds to each. */
#define CERTIFICATES_MAX (2 * CREDENTIALS_CHAIN_MAX)

#define SUITES "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256"

uint32_t tls_key_records = 1u << 22;

struct tls {
	SSL_CTX *client, *server;
	BIO_METHOD *method;
	const struct credentials *credentials; /* NULL: pre-shared keys */
};

struct conn_tls {
	struct conn conn;
	SSL *ssl;
	const struct credentials *credentials; /* NULL: pre-shared keys */
	bool connecting, established, in_ended;
	bool out_ending;
	bool socket_ended; /* recv has seen the end of the stream */
	bool peer_plain;   /* the first byte did not belong to a TLS record */
	bool saw_first;
	bool key_sought;  /* the client has sent an identity */
	uint32_t records; /* written with the current key */
	char identity[TLS_IDENTITY_MAX + 1];
	uint8_t key[TLS_KEY_BYTES];
	tls_find_key *find;
	void *find_ctx;
	struct err sock_err; /* the error below OpenSSL */
	struct err refusal;  /* why the other end's certificate is refused */
	struct err in_lost;  /* why reading failed; reported after all bytes are read */
	size_t ring_cap, ring_head, ring_len; /* head: the first byte to send */
	uint8_t ring[];
};

/* ---- the BIO ---- */

static int bio_write(BIO *bio, const char *data, size_t n, size_t *written)
{
	struct conn_tls *c = BIO_get_data(bio);
	size_t room = c->ring_cap - c->ring_len;
	BIO_clear_retry_flags(bio);
	if (n > room)
		n = room;
	if (n == 0) {
		BIO_set_retry_write(bio);
		return 0;
	}
	size_t tail = (c->ring_head + c->ring_len) % c->ring_cap;
	size_t first = n < c->ring_cap - tail ? n : c->ring_cap - tail;
	memcpy(c->ring + tail, data, first);
	memcpy(c->ring, data + first, n - first);
	c->ring_len += n;
	*written = n;
	return 1;
}

static int bio_read(BIO *bio, char *data, size_t n, size_t *got)
{
	struct conn_tls *c = BIO_get_data(bio);
	struct iovec iov = {data, n};
	BIO_clear_retry_flags(bio);
	ssize_t len = conn_sock_readv(&c->conn, &iov, 1, &c->sock_err);
	if (len == 0)
		BIO_set_retry_read(bio);
	if (len == CONN_END)
		c->socket_ended = true;
	if (len <= 0)
		return 0;
	if (!c->saw_first) { /* 21: alert, 22: handshake */
		c->saw_first = true;
		c->peer_plain = data[0] < 20 || data[0] > 23;
	}
	*got = (size_t)len;
	return 1;
}

static long bio_ctrl(BIO *bio, int cmd, long num, void *ptr)
{
	struct conn_tls *c = BIO_get_data(bio);
	(void)num;
	(void)ptr;
	if (cmd == BIO_CTRL_FLUSH)
		return 1;
	if (cmd == BIO_CTRL_EOF)
		return c && c->socket_ended;
	return 0;
}

static int bio_create(BIO *bio)
{
	BIO_set_init(bio, 1);
	return 1;
}

static BIO_METHOD *ring_method(void)
{
	BIO_METHOD *m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "collctl ring");
	if (m) {
		BIO_meth_set_write_ex(m, bio_write);
		BIO_meth_set_read_ex(m, bio_read);
		BIO_meth_set_ctrl(m, bio_ctrl);
		BIO_meth_set_create(m, bio_create);
	}
	return m;
}

/* ---- contexts and keys ---- */

static SSL_SESSION *session_of(SSL *ssl, const uint8_t key[TLS_KEY_BYTES])
{
	static const unsigned char suite[2] = {0x13, 0x01}; /* SHA-256, the hash of both suites */
	const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, suite);
	SSL_SESSION *s = SSL_SESSION_new();
	if (s && cipher && SSL_SESSION_set1_master_key(s, key, TLS_KEY_BYTES) &&
	    SSL_SESSION_set_cipher(s, cipher) &&
	    SSL_SESSION_set_protocol_version(s, TLS1_3_VERSION) &&
	    SSL_SESSION_set_timeout(s, LONG_MAX)) /* a jump of the wall clock must not end it */
		return s;
	SSL_SESSION_free(s);
	return NULL;
}

static int use_session(SSL *ssl, const EVP_MD *md, const unsigned char **id, size_t *id_len,
                       SSL_SESSION **session)
{
	struct conn_tls *c = SSL_get_app_data(ssl);
	(void)md;
	*session = session_of(ssl, c->key);
	*id = (const unsigned char *)c->identity;
	*id_len = strlen(c->identity);
	return *session != NULL;
}

static int find_session(SSL *ssl, const unsigned char *id, size_t len, SSL_SESSION **session)
{
	struct conn_tls *c = SSL_get_app_data(ssl);
	*session = NULL;
	c->key_sought = true;
	if (len > TLS_IDENTITY_MAX || memchr(id, 0, len) ||
	    c->find(c->find_ctx, id, len, c->key) < 0)
		return !memory_lacked(); /* unknown: without a key the handshake fails */
	memcpy(c->identity, id, len);
	c->identity[len] = '\0';
	*session = session_of(ssl, c->key);
	return *session != NULL;
}

static SSL_CTX *context_new(const SSL_METHOD *method)
{
	SSL_CTX *ctx = SSL_CTX_new_ex(NULL, tls_gcm_properties(), method);
	if (!ctx)
		return NULL;
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION |
	                                 SSL_OP_NO_RENEGOTIATION | SSL_OP_CLEANSE_PLAINTEXT);
	SSL_CTX_set_mode(ctx, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	/* With VERIFY_PEER, OpenSSL 3.0 fails a PSK server with "session id context
	 * uninitialized". */
	SSL_CTX_set_verify(ctx, SSL_VERIFY_NONE, NULL);
	SSL_CTX_set_read_ahead(ctx, 1);
	SSL_CTX_set_quiet_shutdown(ctx, 0);
	if (SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) &&
	    SSL_CTX_set_max_proto_version(ctx, TLS1_3_VERSION) &&
	    SSL_CTX_set_ciphersuites(ctx, SUITES) && SSL_CTX_set1_groups_list(ctx, "X25519") &&
	    SSL_CTX_set_num_tickets(ctx, 0) && SSL_CTX_set_max_early_data(ctx, 0))
		return ctx;
	SSL_CTX_free(ctx);
	return NULL;
}

static int on_verified(int ok, X509_STORE_CTX *v)
{
	SSL *ssl = X509_STORE_CTX_get_ex_data(v, SSL_get_ex_data_X509_STORE_CTX_idx());
	struct conn_tls *c = SSL_get_app_data(ssl);
	char why[300], who[CERTIFICATE_TEXT];
	if (ok || credentials_tolerate(v))
		return 1;
	credentials_refusal(c->credentials, v, why, sizeof why);
	err_set(&c->refusal, ERR_AUTH, "the peer's certificate, %s: %s",
	        certificate_text(X509_STORE_CTX_get0_cert(v), who), why);
	return 0;
}

static void demand_certificates(const struct tls *t, SSL_CTX *ctx)
{
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, on_verified);
	SSL_CTX_set_max_cert_list(ctx, CERTIFICATES_MAX);
	credentials_trust(t->credentials, ctx);
}

static struct tls *contexts_new(const struct credentials *credentials, struct err *err)
{
	struct tls *t = calloc(1, sizeof *t);
	ERR_clear_error();
	if (t) {
		t->client = context_new(TLS_client_method());
		t->server = context_new(TLS_server_method());
		t->method = ring_method();
		t->credentials = credentials;
	}
	/* If memory is lacking, OpenSSL may continue with less, for example without some
	 * algorithms. */
	if (!t || !t->client || !t->server || !t->method || memory_lacked()) {
		crypto_failed(err, ERR_RESOURCE, "cannot set up TLS");
		tls_free(t);
		return NULL;
	}
	return t;
}

struct tls *tls_new(struct err *err)
{
	struct tls *t = contexts_new(NULL, err);
	if (!t)
		return NULL;
	SSL_CTX_set_psk_use_session_callback(t->client, use_session);
	SSL_CTX_set_psk_find_session_callback(t->server, find_session);
	return t;
}

struct tls *tls_new_mutual(const struct credentials *credentials, struct err *err)
{
	struct tls *t = contexts_new(credentials, err);
	if (!t)
		return NULL;
	demand_certificates(t, t->client);
	demand_certificates(t, t->server);
	return t;
}

void tls_free(struct tls *t)
{
	if (!t)
		return;
	SSL_CTX_free(t->client);
	SSL_CTX_free(t->server);
	BIO_meth_free(t->method);
	free(t);
}

void tls_carry_data(struct tls *t)
{
	SSL_CTX_clear_options(t->client, SSL_OP_CLEANSE_PLAINTEXT);
	SSL_CTX_clear_options(t->server, SSL_OP_CLEANSE_PLAINTEXT);
}

/* ---- the connection ---- */

static const char secret_here[] =
        "the peer has a certificate (--tls-cert), this rank a secret: give all ranks the same";
static const char certificate_here[] =
        "the peer has a secret, this rank a certificate (--tls-cert): give all ranks the same";

/* What the other end says of this rank's certificate, or NULL. @reason: OpenSSL's of an alert. */
static const char *refused_by_peer(int reason)
{
	switch (reason) {
	case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
		return "its --tls-ca has not signed it";
	case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
		return "it has expired by the clock there";
	case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
		return "it is revoked there (--tls-crl)";
	case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
		return "it is not valid there: are the clocks right?";
	case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
		return "its extended key usage lacks serverAuth or clientAuth";
	case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
		return "it cannot be verified there";
	default:
		return NULL;
	}
}

/* The errors of a handshake with keys as with certificates. */
static int any_handshake_error(const struct conn_tls *c, unsigned long e, struct err *err)
{
	int reason = ERR_GET_REASON(e);
	if (reason == SSL_R_TLSV1_ALERT_PROTOCOL_VERSION)
		return err_set(err, ERR_AUTH,
		               "the peer does not use TLS: it has --insecure, this rank does not");
	if (c->socket_ended || e == 0)
		return err_set(err, ERR_PEER_LOST,
		               "the connection was closed during the TLS handshake");
	if (reason == SSL_R_TLSV1_ALERT_INTERNAL_ERROR)
		return err_set(err, ERR_PEER_LOST,
		               "the peer had an internal error in the TLS handshake");
	return err_set(err, ERR_INTEGRITY, "the TLS handshake failed: %s",
	               ERR_reason_error_string(e));
}

static int mutual_error(const struct conn_tls *c, int reason, unsigned long e, struct err *err)
{
	const char *why = refused_by_peer(reason);
	if (c->refusal.code)
		return err_pass(err, &c->refusal);
	if (why)
		return err_set(err, ERR_AUTH, "the peer refuses this rank's certificate: %s", why);
	if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE)
		return err_set(
		        err, ERR_AUTH,
		        "the peer has no certificate, but a secret, or one whose key TLS 1.3 "
		        "cannot use; this rank has a certificate (--tls-cert)");
	if (reason == SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE)
		return err_set(err, ERR_AUTH, "%s", certificate_here);
	return any_handshake_error(c, e, err);
}

/* A handshake has failed. If the peer reports it, the key, the job or the protocol is wrong
 * (ERR_AUTH); any other failure is a fault of the path, and a new connection may succeed. */
static int handshake_error(struct conn_tls *c, unsigned long e, struct err *err)
{
	int reason = ERR_GET_REASON(e);
	if (c->peer_plain)
		return err_set(err, ERR_AUTH,
		               "the peer does not use TLS: was it started with --insecure, or is "
		               "it not collctl?");
	if (c->credentials)
		return mutual_error(c, reason, e, err);
	if (reason == SSL_R_BINDER_DOES_NOT_VERIFY || reason == SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER)
		return err_set(err, ERR_AUTH,
		               "the secrets differ: give every rank the same job secret");
	if (reason == SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE)
		return err_set(err, ERR_AUTH,
		               "the peer knows no such job or session: is --job the same on every "
		               "rank?");
	if (!c->key_sought && reason == SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM)
		return err_set(err, ERR_AUTH, "%s", secret_here);
	return any_handshake_error(c, e, err);
}

/* Describe the failure. OpenSSL reports a received alert as 1000 + its number. */
static int tls_error(struct conn_tls *c, int code, struct err *err)
{
	unsigned long e = ERR_peek_last_error();
	int reason = ERR_GET_REASON(e);
	if (c->sock_err.code) {
		*err = err->code ? *err : c->sock_err;
		return -1;
	}
	if (crypto_lacked_memory())
		return err_set(err, ERR_RESOURCE, "out of memory in TLS");
	if (!c->established)
		return handshake_error(c, e, err);
	if (reason == SSL_R_TLSV1_ALERT_INTERNAL_ERROR)
		return err_set(err, ERR_PEER_LOST, "the peer had an internal error in TLS");
	/* In TLS 1.3 the client is established before the server judges its certificate. */
	if (c->credentials && refused_by_peer(reason))
		return mutual_error(c, reason, e, err);
	if (ERR_GET_LIB(e) == ERR_LIB_SSL && reason == SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED)
		return err_set(err, ERR_AUTH, "%s",
		               c->credentials ? "TLS 1.3 cannot use the key of this rank's "
		                                "certificate: use P-256, Ed25519 or RSA"
		                              : secret_here);
	if (ERR_GET_LIB(e) == ERR_LIB_SSL && reason > SSL_AD_REASON_OFFSET) {
		c->conn.alerted = true;
		return err_set(err, code, "the peer received corrupt bytes (%s)",
		               ERR_reason_error_string(e));
	}
	if (c->socket_ended) {
		c->conn.cut = true;
		return err_set(err, ERR_INTEGRITY,
		               "the stream was cut: it ended without close_notify");
	}
	return err_set(err, code, "TLS: %s", e ? ERR_reason_error_string(e) : "unexpected end");
}

static int tls_flush(struct conn *conn, struct err *err)
{
	struct conn_tls *c = (struct conn_tls *)conn;
	while (c->ring_len) {
		size_t first = c->ring_cap - c->ring_head;
		struct iovec iov[2] = {{c->ring + c->ring_head, c->ring_len}, {c->ring, 0}};
		if (c->ring_len > first) {
			iov[0].iov_len = first;
			iov[1].iov_len = c->ring_len - first;
		}
		ssize_t put = conn_sock_writev(conn, iov, iov[1].iov_len ? 2 : 1, err);
		if (put <= 0)
			return (int)put;
		c->ring_len -= (size_t)put;
		c->ring_head = c->ring_len ? (c->ring_head + (size_t)put) % c->ring_cap : 0;
	}
	return 1;
}

/* After a handshake that succeeded: has the other end proved its key or its certificate? */
static int check_proof(struct conn_tls *c, struct err *err)
{
	X509 *cert = SSL_get0_peer_certificate(c->ssl);
	char text[CERTIFICATE_TEXT];
	if (!c->credentials && SSL_session_reused(c->ssl))
		return 0;
	if (!c->credentials)
		return err_set(err, ERR_AUTH, "%s",
		               cert ? secret_here : "the handshake did not use the job's key");
	if (!cert || SSL_get_verify_result(c->ssl) != X509_V_OK)
		return err_set(err, ERR_AUTH, "the peer showed no valid certificate");
	snprintf(c->identity, sizeof c->identity, "%s", certificate_text(cert, text));
	return 0;
}

static int tls_handshake(struct conn *conn, struct err *err)
{
	struct conn_tls *c = (struct conn_tls *)conn;
	if (c->connecting) {
		int connected = conn_sock_connected(conn, err);
		if (connected <= 0)
			return connected;
		c->connecting = false;
	}
	if (!c->established) {
		ERR_clear_error();
		int ret = SSL_do_handshake(c->ssl);
		int why = SSL_get_error(c->ssl, ret);
		struct err flush_err = {0};
		int flushed = tls_flush(conn, &flush_err); /* an alert must be sent too */
		if (ret != 1 && why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE) {
			tls_error(c, ERR_AUTH, err);
			conn_sock_drain(conn); /* the client may have sent more already */
			return -1;
		}
		if (flushed < 0) {
			c->sock_err = flush_err;
			return tls_error(c, ERR_AUTH, err);
		}
		if (ret != 1)
			return 0;
		if (check_proof(c, err) < 0)
			return -1;
		if (c->credentials)
			SSL_certs_clear(c->ssl); /* a reference to the rank's key */
		c->established = true;
		OPENSSL_cleanse(c->key, sizeof c->key);
	}
	return tls_flush(conn, err);
}

static ssize_t tls_read(struct conn *conn, void *buf, size_t n, struct err *err)
{
	struct conn_tls *c = (struct conn_tls *)conn;
	size_t done = 0;
	if (c->in_lost.code)
		return err_set(err, c->in_lost.code, "%s", c->in_lost.text);
	if (c->in_ended)
		return CONN_END;
	if (!conn->readable && !SSL_has_pending(c->ssl))
		return 0;
	ERR_clear_error(); /* a call that succeeds adds no error */
	while (done < n) {
		size_t got = 0;
		if (SSL_read_ex(c->ssl, (uint8_t *)buf + done, n - done, &got)) {
			done += got;
			continue;
		}
		int why = SSL_get_error(c->ssl, 0);
		if (why == SSL_ERROR_WANT_READ)
			break;
		if (why == SSL_ERROR_ZERO_RETURN)
			c->in_ended = true;
		else {
			struct err ignored = {0};
			tls_error(c, ERR_INTEGRITY, &c->in_lost);
			(void)tls_flush(conn, &ignored); /* sends OpenSSL's alert */
			conn_sock_drain(conn);
		}
		return done ? (ssize_t)done : tls_read(conn, buf, n, err);
	}
	return (ssize_t)done;
}

static ssize_t tls_write(struct conn *conn, const void *buf, size_t n, struct err *err)
{
	struct conn_tls *c = (struct conn_tls *)conn;
	size_t done = 0;
	ERR_clear_error();
	while (done < n) {
		/* SSL_write takes a record as a whole or not at all, so it never wants a retry. */
		size_t room = c->ring_cap - c->ring_len;
		if (room < RECORD + 2 * RECORD_OVERHEAD) {
			int flushed = tls_flush(conn, err);
			if (flushed < 0)
				return -1;
			room = c->ring_cap - c->ring_len;
			if (room < RECORD + 2 * RECORD_OVERHEAD)
				break;
		}
		if (++c->records % tls_key_records == 0 &&
		    !SSL_key_update(c->ssl, SSL_KEY_UPDATE_NOT_REQUESTED))
			return tls_error(c, ERR_PEER_LOST, err);
		size_t len = n - done < RECORD ? n - done : RECORD, put = 0;
		if (!SSL_write_ex(c->ssl, (const uint8_t *)buf + done, len, &put))
			return tls_error(c, ERR_PEER_LOST, err);
		done += put;
	}
	return (ssize_t)done;
}

static int tls_end(struct conn *conn, struct err *err)
{
	struct conn_tls *c = (struct conn_tls *)conn;
	if (!c->out_ending) {
		int flushed = tls_flush(conn, err);
		if (flushed <= 0)
			return flushed;
		ERR_clear_error();
		if (SSL_shutdown(c->ssl) < 0)
			return tls_error(c, ERR_PEER_LOST, err);
		c->out_ending = true;
	}
	int flushed = tls_flush(conn, err);
	if (flushed == 1)
		conn_sock_end(conn);
	return flushed;
}

static void tls_conn_free(struct conn *conn)
{
	struct conn_tls *c = (struct conn_tls *)conn;
	SSL_free(c->ssl);
	OPENSSL_cleanse(c->key, sizeof c->key);
	free(c);
}

static const struct conn_ops tls_ops = {
        .name = "tls",
        .sums = true, /* every record has a tag */
        .handshake = tls_handshake,
        .read = tls_read,
        .write = tls_write,
        .flush = tls_flush,
        .end = tls_end,
        .free = tls_conn_free,
};

static struct conn_tls *conn_tls_new(struct tls *t, SSL_CTX *ctx, int fd, size_t buffer,
                                     struct err *err)
{
	size_t cap = buffer ? buffer : RING_DEFAULT;
	if (cap < 2 * (RECORD + 2 * RECORD_OVERHEAD))
		cap = 2 * (RECORD + 2 * RECORD_OVERHEAD);
	struct conn_tls *c = calloc(1, sizeof *c + cap);
	SSL *ssl = c ? SSL_new(ctx) : NULL;
	BIO *bio = ssl ? BIO_new(t->method) : NULL;
	bool shown = bio && (!t->credentials || credentials_show(t->credentials, ssl) == 0);
	if (!shown || !SSL_set_app_data(ssl, c)) {
		BIO_free(bio);
		err_nomem(err, "a TLS connection", sizeof *c + cap);
		SSL_free(ssl);
		free(c);
		return NULL;
	}
	c->conn.ops = &tls_ops;
	c->conn.fd = fd;
	c->ssl = ssl;
	c->credentials = t->credentials;
	c->connecting = true;
	c->ring_cap = cap;
	BIO_set_data(bio, c);
	SSL_set_bio(ssl, bio, bio);
	SSL_set_default_read_buffer_len(ssl, cap);
	return c;
}

struct conn *tls_dial(struct tls *t, int fd, const char *identity, const uint8_t key[TLS_KEY_BYTES],
                      size_t buffer, struct err *err)
{
	struct conn_tls *c = conn_tls_new(t, t->client, fd, buffer, err);
	if (!c)
		return NULL;
	if (!t->credentials) {
		snprintf(c->identity, sizeof c->identity, "%s", identity);
		memcpy(c->key, key, TLS_KEY_BYTES);
	}
	SSL_set_connect_state(c->ssl);
	return &c->conn;
}

struct conn *tls_accept(struct tls *t, int fd, tls_find_key *find, void *ctx, size_t buffer,
                        struct err *err)
{
	struct conn_tls *c = conn_tls_new(t, t->server, fd, buffer, err);
	if (!c)
		return NULL;
	c->find = find;
	c->find_ctx = ctx;
	SSL_set_accept_state(c->ssl);
	return &c->conn;
}

const char *tls_identity(const struct conn *conn)
{
	return ((const struct conn_tls *)conn)->identity;
}

X509 *tls_certificate(const struct conn *conn)
{
	const struct conn_tls *c = (const struct conn_tls *)conn;
	return c->credentials ? SSL_get0_peer_certificate(c->ssl) : NULL;
}
