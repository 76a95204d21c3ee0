/*
 * Odd records and messages after the handshake, from a peer that has the keys: what RFC 8446 allows
 * is read, and all else is refused by the alert that it demands. The cases are those of tlsfuzzer's
 * scripts for TLS 1.3 that concern this part. With the records of control links and both kinds for
 * data, as server and as client.
 */
#include <openssl/err.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/net/conn.h"
#include "tests/unit/tls_forge.h"
#include "tests/unit/tls_records.h"
#include "tests/unit/unit.h"

#define PATIENCE (100 * NS_PER_SEC)
#define MOST     16384 /* bytes of data of a record */
#define LONGEST  (MOST + 300)

/* What the peer sends: */
enum how {
	END,
	SEALED,  /* a record of @type with @n bytes of @text, or of zeros if there is none, and then
	          * @zeros bytes of padding */
	UPDATED, /* the same, and the next keys */
	NEXT,    /* the next keys, without a message */
	GAP,     /* a record that does not arrive */
	PLAIN,   /* an unprotected record of @n bytes, of zeros if there is no @text */
	RAW      /* @n bytes of @text */
};

struct piece {
	enum how how;
	uint8_t type;
	const char *text;
	size_t n, zeros;
};

/* What comes of it: */
enum {
	OPEN = 1,      /* reading goes on */
	ENDED,         /* an orderly end */
	SAID,          /* the peer's alert is an error */
	REFUSED = 1000 /* and the alert that is sent */
};

#define UNEXPECTED (REFUSED + SSL_AD_UNEXPECTED_MESSAGE)
#define BAD_MAC    (REFUSED + SSL_AD_BAD_RECORD_MAC)
#define OVERFLOW   (REFUSED + SSL_AD_RECORD_OVERFLOW)
#define ILLEGAL    (REFUSED + SSL_AD_ILLEGAL_PARAMETER)
#define DECODE     (REFUSED + SSL_AD_DECODE_ERROR)

struct odd {
	const char *name;
	int outcome;
	int openssl;  /* what may come of it with OpenSSL's records, too */
	char only_as; /* our end: 's'erver or 'c'lient; 0: both */
	size_t data;  /* bytes of data in the pieces, if reading goes on */
	struct piece pieces[7];
};

#define ALERT     21
#define HANDSHAKE 22
#define TEXT      23

/* clang-format off */
#define ZEROS(how, type, n, zeros) {how, type, NULL, n, zeros}
#define PADDED(type, text, zeros)  {SEALED, type, text, sizeof(text) - 1, zeros}
#define PART(type, text)           {SEALED, type, text, sizeof(text) - 1, 0}
#define LAST(text)                 {UPDATED, HANDSHAKE, text, sizeof(text) - 1, 0}
#define CLEAR(type, text)          {PLAIN, type, text, sizeof(text) - 1, 0}
#define UPDATE                     "\x18\0\0\1\0"
#define UPDATE_ASKED               "\x18\0\0\1\1"
#define TICKET                     "\4\0\0\x0e\0\0\0\1\0\0\0\0\0\0\1t\0\0"

