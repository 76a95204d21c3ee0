/* What the product's calls for sockets, eventfd and epoll do. */
#include "tests/sim/net.h"
#include "tests/sim/wrap.h"

#include <arpa/inet.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <sys/ioctl.h>

#define FD_BASE (1 << 20)

struct net_conf net;
struct sock *socks[SOCKS_MOST];
int nsocks;

void net_begin(void)
{
	memset(socks, 0, sizeof socks);
	memset(&net, 0, sizeof net);
	net.send_most = net.receive_most = 256 << 10;
	nsocks = 0;
	links_begin();
	talks_begin();
}

/* ---- events of sockets ---- */

void sock_event(struct sock *s)
{
	for (struct item *i = s ? s->items : NULL; i; i = i->next_of_sock) {
		i->edge = true;
		if (i->epoll->waiter)
			task_wake(i->epoll->waiter);
	}
}

void sock_signal(struct sock *s)
{
	sock_event(s);
}

static uint32_t state_of(const struct sock *s)
{
	const struct end *e = s->end;
	switch (s->kind) {
	case SOCK_LISTENS:
		return s->nbacklog ? EPOLLIN : 0;
	case SOCK_EVENT:
		return s->counter ? EPOLLIN : 0;
	case SOCK_SIGNAL:
		return s->proc->signals ? EPOLLIN : 0;
	case SOCK_EPOLL:
		return 0;
	case SOCK_TALKS:
		break;
	}
	uint32_t state = 0;
	if (!e)
		return EPOLLOUT | EPOLLHUP;
	if (e->in_len || e->in_ended || e->dead)
		state |= EPOLLIN;
	if (e->in_ended || e->dead)
		state |= EPOLLRDHUP;
	if (e->dead || (e->in_ended && e->out_ended))
		state |= EPOLLHUP;
	if (e->error)
		state |= EPOLLERR;
	if (e->dead || (e->connected && (room_of(e) || e->out_ended)))
		state |= EPOLLOUT;
	return state;
}

/* ---- descriptors ---- */

struct sock *sock_of(int fd)
{
	int i = fd - FD_BASE;
	return i >= 0 && i < nsocks ? socks[i] : NULL;
}

struct sock *listener_at(int host, int port)
{
	for (int i = 0; i < nsocks; i++) {
		struct sock *s = socks[i];
		if (s && s->kind == SOCK_LISTENS && s->proc->host == host && s->port == port)
			return s;
	}
	return NULL;
}

static struct sock *sock_new(enum kind kind)
{
	int i = 0;
	while (i < nsocks && socks[i])
		i++;
	if (i == SOCKS_MOST)
		abort();
	if (i == nsocks)
		nsocks++;
	struct sock *s = world_alloc(sizeof *s);
	s->kind = kind;
	s->proc = current;
	s->fd = FD_BASE + i;
	socks[i] = s;
	return s;
}

static void unwatch(struct item *i)
{
	struct item **p = &i->epoll->watched;
	while (*p != i)
		p = &(*p)->next_watched;
	*p = i->next_watched;
	p = &i->sock->items;
	while (*p != i)
		p = &(*p)->next_of_sock;
	*p = i->next_of_sock;
}

void sock_close(struct sock *s)
{
	while (s->items)
		unwatch(s->items);
	while (s->watched)
		unwatch(s->watched);
	if (s->kind == SOCK_TALKS && s->end)
		close_end(s->end);
	for (int i = 0; s->kind == SOCK_LISTENS && i < s->nbacklog; i++) {
		struct end *e = &s->backlog[i]->ends[1];
		if (!e->dead)
			send_segment(e, RST, NULL, 0);
		e->dead = true;
	}
	if (s->kind == SOCK_SIGNAL)
		s->proc->signalfd = NULL;
	socks[s->fd - FD_BASE] = NULL;
}

void net_end_proc(struct proc *p)
{
	for (int i = 0; i < nsocks; i++)
		if (socks[i] && socks[i]->proc == p)
			sock_close(socks[i]);
}

