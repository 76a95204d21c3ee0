/*
 * alltoall bruck
 *
 * The part from rank s to rank s+i is in slot i on every rank that it passes. It travels a distance
 * of i, one digit of i to the base k after the other, the lowest first.
 * 1. For the weights w = 1, k, k^2, .. < P and z = 1 .. k-1: pack all slots whose digit of weight w
 *    is z, send them to r + zw in one message, receive as many from r - zw. The k-1 messages of a
 *    weight are one round.
 * 2. At the end slot i has the part from rank r-i: copy it to its place.
 *
 * The slots gw .. gw+w-1 are a group. They differ only in the digits that they have already
 * travelled, so before the digit of weight w all of them are for the same rank, r + gw. They also
 * have the same length if the parts of every rank have the same lengths. Slots are packed in
 * descending order: then the groups of lower weights are contiguous in a group of a higher weight,
 * and at the end the sources ascend.
 *
 * k-1 messages a round, of about S/k bytes. Scratch: as much for packing and as much for receiving.
 * If parts differ by rank (recv_off), the lengths of passing parts are unknown.
 *
 * P = 4, k = 2, rank 0's slots, "st" is the part from rank s to rank t:
 *
 *   slot          0     1     2     3
 *   at first      00    01    02    03
 *   w = 1         00    30    02    32     1, 3 to rank 1, from rank 3
 *   w = 2         00    30    20    10     2, 3 to rank 2, from rank 2
 *
 * Source: Efficient Algorithms for All-to-All Communications in Multiport Message-Passing Systems.
 */
#include "algorithms/parts/blocks.h"

#define LEVELS 32 /* digits, at most */

struct bruck {
	struct sched_builder *b;
	const struct coll_args *a;
	int base, levels;
	int64_t weight[LEVELS + 1];    /* weights of the digits; the last one is P or more */
	struct sched_span got[LEVELS]; /* the message of z = 1; that of z is z-1 buffers further */
};

/* The number of existing slots among the @n from @first on. */
static int64_t slots(const struct coll_args *a, int64_t first, int64_t n)
{
	return first + n < a->size ? n : a->size - first;
}

/* The length of a part for the rank @far from @rank. */
static uint64_t part_len(const struct coll_args *a, int rank, int64_t far)
{
	return block_range(a, (int)((rank + far) % a->size)).len;
}

/* The number of elements of the message that @rank sends for digit @z of a level. */
static uint64_t message_len(const struct bruck *x, int rank, int level, int64_t z)
{
	const int64_t w = x->weight[level];
	uint64_t n = 0;

	for (int64_t g = z; g * w < x->a->size; g += x->base)
		n += (uint64_t)slots(x->a, g * w, w) * part_len(x->a, rank, g * w);
	return n;
}

/* The offset of slot @first's group in a level's messages: whole groups precede it. */
static uint64_t group_at(const struct bruck *x, int level, int64_t first)
{
	uint64_t n = 0;

	for (int64_t i = 0; i + x->weight[level + 1] <= first; i += x->weight[level + 1])
		n += (uint64_t)x->weight[level] * part_len(x->a, x->a->rank, i);
	return n;
}

/* Copy @n parts of @len elements to the places from the @at-th on, among the P places at @dst,
 * modulo P. */
static void put(const struct bruck *x, struct sched_span dst, int64_t at, struct sched_span src,
                int64_t n, uint64_t len)
{
	const int64_t size = x->a->size, to = at % size, fit = n < size - to ? n : size - to;

	sched_copy(x->b, span_add(dst, (uint64_t)to * len), src, (uint64_t)fit * len, 0);
	sched_copy(x->b, dst, span_add(src, (uint64_t)fit * len), (uint64_t)(n - fit) * len, 0);
}

/* Copy the group of a level that begins with slot @first, in descending order, to the @at-th place
 * of @dst. Its first slot is still in the input; the others came in groups of lower levels. Returns
 * its number of elements. */
