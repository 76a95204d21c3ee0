/*
 * The phases inside hosts. See hosts.h.
 */
#include <stdlib.h>

#include "algorithms/parts/hosts.h"

/* ---- the ranks of each host ---- */

/* List the ranks by host. @next: the place of the next one of each host. */
static void list_ranks(struct hosts *h, int *first, int *ranks)
{
	const struct coll_args *a = h->a;

	for (int r = 0; r < a->size; r++)
		first[host_of_rank(a->host, r) + 1]++;
	h->least = a->size;
	for (int i = 0; i < h->n; i++) {
		h->least = first[i + 1] < h->least ? first[i + 1] : h->least;
		first[i + 1] += first[i];
	}
	/* first[i] moves to the end of host i, which is the beginning of the next. */
	ranks[first[host_of_rank(a->host, a->root)]++] = a->root;
	for (int r = 0; r < a->size; r++)
		if (r != a->root)
			ranks[first[host_of_rank(a->host, r)]++] = r;
	for (int i = h->n; i > 0; i--)
		first[i] = first[i - 1];
	first[0] = 0;
}

static bool measure_blocks(struct hosts *h, struct sched_builder *b)
{
	const struct coll_args *a = h->a;
	uint64_t *before = sched_memory(b, (size_t)a->size, sizeof(*before));
	uint64_t *total = sched_memory(b, (size_t)h->n, sizeof(*total));
	int *number = sched_memory(b, (size_t)a->size, sizeof(*number));

	h->pieces = sched_memory(b, (size_t)a->size, sizeof(*h->pieces));
	if (!before || !total || !number || !h->pieces)
		return false;
	for (int r = 0; r < a->size; r++) {
		before[r] = total[a->host[r]];
		total[a->host[r]] += a->off[r + 1] - a->off[r];
	}
	for (int i = 0; i < h->n; i++)
		for (int k = h->first[i]; k < h->first[i + 1]; k++)
			number[h->ranks[k]] = k - h->first[i];
	h->number = number;
	h->before = before;
	h->total = total;
	return true;
}

/* ---- lanes ---- */

/* The part of rank @r's block that belongs to lane @l. */
static struct range cut_block(const struct hosts *h, int r, int l)
{
	const uint64_t all = h->total[h->a->host[r]], from = h->before[r];
	const uint64_t end = from + h->a->off[r + 1] - h->a->off[r];
	uint64_t lo = coll_split_at(all, h->least, l), hi = coll_split_at(all, h->least, l + 1);

	if (h->even)
		return h->number[r] == l ? block_range(h->a, r) : (struct range){0, 0};
	lo = lo > from ? lo : from;
	hi = hi < end ? hi : end;
	return (struct range){h->a->off[r] + lo - from, lo < hi ? hi - lo : 0};
}

/* Without blocks of ranks: block i of lane @l. */
static uint64_t lane_at(const struct hosts *h, int l, int i)
{
	if (h->even)
		return h->a->off[l * h->n + i];
	return coll_split_at(coll_count(h->a), h->n * h->least, l * h->n + i);
}

/* The pieces of lane @l, in @pieces or as one block, @off[2]. */
static struct circle lane_pieces(const struct hosts *h, int l, struct piece *pieces,
                                 uint64_t off[2])
{
	struct circle c = {.size = 1, .off = off};

	if (!h->before) {
		off[0] = lane_at(h, l, 0);
		off[1] = lane_at(h, l, h->n);
		return c;
	}
	for (int r = 0; r < h->a->size; r++)
		pieces[r] = (struct piece){cut_block(h, r, l), h->a->host[r]};
	c.pieces = pieces;
	c.npieces = h->a->size;
	c.size = h->n;
	return c;
}

