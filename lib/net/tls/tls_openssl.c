/*
 * The layer of records that OpenSSL makes: of control links, which carry keys and need no speed,
 * and of data where TLS's own code must not be used (COLLCTL_TLS_RECORDS, FIPS mode).
 */
#include <openssl/crypto.h>
#include <openssl/err.h>

#include "lib/crypto/crypto.h"
#include "lib/net/tls/tls_internal.h"

/* OpenSSL calls it for every record that it has decrypted, also for those that carry nothing. */
static void count_record(int sends, int version, int type, const void *buf, size_t len, SSL *ssl,
                         void *ctx)
{
	struct conn_tls *c = ctx;
	(void)version, (void)buf, (void)len, (void)ssl;
	if (!sends && type == SSL3_RT_INNER_CONTENT_TYPE)
		c->opened++;
}

static int begin(struct conn_tls *c, struct err *err)
{
	(void)err;
	SSL_set_msg_callback(c->ssl, count_record);
	SSL_set_msg_callback_arg(c->ssl, c);
	SSL_certs_clear(c->ssl); /* the private key has served */
	if (c->buffer) {         /* data need not be wiped */
		SSL_clear_mode(c->ssl, SSL_MODE_RELEASE_BUFFERS);
		SSL_clear_options(c->ssl, SSL_OP_CLEANSE_PLAINTEXT);
	}
	return 0;
}

static int failed(struct err *err)
{
	return crypto_failed(err, ERR_OTHER, "TLS: cannot encrypt a record");
}

static int put(struct conn_tls *c, const void *text, size_t n, struct err *err)
{
	size_t done;
	ERR_clear_error();
	return SSL_write_ex(c->ssl, text, n, &done) == 1 ? 0 : failed(err);
}

static int put_key_update(struct conn_tls *c, struct err *err)
{
	ERR_clear_error(); /* it is sent before the next record */
	return SSL_key_update(c->ssl, SSL_KEY_UPDATE_NOT_REQUESTED) == 1 ? 0 : failed(err);
}

static int put_end(struct conn_tls *c, struct err *err)
{
	ERR_clear_error();
	c->out_ended = true;
	return SSL_shutdown(c->ssl) >= 0 ? 0 : failed(err);
}

/* SSL_read has failed with the error @e. OpenSSL has put its alert into the buffer, if any. */
static int lost(struct conn_tls *c, unsigned long e)
{
	struct err ignored = {0};
	const char *text = ERR_reason_error_string(e);
	int reason = ERR_GET_REASON(e);
	c->out_ended = true;
	if (c->in_lost.code)
		return -1;
	if (c->socket_ended)
		return tls_cut(c);
	if (crypto_lacked_memory())
		err_set(&c->in_lost, ERR_RESOURCE, "out of memory in TLS");
	else if (reason > SSL_AD_REASON_OFFSET)
		tls_alert_error(c, reason - SSL_AD_REASON_OFFSET, &c->in_lost);
	else
		err_set(&c->in_lost, ERR_INTEGRITY, "TLS: %s", text ? text : "unknown error");
	(void)tls_flush(&c->conn, &ignored);
	conn_sock_drain(&c->conn);
	return -1;
}

static int take(struct conn_tls *c, uint8_t *buf, size_t n, size_t *got)
{
	*got = 0;
	ERR_clear_error();
	if (SSL_read_ex(c->ssl, buf, n, got) == 1)
		return 1;
	switch (SSL_get_error(c->ssl, 0)) {
	case SSL_ERROR_WANT_READ:
		return 0;
	case SSL_ERROR_ZERO_RETURN:
		c->in_ended = true;
		return -1;
	default:
		return lost(c, ERR_peek_last_error());
	}
}

const struct tls_layer tls_openssl = {
        .name = "openssl",
        .begin = begin,
        .put = put,
        .put_key_update = put_key_update,
        .put_end = put_end,
        .take = take,
};
