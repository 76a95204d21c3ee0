/*
 * The verifier: what is wrong is refused, in words that say what, and what is right is not,
 * whatever the collective.
 */
#include "algorithms/table.h"
#include "tests/unit/sets.h"

/* ---- what a row promises is checked ---- */

static void refuse(enum coll_kind kind, const char *name, unsigned flags, int size,
                   const char *because)
{
	struct coll_algorithm alg = *coll_find(kind, name);
	uint64_t off[MAX_SIZE + 1];
	const struct coll_args a = {.size = size, .ninputs = 1, .stores = true, .off = off};
	char why[VERIFY_TEXT];

	alg.flags = flags;
	coll_split(kind == COLL_BARRIER ? 1 : 3 * (uint64_t)size, size, off);
	assert_false(verify_algorithm(&alg, &a, why));
	if (!strstr(why, because))
		fail_msg("%s: %s", name, why);
}

TEST(test_promises)
{
	refuse(COLL_ALLREDUCE, "ring_chunked", COLL_ORDERED, 4, "rank order");
	refuse(COLL_ALLREDUCE, "recursive_doubling", COLL_ORDERED, 4, "rank order");
	refuse(COLL_ALLREDUCE, "ring_chunked", COLL_FINAL, 4, "not applied");
	refuse(COLL_ALLREDUCE, "direct", COLL_ORDERED, 4, "not declared");
	refuse(COLL_BARRIER, "all_to_all", 0, 3, "another order");
	refuse(COLL_BARRIER, "dissemination", COLL_DIVERGENT, 3, "twice");
	/* A sum that goes on through the wire is not the wider type's, unless the wire is. */
	refuse(COLL_SCAN, "linear", COLL_ORDERED, 3, "rank order");
	refuse(COLL_SCAN, "doubling_123", COLL_ORDERED | COLL_PARTIALS, 5, "rank order");
}

static void verify_toy(enum coll_kind kind, unsigned flags,
                       void (*emit)(struct sched_builder *, const struct coll_args *), int size,
                       uint64_t n, const char *because)
{
	const struct coll_algorithm alg = {
	        .kind = kind, .name = "toy", .flags = flags, .emit = emit};
	uint64_t off[MAX_SIZE + 1];
	const struct coll_args a = {.size = size,
	                            .root = size / 2,
	                            .ninputs = 1,
	                            .stores = true,
	                            .off = off,
	                            .steps = 1};
	char why[VERIFY_TEXT] = "";
	bool ok;

	coll_split(n, size, off);
	ok = verify_algorithm(&alg, &a, why);
	if (ok == !!because || (because && !strstr(why, because)))
		fail_msg("%s, %d ranks: %s", coll_name(kind), size, ok ? "verified" : why);
}

/* Both send n elements and receive to where their last ones stand: on a lane of one element neither
 * gets rid of its last. */
static void emit_stuck(struct sched_builder *b, const struct coll_args *a)
{
	const uint64_t n = a->off[a->size];
	const struct sched_span s = sched_scratch(b, SCHED_DATA, 2 * n - 1);

	sched_copy(b, s, sched_out(b, 0), n, 0);
	sched_send(b, !a->rank, s, n);
	sched_recv(b, !a->rank, span_add(s, n - 1), n);
	sched_reduce(b, sched_out(b, 0), span_add(s, n - 1), n, a->rank ? SCHED_WIRE_LEFT : 0);
}

/* Each waits for the other before it sends. */
static void emit_circle(struct sched_builder *b, const struct coll_args *a)
{
	sched_recv(b, !a->rank, sched_out(b, 0), a->off[2]);
	sched_send(b, !a->rank, sched_out(b, 0), a->off[2]);
}

/* Rank 1's two messages are the wrong way round. */
static void emit_swapped(struct sched_builder *b, const struct coll_args *a)
{
	const uint64_t n = a->off[1];
	const uint64_t first = a->rank ? n : 0, second = a->rank ? 0 : n;
	const struct sched_span s = sched_scratch(b, SCHED_DATA, 2 * n);
	const unsigned left = a->rank ? SCHED_WIRE_LEFT : 0;

	sched_send(b, !a->rank, sched_out(b, first), n);
	sched_send(b, !a->rank, sched_out(b, second), n);
	sched_recv(b, !a->rank, s, 2 * n > n ? n : 0);
	sched_recv(b, !a->rank, span_add(s, n), n);
	sched_reduce(b, sched_out(b, 0), s, 2 * n, left);
}

/* Never summed: the rank's own contribution alone. */
static void emit_idle(struct sched_builder *b, const struct coll_args *a)
{
	(void)b;
	(void)a;
}