/* The circle of the owners of this rank's lane. */
static bool make_lane(struct hosts *h, struct sched_builder *b)
{
	const struct coll_args *a = h->a;
	const int root = host_of_rank(a->host, a->root);
	int *ranks = sched_memory(b, (size_t)h->n, sizeof(*ranks));
	uint64_t *off = sched_memory(b, (size_t)h->n + 1, sizeof(*off));
	struct piece *pieces = h->before ? sched_memory(b, (size_t)a->size, sizeof(*pieces)) : NULL;

	if (!ranks || !off || (h->before && !pieces))
		return false;
	h->lane = (struct circle){.a = a, .off = off};
	if (h->before)
		h->lane = lane_pieces(h, h->local, pieces, off);
	for (int i = 0; i <= h->n && !h->before; i++)
		off[i] = lane_at(h, h->local, i);
	for (int i = 0; i < h->n; i++)
		ranks[i] = h->ranks[h->first[i] + h->local];
	h->lane.size = h->n;
	h->lane.unit = 1;
	h->lane.ranks = ranks;
	h->lane.shift = h->before ? 0 : root;
	h->lane.me = circle_add(&h->lane, h->host, -h->lane.shift);
	return true;
}

const char *hosts_or_circulant(const struct coll_args *a)
{
	return hosts_shared(a) ? NULL : "circulant";
}

const char *hosts_or_linear(const struct coll_args *a)
{
	return hosts_shared(a) ? NULL : "linear";
}

bool hosts_list(struct hosts *h, struct sched_builder *b, const struct coll_args *a, bool owned)
{
	int *first, *ranks;

	*h = (struct hosts){.a = a,
	                    .n = hosts_or_ranks(a->host, a->size),
	                    .host = host_of_rank(a->host, a->rank)};
	first = sched_memory(b, (size_t)h->n + 1, sizeof(*first));
	ranks = sched_memory(b, (size_t)a->size, sizeof(*ranks));
	if (!first || !ranks)
		return false;
	list_ranks(h, first, ranks);
	h->even = h->n * h->least == a->size;
	h->first = first;
	h->ranks = ranks;
	while (ranks[first[h->host] + h->local] != a->rank)
		h->local++;
	return !owned || measure_blocks(h, b);
}

int hosts_run(const struct hosts *h, int i, int k)
{
	int end = k + 1;

	while (end < hosts_ranks(h, i) && hosts_rank(h, i, end) == hosts_rank(h, i, end - 1) + 1)
		end++;
	return end;
}

bool hosts_blocks(const struct hosts *h, int i, int *k, struct range *r)
{
	const uint64_t *off = h->a->off;

	if (*k == hosts_ranks(h, i))
		return false;
	const int end = hosts_run(h, i, *k);
	const uint64_t from = off[hosts_rank(h, i, *k)];
	*r = (struct range){from, off[hosts_rank(h, i, end - 1) + 1] - from};
	*k = end;
	return true;
}

void hosts_send_blocks(struct sched_builder *b, const struct hosts *h, int of, int to,
                       struct sched_span work)
{
	struct range r;

	for (int k = 0; hosts_blocks(h, of, &k, &r);)
		work_send(b, hosts_rank(h, to, 0), work, r);
}

void hosts_recv_blocks(struct sched_builder *b, const struct hosts *h, int of, int from,
                       struct sched_span work)
{
	struct range r;

	for (int k = 0; hosts_blocks(h, of, &k, &r);)
		work_recv(b, hosts_rank(h, from, 0), work, r);
}

struct hosts_parts hosts_parts(const struct coll_args *a)
{
	const int n = hosts_or_ranks(a->host, a->size), root = host_of_rank(a->host, a->root);
	const double all = a->off ? (double)coll_count(a) : 0;
	uint64_t *own = calloc((size_t)n, sizeof(*own));
	struct hosts_parts p = {1.0 / n, 1.0 / n};

	for (int r = 0; own && all > 0 && r < a->size; r++)
		own[host_of_rank(a->host, r)] += block_range(a, r).len;
	if (!own)
		p = (struct hosts_parts){1, 1};
	else if (all > 0)
		p = (struct hosts_parts){(double)own[root] / all, 0};
	for (int h = 0; own && all > 0 && h < n; h++)
		if (h != root && (double)own[h] / all > p.others)
			p.others = (double)own[h] / all;
	free(own);
	return p;
}

