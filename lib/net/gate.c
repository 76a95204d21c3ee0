#include "lib/net/gate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/net/congestion.h"

/* Connections accepted in one turn. A source's limit is more than twice as high, so the first bytes
 * of a connection are read before later connections can evict it. */
#define ACCEPTS      16
#define ACCEPT_PAUSE (100 * NS_PER_MS)
#define SPARED       100 /* the first part of its time in which a connection keeps its descriptor */

struct pending {
	struct gate *gate;
	struct conn *conn;
	struct addr from;
	struct loop_timer patience;
	int64_t since;
	bool protocol_checked; /* the first byte has been looked at */
	bool authenticated;
	uint8_t opening[GATE_OPENING];
	size_t have;
	struct pending *next, **prev; /* oldest first */
};

struct gate {
	struct gate_conf conf;
	struct transport_edge edge;
	const struct transport *transport;
	struct loop_watch watch;
	struct loop_timer resume_timer;
	struct pending *oldest, **newest;
	int count;
	bool accepting, closed; /* closed while it accepts: accepting frees it */
	bool paused;            /* before the last call of accept, for want of descriptors */
	char refusal[GATE_REFUSAL];
};

static void detach(struct pending *p)
{
	loop_timer_stop(&p->patience);
	*p->prev = p->next;
	if (p->next)
		p->next->prev = p->prev;
	else
		p->gate->newest = p->prev;
	p->gate->count--;
}

static void drop(struct pending *p)
{
	detach(p);
	conn_free(p->conn);
	free(p);
}

static void on_patience_over(void *ctx)
{
	drop(ctx);
}

/* If the peer speaks the other protocol (TLS to a plain listener, or the reverse), answer with the
 * one message that both understand, a TLS alert "protocol version": the user learns at once that
 * only one side has --insecure. 1: continue; 0: nothing has arrived; -1: drop. */
static int check_protocol(struct pending *p, struct err *err)
{
	static const uint8_t alert[] = {21, 3, 3, 0, 2, 2, 70};
	uint8_t first;
	const char *why;
	ssize_t got = io_retry(recv(p->conn->fd, &first, 1, MSG_PEEK | MSG_DONTWAIT));
	if (got < 0 && errno == EAGAIN)
		return 0;
	if (got <= 0)
		return -1;
	p->protocol_checked = true;
	why = p->gate->transport->refuse(first);
	if (!why)
		return 1;
	/* Unread bytes at the close would reset the connection, and the alert might be lost. */
	uint8_t unread[4096];
	for (int i = 0; i < 16; i++)
		if (io_retry(recv(p->conn->fd, unread, sizeof unread, MSG_DONTWAIT)) <= 0)
			break;
	(void)io_retry(send(p->conn->fd, alert, sizeof alert, MSG_NOSIGNAL | MSG_DONTWAIT));
	return err_set(err, ERR_AUTH, "%s", why);
}

/* The proof so far that a connection belongs to the job. */
static int progress_of(const struct pending *p)
{
	if (!p->protocol_checked)
		return 0;
	return p->gate->transport->identity && *p->gate->transport->identity(p->conn) ? 2 : 1;
}

/* 1: the opening record is complete; 0: not yet; -1: drop. */
static int read_opening(struct pending *p, struct err *err)
{
	if (!p->protocol_checked) {
		int ret = check_protocol(p, err);
		if (ret <= 0)
			return ret;
	}
	if (!p->authenticated) {
		int ret = conn_handshake(p->conn, err);
		if (ret <= 0)
			return ret;
		p->authenticated = true;
	}
	while (p->have < GATE_OPENING) {
		ssize_t got = conn_read(p->conn, p->opening + p->have, GATE_OPENING - p->have, err);
		if (got <= 0)
			return got < 0 ? -1 : 0;
		p->have += (size_t)got;
	}
	return 1;
}

static void tell_lacking(const struct gate *g, const struct err *err)
{
	if (err->code == ERR_RESOURCE && g->conf.lacking)
		g->conf.lacking(g->conf.ctx, err);
}

static void on_pending_ready(void *ctx)
{
	struct pending *p = ctx;
	struct gate *g = p->gate;
	struct err err = {0};
	int ret = read_opening(p, &err);
	if (ret == 0)
		return;
	if (ret < 0) {
		bool refused = err.code == ERR_AUTH || err.code == ERR_INTEGRITY;
		if (refused && p->protocol_checked && !p->authenticated)
			snprintf(g->refusal, sizeof g->refusal, "%.*s", GATE_REFUSAL - 1, err.text);
		drop(p);
		tell_lacking(g, &err);
		return;
	}
	detach(p);
	p->conn->on_ready = NULL;
	g->conf.admit(g->conf.ctx, p->conn, p->opening, &p->from);
	free(p);
}

/* Does it come from the address @from, with any port? */
static bool same_source(const struct pending *p, const struct addr *from)
{
	struct addr a = p->from, b = *from;
	addr_set_port(&a, 0);
	addr_set_port(&b, 0);
	return a.len == b.len && memcmp(&a.sa, &b.sa, a.len) == 0;
}

/* Make room: of the connections that have been pending since @until or longer, and of those only
 * the ones from @from (NULL: any), drop the one that has proved least, the oldest first. An honest
 * handshake takes milliseconds, so it outlives connections that are silent. False: there is none.
 */
static bool evict(struct gate *g, const struct addr *from, int64_t until)
{
	struct pending *victim = NULL;
	for (struct pending *p = g->oldest; p && p->since <= until; p = p->next)
		if ((!from || same_source(p, from)) &&
		    (!victim || progress_of(p) < progress_of(victim)))
			victim = p;
	if (victim)
		drop(victim);
	return victim;
}

