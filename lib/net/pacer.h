/*
 * A pacer limits the bytes per second that a group of connections sends together. It implements
 * --limit-rate, for the data connections of a rank. One thread: the one of the loop.
 *
 * It is a token bucket in front of the sockets. A token is the right to write one byte to a socket:
 * of payload, framing or TLS. Headers of TCP and IP and retransmissions do not count. In any time t
 * the connections send at most rate * t + burst bytes.
 *
 * The socket option SO_MAX_PACING_RATE does not suffice, because it limits one socket. The rank's
 * limit would have to be divided among its connections, and those that have nothing to send would
 * waste their shares.
 *
 * If there is no token, a connection's write accepts nothing, as if the socket were full, and the
 * connection waits in a queue. In each PACER_PERIOD, a timer of the loop divides the tokens equally
 * among the connections at the head of the queue, and calls their on_ready. A connection that wants
 * more joins the queue at its end. The cost for a connection without a pacer is one comparison per
 * write.
 */
#ifndef COLLCTL_NET_PACER_H
#define COLLCTL_NET_PACER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/clock.h"
#include "lib/net/loop.h"

#define PACER_PERIOD (10 * NS_PER_MS)
#define PACER_PIECE  (16u << 10) /* bytes; the least share of a connection, if there are as many */

/* The token bucket. Pure: times are arguments, in ns. The burst is the most tokens that it holds,
 * and what it holds at first: the tokens of 1/20 s, but at least PACER_PIECE. */
struct bucket {
	double rate, burst, tokens; /* tokens per second; tokens */
	int64_t at;                 /* when it had `tokens` */
};

void bucket_init(struct bucket *, uint64_t rate, int64_t now);
/* The number of whole tokens at @now. @now must not decrease from call to call. */
uint64_t bucket_has(struct bucket *, int64_t now);
/* Take @n tokens. There must be as many. */
void bucket_take(struct bucket *, uint64_t n);
/* The time at which there is a token, if none is taken before. */
int64_t bucket_ready(const struct bucket *);

struct conn;

struct pacer {
	struct bucket bucket;
	struct loop *loop;
	struct loop_timer timer;
	struct conn *first, **end; /* the connections that wait */
	size_t waiting;
};

/* @rate: bytes per second, > 0. The loop must outlive the pacer, and the pacer must not move. */
void pacer_init(struct pacer *, struct loop *, uint64_t rate);
/* All its connections must be freed before. */
void pacer_release(struct pacer *);
/* Limit @c by the pacer until @c is freed. @c must be watched on the pacer's loop. */
void pacer_add(struct pacer *, struct conn *c);

/* For conn.c. How many of @want bytes may @c send now? 0: @c joins the queue. */
size_t pacer_allows(struct conn *c, size_t want);
/* @c has sent @n bytes. @more: it has more than it was allowed to send, and joins the queue. */
void pacer_sent(struct conn *c, size_t n, bool more);
void pacer_forget(struct conn *c); /* @c is about to be freed */

#endif
