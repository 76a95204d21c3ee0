/*
 * The event loop: epoll and a few timers, one thread. Descriptors are watched edge-triggered where
 * the watcher asks for it. Timers run after the events of the same turn, so that a process that was
 * stopped and continues reads what its peers sent before it treats them as late. Due timers run in
 * the order of their times; a timer that is armed meanwhile waits for the next turn.
 */
#ifndef COLLCTL_NET_LOOP_H
#define COLLCTL_NET_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "lib/base/err.h"

struct loop_watch {
	int fd;
	void (*fn)(void *ctx, uint32_t events); /* EPOLL* */
	void *ctx;
};

struct loop_timer {
	int64_t at; /* clock_ns(); one shot */
	void (*fn)(void *ctx);
	void *ctx;
	struct loop_timer *next, **prev; /* linked while armed */
	unsigned round;                  /* in which it was armed */
};

/* A source of events in memory, which the loop looks at while it yields and before it sleeps. */
struct loop_poll {
	/* Dispatch what has happened. True: something has. @sleeps: the loop is about to sleep, so
	 * from now on an event must also wake a descriptor that the loop watches. */
	bool (*fn)(void *ctx, bool sleeps);
	void *ctx;
	struct loop_poll *next, **prev; /* linked while polled */
};

struct loop {
	int epfd;
	struct loop_poll *polls, *next_poll; /* next_poll: while they are called */
	struct loop_timer *timers;
	unsigned round;            /* of running timers */
	struct epoll_event *batch; /* being dispatched */
	int batch_len;
	int crowded; /* turns in a row that had more events than a batch holds */
	int yields;  /* tries of sched_yield before sleeping; 0: sleep at once */
	int home;    /* the processor to go to when another is shared; -1: none */
	int64_t homed_at;
};

int loop_init(struct loop *, struct err *);
void loop_release(struct loop *);

/* Watch w->fd for @events (EPOLLIN | EPOLLOUT | EPOLLET ...). The caller owns @w and keeps it until
 * loop_del. */
int loop_add(struct loop *, struct loop_watch *w, uint32_t events, struct err *);
/* Change the events. An event that is ready is reported again, even if its edge was reported. */
int loop_mod(struct loop *, struct loop_watch *w, uint32_t events, struct err *err);
void loop_del(struct loop *, struct loop_watch *w); /* before closing the descriptor; idempotent */

void loop_poll_add(struct loop *, struct loop_poll *p);
void loop_poll_del(struct loop *, struct loop_poll *p); /* idempotent */

void loop_timer_set(struct loop *, struct loop_timer *t, int64_t at); /* re-arms */
void loop_timer_stop(struct loop_timer *t);                           /* idempotent */

/*
 * The scheduler tends to put ranks of one host that wake each other on one processor while others
 * are free. From now on, a thread that notices while yielding that another thread runs on its
 * processor moves to the @index-th of the processors that it may use, modulo their number; it is
 * not bound to it.
 */
void loop_home(struct loop *, int index);

/* Wait for events or the first timer, at most until @deadline (clock_ns(); INT64_MAX: for ever),
 * and dispatch them. 0: only the events that are ready. */
int loop_turn(struct loop *, int64_t deadline, struct err *);

#endif
