/*
 * What is known of the hosts' ports. See network.h.
 */
#include "lib/price/network.h"

#include <math.h>
#include <stdlib.h>

#include "lib/price/fill.h"
#include "lib/sched/placement.h"

const char *network_from_name(enum network_from from)
{
	static const char *const names[NETWORK_SOURCES] = {
	        [NETWORK_INTERFACE] = "interface",
	        [NETWORK_TUNING] = "--tuning",
	        [NETWORK_TOLD] = "--link-rate",
	};

	return names[from];
}

int network_init(struct network *n, int hosts, bool tuned, struct err *err)
{
	*n = (struct network){.n = hosts, .tuned = tuned};
	n->host = err_calloc((size_t)hosts, sizeof *n->host, "the hosts", err);
	n->port = err_calloc((size_t)hosts, sizeof *n->port, "the hosts", err);
	return n->host && n->port ? 0 : -1;
}

void network_release(struct network *n)
{
	free(n->host);
	free(n->port);
	*n = (struct network){0};
}

/* The lower of two rates, of which 0 is not known. */
static uint64_t lower(uint64_t a, uint64_t b)
{
	return !a || (b && b < a) ? b : a;
}

void network_add(struct network *n, int h, const struct network_found *f)
{
	struct network_found *to = &n->host[h].found;

	n->socket = lower(n->socket, f->socket);
	to->limit = lower(to->limit, f->limit);
	if (f->from < to->from || !f->up || !f->down || (n->tuned && f->from == NETWORK_INTERFACE))
		return;
	if (f->from > to->from)
		to->up = to->down = 0;
	to->from = f->from;
	to->up = lower(to->up, f->up);
	to->down = lower(to->down, f->down);
}

void network_add_round_trip(struct network *n, int h, double round_trip)
{
	double *to = &n->host[h].round_trip;

	if (!n->tuned && round_trip > 0 && (*to <= 0 || round_trip < *to))
		*to = round_trip;
}

double network_class(double round_trip)
{
	double class = 1e-3;

	if (round_trip < class / 2)
		return 0;
	while (round_trip >= 2 * class)
		class *= 4;
	return class;
}

static struct price_port slower(struct price_port a, struct price_port b)
{
	return (struct price_port){fmax(a.egress, b.egress), fmax(a.ingress, b.ingress)};
}

static struct price_port port_of(const struct network_found *f)
{
	/* Measured rates are those of data. */
	const double part = f->from == NETWORK_TUNING ? 1 : NETWORK_PAYLOAD;

	return (struct price_port){1 / ((double)f->up * part), 1 / ((double)f->down * part)};
}

void network_settle(struct network *n, const struct price_model *base)
{
	const struct price_port nothing = {base->egress, base->ingress};
	struct price_port known = {0};
	double farthest = 0;

	for (int h = 0; h < n->n; h++) {
		if (n->host[h].found.from)
			known = slower(known, port_of(&n->host[h].found));
		farthest = fmax(farthest, n->host[h].round_trip);
	}
	if (n->round_trip <= 0)
		n->round_trip = network_class(farthest);
	n->known = known.egress > 0 || n->round_trip > 0;
	n->slowest = (struct price_port){0};
	for (int h = 0; h < n->n; h++) {
		const struct network_found *f = &n->host[h].found;
		struct price_port *p = &n->port[h];

		*p = f->from ? port_of(f) : known.egress > 0 ? known : nothing;
		if (f->limit)
			p->egress = fmax(p->egress, 1 / (double)f->limit);
		n->limited |= f->limit > 0;
		n->slowest = slower(n->slowest, *p);
	}
	n->known |= n->limited;
	for (int h = 0; h < n->n; h++)
		n->uneven |= n->port[h].egress < n->slowest.egress ||
		             n->port[h].ingress < n->slowest.ingress;
}

double network_rate(const struct network *n)
{
	const double slowest = fmax(n->slowest.egress, n->slowest.ingress);
	bool known = n->limited;

	for (int h = 0; h < n->n; h++)
		known |= n->host[h].found.from != NETWORK_UNKNOWN;
	return known && n->n > 1 && slowest > 0 ? 1 / slowest : 0;
}

uint64_t network_bdp(const struct network *n)
{
	double up = 0, down = 0;

	if (n->n < 2 || n->round_trip <= 0)
		return 0;
	for (int h = 0; h < n->n; h++) {
		up = fmax(up, 1 / n->port[h].egress);
		down = fmax(down, 1 / n->port[h].ingress);
	}
	return (uint64_t)fmin(fmin(up, down) * n->round_trip, 1e15);
}

/* Divide the shares of the hosts, @of, among their ranks, @ranks of each; both are used up. */
static void share_out(const struct coll_args *a, uint32_t *of, int *ranks, uint32_t *share)
{
	const bool all = a->ordered || a->joint;

	for (int r = a->size - 1; r >= 0; r--) {
		const int h = host_of_rank(a->host, r), left = ranks[h]--;

		share[r] = left == 1 ? of[h] : all ? of[h] / (uint32_t)left : 0;
		of[h] -= share[r];
	}
}

/* The rate of a host that counts for its share. */
static double rate_of(const struct network *n, enum coll_kind kind, int h)
{
	if (!n || !n->uneven)
		return 1;
	return 1 / (kind == COLL_BROADCAST ? n->port[h].egress
	                                   : fmax(n->port[h].egress, n->port[h].ingress));
}

int network_shares(const struct network *n, enum coll_kind kind, const struct coll_args *a,
                   uint32_t *share, struct err *err)
{
	const int root = kind == COLL_BROADCAST ? host_of_rank(a->host, a->root) : -1;
	const int hosts = hosts_or_ranks(a->host, a->size);
	double *rate = err_calloc((size_t)hosts, sizeof *rate, "the hosts", err);
	uint32_t *of = err_calloc((size_t)hosts, sizeof *of, "the hosts", err);
	int *ranks = err_calloc((size_t)hosts, sizeof *ranks, "the hosts", err);
	int ret = -1;

	if (rate && of && ranks) {
		for (int h = 0; h < hosts; h++)
			rate[h] = rate_of(n, kind, h);
		for (int r = 0; r < a->size; r++)
			ranks[host_of_rank(a->host, r)]++;
		fill_shares(rate, hosts, root, of);
		share_out(a, of, ranks, share);
		ret = 0;
	}
	free(rate);
	free(of);
	free(ranks);
	return ret;
}

struct price_model network_model(const struct network *n, const struct price_model *m)
{
	struct price_model with = *m;

	if (n->n == 1) { /* only limits count where there is no network */
		with.egress = n->limited ? fmax(m->egress, n->slowest.egress) : m->egress;
		return with;
	}
	with.egress = n->slowest.egress;
	with.ingress = n->slowest.ingress;
	with.ports = n->uneven ? n->port : NULL;
	if (n->round_trip > 0)
		with.latency = n->round_trip / 2;
	return with;
}
