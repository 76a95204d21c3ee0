/*
 * The simulator. See simulate.h.
 *
 * A node is a step that has a cost. When every step that it waits for is booked, it books its ports
 * and cores, first come, first served. That sets its begin and end. Its successors get these
 * times at once, so that they can be booked before it has ended. Events are processed in the order
 * of their times; at the same time in the order of their steps.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "algorithms/table.h"
#include "lib/base/vec.h"
#include "lib/price/simulate.h"
#include "lib/sched/placement.h"

#define NOTHING UINT32_MAX

struct node {
	/* Before booking: the earliest possible start and end. Afterwards: the times when its first
	 * and its last elements are done. */
	double begin, end;
	uint64_t len; /* elements */
	uint32_t rank;
	uint32_t peer;  /* message: the other rank; matched send: its receive */
	uint32_t next;  /* the next message at this end of the lane, or NOTHING */
	uint32_t edges; /* the first edge from here, up to the next node's first */
	union {
		uint32_t waits;  /* number of predecessors that are not booked */
		uint32_t behind; /* afterwards, of a send that waits for the port out: the next
		                  * one, or NOTHING */
	};
	uint8_t op;
	uint8_t ninputs; /* LOCAL_REDUCE, JOINT: number of buffers that it reads, at most 255 */
	uint8_t engine;  /* enum engine */
	uint8_t inside;  /* a message between ranks of one host */
};

/* What does a step: the rank's core, ports and files, or an engine of its devices. */
enum engine { ENGINE_NONE, ENGINE_IN, ENGINE_OUT, ENGINE_FOLD, ENGINES };

/* Part [to_lo, to_hi) of node @to needs part [from_lo, from_hi) of the node where the edge begins,
 * as fractions of their lengths. */
struct edge {
	uint32_t to;
	float from_lo, from_hi, to_lo, to_hi;
};

enum event_kind { ARRIVE, START, DEPART };

struct event {
	double when;
	uint32_t node;
	uint32_t kind;
};

/* The times until which a rank's ports, core and files are booked. */
struct station {
	double egress, ingress, core, reader, writer, engines[ENGINES];
	uint32_t queue, queue_end; /* the sends that wait for the port out, in list order, linked
	                            * by `behind`: the first and the last; NOTHING: none waits */
	double look;               /* when the port checks for one */
};

/* The times until which a host's ports are booked. */
struct gate {
	double egress, ingress;
};

struct sim {
	const struct price_model *model;
	const int *host;    /* NULL: no ranks share one */
	struct gate *gates; /* [hosts] */
	double esize;
	int size;
	VEC(struct node) nodes;
	VEC(struct edge) edges;
	VEC(uint32_t) sends, recvs;        /* per rank, by peer, in order */
	uint32_t *first_send, *first_recv; /* [size + 1]: where a rank's messages begin in them */
	struct station *stations;          /* [size] */
	VEC(struct event) heap;
	uint64_t booked;
	/* used while reading a rank */
	VEC(uint32_t) ids, at;
	VEC(uint64_t) keys;
};

static bool out_of_memory(char *why)
{
	snprintf(why, SIMULATE_TEXT, "out of memory");
	return false;
}

static double later(double a, double b)
{
	return a > b ? a : b;
}

/* ---- reading the schedules ---- */

static bool is_file(unsigned op)
{
	return op == SCHED_READ || op == SCHED_WRITE;
}

/* Elements enter device memory, leave it, or stay in it. */
static enum engine engine_of(const struct sched *s, const struct sched_step *st)
{
	const bool to =
	        st->op != SCHED_WRITE && st->dst.buf < s->nbufs && s->bufs[st->dst.buf].place;
	const bool from =
	        st->op != SCHED_READ && st->src.buf < s->nbufs && s->bufs[st->src.buf].place;

	if (st->op == SCHED_IDENTITY || (to && from))
		return to ? ENGINE_FOLD : ENGINE_NONE;
	return to ? ENGINE_IN : from ? ENGINE_OUT : ENGINE_NONE;
}

/* The number of buffers that @st, a LOCAL_REDUCE or JOINT, reads. */
static uint8_t sources(const struct sched *s, const struct sched_step *st)
{
	const uint32_t n = st->op == SCHED_JOINT ? s->njoint : (uint32_t)s->ninputs;

	return (uint8_t)(n < 255 ? n : 255);
}