static const struct odd cases[] = {
	/* types */
	{"nothing but padding, and so no type", UNEXPECTED, .pieces = {PART(0, "")}},
	{"much padding, and no type", UNEXPECTED, .pieces = {ZEROS(SEALED, 0, MOST, 0)}},
	{"heartbeat", UNEXPECTED, .pieces = {PART(24, "\1\0\1x")}},
	{"an unknown type", UNEXPECTED, .pieces = {PART(255, "x")}},
	{"change_cipher_spec", UNEXPECTED, .pieces = {PART(20, "\1")}},
	{"change_cipher_spec in clear", UNEXPECTED, .pieces = {CLEAR(20, "\1")}},
	{"close_notify in clear", UNEXPECTED, .pieces = {CLEAR(ALERT, "\1\0")}},
	{"an alert in clear", UNEXPECTED, .pieces = {CLEAR(ALERT, "\2\50")}},
	{"KeyUpdate in clear", UNEXPECTED, .pieces = {CLEAR(HANDSHAKE, UPDATE)}},
	{"an unknown type in clear", UNEXPECTED, .pieces = {ZEROS(PLAIN, 99, 40, 0)}},
	{"data in clear", BAD_MAC, .pieces = {ZEROS(PLAIN, TEXT, 40, 0)}},

	/* lengths */
	{"a record of nothing", BAD_MAC, .pieces = {CLEAR(TEXT, "")}},
	{"a record of one byte", BAD_MAC, .pieces = {CLEAR(TEXT, "x")}},
	{"a record without a type", BAD_MAC, .pieces = {ZEROS(PLAIN, TEXT, 16, 0)}},
	{"as much data as fit", OPEN, .data = MOST, .pieces = {ZEROS(SEALED, TEXT, MOST, 0)}},
	{"one byte too many", OVERFLOW, .pieces = {ZEROS(SEALED, TEXT, MOST + 1, 0)}},
	{"many bytes too many", OVERFLOW, .pieces = {ZEROS(SEALED, TEXT, MOST + 200, 0)}},
	{"data and as much padding as fits", OPEN, .data = 9,
	 .pieces = {ZEROS(SEALED, TEXT, 9, MOST - 9)}},
	{"padding of one byte too many", OVERFLOW, .openssl = OPEN, .data = 9,
	 .pieces = {ZEROS(SEALED, TEXT, 9, MOST - 8)}},
	{"much padding too much", OVERFLOW, .openssl = OPEN, .data = 1,
	 .pieces = {PADDED(TEXT, "x", MOST + 200)}},
	{"no data and as much padding as fits", OPEN, .pieces = {PADDED(TEXT, "", MOST)}},
	{"no data and too much padding", OVERFLOW, .openssl = OPEN,
	 .pieces = {PADDED(TEXT, "", MOST + 1)}},
	{"a header of too long a record", OVERFLOW, .pieces = {{RAW, 0, "\x17\3\3\x41\1", 5, 0}}},
	{"a header of the longest length", OVERFLOW, .pieces = {{RAW, 0, "\x17\3\3\xff\xff", 5, 0}}},

	/* alerts */
	{"close_notify", ENDED, .pieces = {PART(ALERT, "\1\0")}},
	{"close_notify that is padded", ENDED, .pieces = {PADDED(ALERT, "\1\0", 300)}},
	{"close_notify of another level", ENDED, .pieces = {PART(ALERT, "\2\0")}},
	{"an error of another level", SAID, .pieces = {PART(ALERT, "\1\24")}},
	{"an unknown alert", SAID, .pieces = {PART(ALERT, "\2\310")}},
	{"user_canceled", SAID, .openssl = OPEN, .pieces = {PART(ALERT, "\1\132")}},
	{"an empty alert", UNEXPECTED, .pieces = {PART(ALERT, "")}},
	{"half an alert", UNEXPECTED, .pieces = {PART(ALERT, "\1")}},
	{"two alerts in a record", UNEXPECTED, .pieces = {PART(ALERT, "\1\132\1\0")}},

	/* KeyUpdate */
	{"KeyUpdate", OPEN, .pieces = {LAST(UPDATE)}},
	{"KeyUpdate that asks for one", OPEN, .pieces = {LAST(UPDATE_ASKED)}},
	{"KeyUpdate that is padded", OPEN, .pieces = {{UPDATED, HANDSHAKE, UPDATE, 5, 1000}}},
	{"KeyUpdates between data", OPEN, .data = 3,
	 .pieces = {PART(TEXT, "a"), LAST(UPDATE), PART(TEXT, "b"), LAST(UPDATE_ASKED),
	            LAST(UPDATE_ASKED), PART(TEXT, "c")}},
	{"KeyUpdate in parts of 1 and 4 bytes", OPEN,
	 .pieces = {PART(HANDSHAKE, "\x18"), LAST("\0\0\1\0")}},
	{"KeyUpdate in parts of 4 bytes and 1", OPEN,
	 .pieces = {PART(HANDSHAKE, "\x18\0\0\1"), LAST("\1")}},
	{"KeyUpdate byte by byte, and a second one", OPEN,
	 .pieces = {PART(HANDSHAKE, "\x18"), PART(HANDSHAKE, "\0"), PART(HANDSHAKE, "\0"),
	            PART(HANDSHAKE, "\1"), LAST("\0"), LAST(UPDATE)}},
	{"data between the parts of a KeyUpdate", UNEXPECTED,
	 .pieces = {PART(HANDSHAKE, "\x18\0"), PART(TEXT, "x"), LAST("\0\1\0")}},
	{"an empty record of data between the parts of a KeyUpdate", UNEXPECTED,
	 .pieces = {PART(HANDSHAKE, "\x18\0"), PART(TEXT, ""), LAST("\0\1\0")}},
	{"an alert between the parts of a KeyUpdate", UNEXPECTED,
	 .pieces = {PART(HANDSHAKE, "\x18\0"), PART(ALERT, "\1\0")}},
	{"an empty record between the parts of a KeyUpdate", UNEXPECTED,
	 .pieces = {PART(HANDSHAKE, "\x18\0"), PART(HANDSHAKE, ""), LAST("\0\1\0")}},
	{"the last part of a KeyUpdate under the next keys", BAD_MAC,
	 .pieces = {LAST("\x18\0"), PART(HANDSHAKE, "\0\1\0")}},
	{"two KeyUpdates in a record", UNEXPECTED, .pieces = {LAST(UPDATE UPDATE)}},
	{"the end of a KeyUpdate and a second one", UNEXPECTED,
	 .pieces = {PART(HANDSHAKE, "\x18\0"), LAST("\0\1\0" UPDATE)}},
	{"KeyUpdate and the first byte of another message", UNEXPECTED,
	 .pieces = {LAST(UPDATE "\x18")}},
	{"KeyUpdate with the value 2", ILLEGAL, .pieces = {LAST("\x18\0\0\1\2")}},
	{"KeyUpdate with the value 255", ILLEGAL, .pieces = {LAST("\x18\0\0\1\xff")}},
	{"an empty KeyUpdate", DECODE, .pieces = {LAST("\x18\0\0\0")}},
	{"a large KeyUpdate", DECODE, .openssl = ILLEGAL, .pieces = {LAST("\x18\0\0\2\0\0")}},
	{"KeyUpdate without new keys", BAD_MAC, .pieces = {PART(HANDSHAKE, UPDATE)}},
	{"new keys without KeyUpdate", BAD_MAC, .pieces = {ZEROS(NEXT, 0, 0, 0)}},
	{"a record that is lost", BAD_MAC, .pieces = {ZEROS(GAP, 0, 0, 0)}},

	/* other messages */
	{"an empty record of a handshake", UNEXPECTED, .pieces = {PART(HANDSHAKE, "")}},
	{"no message, but padding", UNEXPECTED, .pieces = {PADDED(HANDSHAKE, "", 500)}},
	{"HelloRequest", UNEXPECTED, .pieces = {PART(HANDSHAKE, "\0\0\0\0")}},
	{"ClientHello", UNEXPECTED, .pieces = {PART(HANDSHAKE, "\1\0\0\2\3\3")}},
	{"ServerHello", UNEXPECTED, .pieces = {PART(HANDSHAKE, "\2\0\0\2\3\3")}},
	{"EndOfEarlyData", UNEXPECTED, .pieces = {PART(HANDSHAKE, "\5\0\0\0")}},
	{"Certificate", UNEXPECTED, .pieces = {PART(HANDSHAKE, "\13\0\0\4\0\0\0\0")}},
	{"CertificateRequest", UNEXPECTED, .pieces = {PART(HANDSHAKE, "\15\0\0\3\0\0\0")}},
	{"Finished", UNEXPECTED, .pieces = {PART(HANDSHAKE, "\24\0\0\1x")}},
	{"an unknown message", UNEXPECTED, .pieces = {PART(HANDSHAKE, "\x63\0\0\1x")}},
	{"NewSessionTicket to a server", UNEXPECTED, .only_as = 's',
	 .pieces = {PART(HANDSHAKE, TICKET)}},
	/* PROTOCOL.md: there are none. */
	{"NewSessionTicket", UNEXPECTED, .openssl = OPEN, .only_as = 'c',
	 .pieces = {PART(HANDSHAKE, TICKET)}},
};
/* clang-format on */

