#include "lib/links/meter.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "lib/base/clock.h"
#include "lib/base/sort.h"
#include "lib/crypto/crypto.h"
#include "lib/links/link_end.h"

#define PIECE  (256u << 10) /* bytes of a read */
#define ENOUGH (256u << 10) /* bytes of a stream that say something about the link */
#define UNSENT (128 << 10)  /* bytes that the kernel keeps for a link and has not sent */
#define MARGIN 4            /* a part in so many of a stream's time does not count */
#define STREAM (2 * METER_FRAME + METER_DATA)
#define READS  16 /* of one connection; then others and the timers have their turn */

/* One end of a connection. */
struct end {
	struct link_end link;
	struct meter *meter;
	uint8_t in[METER_FRAME], out[METER_FRAME];
	size_t in_len; /* bytes of a frame that have come */
	size_t out_at; /* bytes of `out` that are accepted; METER_FRAME: all */
	/* the listener, of a stream */
	uint64_t skip;          /* bytes of DATA still to come */
	int64_t since, last;    /* ns: the stream counts from here; its last bytes came */
	int64_t first;          /* its first bytes came; 0: none yet */
	uint64_t counted;       /* bytes */
	uint64_t omit;          /* ns */
	struct meter_frame got; /* the dialler: the last answer */
	bool answered;
};

/* One more connection, of which only the times count. */
struct dialled {
	struct conn *conn;
	int64_t connected, authenticated; /* when; 0: not yet */
	struct err broke;
};

struct meter {
	struct link_ends links;
	struct end *out, *in;
	int nout, nin;
	uint8_t *data; /* STREAM bytes: a START frame, and a DATA frame with its bytes */
	uint8_t *read; /* PIECE bytes */
};

void meter_encode(const struct meter_frame *f, uint8_t out[METER_FRAME])
{
	put_u64(out, f->type);
	put_u64(out + 8, f->a);
	put_u64(out + 16, f->b);
}

int meter_decode(struct meter_frame *f, const uint8_t in[METER_FRAME])
{
	uint64_t type = get_u64(in);
	*f = (struct meter_frame){(enum meter_type)type, get_u64(in + 8), get_u64(in + 16)};
	if (type < METER_PING || type > METER_RESULT)
		return -1;
	return type == METER_DATA_FOLLOWS && (!f->a || f->a > METER_DATA) ? -1 : 0;
}

/* Write the bytes of @p that are not accepted yet. 1: all are accepted; 0: not now; -1. */
static int write_from(struct end *e, const uint8_t *p, size_t len, size_t *at, struct err *err)
{
	int flushed = 0;
	while (*at < len) {
		ssize_t n = conn_write(e->link.conn, p + *at, len - *at, err);
		if (n < 0)
			return -1;
		*at += (size_t)n;
		if (n == 0 && flushed > 0)
			return 0;
		/* Full: only what is sent makes room, and nothing wakes who does not send. */
		flushed = n == 0 ? conn_flush(e->link.conn, err) : 0;
		if (flushed < 0 || (n == 0 && !flushed))
			return flushed;
	}
	return 1;
}

/* 1: all of the frame is with the kernel; 0: not yet; -1. */
static int push(struct end *e, struct err *err)
{
	int wrote = write_from(e, e->out, METER_FRAME, &e->out_at, err);
	int flushed = wrote < 0 ? -1 : conn_flush(e->link.conn, err);
	return flushed < 0 ? -1 : wrote && flushed;
}

static void put_frame(struct end *e, struct meter_frame f)
{
	meter_encode(&f, e->out);
	e->out_at = 0;
}

/* ---- the listener ---- */

static void count(struct end *e, uint64_t n)
{
	e->last = clock_ns();
	if (!e->first)
		e->first = e->last;
	if (!e->since && e->last >= e->first + (int64_t)e->omit)
		e->since = e->last; /* these bytes came before */
	else if (e->since)
		e->counted += n;
}

static struct meter_frame result(const struct end *e)
{
	uint64_t ns = e->since && e->last > e->since ? (uint64_t)(e->last - e->since) : 0;
	return (struct meter_frame){METER_RESULT, e->counted, ns};
}