static bool add_nodes(struct sim *sim, const struct sched *s)
{
	sim->ids.n = 0;
	for (uint32_t i = 0; i < s->nsteps; i++) {
		const struct sched_step *st = &s->steps[i];
		uint32_t *id = vec_push(&sim->ids);
		struct node *n;

		if (!id)
			return false;
		*id = NOTHING;
		if (is_file(st->op) && sim->model->file <= 0 && !engine_of(s, st))
			continue;
		n = vec_push(&sim->nodes);
		if (!n || sim->nodes.n >= NOTHING)
			return false;
		*id = (uint32_t)(sim->nodes.n - 1);
		*n = (struct node){
		        .len = st->len,
		        .rank = (uint32_t)s->rank,
		        .peer = (uint32_t)st->peer,
		        .next = NOTHING,
		        .op = st->op,
		        .ninputs = sources(s, st),
		        .engine = (uint8_t)engine_of(s, st),
		        .inside = sim->host && st->peer >= 0 &&
		                  sim->host[st->peer] == sim->host[s->rank],
		};
	}
	return true;
}

static struct edge edge_of(const struct sched *s, uint32_t to, const struct sched_step *owner,
                           const struct sched_dep *d)
{
	const double from = (double)s->steps[d->step].len, len = (double)owner->len;
	const double lo = (double)d->lo, hi = (double)d->hi, shift = (double)d->shift;

	return (struct edge){
	        .to = to,
	        .from_lo = (float)((lo + shift) / from),
	        .from_hi = (float)((hi + shift) / from),
	        .to_lo = (float)(lo / len),
	        .to_hi = (float)(hi / len),
	};
}

/* Count the edges from each step, or (@enter) store them. */
static void walk_edges(struct sim *sim, const struct sched *s, bool enter)
{
	for (uint32_t i = 0; i < s->nsteps; i++) {
		const struct sched_step *st = &s->steps[i];

		for (uint32_t k = 0; k < st->ndep && sim->ids.v[i] != NOTHING; k++) {
			const struct sched_dep *d = &s->deps[st->dep + k];

			if (sim->ids.v[d->step] == NOTHING)
				continue;
			if (enter)
				sim->edges.v[sim->at.v[d->step]] = edge_of(s, sim->ids.v[i], st, d);
			else
				sim->nodes.v[sim->ids.v[i]].waits++;
			sim->at.v[d->step]++;
		}
	}
}

static bool add_edges(struct sim *sim, const struct sched *s)
{
	sim->at.n = 0;
	for (uint32_t i = 0; i < s->nsteps; i++) {
		uint32_t *at = vec_push(&sim->at);

		if (!at)
			return false;
		*at = 0;
	}
	walk_edges(sim, s, false);
	for (uint32_t i = 0; i < s->nsteps; i++) {
		const uint32_t n = sim->at.v[i];

		sim->at.v[i] = (uint32_t)sim->edges.n;
		if (sim->ids.v[i] != NOTHING)
			sim->nodes.v[sim->ids.v[i]].edges = (uint32_t)sim->edges.n;
		for (uint32_t k = 0; k < n; k++) {
			struct edge *e = vec_push(&sim->edges);

			if (!e || sim->edges.n >= NOTHING)
				return false;
		}
	}
	walk_edges(sim, s, true);
	return true;
}

static int cmp_keys(const void *pa, const void *pb)
{
	const uint64_t a = *(const uint64_t *)pa, b = *(const uint64_t *)pb;

	return a < b ? -1 : a > b;
}

