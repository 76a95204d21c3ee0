/*
 * The algorithms are right: every one is proved for every P, and for random roots, bases and
 * blocks.
 */
#include "algorithms/table.h"
#include "tests/unit/concrete.h"

/* ---- the algorithms are right ---- */

static bool is_rooted(const struct coll_algorithm *alg)
{
	return alg->kind == COLL_BARRIER || alg->kind == COLL_BROADCAST ||
	       alg->kind == COLL_REDUCE || alg->kind == COLL_SCATTER || alg->kind == COLL_GATHER;
}

/* No elements, one, fewer than ranks, as many, a prime number, even and uneven blocks. */
static uint64_t some_length(size_t which, uint64_t size)
{
	const uint64_t lengths[] = {97, size - 1, 0, size, 4 * size + 3, 1, 12 * size};

	return lengths[which % 7];
}

/* A joint operation of one input each, of as many each, and of different numbers. */
static void check_joint(const struct coll_algorithm *alg, const struct shape *like, size_t turn)
{
	struct shape sh = *like;
	const int ninputs[] = {1, 2 + (int)(turn % 3), 0};

	sh.devices = 0;
	sh.joins = true;
	for (size_t i = turn % 3; i < (like->size <= 16 || long_run() ? 3 : turn % 3 + 1); i++) {
		sh.ninputs = ninputs[i];
		assert_true(shape_fit(&sh, alg));
		assert_verified(alg, &sh);
	}
}

/* Each length and root; of many ranks some, others with each number of them. Was there any? */
static bool check_size(const struct coll_algorithm *alg, size_t i, int p)
{
	const int roots[] = {0, p / 2, p - 1};
	const size_t cases = long_run() || p <= 8 ? 7 : p < 16 ? 4 : p < 32 ? 2 : 1;
	bool any = false;

	for (size_t k = 0; k < (alg->kind == COLL_BARRIER ? 3 : cases); k++) {
		const size_t turn = k + (size_t)p + i;
		struct shape sh = {.size = p, .ninputs = 1};

		shape_split(&sh, some_length(turn, (uint64_t)p));
		sh.root = is_rooted(alg) ? roots[turn % 3] : 0;
		sh.devices = k == 0 ? (int)(turn % 5) - 1 : 0;
		if (!shape_fit(&sh, alg))
			continue;
		assert_verified(alg, &sh);
		any = true;
		if (alg->flags & COLL_JOINT)
			check_joint(alg, &sh, turn);
		if (!coll_takes_several(alg->kind) || (k && !long_run()))
			continue;
		sh.ninputs = turn % 2 ? 0 : 2; /* 0: they differ between ranks */
		assert_verified(alg, &sh);
	}
	return any;
}

TEST(test_every_size)
{
	for (size_t i = 0; i < coll_algorithms_len; i++) {
		const struct coll_algorithm *alg = coll_algorithms[i];
		int first = 0, last = up_to(MAX_SIZE, 9);

		for (int p = 1; p <= last + 1; p++) {
			const bool any = p <= last && check_size(alg, i, p);

			if (any && !first)
				first = p;
			if (any || !first)
				continue;
			/* tests/exercised.py reads this. */
			print_message("verified %s %s for P = %d-%d\n", coll_name(alg->kind),
			              alg->name, first, p - 1);
			first = 0;
		}
	}
}

/* Blocks of up to 11 elements, a third of them empty. */
static void random_blocks(struct shape *sh, uint64_t *seed)
{
	sh->off[0] = 0;
	for (int j = 0; j < sh->size; j++)
		sh->off[j + 1] = sh->off[j] + (random_below(seed, 3) ? random_below(seed, 12) : 0);
}

static void random_counts(uint64_t *counts, int size, uint64_t *seed)
{
	const uint64_t most = 1 + random_below(seed, 12);

	for (int i = 0; i < size * size; i++)
		counts[i] = random_below(seed, 3) ? random_below(seed, most) : 0;
}

/* A case of its own for each seed: verified, and run with numbers where that is not too much. */
static void one_property(uint64_t seed)
{
	uint64_t counts[20 * 20];
	const struct coll_algorithm *alg =
	        coll_algorithms[random_below(&seed, coll_algorithms_len)];
	struct shape sh = {.size = 1 + (int)random_below(&seed, 20)};
	struct set t;

	sh.root = (int)random_below(&seed, (uint64_t)sh.size);
	sh.ninputs = (int)random_below(&seed, 4);
	sh.devices = (int)random_below(&seed, 6) - 1;
	sh.devices = sh.devices == 4 ? 0 : sh.devices;
	sh.base = (unsigned)random_below(&seed, 7);
	sh.base += sh.base == 1;
	sh.steps = (unsigned)random_below(&seed, 5);
	sh.joins = random_below(&seed, 2) && alg->flags & COLL_JOINT;
	sh.devices = sh.joins ? 0 : sh.devices;
	random_blocks(&sh, &seed);
	if (!shape_fit(&sh, alg))
		return;
	if (alg->kind == COLL_ALLTOALL && random_below(&seed, 2)) {
		random_counts(counts, sh.size, &seed);
		sh.counts = counts;
	}
	assert_verified(alg, &sh);
	if (sh.size > 9)
		return;
	set_init(&t, alg, &sh);
	if (!concretely_right(&t))
		fail_msg("%s: wrong numbers", shape_words(alg, &sh));
	set_release(&t);
}

TEST(test_random_cases)
{
	const uint64_t runs = long_run() ? 30000 : (uint64_t)up_to(4000, 1000);

	for (uint64_t i = 0; i < runs; i++)
		one_property(i);
}

TEST(test_long_vectors)
{
	for (size_t i = 0; i < coll_algorithms_len; i++) {
		struct shape sh = {.size = 6, .root = 3, .ninputs = 1};

		shape_split(&sh, UINT64_C(1) << 45);
		assert_true(shape_fit(&sh, coll_algorithms[i]));
		assert_verified(coll_algorithms[i], &sh);
	}
}

int main(void)
{
	return unit_run(NULL, NULL);
}
