#include "lib/net/mesh.h"

#include <linux/sockios.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <openssl/crypto.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/base/hex.h"
#include "lib/crypto/crypto.h"
#include "lib/crypto/hkdf.h"
#include "lib/net/arena.h"
#include "lib/net/pacer.h"

#define MAGIC    "CCTLLAN1"
#define ADMITTED 1 /* the listener's answer to an opening record */

#define BACKOFF_MIN (5 * NS_PER_MS)
#define BACKOFF_MAX (250 * NS_PER_MS)

struct edge {
	struct mesh *mesh;
	int peer, lane;
	bool out;
	struct conn *conn;
	bool ready, failed;
	uint8_t key[TLS_KEY_BYTES]; /* of the pair, until mesh_settle */
	/* of an outgoing edge */
	bool by_memory;  /* it is, or is to become, a memory lane */
	char *no_memory; /* why it is none, though the peer is near; NULL: nothing prevents it */
	struct greeting greeting;
	struct loop_timer again; /* dials once more */
	int64_t wait;
	int tries;
	struct err *last;       /* how the last connection broke; NULL: none has */
	bool last_in_handshake; /* it broke before the peer was authenticated */
};

struct mesh {
	struct mesh_conf conf;
	struct gate *gate, *lanes; /* of TCP, and of memory lanes */
	struct arena *arena;
	struct arena_maps maps;
	struct pacer pacer; /* if conf.limit_rate */
	struct edge *edges; /* out edges first; for each peer its streams in order */
	int nedges, missing;
	bool stopped; /* connections that arrive become no edges */
	struct err err;
};

/* {"CCTLLAN1", session[16], u32 from, u32 to, u32 lane, zeros} */
static void make_opening(const struct mesh *m, int from, int to, int lane, uint8_t *o)
{
	memset(o, 0, GATE_OPENING);
	memcpy(o, MAGIC, 8);
	memcpy(o + 8, m->conf.session, MESH_SESSION_BYTES);
	put_u32(o + 24, (uint32_t)from);
	put_u32(o + 28, (uint32_t)to);
	put_u32(o + 32, (uint32_t)lane);
}

static void make_identity(const struct mesh *m, int from, int to, int lane,
                          char text[TLS_IDENTITY_MAX + 1])
{
	char session[2 * MESH_SESSION_BYTES + 1];
	hex_text(m->conf.session, MESH_SESSION_BYTES, session);
	snprintf(text, TLS_IDENTITY_MAX + 1, "D1|%s|%d|%d|%d", session, from, to, lane);
}

static int edge_key(const struct edge *e, const char *identity, uint8_t key[TLS_KEY_BYTES])
{
	return hkdf(e->key, TLS_KEY_BYTES, identity, strlen(identity), key, TLS_KEY_BYTES);
}

static struct edge *edge_of(const struct mesh *m, int peer, bool out, int lane)
{
	int from = out ? 0 : m->conf.nout, to = out ? m->conf.nout : m->conf.nout + m->conf.nin;
	if (lane < 0 || lane >= m->conf.streams)
		return NULL;
	while (from < to) { /* the peers of each direction ascend */
		int mid = from + (to - from) / 2;
		struct edge *e = &m->edges[mid * m->conf.streams + lane];
		if (e->peer == peer)
			return e;
		if (e->peer < peer)
			from = mid + 1;
		else
			to = mid;
	}
	return NULL;
}

static void edge_ready(struct edge *e)
{
	const struct mesh_conf *conf = &e->mesh->conf;
	e->mesh->missing -= !e->ready;
	e->ready = true;
	e->conn->on_ready = NULL;
	if (e->out && conf->limit_rate)
		pacer_add(&e->mesh->pacer, e->conn);
	if (conf->on_edge)
		conf->on_edge(conf->edge_ctx, e->peer, e->out, e->lane, e->conn, NULL);
	conf->on_ready(conf->ctx);
}

/* The rank to blame if a connection to @peer fails: for a lack of resources it is this one. */
static int blamed(int code, int peer)
{
	return code == ERR_RESOURCE ? ERR_RANK_SELF : peer;
}

static const char *address_of(const struct edge *e, char text[ADDR_TEXT])
{
	return addr_text(&e->mesh->conf.addrs[e->peer], true, text);
}

