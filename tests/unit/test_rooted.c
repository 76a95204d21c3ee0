/*
 * What broadcast, reduce, gather and scatter promise beyond what the tests of all algorithms see:
 * Träff's schedules, for many more ranks; what is sent altogether; scratch; and that a rank's
 * schedule takes no time that grows with the number of ranks.
 */
#include "algorithms/parts/traeff.h"
#include "algorithms/table.h"
#include "tests/unit/frontier_oracle.h"
#include "tests/unit/sets.h"

/* ---- Träff's schedules ---- */

/* The blocks of a broadcast of n as they spread: which ranks have them, and how many messages
 * after the root. */
struct spread {
	int size, n;
	const struct traeff *t; /* [size] */
	unsigned char *hops;    /* [size * n]; 0: not there */
	int most;               /* hops */
};

static unsigned char *hops_of(const struct spread *s, int r, int block)
{
	return &s->hops[(size_t)r * (size_t)s->n + (size_t)block];
}

/* Rank @r of round @i: who sends to it sends what it expects, and has had it before. */
static void receive(struct spread *s, int r, int i, unsigned char *arrived)
{
	const struct traeff_round x = traeff_round(&s->t[r], s->n, i);
	const int from = (r - x.skip + s->size) % s->size;
	const struct traeff_round y = traeff_round(&s->t[from], s->n, i);

	if (x.recv != y.send)
		fail_msg("P = %d, n = %d, round %d: %d expects %d, but %d sends %d", s->size, s->n,
		         i, r, x.recv, from, y.send);
	*arrived = 0;
	if (x.recv < 0)
		return;
	if (from && !*hops_of(s, from, x.recv))
		fail_msg("P = %d, n = %d, round %d: %d has no block %d to send", s->size, s->n, i,
		         from, x.recv);
	if (*hops_of(s, r, x.recv))
		fail_msg("P = %d, n = %d, round %d: %d has block %d", s->size, s->n, i, r, x.recv);
	*arrived = (unsigned char)(1 + (from ? *hops_of(s, from, x.recv) : 0));
	s->most = *arrived > s->most ? *arrived : s->most;
}

static void spread_blocks(struct spread *s)
{
	const int q = s->t[0].q;
	unsigned char *arrived = calloc((size_t)s->size, 1);

	s->hops = calloc((size_t)s->size * (size_t)s->n, 1);
	assert_non_null(s->hops);
	assert_non_null(arrived);
	for (int i = 0; i < s->n - 1 + q; i++) {
		for (int r = 0; r < s->size; r++)
			receive(s, r, i, &arrived[r]);
		for (int r = 0; r < s->size; r++)
			if (arrived[r])
				*hops_of(s, r, traeff_round(&s->t[r], s->n, i).recv) = arrived[r];
	}
	for (int r = 1; r < s->size; r++)
		for (int j = 0; j < s->n; j++)
			if (!*hops_of(s, r, j))
				fail_msg("P = %d, n = %d: %d never gets block %d", s->size, s->n, r,
				         j);
	free(arrived);
	free(s->hops);
}

static struct traeff *schedules_of(int size)
{
	struct traeff *t = calloc((size_t)size, sizeof(*t));

	assert_non_null(t);
	for (int r = 0; r < size; r++)
		traeff_schedule(size, r, &t[r]);
	return t;
}

/* Every rank gets every block once, from one that has it, in n - 1 + q rounds; a block has gone
 * over q + 1 messages at most. */
TEST(test_every_broadcast)
{
	const int most = up_to(long_run() ? 3000 : 1100, 150);

	for (int p = 2; p <= most; p++) {
		struct traeff *t = schedules_of(p);
		const int q = t[0].q, ns[] = {1, 2, q, q + 1, 2 * q + 1 + p % q};

		for (size_t k = 0; k < LENGTH(ns); k++) {
			struct spread s = {.size = p, .n = ns[k], .t = t};

			spread_blocks(&s);
			assert_in_range(s.most, 1, q + 1);
		}
		free(t);
	}
}
static bool among(int x, const int *v, int n)
{
	for (int i = 0; i < n; i++)
		if (v[i] == x)
			return true;
	return false;
}

/* The paper's conditions for rank @r: in q rounds it receives each block of the turn before but
 * one, and that of this turn (the root: all of the turn before), and who sends a block has received
 * it in an earlier round of the turn or in a turn before. */
static void check_conditions(int size, int r)
{
	struct traeff t, other;
	int later = 0;

	traeff_schedule(size, r, &t);
	for (int k = 0; k < t.q; k++) {
		const int block = t.recv[k], from = (int)(((int64_t)r - t.skip[k] + size) % size);

		assert_in_range(block + t.q, 0, 2 * t.q - 1);
		later += block >= 0;
		for (int i = 0; i < k; i++)
			if ((t.recv[i] - block) % t.q == 0)
				fail_msg("P = %d: %d receives block %d twice", size, r, block);
		traeff_schedule(size, from, &other);
		assert_int_equal(other.send[k], block);
		if (from && !among(block, other.recv, k) && !among(block + t.q, other.recv, t.q))
			fail_msg("P = %d: %d has no block %d in round %d", size, from, block, k);
	}
	assert_int_equal(later, r ? 1 : 0);
}

