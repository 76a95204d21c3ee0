#include "lib/job/ticket.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <xxhash.h>

#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/base/hex.h"
#include "lib/base/io.h"
#include "lib/base/private.h"
#include "lib/crypto/crypto.h"

#define PREFIX "cc1-"
#define BYTES  (TICKET_TEXT * 5 / 8) /* more than any ticket has */

static const char digits[] = "abcdefghijklmnopqrstuvwxyz234567";

int ticket_draw(struct ticket *t, struct err *err)
{
	if (crypto_random(t->key, sizeof t->key, err) < 0)
		return -1;
	return crypto_random(t->name, sizeof t->name, err);
}

/* ---- text ---- */

static void to_base32(const uint8_t *bytes, size_t n, char *text)
{
	uint32_t held = 0;
	int bits = 0;
	for (size_t i = 0; i < n; i++) {
		held = held << 8 | bytes[i];
		for (bits += 8; bits >= 5; bits -= 5)
			*text++ = digits[held >> (bits - 5) & 31];
	}
	if (bits)
		*text++ = digits[held << (5 - bits) & 31];
	*text = '\0';
}

/* The bytes of @text[n]; 0: it has another character, or too many. */
static size_t from_base32(const char *text, size_t n, uint8_t *bytes, size_t cap)
{
	uint32_t held = 0;
	int bits = 0;
	size_t len = 0;
	for (size_t i = 0; i < n; i++) {
		const char *at = strchr(digits, tolower((unsigned char)text[i]));
		if (!at || !*at || len == cap)
			return 0;
		held = held << 5 | (uint32_t)(at - digits);
		bits += 5;
		if (bits >= 8)
			bytes[len++] = (uint8_t)(held >> (bits -= 8));
	}
	return len;
}

void ticket_encode(const struct ticket *t, char text[TICKET_TEXT])
{
	struct buf b;
	buf_init(&b, BYTES);
	buf_put(&b, t->key, sizeof t->key);
	buf_put(&b, t->name, sizeof t->name);
	buf_put_u32(&b, t->expires);
	buf_put_u16(&b, (uint16_t)t->size);
	buf_put_u16(&b, (uint16_t)t->port);
	buf_put_u8(&b, (uint8_t)t->naddresses);
	for (int i = 0; i < t->naddresses; i++) {
		buf_put_u8(&b, (uint8_t)strlen(t->addresses[i]));
		buf_put(&b, t->addresses[i], strlen(t->addresses[i]));
	}
	buf_put_u32(&b, XXH32(b.data, b.len, 0));
	strcpy(text, PREFIX);
	if (!b.failed)
		to_base32(b.data, b.len, text + strlen(PREFIX));
	wipe(b.data, b.len);
	buf_release(&b);
}

static int malformed(const char *why, struct err *err)
{
	return err_set(err, ERR_USAGE,
	               "the ticket %s: copy the whole word, from cc1- to its end, that 'collctl "
	               "invite' has printed",
	               why);
}

static int of_another_version(struct err *err)
{
	return err_set(err, ERR_USAGE,
	               "the ticket is of another version of collctl: install the same version on "
	               "all machines");
}

/* "cc", a number other than 1, "-" */
static bool has_another_version(const char *text)
{
	const size_t n = strspn(text + 2, "0123456789");
	return strncasecmp(text, "cc", 2) == 0 && n > 0 && text[2 + n] == '-';
}

static bool read_fields(struct ticket *t, struct view v)
{
	const uint8_t *key = view_bytes(&v, sizeof t->key), *name = view_bytes(&v, sizeof t->name);
	if (v.failed)
		return false;
	memcpy(t->key, key, sizeof t->key);
	memcpy(t->name, name, sizeof t->name);
	t->expires = view_u32(&v);
	t->size = view_u16(&v);
	t->port = view_u16(&v);
	t->naddresses = view_u8(&v);
	if (t->naddresses < 1 || t->naddresses > TICKET_ADDRESSES || t->size < 1 || t->port < 1)
		return false;
	for (int i = 0; i < t->naddresses; i++) {
		const size_t n = view_u8(&v);
		const uint8_t *host = view_bytes(&v, n);
		if (!host || n == 0 || n >= ADDR_TEXT)
			return false;
		/* It becomes a part of a URL. */
		for (size_t k = 0; k < n; k++)
			if (!isalnum(host[k]) && !strchr(".:-_", host[k]))
				return false;
		memcpy(t->addresses[i], host, n);
		t->addresses[i][n] = '\0';
	}
	return !v.failed && !view_left(&v);
}