/* Take a frame of the dialler. -1: it is none. */
static int take(struct end *e)
{
	struct meter_frame f;
	if (meter_decode(&f, e->in) < 0 || f.type == METER_RESULT)
		return -1;
	e->in_len = 0;
	if (f.type == METER_PING) {
		put_frame(e, f);
	} else if (f.type == METER_START) {
		e->first = e->since = e->last = 0;
		e->counted = 0;
		e->omit = f.a > INT64_MAX / 4 ? 0 : f.a;
	} else if (f.type == METER_DATA_FOLLOWS) {
		e->skip = f.a;
	} else {
		put_frame(e, result(e));
	}
	return 0;
}

/* Read what has come. > 0: something; 0: nothing more now; -1. */
static ssize_t receive(struct end *e, struct err *err)
{
	const uint8_t *p = e->meter->read;
	/* While a frame is incomplete no more than its rest: an answer is sent before the next. */
	size_t want = e->skip ? PIECE : METER_FRAME - e->in_len;
	ssize_t got = conn_read(e->link.conn, e->meter->read, want, err);
	if (got == CONN_END)
		return err_set(err, ERR_PEER_LOST, "the stream ended");
	for (size_t left = got > 0 ? (size_t)got : 0; left;) {
		size_t n = e->skip ? e->skip : METER_FRAME - e->in_len;
		if (n > left)
			n = left;
		if (e->skip) {
			e->skip -= n;
			count(e, n);
		} else {
			memcpy(e->in + e->in_len, p, n);
			e->in_len += n;
		}
		p += n;
		left -= n;
		if (e->in_len == METER_FRAME && take(e) < 0)
			return err_set(err, ERR_INTEGRITY, "unknown bytes in a measurement");
	}
	return got;
}

static void serve(void *ctx)
{
	struct end *e = ctx;
	struct err err = {0};
	ssize_t got = 1;
	int pushed = 0;
	for (int i = 0; got > 0 && i < READS; i++) {
		pushed = push(e, &err);
		got = pushed < 0 ? -1 : receive(e, &err);
	}
	if (got > 0)
		conn_again(e->link.conn);
	if (pushed < 0 || got < 0)
		link_end_broke(&e->link, &err);
}

/* ---- the dialler ---- */

static void hear(void *ctx)
{
	struct end *e = ctx;
	struct err err = {0};
	ssize_t got = 0;
	while (!e->answered && e->in_len < METER_FRAME) {
		got = conn_read(e->link.conn, e->in + e->in_len, METER_FRAME - e->in_len, &err);
		if (got <= 0)
			break;
		e->in_len += (size_t)got;
	}
	if (got == CONN_END)
		err_set(&err, ERR_PEER_LOST, "the connection was closed");
	else if (e->in_len == METER_FRAME) {
		e->answered = meter_decode(&e->got, e->in) == 0;
		e->in_len = 0;
		if (!e->answered)
			err_set(&err, ERR_INTEGRITY, "unknown bytes in a measurement");
	}
	if (err.code)
		link_end_broke(&e->link, &err);
}

static struct end *out_to(struct meter *m, int peer)
{
	for (int i = 0; i < m->nout; i++)
		if (m->out[i].link.peer == peer)
			return &m->out[i];
	return NULL;
}

/* The link has shown no progress for --timeout. */
static void fail_silent(struct end *e, const char *what)
{
	char why[LINK_WHY];
	snprintf(why, sizeof why, "%s for %.3g s", what,
	         (double)job_timeout(e->link.all->job) / NS_PER_SEC);
	link_end_fail(&e->link, LINK_TIMED_OUT, why);
}

/* 1; 0: the link fails; -1: this rank lacks memory. */
static int outcome(const struct end *e, struct err *err)
{
	return link_ends_check(e->link.all, err) < 0 ? -1 : !e->link.over;
}

/* Turn until the answer has come. @silent: the failure if none comes. 1; 0: the link fails; -1: the
 * job. */
static int await(struct end *e, const char *silent, struct err *err)
{
	struct meter *m = e->meter;
	int64_t timeout = job_timeout(m->links.job), until = clock_ns() + timeout;
	struct err broke = {0};
	while (!e->link.over && !e->answered) {
		if (push(e, &broke) < 0) {
			link_end_broke(&e->link, &broke);
			break;
		}
		hear(e);
		if (e->link.over || e->answered)
			break;
		if (clock_ns() >= until)
			fail_silent(e, silent);
		else if (job_turn_until(m->links.job, until, err) < 0)
			return -1;
	}
	return outcome(e, err);
}

