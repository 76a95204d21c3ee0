/*
 * Reduce-scatter and allgather on a circulant graph: with the minimum of rounds and bytes for any P
 * (see circulant.h).
 *
 * R[i] is block (r + i) mod P: each rank numbers the blocks from its own.
 * 1. Reduce-scatter: s = P. While s > 1: s' = s, s = ceil(s/2); send R[s .. s'-1] to r + s, receive
 *    as many from r - s and add them to R[0 .. s'-s-1]. A rank no longer uses blocks that it has
 *    sent. At the end R[0], block r, is complete.
 * 2. Allgather: the same (s', s) backwards: send R[0 .. s'-s-1] to r - s, receive R[s .. s'-1]
 *    from r + s.
 *
 * Each ceil(log2 P) rounds and S(P-1)/P bytes, no scratch; blocks may be uneven. A run of blocks
 * that wraps around is two messages, in the same round.
 *
 * P = 5: (s', s) = (5,3) (3,2) (2,1). Rank 0's blocks:
 *
 *   send 3,4 to 3   add 0,1 from 2      R: 0 1 2 . .
 *   send 2 to 2     add 0 from 3        R: 0 1 . . .
 *   send 1 to 1     add 0 from 4        R: 0 . . . .    block 0 is complete
 *   send 0 to 4     receive 1 from 1    R: 0 1 . . .
 *   send 0 to 3     receive 2 from 2    R: 0 1 2 . .
 *   send 0,1 to 2   receive 3,4 from 3  R: 0 1 2 3 4
 *
 * Any skips with s >= s'/2 work. Where N hosts have n ranks each, they are composed: the ranks are
 * numbered so that rank l of host h is number l*N + h, and the skips are N times those of n ranks,
 * then those of N. So the first rounds of the reduce-scatter, and the last of the allgather, stay
 * inside hosts, and in each of the two only S(N-1)/N leave a host. ceil(log2 n) + ceil(log2 N)
 * rounds each. N = 2, n = 2: number 0 is rank 0 of host 0, 1: rank 0 of host 1, 2: rank 1 of host
 * 0; (s', s) = (4,2) inside hosts, (2,1) between them.
 *
 * A rank may have more than its own block when the allgather begins, R[0 .. h-1]: these are not
 * sent to it. In the reduce-scatter a rank may keep its sums of R[0 .. h-1]; a later phase adds
 * them up.
 *
 * Source: Träff, Optimal, Non-pipelined Reduce-scatter and Allreduce Algorithms, arXiv:2410.14234.
 */
#include "algorithms/parts/circulant.h"
#include "algorithms/parts/hosts.h"

/* The skip after @s. */
static int next_skip(int s, int unit)
{
	const int n = s > unit ? s / unit : s;

	return (s > unit ? unit : 1) * (n - n / 2);
}

/* ---- phases ---- */

/* The blocks R[i] .. R[i+count-1] of this rank. */
static struct walk walk_mine(const struct circle *c, int i, int count)
{
	return walk_blocks(c, circle_add(c, c->me, i), count);
}

static void fold_blocks(struct sched_builder *b, const struct circle *c, struct sched_span work,
                        int i, int count)
{
	struct walk w = walk_mine(c, i, count);
	struct range r;

	while (walk_next(&w, &r))
		work_fold(b, work, r);
}

static void send_blocks(struct sched_builder *b, const struct circle *c, struct sched_span work,
                        int to, int i, int count)
{
	struct walk w = walk_mine(c, i, count);
	struct range r;

	while (walk_next(&w, &r))
		work_send(b, circle_rank(c, to), work, r);
}

static void recv_blocks(struct sched_builder *b, const struct circle *c, struct sched_span work,
                        int from, int i, int count, bool reduce)
{
	struct walk w = walk_mine(c, i, count);
	struct range r;

	while (walk_next(&w, &r))
		if (reduce)
			work_add(b, circle_rank(c, from), work, r);
		else
			work_recv(b, circle_rank(c, from), work, r);
}

/* The blocks of R[s .. s1-1] that number @to lacks: they begin at *first. Returns how many they
 * are.
 */
static int missing(const struct circle *c, int to, int s, int s1, int *first)
{
	const int n = c->has ? c->has(c->a, to) : 1;

	*first = n > s ? n : s;
	return *first < s1 ? s1 - *first : 0;
}

/* Fold first what is sent first. */
void circle_fold(struct sched_builder *b, const struct circle *c, struct sched_span work)
{
	const int s = next_skip(c->size, c->unit);

	fold_blocks(b, c, work, s, c->size - s);
	fold_blocks(b, c, work, 0, s);
}