static int from_source(const struct gate *g, const struct addr *from)
{
	int n = 0;
	for (const struct pending *p = g->oldest; p; p = p->next)
		n += same_source(p, from);
	return n;
}

static void add_pending(struct gate *g, int fd, const struct addr *from)
{
	struct err err = {0};
	if (from_source(g, from) >= g->conf.per_source)
		evict(g, from, INT64_MAX); /* at its limit, a source loses one connection */
	else if (g->count >= g->conf.slots)
		evict(g, NULL, INT64_MAX);
	struct pending *p = err_calloc(1, sizeof *p, "a connection", &err);
	if (p)
		p->conn = g->transport->accept(&g->edge, fd, &err);
	if (!p || !p->conn) {
		tell_lacking(g, &err);
		close(fd);
		free(p);
		return;
	}
	p->gate = g;
	p->from = *from;
	p->prev = g->newest;
	*g->newest = p;
	g->newest = &p->next;
	g->count++;
	p->since = clock_ns();
	p->patience = (struct loop_timer){.fn = on_patience_over, .ctx = p};
	loop_timer_set(g->conf.loop, &p->patience, p->since + g->conf.patience);
	if (conn_watch(p->conn, g->conf.loop, on_pending_ready, p, &err) < 0) {
		drop(p);
		tell_lacking(g, &err);
		return;
	}
	/* Most connections have sent bytes, or are gone, by now: read before others arrive. */
	p->conn->readable = p->conn->writable = true;
	on_pending_ready(p);
}

static void on_accept(void *ctx, uint32_t events);

static void resume_accept(void *ctx)
{
	struct gate *g = ctx;
	struct err ignored = {0};
	if (loop_add(g->conf.loop, &g->watch, EPOLLIN, &ignored) < 0) /* the kernel lacks memory */
		loop_timer_set(g->conf.loop, &g->resume_timer, clock_ns() + ACCEPT_PAUSE);
}

/* Accept again after a pause. */
static void pause_accept(struct gate *g)
{
	g->paused = true;
	loop_del(g->conf.loop, &g->watch);
	g->resume_timer = (struct loop_timer){.fn = resume_accept, .ctx = g};
	loop_timer_set(g->conf.loop, &g->resume_timer, clock_ns() + ACCEPT_PAUSE);
}

/* No descriptor is left, as errno says. True: one is free again. */
static bool free_descriptor(struct gate *g)
{
	struct err err = {0};
	err_errno(&err, ERR_RESOURCE, "accept");
	if (g->conf.spare && g->conf.spare(g->conf.ctx))
		return true;
	if (evict(g, NULL, clock_ns() - g->conf.patience / SPARED))
		return true;
	if (g->paused && !g->oldest && g->conf.starved)
		g->conf.starved(g->conf.ctx, &err);
	if (!g->closed)
		pause_accept(g);
	return false;
}

static void accept_some(struct gate *g)
{
	/* The others wait for the next turn, because other sockets need one too. */
	for (int i = 0; i < ACCEPTS && !g->closed; i++) {
		struct addr from = {.len = sizeof from.sa};
		int fd = accept4(g->conf.fd, (struct sockaddr *)&from.sa, &from.len,
		                 SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd >= 0) {
			g->paused = false;
			/* Also of those that came before the gate was opened. */
			if (g->conf.congestion)
				congestion_set(fd, g->conf.congestion);
			else
				congestion_unpace(fd, &from);
			add_pending(g, fd, &from);
		} else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) {
			if (!free_descriptor(g))
				return;
		} else if (errno != EINTR && errno != ECONNABORTED)
			return;
	}
}

static void on_accept(void *ctx, uint32_t events)
{
	struct gate *g = ctx;
	(void)events;
	g->accepting = true;
	accept_some(g);
	g->accepting = false;
	if (g->closed)
		free(g);
}

struct gate *gate_open(const struct gate_conf *conf, struct err *err)
{
	struct gate *g = err_calloc(1, sizeof *g, "a listener", err);
	if (!g) {
		if (!conf->borrowed)
			close(conf->fd);
		return NULL;
	}
	g->conf = *conf;
	g->edge = (struct transport_edge){.tls = conf->tls,
	                                  .maps = conf->maps,
	                                  .buffer = conf->buffer,
	                                  .find = conf->find,
	                                  .ctx = conf->ctx};
	g->transport = transport_of(&g->edge);
	if (conf->congestion)
		congestion_set(conf->fd, conf->congestion);
	g->newest = &g->oldest;
	if (!g->conf.patience)
		g->conf.patience = GATE_PATIENCE;
	g->watch = (struct loop_watch){.fd = conf->fd, .fn = on_accept, .ctx = g};
	if (loop_add(conf->loop, &g->watch, EPOLLIN, err) == 0)
		return g;
	if (!conf->borrowed)
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
	loop_timer_stop(&g->resume_timer);
	loop_del(g->conf.loop, &g->watch);
	if (!g->conf.borrowed)
		close(g->conf.fd);
	g->closed = true;
	if (!g->accepting)
		free(g);
}

const char *gate_identity(const struct gate *g, const struct conn *conn)
{
	return g->transport->identity ? g->transport->identity(conn) : NULL;
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
	if (!g->authenticated) {
		int ret = conn_handshake(conn, err);
		if (ret <= 0)
			return ret;
		g->authenticated = true;
	}
	while (g->sent < GATE_OPENING) {
		ssize_t put = conn_write(conn, g->opening + g->sent, GATE_OPENING - g->sent, err);
		if (put <= 0)
			return (int)put;
		g->sent += (size_t)put;
	}
	return conn_flush(conn, err);
}