/* The same sum in an order that differs by rank. */
static void emit_own_first(struct sched_builder *b, const struct coll_args *a)
{
	const struct sched_span out = sched_out(b, 0);

	sched_send(b, !a->rank, out, a->off[2]);
	sched_recv_reduce(b, !a->rank, out, out, a->off[2], 0);
}

TEST(test_defects)
{
	verify_toy(COLL_ALLREDUCE, COLL_COPIES, emit_stuck, 2, 1, NULL);
	verify_toy(COLL_ALLREDUCE, COLL_COPIES, emit_stuck, 2, 4, "lanes of one element");
	verify_toy(COLL_ALLREDUCE, 0, emit_stuck, 2, 1, "lanes that lend");
	verify_toy(COLL_ALLREDUCE, 0, emit_circle, 2, 4, "waits for itself");
	verify_toy(COLL_ALLREDUCE, COLL_COPIES, emit_swapped, 2, 6, "adds element");
	verify_toy(COLL_ALLREDUCE, COLL_COPIES, emit_idle, 2, 6,
	           "1 of 2 contributions are missing");
	verify_toy(COLL_ALLREDUCE, COLL_COPIES, emit_own_first, 2, 6, "another order");
	verify_toy(COLL_ALLREDUCE, COLL_DIVERGENT | COLL_COPIES, emit_own_first, 2, 6, NULL);
}

/* ---- collectives whose input or output is a part ---- */

static uint64_t block_len(const struct coll_args *a, int j)
{
	return a->off[j + 1] - a->off[j];
}

static void emit_allgather(struct sched_builder *b, const struct coll_args *a)
{
	const uint64_t own = block_len(a, a->rank);

	sched_fold_inputs(b, sched_out(b, a->off[a->rank]), 0, own);
	for (int p = 0; p < a->size; p++) {
		if (p == a->rank)
			continue;
		sched_send(b, p, sched_out(b, a->off[a->rank]), own);
		sched_recv(b, p, sched_out(b, a->off[p]), block_len(a, p));
	}
}

static void emit_reduce_scatter(struct sched_builder *b, const struct coll_args *a)
{
	const uint64_t own = block_len(a, a->rank);

	for (int p = 0; p < a->size; p++)
		if (p != a->rank)
			sched_send(b, p, sched_in(b, 0, a->off[p]), block_len(a, p));
	for (int p = 0; p < a->size; p++)
		if (p != a->rank)
			sched_recv_reduce(b, p, sched_out(b, 0), sched_out(b, 0), own, 0);
}

static void emit_broadcast(struct sched_builder *b, const struct coll_args *a)
{
	for (int p = 0; a->rank == a->root && p < a->size; p++)
		if (p != a->root)
			sched_send(b, p, sched_out(b, 0), a->off[a->size]);
	if (a->rank != a->root)
		sched_recv(b, a->root, sched_out(b, 0), a->off[a->size]);
}

static void emit_scatter(struct sched_builder *b, const struct coll_args *a)
{
	for (int p = 0; a->rank == a->root && p < a->size; p++)
		if (p != a->root)
			sched_send(b, p, sched_in(b, 0, a->off[p]), block_len(a, p));
	if (a->rank != a->root)
		sched_recv(b, a->root, sched_out(b, 0), block_len(a, a->rank));
}

static void emit_gather(struct sched_builder *b, const struct coll_args *a)
{
	for (int p = 0; a->rank == a->root && p < a->size; p++)
		if (p != a->root)
			sched_recv(b, p, sched_out(b, a->off[p]), block_len(a, p));
	if (a->rank != a->root)
		sched_send(b, a->root, sched_in(b, 0, 0), block_len(a, a->rank));
}

static void emit_reduce(struct sched_builder *b, const struct coll_args *a)
{
	const struct sched_span out = sched_out(b, 0);

	for (int p = 0; a->rank == a->root && p < a->size; p++)
		if (p != a->root)
			sched_recv_reduce(b, p, out, out, a->off[a->size], 0);
	if (a->rank != a->root)
		sched_send(b, a->root, sched_in(b, 0, 0), a->off[a->size]);
}

static void emit_scan(struct sched_builder *b, const struct coll_args *a)
{
	const struct sched_span out = sched_out(b, 0);

	if (a->rank)
		sched_recv_reduce(b, a->rank - 1, out, out, a->off[a->size], SCHED_WIRE_LEFT);
	if (a->rank + 1 < a->size)
		sched_send(b, a->rank + 1, out, a->off[a->size]);
}

