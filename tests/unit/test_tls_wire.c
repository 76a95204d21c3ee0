/*
 * The wire of TLS connections is that of TLS 1.3: the other end is unchanged OpenSSL.
 */
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "tests/unit/tls_talk.h"

static SSL_SESSION *session_of(SSL *ssl)
{
	static const unsigned char aes[2] = {0x13, 0x01};
	SSL_SESSION *s = SSL_SESSION_new();
	SSL_SESSION_set1_master_key(s, key, TLS_KEY_BYTES);
	SSL_SESSION_set_cipher(s, SSL_CIPHER_find(ssl, aes));
	SSL_SESSION_set_protocol_version(s, TLS1_3_VERSION);
	return s;
}

static int use(SSL *ssl, const EVP_MD *md, const unsigned char **id, size_t *len, SSL_SESSION **s)
{
	(void)md;
	*s = session_of(ssl);
	*id = (const unsigned char *)IDENTITY;
	*len = strlen(IDENTITY);
	return 1;
}

static int find_session(SSL *ssl, const unsigned char *id, size_t len, SSL_SESSION **s)
{
	(void)id, (void)len;
	*s = session_of(ssl);
	return 1;
}

#define BAD_RECORD SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC

static int reason(void)
{
	return ERR_GET_REASON(ERR_peek_last_error());
}

static bool open_session(struct end *e)
{
	SSL_CTX *ctx = SSL_CTX_new(e->client ? TLS_client_method() : TLS_server_method());
	SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION);
	SSL_CTX_set_num_tickets(ctx, 0);
	SSL_CTX_set_ciphersuites(ctx, e->script->suite);
	if (e->script->groups)
		SSL_CTX_set1_groups_list(ctx, e->script->groups);
	SSL_CTX_set_psk_use_session_callback(ctx, use);
	SSL_CTX_set_psk_find_session_callback(ctx, find_session);
	SSL *ssl = e->session = SSL_new(ctx);
	SSL_CTX_free(ctx);
	SSL_set_fd(ssl, e->fd);
	SSL_set_block_padding(ssl, e->script->padding);
	return (e->client ? SSL_connect(ssl) : SSL_accept(ssl)) == 1;
}

static void close_session(struct end *e)
{
	SSL_free(e->session);
}

static ssize_t read_session(struct end *e, void *buf, size_t n)
{
	size_t got;
	if (SSL_read_ex(e->session, buf, n, &got))
		return (ssize_t)got;
	return SSL_get_error(e->session, 0) == SSL_ERROR_ZERO_RETURN ? 0 : -1;
}

static ssize_t write_session(struct end *e, const void *buf, size_t n)
{
	size_t put;
	return SSL_write_ex(e->session, buf, n, &put) ? (ssize_t)put : -1;
}

/* f: read a record of noise, and send the alert; a: read an alert about such a record. */
static bool act_session(struct end *e, char what)
{
	SSL *ssl = e->session;
	switch (what) {
	case 'u':
		return SSL_key_update(ssl, SSL_KEY_UPDATE_NOT_REQUESTED) &&
		       SSL_do_handshake(ssl) == 1;
	case 'U':
		return SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED) && SSL_do_handshake(ssl) == 1;
	case 'e':
		return SSL_shutdown(ssl) >= 0;
	case 'f':
		return !read_some(e, SIZE_MAX, true) && reason() == BAD_RECORD;
	case 'a':
		return !read_some(e, SIZE_MAX, true) &&
		       reason() == SSL_R_SSLV3_ALERT_BAD_RECORD_MAC;
	default:
		return false;
	}
}

static const struct library openssl = {"OpenSSL",    open_session,  close_session,
                                       read_session, write_session, act_session};

#define AES    "TLS_AES_128_GCM_SHA256"
#define CHACHA "TLS_CHACHA20_POLY1305_SHA256"

static void both_ways(void **state)
{
	static const struct exchange cases[] = {
	        {{"re", AES, 0, NULL}, DATA, 0},
	        {{"wre", AES, 0, NULL}, 0, DATA},
	        {{"RWre", AES, 0, NULL}, DATA, DATA},
	        {{"wuwUwuwre", AES, 0, NULL}, 3 * DATA, 4 * DATA},
	        {{"RuRWURre", AES, 0, NULL}, 3 * DATA, DATA},
	        {{"WuWre", AES, 512, NULL}, 0, 2 * DATA}, /* with padding */
	        {{"RWUwRre", CHACHA, 0, NULL}, 2 * DATA, 2 * DATA},
	        {{"er", AES, 0, NULL}, 0, 0},
	};
	exchange(&openssl, cases, LENGTH(cases), 7);
}

/* It lacks X25519. */
static void a_peer_in_fips_mode(void **state)
{
	static const struct script fips = {"RWre", AES, .groups = "P-256"};
	struct talk t = {.out = DATA, .in = DATA, .piece = 50000};
	for (int dials = 0; dials < 2; dials++) {
		struct err err = {0};
		if (converse(&openssl, &fips, dials, t, &err) != CONN_END)
			fail_msg("%s", err.text);
	}
}

static void noise_is_refused_by_an_alert(void **state)
{
	static const struct script noise = {"wba", AES, 0, NULL};
	struct err err = {0};
	assert_int_equal(converse(&openssl, &noise, true,
	                          (struct talk){.piece = 50000, .ended = true}, &err),
	                 -1);
	assert_int_equal(err.code, ERR_INTEGRITY);
	assert_non_null(strstr(err.text, "bad record mac"));
}

static void an_alert_is_understood(void **state)
{
	static const struct script refuses = {"f", AES, 0, NULL};
	struct err err = {0};
	struct talk t = {.out = DATA, .piece = 50000, .noisy = true};
	assert_int_equal(converse(&openssl, &refuses, false, t, &err), -1);
	assert_int_equal(err.code, ERR_INTEGRITY);
	assert_non_null(strstr(err.text, "the peer received corrupt bytes"));
}

static void a_stream_without_close_notify_is_cut(void **state)
{
	static const struct script cut = {"w", AES, 0, NULL};
	struct err err = {0};
	assert_int_equal(
	        converse(&openssl, &cut, false, (struct talk){.in = DATA, .piece = 50000}, &err),
	        -1);
	assert_int_equal(err.code, ERR_INTEGRITY);
	assert_non_null(strstr(err.text, "cut"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        TALK_TEST(both_ways),
	        TALK_TEST(a_peer_in_fips_mode),
	        TALK_TEST(noise_is_refused_by_an_alert),
	        TALK_TEST(an_alert_is_understood),
	        TALK_TEST(a_stream_without_close_notify_is_cut),
	};
	return cmocka_run_group_tests_name("tls_wire", tests, prepare, NULL);
}
