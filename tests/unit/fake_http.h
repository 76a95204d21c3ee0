/*
 * HTTP servers that are no stores, for tests of their clients: each connection gets one answer. A
 * server's functions run in a thread of the test.
 */
#ifndef COLLCTL_TESTS_FAKE_HTTP_H
#define COLLCTL_TESTS_FAKE_HTTP_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/net/addr.h"
#include "tests/unit/unit.h"

#define FAKE_ANSWERS 6

enum manner { ANSWER, SLOW, RESET, ENDLESS };

struct fake {
	int fd, port;
	enum manner manner;
	const char *_Atomic answers[FAKE_ANSWERS]; /* in turn; the last again and again */
	atomic_int requests;
	atomic_bool stop;
	pthread_t thread;
	pthread_mutex_t lock; /* held while a client has its answer */
};

static inline void send_all(int fd, const char *data, size_t len)
{
	while (len) {
		ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
		if (n <= 0)
			return;
		data += n;
		len -= (size_t)n;
	}
}

static inline void send_endless(struct fake *f, int fd)
{
	static const char head[] = "HTTP/1.1 200 OK\r\nX-Consul-Index: 1\r\n\r\n";
	static char block[65536];

	memset(block, '[', sizeof block);
	send_all(fd, head, sizeof head - 1);
	while (!f->stop && send(fd, block, sizeof block, MSG_NOSIGNAL) > 0)
		;
}

static inline void send_slowly(struct fake *f, int fd)
{
	static const char head[] =
	        "HTTP/1.1 200 OK\r\nX-Consul-Index: 1\r\nContent-Length: 60000\r\n\r\n";

	send_all(fd, head, sizeof head - 1);
	while (!f->stop && send(fd, " ", 1, MSG_NOSIGNAL) == 1)
		nanosleep(&(struct timespec){.tv_nsec = 20 * NS_PER_MS}, NULL);
}

static inline void answer(struct fake *f, int fd)
{
	char buf[4096];
	int turn = atomic_fetch_add(&f->requests, 1);

	if (recv(fd, buf, sizeof buf, 0) <= 0)
		return;
	if (f->manner == ENDLESS)
		send_endless(f, fd);
	if (f->manner == SLOW)
		send_slowly(f, fd);
	if (f->manner != ANSWER)
		return;
	if (turn >= FAKE_ANSWERS)
		turn = FAKE_ANSWERS - 1;
	while (turn > 0 && !f->answers[turn])
		turn--;
	const char *text = f->answers[turn];
	send_all(fd, text, strlen(text));
	shutdown(fd, SHUT_WR);
	while (recv(fd, buf, sizeof buf, 0) > 0)
		;
}

static inline void *be_fake(void *arg)
{
	struct fake *f = arg;

	while (!f->stop) {
		struct pollfd p = {.fd = f->fd, .events = POLLIN};
		if (poll(&p, 1, 20) <= 0)
			continue;
		int fd = accept(f->fd, NULL, NULL);
		if (fd < 0)
			continue;
		pthread_mutex_lock(&f->lock);
		answer(f, fd);
		pthread_mutex_unlock(&f->lock);
		close(fd);
	}
	return NULL;
}

static inline void start_fake(struct fake *f)
{
	struct addr a;
	struct err e = {0};

	assert_int_equal(addr_resolve(&a, "127.0.0.1", 0, true, &e), 0);
	f->fd = addr_listen(&a, 0, 0, 16, &e);
	assert_true(f->fd >= 0);
	pthread_mutex_init(&f->lock, NULL);
	f->port = addr_port(&a);
	assert_int_equal(pthread_create(&f->thread, NULL, be_fake, f), 0);
}

static inline void stop_fake(struct fake *f)
{
	f->stop = true;
	pthread_join(f->thread, NULL);
	close(f->fd);
}

#endif
