/* Hostile answers of etcd: whatever is accepted has an index and a value within its cap, or is a
 * token that can stand in a header. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/store/etcd_answer.h"
#include "tests/fuzz/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_range(const char *body, size_t size)
{
	struct store_value v;
	struct err e = {0};
	uint64_t revision;

	if (etcd_read_range(&v, &revision, body, size, &e) < 0) {
		CHECK(e.code && !v.data && !v.len && !v.index);
		return;
	}
	CHECK(revision && v.index <= revision && v.len <= STORE_VALUE_MAX);
	CHECK(v.index || !v.data);
	CHECK(!v.len || v.data);
	CHECK(!v.data || v.data[v.len] == '\0');
	free(v.data);
}

static void check_token(const char *body, size_t size)
{
	struct err e = {0};
	char *token;

	if (etcd_read_token(&token, body, size, &e) < 0) {
		CHECK(e.code && !token);
		return;
	}
	CHECK(*token && strlen(token) < 1000);
	for (const char *c = token; *c; c++)
		CHECK(*c > ' ' && *c <= '~');
	free(token);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *body = (const char *)data;
	struct etcd_error refusal;
	struct err e = {0};

	check_range(body, size);
	check_token(body, size);
	const int done = etcd_read_txn(body, size, &e);
	CHECK(done >= -1 && done <= 1 && (done < 0) == (e.code != 0));
	etcd_read_error(&refusal, body, size);
	CHECK(refusal.code >= 0 && refusal.code <= ETCD_UNAUTHENTICATED);
	CHECK(strlen(refusal.text) < sizeof refusal.text);
	(void)etcd_watch_woke(body, size, 7);
	return 0;
}
