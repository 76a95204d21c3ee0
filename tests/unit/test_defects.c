/*
 * The verifier: what is wrong is refused, in words that say what, and what is right is not,
 * whatever the collective.
 */
#include "tests/unit/sets.h"

/* ---- what a row promises is checked ---- */

static void refuse(enum coll_kind kind, const char *name, unsigned flags, int size,
                   const char *because)
{
	struct coll_algorithm alg = *coll_find(kind, name);
	uint64_t off[MAX_SIZE + 1];
	const struct coll_args a = {.size = size, .ninputs = 1, .noutputs = 1, .off = off};
	char why[VERIFY_TEXT];

	alg.flags = flags;
	coll_split(kind == COLL_BARRIER ? 1 : 3 * (uint64_t)size, size, off);
	assert_false(verify_algorithm(&alg, &a, why));
	if (!strstr(why, because))
		fail_msg("%s: %s", name, why);
}

static void test_promises(void **state)
{
	(void)state;
	refuse(COLL_ALLREDUCE, "ring_chunked", COLL_ORDERED, 4, "rank order");
	refuse(COLL_ALLREDUCE, "recursive_doubling", COLL_ORDERED, 4, "rank order");
	refuse(COLL_ALLREDUCE, "ring_chunked", COLL_FINAL, 4, "not applied");
	refuse(COLL_ALLREDUCE, "direct", COLL_ORDERED, 4, "unannounced");
	refuse(COLL_BARRIER, "all_to_all", 0, 3, "another order");
	refuse(COLL_BARRIER, "dissemination", COLL_DIVERGENT, 3, "twice");
}

static void verify_toy(enum coll_kind kind, unsigned flags,
                       void (*emit)(struct sched_builder *, const struct coll_args *), int size,
                       uint64_t n, const char *because)
{
	const struct coll_algorithm alg = {
	        .kind = kind, .name = "toy", .flags = flags, .emit = emit};
	uint64_t off[MAX_SIZE + 1];
	const struct coll_args a = {
	        .size = size, .root = size / 2, .ninputs = 1, .noutputs = 1, .off = off};
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

static void test_defects(void **state)
{
	(void)state;
	verify_toy(COLL_ALLREDUCE, 0, emit_stuck, 2, 1, NULL);
	verify_toy(COLL_ALLREDUCE, 0, emit_stuck, 2, 4, "in a circle");
	verify_toy(COLL_ALLREDUCE, 0, emit_circle, 2, 4, "waits for itself");
	verify_toy(COLL_ALLREDUCE, 0, emit_swapped, 2, 6, "adds element");
	verify_toy(COLL_ALLREDUCE, 0, emit_idle, 2, 6, "1 of 2 contributions are missing");
	verify_toy(COLL_ALLREDUCE, 0, emit_own_first, 2, 6, "another order");
	verify_toy(COLL_ALLREDUCE, COLL_DIVERGENT, emit_own_first, 2, 6, NULL);
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

static void test_parts(void **state)
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

	(void)state;
	for (size_t i = 0; i < sizeof(toys) / sizeof(toys[0]); i++)
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

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_promises),
	        cmocka_unit_test(test_defects),
	        cmocka_unit_test(test_parts),
	};

	return cmocka_run_group_tests_name("defects", tests, NULL, NULL);
}
