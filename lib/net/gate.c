#include "lib/net/gate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/io.h"

#define PATIENCE (10 * NS_PER_SEC)

/* Accepted in one turn. A source's cap is more than twice as much, so that a connection's first
 * bytes are looked at before as many others have come as evict it. */
#define ACCEPTS 16
#define RESTING (100 * NS_PER_MS)

struct stranger {
	struct gate *gate;
	struct conn *conn;
	struct addr from;
	struct loop_timer patience;
	bool greeted; /* the first byte has been looked at */
	bool authenticated;
	uint8_t opening[GATE_OPENING];
	size_t have;
	struct stranger *next, **prev; /* oldest first */
};

struct gate {
	struct gate_conf conf;
	struct loop_watch watch;
	struct loop_timer resting;
	struct stranger *oldest, **newest;
	int count;
	char refusal[160];
};

static void detach(struct stranger *s)
{
	loop_timer_stop(&s->patience);
	*s->prev = s->next;
	if (s->next)
		s->next->prev = s->prev;
	else
		s->gate->newest = s->prev;
	s->gate->count--;
}

static void drop(struct stranger *s)
{
	detach(s);
	conn_free(s->conn);
	free(s);
}

static void lost_patience(void *ctx)
{
	drop(ctx);
}

/* Whoever speaks the other kind of protocol (TLS to a plain listener, or the reverse) is told by
 * the one message that both understand, a TLS alert "protocol version": its user learns at once
 * that one side has --insecure. 1: go on; 0: nothing has come; -1: drop. */
static int greet(struct stranger *s, struct err *err)
{
	static const uint8_t alert[] = {21, 3, 3, 0, 2, 2, 70};
	uint8_t first;
	ssize_t got = io_retry(recv(s->conn->fd, &first, 1, MSG_PEEK | MSG_DONTWAIT));
	if (got < 0 && errno == EAGAIN)
		return 0;
	if (got <= 0)
		return -1;
	bool speaks_tls = first == 22;
	s->greeted = true;
	if (speaks_tls == (s->gate->conf.tls != NULL))
		return 1;
	/* What is left unread at the close would reset the connection, and the alert might be lost.
	 */
	uint8_t unread[4096];
	for (int i = 0; i < 16; i++)
		if (io_retry(recv(s->conn->fd, unread, sizeof unread, MSG_DONTWAIT)) <= 0)
			break;
	(void)io_retry(send(s->conn->fd, alert, sizeof alert, MSG_NOSIGNAL | MSG_DONTWAIT));
	return err_set(err, ERR_AUTH,
	               speaks_tls ? "one with TLS came: this rank has --insecure, does another not?"
	                          : "one without TLS came: has a rank --insecure?");
}

/* How far a stranger has proved that it belongs here. A TLS identity is known only with a binder
 * that verifies. */
static int standing(const struct stranger *s)
{
	if (!s->greeted)
		return 0;
	return s->gate->conf.tls && tls_identity(s->conn)[0] ? 2 : 1;
}

/* 1: the opening record is complete; 0: not yet; -1: drop. */
static int hear(struct stranger *s, struct err *err)
{
	if (!s->greeted) {
		int ret = greet(s, err);
		if (ret <= 0)
			return ret;
	}
	if (!s->authenticated) {
		int ret = conn_handshake(s->conn, err);
		if (ret <= 0)
			return ret;
		s->authenticated = true;
	}
	while (s->have < GATE_OPENING) {
		ssize_t got = conn_read(s->conn, s->opening + s->have, GATE_OPENING - s->have, err);
		if (got <= 0)
			return got < 0 ? -1 : 0;
		s->have += (size_t)got;
	}
	return 1;
}

static void tell_lacking(const struct gate *g, const struct err *err)
{
	if (err->code == ERR_RESOURCE && g->conf.lacking)
		g->conf.lacking(g->conf.ctx, err);
}

static void stranger_ready(void *ctx)
{
	struct stranger *s = ctx;
	struct gate *g = s->gate;
	struct err err = {0};
	int ret = hear(s, &err);
	if (ret == 0)
		return;
	if (ret < 0) {
		tell_lacking(g, &err);
		bool refused = err.code == ERR_AUTH || err.code == ERR_INTEGRITY;
		if (refused && s->greeted && !s->authenticated)
			snprintf(g->refusal, sizeof g->refusal, "%.150s", err.text);
		drop(s);
		return;
	}
	detach(s);
	s->conn->on_ready = NULL;
	g->conf.admit(g->conf.ctx, s->conn, s->opening, &s->from);
	free(s);
}

/* Does it come from the same address as @from, whatever the port? */
static bool same_source(const struct stranger *s, const struct addr *from)
{
	struct addr a = s->from, b = *from;
	addr_set_port(&a, 0);
	addr_set_port(&b, 0);
	return a.len == b.len && memcmp(&a.sa, &b.sa, a.len) == 0;
}

/* Who makes room, of all or of those from the address @from: who has proved least, and of these the
 * oldest. An honest handshake takes milliseconds, and so outlives who holds a place by silence. */