int ticket_decode(struct ticket *t, const char *text, struct err *err)
{
	uint8_t bytes[BYTES];
	int ret = 0;
	*t = (struct ticket){0};
	while (isspace((unsigned char)*text))
		text++;
	size_t n = strlen(text);
	while (n && isspace((unsigned char)text[n - 1]))
		n--;
	if (n < strlen(PREFIX) || strncasecmp(text, PREFIX, strlen(PREFIX)) != 0)
		return n > 2 && has_another_version(text)
		               ? of_another_version(err)
		               : malformed("does not begin with cc1-", err);
	const size_t len =
	        from_base32(text + strlen(PREFIX), n - strlen(PREFIX), bytes, sizeof bytes);
	struct view v = view_of(bytes, len);
	if (len < 4)
		ret = malformed("has characters that no ticket has, or too few", err);
	v = view_of(bytes + len - (len < 4 ? len : 4), len < 4 ? len : 4);
	if (ret == 0 && view_u32(&v) != XXH32(bytes, len - 4, 0))
		ret = malformed("is not whole, or was mistyped", err);
	if (ret == 0 && !read_fields(t, view_of(bytes, len - 4)))
		ret = of_another_version(err);
	wipe(bytes, sizeof bytes);
	if (ret < 0)
		wipe(t, sizeof *t);
	return ret;
}

/* ---- what is derived ---- */

void ticket_job(const struct ticket *t, char name[TICKET_JOB])
{
	memcpy(name, "invite-", 7);
	hex_text(t->name, sizeof t->name, name + 7);
}

int ticket_secret(const struct ticket *t, struct secret *s, struct err *err)
{
	return secret_derive(t->key, sizeof t->key, "ticket secret", 13, s->key, sizeof s->key,
	                     err);
}

int ticket_token(const struct ticket *t, char token[TICKET_TOKEN], struct err *err)
{
	uint8_t bytes[(TICKET_TOKEN - 1) / 2];
	if (secret_derive(t->key, sizeof t->key, "ticket token", 12, bytes, sizeof bytes, err) < 0)
		return -1;
	hex_text(bytes, sizeof bytes, token);
	return 0;
}

/* ---- the address that answers ---- */

static int begin_connect(const char *host, int port)
{
	struct err ignored = ERR_INIT;
	struct addr a;
	if (addr_resolve(&a, host, port, false, &ignored) < 0)
		return -1;
	int fd = socket(a.sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&a.sa, a.len) < 0 && errno != EINPROGRESS) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static bool is_connected(int fd)
{
	int why = 0;
	socklen_t len = sizeof why;
	return getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &len) == 0 && why == 0;
}

/* The number of the descriptor that is connected first; -1: none is until @deadline. */
static int first_connected(struct pollfd *p, int n, int64_t deadline)
{
	for (int left = n; left > 0;) {
		int found = io_retry(poll(p, (nfds_t)n, clock_ms_until(deadline)));
		if (found <= 0)
			return -1;
		left = 0;
		for (int i = 0; i < n; i++) {
			if (p[i].revents && is_connected(p[i].fd))
				return i;
			if (p[i].revents)
				p[i].fd = ~p[i].fd; /* poll ignores it */
			left += p[i].fd >= 0;
		}
	}
	return -1;
}

void ticket_reach(const struct ticket *t, int64_t wait, char *url, size_t cap)
{
	struct pollfd p[TICKET_ADDRESSES];
	char where[ADDR_TEXT + 16];
	int first = 0;
	if (t->naddresses > 1) {
		for (int i = 0; i < t->naddresses; i++)
			p[i] = (struct pollfd){.fd = begin_connect(t->addresses[i], t->port),
			                       .events = POLLOUT};
		first = first_connected(p, t->naddresses, clock_ns() + wait);
		for (int i = 0; i < t->naddresses; i++)
			if (p[i].fd != -1)
				close(p[i].fd < 0 ? ~p[i].fd : p[i].fd);
	}
	addr_join(t->addresses[first < 0 ? 0 : first], t->port, where, sizeof where);
	snprintf(url, cap, "http://%s", where);
}