/* List the sends, or the receives, of the rank read last, whose steps begin at node @first. */
static bool list_messages(struct sim *sim, uint32_t first, bool sends)
{
	sim->keys.n = 0;
	for (uint32_t id = first; id < sim->nodes.n; id++) {
		const struct node *n = &sim->nodes.v[id];
		uint64_t *key;

		if (sends ? n->op != SCHED_SEND : n->op != SCHED_RECV && n->op != SCHED_RECV_REDUCE)
			continue;
		key = vec_push(&sim->keys);
		if (!key)
			return false;
		*key = (uint64_t)n->peer << 32 | id;
	}
	if (sim->keys.n)
		qsort(sim->keys.v, sim->keys.n, sizeof(*sim->keys.v), cmp_keys);
	for (size_t k = 0; k < sim->keys.n; k++) {
		const uint32_t id = (uint32_t)sim->keys.v[k];
		const uint32_t before = k ? (uint32_t)sim->keys.v[k - 1] : NOTHING;
		uint32_t *to = sends ? vec_push(&sim->sends) : vec_push(&sim->recvs);

		if (!to)
			return false;
		*to = id;
		if (k && sim->nodes.v[before].peer == sim->nodes.v[id].peer) {
			sim->nodes.v[before].next = id;
			sim->nodes.v[id].waits++;
		}
	}
	return true;
}

static bool add_rank(struct sim *sim, const struct sched *s, char *why)
{
	const uint32_t first = (uint32_t)sim->nodes.n;

	if (!add_nodes(sim, s) || !add_edges(sim, s) || !list_messages(sim, first, true) ||
	    !list_messages(sim, first, false))
		return out_of_memory(why);
	sim->first_send[s->rank + 1] = (uint32_t)sim->sends.n;
	sim->first_recv[s->rank + 1] = (uint32_t)sim->recvs.n;
	return true;
}

/* ---- matching ---- */

