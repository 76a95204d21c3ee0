/*
 * Hosts, links, sockets and epoll. A connection has a queue of segments each way; each arrives when
 * its link lets it, in order within its direction and in any order beside others. What arrives is
 * acknowledged by the peer's host over the way back.
 */
#include "tests/sim/sim.h"
#include "tests/sim/wrap.h"

#include <arpa/inet.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <sys/ioctl.h>

#define FD_BASE      (1 << 20)
#define SOCKS_MOST   8192
#define OPENING_READ 84  /* bytes of a HELLO in its frame: it has been seen */
#define OPENING      256 /* first bytes of a connection that a stranger may repeat */

enum kind { SOCK_LISTENS, SOCK_TALKS, SOCK_EPOLL, SOCK_EVENT, SOCK_SIGNAL };

enum what { SYN, SYN_ACK, DATA, FIN, RST };

struct segment {
	enum what what;
	size_t len;
	uint64_t ack; /* what its sender had received */
	struct segment *next;
	uint8_t data[];
};

/* One direction of a connection, seen from its sender. */
struct way {
	struct segment *first, **last; /* on the wire */
	size_t flying;                 /* bytes on the wire */
	uint64_t sent, acked;          /* bytes since the beginning */
	int64_t unacked_since;
	int64_t arrives; /* the last segment */
};

struct end {
	struct sock *sock; /* NULL: the process has closed it */
	struct talk *talk;
	int host, port;
	struct way out;
	uint8_t *in; /* what has arrived and was not read */
	size_t in_len, in_cap, in_at;
	uint64_t received;
	bool connected, in_ended, out_ended, wants_room;
	bool dead; /* reset, or refused */
	int error; /* told once */
};

struct talk {
	struct end ends[2];         /* the dialler's first */
	const struct proc *dialler; /* NULL: a stranger */
	int number;
	struct talk *next;
	uint8_t opening[OPENING];
	size_t opening_len;
	bool strange, repeated;
};

struct sock {
	enum kind kind;
	struct proc *proc;
	int fd, port;
	uint32_t ip; /* 0: any */
	struct end *end;
	struct talk *backlog[64];
	int nbacklog;
	uint64_t counter; /* of an eventfd */
	struct item *items;
	/* epoll */
	struct item *watched;
	struct task *waiter;
};

struct item {
	struct sock *epoll, *sock;
	struct epoll_event event;
	bool edge;
	struct item *next_watched, *next_of_sock;
};

struct held {
	void (*fn)(void *a, uint64_t b);
	void *a;
	uint64_t b;
	struct held *next;
};

struct link links[HOSTS_MOST][HOSTS_MOST];
struct net_conf net;

static struct sock *socks[SOCKS_MOST];
static int nsocks;
static struct talk *talks;
static int ntalks;
static bool host_dead[HOSTS_MOST];
static int next_port;
static struct {
	int port;
	enum stranger how;
} stranger;

void net_begin(void)
{
	memset(links, 0, sizeof links);
	memset(socks, 0, sizeof socks);
	memset(host_dead, 0, sizeof host_dead);
	memset(&net, 0, sizeof net);
	memset(&stranger, 0, sizeof stranger);
	net.send_most = net.receive_most = 256 << 10;
	nsocks = ntalks = 0;
	talks = NULL;
	next_port = 32768 + (int)rng_below(&net_rng, 20000);
	for (int i = 0; i < HOSTS_MOST; i++)
		for (int k = 0; k < HOSTS_MOST; k++) {
			links[i][k].held_end = &links[i][k].held;
			links[i][k].least = i == k ? 5 * US : 30 * US;
			links[i][k].most = i == k ? 20 * US : 90 * US;
		}
}

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

/* ---- links ---- */

int64_t link_latency(int from, int to)
{
	const struct link *l = &links[from][to];
	int64_t t = rng_range(&net_rng, l->least, l->most);
	return rng_chance(&net_rng, l->tail) ? t + rng_scale(&net_rng, t, 200 * t) : t;
}

