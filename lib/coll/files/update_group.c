/*
 * --delta: ranks that lack pieces of OLD form a group with the root, which sends them what the
 * others get as differences. See update.h.
 */
#include "lib/coll/files/update.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/offload.h"
#include "lib/coll/collective.h"
#include "lib/job/ranks.h"

static bool is_none(const uint8_t *digest)
{
	static const uint8_t none[DIGEST_BYTES];
	return memcmp(digest, none, sizeof none) == 0;
}

struct finding {
	struct collective *c;
	int old; /* with moves: the old version; -1: none */
	const char *path;
	uint8_t *buf;
};

/* Has this rank OLD's piece? */
static bool has_base(const struct finding *f, const struct update_piece *p)
{
	const struct update *u = &f->c->transfer.update;
	const uint8_t *want = u->of_old + p->i * DIGEST_BYTES;
	const uint8_t *own = u->own + p->i * DIGEST_BYTES;
	uint8_t digest[DIGEST_BYTES];
	struct err unread = ERR_INIT;
	if (is_none(want))
		return false;
	if (!update_has_moves(u, p->f))
		return memcmp(want, own, DIGEST_BYTES) == 0;
	return f->old >= 0 &&
	       update_read_base(u, f->old, f->path, p, f->buf, digest, &unread) == 0 &&
	       memcmp(want, digest, DIGEST_BYTES) == 0;
}

static int find_base(void *ctx, const struct update_piece *p, struct err *err)
{
	const struct finding *f = ctx;
	struct update *u = &f->c->transfer.update;
	if (offload_stopped(err) < 0)
		return -1;
	if (!update_bit(u->own_lacks, p->i))
		return 0;
	const bool has = has_base(f, p);
	if (update_has_moves(u, p->f)) /* then it has read the piece */
		atomic_fetch_add(&u->compared, p->n);
	if (has)
		update_set_bit(u->own_base, p->i);
	update_set_bit(u->bases, 2 * p->i + has);
	if (!has && !is_none(u->of_old + p->i * DIGEST_BYTES))
		update_set_bit(u->bases, 2 * u->npieces + (uint64_t)f->c->agreed.rank);
	return 0;
}

int update_find_bases(void *collective, struct err *err)
{
	struct collective *c = collective;
	struct finding of = {.c = c, .buf = err_malloc(UPDATE_PIECE, "staging", err)};
	int ret = of.buf ? 0 : -1;
	for (int f = 0; f < c->agreed.root_files.nfiles && ret == 0; f++) {
		const int file = files_place(c, 0, (size_t)f)->file;
		of.path = sink_path(c->transfer.sink, file);
		of.old = update_has_moves(&c->transfer.update, f)
		                 ? sink_open_old(c->transfer.sink, file, NULL)
		                 : -1;
		ret = update_each_piece(c, f, find_base, &of, err);
		if (of.old >= 0)
			close(of.old);
	}
	free(of.buf);
	return ret;
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

static int lay_out(const struct collective *c, struct vector *v, int n, struct err *err)
{
	const struct agreement *a = &c->agreed;
	const int own = ranks_find(v->ranks, n, a->rank);
	struct layout_of of = vector_layout_of(v, a, c->request);
	int *hosts = v->ranks + a->size;
	of.size = own < 0 ? 1 : n;
	of.root = own < 0 ? 0 : ranks_find(v->ranks, n, a->root);
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
