/* Jobs of one rank through coll_run: results, notes and failures come back to the caller, and
 * nothing is printed. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/coll/bench/bench.h"
#include "lib/coll/coll.h"
#include "lib/coll/files/inspect.h"
#include "tests/unit/unit.h"

static char folder[] = "/tmp/test_coll.XXXXXX";

static int enter_folder(void **state)
{
	return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int leave_folder(void **state)
{
	static const char *const names[] = {"a.raw", "b.raw", "out.raw"};
	for (size_t i = 0; i < LENGTH(names); i++)
		unlink(names[i]);
	return chdir("/") == 0 && rmdir(folder) == 0 ? 0 : -1;
}

static void put(const char *name, const float *x, size_t n)
{
	FILE *f = fopen(name, "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(x, sizeof *x, n, f), n);
	assert_int_equal(fclose(f), 0);
}

static size_t get(const char *name, float *x, size_t n)
{
	FILE *f = fopen(name, "rb");
	assert_non_null(f);
	n = fread(x, sizeof *x, n, f);
	assert_int_equal(fclose(f), 0);
	return n;
}

/* A job of one rank, which meets nobody. */
static struct coll_request alone(enum coll_work work, const char *command)
{
	return (struct coll_request){.work = work,
	                             .command = command,
	                             .settings = {.size = 1,
	                                          .rank = 0,
	                                          .secret_fd = -1,
	                                          .tls_key_password_fd = -1,
	                                          .join_timeout = 20 * NS_PER_SEC,
	                                          .timeout = 20 * NS_PER_SEC,
	                                          .memory = 64 << 20},
	                             .files = {.dtype = DTYPE_F32},
	                             .algorithm = "auto"};
}

/* An allreduce of @ninputs files to one. */
static struct coll_request allreduce_of(char **inputs, int ninputs, const char **output)
{
	struct coll_request q = alone(WORK_COLLECTIVE, "allreduce");
	q.kind = COLL_ALLREDUCE;
	q.inputs = inputs;
	q.ninputs = ninputs;
	q.outputs = output;
	q.noutputs = 1;
	return q;
}

static int noted;

static void count_notes(void *ctx, int level, int rank, const char *text)
{
	(void)ctx;
	(void)level;
	assert_true(rank >= -1);
	assert_true(*text);
	noted++;
}

static const struct coll_observer observer = {.note = count_notes};

TEST(two_inputs_are_reduced)
{
	static const float a[] = {1, 2, 3}, b[] = {10, 20, 30};
	static const float sum[] = {11, 22, 33};
	char *inputs[] = {"a.raw", "b.raw"};
	const char *outputs[] = {"out.raw"};
	struct coll_request q = allreduce_of(inputs, 2, outputs);
	struct coll_result r;
	float out[4];
	put("a.raw", a, 3);
	put("b.raw", b, 3);
	assert_int_equal(coll_run(&q, &observer, &r), 0);
	assert_true(r.err.code == 0 && r.rank == 0 && r.size == 1 && r.has_digest);
	assert_true(r.count == 3 && r.bytes == sizeof a && r.ninputs == 2);
	assert_string_equal(r.dtype, "f32");
	assert_string_equal(r.output, "out.raw");
	assert_true(r.times.start <= r.times.join && r.times.run <= r.times.commit);
	coll_end(&r);
	coll_end(&r); /* idempotent */
	assert_int_equal(get("out.raw", out, 4), 3);
	assert_memory_equal(out, sum, sizeof sum);
	assert_true(noted > 0);
}

TEST(a_failure_comes_back)
{
	char *inputs[] = {"none.raw"};
	const char *outputs[] = {"out.raw"};
	struct coll_request q = allreduce_of(inputs, 1, outputs);
	struct coll_result r;
	assert_int_equal(coll_run(&q, &observer, &r), -1);
	assert_int_equal(r.err.code, ERR_INPUT);
	assert_non_null(strstr(r.err.text, "none.raw"));
	assert_int_equal(r.phase, PHASE_JOIN);
	coll_end(&r);
}