static void hold(struct link *l, void (*fn)(void *a, uint64_t b), void *a, uint64_t b)
{
	struct held *h = world_alloc(sizeof *h);
	*h = (struct held){fn, a, b, NULL};
	*l->held_end = h;
	l->held_end = &h->next;
}

struct packet {
	int from, to;
	void (*fn)(void *a, uint64_t b);
	void *a;
	uint64_t b;
};

static void arrive(void *arg, uint64_t b)
{
	struct packet *p = arg;
	(void)b;
	if (links[p->from][p->to].blocked)
		hold(&links[p->from][p->to], arrive, p, 0);
	else if (!host_dead[p->from] && !host_dead[p->to])
		p->fn(p->a, p->b);
}

static void send_at(int64_t when, int from, int to, void (*fn)(void *a, uint64_t b), void *a,
                    uint64_t b)
{
	struct packet *p = world_alloc(sizeof *p);
	*p = (struct packet){from, to, fn, a, b};
	at(when, arrive, p, 0);
}

void link_send(int from, int to, void (*fn)(void *a, uint64_t b), void *a, uint64_t b)
{
	send_at(now + link_latency(from, to), from, to, fn, a, b);
}

void link_block(int from, int to)
{
	if (from == to)
		return;
	note("block", from, to);
	links[from][to].blocked++;
}

/* What it held is sent again after a while, as TCP does. */
void link_release(int from, int to)
{
	struct link *l = &links[from][to];
	if (from == to || --l->blocked)
		return;
	note("release", from, to);
	struct held *h = l->held;
	l->held = NULL;
	l->held_end = &l->held;
	int64_t when = now + rng_scale(&net_rng, 100 * US, 200 * MS);
	for (; h; h = h->next, when += rng_range(&net_rng, 0, 20 * US))
		at(when, h->fn, h->a, h->b);
}

/* ---- events of sockets ---- */

static void sock_event(struct sock *s)
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

static size_t unacked(const struct end *e)
{
	return e->dead ? 0 : (size_t)(e->out.sent - e->out.acked);
}