/* Describe @why. The peer has the same key of the pair, so who has another is not the peer. */
static void edge_err(const struct edge *e, const struct err *why, struct err *err)
{
	bool stranger = why->code == ERR_AUTH;
	int code = stranger ? ERR_PEER_LOST : why->code;
	char text[ADDR_TEXT], tries[48] = "";
	if (e->tries > 1)
		snprintf(tries, sizeof tries, " (%d connections failed)", e->tries);
	err_rank(err, code, blamed(code, e->peer), "connection to rank %d at %s: %s%s", e->peer,
	         address_of(e, text),
	         stranger ? "another process answers there, without the key of this lane"
	                  : why->text,
	         tries);
	err->system = why->system;
}

static void edge_failed(struct edge *e, const struct err *why)
{
	struct mesh *m = e->mesh;
	struct err err = {0};
	e->failed = true;
	edge_err(e, why, &err);
	if (m->conf.on_edge && err.code != ERR_RESOURCE) /* not the link's fault */
		m->conf.on_edge(m->conf.edge_ctx, e->peer, e->out, e->lane, NULL, &err);
	else if (!m->err.code)
		m->err = err;
	m->conf.on_ready(m->conf.ctx);
}

static void close_edge(struct edge *e)
{
	conn_free(e->conn);
	e->conn = NULL;
}

/* @why: the edge cannot be a memory lane. */
static void no_memory(struct edge *e, const struct err *why)
{
	e->by_memory = false;
	e->no_memory = strdup(why->text); /* without memory for it, the reason is lost */
}

static void dial_again(void *ctx);

/* The connection broke before it was admitted: the listener may be crowded, or bytes were corrupted
 * on the way. Dial again a little later, unless that cannot help. */
static void edge_broke(struct edge *e, const struct err *why)
{
	if (e->by_memory) {
		close_edge(e);
		no_memory(e, why);
		dial_again(e);
		return;
	}
	bool hopeless = why->code == ERR_RESOURCE || !e->conn->connected;
	close_edge(e);
	if (!e->last)
		e->last = malloc(sizeof *e->last);
	e->tries++;
	if (hopeless || !e->last) {
		edge_failed(e, why);
		return;
	}
	*e->last = *why;
	e->last_in_handshake = !e->greeting.authenticated;
	loop_timer_set(e->mesh->conf.loop, &e->again, clock_ns() + e->wait);
	e->wait = e->wait * 2 > BACKOFF_MAX ? BACKOFF_MAX : e->wait * 2;
}

/* Has the listener admitted this edge? 1: yes; 0: not yet; -1. */
static int await_answer(struct edge *e, struct err *err)
{
	uint8_t answer;
	ssize_t got = conn_read(e->conn, &answer, 1, err);
	if (got == CONN_END)
		return err_set(err, ERR_PEER_LOST, "the connection was closed");
	if (got == 1 && answer != ADMITTED)
		return err_set(err, ERR_INTEGRITY, "unknown answer %u to the opening record",
		               answer);
	if (got < 0 && e->conn->cut) { /* a listener that drops a connection leaves it like this */
		err_clear(err);
		return err_set(err, ERR_PEER_LOST, "the connection was closed");
	}
	return (int)got;
}

/* An outgoing edge: connect, authenticate, send the opening, wait until it is admitted. */
static void advance_edge(void *ctx)
{
	struct edge *e = ctx;
	struct err err = {0};
	int ret = greeting_advance(&e->greeting, e->conn, &err);
	if (ret > 0)
		ret = await_answer(e, &err);
	if (ret < 0)
		edge_broke(e, &err);
	else if (ret)
		edge_ready(e);
}