void circle_reduce_scatter(struct sched_builder *b, const struct circle *c, struct sched_span work)
{
	for (int s1 = c->size, s; s1 > 1; s1 = s) {
		int from, first, count;

		s = next_skip(s1, c->unit);
		from = circle_add(c, c->me, -s);
		count = missing(c, c->me, s, s1, &first);
		send_blocks(b, c, work, circle_add(c, c->me, s), first, count);
		count = missing(c, from, s, s1, &first);
		recv_blocks(b, c, work, from, first - s, count, true);
	}
}

/* Run the pairs in ascending order, by recursion from @s1 down. */
static void gather_pairs(struct sched_builder *b, const struct circle *c, struct sched_span work,
                         int s1)
{
	const int s = next_skip(s1, c->unit), to = circle_add(c, c->me, -s);
	int first, count;

	if (s1 == 1)
		return;
	gather_pairs(b, c, work, s);
	count = missing(c, to, s, s1, &first);
	send_blocks(b, c, work, to, first - s, count);
	count = missing(c, c->me, s, s1, &first);
	recv_blocks(b, c, work, circle_add(c, c->me, s), first, count, false);
}

void circle_allgather(struct sched_builder *b, const struct circle *c, struct sched_span work)
{
	gather_pairs(b, c, work, c->size);
}

/* ---- the circle of all ranks ---- */

bool circulant_circle(struct sched_builder *b, const struct coll_args *a, bool owned,
                      struct circle *c)
{
	struct piece *pieces;
	struct hosts h;
	int *ranks;

	*c = circle_of_all(a, NULL);
	if (!hosts_shared(a))
		return true;
	if (!hosts_init(&h, b, a, false))
		return false;
	if (h.n * h.least < a->size)
		return true;
	ranks = sched_memory(b, (size_t)a->size, sizeof(*ranks));
	pieces = sched_memory(b, (size_t)a->size, sizeof(*pieces));
	if (!ranks || !pieces)
		return false;
	for (int v = 0; v < a->size; v++) {
		ranks[v] = h.ranks[h.first[v % h.n] + v / h.n];
		pieces[ranks[v]] = (struct piece){block_range(a, ranks[v]), v};
	}
	c->me = h.local * h.n + h.host;
	c->unit = h.n;
	c->ranks = ranks;
	c->pieces = owned ? pieces : NULL;
	c->npieces = a->size;
	return true;
}

/* ---- the cost ---- */

/* The number of hosts if the skips are composed, else 1. */
static int unit_of(const struct coll_args *a)
{
	const struct hosts_sizes s = hosts_sizes(a);

	return s.n && s.least == s.most ? s.n : 1;
}

int circulant_rounds(const struct coll_args *a)
{
	const int unit = unit_of(a);

	return log2_ceil(a->size / unit) + log2_ceil(unit);
}

int circulant_outer_rounds(const struct coll_args *a)
{
	const int unit = unit_of(a);

	return log2_ceil(unit > 1 ? unit : a->size);
}

/* The number of rounds of the allgather in which @rank's run of blocks wraps around. */
static int gather_wraps(int size, int unit, int rank)
{
	int wraps = 0;

	for (int s1 = size; s1 > 1; s1 = next_skip(s1, unit))
		wraps += rank + s1 - next_skip(s1, unit) > size;
	return wraps;
}

/* In the reduce-scatter the run of a rank wraps in one round at most: in round (s', s) those of the
 * ranks P-s'+1 .. P-s-1 do. In the allgather a higher rank's run wraps as often as a lower one's or
 * more. So the rank that sends most is the last one of such a set, or the last of all. */
static int most_wraps(int size, int unit, bool scatter, bool gather)
{
	int most = gather ? gather_wraps(size, unit, size - 1) : 0;

	for (int s1 = size; scatter && s1 > 1; s1 = next_skip(s1, unit)) {
		const int s = next_skip(s1, unit), last = size - s - 1;
		const int wraps = 1 + (gather ? gather_wraps(size, unit, last) : 0);

		if (s1 - s > 1 && wraps > most)
			most = wraps;
	}
	return most;
}

/* Blocks of ranks: inside hosts a message for each host, two where its run wraps around, if the
 * ranks of a host are consecutive; between hosts one for each block. */
static int most_pieces(const struct coll_args *a, int unit)
{
	int n = 0;

	for (int s1 = a->size; s1 > 1; s1 = next_skip(s1, unit)) {
		const int count = s1 - next_skip(s1, unit);

		n += count < 2 * unit ? count : 2 * unit;
	}
	return n;
}

double circulant_messages(const struct coll_args *a, bool scatter, bool gather, bool owned)
{
	const int phases = scatter + gather, unit = unit_of(a);

	if (owned && unit > 1)
		return phases * most_pieces(a, unit);
	return phases * circulant_rounds(a) + most_wraps(a->size, unit, scatter, gather);
}

int circle_messages(int size)
{
	return 2 * log2_ceil(size) + most_wraps(size, 1, true, true);
}
