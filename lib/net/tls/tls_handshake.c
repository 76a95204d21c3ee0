/*
 * The handshake of TLS connections, by OpenSSL. OpenSSL reads and writes the connection's buffers,
 * and later the records of tls_openssl.c there. It reads no byte behind the handshake, so that the
 * records that follow stay in the buffer for tls_own.c.
 */
#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/memory.h"
#include "lib/crypto/certificate.h"
#include "lib/crypto/credentials.h"
#include "lib/crypto/crypto.h"
#include "lib/net/tls/tls_internal.h"

#define PIECE 4096 /* the most bytes that OpenSSL writes at once in a handshake */

/* Of the other end's, with what TLS adds to each. */
#define CERTIFICATES_MAX (2 * CREDENTIALS_CHAIN_MAX)

/* OpenSSL's FIPS provider may lack X25519. */
#define GROUPS      "X25519:P-256"
#define GROUPS_FIPS "P-256"

#define SUITES "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256"

/* ---- the BIO ---- */

static int bio_write(BIO *bio, const char *data, size_t n, size_t *written)
{
	struct conn_tls *c = BIO_get_data(bio);
	BIO_clear_retry_flags(bio);
	if (n > PIECE && !c->established)
		n = PIECE;
	uint8_t *room = tls_reserve(&c->out, n);
	if (!room) {
		BIO_set_retry_write(bio);
		return 0;
	}
	memcpy(room, data, n);
	c->out.tail += n;
	*written = n;
	return 1;
}

static int bio_read(BIO *bio, char *data, size_t n, size_t *got)
{
	struct conn_tls *c = BIO_get_data(bio);
	BIO_clear_retry_flags(bio);
	if (c->established && tls_idles(c)) {
		err_set(&c->in_lost, ERR_INTEGRITY, "TLS: " TLS_IDLE_WHY);
		return 0;
	}
	if (c->in.pos == c->in.end) {
		ssize_t len = tls_fill(c);
		if (len == 0)
			BIO_set_retry_read(bio);
		if (len <= 0)
			return 0;
	}
	const uint8_t *from = c->in.bytes + c->in.pos;
	if (!c->saw_first) { /* 21: alert, 22: handshake */
		c->saw_first = true;
		c->peer_plain = *from < 20 || *from > 23;
	}
	*got = n < c->in.end - c->in.pos ? n : c->in.end - c->in.pos;
	memcpy(data, from, *got);
	c->in.pos += *got;
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

static BIO_METHOD *buffers_method(void)
{
	BIO_METHOD *m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "collctl buffers");
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

static bool in_fips_mode(void)
{
	return OPENSSL_init_crypto(OPENSSL_INIT_LOAD_CONFIG, NULL) == 1 &&
	       EVP_default_properties_is_fips_enabled(NULL);
}

/* Of clients and servers: OpenSSL searches its algorithms for each context. */
static SSL_CTX *context_new(void)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_method());
	if (!ctx)
		return NULL;
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION |
	                                 SSL_OP_NO_RENEGOTIATION | SSL_OP_CLEANSE_PLAINTEXT);
	SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS); /* 33 KiB of a peer that says nothing */
	/* With VERIFY_PEER, OpenSSL 3.0 fails a PSK server with "session id context
	 * uninitialized". */
	SSL_CTX_set_verify(ctx, SSL_VERIFY_NONE, NULL);
	SSL_CTX_set_read_ahead(ctx, 0); /* reads no byte behind the handshake */
	if (SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) &&
	    SSL_CTX_set_max_proto_version(ctx, TLS1_3_VERSION) &&
	    SSL_CTX_set_ciphersuites(ctx, SUITES) &&
	    SSL_CTX_set1_groups_list(ctx, in_fips_mode() ? GROUPS_FIPS : GROUPS) &&
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

static struct tls *without_keys(const struct credentials *credentials, struct err *err)
{
	if (!tls_records(err))
		return NULL;
	struct tls *t = calloc(1, sizeof *t);
	ERR_clear_error();
	if (t) {
		t->ctx = context_new();
		t->method = buffers_method();
		t->credentials = credentials;
		t->layer = &tls_openssl;
	}
	/* If memory is lacking, OpenSSL may continue with less, for example without some
	 * algorithms. */
	if (!t || !t->ctx || !t->method || memory_lacked()) {
		crypto_failed(err, ERR_RESOURCE, "cannot set up TLS");
		tls_free(t);
		return NULL;
	}
	return t;
}

struct tls *tls_new(struct err *err)
{
	struct tls *t = without_keys(NULL, err);
	if (!t)
		return NULL;
	SSL_CTX_set_psk_use_session_callback(t->ctx, use_session);
	SSL_CTX_set_psk_find_session_callback(t->ctx, find_session);
	return t;
}

struct tls *tls_new_mutual(const struct credentials *credentials, struct err *err)
{
	struct tls *t = without_keys(credentials, err);
	if (!t)
		return NULL;
	SSL_CTX_set_verify(t->ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, on_verified);
	SSL_CTX_set_max_cert_list(t->ctx, CERTIFICATES_MAX);
	credentials_trust(t->credentials, t->ctx);
	return t;
}

void tls_free(struct tls *t)
{
	if (!t)
		return;
	SSL_CTX_free(t->ctx);
	BIO_meth_free(t->method);
	free(t);
}

const char *tls_records(struct err *err)
{
	const char *given = getenv("COLLCTL_TLS_RECORDS");
	bool asked = given && *given;
	if (asked && strcmp(given, tls_own.name) != 0 && strcmp(given, tls_openssl.name) != 0) {
		err_set(err, ERR_USAGE, "COLLCTL_TLS_RECORDS=%s: expected %s or %s", given,
		        tls_own.name, tls_openssl.name);
		return NULL;
	}
	if (in_fips_mode())
		return tls_openssl.name;
	return asked && strcmp(given, tls_openssl.name) == 0 ? tls_openssl.name : tls_own.name;
}

