/*
 * What the two ends of `run -H` say to each other (cmd/run/remote.h). The first byte chooses: the
 * job that a host gets, the hello that run finds in what a host prints, or the messages among a
 * rank's bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/run/remote.h"
#include "lib/base/version.h"
#include "tests/fuzz/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool same_list(char **a, char **b, int n)
{
	for (int i = 0; i < n; i++)
		if (strcmp(a[i], b[i]) != 0)
			return false;
	return !a[n] && !b[n];
}

/* What is taken and written again is the same job. */
static void decode_job(const uint8_t *data, size_t size)
{
	struct remote_job j, again;
	struct err err = {0};
	struct buf b;
	if (remote_decode(&j, view_of(data, size), &err) < 0) {
		CHECK(err.code == ERR_INTEGRITY);
		remote_release(&j);
		return;
	}
	CHECK(j.size > 0 && j.rank >= 0 && j.rank < j.size && j.silence > 0 && j.argc > 0);
	CHECK(j.argc <= REMOTE_WORDS && j.nvariables <= REMOTE_WORDS);
	buf_init_secret(&b, REMOTE_JOB_MAX);
	remote_encode(&j, &b);
	CHECK(!b.failed && b.len == size && memcmp(b.data, data, REMOTE_RANK_BYTES) == 0);
	CHECK(remote_decode(&again, view_of(b.data, b.len), &err) == 0);
	CHECK(again.rank == j.rank && again.size == j.size && again.program == j.program &&
	      again.json == j.json && again.verbose == j.verbose && again.silence == j.silence);
	CHECK(strcmp(again.meeting, j.meeting) == 0 && strcmp(again.directory, j.directory) == 0);
	CHECK(strcmp(again.secret, j.secret) == 0 && strcmp(again.token, j.token) == 0);
	CHECK(again.argc == j.argc && same_list(again.argv, j.argv, j.argc));
	CHECK(again.nvariables == j.nvariables &&
	      same_list(again.variables, j.variables, j.nvariables));
	remote_release(&again);
	remote_release(&j);
	buf_release(&b);
}

/* A hello that is taken has this version, an address of an address's characters, and is written and
 * found again. */
static void find_hello(const uint8_t *data, size_t size)
{
	struct remote_hello h, again;
	char why[200], line[512];
	char *text = malloc(size + 1); /* exactly as long: a sanitizer sees what is read past it */
	CHECK(text);
	memcpy(text, data, size);
	text[size] = '\0';
	const int found = remote_find_hello(text, size, &h, why, sizeof why);
	if (found < 0)
		CHECK(*why && !*h.token);
	if (found > 0) {
		CHECK(strcmp(h.version, COLLCTL_VERSION) == 0 && h.port >= 0 && h.port <= 65535);
		CHECK(*h.address && !strpbrk(h.address, "/@ \n?#[]"));
		const int n = remote_write_hello(&h, line, sizeof line);
		CHECK(n > 0 && (size_t)n < sizeof line);
		CHECK(remote_find_hello(line, (size_t)n, &again, why, sizeof why) == 1);
		CHECK(strcmp(again.address, h.address) == 0 && again.port == h.port &&
		      strcmp(again.token, h.token) == 0);
	}
	free(text);
}

struct told {
	uint8_t words[2 * 12000];
	size_t n;
};

static void tell(void *ctx, int what, int value)
{
	struct told *t = ctx;
	CHECK(what > 0 && what < 256 && value >= 0 && value < 256 && t->n < sizeof t->words);
	t->words[t->n++] = (uint8_t)what;
	t->words[t->n++] = (uint8_t)value;
}

/* In pieces or at once, the same bytes and messages come out; what is stuffed comes out as it was.
 */
static void extract(const uint8_t *data, size_t size)
{
	static struct told all, parts;
	static char whole[12000], pieces[12000], stuffed[24000];
	struct remote_reader once = {0}, often = {0}, clean = {0};
	if (size < 1 || size > sizeof whole)
		return;
	const size_t step = data[0] % 7 + 1;
	data++;
	size--;
	all.n = parts.n = 0;
	memcpy(whole, data, size);
	memcpy(pieces, data, size);
	const size_t kept = remote_extract(&once, whole, size, tell, &all);
	size_t got = 0;
	for (size_t at = 0; at < size; at += step) {
		const size_t n = size - at < step ? size - at : step;
		const size_t left = remote_extract(&often, pieces + at, n, tell, &parts);
		CHECK(left <= n);
		memmove(pieces + got, pieces + at, left);
		got += left;
	}
	CHECK(kept <= size && got == kept && memcmp(whole, pieces, kept) == 0);
	CHECK(all.n == parts.n && memcmp(all.words, parts.words, all.n) == 0);
	all.n = 0;
	const size_t n = remote_stuff((const char *)data, size, stuffed);
	CHECK(n >= size && n <= 2 * size);
	CHECK(remote_extract(&clean, stuffed, n, tell, &all) == size && all.n == 0);
	CHECK(memcmp(stuffed, data, size) == 0 && clean.have == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	switch (data[0] % 3) {
	case 0:
		decode_job(data + 1, size - 1);
		break;
	case 1:
		find_hello(data + 1, size - 1);
		break;
	default:
		extract(data + 1, size - 1);
		break;
	}
	return 0;
}
