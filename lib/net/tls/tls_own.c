/*
 * Our own layer of records. Each record is decrypted from the receive buffer into the caller's
 * memory; one for which the caller has no room is decrypted in its place. docs/TLS.md says what
 * this saves, and what the keys are.
 */
#include <openssl/crypto.h>
#include <string.h>

#include "lib/net/tls/tls_internal.h"

#define KEY_UPDATE      24 /* a handshake message: {24, 0, 0, 1, requested} */
#define KEY_UPDATE_SIZE 5
#define ALERT_SIZE      2

/* ---- keys ---- */

/* The secrets of the records after the handshake. OpenSSL has no other function that gives them.
 * The line is "CLIENT_TRAFFIC_SECRET_0 RANDOM SECRET", and OpenSSL wipes it. */
static void keep_secret(const SSL *ssl, const char *line)
{
	static const char *const labels[] = {"CLIENT_TRAFFIC_SECRET_0 ",
	                                     "SERVER_TRAFFIC_SECRET_0 "};
	struct conn_tls *c = SSL_get_app_data(ssl);
	const char *text = strrchr(line, ' ');
	size_t n;
	for (int i = 0; i < 2; i++)
		if (text && strncmp(line, labels[i], strlen(labels[i])) == 0 &&
		    OPENSSL_hexstr2buf_ex(c->secrets[i], TLS_SECRET, &n, text + 1, '\0') == 1 &&
		    n == TLS_SECRET)
			c->nsecrets |= 1u << i;
}

static void prepare(SSL_CTX *ctx)
{
	SSL_CTX_set_keylog_callback(ctx, keep_secret);
}

static int set_keys(struct conn_tls *c, struct err *err)
{
	unsigned suite = SSL_CIPHER_get_protocol_id(SSL_get_current_cipher(c->ssl));
	int ret;
	if (c->nsecrets != 3 || SSL_has_pending(c->ssl))
		return err_set(err, ERR_OTHER, "TLS gave no keys");
	ret = tls_keys_init(&c->in_keys, suite, c->secrets[c->client], false, err);
	if (ret == 0)
		ret = tls_keys_init(&c->out_keys, suite, c->secrets[!c->client], true, err);
	return ret;
}

static int begin(struct conn_tls *c, struct err *err)
{
	int ret = set_keys(c, err);
	OPENSSL_cleanse(c->secrets, sizeof c->secrets);
	SSL_free(c->ssl);
	c->ssl = NULL;
	return ret;
}

/* ---- sending ---- */

static int put_record(struct conn_tls *c, enum tls_type type, const void *text, size_t n,
                      struct err *err)
{
	if (tls_record_seal(&c->out_keys, type, text, n, c->out.bytes + c->out.tail) < 0)
		return err_set(err, ERR_OTHER, "TLS: cannot encrypt a record");
	c->out.tail += n + TLS_RECORD_EXTRA;
	return 0;
}

static int put_key_update(struct conn_tls *c, struct err *err)
{
	static const uint8_t message[KEY_UPDATE_SIZE] = {KEY_UPDATE, 0, 0, 1, 0};
	c->key_update_due = false;
	if (put_record(c, TLS_TYPE_HANDSHAKE, message, sizeof message, err) < 0)
		return -1;
	return tls_keys_update(&c->out_keys, err);
}

static int put(struct conn_tls *c, const void *text, size_t n, struct err *err)
{
	if (c->key_update_due && put_key_update(c, err) < 0)
		return -1;
	return put_record(c, TLS_TYPE_DATA, text, n, err);
}

/* The last record of this direction. */
static int put_alert(struct conn_tls *c, uint8_t number, struct err *err)
{
	const uint8_t alert[ALERT_SIZE] = {number == SSL3_AD_CLOSE_NOTIFY ? 1 : 2, number};
	if (c->out_ended || !tls_reserve(&c->out, sizeof alert + TLS_RECORD_EXTRA))
		return 0;
	c->out_ended = true;
	return put_record(c, TLS_TYPE_ALERT, alert, sizeof alert, err);
}

static int put_end(struct conn_tls *c, struct err *err)
{
	return put_alert(c, SSL3_AD_CLOSE_NOTIFY, err);
}

/* ---- receiving ---- */

/* What has arrived is wrong: tell the peer by the alert @number. */
static int refuse(struct conn_tls *c, uint8_t number, const char *why)
{
	struct err ignored = {0};
	err_set(&c->in_lost, ERR_INTEGRITY, "TLS: %s", why);
	if (put_alert(c, number, &ignored) == 0)
		(void)tls_flush(&c->conn, &ignored);
	conn_sock_drain(&c->conn);
	return -1;
}