void tls_carry_data(struct tls *t)
{
	const char *records = tls_records(NULL); /* it was valid when @t was made */
	t->carries_data = true;
	if (!records || strcmp(records, tls_own.name) != 0)
		return;
	t->layer = &tls_own;
	t->layer->prepare(t->ctx);
}

/* ---- errors ---- */

static const char secret_here[] = "the peer has a certificate (--tls-cert), this rank a secret: "
                                  "give every rank the secret, or every rank a certificate";
static const char certificate_here[] =
        "the peer has a secret, this rank a certificate "
        "(--tls-cert): give every rank the secret, or every rank a certificate";

/* What the other end says of this rank's certificate, or NULL. @reason: OpenSSL's of an alert. */
static const char *refused_by_peer(int reason)
{
	switch (reason) {
	case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
		return "the CA in the peer's --tls-ca has not signed it";
	case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
		return "it has expired by the peer's clock";
	case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
		return "it is revoked in the peer's --tls-crl";
	case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
		return "it is not valid for the peer: are the clocks right?";
	case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
		return "its extended key usage lacks serverAuth or clientAuth";
	case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
		return "the peer cannot verify it";
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
		        "the peer has a secret in place of a certificate, or a certificate "
		        "whose key TLS 1.3 cannot use; this rank has a certificate (--tls-cert)");
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

/* The handshake failed in OpenSSL. */
static int tls_error(struct conn_tls *c, struct err *err)
{
	unsigned long e = ERR_peek_last_error();
	if (c->in_lost.code)
		return err_pass(err, &c->in_lost);
	if (crypto_lacked_memory())
		return err_set(err, ERR_RESOURCE, "out of memory in TLS");
	return handshake_error(c, e, err);
}

int tls_alert_error(struct conn_tls *c, int number, struct err *err)
{
	int reason = SSL_AD_REASON_OFFSET + number; /* OpenSSL's for a received alert */
	unsigned long e = ERR_PACK(ERR_LIB_SSL, 0, (unsigned)reason);
	const char *text = ERR_reason_error_string(e);
	if (number == SSL_AD_INTERNAL_ERROR)
		return err_set(err, ERR_PEER_LOST, "the peer had an internal error in TLS");
	/* In TLS 1.3 the client is established before the server judges its certificate. */
	if (c->credentials && refused_by_peer(reason))
		return mutual_error(c, reason, e, err);
	if (reason == SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED)
		return err_set(err, ERR_AUTH, "%s",
		               c->credentials ? "TLS 1.3 cannot use the key of this rank's "
		                                "certificate: use P-256, Ed25519 or RSA"
		                              : secret_here);
	c->conn.alerted = true;
	return err_set(err, ERR_INTEGRITY, "the peer received corrupt bytes (%s)",
	               text ? text : "unknown alert");
}

/* ---- the handshake ---- */

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

/* OpenSSL has done its part. */
static int establish(struct conn_tls *c, struct err *err)
{
	if (check_proof(c, err) < 0 || tls_grow(c, err) < 0)
		return -1;
	if (c->credentials)
		c->peer = SSL_get1_peer_certificate(c->ssl);
	if (c->layer->begin(c, err) < 0)
		return -1;
	OPENSSL_cleanse(c->key, sizeof c->key);
	c->established = true;
	return 0;
}

int tls_handshake(struct conn *conn, struct err *err)
{
	struct conn_tls *c = (struct conn_tls *)conn;
	int ret, why, flushed;
	if (c->connecting) {
		int connected = conn_sock_connected(conn, err);
		if (connected <= 0)
			return connected;
		c->connecting = false;
	}
	if (c->established)
		return tls_flush(conn, err);
	struct err flush_err = {0};
	do {
		ERR_clear_error();
		ret = SSL_do_handshake(c->ssl);
		why = SSL_get_error(c->ssl, ret);
		flushed = tls_flush(conn, &flush_err); /* an alert must be sent too */
	} while (ret != 1 && why == SSL_ERROR_WANT_WRITE && flushed == 1);
	if (ret != 1 && why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE) {
		tls_error(c, err);
		conn_sock_drain(conn); /* the client may have sent more already */
		return -1;
	}
	if (flushed < 0)
		return err_pass(err, &flush_err);
	if (ret != 1)
		return 0;
	return establish(c, err) < 0 ? -1 : flushed;
}

int tls_handshake_init(struct conn_tls *c, struct tls *t, bool client, struct err *err)
{
	SSL *ssl = SSL_new(t->ctx);
	BIO *bio = ssl ? BIO_new(t->method) : NULL;
	bool shown = bio && (!t->credentials || credentials_show(t->credentials, ssl) == 0);
	if (!shown || !SSL_set_app_data(ssl, c)) {
		BIO_free(bio);
		SSL_free(ssl);
		return err_nomem(err, "a TLS connection", sizeof *c);
	}
	BIO_set_data(bio, c);
	SSL_set_bio(ssl, bio, bio);
	if (client)
		SSL_set_connect_state(ssl);
	else
		SSL_set_accept_state(ssl);
	c->ssl = ssl;
	c->credentials = t->credentials;
	c->connecting = true;
	c->client = client;
	return 0;
}

void tls_handshake_release(struct conn_tls *c)
{
	SSL_free(c->ssl);
	OPENSSL_cleanse(c->key, sizeof c->key);
	OPENSSL_cleanse(c->secrets, sizeof c->secrets);
	X509_free(c->peer);
}