static uint64_t collect(const struct bruck *x, int level, int64_t first, struct sched_span dst,
                        int64_t at)
{
	const struct coll_args *a = x->a;
	const struct range part = block_range(a, (int)((a->rank + first) % a->size));
	const int64_t n = slots(a, first, x->weight[level]);

	put(x, dst, at + n - 1, sched_in(x->b, 0, part.off), 1, part.len);
	for (int l = 0; l < level; l++)
		for (int z = 1; z < x->base && z * x->weight[l] < n; z++) {
			const int64_t from = z * x->weight[l];
			const int64_t m = slots(a, first + from, x->weight[l]);
			struct sched_span src = x->got[l];

			src.buf += (uint32_t)z - 1;
			src.off += group_at(x, l, first);
			put(x, dst, at + n - from - m, src, m, part.len);
		}
	return (uint64_t)n * part.len;
}

static void pack_and_send(const struct bruck *x, int level, int z, struct sched_span pack)
{
	const struct coll_args *a = x->a;
	const int64_t w = x->weight[level];
	uint64_t n = 0;

	for (int64_t g = z; g * w < a->size; g += x->base)
		n += collect(x, level, g * w, span_add(pack, n), 0);
	sched_send(x->b, (int)((a->rank + z * w) % a->size), pack, n);
}

static void exchange(struct bruck *x, int level)
{
	const struct coll_args *a = x->a;
	const int64_t w = x->weight[level];
	struct sched_span pack;
	uint64_t n = 0;

	for (int z = 1; z < x->base && z * w < a->size; z++)
		n += message_len(x, a->rank, level, z);
	pack = sched_scratch(x->b, SCHED_DATA, n);
	for (int z = 1; z < x->base && z * w < a->size; z++) {
		pack_and_send(x, level, z, pack);
		pack = span_add(pack, message_len(x, a->rank, level, z));
	}
	for (int z = 1; z < x->base && z * w < a->size; z++) {
		const int from = rank_add(a, a->rank, -(int)(z * w));
		struct sched_span got;

		n = message_len(x, from, level, z);
		got = sched_scratch(x->b, SCHED_DATA, n);
		sched_recv(x->b, from, got, n);
		if (z == 1)
			x->got[level] = got;
	}
}

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	struct bruck x = {.b = b, .a = a, .base = bruck_base(a), .weight[0] = 1};

	for (; x.weight[x.levels] < a->size; x.levels++) {
		exchange(&x, x.levels);
		x.weight[x.levels + 1] = x.weight[x.levels] * x.base;
	}
	collect(&x, x.levels, 0, sched_out(b, 0), a->rank + 1);
}

static const char *falls_back(const struct coll_args *a)
{
	return a->recv_off ? "pairwise" : NULL;
}

static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const int64_t p = a->size, k = bruck_base(a);

	*c = (struct coll_cost){0};
	for (int64_t w = 1; w < p; w *= k) {
		const int64_t rest = p % (k * w) < w ? p % (k * w) : w;
		const int64_t stay = p / (k * w) * w + rest; /* the digit is 0 */

		c->rounds++;
		c->messages += (double)((p + w - 1) / w < k ? (p + w - 1) / w - 1 : k - 1);
		c->sent += (double)(p - stay) / (double)p;
	}
	c->received = c->sent;
}

const struct coll_algorithm alltoall_bruck = {
        .kind = COLL_ALLTOALL,
        .name = "bruck",
        .help = "each round moves parts by one digit of their distance (--base); for small "
                "parts",
        .steps = "ceil(log_k P)",
        .bytes = "~S(k-1)/k ceil(log_k P)",
        .restrictions = "the counts of all ranks must be equal; else pairwise",
        .source = "Bruck, Ho, Kipnis, Upfal, Weathersby, IEEE TPDS 1997",
        .cost = cost,
        .falls_back = falls_back,
        .emit = emit,
};
