/*
 * The event loop: epoll and a few timers. One thread uses a loop, and all callbacks run on it.
 * Times are ns of clock_ns().
 *
 * Timers run after the events of the same turn. So a process that was stopped and continues first
 * reads what its peers have sent, before its timers treat the peers as late. Due timers run in the
 * order of their times. A timer that is set while timers run waits for the next turn.
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
	unsigned round;                  /* the loop's when it was set */
};

/* A source of events in memory, which the loop polls while it yields and before it sleeps. */
struct loop_poll {
	/* Handle the events that have happened. True: there were some. @sleeps: the loop is about
	 * to sleep, so the next event must make a descriptor readable that the loop watches. */
	bool (*fn)(void *ctx, bool sleeps);
	void *ctx;
	struct loop_poll *next, **prev; /* linked while polled */
};

struct loop {
	int epfd;
	struct loop_poll *polls, *next_poll; /* next_poll: the next to call */
	struct loop_timer *timers;
	unsigned round;            /* counts the runs of timers */
	struct epoll_event *batch; /* the events of this turn */
	int batch_len;
	int crowded;      /* consecutive turns whose batch was full */
	int yields;       /* the most sched_yield() before it sleeps, fewer if other threads run
	                     meanwhile; 0: it sleeps at once */
	int home;         /* the processor to move to (loop_home); -1: none */
	bool away;        /* it is to move at its next yield */
	int64_t homed_at; /* the time of the last move */
};

int loop_init(struct loop *, struct err *); /* ERR_RESOURCE */
void loop_release(struct loop *);

/* The caller owns all watches, polls and timers. They must stay valid and must not move until they
 * are deleted or stopped. */

/* Watch w->fd for @events (EPOLLIN | EPOLLOUT | EPOLLET ...). ERR_RESOURCE. */
int loop_add(struct loop *, struct loop_watch *w, uint32_t events, struct err *);
/* Change the events. With EPOLLET, events that are ready are reported again. */
int loop_mod(struct loop *, struct loop_watch *w, uint32_t events, struct err *err);
void loop_del(struct loop *,
              struct loop_watch *w); /* call it before closing the descriptor; idempotent */

void loop_poll_add(struct loop *, struct loop_poll *p);
void loop_poll_del(struct loop *, struct loop_poll *p); /* idempotent */

/* Call t->fn once, at the time @at; a timer that is set already gets the new time. */
void loop_timer_set(struct loop *, struct loop_timer *t, int64_t at);
void loop_timer_stop(struct loop_timer *t); /* idempotent */

/*
 * Move the thread if it shares its processor: when the loop notices, while it yields, that another
 * thread runs on the same processor, it moves the thread to processor @index, modulo their number,
 * of those that it may use. The thread is not bound to it. This is useful because Linux tends to
 * put ranks that wake each other on one processor, even if others are free.
 *
 * @node: a NUMA node: the thread moves to one of its processors at the first yield. -1: any. The
 * same if the thread may use none of them.
 */
void loop_home(struct loop *, int index, int node);

/* One turn: wait for events or the first timer, at most until @deadline (INT64_MAX: without limit;
 * 0: do not wait), and call their functions. ERR_OTHER: epoll failed. */
int loop_turn(struct loop *, int64_t deadline, struct err *);

#endif