static int ask(struct end *e, struct meter_frame f, const char *silent, struct err *err)
{
	put_frame(e, f);
	e->answered = false;
	int ret = await(e, silent, err);
	enum meter_type wanted = f.type == METER_PING ? METER_PING : METER_RESULT;
	if (ret > 0 && e->got.type != wanted) {
		link_end_fail(&e->link, LINK_WRONG, "an unexpected answer");
		ret = 0;
	}
	return ret;
}

static void connect_further(void *ctx)
{
	struct dialled *d = ctx;
	if (d->authenticated || d->broke.code)
		return;
	if (!d->connected && d->conn->writable)
		d->connected = clock_ns();
	if (conn_handshake(d->conn, &d->broke) <= 0)
		return;
	d->authenticated = clock_ns();
	if (!d->connected) /* it has no socket */
		d->connected = d->authenticated;
}

static void fail_connect(struct end *e, const struct dialled *d)
{
	char why[LINK_WHY];
	if (d->broke.code == ERR_RESOURCE) {
		link_end_broke(&e->link, &d->broke);
		return;
	}
	enum link_state state = link_state_of_handshake(&d->broke, why);
	link_end_fail(&e->link, state, why);
}

static int connect_once(struct end *e, struct dialled *d, struct err *err)
{
	struct meter *m = e->meter;
	const int64_t until = clock_ns() + job_timeout(m->links.job);
	while (!e->link.over && !d->authenticated) {
		if (d->broke.code)
			fail_connect(e, d);
		else if (clock_ns() >= until)
			fail_silent(e, "no answer to another connection");
		else if (job_turn_until(m->links.job, until, err) < 0)
			return -1;
	}
	return outcome(e, err);
}

int meter_connect(struct meter *m, int peer, double *connect, double *handshake, struct err *err)
{
	struct end *e = out_to(m, peer);
	struct dialled d = {0};
	if (!e || e->link.over)
		return 0;
	const int64_t began = clock_ns();
	d.conn = mesh_dial(m->links.mesh, peer, &d.broke);
	if (d.conn &&
	    conn_watch(d.conn, job_loop(m->links.job), connect_further, &d, &d.broke) == 0)
		connect_further(&d);
	const int ret = connect_once(e, &d, err);
	if (ret > 0) {
		*connect = (double)(d.connected - began) / NS_PER_SEC;
		*handshake = (double)(d.authenticated - d.connected) / NS_PER_SEC;
	}
	conn_free(d.conn);
	return ret;
}

void meter_end_connects(struct meter *m)
{
	mesh_settle(m->links.mesh);
}

int meter_ping(struct meter *m, int peer, int64_t time, double *least, double *median,
               struct err *err)
{
	struct end *e = out_to(m, peer);
	double s[METER_PINGS];
	int n = 0, ret = e && !e->link.over;
	int64_t until = clock_ns() + time;
	while (ret > 0 && n < METER_PINGS && (n == 0 || clock_ns() < until)) {
		int64_t began = clock_ns();
		ret = ask(e, (struct meter_frame){METER_PING, (uint64_t)n, 0},
		          "no answer to a ping", err);
		s[n++] = (double)(clock_ns() - began) / NS_PER_SEC;
	}
	if (ret > 0) {
		sort_doubles(s, (size_t)n);
		const double path = (double)conn_least_round_trip(e->link.conn) / NS_PER_SEC;
		*least = path > 0 && path < s[0] ? path : s[0];
		*median = s[n / 2];
	}
	return ret;
}

/* Send START, then DATA frames for @time ns; longer if this process got so little of the processor
 * that the bytes say nothing about the link. 1; 0: the link fails; -1: the job. */
static int flood(struct end *e, int64_t time, uint64_t *sent, struct err *err)
{
	struct meter *m = e->meter;
	int64_t moved_at = clock_ns();
	const int64_t until = moved_at + time;
	const int64_t timeout = job_timeout(m->links.job);
	struct err broke = {0};
	size_t at = 0; /* METER_FRAME: at the beginning of a DATA frame */
	meter_encode(&(struct meter_frame){METER_START, (uint64_t)(time / MARGIN), 0}, m->data);
	for (int64_t now = moved_at; !e->link.over && (now < until || at != METER_FRAME ||
	                                               (*sent < ENOUGH && now < until + 3 * time));
	     now = clock_ns()) {
		size_t before = at;
		int wrote = write_from(e, m->data, STREAM, &at, &broke);
		if (wrote < 0) {
			link_end_broke(&e->link, &broke);
			break;
		}
		if (wrote || at != before)
			moved_at = clock_ns();
		if (wrote) {
			at = METER_FRAME;
			*sent += METER_DATA;
		}
		if (clock_ns() >= moved_at + timeout)
			fail_silent(e, "nothing can be sent");
		/* Others' frames are answered meanwhile. */
		int turned = wrote ? job_poll(m->links.job, err)
		                   : job_turn_until(m->links.job, moved_at + timeout, err);
		if (turned < 0)
			return -1;
	}
	return outcome(e, err);
}