/* ---- the calls ---- */

static int host_of(uint32_t ip)
{
	if (ip >> 24 == 127)
		return -1;
	int host = (int)(ip - 0x0a000001u);
	return host >= 0 && host < HOSTS_MOST ? host : -2;
}

static uint32_t ip_of(int host)
{
	return 0x0a000001u + (uint32_t)host;
}

static int fail(int error)
{
	errno = error;
	return -1;
}

int __wrap_socket(int family, int type, int protocol)
{
	if (!current)
		return __real_socket(family, type, protocol);
	step();
	if (family != AF_INET)
		return fail(EAFNOSUPPORT);
	return sock_new(SOCK_TALKS)->fd;
}

int __wrap_bind(int fd, const struct sockaddr *a, socklen_t len)
{
	struct sock *s = sock_of(fd);
	const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)a;
	if (!current)
		return __real_bind(fd, a, len);
	step();
	uint32_t ip = ntohl(in->sin_addr.s_addr);
	int host = host_of(ip), port = ntohs(in->sin_port);
	if (ip && host != -1 && host != s->proc->host)
		return fail(EADDRNOTAVAIL);
	if (port && listener_at(s->proc->host, port))
		return fail(EADDRINUSE);
	s->ip = ip;
	s->port = port ? port : free_port();
	return 0;
}

int __wrap_listen(int fd, int backlog)
{
	struct sock *s = sock_of(fd);
	if (!current)
		return __real_listen(fd, backlog);
	step();
	if (listener_at(s->proc->host, s->port))
		return fail(EADDRINUSE);
	s->kind = SOCK_LISTENS;
	return 0;
}

static int put_address(struct sockaddr *a, socklen_t *len, uint32_t ip, int port)
{
	struct sockaddr_in in = {.sin_family = AF_INET,
	                         .sin_addr.s_addr = htonl(ip),
	                         .sin_port = htons((uint16_t)port)};
	memcpy(a, &in, sizeof in < *len ? sizeof in : *len);
	*len = sizeof in;
	return 0;
}

int __wrap_accept4(int fd, struct sockaddr *a, socklen_t *len, int flags)
{
	struct sock *s = sock_of(fd);
	if (!current)
		return __real_accept4(fd, a, len, flags);
	step();
	if (!s->nbacklog)
		return fail(EAGAIN);
	struct talk *t = s->backlog[0];
	memmove(s->backlog, s->backlog + 1, (size_t)--s->nbacklog * sizeof *s->backlog);
	struct sock *n = sock_new(SOCK_TALKS);
	n->end = &t->ends[1];
	n->port = s->port;
	t->ends[1].sock = n;
	if (a)
		put_address(a, len, ip_of(t->ends[0].host), t->ends[0].port);
	return n->fd;
}

int __wrap_connect(int fd, const struct sockaddr *a, socklen_t len)
{
	struct sock *s = sock_of(fd);
	const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)a;
	if (!current)
		return __real_connect(fd, a, len);
	step();
	if (s->end)
		return fail(s->end->connected ? EISCONN : EALREADY);
	int host = host_of(ntohl(in->sin_addr.s_addr));
	if (host == -1)
		host = s->proc->host;
	if (host < 0)
		return fail(ENETUNREACH);
	s->port = s->port ? s->port : free_port();
	struct talk *t = talk_new(s->proc->host, s->port, host, ntohs(in->sin_port));
	for (const struct talk *b = t->next; b; b = b->next)
		s->proc->redialled |= b->dialler == s->proc && b->ends[0].connected &&
		                      b->ends[1].host == host && b->ends[1].port == t->ends[1].port;
	t->dialler = s->proc;
	s->end = t->ends;
	s->end->sock = s;
	send_segment(s->end, SYN, NULL, 0);
	return fail(EINPROGRESS);
}

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
	struct sock *s = sock_of(fd);
	if (!current)
		return __real_getsockopt(fd, level, name, value, len);
	step();
	struct end *e = s->end;
	if (level == SOL_SOCKET && name == SO_ERROR) {
		*(int *)value = e ? e->error : 0;
		if (e)
			e->error = 0;
		return 0;
	}
	if (level != IPPROTO_TCP || name != TCP_INFO)
		return fail(ENOPROTOOPT);
	struct tcp_info info = {0};
	if (e) {
		const struct end *peer = &e->talk->ends[e == e->talk->ends];
		const struct link *l = &links[e->host][peer->host],
		                  *k = &links[peer->host][e->host];
		info.tcpi_rtt = (uint32_t)((l->least + k->least + l->most + k->most) / 2 / US);
		info.tcpi_rttvar = (uint32_t)((l->most - l->least) / US);
		info.tcpi_unacked = (uint32_t)(unacked(e) + 1399) / 1400;
		info.tcpi_retransmits = unacked(e) && now - e->out.unacked_since >
		                                              200 * MS + 2 * (l->most + k->most);
	}
	memcpy(value, &info, sizeof info < *len ? sizeof info : *len);
	return 0;
}

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	if (!current)
		return __real_setsockopt(fd, level, name, value, len);
	step();
	return 0;
}

