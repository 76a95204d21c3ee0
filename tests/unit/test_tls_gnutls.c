/*
 * The wire of TLS connections is that of TLS 1.3: the other end is GnuTLS.
 */
#ifdef COLLCTL_WITH_GNUTLS
#include <gnutls/gnutls.h>
#include <stdio.h>

#include "tests/unit/tls_talk.h"

/* GnuTLS refuses more than 8 KeyUpdates in a second; no exchange here has as many. */
#define KEY_RECORDS 150

#define PRIORITY "NONE:+VERS-TLS1.3:+ECDHE-PSK:+MAC-ALL:+SIGN-ALL:+COMP-NULL:+GROUP-X25519:+%s"

struct session {
	gnutls_session_t tls;
	gnutls_psk_client_credentials_t client;
	gnutls_psk_server_credentials_t server;
};

static int find_key(gnutls_session_t tls, const gnutls_datum_t *identity, gnutls_datum_t *found)
{
	uint8_t *copy = gnutls_malloc(TLS_KEY_BYTES);
	(void)tls;
	if (!copy || find(NULL, identity->data, identity->size, copy) < 0) {
		gnutls_free(copy);
		return -1;
	}
	*found = (gnutls_datum_t){copy, TLS_KEY_BYTES};
	return 0;
}

static int set_key(struct end *e, struct session *s)
{
	const gnutls_datum_t psk = {key, TLS_KEY_BYTES};
	if (e->client) {
		gnutls_psk_allocate_client_credentials(&s->client);
		gnutls_psk_set_client_credentials(s->client, IDENTITY, &psk, GNUTLS_PSK_KEY_RAW);
		return gnutls_credentials_set(s->tls, GNUTLS_CRD_PSK, s->client);
	}
	gnutls_psk_allocate_server_credentials(&s->server);
	gnutls_psk_set_server_credentials_function2(s->server, find_key);
	return gnutls_credentials_set(s->tls, GNUTLS_CRD_PSK, s->server);
}

static bool open_session(struct end *e)
{
	struct session *s = e->session = calloc(1, sizeof *s);
	unsigned flags = GNUTLS_NO_SIGNAL | GNUTLS_NO_TICKETS;
	char priority[sizeof PRIORITY + 40];
	int ret;
	snprintf(priority, sizeof priority, PRIORITY, e->script->suite);
	if (gnutls_init(&s->tls, flags | (e->client ? GNUTLS_CLIENT : GNUTLS_SERVER)) < 0 ||
	    gnutls_priority_set_direct(s->tls, priority, NULL) < 0 || set_key(e, s) < 0)
		return false;
	gnutls_transport_set_int(s->tls, e->fd);
	while ((ret = gnutls_handshake(s->tls)) < 0 && !gnutls_error_is_fatal(ret))
		;
	if (ret < 0)
		print_message("GnuTLS: handshake: %s\n", gnutls_strerror(ret));
	return ret == 0;
}

static void close_session(struct end *e)
{
	struct session *s = e->session;
	gnutls_deinit(s->tls);
	if (s->client)
		gnutls_psk_free_client_credentials(s->client);
	if (s->server)
		gnutls_psk_free_server_credentials(s->server);
	free(s);
}

static ssize_t tell(const char *what, ssize_t ret)
{
	if (ret < 0)
		print_message("GnuTLS: %s: %s\n", what, gnutls_strerror((int)ret));
	return ret;
}

static ssize_t read_session(struct end *e, void *buf, size_t n)
{
	struct session *s = e->session;
	ssize_t got;
	do
		got = gnutls_record_recv(s->tls, buf, n);
	while (got < 0 && !gnutls_error_is_fatal((int)got));
	return tell("read", got);
}

static ssize_t write_session(struct end *e, const void *buf, size_t n)
{
	struct session *s = e->session;
	return tell("write", gnutls_record_send2(s->tls, buf, n, e->script->padding, 0));
}

static bool act_session(struct end *e, char what)
{
	struct session *s = e->session;
	switch (what) {
	case 'u':
		return tell("key update", gnutls_session_key_update(s->tls, 0)) == 0;
	case 'U':
		return tell("key update", gnutls_session_key_update(s->tls, GNUTLS_KU_PEER)) == 0;
	case 'e':
		return tell("end", gnutls_bye(s->tls, GNUTLS_SHUT_WR)) == 0;
	default:
		return false;
	}
}

static const struct library gnutls = {"GnuTLS",     open_session,  close_session,
                                      read_session, write_session, act_session};

#define AES    "AES-128-GCM"
#define CHACHA "CHACHA20-POLY1305"

static void both_ways(void **state)
{
	static const struct exchange cases[] = {
	        {{"re", AES, 0, NULL}, DATA, 0},
	        {{"RWre", AES, 0, NULL}, DATA, DATA},
	        {{"wuwUwuwre", AES, 0, NULL}, 3 * DATA, 4 * DATA},
	        {{"RuRWURre", AES, 0, NULL}, 3 * DATA, DATA},
	        {{"WuWre", AES, 300, NULL}, 0, 2 * DATA}, /* with padding */
	        {{"wre", CHACHA, 0, NULL}, 0, DATA},
	        {{"RuWUwuRre", CHACHA, 0, NULL}, 2 * DATA, 2 * DATA},
	        {{"er", CHACHA, 0, NULL}, 0, 0},
	};
	exchange(&gnutls, cases, LENGTH(cases), KEY_RECORDS);
}

static void a_stream_without_close_notify_is_cut(void **state)
{
	static const struct script cut = {"w", AES, 0, NULL};
	struct err err = {0};
	struct talk t = {.in = DATA, .piece = 50000};
	assert_int_equal(converse(&gnutls, &cut, false, t, &err), -1);
	assert_int_equal(err.code, ERR_INTEGRITY);
	assert_non_null(strstr(err.text, "cut"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        TALK_TEST(both_ways),
	        TALK_TEST(a_stream_without_close_notify_is_cut),
	};
	return cmocka_run_group_tests_name("tls_gnutls", tests, prepare, NULL);
}

#else
#include <stdio.h>

int main(void)
{
	puts("skipped: GnuTLS was not there when this test was built (libgnutls28-dev)");
	return 77;
}
#endif
