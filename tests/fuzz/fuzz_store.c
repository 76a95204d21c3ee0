/*
 * Hostile answers of a store, whole: status line, headers and body, over the real client and
 * libcurl. The first byte chooses the store and the calls; then each connection that the client
 * makes gets the next part of the input (parts are cut at 0xff) and its end. A client whose answers
 * are used up is interrupted, so that nothing waits.
 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/store/store.h"
#include "tests/fuzz/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PARTS 4

static struct {
	const uint8_t *p;
	size_t left;
	int parts;
	int peer; /* of the last connection */
	bool used_up;
} answers;

static void hang_up(void)
{
	if (answers.peer >= 0)
		close(answers.peer);
	answers.peer = -1;
}

/* libcurl's: instead of a connection to the store's host, one whose peer has sent the next part. */
int connect(int fd, const struct sockaddr *to, socklen_t to_len)
{
	int pair[2];

	(void)to, (void)to_len;
	hang_up();
	if (!answers.left || ++answers.parts > PARTS) {
		answers.used_up = true;
		errno = ECONNREFUSED;
		return -1;
	}
	const uint8_t *cut = memchr(answers.p, 0xff, answers.left);
	size_t len = cut ? (size_t)(cut - answers.p) : answers.left;
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
	/* The socket takes what fits, well over the fuzzer's longest input. */
	CHECK(!len || send(pair[0], answers.p, len, MSG_NOSIGNAL) == (ssize_t)len);
	shutdown(pair[0], SHUT_WR);
	CHECK(dup2(pair[1], fd) == fd);
	close(pair[1]);
	answers.peer = pair[0];
	answers.p += len + (cut != NULL);
	answers.left -= len + (cut != NULL);
	return 0;
}

static bool is_used_up(void *ctx)
{
	(void)ctx;
	return answers.used_up;
}

static void check_error(const struct err *e)
{
	CHECK(e->code == ERR_RENDEZVOUS || e->code == ERR_AUTH || e->code == ERR_OTHER);
	CHECK(e->text[0]);
}

static void get(struct store *s, uint64_t wait_index, int64_t time)
{
	struct store_value v;
	struct err e = {0};
	uint64_t next = 0;

	if (store_get(s, "collctl/job", wait_index, &v, &next, clock_ns() + time, &e) < 0) {
		check_error(&e);
		return;
	}
	CHECK(v.len <= STORE_VALUE_MAX && (v.index || !v.data));
	CHECK(!v.data || v.data[v.len] == '\0');
	free(v.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct store_conf stores[] = {
	        {.url = "http://127.0.0.1:1"},
	        {.url = "etcd+http://127.0.0.1:1,127.0.0.1:2", .token = "user:password"}};
	struct err e = {0};
	int done = 0;

	if (!size)
		return 0;
	answers.p = data + 1;
	answers.left = size - 1;
	answers.parts = 0;
	answers.peer = -1;
	answers.used_up = false;
	struct store *s = store_open(&stores[data[0] / 4 % 2], &e);
	CHECK(s);
	store_interrupt(s, is_used_up, NULL);
	int64_t soon = clock_ns() + 5 * NS_PER_MS;
	switch (data[0] % 4) {
	case 0:
		get(s, 0, 0);
		break;
	case 1: /* long enough for a blocking query */
		get(s, 7, 15 * NS_PER_MS);
		get(s, 0, 0);
		break;
	case 2:
		done = store_put(s, "collctl/job", "value", 5, 7, soon, &e);
		break;
	default:
		done = store_delete(s, "collctl/job", 7, soon, &e);
		break;
	}
	CHECK(done >= -1 && done <= 1);
	if (done < 0)
		check_error(&e);
	store_close(s);
	hang_up();
	return 0;
}
