/* How far a rank is: weights, and counts that only grow and end at the total. */
#include <stdlib.h>

#include "lib/coll/pipeline.h"
#include "tests/unit/unit.h"

static const double no_time[PIPELINE_STAGES];

static struct pipeline some(uint64_t total)
{
	struct pipeline p = {0};
	for (int k = 0; k < PIPELINE_STAGES; k++)
		p.part[k].total = total;
	pipeline_weigh(&p, no_time);
	return p;
}

TEST(each_byte_counts_in_each_stage)
{
	static const double seconds[][PIPELINE_STAGES] = {
	        {0}, {1, 1, 1, 1}, {1e-12, 1, 2, 3}, {5, 0, 0, 1e-9}, {1e-9, 1e300, 1, 0}};
	for (size_t i = 0; i < LENGTH(seconds); i++) {
		struct pipeline p = some(1000);
		uint64_t before, done, total;
		pipeline_weigh(&p, seconds[i]);
		for (int k = 0; k < PIPELINE_STAGES; k++) {
			assert_true(p.part[k].weight >= 1);
			assert_true(p.part[k].weight <= PIPELINE_HEAVIEST);
			pipeline_count(&p, &before, &total);
			p.part[k].done++;
			pipeline_count(&p, &done, &total);
			assert_true(done > before && done < total);
		}
	}
}

TEST(weights_are_in_proportion_to_times)
{
	struct pipeline p = some(100);
	pipeline_weigh(&p, (const double[]){1e-9, 4e-9, 2e-9, 1e-9});
	p.part[PIPELINE_MOVE].done = 100;
	assert_float_equal(pipeline_done(&p), 0.5, 1e-9);
	p.part[PIPELINE_READ].done = 100;
	assert_float_equal(pipeline_done(&p), 0.625, 1e-9);
	p = some(100); /* without predictions, by bytes */
	p.part[PIPELINE_STORE].done = 100;
	assert_float_equal(pipeline_done(&p), 0.25, 1e-9);
}

/* Whatever the stages do, and if a total was too small. */
TEST(it_grows_to_the_end)
{
	srand(1);
	for (int i = 0; i < 200; i++) {
		struct pipeline p = some(0);
		double seconds[PIPELINE_STAGES], last = 0;
		for (int k = 0; k < PIPELINE_STAGES; k++) {
			seconds[k] = rand() % 1000;
			p.part[k].total = (uint64_t)(rand() % 3) * (uint64_t)(rand() % 100000);
		}
		p.part[rand() % PIPELINE_STAGES].total = 1 + (uint64_t)(rand() % 100);
		pipeline_weigh(&p, seconds);
		for (int n = 0; n < 100; n++) {
			p.part[rand() % PIPELINE_STAGES].done += (uint64_t)(rand() % 3000);
			assert_true(pipeline_done(&p) >= last && pipeline_done(&p) <= 1);
			last = pipeline_done(&p);
		}
		pipeline_complete(&p);
		assert_float_equal(pipeline_done(&p), 1, 0);
	}
}

TEST(nothing_to_do_is_done)
{
	struct pipeline p = some(0);
	assert_float_equal(pipeline_done(&p), 1, 0);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