/* ---- a peer that forges its records, and our end ---- */

static const char *records; /* of our end; NULL: a control link's */
static struct tls *tls;

static int set_up(void **state)
{
	records = *state;
	tls = tls_with_records(records);
	return tls ? 0 : -1;
}

static int tear_down(void **state)
{
	tls_free(tls);
	return 0;
}

struct world {
	struct forge peer;
	int fd; /* the peer's */
	struct conn *c;
};

static void world_init(struct world *w, bool client)
{
	int fd[2], ours, theirs;
	int64_t until = clock_ns() + PATIENCE;
	struct err err = {0};
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
	w->fd = fd[0];
	w->c = client ? tls_dial(tls, fd[1], FORGE_IDENTITY, forge_psk, 0, &err)
	              : tls_accept(tls, fd[1], forge_find, NULL, 0, &err);
	assert_non_null(w->c);
	assert_true(forge_init(&w->peer, !client));
	SSL_set_fd(w->peer.ssl, w->fd);
	do {
		theirs = SSL_do_handshake(w->peer.ssl);
		w->c->readable = w->c->writable = true;
		ours = conn_handshake(w->c, &err);
		assert_true(ours >= 0 && clock_ns() < until);
	} while (theirs != 1 || ours != 1);
	forge_begin(&w->peer);
}