TEST(test_many_ranks)
{
	static const int sizes[] = {
	        4097, 65535, 65536, 65537, 1000003, (1 << 24) - 1, (1 << 30) + 12345, INT32_MAX};
	uint64_t seed = 1;

	for (size_t k = 0; k < LENGTH(sizes); k++) {
		check_conditions(sizes[k], 0);
		check_conditions(sizes[k], 1);
		check_conditions(sizes[k], sizes[k] - 1);
		for (int i = 0; i < 200; i++)
			check_conditions(sizes[k], (int)random_below(&seed, (uint64_t)sizes[k]));
	}
}

/* ---- what ranks send, receive and take ---- */

static void random_shape(struct shape *sh, uint64_t *seed, int size)
{
	*sh = (struct shape){
	        .size = size, .root = (int)random_below(seed, (uint64_t)size), .ninputs = 1};
	for (int j = 0; j < size; j++)
		sh->off[j + 1] = sh->off[j] + (random_below(seed, 4) ? random_below(seed, 12) : 0);
}

static uint64_t moved(const struct sched *s, bool sent)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < s->nsteps; i++)
		if (sent ? s->steps[i].op == SCHED_SEND
		         : s->steps[i].op == SCHED_RECV || s->steps[i].op == SCHED_RECV_REDUCE)
			n += s->steps[i].len;
	return n;
}

/* A broadcast brings each element to each rank but the root once; a reduction takes each away from
 * them once: (P-1)S altogether, whatever the algorithm. */
TEST(test_nothing_twice)
{
	uint64_t seed = 2;

	for (size_t i = 0; i < coll_algorithms_len; i++) {
		const struct coll_algorithm *alg = coll_algorithms[i];

		if (alg->kind != COLL_BROADCAST && alg->kind != COLL_REDUCE)
			continue;
		for (int p = 2; p <= 40; p++) {
			struct shape sh;
			struct set t;

			random_shape(&sh, &seed, p);
			set_init(&t, alg, &sh);
			for (int r = 0; r < p; r++)
				if (moved(t.s[r], alg->kind == COLL_REDUCE) !=
				    (r == sh.root ? 0 : sh.off[p]))
					fail_msg("%s: rank %d", shape_words(alg, &sh), r);
			set_release(&t);
		}
	}
}

/* A rank that passes blocks on has room for those of its subtree, and no other has any. */
TEST(test_scratch_is_the_subtree)
{
	static const enum coll_kind kinds[] = {COLL_GATHER, COLL_SCATTER};
	uint64_t seed = 3;

	for (int i = 0; i < 200; i++) {
		const struct coll_algorithm *alg = coll_find(kinds[i % 2], "binomial");
		const int p = 2 + (int)random_below(&seed, 39);
		struct shape sh;
		struct set t;

		random_shape(&sh, &seed, p);
		set_init(&t, alg, &sh);
		for (int r = 0; r < p; r++) {
			const int v = (r - sh.root + p) % p;
			uint64_t room = 0, scratch = 0;

			for (int d = 0; v && v % 2 == 0 && v + 1 < p && d < (v & -v) && v + d < p;
			     d++)
				room += sh.off[(r + d) % p + 1] - sh.off[(r + d) % p];
			for (uint32_t k = 2; k < t.s[r]->nbufs; k++)
				scratch += t.s[r]->bufs[k].len;
			if (scratch != room)
				fail_msg("%s: rank %d", shape_words(alg, &sh), r);
		}
		set_release(&t);
	}
}

/* The schedules of 65,536 ranks: of a rank that is not the root, or that has few messages anyway,
 * it has no more steps than the row's rounds and messages say. With "weighted" all exchange data
 * with all. */
TEST(test_steps_of_many_ranks)
{
	const int p = 65536, root = 40000;
	const int ranks[] = {root, root + 1, root - 1, 0, p - 1, (root + p / 2) % p};
	uint64_t *off = calloc((size_t)p + 1, sizeof(*off));

	assert_non_null(off);
	coll_split(UINT64_C(1) << 30, p, off);
	for (size_t i = 0; i < coll_algorithms_len; i++) {
		const struct coll_algorithm *alg = coll_algorithms[i];

		if (alg->kind != COLL_BROADCAST && alg->kind != COLL_REDUCE &&
		    alg->kind != COLL_GATHER && alg->kind != COLL_SCATTER)
			continue;
		for (size_t k = 0; k < LENGTH(ranks); k++) {
			const struct coll_args a = {.rank = ranks[k],
			                            .size = p,
			                            .root = root,
			                            .ninputs = 1,
			                            .stores = true,
			                            .off = off};
			const char *runs = coll_resolve(alg, &a)->name;
			const bool star = !strcmp(runs, "linear") || strstr(runs, "one_to_all");
			const bool direct = !strcmp(runs, "weighted");
			enum sched_error e;
			struct sched *s = coll_build(alg, &a, &e);

			assert_int_equal(e, SCHED_OK);
			if (a.rank != root || !star)
				assert_in_range(s->nsteps, 1, direct ? 3 * p : 1000);
			sched_free(s);
		}
	}
	free(off);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
