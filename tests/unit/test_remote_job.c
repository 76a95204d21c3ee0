/* The job that `run -H` sends to another host: every field arrives, and no cut message is taken. */
#include <stdlib.h>
#include <string.h>

#include "cmd/run/remote.h"
#include "tests/unit/unit.h"

static char secret[] = "secret", token[] = "token";
static char *words[] = {"allreduce", "in \xff\n.npy", "-o", "", NULL};
static char *variables[] = {"COLLCTL_TIMEOUT=5s", NULL};

static struct remote_job example(void)
{
	return (struct remote_job){.rank = 2,
	                           .size = 3,
	                           .json = true,
	                           .verbose = -1,
	                           .silence = 60 * NS_PER_SEC,
	                           .meeting = "192.0.2.7:4242",
	                           .directory = "/some folder",
	                           .secret = secret,
	                           .token = token,
	                           .argc = 4,
	                           .argv = words,
	                           .nvariables = 1,
	                           .variables = variables};
}

TEST(every_field_arrives)
{
	const struct remote_job sent = example();
	struct remote_job got;
	struct err err = {0};
	struct buf b;
	buf_init_secret(&b, REMOTE_JOB_MAX);
	remote_encode(&sent, &b);
	assert_int_equal(remote_decode(&got, view_of(b.data, b.len), &err), 0);
	assert_int_equal(got.rank, 2);
	assert_int_equal(got.size, 3);
	assert_true(got.json && !got.program);
	assert_int_equal(got.verbose, -1);
	assert_int_equal(got.silence, sent.silence);
	assert_string_equal(got.meeting, sent.meeting);
	assert_string_equal(got.directory, sent.directory);
	assert_string_equal(got.secret, secret);
	assert_string_equal(got.token, token);
	assert_int_equal(got.argc, 4);
	for (int i = 0; i < 4; i++)
		assert_string_equal(got.argv[i], words[i]);
	assert_null(got.argv[4]);
	assert_int_equal(got.nvariables, 1);
	assert_string_equal(got.variables[0], variables[0]);
	remote_release(&got);
	for (size_t n = 0; n < b.len; n++) {
		struct err cut = {0};
		assert_int_equal(remote_decode(&got, view_of(b.data, n), &cut), -1);
		assert_int_equal(cut.code, ERR_INTEGRITY);
		remote_release(&got);
	}
	buf_put_u8(&b, 0); /* too long */
	assert_int_equal(remote_decode(&got, view_of(b.data, b.len), &err), -1);
	remote_release(&got);
	buf_release(&b);
}

/* Linux allows 128 KiB for an argument. */
TEST(long_words)
{
	static char word[130000];
	char *argv[] = {word, NULL};
	struct remote_job sent = example(), got;
	struct err err = {0};
	struct buf b;
	memset(word, 'x', sizeof word - 1);
	sent.argc = 1;
	sent.argv = argv;
	buf_init(&b, REMOTE_JOB_MAX);
	remote_encode(&sent, &b);
	assert_int_equal(remote_decode(&got, view_of(b.data, b.len), &err), 0);
	assert_string_equal(got.argv[0], word);
	remote_release(&got);
	buf_release(&b);
}

TEST(impossible_jobs)
{
	struct remote_job bad[4] = {example(), example(), example(), example()}, got;
	bad[0].rank = 3;
	bad[1].size = 0;
	bad[2].argc = 0;
	bad[3].silence = 0;
	for (int i = 0; i < 4; i++) {
		struct err err = {0};
		struct buf b;
		buf_init(&b, REMOTE_JOB_MAX);
		remote_encode(&bad[i], &b);
		assert_int_equal(remote_decode(&got, view_of(b.data, b.len), &err), -1);
		remote_release(&got);
		buf_release(&b);
	}
}

/* A job that has a NUL in its last word is no job with a word less. */
TEST(a_nul_in_a_word)
{
	const struct remote_job sent = example();
	struct remote_job got;
	struct err err = {0};
	struct buf b;
	buf_init(&b, REMOTE_JOB_MAX);
	remote_encode(&sent, &b);
	b.data[b.len - 1] = '\0'; /* of the last variable */
	assert_int_equal(remote_decode(&got, view_of(b.data, b.len), &err), -1);
	assert_int_equal(err.code, ERR_INTEGRITY);
	remote_release(&got);
	buf_release(&b);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
