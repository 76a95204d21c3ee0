/*
 * Has the process of a rank ended whose link broke? Every rank keeps its data listener open to its
 * end, so a connection to it is refused, or ends, when the process has ended; a network that is
 * broken refuses nothing. What refuses for less than SETTLES may be something on the way that
 * starts again, such as a tunnel.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/job/coordinator/coord_internal.h"
#include "lib/net/conn.h"

#define SETTLES (1 * NS_PER_SEC)

/* The address of its data listener. False: none is known without asking for a name. */
static bool listener_of(const struct member *m, struct addr *a)
{
	struct err ignored = ERR_INIT;
	struct in6_addr any;
	char host[ADDR_TEXT];
	int port;
	return addr_split(m->intent.data_addr, host, sizeof host, &port, &ignored) == 0 &&
	       (inet_pton(AF_INET, host, &any) == 1 || inet_pton(AF_INET6, host, &any) == 1) &&
	       addr_resolve(a, host, port, false, &ignored) == 0;
}

static void hang_up(struct probe *p)
{
	if (p->watch.fd < 0)
		return;
	loop_del(p->loop, &p->watch);
	close(p->watch.fd);
	p->watch.fd = -1;
}

/* The listener is closed, as it seems. */
static void closed(struct member *m)
{
	struct probe *p = &m->probe;
	const int64_t now = clock_ns();
	if (!p->closed_at)
		p->closed_at = now;
	if (now >= p->closed_at + SETTLES)
		coord_stays_away(m, "lost");
	else
		loop_timer_set(p->loop, &p->timer, p->closed_at + SETTLES);
}

static void on_event(void *ctx, uint32_t events)
{
	struct member *m = ctx;
	struct probe *p = &m->probe;
	struct err ignored = ERR_INIT;
	int error = 0;
	socklen_t len = sizeof error;
	(void)getsockopt(p->watch.fd, SOL_SOCKET, SO_ERROR, &error, &len);
	if (!(events & (EPOLLERR | EPOLLHUP | EPOLLRDHUP))) { /* connected: now wait for the end */
		p->closed_at = 0;
		(void)loop_mod(p->loop, &p->watch, EPOLLRDHUP, &ignored);
		return;
	}
	hang_up(p);
	if (!error || error == ECONNREFUSED || error == ECONNRESET)
		closed(m);
}

static void say_waiting(const struct member *m)
{
	const struct coord *c = m->coord;
	char text[160];
	snprintf(text, sizeof text,
	         "the connection to rank %d broke after its vote: waiting until it connects "
	         "again, at most %g s (twice --timeout)",
	         m->rank, (double)coord_verdict_kept(c) / 1e9);
	if (c->conf.warn && coord_gave_verdict(c))
		c->conf.warn(c->conf.ctx, text);
}

static void dial(struct member *m)
{
	struct probe *p = &m->probe;
	struct err why = ERR_INIT;
	struct addr at;
	p->tried = true;
	loop_timer_set(p->loop, &p->timer, clock_ns() + SETTLES);
	if (!listener_of(m, &at))
		return;
	p->watch = (struct loop_watch){
	        .fd = conn_sock_dial(&at, NULL, &why), .fn = on_event, .ctx = m};
	if (p->watch.fd < 0) {
		if (why.system == ECONNREFUSED)
			closed(m);
	} else if (loop_add(p->loop, &p->watch, EPOLLOUT | EPOLLRDHUP, &why) < 0) {
		close(p->watch.fd);
		p->watch.fd = -1;
	}
}

static void on_timer(void *ctx)
{
	struct member *m = ctx;
	if (m->probe.tried && !m->probe.closed_at)
		say_waiting(m);
	else
		dial(m);
}

void coord_probe(struct member *m)
{
	struct probe *p = &m->probe;
	coord_stop_probe(m);
	p->loop = m->coord->conf.loop;
	p->timer = (struct loop_timer){.fn = on_timer, .ctx = m};
	p->tried = false;
	p->closed_at = 0;
	p->watch.fd = -1;
	loop_timer_set(p->loop, &p->timer, clock_ns()); /* not before the caller has finished */
}

void coord_stop_probe(struct member *m)
{
	if (!m->probe.loop)
		return;
	loop_timer_stop(&m->probe.timer);
	hang_up(&m->probe);
}