int meter_stream(struct meter *m, int peer, int64_t time, double *rate, struct err *err)
{
	struct end *e = out_to(m, peer);
	if (!e || e->link.over)
		return 0;
	e->answered = false;
	const int64_t began = clock_ns();
	uint64_t sent = 0;
	int ret = flood(e, time, &sent, err);
	if (ret > 0)
		ret = ask(e, (struct meter_frame){METER_STOP, 0, 0}, "no answer to a stream", err);
	if (ret > 0 && e->got.b >= (uint64_t)time / 2)
		*rate = (double)e->got.a / ((double)e->got.b / NS_PER_SEC);
	else if (ret > 0) /* the listener was too late to see the bytes come */
		*rate = (double)sent / ((double)(clock_ns() - began) / NS_PER_SEC);
	return ret;
}

/* ---- life ---- */

static int open_ends(struct meter *m, const int *out, const int *in, struct err *err)
{
	m->out = err_calloc((size_t)m->nout + 1, sizeof *m->out, "the measurements", err);
	m->in = err_calloc((size_t)m->nin + 1, sizeof *m->in, "the measurements", err);
	m->data = err_malloc(STREAM, "the measurements", err);
	m->read = err_malloc(PIECE, "the measurements", err);
	if (!m->out || !m->in || !m->data || !m->read)
		return -1;
	for (int i = 0; i < m->nout + m->nin; i++) {
		bool to = i < m->nout;
		struct end *e = to ? &m->out[i] : &m->in[i - m->nout];
		int peer = to ? out[i] : in[i - m->nout];
		struct conn *conn = mesh_conn(m->links.mesh, peer, to, 0);
		/* Without a connection it is over, whatever a peer says of the link. */
		*e = (struct end){.link = {&m->links, conn, peer, to, !conn},
		                  .meter = m,
		                  .out_at = METER_FRAME};
	}
	return 0;
}

struct meter *meter_open(struct job *job, struct mesh *mesh, const int *out, int nout,
                         const int *in, int nin, struct err *err)
{
	const struct meter_frame data = {METER_DATA_FOLLOWS, METER_DATA, 0};
	struct meter *m = err_calloc(1, sizeof *m, "the measurements", err);
	if (m)
		*m = (struct meter){.links = {.job = job, .mesh = mesh}, .nout = nout, .nin = nin};
	if (!m || open_ends(m, out, in, err) < 0) {
		meter_close(m);
		return NULL;
	}
	meter_encode(&data, m->data + METER_FRAME);
	/* Bytes that no device on the way can compress. */
	if (crypto_random(m->data + STREAM - METER_DATA, METER_DATA, err) < 0) {
		meter_close(m);
		return NULL;
	}
	for (int i = 0; i < nout; i++) {
		if (m->out[i].link.over)
			continue;
		/* A slow link must not take minutes to drain when the time is over. */
		const int unsent = UNSENT;
		(void)setsockopt(m->out[i].link.conn->fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent,
		                 sizeof unsent);
		m->out[i].link.conn->on_ready = hear;
		m->out[i].link.conn->ctx = &m->out[i];
	}
	for (int i = 0; i < nin; i++) {
		if (m->in[i].link.over)
			continue;
		m->in[i].link.conn->on_ready = serve;
		m->in[i].link.conn->ctx = &m->in[i];
		serve(&m->in[i]);
	}
	return m;
}

void meter_close(struct meter *m)
{
	if (!m)
		return;
	for (int i = 0; m->out && i < m->nout; i++)
		if (m->out[i].link.conn)
			m->out[i].link.conn->on_ready = NULL;
	for (int i = 0; m->in && i < m->nin; i++)
		if (m->in[i].link.conn)
			m->in[i].link.conn->on_ready = NULL;
	free(m->out);
	free(m->in);
	free(m->data);
	free(m->read);
	free(m);
}