/* Is a whole record there? Its length; 0: not yet; -1. */
static int find_record(struct conn_tls *c)
{
	const struct tls_in *in = &c->in;
	for (;;) {
		size_t have = in->end - in->pos;
		if (have >= TLS_RECORD_HEADER) {
			int len = tls_record_length(in->bytes + in->pos);
			if (len < 0)
				return refuse(c, (uint8_t)-len, "no valid record");
			if ((size_t)len <= have)
				return len;
		}
		ssize_t got = tls_fill(c);
		if (got <= 0)
			return got < 0 ? tls_cut(c) : 0;
	}
}

static int take_alert(struct conn_tls *c, const uint8_t *text, size_t n)
{
	if (n != ALERT_SIZE)
		return refuse(c, SSL_AD_UNEXPECTED_MESSAGE, "no valid alert");
	c->in_ended = text[1] == SSL3_AD_CLOSE_NOTIFY;
	if (!c->in_ended) {
		c->out_ended = true;
		tls_alert_error(c, text[1], &c->in_lost);
		conn_sock_drain(&c->conn);
	}
	return -1;
}

/* Of the messages that may follow a handshake, only KeyUpdate is expected. It ends its record: what
 * follows it has the next keys. */
static int take_handshake(struct conn_tls *c, const uint8_t *text, size_t n)
{
	static const uint8_t length[] = {0, 0, 1};
	size_t part = KEY_UPDATE_SIZE - c->nmessage;
	if (part > n)
		part = n;
	memcpy(c->message + c->nmessage, text, part);
	c->nmessage += part;
	if (part == 0 || c->message[0] != KEY_UPDATE)
		return refuse(c, SSL_AD_UNEXPECTED_MESSAGE, "unexpected message");
	if (c->nmessage > sizeof length && memcmp(c->message + 1, length, sizeof length) != 0)
		return refuse(c, SSL_AD_DECODE_ERROR, "a KeyUpdate of a wrong length");
	if (c->nmessage < KEY_UPDATE_SIZE)
		return 1;
	if (part < n)
		return refuse(c, SSL_AD_UNEXPECTED_MESSAGE, "a KeyUpdate and more in a record");
	if (c->message[4] > 1)
		return refuse(c, SSL_AD_ILLEGAL_PARAMETER, "a KeyUpdate of an unknown value");
	c->nmessage = 0;
	c->key_update_due |= c->message[4];
	return tls_keys_update(&c->in_keys, &c->in_lost) < 0 ? -1 : 1;
}

/* A record that carries no data. */
static int take_message(struct conn_tls *c, uint8_t type, const uint8_t *text, size_t n)
{
	switch (type) {
	case TLS_TYPE_ALERT:
		return take_alert(c, text, n);
	case TLS_TYPE_HANDSHAKE:
		return take_handshake(c, text, n);
	default:
		return refuse(c, SSL_AD_UNEXPECTED_MESSAGE, "unexpected message");
	}
}

static size_t take_text(struct conn_tls *c, uint8_t *buf, size_t n)
{
	if (n > c->ntext)
		n = c->ntext;
	memcpy(buf, c->in.bytes + c->text, n);
	c->text += n;
	c->ntext -= n;
	return n;
}

/* Decrypt the record of @len bytes to @buf if it fits there, else in its place. */
static int open_record(struct conn_tls *c, size_t len, uint8_t *buf, size_t room, size_t *got)
{
	uint8_t *record = c->in.bytes + c->in.pos, *text = buf, type;
	bool fits = len - TLS_RECORD_EXTRA <= room;
	size_t n;
	if (!fits)
		text = record + TLS_RECORD_HEADER;
	c->in.pos += len;
	c->opened++;
	if (tls_record_open(&c->in_keys, record, len, text, &n, &type) < 0)
		return refuse(c, SSL_AD_BAD_RECORD_MAC, "decryption failed or bad record mac");
	if (c->nmessage && type != TLS_TYPE_HANDSHAKE)
		return refuse(c, SSL_AD_UNEXPECTED_MESSAGE, "a record between parts of a message");
	if (type != TLS_TYPE_DATA)
		return take_message(c, type, text, n);
	if (fits) {
		*got = n;
		return 1;
	}
	c->text = (size_t)(text - c->in.bytes);
	c->ntext = n;
	*got = take_text(c, buf, room);
	return 1;
}

static int take(struct conn_tls *c, uint8_t *buf, size_t n, size_t *got)
{
	*got = 0;
	if (c->ntext) {
		*got = take_text(c, buf, n);
		return 1;
	}
	int ret = find_record(c);
	if (ret > 0)
		ret = open_record(c, (size_t)ret, buf, n, got);
	if (ret > 0 && !*got && tls_idles(c))
		ret = refuse(c, SSL_AD_UNEXPECTED_MESSAGE, TLS_IDLE_WHY);
	return ret;
}

const struct tls_layer tls_own = {
        .name = "own",
        .prepare = prepare,
        .begin = begin,
        .put = put,
        .put_key_update = put_key_update,
        .put_end = put_end,
        .take = take,
};
