/*
 * A pacer limits the bytes per second that a group of connections sends together: --limit-rate for
 * the data connections of a rank.
 *
 * It is a token bucket in front of the sockets. A token is a byte given to a socket: payload,
 * framing and TLS alike, but not the headers of TCP and IP, nor what TCP sends again. In any time t
 * the connections send at most rate * t + burst bytes.
 *
 * The socket option SO_MAX_PACING_RATE would not do: it limits one socket. The rank's limit would
 * have to be divided among its connections, and those that have nothing to send would waste their
 * shares.
 *
 * A connection that finds no token waits in a queue, and its write accepts nothing, as if the
 * socket were full. A timer of the loop gives the tokens of each PACER_PERIOD to the connections at
 * the head of the queue, in equal parts, and calls their on_ready. A connection that wants more
 * joins the queue at its end. So each gets its turn. Nothing polls or sleeps, and a connection
 * without a pacer does one comparison per write.
 */
#ifndef COLLCTL_NET_PACER_H
#define COLLCTL_NET_PACER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/clock.h"
#include "lib/net/loop.h"

#define PACER_PERIOD (10 * NS_PER_MS)
#define PACER_PIECE  (16u << 10) /* the least part of a period's tokens, if there are as many */

/* The tokens. Pure: times are arguments, in ns. The burst, which is also what it holds at first, is
 * what accrues in 1/20 s, and at least PACER_PIECE. */
struct bucket {
	double rate, burst, tokens;
	int64_t at; /* when it had `tokens` */
};

void bucket_init(struct bucket *, uint64_t rate, int64_t now);
/* The whole tokens at @now, at most the burst. @now must not decrease. */
uint64_t bucket_has(struct bucket *, int64_t now);
/* Take @n tokens, at most as many as there are. */
void bucket_take(struct bucket *, uint64_t n);
/* When there is a token, if none is taken before. */
int64_t bucket_ready(const struct bucket *);

struct conn;

struct pacer {
	struct bucket bucket;
	struct loop *loop;
	struct loop_timer timer;
	struct conn *first, **end; /* the connections that wait */
	size_t waiting;
};

/* @rate: bytes per second, > 0. The loop must outlive the pacer. */
void pacer_init(struct pacer *, struct loop *, uint64_t rate);
/* Its connections must be freed before. */
void pacer_release(struct pacer *);
/* From now on @c, which must be watched on the pacer's loop, sends only what the pacer allows. */
void pacer_add(struct pacer *, struct conn *c);

/* For conn.c. How many of @want bytes may @c send now? If none, it waits from now on. */
size_t pacer_allows(struct conn *c, size_t want);
/* @c has sent @n bytes. @more: it was not allowed to send all: it waits from now on. */
void pacer_sent(struct conn *c, size_t n, bool more);
void pacer_forget(struct conn *c); /* before it is freed */

#endif