int __wrap_getsockname(int fd, struct sockaddr *a, socklen_t *len)
{
	struct sock *s = sock_of(fd);
	if (!current)
		return __real_getsockname(fd, a, len);
	if (!s)
		return fail(EBADF);
	return put_address(a, len, s->kind == SOCK_LISTENS ? s->ip : ip_of(s->proc->host), s->port);
}

int __wrap_getpeername(int fd, struct sockaddr *a, socklen_t *len)
{
	struct sock *s = sock_of(fd);
	if (!current)
		return __real_getpeername(fd, a, len);
	if (!s || !s->end || !s->end->connected)
		return fail(ENOTCONN);
	const struct end *peer = &s->end->talk->ends[s->end == s->end->talk->ends];
	return put_address(a, len, ip_of(peer->host), peer->port);
}

static size_t shortened(size_t n)
{
	return n > 1 && rng_chance(&net_rng, net.short_io) ? 1 + rng_below(&net_rng, n) : n;
}

static void window_opened(void *arg, uint64_t b)
{
	struct end *e = arg;
	(void)b;
	if (!e->dead && room_of(e) && e->wants_room) {
		e->wants_room = false;
		sock_event(e->sock);
	}
}

static void readable_again(void *arg, uint64_t b)
{
	struct end *e = arg;
	(void)b;
	sock_event(e->sock);
}

static ssize_t receive(struct end *e, const struct iovec *iov, int n, int flags)
{
	size_t got = 0;
	step();
	if (!e)
		return fail(ENOTCONN);
	if (!e->in_len && e->error) {
		int error = e->error;
		e->error = 0;
		return fail(error);
	}
	if (!e->in_len && (e->in_ended || e->dead))
		return 0;
	if (!e->in_len)
		return fail(EAGAIN);
	size_t had = e->in_len, limit = shortened(had);
	for (int i = 0; i < n && limit; i++) {
		size_t part = iov[i].iov_len < limit ? iov[i].iov_len : limit;
		memcpy(iov[i].iov_base, e->in + e->in_at, part);
		e->in_at += part;
		e->in_len -= part;
		limit -= part;
		got += part;
	}
	if (flags & MSG_PEEK) {
		e->in_at -= got;
		e->in_len += got;
		return (ssize_t)got;
	}
	struct end *peer = &e->talk->ends[e == e->talk->ends];
	if (e == &e->talk->ends[1])
		overheard(e->talk);
	if (peer->wants_room)
		link_send(e->host, peer->host, window_opened, peer, 0);
	if (e->in_len) /* perhaps a short read for no reason: it gets its edge soon */
		link_send(e->host, e->host, readable_again, e, 0);
	else
		e->in_at = 0;
	return (ssize_t)got;
}

