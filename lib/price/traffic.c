/*
 * Counts what leaves hosts. See traffic.h.
 */
#include <stdlib.h>

#include "algorithms/table.h"
#include "lib/price/traffic.h"
#include "lib/sched/placement.h"

/* What leaves and enters each host. */
struct tally {
	const int *host; /* NULL: every rank has its own */
	const struct price_port *ports;
	uint64_t *leaves, *enters;
	struct traffic *out;
};

static bool tally_init(struct tally *t, const int *host, int hosts, const struct price_port *ports,
                       struct traffic *out)
{
	*out = (struct traffic){0};
	*t = (struct tally){.host = host, .ports = ports, .out = out};
	t->leaves = calloc((size_t)hosts + 1, sizeof(*t->leaves));
	t->enters = calloc((size_t)hosts + 1, sizeof(*t->enters));
	return t->leaves && t->enters;
}

static void tally_release(struct tally *t)
{
	free(t->leaves);
	free(t->enters);
}

static void raise_to(uint64_t *most, uint64_t x)
{
	*most = x > *most ? x : *most;
}

/* The times at the ports of host @h, with what is counted so far. */
static void time_host(struct tally *t, int h)
{
	const double out = (double)t->leaves[h] * t->ports[h].egress;
	const double in = (double)t->enters[h] * t->ports[h].ingress;

	t->out->out = out > t->out->out ? out : t->out->out;
	t->out->in = in > t->out->in ? in : t->out->in;
}

static void count_rank(struct tally *t, const struct sched *s)
{
	const int here = host_of_rank(t->host, s->rank);
	uint64_t sent = 0, received = 0, pieces = 0;

	for (uint32_t i = 0; i < s->nsteps; i++) {
		const struct sched_step *st = &s->steps[i];
		const bool out = st->peer >= 0 && host_of_rank(t->host, st->peer) != here;

		t->out->messages += st->op == SCHED_SEND;
		pieces += st->op == SCHED_SEND && out;
		if (!out)
			continue;
		*(st->op == SCHED_SEND ? &sent : &received) += st->len;
	}
	t->out->outer += pieces;
	if (sent > t->out->sent)
		t->out->pieces = pieces;
	t->leaves[here] += sent;
	t->enters[here] += received;
	if (t->ports)
		time_host(t, here);
	raise_to(&t->out->leaves, t->leaves[here]);
	raise_to(&t->out->enters, t->enters[here]);
	raise_to(&t->out->sent, sent);
	raise_to(&t->out->received, received);
	raise_to(&t->out->crosses, sent + received);
}

bool traffic_of_schedules(struct sched *const *scheds, const int *host, int size,
                          struct traffic *out)
{
	const struct coll_args a = {.size = size, .host = host};
	struct tally t;
	const bool ok = tally_init(&t, host, hosts_count(&a), NULL, out);

	for (int r = 0; ok && r < size; r++)
		count_rank(&t, scheds[r]);
	tally_release(&t);
	return ok;
}

/* ---- emitted schedules ---- */

/* The hosts whose ranks are counted. */
static void choose_hosts(const struct tally *t, const struct coll_args *a, int hosts,
                         uint64_t *ranks, bool *chosen)
{
	int largest = 0, out = 0, in = 0;

	for (int r = 0; r < a->size; r++)
		ranks[host_of_rank(t->host, r)]++;
	for (int h = 0; h < hosts; h++) {
		largest = ranks[h] > ranks[largest] ? h : largest;
		chosen[h] = a->size <= (t->ports ? TRAFFIC_PORTS : TRAFFIC_ALL);
	}
	for (int h = 0; t->ports && h < hosts; h++) {
		out = t->ports[h].egress > t->ports[out].egress ? h : out;
		in = t->ports[h].ingress > t->ports[in].ingress ? h : in;
	}
	chosen[out] = chosen[in] = true;
	chosen[0] = chosen[hosts / 2] = chosen[hosts - 1] = true;
	chosen[largest] = chosen[host_of_rank(t->host, a->root)] = true;
}

static bool count_emitted(struct tally *t, const struct coll_algorithm *alg, struct coll_args a)
{
	enum sched_error e;
	struct sched *s = coll_emit(alg, &a, &e);

	if (s)
		count_rank(t, s);
	sched_free(s);
	return s;
}

bool traffic_of(const struct coll_algorithm *alg, const struct coll_args *args,
                const struct price_port *ports, struct traffic *out)
{
	const int hosts = hosts_or_ranks(args->host, args->size);
	uint64_t *ranks = calloc((size_t)hosts + 1, sizeof(*ranks));
	bool *chosen = calloc((size_t)hosts + 1, sizeof(*chosen));
	struct coll_args a = *args;
	struct tally t;
	bool ok = tally_init(&t, args->host, hosts, ports, out) && ranks && chosen;

	if (ok)
		choose_hosts(&t, args, hosts, ranks, chosen);
	a.ninputs = 1;
	a.stores = false;
	a.devices = 0;
	for (a.rank = 0; ok && a.rank < a.size; a.rank++)
		if (chosen[host_of_rank(t.host, a.rank)])
			ok = count_emitted(&t, alg, a);
	tally_release(&t);
	free(ranks);
	free(chosen);
	return ok;
}