/* Before anything is opened: what is wrong with the request itself. */
TEST(a_request_that_cannot_be_done)
{
	char *inputs[] = {"a.raw", "b.raw"};
	const char *outputs[] = {"out.raw"};
	struct coll_request q = alone(WORK_COLLECTIVE, "scatter");
	static uint64_t counts[] = {1, 2};
	struct err err = {0};
	q.kind = COLL_SCATTER;
	q.inputs = inputs;
	q.ninputs = 2;
	q.outputs = outputs;
	assert_int_equal(request_check(&q, &err), -1); /* one input too many */
	assert_int_equal(err.code, ERR_USAGE);
	err_clear(&err);
	q.ninputs = 1;
	assert_int_equal(request_check(&q, &err), -1); /* no output */
	err_clear(&err);
	q.noutputs = 1;
	assert_int_equal(request_check(&q, &err), 0);
	q.counts = counts;
	q.ncounts = 2;
	assert_int_equal(request_check_size(&q, 2, &err), 0);
	assert_int_equal(request_check_size(&q, 3, &err), -1);
	err_clear(&err);
	double weight = 0.5;
	q.weights = &weight;
	q.nweights = 1;
	q.kind = COLL_ALLREDUCE;
	assert_int_equal(request_check(&q, &err), -1); /* a weight of no average */
	err_clear(&err);
	q.op = REDUCE_AVG;
	assert_int_equal(request_check(&q, &err), 0);
	q.kind = COLL_SCAN;
	assert_int_equal(request_check(&q, &err), -1);
	err_clear(&err);
	q = alone(WORK_COLLECTIVE, "broadcast");
	q.kind = COLL_BROADCAST;
	q.outputs = outputs;
	q.noutputs = 1;
	q.files.raw_file = true; /* and a type */
	assert_int_equal(request_check(&q, &err), -1);
	err_clear(&err);
	q.files.dtype = DTYPE_NONE;
	assert_int_equal(request_check(&q, &err), 0);
	q.algorithm = "nonesuch";
	assert_int_equal(request_check(&q, &err), -1);
	assert_non_null(strstr(err.text, "nonesuch"));
}

TEST(files_are_verified)
{
	static const float a[] = {1, 2, 3};
	char *inputs[] = {"a.raw"};
	struct coll_request q = alone(WORK_VERIFY, "verify");
	struct coll_result r;
	q.inputs = inputs;
	q.ninputs = 1;
	put("a.raw", a, 3);
	assert_int_equal(coll_run(&q, &observer, &r), 0);
	assert_true(r.has_digest && r.ninputs == 1 && r.bytes == sizeof a);
	assert_memory_equal(r.digest, r.files[0].digest, DIGEST_BYTES);
	coll_end(&r);
}

TEST(a_barrier_ends)
{
	const struct coll_request q = alone(WORK_BARRIER, "barrier");
	struct coll_result r;
	assert_int_equal(coll_run(&q, &observer, &r), 0);
	assert_true(r.algorithm == NULL && r.peers == 0 && r.times.commit >= r.times.start);
	coll_end(&r);
}

static int rows;

static void count_rows(void *ctx, const struct bench_head *head, const struct bench_row *row)
{
	(void)ctx;
	assert_string_equal(head->collective, "allreduce");
	assert_true(row->checked && row->wrong == 0 && row->size == 4096);
	rows++;
}

TEST(a_bench_has_rows)
{
	const struct coll_observer o = {.measured = count_rows};
	struct coll_request q = alone(WORK_BENCH, "bench");
	struct coll_result r;
	q.kind = COLL_ALLREDUCE;
	q.bench = (struct bench_request){.dtype = DTYPE_F32,
	                                 .minbytes = 4096,
	                                 .maxbytes = 4096,
	                                 .factor = 2,
	                                 .iters = 2,
	                                 .check = true};
	assert_int_equal(coll_run(&q, &o, &r), 0);
	coll_end(&r);
	assert_int_equal(rows, 1);
}

int main(void)
{
	return unit_run(enter_folder, leave_folder);
}
