/* Records: what is encoded is decoded, and nothing else is taken for a record of the job. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/store/record.h"
#include "tests/unit/unit.h"

static const struct secret secret = {.key = "the secret"}, wrong = {.key = "another"};
static const struct record_of with_secret = {"collctl/j", "j", &secret};
static const struct record_of insecure = {"collctl/j", "j", NULL};

static char *encode(const struct record_of *of, struct record *rec)
{
	struct err err = {0};
	snprintf(rec->addr, sizeof rec->addr, "192.0.2.7:4242");
	char *text = record_encode(of, rec, &err);
	assert_non_null(text);
	return text;
}

/* @text is no record, for a reason with @words in it. */
static void refused(const struct record_of *of, const char *text, const char *words)
{
	struct record rec;
	struct err err = {0};
	char why[256] = "";
	assert_int_equal(record_decode(of, text, strlen(text), &rec, why, sizeof why, &err), 0);
	if (!strstr(why, words))
		fail_msg("'%s' is not '%s' of %s", why, words, text);
}

TEST(there_and_back)
{
	const struct record_of *of[] = {&with_secret, &insecure};
	for (int i = 0; i < 2; i++) {
		struct record rec, out;
		struct err err = {0};
		char why[256], *text = encode(of[i], &rec);
		assert_int_equal(
		        record_decode(of[i], text, strlen(text), &out, why, sizeof why, &err), 1);
		assert_string_equal(out.addr, "192.0.2.7:4242");
		assert_string_equal(out.nonce, rec.nonce);
		assert_string_equal(out.mac, rec.mac);
		assert_int_equal(strlen(rec.mac), i ? 0 : 64);
		free(text);
	}
}

/* One byte more or less, or another: refused, or it says the same. */
TEST(a_record_that_was_changed)
{
	struct record rec, out;
	struct err err = {0};
	char why[256], *text = encode(&with_secret, &rec);
	for (size_t i = 0; i < strlen(text); i++) {
		char was = text[i];
		text[i] = (char)(was ^ 1);
		if (record_decode(&with_secret, text, strlen(text), &out, why, sizeof why, &err) ==
		    1)
			assert_memory_equal(&out, &rec, sizeof out);
		text[i] = was;
	}
	free(text);
}

TEST(other_secrets_and_jobs)
{
	const struct record_of another = {"collctl/j", "j", &wrong},
	                       job = {"collctl/k", "k", &secret};
	struct record rec;
	char *text = encode(&with_secret, &rec), *plain;
	refused(&another, text, "secrets differ");
	refused(&job, text, "secrets differ");
	refused(&insecure, text, "has a MAC, so rank 0 has a secret");
	free(text);
	plain = encode(&insecure, &rec);
	refused(&with_secret, plain, "without a MAC");
	free(plain);
}

TEST(no_records)
{
	static const char *const texts[] = {
	        "",
	        "{}",
	        "[1]",
	        "{\"v\":2,\"addr\":\"a:1\",\"nonce\":\"n\"}",
	        "{\"v\":1,\"addr\":\"a:1\"}",
	        "{\"v\":1,\"addr\":5,\"nonce\":\"n\"}",
	        "{\"v\":1,\"v\":1,\"addr\":\"a:1\",\"nonce\":\"n\"}",
	        "{\"v\":1,\"addr\":\"a:1\",\"nonce\":\"0123456789012345678901234567890123\"}",
	};
	for (size_t i = 0; i < LENGTH(texts); i++)
		refused(&insecure, texts[i], "not a record of collctl");
}

int main(void)
{
	return unit_run(NULL, NULL);
}
