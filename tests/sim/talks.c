/*
 * Connections. Each has a queue of segments each way; each arrives when its link lets it, in order
 * within its direction and in any order beside others. What arrives is acknowledged by the peer's
 * host over the way back.
 */
#include "tests/sim/net.h"

#define OPENING_READ 84 /* bytes of a HELLO in its frame: it has been seen */

static struct talk *talks;
static int ntalks;
static int next_port;
static struct {
	int port;
	enum stranger how;
} stranger;

void talks_begin(void)
{
	memset(&stranger, 0, sizeof stranger);
	ntalks = 0;
	talks = NULL;
	next_port = 32768 + (int)rng_below(&net_rng, 20000);
}

int free_port(void)
{
	return next_port++;
}

size_t unacked(const struct end *e)
{
	return e->dead ? 0 : (size_t)(e->out.sent - e->out.acked);
}

size_t room_of(const struct end *e)
{
	const struct end *peer = &e->talk->ends[e == e->talk->ends];
	size_t there = peer->in_len + e->out.flying;
	size_t sending = net.send_most > unacked(e) ? net.send_most - unacked(e) : 0;
	size_t receiving = net.receive_most > there ? net.receive_most - there : 0;
	return sending < receiving ? sending : receiving;
}

/* ---- segments ---- */

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

void send_segment(struct end *e, enum what what, const void *data, size_t len)
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
	link_send_at(when, e->host, to->host, arrives, e, 0);
}

struct talk *talk_new(int from, int from_port, int to, int to_port)
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

void close_end(struct end *e)
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

void overheard(struct talk *t)
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

int net_number_of(int fd)
{
	const struct sock *s = sock_of(fd);
	for (const struct talk *t = talks; s && t; t = t->next)
		if (t->ends[0].sock == s || t->ends[1].sock == s)
			return t->number;
	return -1;
}

bool is_lane(const struct talk *t)
{
	return !t->strange && !t->ends[0].dead && !t->ends[1].dead && t->ends[0].sock &&
	       t->ends[1].sock &&
	       (memmem(t->opening, t->opening_len, "CCTLLAN1", 8) ||
	        memmem(t->opening, t->opening_len, "D1|", 3));
}

bool was_dialled_before(const struct talk *t)
{
	for (const struct talk *b = t->next; b; b = b->next)
		if (b->opening_len == t->opening_len &&
		    memcmp(b->opening, t->opening, t->opening_len) == 0)
			return true;
	return false;
}

int net_lane(uint64_t which)
{
	uint64_t n = 0;
	for (const struct talk *t = talks; t; t = t->next)
		n += is_lane(t);
	which = n ? which % n : 0;
	for (const struct talk *t = talks; n && t; t = t->next)
		if (is_lane(t) && which-- == 0)
			return t->number;
	return -1;
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