static void evict(struct gate *g, const struct addr *from)
{
	struct stranger *victim = NULL;
	for (struct stranger *s = g->oldest; s; s = s->next)
		if ((!from || same_source(s, from)) && (!victim || standing(s) < standing(victim)))
			victim = s;
	if (victim)
		drop(victim);
}

static int from_source(const struct gate *g, const struct addr *from)
{
	int n = 0;
	for (const struct stranger *s = g->oldest; s; s = s->next)
		n += same_source(s, from);
	return n;
}

static void receive_stranger(struct gate *g, int fd, const struct addr *from)
{
	struct err err = {0};
	if (from_source(g, from) >= g->conf.per_source)
		evict(g, from); /* a source pays itself */
	else if (g->count >= g->conf.slots)
		evict(g, NULL);
	struct stranger *s = calloc(1, sizeof *s);
	if (!s)
		err_nomem(&err, "a connection", sizeof *s);
	else
		s->conn = g->conf.tls ? tls_accept(g->conf.tls, fd, g->conf.find, g->conf.ctx,
		                                   g->conf.buffer, &err)
		                      : conn_tcp_new(fd, &err);
	if (!s || !s->conn) {
		tell_lacking(g, &err);
		close(fd);
		free(s);
		return;
	}
	s->gate = g;
	s->from = *from;
	s->prev = g->newest;
	*g->newest = s;
	g->newest = &s->next;
	g->count++;
	s->patience = (struct loop_timer){.fn = lost_patience, .ctx = s};
	loop_timer_set(g->conf.loop, &s->patience, clock_ns() + g->conf.patience);
	if (conn_watch(s->conn, g->conf.loop, stranger_ready, s, &err) < 0) {
		drop(s);
		return;
	}
	/* Most have spoken, or have gone, by now: look before others come. */
	s->conn->readable = s->conn->writable = true;
	stranger_ready(s);
}

static void knock(void *ctx, uint32_t events);

static void rested(void *ctx)
{
	struct gate *g = ctx;
	struct err ignored = {0};
	(void)loop_add(g->conf.loop, &g->watch, EPOLLIN, &ignored);
}

/* No descriptor is left, and no stranger to take one from: look again later, not all the time. */
static void rest(struct gate *g)
{
	loop_del(g->conf.loop, &g->watch);
	g->resting = (struct loop_timer){.fn = rested, .ctx = g};
	loop_timer_set(g->conf.loop, &g->resting, clock_ns() + RESTING);
}

static void knock(void *ctx, uint32_t events)
{
	struct gate *g = ctx;
	(void)events;
	for (int i = 0; i < ACCEPTS; i++) { /* the rest at the next turn: others want one too */
		struct addr from = {.len = sizeof from.sa};
		int fd = accept4(g->conf.fd, (struct sockaddr *)&from.sa, &from.len,
		                 SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd >= 0)
			receive_stranger(g, fd, &from);
		else if ((errno == EMFILE || errno == ENFILE || errno == ENOMEM) && g->oldest)
			evict(g, NULL);
		else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) {
			rest(g);
			return;
		} else if (errno != EINTR && errno != ECONNABORTED)
			return;
	}
}

struct gate *gate_open(const struct gate_conf *conf, struct err *err)
{
	struct gate *g = calloc(1, sizeof *g);
	if (!g) {
		err_nomem(err, "a listener", sizeof *g);
		close(conf->fd);
		return NULL;
	}
	g->conf = *conf;
	g->newest = &g->oldest;
	if (!g->conf.patience)
		g->conf.patience = PATIENCE;
	g->watch = (struct loop_watch){.fd = conf->fd, .fn = knock, .ctx = g};
	if (loop_add(conf->loop, &g->watch, EPOLLIN, err) == 0)
		return g;
	close(conf->fd);
	free(g);
	return NULL;
}

void gate_close(struct gate *g)
{
	if (!g)
		return;
	while (g->oldest)
		drop(g->oldest);
	loop_timer_stop(&g->resting);
	loop_del(g->conf.loop, &g->watch);
	close(g->conf.fd);
	free(g);
}

const char *gate_last_refusal(const struct gate *g)
{
	return g->refusal;
}

int gate_local_addr(const struct gate *g, struct addr *out, struct err *err)
{
	out->len = sizeof out->sa;
	if (getsockname(g->conf.fd, (struct sockaddr *)&out->sa, &out->len) < 0)
		return err_errno(err, ERR_OTHER, "getsockname");
	return 0;
}

int greeting_advance(struct greeting *g, struct conn *conn, struct err *err)
{
	if (!g->shaken) {
		int ret = conn_handshake(conn, err);
		if (ret <= 0)
			return ret;
		g->shaken = true;
	}
	while (g->said < GATE_OPENING) {
		ssize_t put = conn_write(conn, g->opening + g->said, GATE_OPENING - g->said, err);
		if (put <= 0)
			return (int)put;
		g->said += (size_t)put;
	}
	return conn_flush(conn, err);
}