static ssize_t transmit(struct end *e, const struct iovec *iov, size_t n)
{
	size_t all = 0, done = 0;
	step();
	if (!e)
		return fail(ENOTCONN);
	if (e->error) {
		int error = e->error;
		e->error = 0;
		return fail(error);
	}
	if (e->dead || e->out_ended)
		return fail(EPIPE);
	for (size_t i = 0; i < n; i++)
		all += iov[i].iov_len;
	size_t room = e->connected ? room_of(e) : 0;
	if (!room) {
		e->wants_room = true;
		return fail(EAGAIN);
	}
	size_t take = shortened(all < room ? all : room);
	uint8_t *flat = world_alloc(take + 1);
	for (size_t i = 0; i < n && done < take; i++) {
		size_t part = iov[i].iov_len < take - done ? iov[i].iov_len : take - done;
		memcpy(flat + done, iov[i].iov_base, part);
		done += part;
	}
	struct talk *t = e->talk;
	if (e == t->ends && t->opening_len < OPENING) {
		size_t more = OPENING - t->opening_len < take ? OPENING - t->opening_len : take;
		memcpy(t->opening + t->opening_len, flat, more);
		t->opening_len += more;
	}
	send_segment(e, DATA, flat, take);
	if (e == &t->ends[1] && !t->answered) {
		t->answered = true;
		if (is_lane(t) && !was_dialled_before(t))
			break_new_lane(t->number);
	}
	if (take < all) {
		e->wants_room = true; /* a short write for no reason gets its edge soon */
		if (room_of(e))
			link_send(e->host, e->host, window_opened, e, 0);
	}
	return (ssize_t)take;
}

ssize_t __wrap_recv(int fd, void *buf, size_t n, int flags)
{
	struct iovec iov = {buf, n};
	return current ? receive(sock_of(fd)->end, &iov, 1, flags) : __real_recv(fd, buf, n, flags);
}

ssize_t __wrap_readv(int fd, const struct iovec *iov, int n)
{
	return current ? receive(sock_of(fd)->end, iov, n, 0) : __real_readv(fd, iov, n);
}

ssize_t __wrap_send(int fd, const void *buf, size_t n, int flags)
{
	struct iovec iov = {(void *)buf, n};
	return current ? transmit(sock_of(fd)->end, &iov, 1) : __real_send(fd, buf, n, flags);
}

ssize_t __wrap_writev(int fd, const struct iovec *iov, int n)
{
	return current ? transmit(sock_of(fd)->end, iov, (size_t)n) : __real_writev(fd, iov, n);
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	return current ? transmit(sock_of(fd)->end, msg->msg_iov, msg->msg_iovlen)
	               : __real_sendmsg(fd, msg, flags);
}

int __wrap_shutdown(int fd, int how)
{
	struct sock *s = sock_of(fd);
	if (!current)
		return __real_shutdown(fd, how);
	step();
	struct end *e = s->end;
	if (!e || !e->connected || e->dead)
		return fail(ENOTCONN);
	if (how != SHUT_WR) {
		e->in_ended = true;
		sock_event(s);
	}
	if (how != SHUT_RD && !e->out_ended) {
		e->out_ended = true;
		send_segment(e, FIN, NULL, 0);
	}
	return 0;
}

int __wrap_ioctl(int fd, unsigned long request, ...)
{
	struct sock *s = sock_of(fd);
	va_list ap;
	va_start(ap, request);
	void *arg = va_arg(ap, void *);
	va_end(ap);
	if (!current || !s)
		return __real_ioctl(fd, request, arg);
	step();
	if (request != SIOCOUTQ || !s->end)
		return fail(EINVAL);
	*(int *)arg = (int)unacked(s->end);
	return 0;
}

int __wrap_eventfd(unsigned initial, int flags)
{
	if (!current)
		return __real_eventfd(initial, flags);
	step();
	struct sock *s = sock_new(SOCK_EVENT);
	s->counter = initial;
	return s->fd;
}

