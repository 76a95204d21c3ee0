/* The files of a check: the rates of a tuning file, and the list of hosts. See check_files.h. */
#include "lib/coll/check_files.h"

#include <stdio.h>
#include <stdlib.h>

#include "lib/base/buf.h"
#include "lib/data/files/outfile.h"
#include "lib/links/clique.h"
#include "lib/sched/placement.h"

static int host_of(const struct check_hosts *c, int rank)
{
	return host_of_rank(c->host, link_rank(c->links, rank));
}

static const char *name_of(const struct check_hosts *c, int rank)
{
	return c->name(c->ctx, link_rank(c->links, rank));
}

/* Is @rank the first of its host? */
static bool is_first(const struct check_hosts *c, int rank)
{
	for (int r = 0; r < rank; r++)
		if (host_of(c, r) == host_of(c, rank))
			return false;
	return true;
}

/* ---- the tuning file ---- */

static void lower_to(double *least, double rate)
{
	if (rate > 0 && (*least <= 0 || 1 / rate < *least))
		*least = 1 / rate;
}

/* A host's port is as fast as the fastest link of its ranks with another host. */
static struct price_port port_of(const struct check_hosts *c, int host)
{
	struct price_port p = {0};

	for (int r = 0; r < c->links->size; r++)
		for (int q = 0; q < c->links->size && host_of(c, r) == host; q++) {
			if (host_of(c, q) == host)
				continue;
			lower_to(&p.egress, link_cell(c->links, r, q)->rate);
			lower_to(&p.ingress, link_cell(c->links, q, r)->rate);
		}
	return p;
}

static int add_hosts(const struct check_hosts *c, struct select_tuning *t, struct err *err)
{
	for (int r = 0; r < c->links->size; r++) {
		if (!*name_of(c, r) || !is_first(c, r))
			continue;
		const struct price_port port = port_of(c, host_of(c, r));
		if (port.egress > 0 && port.ingress > 0 &&
		    tuning_add_host(t, name_of(c, r), port, err) < 0)
			return -1;
	}
	return tuning_settle_hosts(t, err);
}

int check_rates(const struct check_hosts *c, struct select_tuning *t, struct err *err)
{
	const struct link_matrix *m = c->links;

	if (m->median > 0)
		t->rates.latency = m->median / 2;
	if (m->rate > 0)
		t->rates.egress = t->rates.ingress = 1 / m->rate;
	tuning_clear_hosts(t);
	if (add_hosts(c, t, err) < 0)
		return -1;
	for (int r = 0; r < m->size; r++)
		for (int q = 0; q < m->size; q++)
			if (host_of(c, r) != host_of(c, q) && link_cell(m, r, q)->median > 0)
				tuning_add_trip(t, name_of(c, r), name_of(c, q),
				                link_cell(m, r, q)->median);
	return 0;
}

/* ---- the list of hosts ---- */

/* linked[i * n + j]: all links from the ranks of host i to those of host j are good. */
static void find_links(const struct check_hosts *c, bool *linked)
{
	const size_t n = (size_t)c->n;

	for (size_t i = 0; i < n * n; i++)
		linked[i] = true;
	for (int r = 0; r < c->links->size; r++)
		for (int q = 0; q < c->links->size; q++)
			if (r != q && link_cell(c->links, r, q)->state != LINK_WORKS)
				linked[(size_t)host_of(c, r) * n + (size_t)host_of(c, q)] = false;
}

static void put_hosts(struct buf *b, const struct check_hosts *c, const bool *in)
{
	char slots[32];

	for (int r = 0; r < c->links->size; r++) {
		int ranks = 0;
		if (!in[host_of(c, r)] || !is_first(c, r))
			continue;
		for (int q = r; q < c->links->size; q++)
			ranks += host_of(c, q) == host_of(c, r);
		buf_put_text(b, name_of(c, r));
		snprintf(slots, sizeof slots, ranks > 1 ? " slots=%d\n" : "\n", ranks);
		buf_put_text(b, slots);
	}
}

int check_write_hosts(const struct check_hosts *c, const char *path, struct err *err)
{
	const size_t n = (size_t)c->n;
	bool *linked = err_calloc(n * n, sizeof *linked, "the hosts", err);
	bool *in = err_calloc(n, sizeof *in, "the hosts", err);
	struct buf b;
	int found = -1;

	buf_init(&b, UINT32_MAX);
	if (linked && in) {
		find_links(c, linked);
		found = clique_find(linked, c->n, in, err);
	}
	if (found >= 0)
		put_hosts(&b, c, in);
	if (found >= 0 &&
	    (b.failed ? err_nomem(err, "the list of hosts", b.len)
	              : outfile_put(path, b.len ? (const char *)b.data : "", b.len, err)) < 0)
		found = -1;
	buf_release(&b);
	free(linked);
	free(in);
	return found;
}