/* The first receive of rank @to from @from, as an index of sim->recvs, or where it would be. */
static uint32_t find_recvs(const struct sim *sim, uint32_t to, uint32_t from)
{
	uint32_t lo = sim->first_recv[to], hi = sim->first_recv[to + 1];

	while (lo < hi) {
		const uint32_t mid = lo + (hi - lo) / 2;
		const struct node *n = &sim->nodes.v[sim->recvs.v[mid]];

		if (n->peer < from)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static bool match_rank(struct sim *sim, uint32_t rank, uint64_t *matched, char *why)
{
	const uint32_t end = sim->first_send[rank + 1];
	uint32_t r = 0, past = 0, peer = 0;

	for (uint32_t i = sim->first_send[rank]; i < end; i++, r++) {
		struct node *send = &sim->nodes.v[sim->sends.v[i]], *recv = NULL;

		if (i == sim->first_send[rank] || send->peer != peer) {
			peer = send->peer;
			r = find_recvs(sim, peer, rank);
			past = sim->first_recv[peer + 1];
		}
		if (r < past)
			recv = &sim->nodes.v[sim->recvs.v[r]];
		if (!recv || recv->peer != rank || recv->len != send->len) {
			snprintf(why, SIMULATE_TEXT,
			         "rank %" PRIu32 " sends %" PRIu64 " elements to rank %" PRIu32
			         ", which does not receive them",
			         rank, send->len, peer);
			return false;
		}
		send->peer = sim->recvs.v[r];
		recv->waits++;
		++*matched;
	}
	return true;
}

static bool match_all(struct sim *sim, char *why)
{
	uint64_t matched = 0;

	for (int r = 0; r < sim->size; r++)
		if (!match_rank(sim, (uint32_t)r, &matched, why))
			return false;
	if (matched == sim->recvs.n)
		return true;
	snprintf(why, SIMULATE_TEXT, "%" PRIu64 " messages are sent and %zu received", matched,
	         sim->recvs.n);
	return false;
}

/* ---- events ---- */

static bool before(const struct event *a, const struct event *b)
{
	if (a->when < b->when || a->when > b->when)
		return a->when < b->when;
	return a->node != b->node ? a->node < b->node : a->kind < b->kind;
}

static bool push(struct sim *sim, double when, uint32_t node, enum event_kind kind)
{
	const struct event e = {when, node, kind};
	struct event *v = vec_push(&sim->heap);
	size_t i = sim->heap.n - 1;

	if (!v)
		return false;
	for (v = sim->heap.v; i && before(&e, &v[(i - 1) / 2]); i = (i - 1) / 2)
		v[i] = v[(i - 1) / 2];
	v[i] = e;
	return true;
}

static struct event pop(struct sim *sim)
{
	struct event *v = sim->heap.v;
	const struct event top = v[0], last = v[--sim->heap.n];
	size_t i = 0, c;

	while ((c = 2 * i + 1) < sim->heap.n) {
		if (c + 1 < sim->heap.n && before(&v[c + 1], &v[c]))
			c++;
		if (!before(&v[c], &last))
			break;
		v[i] = v[c];
		i = c;
	}
	v[i] = last;
	return top;
}

/* ---- the cost of a step ---- */

/* The ports of @rank's host. */
static struct price_port port_of(const struct sim *sim, uint32_t rank)
{
	const struct price_model *m = sim->model;

	if (!m->ports)
		return (struct price_port){m->egress, m->ingress};
	return m->ports[host_of_rank(sim->host, (int)rank)];
}

/* Seconds per byte on the core. */
static double core_rate(const struct sim *sim, const struct node *n)
{
	const struct price_model *m = sim->model;
	const double tls = n->inside ? 0 : m->tls;

	switch (n->op) {
	case SCHED_SEND:
		return m->lends ? 0 : m->copy + tls;
	case SCHED_RECV:
		return m->copy + tls;
	case SCHED_RECV_REDUCE:
		return m->lends ? m->reduce : m->copy + tls + m->reduce;
	case SCHED_REDUCE:
		return m->reduce;
	case SCHED_LOCAL_REDUCE:
	case SCHED_JOINT:
		return m->reduce * (n->ninputs - 1);
	default:
		return is_file(n->op) ? 0 : m->copy;
	}
}

/* Seconds per byte at the slowest station on its own rank. */
static double own_rate(const struct sim *sim, const struct node *n)
{
	if (n->engine == ENGINE_FOLD) /* reads its inputs and writes its result */
		return sim->model->device_fold * (n->op == SCHED_LOCAL_REDUCE ? n->ninputs + 1 : 2);
	if (n->engine)
		return later(sim->model->device_copy, is_file(n->op) ? sim->model->file : 0);
	if (is_file(n->op))
		return sim->model->file;
	return n->op == SCHED_SEND && !n->inside
	               ? later(core_rate(sim, n), port_of(sim, n->rank).egress)
	               : core_rate(sim, n);
}

static double latency_of(const struct sim *sim, const struct node *n)
{
	return n->inside ? sim->model->inside : sim->model->latency;
}

static double bytes_of(const struct sim *sim, const struct node *n)
{
	return (double)n->len * sim->esize;
}

static double grain_of(const struct sim *sim, double bytes)
{
	return bytes < sim->model->grain ? bytes : sim->model->grain;
}

/* Book @work seconds, not before @from, on a station that is booked until *@until. Returns the
 * beginning. */
static double book(double *until, double from, double work)
{
	const double begin = later(*until, from);

	*until = begin + work;
	return begin;
}

/* The same for a core: the work begins at once and ends when all booked work is done. */
static double share(double *until, double from, double work)
{
	book(until, from, work);
	return from;
}

/* ---- successors of a step ---- */

static bool release(struct sim *sim, uint32_t id)
{
	struct node *n = &sim->nodes.v[id];

	return --n->waits || push(sim, n->begin, id, START);
}

/* The time when fraction @part of @n is done. */
static double point(const struct node *n, double part)
{
	return n->begin + (n->end - n->begin) * part;
}

static void constrain(const struct sim *sim, const struct node *from, const struct edge *e)
{
	struct node *to = &sim->nodes.v[e->to];
	const double work = bytes_of(sim, to) * own_rate(sim, to);
	const double lo = point(from, (double)e->from_lo), hi = point(from, (double)e->from_hi);

	if (sim->model->store_and_forward) {
		to->begin = later(to->begin, from->end);
		return;
	}
	if (e->to_lo <= 0)
		to->begin = later(to->begin, lo);
	to->end = later(to->end, lo + work * (1 - (double)e->to_lo));
	to->end = later(to->end, hi + work * (1 - (double)e->to_hi));
}

/* Step @id is booked: update its successors. */
static bool propagate(struct sim *sim, uint32_t id)
{
	const struct node *n = &sim->nodes.v[id];

	sim->booked++;
	for (uint32_t e = n[0].edges; e < n[1].edges; e++) {
		constrain(sim, n, &sim->edges.v[e]);
		if (!release(sim, sim->edges.v[e].to))
			return false;
	}
	if (n->next == NOTHING)
		return true;
	sim->nodes.v[n->next].end = later(sim->nodes.v[n->next].end, n->end);
	return release(sim, n->next);
}

/* ---- the stations ---- */

/* Put the send @id into the queue of its port, which is in the order of the numbers. */
static void enqueue(struct sim *sim, struct station *s, uint32_t id)
{
	struct node *nodes = sim->nodes.v;
	uint32_t *link = &s->queue; /* what will name @id */

	if (s->queue != NOTHING && s->queue_end < id) /* as for most: it is the last */
		link = &nodes[s->queue_end].behind;
	while (*link < id) /* NOTHING is greater than any number */
		link = &nodes[*link].behind;
	nodes[id].behind = *link;
	if (*link == NOTHING)
		s->queue_end = id;
	*link = id;
}

/* Let the port out of the rank of @id check for work at @when. */
static bool look_at(struct sim *sim, struct station *s, uint32_t id, double when)
{
	if (when >= s->look)
		return true;
	s->look = when;
	return push(sim, when, id, DEPART);
}

static bool start_send(struct sim *sim, uint32_t id)
{
	struct node *n = &sim->nodes.v[id];
	struct station *s = &sim->stations[n->rank];
	const double bytes = bytes_of(sim, n), rate = core_rate(sim, n), turn = sim->model->turn;

	n->begin =
	        share(&s->core, n->begin, turn + bytes * rate) + turn + grain_of(sim, bytes) * rate;
	n->end = later(n->end, s->core);
	enqueue(sim, s, id);
	return look_at(sim, s, id, later(n->begin, s->egress));
}

/* The port out of the rank of @id is free: start the first waiting send. */
static bool depart(struct sim *sim, uint32_t id, double now)
{
	const struct price_model *m = sim->model;
	struct station *s = &sim->stations[sim->nodes.v[id].rank];
	struct node *n;
	double out;

	if (now < s->look || now > s->look || s->queue == NOTHING) /* the port has checked since */
		return true;
	id = s->queue;
	n = &sim->nodes.v[id];
	s->queue = n->behind;
	out = n->inside ? 0 : bytes_of(sim, n) * port_of(sim, n->rank).egress;
	n->begin = book(&s->egress, n->begin, m->message + out) + m->message;
	n->end = later(n->end, s->egress);
	if (sim->host && !n->inside) {
		struct gate *g = &sim->gates[sim->host[n->rank]];

		n->begin = book(&g->egress, n->begin, out);
		n->end = later(n->end, g->egress);
	}
	s->look = INFINITY;
	return push(sim, n->begin - m->message + latency_of(sim, n), id, ARRIVE) &&
	       propagate(sim, id) && (s->queue == NOTHING || look_at(sim, s, id, s->egress));
}

/* A message from another host passes the port into @recv's. Returns when it comes to the rank's. */
static double enter(struct sim *sim, const struct node *recv, double when, double work, double *end)
{
	struct gate *g = sim->host ? &sim->gates[sim->host[recv->rank]] : NULL;

	if (!g)
		return when;
	when = book(&g->ingress, when, work);
	*end = later(*end, g->ingress);
	return when;
}

/* Message @id, a send, reaches its receiver's port. */
static bool arrive(struct sim *sim, uint32_t id)
{
	const struct price_model *m = sim->model;
	const struct node *send = &sim->nodes.v[id];
	struct node *recv = &sim->nodes.v[send->peer];
	struct station *s = &sim->stations[recv->rank];
	const double bytes = bytes_of(sim, send);
	const double latency = latency_of(sim, send);
	const double ingress = port_of(sim, recv->rank).ingress;
	const double slower = send->inside ? 0 : later(port_of(sim, send->rank).egress, ingress);
	const double first = grain_of(sim, bytes) * slower;
	const double work = send->inside ? 0 : bytes * ingress;
	double in = send->begin - m->message + latency, end = send->end + latency;

	if (!send->inside)
		in = enter(sim, recv, in, work, &end);
	in = book(&s->ingress, in, m->message + work);
	end = later(end, s->ingress);
	recv->begin = later(recv->begin, m->store_and_forward ? end : in + m->message + first);
	recv->end = later(recv->end, end);
	return release(sim, send->peer);
}

/* A task of a device; a file's bytes pass through it. */
static bool start_on_device(struct sim *sim, uint32_t id)
{
	struct node *n = &sim->nodes.v[id];
	struct station *s = &sim->stations[n->rank];
	const double bytes = bytes_of(sim, n), rate = own_rate(sim, n);
	double *files = n->op == SCHED_READ ? &s->reader : &s->writer;

	if (is_file(n->op))
		n->begin = book(files, n->begin, bytes * sim->model->file);
	n->begin = book(&s->engines[n->engine], n->begin, sim->model->device_start + bytes * rate) +
	           sim->model->device_start;
	n->end = later(n->end, s->engines[n->engine]);
	return propagate(sim, id);
}

static bool start_local(struct sim *sim, uint32_t id)
{
	struct node *n = &sim->nodes.v[id];
	struct station *s = &sim->stations[n->rank];
	const double bytes = bytes_of(sim, n), rate = own_rate(sim, n);
	const bool receives = n->op == SCHED_RECV || n->op == SCHED_RECV_REDUCE;
	double *files = n->op == SCHED_READ ? &s->reader : &s->writer;

	n->begin = is_file(n->op) ? book(files, n->begin, bytes * rate)
	                          : share(&s->core, n->begin, bytes * rate);
	n->end = later(n->end, is_file(n->op) ? *files : s->core);
	if (receives)
		n->begin += grain_of(sim, bytes) * rate;
	return propagate(sim, id);
}

static bool run(struct sim *sim, struct simulation *out, char *why)
{
	for (int r = 0; r < sim->size; r++)
		sim->stations[r] = (struct station){.queue = NOTHING, .look = INFINITY};
	for (uint32_t id = 0; id < sim->nodes.n - 1; id++)
		if (!sim->nodes.v[id].waits && !push(sim, 0, id, START))
			return out_of_memory(why);
	while (sim->heap.n) {
		const struct event e = pop(sim);
		const struct node *n = &sim->nodes.v[e.node];

		if (!(e.kind == DEPART      ? depart(sim, e.node, e.when)
		      : e.kind == ARRIVE    ? arrive(sim, e.node)
		      : n->op == SCHED_SEND ? start_send(sim, e.node)
		      : n->engine           ? start_on_device(sim, e.node)
		                            : start_local(sim, e.node)))
			return out_of_memory(why);
	}
	*out = (struct simulation){.steps = sim->nodes.n - 1};
	if (sim->booked < out->steps) {
		snprintf(why, SIMULATE_TEXT, "steps wait for each other in a cycle");
		return false;
	}
	for (uint32_t id = 0; id < out->steps; id++)
		if (sim->nodes.v[id].end > out->seconds) {
			out->seconds = sim->nodes.v[id].end;
			out->last = (int)sim->nodes.v[id].rank;
		}
	return true;
}

/* ---- observation ---- */

static bool observe_node(const struct sim *sim, const struct node *n,
                         const struct simulate_observer *o)
{
	const struct node *recv = n->op == SCHED_SEND ? &sim->nodes.v[n->peer] : NULL;
	const struct simulated_event e = {
	        .kind = recv ? SIMULATED_MESSAGE : SIMULATED_STEP,
	        .rank = (int)n->rank,
	        .peer = recv ? (int)recv->rank : -1,
	        .op = recv ? recv->op : n->op,
	        .start = recv ? later(0, n->begin - sim->model->message) : n->begin,
	        .end = recv ? recv->end : n->end,
	        .bytes = (uint64_t)bytes_of(sim, n),
	};

	return n->op == SCHED_RECV || n->op == SCHED_RECV_REDUCE || o->event(o->ctx, &e);
}

static bool observe(const struct sim *sim, const struct simulate_observer *o, char *why)
{
	for (size_t id = 0; o && id < sim->nodes.n - 1; id++)
		if (!observe_node(sim, &sim->nodes.v[id], o))
			return out_of_memory(why);
	return true;
}

/* ---- simulation ---- */

static bool sim_init(struct sim *sim, const struct price_model *m, int size, const int *host,
                     unsigned esize, char *why)
{
	const struct coll_args a = {.size = size, .host = host};
	const size_t n = (size_t)size;

	*sim = (struct sim){.model = m, .esize = esize, .size = size};
	sim->host = hosts_shared(&a) ? host : NULL;
	sim->gates = calloc((size_t)hosts_count(&a) + 1, sizeof(*sim->gates));
	sim->first_send = calloc(n + 1, sizeof(*sim->first_send));
	sim->first_recv = calloc(n + 1, sizeof(*sim->first_recv));
	sim->stations = calloc(n, sizeof(*sim->stations));
	return (sim->first_send && sim->first_recv && sim->stations && sim->gates) ||
	       out_of_memory(why);
}

static void sim_release(struct sim *sim)
{
	free(sim->nodes.v);
	free(sim->edges.v);
	free(sim->sends.v);
	free(sim->recvs.v);
	free(sim->first_send);
	free(sim->first_recv);
	free(sim->stations);
	free(sim->gates);
	free(sim->heap.v);
	free(sim->ids.v);
	free(sim->at.v);
	free(sim->keys.v);
}

/* After reading all ranks: match, run, release. */
static bool finish(struct sim *sim, bool ok, const struct simulate_observer *o,
                   struct simulation *out, char *why)
{
	struct node *end = ok ? vec_push(&sim->nodes) : NULL; /* the end of the last node's edges */

	if (ok && !end)
		ok = out_of_memory(why);
	if (ok) {
		*end = (struct node){.edges = (uint32_t)sim->edges.n};
		ok = match_all(sim, why) && run(sim, out, why) && observe(sim, o, why);
	}
	sim_release(sim);
	return ok;
}

bool simulate_observed(const struct price_model *m, struct sched *const *scheds, int size,
                       const int *host, unsigned esize, const struct simulate_observer *o,
                       struct simulation *out, char *why)
{
	struct sim sim;
	bool ok = sim_init(&sim, m, size, host, esize, why);

	for (int r = 0; r < size && ok; r++)
		ok = add_rank(&sim, scheds[r], why);
	return finish(&sim, ok, o, out, why);
}

bool simulate_schedules(const struct price_model *m, struct sched *const *scheds, int size,
                        const int *host, unsigned esize, struct simulation *out, char *why)
{
	return simulate_observed(m, scheds, size, host, esize, NULL, out, why);
}

static struct sched *build(const struct coll_algorithm *alg, const struct coll_args *args,
                           char *why)
{
	enum sched_error e;
	struct sched *s = coll_build(alg, args, &e);

	if (!s)
		snprintf(why, SIMULATE_TEXT, "%s of rank %d: %s", alg->name, args->rank,
		         sched_strerror(e));
	return s;
}

/* Estimates the number of steps from the root's and, for all other ranks, those of the root's
 * neighbours. */
bool simulate_estimate(const struct coll_algorithm *alg, const struct coll_args *args,
                       uint64_t *steps, char *why)
{
	struct coll_args a = *args;
	uint64_t most = 0;

	*steps = 0;
	for (int k = 0; k < 3 && k < a.size; k++) {
		struct sched *s;

		a.rank = (a.root + k) % a.size;
		s = build(alg, &a, why);
		if (!s)
			return false;
		if (k == 0)
			*steps = s->nsteps;
		else if (s->nsteps > most)
			most = s->nsteps;
		sched_free(s);
	}
	*steps += most * (uint64_t)(a.size - 1);
	return true;
}

bool simulate_algorithm(const struct price_model *m, const struct coll_algorithm *alg,
                        const struct coll_args *args, unsigned esize, struct simulation *out,
                        char *why)
{
	struct coll_args a = *args;
	struct sim sim;
	uint64_t steps;
	bool ok;

	if (!simulate_estimate(alg, args, &steps, why))
		return false;
	if (steps >= SIMULATE_STEPS_MAX) {
		snprintf(why, SIMULATE_TEXT, "%d schedules of about %" PRIu64 " steps in all",
		         a.size, steps);
		return false;
	}
	a.checked = true;                 /* by the estimate */
	if (m->file <= 0 && !a.devices) { /* omit steps without a cost */
		a.stores = false;
		a.loaded = true;
	}
	ok = sim_init(&sim, m, a.size, a.host, esize, why);
	for (a.rank = 0; a.rank < a.size && ok; a.rank++) {
		struct sched *s = build(alg, &a, why);

		ok = s && add_rank(&sim, s, why);
		sched_free(s);
	}
	return finish(&sim, ok, NULL, out, why);
}