/* @arena: by memory; else NULL. */
static struct conn *dial_lane(const struct edge *e, const struct arena *arena, struct err *err)
{
	const struct mesh *m = e->mesh;
	char identity[TLS_IDENTITY_MAX + 1];
	uint8_t key[TLS_KEY_BYTES];
	struct addr near;
	const struct transport_edge edge = {.tls = m->conf.tls,
	                                    .arena = arena,
	                                    .buffer = m->conf.buffer,
	                                    .to = arena ? &near : &m->conf.addrs[e->peer],
	                                    .identity = identity,
	                                    .key = key,
	                                    .congestion = m->conf.congestion};
	addr_of_lanes(&near, addr_port(&m->conf.addrs[e->peer]), e->peer);
	make_identity(m, m->conf.rank, e->peer, e->lane, identity);
	if ((m->conf.tls || arena) && edge_key(e, identity, key) < 0) {
		crypto_failed(err, ERR_RESOURCE, "HKDF failed");
		return NULL;
	}
	struct conn *conn = transport_of(&edge)->dial(&edge, err);
	OPENSSL_cleanse(key, sizeof key);
	return conn;
}

static int dial(struct mesh *m, struct edge *e, struct err *err)
{
	e->greeting = (struct greeting){0};
	make_opening(m, m->conf.rank, e->peer, e->lane, e->greeting.opening);
	if (e->by_memory) {
		struct err why = {0};
		e->conn = dial_lane(e, m->arena, &why);
		if (!e->conn)
			no_memory(e, &why);
	}
	if (!e->conn)
		e->conn = dial_lane(e, NULL, err);
	if (!e->conn)
		return -1;
	return conn_watch(e->conn, m->conf.loop, advance_edge, e, err);
}

static void dial_again(void *ctx)
{
	struct edge *e = ctx;
	struct err err = {0};
	if (dial(e->mesh, e, &err) == 0)
		return;
	close_edge(e);
	edge_failed(e, &err);
}

/* Find the key of an arriving edge: its identity must be exactly that of an edge that this rank
 * expects. The edge may be ready already: if the answer was lost with the connection, the peer
 * dials again. */
static int find_key(void *ctx, const uint8_t *identity, size_t len, uint8_t key[TLS_KEY_BYTES])
{
	struct mesh *m = ctx;
	char given[TLS_IDENTITY_MAX + 1], want[TLS_IDENTITY_MAX + 1];
	int from, to, lane;
	snprintf(given, sizeof given, "%.*s", (int)len, (const char *)identity);
	if (sscanf(given, "D1|%*32[0-9a-f]|%d|%d|%d", &from, &to, &lane) != 3)
		return -1;
	struct edge *e = edge_of(m, from, false, lane);
	if (!e)
		return -1;
	make_identity(m, from, m->conf.rank, lane, want);
	return strcmp(given, want) == 0 ? edge_key(e, want, key) : -1;
}

/* A peer whose connection was dropped would report this rank as lost. */
static void lacking(void *ctx, const struct err *err)
{
	struct mesh *m = ctx;
	err_rank(&m->err, err->code, ERR_RANK_SELF, "a connection from another rank: %s",
	         err->text);
	m->conf.on_ready(m->conf.ctx);
}

/* There is no descriptor for a memory lane: who dials one learns it from the end of the socket, and
 * uses TCP. */
static void accept_no_lanes(void *ctx, const struct err *err)
{
	struct mesh *m = ctx;
	(void)err;
	gate_close(m->lanes);
	m->lanes = NULL;
}

/* Tell the dialler that it is admitted. */
static bool answer(struct conn *conn)
{
	static const uint8_t admitted = ADMITTED;
	struct err ignored = {0};
	return conn_write(conn, &admitted, 1, &ignored) == 1 && conn_flush(conn, &ignored) == 1;
}

static void admit(void *ctx, struct conn *conn, const uint8_t *o, const struct addr *from_addr)
{
	struct mesh *m = ctx;
	uint8_t want[GATE_OPENING];
	int from = (int)get_u32(o + 24), lane = (int)get_u32(o + 32);
	(void)from_addr;
	make_opening(m, from, m->conf.rank, lane, want);
	struct edge *e = edge_of(m, from, false, lane);
	char identity[TLS_IDENTITY_MAX + 1];
	const char *proved = gate_identity(conn->ops->lending ? m->lanes : m->gate, conn);
	make_identity(m, from, m->conf.rank, lane, identity);
	if (!e || m->stopped || (proved && strcmp(identity, proved) != 0) ||
	    memcmp(want, o, GATE_OPENING) != 0 || !answer(conn)) {
		conn_free(conn);
		return;
	}
	close_edge(e);
	e->conn = conn;
	edge_ready(e);
}

