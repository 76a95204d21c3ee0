/*
 * --delta: ranks that lack pieces of OLD form a group with the root, which sends them what the
 * others get as differences. See update.h.
 */
#include "lib/coll/files/update.h"

#include <stdlib.h>
#include <string.h>

#include "lib/coll/collective.h"

static bool is_none(const uint8_t *digest)
{
	static const uint8_t none[DIGEST_BYTES];
	return memcmp(digest, none, sizeof none) == 0;
}

void update_find_bases(struct collective *c)
{
	struct update *u = &c->transfer.update;
	for (uint64_t i = 0; i < u->npieces && c->agreed.rank != c->agreed.root; i++) {
		const uint8_t *old = u->of_old + i * DIGEST_BYTES;
		const bool has =
		        !is_none(old) && memcmp(old, u->own + i * DIGEST_BYTES, DIGEST_BYTES) == 0;
		if (has)
			update_set_bit(u->own_base, i);
		if (!update_bit(u->own_lacks, i))
			continue;
		update_set_bit(u->bases, 2 * i + has);
		if (!has && !is_none(old))
			update_set_bit(u->bases, 2 * u->npieces + (uint64_t)c->agreed.rank);
	}
}

bool update_lacks_old(const struct collective *c, int rank)
{
	const struct update *u = &c->transfer.update;
	return update_bit(u->bases, 2 * u->npieces + (uint64_t)rank);
}

/* ---- the vector among the group ---- */

static int list_without(struct collective *c, struct err *err)
{
	struct update *u = &c->transfer.update;
	u->without_old = err_calloc((size_t)c->agreed.size, sizeof(int), "the ranks", err);
	for (int r = 0; u->without_old && r < c->agreed.size; r++)
		if (update_lacks_old(c, r))
			u->without_old[u->nwithout++] = r;
	return u->without_old ? 0 : -1;
}

/* The group's ranks in the job, ascending. Returns their number. */
static int list_group(const struct collective *c, int *ranks)
{
	int n = 0;
	for (int r = 0; r < c->agreed.size; r++)
		if (r == c->agreed.root || update_lacks_old(c, r))
			ranks[n++] = r;
	return n;
}

/* Their hosts, as in struct coll_args. */
static void list_hosts(const int *host, const int *ranks, int n, int *hosts)
{
	int nhosts = 0;
	for (int k = 0; k < n; k++) {
		int first = 0;
		while (host[ranks[first]] != host[ranks[k]])
			first++;
		hosts[k] = first < k ? hosts[first] : nhosts++;
	}
}

/* -1: it is none of the group. */
static int number_in(const int *ranks, int n, int rank)
{
	for (int k = 0; k < n; k++)
		if (ranks[k] == rank)
			return k;
	return -1;
}

static int lay_out(const struct collective *c, struct vector *v, int n, struct err *err)
{
	const struct agreement *a = &c->agreed;
	const int own = number_in(v->ranks, n, a->rank);
	struct layout_of of = vector_layout_of(v, a, c->request);
	int *hosts = v->ranks + a->size;
	of.size = own < 0 ? 1 : n;
	of.root = own < 0 ? 0 : number_in(v->ranks, n, a->root);
	of.host = own < 0 || !a->host ? NULL : hosts;
	v->info.count = v->info.shape[0] =
	        own < 0 ? 0 : c->transfer.update.coded_bytes[UPDATE_WHOLE];
	if (of.host)
		list_hosts(a->host, v->ranks, n, hosts);
	if (own < 0) { /* a vector without elements */
		free(v->ranks);
		v->ranks = NULL;
	}
	return layout_make(&v->layout, &of, own < 0 ? 0 : own, NULL, NULL, err);
}

int update_add_group(struct collective *c, struct err *err)
{
	struct agreement *a = &c->agreed;
	if (list_without(c, err) < 0)
		return -1;
	if (!c->transfer.update.coded_bytes[UPDATE_WHOLE])
		return 0;
	struct vector *v = err_realloc(a->vectors, 2, sizeof *v, "the vectors", err);
	if (!v)
		return -1;
	a->vectors = v++;
	*v = a->vectors[0];
	v->layout = (struct vector_layout){0};
	v->tensors = NULL;
	v->ntensors = 0;
	a->nvectors = 2;
	/* The second half is for the hosts. */
	v->ranks = err_calloc(2 * (size_t)a->size, sizeof *v->ranks, "the ranks", err);
	return v->ranks ? lay_out(c, v, list_group(c, v->ranks), err) : -1;
}
