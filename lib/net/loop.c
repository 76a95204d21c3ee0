#include "lib/net/loop.h"

#include <errno.h>
#include <sched.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/numa.h"

#define BATCH   64
#define CROWDED 16 /* timers wait for this many full batches in a row */

#define SHARED_NS 4000      /* if a yield takes longer, another thread ran */
#define OTHERS    4         /* such yields before a sleep */
#define HOMING_NS NS_PER_MS /* at most once in this time, for the scheduler's sake */

int loop_init(struct loop *l, struct err *err)
{
	*l = (struct loop){.epfd = epoll_create1(EPOLL_CLOEXEC), .home = -1};
	if (l->epfd < 0)
		return err_errno(err, ERR_RESOURCE, "epoll_create1");
	return 0;
}

void loop_release(struct loop *l)
{
	if (l->epfd >= 0)
		close(l->epfd);
	l->epfd = -1;
}

static int control(struct loop *l, int op, struct loop_watch *w, uint32_t events, struct err *err)
{
	struct epoll_event ev = {.events = events, .data.ptr = w};
	if (epoll_ctl(l->epfd, op, w->fd, &ev) < 0)
		return err_errno(err, ERR_RESOURCE, "epoll_ctl");
	return 0;
}

int loop_add(struct loop *l, struct loop_watch *w, uint32_t events, struct err *err)
{
	return control(l, EPOLL_CTL_ADD, w, events, err);
}

int loop_mod(struct loop *l, struct loop_watch *w, uint32_t events, struct err *err)
{
	return control(l, EPOLL_CTL_MOD, w, events, err);
}

void loop_del(struct loop *l, struct loop_watch *w)
{
	if (w->fd < 0)
		return;
	epoll_ctl(l->epfd, EPOLL_CTL_DEL, w->fd, NULL);
	for (int i = 0; i < l->batch_len; i++)
		if (l->batch[i].data.ptr == w)
			l->batch[i].data.ptr = NULL;
}

void loop_poll_add(struct loop *l, struct loop_poll *p)
{
	p->next = l->polls;
	p->prev = &l->polls;
	if (p->next)
		p->next->prev = &p->next;
	l->polls = p;
}

void loop_poll_del(struct loop *l, struct loop_poll *p)
{
	if (!p->prev)
		return;
	if (l->next_poll == p)
		l->next_poll = p->next;
	*p->prev = p->next;
	if (p->next)
		p->next->prev = p->prev;
	p->prev = NULL;
	p->next = NULL;
}

/* A polled function may remove any source. */
static bool poll_memory(struct loop *l, bool sleeps)
{
	bool any = false;
	for (struct loop_poll *p = l->polls; p; p = l->next_poll) {
		l->next_poll = p->next;
		any |= p->fn(p->ctx, sleeps);
	}
	return any;
}

void loop_timer_stop(struct loop_timer *t)
{
	if (!t->prev)
		return;
	*t->prev = t->next;
	if (t->next)
		t->next->prev = t->prev;
	t->prev = NULL;
	t->next = NULL;
}

void loop_timer_set(struct loop *l, struct loop_timer *t, int64_t at)
{
	loop_timer_stop(t);
	t->at = at;
	t->round = l->round;
	t->next = l->timers;
	t->prev = &l->timers;
	if (t->next)
		t->next->prev = &t->next;
	l->timers = t;
}

static int64_t first_timer(const struct loop *l, int64_t deadline)
{
	for (const struct loop_timer *t = l->timers; t; t = t->next)
		if (t->at < deadline)
			deadline = t->at;
	return deadline;
}

/* The timer that is due first, of those set before this round; NULL: none. */
static struct loop_timer *due_timer(const struct loop *l, int64_t now)
{
	struct loop_timer *due = NULL;
	for (struct loop_timer *t = l->timers; t; t = t->next)
		if (t->at <= now && t->round != l->round && (!due || t->at <= due->at))
			due = t;
	return due;
}

/* A timer's function may stop or set any timer, so the search begins anew after each. */
static void run_timers(struct loop *l)
{
	int64_t now = clock_ns();
	struct loop_timer *t;
	l->round++;
	while ((t = due_timer(l, now))) {
		loop_timer_stop(t);
		t->fn(t->ctx);
	}
}

void loop_home(struct loop *l, int index, int node)
{
	cpu_set_t allowed, near;
	l->home = -1;
	if (sched_getaffinity(0, sizeof allowed, &allowed) < 0)
		return;
	if (!numa_processors(node, &near))
		CPU_ZERO(&near);
	CPU_AND(&near, &near, &allowed);
	l->away = CPU_COUNT(&near) > 0;
	const cpu_set_t *among = l->away ? &near : &allowed;
	int n = index % CPU_COUNT(among);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET((size_t)cpu, among) && n-- == 0)
			l->home = cpu;
}

/* Best effort: if it fails, the thread stays on its processor. */
static void go_home(struct loop *l, int64_t now)
{
	cpu_set_t allowed, home;
	l->away = false;
	l->homed_at = now;
	CPU_ZERO(&home);
	CPU_SET((size_t)l->home, &home);
	if (sched_getaffinity(0, sizeof allowed, &allowed) == 0 &&
	    sched_setaffinity(0, sizeof home, &home) == 0)
		(void)sched_setaffinity(0, sizeof allowed, &allowed);
}

/* True: another thread ran meanwhile. */
static bool yield(struct loop *l)
{
	int64_t began = clock_ns();
	sched_yield();
	int64_t now = clock_ns();
	const bool shared = now - began > SHARED_NS;
	const bool moves = shared && now - l->homed_at > HOMING_NS;
	if (l->home >= 0 && (l->away || (moves && sched_getcpu() != l->home)))
		go_home(l, now);
	return shared;
}

/* Peers on the same machine answer within microseconds: yield to them a few times before a sleep,
 * which costs a wake-up, but never spin against them. What has not come after others have run a few
 * times takes longer, and each further yield costs two changes of threads. */
static int wait_events(struct loop *l, struct epoll_event *batch, int64_t deadline)
{
	int others = 0;
	for (int i = 0; deadline > 0 && i < l->yields && others < OTHERS; i++) {
		if (poll_memory(l, false))
			deadline = 0;
		int n = epoll_wait(l->epfd, batch, BATCH, 0);
		if (n != 0 || deadline == 0)
			return n;
		others += yield(l);
	}
	if (poll_memory(l, deadline > 0))
		deadline = 0;
	deadline = first_timer(l, deadline);
	return epoll_wait(l->epfd, batch, BATCH,
	                  deadline == INT64_MAX ? -1 : clock_ms_until(deadline));
}

int loop_turn(struct loop *l, int64_t deadline, struct err *err)
{
	struct epoll_event batch[BATCH];
	int n = wait_events(l, batch, deadline);
	if (n < 0)
		return errno == EINTR ? 0 : err_errno(err, ERR_OTHER, "epoll_wait");
	l->batch = batch;
	l->batch_len = n;
	for (int i = 0; i < n; i++) {
		struct loop_watch *w = batch[i].data.ptr;
		if (w)
			w->fn(w->ctx, batch[i].events);
	}
	l->batch_len = 0;
	/* A full batch may have left events unread: timers wait for the next turns, but not for
	 * ever. */
	l->crowded = n == BATCH ? l->crowded + 1 : 0;
	if (l->timers && l->crowded % CROWDED == 0)
		run_timers(l);
	return 0;
}