TEST(test_parts)
{
	static const struct {
		enum coll_kind kind;
		void (*emit)(struct sched_builder *, const struct coll_args *);
	} toys[] = {
	        {COLL_ALLGATHER, emit_allgather}, {COLL_REDUCE_SCATTER, emit_reduce_scatter},
	        {COLL_BROADCAST, emit_broadcast}, {COLL_SCATTER, emit_scatter},
	        {COLL_GATHER, emit_gather},       {COLL_REDUCE, emit_reduce},
	        {COLL_SCAN, emit_scan},
	};

	for (size_t i = 0; i < LENGTH(toys); i++)
		for (int p = 1; p <= 7; p++) {
			verify_toy(toys[i].kind, 0, toys[i].emit, p, 3 * (uint64_t)p + 2, NULL);
			verify_toy(toys[i].kind, 0, toys[i].emit, p, (uint64_t)p / 2, NULL);
		}
	/* One collective's schedule is none of another. */
	verify_toy(COLL_ALLREDUCE, 0, emit_scan, 3, 7, "contributions are missing");
	verify_toy(COLL_SCAN, 0, coll_find(COLL_ALLREDUCE, "circulant")->emit, 3, 7,
	           "does not belong there");
	verify_toy(COLL_ALLGATHER, 0, emit_gather, 3, 7, "before anything is there");
}

/* Every row that has the flag needs it: with lanes that lend its ranks wait for each other. */
TEST(test_copies_is_needed)
{
	uint64_t off[5];
	int host[4] = {0, 0, 1, 1}, rows = 0;
	char why[VERIFY_TEXT];

	for (size_t i = 0; i < coll_algorithms_len; i++) {
		struct coll_algorithm alg = *coll_algorithms[i];
		struct coll_args a = {
		        .size = 4, .ninputs = 1, .stores = true, .off = off, .host = host};

		if (!(alg.flags & COLL_COPIES) || alg.flags & COLL_DEVICES)
			continue;
		coll_split(alg.kind == COLL_BARRIER ? 1 : 20, 4, off);
		assert_true(verify_algorithm(&alg, &a, why));
		alg.flags &= ~COLL_COPIES;
		assert_false(verify_algorithm(&alg, &a, why));
		assert_non_null(strstr(why, "with lanes that lend all wait in a cycle"));
		rows++;
	}
	assert_true(rows > 0);
}

/* ---- parts that are exchanged, prefixes, exchanges ---- */

static struct sched_span part_in(struct sched_builder *b, const struct coll_args *a, int j)
{
	return sched_in(b, 0, a->off[j]);
}

static struct sched_span part_out(struct sched_builder *b, const struct coll_args *a, int j)
{
	return sched_out(b, coll_recv_at(a, j));
}

static void emit_alltoall(struct sched_builder *b, const struct coll_args *a)
{
	const int r = a->rank;

	sched_copy(b, part_out(b, a, r), part_in(b, a, r), block_len(a, r), 0);
	for (int p = 0; p < a->size; p++) {
		if (p == r)
			continue;
		sched_send(b, p, part_in(b, a, p), block_len(a, p));
		sched_recv(b, p, part_out(b, a, p), coll_recv_at(a, p + 1) - coll_recv_at(a, p));
	}
}

/* Rank 0 sends each the part of another. */
static void emit_alltoall_turned(struct sched_builder *b, const struct coll_args *a)
{
	const int n = a->size;

	if (a->rank)
		emit_alltoall(b, a);
	for (int p = 0; a->rank == 0 && p < n; p++) {
		if (p) {
			sched_send(b, p, part_in(b, a, 1 + p % (n - 1)), block_len(a, p));
			sched_recv(b, p, part_out(b, a, p), block_len(a, 0));
		} else {
			sched_copy(b, part_out(b, a, 0), part_in(b, a, 0), block_len(a, 0), 0);
		}
	}
}

/* The parts stand where they were sent, not in the order of who sent them. */
static void emit_alltoall_back_to_front(struct sched_builder *b, const struct coll_args *a)
{
	const int r = a->rank, last = a->size - 1;

	sched_copy(b, part_out(b, a, last - r), part_in(b, a, r), block_len(a, r), 0);
	for (int p = 0; p <= last; p++) {
		if (p == r)
			continue;
		sched_send(b, p, part_in(b, a, p), block_len(a, p));
		sched_recv(b, p, part_out(b, a, last - p), block_len(a, r));
	}
}

static void emit_exscan(struct sched_builder *b, const struct coll_args *a)
{
	coll_find(COLL_EXSCAN, "linear")->emit(b, a);
}

/* Rank 0 keeps its own vector. */
static void emit_exscan_without_identity(struct sched_builder *b, const struct coll_args *a)
{
	if (a->rank)
		emit_exscan(b, a);
	else
		sched_send(b, 1, sched_out(b, 0), a->off[a->size]);
}

/* The others add the identity too. */
static void emit_exscan_from_identity(struct sched_builder *b, const struct coll_args *a)
{
	const struct sched_span out = sched_out(b, 0);
	const uint64_t n = a->off[a->size];

	if (a->rank == 0)
		sched_send(b, 1, out, n);
	sched_identity(b, out, n);
	if (a->rank == 1)
		sched_recv_reduce(b, 0, out, out, n, 0);
}

