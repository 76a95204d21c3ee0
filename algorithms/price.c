/*
 * Prices by formula. See price.h.
 */
#include "algorithms/price.h"

const struct price_model price_default = {
        .latency = 50e-6,
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

static double larger(double a, double b)
{
	return a > b ? a : b;
}

struct price_model price_placed(const struct price_model *m, bool insecure)
{
	struct price_model placed = *m;

	if (insecure)
		placed.tls = 0;
	return placed;
}

struct price_model price_on_one_host(const struct price_model *m, int size, int cpus)
{
	const double crowd = size > cpus ? (double)size / cpus : 1;
	struct price_model placed = *m;

	placed.latency = PRICE_WAKE * crowd;
	placed.turn = crowd > 1 ? PRICE_TURN * crowd : 0;
	placed.egress = placed.ingress = 0;
	placed.copy *= crowd;
	placed.tls *= crowd;
	placed.reduce *= crowd;
	return placed;
}

double price_formula(const struct price_model *m, const struct coll_cost *c, double bytes)
{
	const double incoming = c->sent > 0 ? c->messages * c->received / c->sent : 0;
	const double each = c->messages > 0 ? c->sent * bytes / c->messages : 0;
	const double grain = m->store_and_forward || each < m->grain ? each : m->grain;
	const double core = m->copy + m->tls;
	const double slowest = larger(larger(m->egress, m->ingress), core);
	const double first = m->message + m->turn + grain * slowest,
	             rest = (each - grain) * slowest;
	const double out = c->messages * m->message + c->sent * bytes * m->egress;
	const double in = incoming * m->message + c->received * bytes * m->ingress;
	const double work = c->messages * m->turn +
	                    ((c->sent + c->received) * core + c->reduced * m->reduce) * bytes;
	const double waits = larger(0, c->rounds - c->messages) * first;

	if (c->rounds <= 0)
		return 0;
	return larger(larger(larger(out, in), work) + waits + m->latency,
	              c->rounds * (m->latency + first) + rest);
}