int __wrap_signalfd(int fd, const sigset_t *set, int flags)
{
	if (!current)
		return __real_signalfd(fd, set, flags);
	step();
	struct sock *s = sock_new(SOCK_SIGNAL);
	current->signalfd = s;
	return s->fd;
}

ssize_t sock_read(struct sock *s, void *buf, size_t n)
{
	struct iovec iov = {buf, n};
	if (s->kind == SOCK_EVENT) {
		step();
		if (!s->counter)
			return fail(EAGAIN);
		memcpy(buf, &s->counter, 8);
		s->counter = 0;
		return 8;
	}
	if (s->kind == SOCK_SIGNAL) {
		step();
		if (!s->proc->signals)
			return fail(EAGAIN);
		unsigned sig = (unsigned)__builtin_ctz(s->proc->signals);
		s->proc->signals &= ~(1u << sig);
		memset(buf, 0, n);
		memcpy(buf, &sig, sizeof sig); /* ssi_signo is the first member */
		return (ssize_t)n;
	}
	return receive(s->end, &iov, 1, 0);
}

ssize_t sock_write(struct sock *s, const void *buf, size_t n)
{
	struct iovec iov = {(void *)buf, n};
	uint64_t more;
	if (s->kind != SOCK_EVENT)
		return transmit(s->end, &iov, 1);
	step();
	memcpy(&more, buf, 8);
	s->counter += more;
	sock_event(s);
	return 8;
}

/* ---- epoll ---- */

int __wrap_epoll_create1(int flags)
{
	if (!current)
		return __real_epoll_create1(flags);
	step();
	return sock_new(SOCK_EPOLL)->fd;
}

int __wrap_epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	struct sock *ep = sock_of(epfd), *s = sock_of(fd);
	struct item *i;
	if (!current)
		return __real_epoll_ctl(epfd, op, fd, event);
	step();
	if (!s)
		return fail(EBADF);
	for (i = s->items; i && i->epoll != ep; i = i->next_of_sock)
		;
	if (op == EPOLL_CTL_ADD ? i != NULL : i == NULL)
		return fail(i ? EEXIST : ENOENT);
	if (op == EPOLL_CTL_DEL) {
		unwatch(i);
		return 0;
	}
	if (!i) {
		i = world_alloc(sizeof *i);
		i->epoll = ep;
		i->sock = s;
		i->next_of_sock = s->items;
		s->items = i;
		i->next_watched = ep->watched;
		ep->watched = i;
	}
	i->event = *event;
	i->edge = true;
	return 0;
}

void net_wake(const struct proc *p)
{
	for (int i = 0; i < nsocks; i++)
		if (socks[i] && socks[i]->proc == p && socks[i]->waiter)
			task_wake(socks[i]->waiter);
}

/* Those that are ready come in any order. */
static int collect(struct sock *ep, struct epoll_event *events, int most)
{
	int n = 0;
	for (struct item *i = ep->watched; i && n < most; i = i->next_watched) {
		if (!i->edge)
			continue;
		uint32_t state = state_of(i->sock) & (i->event.events | EPOLLERR | EPOLLHUP);
		i->edge = state && !(i->event.events & EPOLLET);
		if (!state)
			continue;
		events[n] = i->event;
		events[n++].events = state;
	}
	for (int i = n - 1; i > 0; i--) {
		int k = (int)rng_below(&net_rng, (uint64_t)i + 1);
		struct epoll_event e = events[i];
		events[i] = events[k];
		events[k] = e;
	}
	return n;
}

int __wrap_epoll_wait(int epfd, struct epoll_event *events, int most, int ms)
{
	struct sock *ep = sock_of(epfd);
	if (!current)
		return __real_epoll_wait(epfd, events, most, ms);
	int64_t until = ms < 0 ? NEVER : now + ms * MS;
	step_and_yield();
	for (;;) {
		insider_turn();
		int n = collect(ep, events, most);
		if (n || now >= until)
			return n;
		ep->waiter = task_current();
		task_wait(until);
		ep->waiter = NULL;
	}
}