/* What has come stands right of my own. */
static void emit_scan_from_right(struct sched_builder *b, const struct coll_args *a)
{
	const struct sched_span out = sched_out(b, 0);

	if (a->rank)
		sched_recv_reduce(b, a->rank - 1, out, out, a->off[a->size], 0);
	if (a->rank + 1 < a->size)
		sched_send(b, a->rank + 1, out, a->off[a->size]);
}

/* Half of the elements twice, or what has come back to where it is from, or half of them only. */
static void exchange_halves(struct sched_builder *b, const struct coll_args *a, int how)
{
	const uint64_t n = a->off[a->size] / 2;
	const struct sched_span got = sched_scratch(b, SCHED_DATA, 2 * n);
	const struct sched_span second[] = {sched_in(b, 0, n), sched_in(b, 0, 0), got};

	sched_send(b, a->rank ^ 1, sched_in(b, 0, 0), n);
	sched_recv(b, a->rank ^ 1, got, n);
	if (how < 3) {
		sched_send(b, a->rank ^ 1, second[how], n);
		sched_recv(b, a->rank ^ 1, span_add(got, n), n);
	}
}

static void emit_exchange(struct sched_builder *b, const struct coll_args *a)
{
	exchange_halves(b, a, 0);
}

static void emit_exchange_twice(struct sched_builder *b, const struct coll_args *a)
{
	exchange_halves(b, a, 1);
}

static void emit_exchange_back(struct sched_builder *b, const struct coll_args *a)
{
	exchange_halves(b, a, 2);
}

static void emit_exchange_half(struct sched_builder *b, const struct coll_args *a)
{
	exchange_halves(b, a, 3);
}

/* An allgather of sums. */
static void emit_gathered_sum(struct sched_builder *b, const struct coll_args *a)
{
	const struct sched_span own = sched_out(b, a->off[a->rank]);
	const struct sched_span twice = sched_scratch(b, SCHED_DATA, block_len(a, a->rank));

	sched_copy(b, twice, own, block_len(a, a->rank), 0);
	sched_reduce(b, own, twice, block_len(a, a->rank), 0);
	emit_allgather(b, a);
}

TEST(test_more_kinds)
{
	for (int p = 1; p <= 7; p++)
		verify_toy(COLL_ALLTOALL, 0, emit_alltoall, p, 3 * (uint64_t)p + 2, NULL);
	verify_toy(COLL_ALLTOALL, 0, emit_alltoall_turned, 3, 9, "in the place of");
	verify_toy(COLL_ALLTOALL, 0, emit_alltoall_back_to_front, 4, 4, "does not belong there");
	verify_toy(COLL_ALLTOALL, 0, emit_allgather, 2, 4, "in the place of");
	verify_toy(COLL_EXSCAN, 0, emit_exscan, 4, 9, NULL);
	verify_toy(COLL_EXSCAN, 0, emit_exscan_without_identity, 4, 9, "not the identity");
	verify_toy(COLL_EXSCAN, 0, emit_exscan_from_identity, 2, 9, "adds the identity");
	verify_toy(COLL_EXSCAN, 0, emit_scan, 3, 9, "not the identity");
	verify_toy(COLL_SCAN, 0, emit_exscan, 3, 9, "the identity does not belong there");
	verify_toy(COLL_SCAN, 0, emit_scan_from_right, 3, 9, "do not stand in rank order");
	verify_toy(COLL_EXCHANGE, 0, emit_exchange, 2, 8, NULL);
	verify_toy(COLL_EXCHANGE, 0, emit_exchange_twice, 2, 8, "a second time");
	verify_toy(COLL_EXCHANGE, 0, emit_exchange_back, 2, 8, "not its own");
	verify_toy(COLL_EXCHANGE, 0, emit_exchange_half, 2, 8, "never receives element 4");
	verify_toy(COLL_ALLGATHER, 0, emit_gathered_sum, 2, 8, "it is not the input element");
}

/* Uneven parts: bruck, made to serve them, sends what nobody expects. */
TEST(test_uneven_parts)
{
	static const uint64_t counts[] = {1, 2, 0, 3, 0, 1, 40, 2, 2};
	struct coll_algorithm alg = *coll_find(COLL_ALLTOALL, "bruck");
	const struct coll_args a = {.size = 3, .ninputs = 1, .stores = true};
	char why[VERIFY_TEXT];

	assert_true(verify_alltoallv(&alg, &a, counts, why));
	alg.falls_back = NULL;
	assert_false(verify_alltoallv(&alg, &a, counts, why));
	alg.emit = emit_alltoall;
	assert_true(verify_alltoallv(&alg, &a, counts, why));
}

int main(void)
{
	return unit_run(NULL, NULL);
}