static size_t room_of(const struct end *e)
{
	const struct end *peer = &e->talk->ends[e == e->talk->ends];
	size_t there = peer->in_len + e->out.flying;
	size_t sending = net.send_most > unacked(e) ? net.send_most - unacked(e) : 0;
	size_t receiving = net.receive_most > there ? net.receive_most - there : 0;
	return sending < receiving ? sending : receiving;
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

/* ---- segments ---- */

static void send_segment(struct end *e, enum what what, const void *data, size_t len);

static struct sock *listener_at(int host, int port)
{
	for (int i = 0; i < nsocks; i++) {
		struct sock *s = socks[i];
		if (s && s->kind == SOCK_LISTENS && s->proc->host == host && s->port == port)
			return s;
	}
	return NULL;
}

static void stranger_hears(struct end *e)
{
	static const char words[] = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";
	if (stranger.how == STRANGER_TALKS)
		send_segment(e, DATA, words, sizeof words - 1);
	if (stranger.how != STRANGER_SILENT && !e->out_ended) {
		e->out_ended = true;
		send_segment(e, FIN, NULL, 0);
	}
}

static void arrives_syn(struct end *e)
{
	struct end *there = &e->talk->ends[1];
	struct sock *s = listener_at(there->host, there->port);
	bool strange = there->host == STRANGER_HOST && stranger.how && stranger.port == there->port;
	if ((!s || s->nbacklog == 64) && !strange) {
		there->dead = true;
		send_segment(there, RST, NULL, 0);
		return;
	}
	there->connected = true;
	send_segment(there, SYN_ACK, NULL, 0);
	if (strange) {
		stranger_hears(there);
		return;
	}
	s->backlog[s->nbacklog++] = e->talk;
	sock_event(s);
}

static void die(struct end *e, int error)
{
	if (e->dead)
		return;
	e->dead = true;
	e->error = error;
	sock_event(e->sock);
}

static void acknowledged(void *arg, uint64_t all)
{
	struct end *e = arg;
	bool had = room_of(e) > 0;
	if (e->dead || all <= e->out.acked)
		return;
	e->out.acked = all;
	e->out.unacked_since = now;
	if (!had && room_of(e) && e->wants_room) {
		e->wants_room = false;
		sock_event(e->sock);
	}
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

static void take_data(struct end *to, const struct segment *g)
{
	if (to->in_at + to->in_len + g->len > to->in_cap) {
		size_t cap = to->in_len + g->len + 4096;
		uint8_t *in = world_alloc(cap);
		if (to->in_len)
			memcpy(in, to->in + to->in_at, to->in_len);
		to->in = in;
		to->in_at = 0;
		to->in_cap = cap;
	}
	memcpy(to->in + to->in_at + to->in_len, g->data, g->len);
	to->in_len += g->len;
	if (rng_below(&net_rng, 1000000) < net.flips) {
		net.struck = true;
		to->in[to->in_at + to->in_len - 1 - rng_below(&net_rng, g->len)] ^=
		        (uint8_t)(1u << rng_below(&net_rng, 8));
	}
}

static void arrives(void *arg, uint64_t b)
{
	struct end *from = arg, *to = &from->talk->ends[from == from->talk->ends];
	struct segment *g = from->out.first;
	(void)b;
	from->out.first = g->next;
	if (!g->next)
		from->out.last = &from->out.first;
	from->out.flying -= g->len;
	note("arrives", from->talk->number * 16 + (from != from->talk->ends) * 8 + (int)g->what,
	     (int64_t)g->len);
	if (g->what == RST) {
		bool refused = !to->connected;
		die(to, refused ? ECONNREFUSED : ECONNRESET);
		return;
	}
	if (to->dead)
		return;
	acknowledged(to, g->ack);
	switch (g->what) {
	case SYN:
		arrives_syn(from);
		return;
	case SYN_ACK:
		to->connected = true;
		sock_event(to->sock);
		return;
	case DATA:
		to->received += g->len;
		link_send(to->host, from->host, acknowledged, from, to->received);
		if (!to->sock && to->out_ended && to->host != STRANGER_HOST) {
			to->dead = true; /* closed: nobody reads it */
			send_segment(to, RST, NULL, 0);
			return;
		}
		take_data(to, g);
		sock_event(to->sock);
		return;
	case FIN:
		to->in_ended = true;
		sock_event(to->sock);
		return;
	case RST:
		return;
	}
}

static void send_segment(struct end *e, enum what what, const void *data, size_t len)
{
	struct end *to = &e->talk->ends[e == e->talk->ends];
	struct segment *g = world_alloc(sizeof *g + len);
	g->what = what;
	g->len = len;
	g->ack = e->received;
	if (len)
		memcpy(g->data, data, len);
	*e->out.last = g;
	e->out.last = &g->next;
	e->out.flying += len;
	int64_t when = now + link_latency(e->host, to->host);
	if (when <= e->out.arrives)
		when = e->out.arrives + 1;
	e->out.arrives = when;
	if (len) {
		if (!unacked(e))
			e->out.unacked_since = now;
		e->out.sent += len;
	}
	send_at(when, e->host, to->host, arrives, e, 0);
}

static struct talk *talk_new(int from, int from_port, int to, int to_port)
{
	struct talk *t = world_alloc(sizeof *t);
	int hosts[2] = {from, to}, ports[2] = {from_port, to_port};
	for (int i = 0; i < 2; i++) {
		struct end *e = &t->ends[i];
		e->talk = t;
		e->host = hosts[i];
		e->port = ports[i];
		e->out.last = &e->out.first;
	}
	t->number = ntalks++;
	t->next = talks;
	talks = t;
	return t;
}

/* ---- strangers ---- */

static void hang_up(void *arg, uint64_t b)
{
	struct end *e = arg;
	(void)b;
	if (!e->out_ended && !e->dead) {
		e->out_ended = true;
		send_segment(e, FIN, NULL, 0);
	}
}

static void speak(void *arg, uint64_t garbage)
{
	struct talk *t = arg;
	struct end *e = t->ends;
	uint8_t noise[64];
	if (e->dead)
		return;
	if (t->opening_len) {
		send_segment(e, DATA, t->opening, t->opening_len);
	} else if (garbage) {
		rng_bytes(&net_rng, noise, sizeof noise);
		send_segment(e, DATA, noise, 1 + rng_below(&net_rng, sizeof noise));
	}
	at(now + rng_scale(&net_rng, MS, 5 * SEC), hang_up, e, 0);
}

static struct talk *stranger_dials(int host, int port)
{
	struct talk *t = talk_new(STRANGER_HOST, next_port++, host, port);
	t->strange = true;
	t->ends[0].in_cap = 0;
	send_segment(t->ends, SYN, NULL, 0);
	return t;
}

void net_scan(int which, bool garbage)
{
	int n = 0;
	for (int i = 0; i < nsocks; i++)
		n += socks[i] && socks[i]->kind == SOCK_LISTENS;
	if (!n)
		return;
	which %= n;
	for (int i = 0; i < nsocks; i++) {
		struct sock *s = socks[i];
		if (!s || s->kind != SOCK_LISTENS || which--)
			continue;
		note("scan", s->proc->id, s->port);
		struct talk *t = stranger_dials(s->proc->host, s->port);
		at(now + MS, speak, t, garbage);
		return;
	}
}

static void repeat(void *arg, uint64_t b)
{
	struct talk *was = arg;
	(void)b;
	if (!listener_at(was->ends[1].host, was->ends[1].port))
		return;
	note("repeat", was->number, (int64_t)was->opening_len);
	struct talk *t = stranger_dials(was->ends[1].host, was->ends[1].port);
	memcpy(t->opening, was->opening, was->opening_len);
	t->opening_len = was->opening_len;
	at(now + MS, speak, t, 0);
}

/* The acceptor has read of @t: a stranger has seen what it read. */
static void overheard(struct talk *t)
{
	size_t read = (size_t)t->ends[1].received - t->ends[1].in_len;
	bool hello = t->opening_len > 28 && memcmp(t->opening + 20, "CCTLCTL1", 8) == 0;
	if (!net.replays || (net.replays_hellos_only && !hello) || t->repeated || t->strange ||
	    read < OPENING_READ)
		return;
	t->repeated = true;
	at(now + rng_scale(&net_rng, US, net.replay_after), repeat, t, 0);
}

void net_stranger(int port, enum stranger how)
{
	stranger.port = port;
	stranger.how = how;
}

int net_connections(void)
{
	return ntalks;
}

bool net_reset(int which)
{
	bool any = false;
	for (struct talk *t = talks; t; t = t->next) {
		if (t->number != which)
			continue;
		note("reset", which, 0);
		any |= !t->ends[0].dead || !t->ends[1].dead;
		for (int i = 0; i < 2; i++)
			die(&t->ends[i], t->ends[i].connected ? ECONNRESET : ECONNREFUSED);
	}
	return any;
}

void net_host_dies(int host)
{
	note("host dies", host, 0);
	host_dead[host] = true;
}

/* ---- descriptors ---- */

struct sock *sock_of(int fd)
{
	int i = fd - FD_BASE;
	return i >= 0 && i < nsocks ? socks[i] : NULL;
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

static void close_end(struct end *e)
{
	e->sock = NULL;
	if (e->dead)
		return;
	if (e->in_len) { /* what was not read is lost: the peer learns that */
		e->dead = true;
		send_segment(e, RST, NULL, 0);
	} else if (!e->connected && e == e->talk->ends) {
		e->dead = true;
		send_segment(e, RST, NULL, 0);
	} else if (!e->out_ended) {
		e->out_ended = true;
		send_segment(e, FIN, NULL, 0);
	}
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
	s->port = port ? port : next_port++;
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
	s->port = s->port ? s->port : next_port++;
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