bool hosts_init(struct hosts *h, struct sched_builder *b, const struct coll_args *a, bool owned)
{
	return hosts_list(h, b, a, owned) && (!hosts_owner(h) || make_lane(h, b));
}

bool hosts_init_firsts(struct hosts *h, struct sched_builder *b, const struct coll_args *a)
{
	if (!hosts_list(h, b, a, false))
		return false;
	h->least = 1;
	h->even = false;
	return !hosts_owner(h) || make_lane(h, b);
}

/* ---- the phases inside hosts ---- */

/* The @part of lane @c that its owner and rank @r hand over. */
static struct walk walk_part(const struct hosts *h, const struct circle *c, int r,
                             enum hosts_part part)
{
	const bool none = (part == HOSTS_ROOT && r != h->a->root) ||
	                  (part == HOSTS_NOT_ROOT && r == h->a->root);
	struct walk w = walk_blocks(c, 0, none ? 0 : c->size);

	w.only = part == HOSTS_BLOCK ? r : -1;
	w.but = part == HOSTS_OTHERS ? r : -1;
	return w;
}

/* The rank that is @d after this one among the first @count of its host. */
static int neighbour(const struct hosts *h, int d, int count)
{
	return hosts_rank(h, h->host, (h->local + d) % count);
}

/* What a rank does with the ranges of a lane. */
enum act { FOLD, SEND, RECV, RECV_REDUCE };

static void act_on(struct sched_builder *b, struct walk w, enum act act, int peer,
                   struct sched_span work)
{
	struct range r;

	while (walk_next(&w, &r)) {
		if (act == FOLD)
			work_fold(b, work, r);
		else if (act == SEND)
			work_send(b, peer, work, r);
		else if (act == RECV)
			work_recv(b, peer, work, r);
		else
			work_add(b, peer, work, r);
	}
}

/* Act on this rank's parts of the other ranks' lanes. The next one's is the first, so that not all
 * ranks begin with one owner. */
static void act_on_others(struct sched_builder *b, struct hosts *h, struct sched_span work,
                          enum hosts_part part, enum act act)
{
	for (int d = hosts_owner(h) ? 1 : 0; d < h->least; d++) {
		const int l = (h->local + d) % h->least;
		uint64_t off[2];
		const struct circle c = lane_pieces(h, l, h->pieces, off);

		act_on(b, walk_part(h, &c, h->a->rank, part), act, neighbour(h, d, h->least), work);
	}
}

/* Act on the other ranks' parts of this rank's lane. */
static void act_on_mine(struct sched_builder *b, struct hosts *h, struct sched_span work,
                        enum hosts_part part, enum act act)
{
	const int count = hosts_ranks(h, h->host);

	for (int d = 1; hosts_owner(h) && d < count; d++) {
		const int peer = neighbour(h, d, count);

		act_on(b, walk_part(h, &h->lane, peer, part), act, peer, work);
	}
}

void hosts_fold(struct sched_builder *b, struct hosts *h, struct sched_span work)
{
	act_on_others(b, h, work, HOSTS_ALL, FOLD);
	if (hosts_owner(h))
		act_on(b, walk_blocks(&h->lane, 0, h->n), FOLD, -1, work);
}

void hosts_to_owners(struct sched_builder *b, struct hosts *h, struct sched_span work,
                     enum hosts_part part, bool reduce)
{
	act_on_others(b, h, work, part, SEND);
	act_on_mine(b, h, work, part, reduce ? RECV_REDUCE : RECV);
}

void hosts_from_owners(struct sched_builder *b, struct hosts *h, struct sched_span work,
                       enum hosts_part part)
{
	act_on_mine(b, h, work, part, SEND);
	act_on_others(b, h, work, part, RECV);
}