static int edges_init(struct mesh *m, const uint8_t (*keys)[TLS_KEY_BYTES], struct err *err)
{
	m->nedges = (m->conf.nout + m->conf.nin) * m->conf.streams;
	m->missing = m->nedges;
	if (!(m->edges = err_calloc((size_t)m->nedges + 1, sizeof *m->edges, "the mesh", err)))
		return -1;
	for (int i = 0; i < m->nedges; i++) {
		int p = i / m->conf.streams;
		struct edge *e = &m->edges[i];
		e->mesh = m;
		e->lane = i % m->conf.streams;
		e->out = p < m->conf.nout;
		e->peer = e->out ? m->conf.out[p] : m->conf.in[p - m->conf.nout];
		memcpy(e->key, keys[e->peer], TLS_KEY_BYTES);
		e->by_memory = e->out && m->conf.near && m->conf.near[e->peer];
		e->wait = BACKOFF_MIN;
		e->again = (struct loop_timer){.fn = dial_again, .ctx = e};
	}
	return 0;
}

/* Accept connections at @fd, for memory lanes or for TCP. */
static struct gate *open_gate(struct mesh *m, int fd, bool lanes, struct err *err)
{
	const struct mesh_conf *conf = &m->conf;
	const struct gate_conf gate = {
	        .loop = conf->loop,
	        .fd = fd,
	        .borrowed = !lanes && conf->borrowed,
	        .tls = lanes ? NULL : conf->tls,
	        .find = find_key,
	        .maps = lanes ? &m->maps : NULL,
	        .buffer = conf->buffer,
	        .congestion = lanes ? NULL : conf->congestion,
	        .slots = 2 * conf->size * conf->streams + 64,
	        .per_source = conf->size * conf->streams + 32,
	        .admit = admit,
	        .lacking = lanes ? NULL : lacking, /* the dialler of a lane then uses TCP */
	        .starved = lanes ? accept_no_lanes : lacking,
	        .ctx = m,
	};
	return gate_open(&gate, err);
}

/* Make the arena, if the rank sends to another near one. */
static void share_memory(struct mesh *m)
{
	struct err why = {0};
	bool near = false;
	for (int i = 0; i < m->nedges; i++)
		near |= m->edges[i].by_memory;
	if (!near)
		return;
	m->arena = arena_new(m->conf.arena_bytes, &why);
	for (int i = 0; i < m->nedges && !m->arena; i++)
		if (m->edges[i].by_memory)
			no_memory(&m->edges[i], &why);
}

static void forget_keys(struct mesh *m)
{
	for (int i = 0; m->edges && i < m->nedges; i++)
		OPENSSL_cleanse(m->edges[i].key, TLS_KEY_BYTES);
}

struct mesh *mesh_open(const struct mesh_conf *conf, struct err *err)
{
	struct mesh *m = err_calloc(1, sizeof *m, "the mesh", err);
	int listen_fd = conf->borrowed ? -1 : conf->listen_fd, lanes_fd = conf->lanes_fd;
	if (!m)
		goto fail;
	m->conf = *conf;
	m->conf.keys = NULL; /* the edges have theirs */
	if (conf->limit_rate)
		pacer_init(&m->pacer, conf->loop, conf->limit_rate);
	if (edges_init(m, conf->keys, err) < 0)
		goto fail;
	share_memory(m);
	if (conf->nin) {
		m->gate = open_gate(m, conf->listen_fd, false, err);
		listen_fd = -1;
		if (!m->gate)
			goto fail;
	}
	if (conf->nin && lanes_fd >= 0) {
		m->lanes = open_gate(m, lanes_fd, true, err);
		lanes_fd = -1;
		if (!m->lanes)
			goto fail;
	}
	/* Start with the next rank, so that not all ranks connect to rank 0 first. */
	int n = conf->nout, first = 0;
	while (first < n && conf->out[first] < conf->rank)
		first++;
	for (int i = 0; i < n; i++)
		for (int lane = 0; lane < conf->streams; lane++) {
			struct edge *e = &m->edges[(first + i) % n * conf->streams + lane];
			struct err why = {0};
			if (dial(m, e, &why) == 0)
				continue;
			if (conf->on_edge) {
				close_edge(e);
				edge_failed(e, &why);
			} else {
				err_rank(err, why.code, blamed(why.code, e->peer),
				         "connection to rank %d: %s", e->peer, why.text);
				goto fail;
			}
		}
	if (listen_fd >= 0)
		close(listen_fd);
	if (lanes_fd >= 0)
		close(lanes_fd);
	return m;
fail:
	if (listen_fd >= 0)
		close(listen_fd);
	if (lanes_fd >= 0)
		close(lanes_fd);
	mesh_close(m);
	return NULL;
}

