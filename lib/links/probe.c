#include "lib/links/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/job/failed_links.h"
#include "lib/links/link_end.h"

#define BUFFER (48u << 10) /* bytes of a connection's buffer */

struct probe;

struct link {
	struct link_end end; /* over: done, or failed */
	struct probe *probe;
	size_t moved; /* bytes of PROBE_BYTES */
};

struct probe {
	struct link_ends ends;
	struct link *links; /* outgoing links first, each direction in the order of peers */
	int nout, nlinks, left;
	int64_t moved_at;
	struct probe_stats *stats;
};

#define PIECE 16384

/* The data. The receiver does not compare them: every kind of connection has a checksum. */
static const uint8_t zeros[PIECE];

static void finish(struct link *l)
{
	l->probe->left -= !l->end.over;
	link_end_stop(&l->end);
}

static void count_failed(struct link *l, bool failed)
{
	l->probe->left -= failed;
	l->probe->stats->failed += failed;
}

static void fail(struct link *l, enum link_state state, const char *why)
{
	count_failed(l, link_end_fail(&l->end, state, why));
}

/* 1: some bytes; 0: not now; -1. */
static ssize_t send_some(struct link *l, struct err *err)
{
	size_t n = PROBE_BYTES - l->moved;
	uint64_t before = conn_wire_out(l->end.conn);
	ssize_t put = 0;
	if (n)
		put = conn_write(l->end.conn, zeros, n < PIECE ? n : PIECE, err);
	if (put < 0)
		return -1;
	l->moved += (size_t)put;
	l->probe->stats->bytes_sent += (size_t)put;
	int flushed = conn_flush(l->end.conn, err);
	if (flushed < 0)
		return -1;
	if (flushed && l->moved == PROBE_BYTES) {
		l->probe->stats->messages++;
		finish(l);
	}
	return put > 0 || conn_wire_out(l->end.conn) != before;
}

static ssize_t receive_some(struct link *l, struct err *err)
{
	size_t n = PROBE_BYTES - l->moved;
	uint8_t received[PIECE];
	ssize_t got = conn_read(l->end.conn, received, n < PIECE ? n : PIECE, err);
	if (got == CONN_END)
		return err_set(err, ERR_INTEGRITY, "the stream ended");
	if (got <= 0)
		return got;
	l->moved += (size_t)got;
	l->probe->stats->bytes_received += (size_t)got;
	if (l->moved == PROBE_BYTES)
		finish(l);
	return 1;
}

static void go_on(void *ctx)
{
	struct link *l = ctx;
	struct err err = {0};
	ssize_t moved = 0;
	while (!l->end.over &&
	       (moved = l->end.out ? send_some(l, &err) : receive_some(l, &err)) > 0)
		l->probe->moved_at = clock_ns();
	if (moved < 0)
		count_failed(l, link_end_broke(&l->end, &err));
}

static void on_edge(void *ctx, int peer, bool out, int stream, struct conn *conn,
                    const struct err *err)
{
	struct probe *p = ctx;
	struct link *l = &p->links[out ? 0 : p->nout];
	(void)stream;
	while (l->end.peer != peer)
		l++;
	if (!conn) {
		fail(l, link_state_of(err), err->text);
		return;
	}
	if (l->end.over)
		return;
	p->moved_at = clock_ns();
	l->end.conn = conn;
	l->moved = 0;
	conn->on_ready = go_on;
	conn->ctx = l;
	go_on(l);
}

/* At the time limit: every link that is not done has failed. */
static void give_up(struct probe *p, int64_t timeout)
{
	double s = (double)timeout / 1e9;
	char why[LINK_WHY];
	for (int i = 0; i < p->nlinks; i++) {
		struct link *l = &p->links[i];
		bool in_handshake = false;
		const struct err *broke =
		        l->end.out ? mesh_broke(p->ends.mesh, l->end.peer, &in_handshake) : NULL;
		enum link_state state = LINK_TIMED_OUT;
		if (!l->end.conn && in_handshake) {
			char text[LINK_WHY];
			state = link_state_of_handshake(broke, text);
			snprintf(why, sizeof why, "%.100s, for %.3g s", text, s);
		} else if (!l->end.conn && broke) {
			state = link_state_of(broke);
			snprintf(why, sizeof why, "%.100s, for %.3g s", broke->text, s);
		} else if (!l->end.conn)
			snprintf(why, sizeof why, "no %s for %.3g s",
			         l->end.out ? "answer" : "connection", s);
		else if (l->end.out) { /* the receiver knows how much arrived */
			finish(l);
			continue;
		} else if (l->moved == 0) {
			state = LINK_LARGE_LOST;
			snprintf(why, sizeof why,
			         "connected, but full-size packets do not arrive for %.3g s (MTU?)",
			         s);
		} else
			snprintf(why, sizeof why, "%zu of %u bytes arrived, then none for %.3g s",
			         l->moved, PROBE_BYTES, s);
		fail(l, state, why);
	}
}

struct mesh *probe_links(struct job *j, const int *out, int nout, const int *in, int nin,
                         struct probe_stats *stats, struct err *err)
{
	struct probe p = {.ends.job = j, .nout = nout, .nlinks = nout + nin, .stats = stats};
	int64_t timeout = job_timeout(j);
	int ret = 0;
	if (!(p.links = err_calloc((size_t)p.nlinks + 1, sizeof *p.links, "the links", err)))
		return NULL;
	for (int i = 0; i < p.nlinks; i++)
		p.links[i] = (struct link){.end = {.all = &p.ends,
		                                   .peer = i < nout ? out[i] : in[i - nout],
		                                   .out = i < nout},
		                           .probe = &p};
	p.left = p.nlinks;
	p.moved_at = clock_ns();
	job_caller_watches(j, true);
	p.ends.mesh = job_connect_each(j, out, nout, in, nin, BUFFER, on_edge, &p, err);
	if (!p.ends.mesh)
		ret = -1;
	while (ret == 0 && p.left) {
		ret = link_ends_check(&p.ends, err);
		if (ret == 0 && clock_ns() >= p.moved_at + timeout)
			give_up(&p, timeout);
		else if (ret == 0)
			ret = job_turn_until(j, p.moved_at + timeout, err);
	}
	/* The mesh lives until the job is closed, but its events must not reach this probe any
	 * more. */
	job_connect_end(j);
	job_caller_watches(j, false);
	free(p.links);
	return ret < 0 ? NULL : p.ends.mesh;
}
