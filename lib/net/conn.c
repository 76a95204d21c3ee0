#include "lib/net/conn.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/net/addr.h"
#include "lib/net/congestion.h"
#include "lib/net/pacer.h"

#define EVENTS (EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET)

static void conn_event(void *ctx, uint32_t events)
{
	struct conn *c = ctx;
	if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		c->hung_up = true;
	if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		c->readable = true;
	if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
		c->writable = true;
	if (c->on_ready)
		c->on_ready(c->ctx);
}

int conn_watch(struct conn *c, struct loop *loop, void (*on_ready)(void *ctx), void *ctx,
               struct err *err)
{
	c->on_ready = on_ready;
	c->ctx = ctx;
	if (c->fd < 0)
		return 0;
	if (c->loop) /* the former owner may have consumed the edge events */
		return loop_mod(loop, &c->watch, EVENTS, err);
	c->watch = (struct loop_watch){.fd = c->fd, .fn = conn_event, .ctx = c};
	if (loop_add(loop, &c->watch, EVENTS, err) < 0)
		return -1;
	c->loop = loop;
	if (c->poll.fn)
		loop_poll_add(loop, &c->poll);
	return 0;
}

static void on_again(void *ctx)
{
	struct conn *c = ctx;
	if (c->on_ready)
		c->on_ready(c->ctx);
}

void conn_again(struct conn *c)
{
	c->again.fn = on_again;
	c->again.ctx = c;
	if (c->loop)
		loop_timer_set(c->loop, &c->again, clock_ns());
}

void conn_unwatch(struct conn *c)
{
	if (!c->loop)
		return;
	loop_timer_stop(&c->again);
	loop_poll_del(c->loop, &c->poll);
	loop_del(c->loop, &c->watch);
	c->loop = NULL;
}

void conn_free(struct conn *c)
{
	if (!c)
		return;
	pacer_forget(c);
	conn_unwatch(c);
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	c->ops->free(c);
}

static size_t iov_total(const struct iovec *iov, int n)
{
	size_t total = 0;
	for (int i = 0; i < n; i++)
		total += iov[i].iov_len;
	return total;
}

static int lost(struct err *err)
{
	if (errno == ECONNRESET || errno == EPIPE)
		return err_set(err, ERR_PEER_LOST, "connection reset");
	return err_errno(err, ERR_PEER_LOST, "the connection was lost");
}

/* A system call of @c began at @from; errno stays. */
static void count_system(struct conn *c, int64_t from)
{
	if (c->timed)
		c->system_ns += clock_ns() - from;
}

ssize_t conn_sock_readv(struct conn *c, struct iovec *iov, int n, struct err *err)
{
	ssize_t got;
	if (!c->readable)
		return 0;
	int64_t from = c->timed ? clock_ns() : 0;
	do
		got = n == 1 ? recv(c->fd, iov->iov_base, iov->iov_len, 0) : readv(c->fd, iov, n);
	while (got < 0 && errno == EINTR);
	count_system(c, from);
	if (got == 0)
		return CONN_END;
	if (got < 0) {
		if (errno != EAGAIN)
			return lost(err);
		c->readable = false;
		return 0;
	}
	/* A short read means that no more bytes are there, and the next byte causes an edge event.
	 * The end of the stream has caused its own. */
	if ((size_t)got < iov_total(iov, n) && c->loop && !c->hung_up)
		c->readable = false;
	c->wire_in += (uint64_t)got;
	return got;
}

ssize_t conn_sock_writev(struct conn *c, const struct iovec *iov, int n, struct err *err)
{
	size_t total = iov_total(iov, n), most = total;
	struct iovec part[2] = {iov[0], n > 1 ? iov[1] : (struct iovec){0}};
	struct msghdr msg = {.msg_iov = part, .msg_iovlen = (size_t)n};
	ssize_t put;
	if (!c->writable)
		return 0;
	if (c->pace.by) {
		most = pacer_allows(c, total);
		if (most < part[0].iov_len)
			part[0].iov_len = most;
		if (most - part[0].iov_len < part[1].iov_len)
			part[1].iov_len = most - part[0].iov_len;
		c->writable = most > 0;
	}
	if (!c->writable)
		return 0;
	int64_t from = c->timed ? clock_ns() : 0;
	do
		put = sendmsg(c->fd, &msg, MSG_NOSIGNAL);
	while (put < 0 && errno == EINTR);
	count_system(c, from);
	if (put < 0) {
		if (errno != EAGAIN && errno != ENOTCONN)
			return lost(err);
		c->writable = false;
		return 0;
	}
	if ((size_t)put < total)
		c->writable = false;
	if (c->pace.by)
		pacer_sent(c, (size_t)put, (size_t)put == most && most < total);
	conn_count_out(c, (uint64_t)put);
	return put;
}

/* What the kernel knows; zeros if it is no TCP connection. */
static struct tcp_info tcp_info_of(const struct conn *c)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof info;
	if (c->fd >= 0)
		(void)getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &info, &len);
	return info;
}

int64_t conn_round_trip(const struct conn *c)
{
	const struct tcp_info info = tcp_info_of(c);
	/* The kernel gives microseconds. */
	return ((int64_t)info.tcpi_rtt + 4 * (int64_t)info.tcpi_rttvar) * 1000;
}

int64_t conn_least_round_trip(const struct conn *c)
{
	const struct tcp_info info = tcp_info_of(c);
	/* Without a sample it is the largest value. */
	return info.tcpi_min_rtt == UINT32_MAX ? 0 : (int64_t)info.tcpi_min_rtt * 1000;
}

bool conn_unanswered(const struct conn *c)
{
	const struct tcp_info info = tcp_info_of(c);
	return info.tcpi_unacked && info.tcpi_retransmits;
}

int conn_sock_connected(struct conn *c, struct err *err)
{
	int error = 0, one = 1;
	socklen_t len = sizeof error;
	if (!c->writable)
		return 0;
	if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		error = errno;
	if (error) {
		c->connected = error == ECONNRESET || error == EPIPE; /* and it has broken */
		errno = error;
		return err_errno(err, ERR_PEER_LOST, "connect");
	}
	(void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	c->connected = true;
	return 1;
}

void conn_sock_end(struct conn *c)
{
	(void)shutdown(c->fd, SHUT_WR); /* if the connection is lost by now, the reader finds out */
}

void conn_sock_drain(struct conn *c)
{
	uint8_t unread[4096];
	for (int i = 0; i < 64; i++)
		if (recv(c->fd, unread, sizeof unread, MSG_DONTWAIT) <= 0)
			break;
}

int conn_sock_dial(const struct addr *to, const char *congestion, struct err *err)
{
	int fd = socket(to->sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_errno(err, ERR_RESOURCE, "socket");
	if (congestion)
		congestion_set(fd, congestion);
	/* An interrupted connect continues: the next call reports its result. */
	if (io_retry(connect(fd, (const struct sockaddr *)&to->sa, to->len)) == 0 ||
	    errno == EINPROGRESS || errno == EALREADY || errno == EISCONN) {
		if (!congestion)
			congestion_unpace(fd, to);
		return fd;
	}
	char text[ADDR_TEXT];
	err_errno(err, ERR_PEER_LOST, "%s", addr_text(to, true, text));
	close(fd);
	return -1;
}
