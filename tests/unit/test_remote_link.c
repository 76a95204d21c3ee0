/* What the two ends of `run -H` say to each other: the hello, and messages among a rank's bytes. */
#include <stdio.h>
#include <string.h>

#include "cmd/run/remote.h"
#include "lib/base/version.h"
#include "tests/unit/unit.h"

static int find(const char *text, struct remote_hello *h)
{
	char why[200];
	return remote_find_hello(text, strlen(text), h, why, sizeof why);
}

TEST(hellos)
{
	static const char *const addresses[] = {"-", "192.0.2.7", "2001:db8::7", "fe80::1%eth0.5",
	                                        "::ffff:192.0.2.7"};
	char line[512], text[1024];
	struct remote_hello said = {.port = 65535}, got;
	strcpy(said.version, COLLCTL_VERSION);
	memset(said.token, 'a', 64);
	for (size_t i = 0; i < LENGTH(addresses); i++) {
		strcpy(said.address, addresses[i]);
		const int n = remote_write_hello(&said, line, sizeof line);
		snprintf(text, sizeof text, "a banner\n%s", line);
		assert_int_equal(find(text, &got), 1);
		assert_string_equal(got.address, said.address);
		assert_string_equal(got.token, said.token);
		assert_int_equal(got.port, 65535);
		line[n - 1] = '\0'; /* its end has not come */
		assert_int_equal(find(line, &got), 0);
	}
}

TEST(no_hellos)
{
	static const char *const rests[] = {
	        "",
	        "192.0.2.7",
	        "192.0.2.7 1",
	        "192.0.2.7 65536 -",
	        "192.0.2.7 -1 -",
	        "192.0.2.7 x -",
	        "192.0.2.7 1 abcd",
	        "example.com 1 -",
	        "192.0.2.7/x 1 -",
	        "a@192.0.2.7 1 -",
	        "%eth0 1 -",
	        "fe80::1%/ 1 -",
	        "[::1] 1 -",
	};
	char text[600];
	struct remote_hello got;
	for (size_t i = 0; i < LENGTH(rests); i++) {
		snprintf(text, sizeof text, "\ncollctl-remote-%d %s %s\n", REMOTE_LINK,
		         COLLCTL_VERSION, rests[i]);
		assert_int_equal(find(text, &got), -1);
		assert_string_equal(got.token, "");
	}
	snprintf(text, sizeof text, "\ncollctl-remote-%d %s - 1 -\n", REMOTE_LINK + 1,
	         COLLCTL_VERSION);
	assert_int_equal(find(text, &got), -1);
	assert_int_equal(find("\ncollctl-remote-4 9.9.9 - 1 -\n", &got), -1);
	assert_int_equal(find("collctl-remote-4", &got), 0);
}

static void count(void *ctx, int what, int value)
{
	int *sum = ctx;
	*sum += what * 256 + value;
}

/* Messages are found wherever they are, in pieces of any length, and the rank's bytes stay. */
TEST(messages_among_bytes)
{
	static const char rank[] = "one\0two\0\0\n\0";
	char said[64], piece;
	const size_t size = sizeof rank - 1;
	for (size_t at = 0; at <= size; at++) {
		struct remote_reader r = {0};
		int sum = 0;
		size_t n = remote_stuff(rank, at, said), got = 0;
		memcpy(said + n, "\0v\0\0e\7", 6);
		n += 6;
		n += remote_stuff(rank + at, size - at, said + n);
		for (size_t i = 0; i < n; i++) {
			piece = said[i];
			if (!remote_extract(&r, &piece, 1, count, &sum))
				continue;
			assert_int_equal(piece, rank[got]);
			got++;
		}
		assert_int_equal(got, size);
		assert_int_equal(sum, REMOTE_VERDICT * 256 + REMOTE_ENDED * 256 + 7);
	}
}

TEST(times)
{
	assert_int_equal(remote_every(REMOTE_SILENCE), REMOTE_SILENCE / 4);
	assert_int_equal(remote_every(3600 * NS_PER_SEC), REMOTE_EVERY);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
