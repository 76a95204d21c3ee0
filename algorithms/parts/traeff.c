/*
 * Träff's round-optimal broadcast schedule (see traeff.h), in O(log^2 P) for one rank and without
 * communication.
 *
 * 1. skip[q] = P, skip[k] = ceil(skip[k+1] / 2). Each r is a sum of different skips, found greedily
 *    from the largest down: a path from the root. The last skip on it is r's base block: the first
 *    block that r receives.
 * 2. In q consecutive rounds r receives its base block b and all other blocks of the previous turn
 *    of q blocks: R[k] = e - q for each e except b. The round k of a block is found by a search for
 *    paths to r - skip[k], over the e in descending order, that avoid r's base block and each e
 *    that already has a round.
 * 3. In round k, r sends the block that r + skip[k] receives.
 * 4. A broadcast of n blocks begins in the middle of a turn, so that its last round ends a turn: x
 *    rounds are skipped, and all block numbers are reduced by x. Blocks below 0 do not exist; n - 1
 *    replaces those above.
 *
 * P = 5, skips 1 2 3 (5), q = 3; the receive schedules:
 *
 *   rank   base block   R[0]   R[1]   R[2]
 *   0      none         -3     -1     -2     the root: all of the turn before
 *   1      0             0     -1     -2
 *   2      1            -3      1     -1
 *   3      2            -2     -3      2
 *   4      0            -1     -2      0
 *
 * Source: Träff, Optimal Broadcast Schedules in Logarithmic Time with Applications to Broadcast,
 * All-Broadcast, Reduction and All-Reduction, arXiv:2407.18004.
 */
#include <stdint.h>

#include "algorithms/parts/traeff.h"

/* The search takes skips from index e down a list; used skips are unlinked. */
struct search {
	int q;
	const int *skip;
	int64_t rho, limit;
	int next[TRAEFF_LOG + 1], prev[TRAEFF_LOG + 2]; /* prev[e + 1] */
	int *found;
};

static void unlink_skip(struct search *s, int e)
{
	const int before = s->prev[e + 1], after = s->next[e];

	if (before >= 0)
		s->next[before] = after;
	s->prev[after + 1] = before;
}

/* Search on from the sum @at of skips, with @k rounds found. Returns the number of rounds found. */
static int search(struct search *s, int64_t at, int e, int k)
{
	for (; e != -1; e = s->next[e]) {
		const int64_t to = at + s->skip[e];

		if (to > s->rho - s->skip[k] || to >= s->limit)
			continue;
		if (to <= s->rho - s->skip[k + 1]) {
			k = search(s, to, e, k);
			if (k == s->q)
				return k;
		}
		if (at > s->rho - s->skip[k + 1])
			return k;
		s->limit = to;
		s->found[k++] = e;
		unlink_skip(s, e);
		if (k == s->q)
			return k;
	}
	return k;
}

static int base_block(const struct traeff *t, int r)
{
	int base = t->q;

	for (int k = t->q - 1; k >= 0; k--)
		if (r >= t->skip[k]) {
			r -= t->skip[k];
			base = k;
		}
	return base;
}

static void receive_schedule(const struct traeff *t, int r, int *recv)
{
	const int size = t->skip[t->q], base = base_block(t, r);
	struct search s = {.q = t->q,
	                   .skip = t->skip,
	                   .rho = (int64_t)size + r,
	                   .limit = 2 * (int64_t)size,
	                   .found = recv};

	for (int e = t->q; e >= 0; e--) {
		s.next[e] = e - 1;
		s.prev[e + 1] = e < t->q ? e + 1 : -1;
	}
	s.prev[0] = 0;
	unlink_skip(&s, base);
	search(&s, 0, t->q, 0);
	for (int k = 0; k < t->q; k++)
		recv[k] = recv[k] == t->q ? base : recv[k] - t->q;
}

void traeff_schedule(int size, int r, struct traeff *t)
{
	t->r = r;
	t->q = log2_ceil(size);
	t->skip[t->q] = size;
	for (int k = t->q - 1; k >= 0; k--)
		t->skip[k] = t->skip[k + 1] - t->skip[k + 1] / 2;
	receive_schedule(t, r, t->recv);
	for (int k = 0; k < t->q; k++) {
		int theirs[TRAEFF_LOG];

		receive_schedule(t, (int)(((int64_t)r + t->skip[k]) % size), theirs);
		t->send[k] = theirs[k];
	}
}

/* The block @offset above @block in a broadcast of @n blocks. */
static int block_at(int block, int offset, int n)
{
	if (block + offset < 0)
		return -1;
	return block + offset < n ? block + offset : n - 1;
}

struct traeff_round traeff_round(const struct traeff *t, int n, int i)
{
	const int x = (t->q - (n - 1) % t->q) % t->q, k = (i + x) % t->q, offset = i - k;
	const bool to_root = t->skip[t->q] - t->skip[k] == t->r;

	return (struct traeff_round){
	        .skip = t->skip[k],
	        .send = to_root ? -1 : block_at(t->send[k], offset, n),
	        .recv = t->r == 0 ? -1 : block_at(t->recv[k], offset, n),
	};
}

int traeff_blocks(int size)
{
	return size > 2 ? 16 * (log2_ceil(size) - 1) + 1 : 1;
}

struct range traeff_block(struct range whole, int n, int j)
{
	const uint64_t from = coll_split_at(whole.len, n, j < 0 ? 0 : j);

	return (struct range){whole.off + from,
	                      j < 0 ? 0 : coll_split_at(whole.len, n, j + 1) - from};
}

/* ---- the phases ---- */

struct circle traeff_circle(const struct coll_args *a)
{
	return (struct circle){
	        .size = a->size, .me = rank_add(a, a->rank, -a->root), .shift = a->root};
}

void traeff_broadcast(struct sched_builder *b, const struct circle *c, struct sched_span work,
                      struct range whole)
{
	const int n = traeff_blocks(c->size);
	struct traeff t;

	if (c->size < 2)
		return;
	traeff_schedule(c->size, c->me, &t);
	for (int i = 0; i < n - 1 + t.q; i++) {
		const struct traeff_round x = traeff_round(&t, n, i);

		work_send(b, circle_rank(c, circle_add(c, c->me, x.skip)), work,
		          traeff_block(whole, n, x.send));
		work_recv(b, circle_rank(c, circle_add(c, c->me, -x.skip)), work,
		          traeff_block(whole, n, x.recv));
	}
}

/* Block @j of the broadcast. */
static struct range mirrored(struct range whole, int n, int j)
{
	return traeff_block(whole, n, j < 0 ? -1 : n - 1 - j);
}

void traeff_reduce(struct sched_builder *b, const struct circle *c, struct sched_span work,
                   struct range whole)
{
	const int n = traeff_blocks(c->size);
	struct traeff t;

	if (c->size < 2)
		return;
	traeff_schedule(c->size, c->me, &t);
	for (int i = n - 2 + t.q; i >= 0; i--) {
		const struct traeff_round x = traeff_round(&t, n, i);

		work_add(b, circle_rank(c, circle_add(c, c->me, x.skip)), work,
		         mirrored(whole, n, x.send));
		work_send(b, circle_rank(c, circle_add(c, c->me, -x.skip)), work,
		          mirrored(whole, n, x.recv));
	}
}