static void world_release(struct world *w)
{
	conn_free(w->c);
	close(w->fd);
	forge_release(&w->peer);
}

static void put(struct world *w, const struct piece *p)
{
	static uint8_t text[LONGEST], record[LONGEST + FORGE_EXTRA];
	size_t n = p->n;
	memset(text, 0, sizeof text);
	assert_true(n + p->zeros <= LONGEST);
	if (p->text)
		memcpy(text, p->text, n);
	switch (p->how) {
	case SEALED:
	case UPDATED:
		if (p->zeros) /* the type, and zeros, the last of which is in its place */
			text[n] = p->type;
		n = forge_record(&w->peer, p->zeros ? 0 : p->type, text, n + p->zeros, record);
		break;
	case PLAIN:
		memcpy(record, (uint8_t[]){p->type, 3, 3, (uint8_t)(n >> 8), (uint8_t)n}, 5);
		memcpy(record + 5, text, n);
		n += 5;
		break;
	case GAP:
		w->peer.sequence++;
		break;
	default:
		memcpy(record, text, n);
	}
	assert_int_equal(send(w->fd, record, n, MSG_NOSIGNAL), n);
	if (p->how == UPDATED || p->how == NEXT)
		forge_update(&w->peer);
}

/* Read until an error, the end or nothing. */
static ssize_t read_all(struct world *w, size_t *heard, struct err *err)
{
	static uint8_t buf[3 * MOST];
	ssize_t n;
	*heard = 0;
	w->c->readable = true;
	while ((n = conn_read(w->c, buf, sizeof buf, err)) > 0)
		*heard += (size_t)n;
	return n;
}

/* What the peer gets from our end: the number of an alert; 0: what our end writes. */
static int answer(struct world *w)
{
	struct err err = {0};
	char text[10] = "";
	size_t got;
	w->c->writable = true;
	if (conn_write(w->c, "ours", 4, &err) == 4)
		assert_int_equal(conn_flush(w->c, &err), 1);
	ERR_clear_error();
	if (SSL_read_ex(w->peer.ssl, text, sizeof text, &got)) {
		assert_string_equal(text, "ours");
		return 0;
	}
	return ERR_GET_REASON(ERR_peek_last_error()) - SSL_AD_REASON_OFFSET;
}

static int outcome(struct world *w, ssize_t last, const struct err *err)
{
	if (last != -1)
		return answer(w) != 0 ? -1 : last == CONN_END ? ENDED : OPEN;
	assert_int_equal(err->code, ERR_INTEGRITY);
	return w->c->alerted ? SAID : REFUSED + answer(w);
}

static const struct piece before = PART(TEXT, "before");
static const struct piece after = PART(TEXT, "after");

static void odd_records(void **state)
{
	bool wrong = false;
	for (size_t i = 0; i < 2 * LENGTH(cases); i++) {
		const struct odd *odd = &cases[i / 2];
		bool openssl = !records || strcmp(records, "openssl") == 0;
		struct world w;
		struct err err = {0};
		size_t heard;
		if (odd->only_as == (i % 2 ? 's' : 'c'))
			continue;
		world_init(&w, i % 2);
		put(&w, &before);
		for (const struct piece *p = odd->pieces; p->how != END; p++)
			put(&w, p);
		put(&w, &after);
		ssize_t last = read_all(&w, &heard, &err);
		int got = outcome(&w, last, &err);
		bool right = got == odd->outcome || (openssl && got == odd->openssl);
		if (!right || heard != 6 + (got == OPEN ? odd->data + 5 : 0)) {
			print_error("%s, as %s: %d, expected %d; %zu bytes, %s\n", odd->name,
			            i % 2 ? "client" : "server", got, odd->outcome, heard,
			            err.text);
			wrong = true;
		}
		world_release(&w);
	}
	assert_false(wrong);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        {"odd_records, control", odd_records, set_up, tear_down, NULL},
	        {"odd_records, own", odd_records, set_up, tear_down, (void *)"own"},
	        {"odd_records, openssl", odd_records, set_up, tear_down, (void *)"openssl"},
	};
	return cmocka_run_group_tests_name("tls_odd", tests, NULL, NULL);
}
