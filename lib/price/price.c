/*
 * Prices by formula. See price.h.
 */
#include "lib/price/price.h"

#include <math.h>

const struct price_model price_default = {
        .latency = 50e-6,
        .inside = PRICE_WAKE,
        .message = 5e-6,
        .egress = 0.85e-9,
        .ingress = 0.85e-9,
        .copy = 0.10e-9,
        .tls = 0.22e-9,
        .reduce = 0.12e-9,
        .grain = 16 << 10,
        .device_start = 10e-6,
        .device_copy = 0.04e-9,
        .device_fold = 0.001e-9,
};

/* Messages of several ranks that meet at a port fill its queue, and some are sent again. */
#define MEETS 1.1

/* Ranks that share processors wait so much longer in pairs. */
#define PAIRS 1.15

/* Where copies are cheap, adding in a wider type takes so much longer. */
#define WIDER 1.0

static double larger(double a, double b)
{
	return a > b ? a : b;
}

static double smaller(double a, double b)
{
	return a < b ? a : b;
}

struct price_model price_with_devices(const struct price_model *m,
                                      const struct price_model *devices)
{
	struct price_model with = *m;

	with.device_start = devices->device_start;
	with.device_copy = devices->device_copy;
	with.device_fold = devices->device_fold;
	return with;
}

struct price_model price_placed(const struct price_model *m, bool insecure)
{
	struct price_model placed = *m;

	if (insecure)
		placed.tls = 0;
	return placed;
}

/* Ranks for each processor, at least 1. */
static double crowd_of(int ranks, int cpus)
{
	return ranks > cpus ? (double)ranks / cpus : 1;
}

/* The rates of a core of a host of @cpus processors and @ranks ranks. */
static struct price_model crowded(const struct price_model *m, int ranks, int cpus)
{
	const double crowd = crowd_of(ranks, cpus);
	struct price_model placed = *m;

	placed.inside = PRICE_WAKE * crowd;
	placed.turn = crowd > 1 ? PRICE_TURN * crowd : 0;
	placed.copy *= crowd;
	placed.tls *= crowd;
	placed.reduce *= crowd;
	return placed;
}

struct price_model price_on_one_host(const struct price_model *m, int size, int cpus)
{
	struct price_model placed = crowded(m, size, cpus);

	placed.latency = placed.inside;
	placed.egress = placed.ingress = 0;
	return placed;
}

struct price_model price_in_memory(const struct price_model *m, int size, int cpus)
{
	const double crowd = crowd_of(size, cpus);
	struct price_model placed = *m;

	placed.latency = placed.inside = PRICE_MEMORY_WAKE * crowd;
	placed.message = placed.tls = placed.egress = placed.ingress = 0;
	placed.turn = PRICE_MEMORY_TURN * crowd;
	placed.crowd = crowd;
	placed.grain = PRICE_MEMORY_GRAIN;
	placed.copy = PRICE_MEMORY_COPY * crowd;
	placed.reduce = PRICE_MEMORY_REDUCE * crowd;
	placed.lends = true;
	return placed;
}

struct price_model price_on_hosts(const struct price_model *m, int most, int cpus)
{
	return crowded(m, most, cpus ? cpus : most);
}

/* The part of a message of @bytes that a rank forwards at once. */
static double grain_of(const struct price_model *m, double bytes)
{
	return m->store_and_forward || bytes < m->grain ? bytes : m->grain;
}

double price_formula(const struct price_model *m, const struct coll_cost *c, double bytes)
{
	const double incoming = c->sent > 0 ? c->messages * c->received / c->sent : 0;
	const double meets = c->meets ? MEETS : 1;
	const double leaves = c->out > 0 ? c->out : c->leaves * m->egress;
	const double enters = c->in > 0 ? c->in : c->enters * m->ingress;
	const double out = c->messages * m->message + leaves * bytes * meets;
	const double in = incoming * m->message + enters * bytes * meets;
	const double copied = m->lends ? larger(0, c->received - c->reduced) + c->copies + c->moved
	                               : c->sent + c->received;
	const double added = c->reduced + (m->lends ? WIDER * c->widened : 0);
	const double stall = m->lends && c->pairs ? PAIRS : 1;
	/* If other ranks are idle, the busiest one has a processor for itself. */
	const double crowd = larger(1, m->crowd);
	const double slowed = c->busy > 0 ? larger(c->busy, 1 / crowd) : 1;
	const double work =
	        (c->messages * m->turn +
	         (copied * m->copy + c->crosses * m->tls + added * m->reduce) * bytes * stall) *
	        slowed;
	/* Messages between hosts, and inside. */
	const double port = larger(m->egress, m->ingress) * c->sharing;
	const double copy = m->copy / crowd;
	const double slowest = larger(port, copy + m->tls);
	const double outer = c->apiece * bytes;
	const double inner = c->messages > 0 ? c->sent * bytes / c->messages : 0;
	const double start = m->message + m->turn;
	const double first = start + grain_of(m, outer) * slowest;
	const double inside = start + grain_of(m, inner) * copy;
	/* The last message is among the bytes of a host, whose time is known. */
	const double counted = c->out > 0 ? larger(c->out, c->in) * bytes : INFINITY;
	const double rest = c->outer > 0 ? smaller((outer - grain_of(m, outer)) * slowest, counted)
	                                 : (inner - grain_of(m, inner)) * copy;
	const double path =
	        c->outer * (m->latency + first) + (c->rounds - c->outer) * (m->inside + inside);
	const double unsent = larger(0, c->rounds - c->messages) * (c->outer > 0 ? first : inside);

	if (c->rounds <= 0)
		return 0;
	const double waits = larger(unsent, path * c->idle / c->rounds);
	const double last = c->outer > 0 ? m->latency : m->inside;
	return larger(larger(larger(out, in), work) + waits + last * (m->lends ? c->rounds : 1),
	              path + rest);
}