void mesh_close(struct mesh *m)
{
	if (!m)
		return;
	gate_close(m->gate);
	gate_close(m->lanes);
	for (int i = 0; m->edges && i < m->nedges; i++) {
		struct edge *e = &m->edges[i];
		loop_timer_stop(&e->again);
		conn_free(e->conn);
		free(e->last);
		free(e->no_memory);
	}
	arena_free(m->arena);
	pacer_release(&m->pacer);
	forget_keys(m);
	free(m->edges);
	free(m);
}

int mesh_state(const struct mesh *m, struct err *err)
{
	if (m->err.code) {
		if (err && !err->code)
			*err = m->err;
		return -1;
	}
	return m->missing == 0;
}

int mesh_missing(const struct mesh *m, struct err *err)
{
	for (int i = 0; i < m->nedges; i++) {
		const struct edge *e = &m->edges[i];
		if (e->ready)
			continue;
		if (e->last)
			edge_err(e, e->last, err);
		return e->peer;
	}
	return -1;
}

const struct err *mesh_broke(const struct mesh *m, int peer, bool *in_handshake)
{
	const struct edge *e = edge_of(m, peer, true, 0);
	*in_handshake = e && e->last_in_handshake;
	return e ? e->last : NULL;
}

int mesh_unanswered(const struct mesh *m)
{
	for (int i = 0; i < m->nedges; i++) {
		const struct edge *e = &m->edges[i];
		if (e->out && e->conn && conn_unanswered(e->conn))
			return e->peer;
	}
	return -1;
}

uint64_t mesh_acknowledged(const struct mesh *m)
{
	uint64_t sum = 0;
	for (int i = 0; i < m->nedges; i++) {
		const struct conn *c = m->edges[i].conn;
		int queued;
		if (c && c->fd >= 0 && m->edges[i].out && ioctl(c->fd, SIOCOUTQ, &queued) == 0 &&
		    queued >= 0 && (uint64_t)queued <= conn_wire_out(c))
			sum += conn_wire_out(c) - (uint64_t)queued;
	}
	return sum;
}

struct conn *mesh_conn(const struct mesh *m, int peer, bool out, int stream)
{
	struct edge *e = edge_of(m, peer, out, stream);
	return e ? e->conn : NULL;
}

struct arena *mesh_arena(const struct mesh *m)
{
	return m->arena;
}

const char *mesh_no_memory(const struct mesh *m, int peer)
{
	for (int lane = 0; lane < m->conf.streams; lane++) {
		const struct edge *e = edge_of(m, peer, true, lane);
		if (e && e->no_memory)
			return e->no_memory;
	}
	return NULL;
}

void mesh_count(const struct mesh *m, int *memory, int *tcp)
{
	*memory = *tcp = 0;
	for (int i = 0; i < m->nedges; i++) {
		const struct conn *c = m->edges[i].conn;
		*memory += c && c->ops->lending;
		*tcp += c && !c->ops->lending;
	}
}

void mesh_settle(struct mesh *m)
{
	gate_close(m->gate);
	gate_close(m->lanes);
	m->gate = m->lanes = NULL;
	forget_keys(m);
}

void mesh_stop(struct mesh *m)
{
	m->stopped = true;
	for (int i = 0; i < m->nedges; i++) {
		loop_timer_stop(&m->edges[i].again);
		if (m->edges[i].conn)
			m->edges[i].conn->on_ready = NULL;
	}
}

struct conn *mesh_dial(const struct mesh *m, int peer, struct err *err)
{
	return dial_lane(edge_of(m, peer, true, 0), NULL, err);
}
