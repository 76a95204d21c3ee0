/* The event loop: timers in order, armed and stopped from within, watches deleted while events are
 * being dispatched, deadlines,
 * sources of events in memory. */
#include <sys/eventfd.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/net/loop.h"
#include "tests/unit/unit.h"

#define LOOP_TEST(name) TEST_WITH(name, set_up, tear_down)

static struct loop loop;
static char log_text[64];
static int log_len;

static void note(char c)
{
	assert_true(log_len < (int)sizeof log_text - 1);
	log_text[log_len++] = c;
	log_text[log_len] = '\0';
}

static int set_up(void **state)
{
	struct err err = {0};
	log_len = 0;
	log_text[0] = '\0';
	return loop_init(&loop, &err);
}

static int tear_down(void **state)
{
	loop_release(&loop);
	return 0;
}

/* @deadline: ns from now. */
static void turn(int64_t deadline)
{
	struct err err = {0};
	assert_int_equal(loop_turn(&loop, clock_ns() + deadline, &err), 0);
}

struct alarm {
	struct loop_timer timer;
	char name;
	struct alarm *stops, *sets;
	int64_t at; /* ns from now of what it sets */
};

static void ring(void *ctx)
{
	struct alarm *a = ctx;
	note(a->name);
	if (a->stops)
		loop_timer_stop(&a->stops->timer);
	if (a->sets)
		loop_timer_set(&loop, &a->sets->timer, clock_ns() + a->at);
}

static void alarm_set(struct alarm *a, char name, int64_t at)
{
	a->name = name;
	a->timer = (struct loop_timer){.fn = ring, .ctx = a};
	loop_timer_set(&loop, &a->timer, at);
}

LOOP_TEST(timers_run_in_the_order_of_their_times)
{
	struct alarm a = {0}, b = {0}, c = {0}, d = {0};
	int64_t now = clock_ns();
	alarm_set(&b, 'b', now - 3);
	alarm_set(&d, 'd', now + 3600 * NS_PER_SEC);
	alarm_set(&a, 'a', now - 4);
	alarm_set(&c, 'c', now - 2);
	turn(0);
	assert_string_equal(log_text, "abc");
	turn(0);
	assert_string_equal(log_text, "abc"); /* one shot */
	loop_timer_stop(&d.timer);
	loop_timer_stop(&d.timer);
	assert_null(loop.timers);
}

LOOP_TEST(those_of_one_time_run_in_the_order_of_arming)
{
	struct alarm a = {0}, b = {0}, c = {0};
	int64_t now = clock_ns();
	alarm_set(&a, 'a', now);
	alarm_set(&b, 'b', now);
	alarm_set(&c, 'c', now);
	turn(0);
	assert_string_equal(log_text, "abc");
}

LOOP_TEST(a_timer_may_arm_itself)
{
	struct alarm a = {.sets = &a, .at = -NS_PER_SEC};
	alarm_set(&a, 'a', clock_ns());
	for (int i = 1; i <= 3; i++) { /* once a turn, though it is always due */
		turn(0);
		assert_int_equal(log_len, i);
	}
	loop_timer_stop(&a.timer);
	turn(0);
	assert_int_equal(log_len, 3);
}

LOOP_TEST(a_timer_may_stop_and_arm_others)
{
	struct alarm b = {0}, c = {0}, a = {.stops = &b, .sets = &c, .at = 0};
	int64_t now = clock_ns();
	alarm_set(&a, 'a', now - 2);
	alarm_set(&b, 'b', now - 1);
	alarm_set(&c, 'c', now + 3600 * NS_PER_SEC);
	turn(0);
	assert_string_equal(log_text, "a");
	turn(0);
	assert_string_equal(log_text, "ac");
	assert_null(loop.timers);
}

LOOP_TEST(arming_again_moves_a_timer)
{
	struct alarm a = {0};
	alarm_set(&a, 'a', clock_ns() + 3600 * NS_PER_SEC);
	loop_timer_set(&loop, &a.timer, clock_ns());
	turn(0);
	assert_string_equal(log_text, "a");
}

LOOP_TEST(a_turn_waits_for_the_first_timer)
{
	struct alarm a = {0}, b = {0};
	int64_t start = clock_ns();
	alarm_set(&a, 'a', start + 30 * NS_PER_MS);
	alarm_set(&b, 'b', start + 3600 * NS_PER_SEC);
	struct err err = {0};
	assert_int_equal(loop_turn(&loop, INT64_MAX, &err), 0);
	assert_string_equal(log_text, "a");
	assert_true(clock_ns() - start >= 30 * NS_PER_MS);
	loop_timer_stop(&b.timer);
}

LOOP_TEST(a_turn_ends_at_its_deadline)
{
	int64_t start = clock_ns();
	turn(20 * NS_PER_MS);
	assert_true(clock_ns() - start >= 20 * NS_PER_MS);
	turn(-NS_PER_SEC); /* in the past: it looks and does not wait */
	assert_true(clock_ns() - start < 10 * NS_PER_SEC);
}

struct bell {
	struct loop_watch watch;
	char name;
	struct bell *deletes;
	bool keeps;
};

static void heard(void *ctx, uint32_t events)
{
	struct bell *b = ctx;
	uint64_t n;
	assert_true(events & EPOLLIN);
	note(b->name);
	if (!b->keeps)
		assert_int_equal(read(b->watch.fd, &n, sizeof n), sizeof n);
	if (b->deletes)
		loop_del(&loop, &b->deletes->watch);
}

static void bell_add(struct bell *b, char name, uint32_t events)
{
	struct err err = {0};
	b->name = name;
	b->watch = (struct loop_watch){.fd = eventfd(1, EFD_NONBLOCK), .fn = heard, .ctx = b};
	assert_true(b->watch.fd >= 0);
	assert_int_equal(loop_add(&loop, &b->watch, events, &err), 0);
}

LOOP_TEST(events_are_dispatched)
{
	struct bell a = {0};
	bell_add(&a, 'a', EPOLLIN);
	turn(NS_PER_SEC);
	turn(0);
	assert_string_equal(log_text, "a");
	loop_del(&loop, &a.watch);
	loop_del(&loop, &a.watch);
	close(a.watch.fd);
}

LOOP_TEST(level_and_edge)
{
	struct bell level = {.keeps = true}, edge = {.keeps = true};
	bell_add(&level, 'l', EPOLLIN);
	turn(NS_PER_SEC);
	turn(NS_PER_SEC);
	assert_string_equal(log_text, "ll");
	loop_del(&loop, &level.watch);
	bell_add(&edge, 'e', EPOLLIN | EPOLLET);
	turn(NS_PER_SEC);
	turn(0);
	assert_string_equal(log_text, "lle");
	loop_del(&loop, &edge.watch);
	close(level.watch.fd);
	close(edge.watch.fd);
}

/* Whichever comes first deletes the other, whose event is in the same batch. */
LOOP_TEST(a_watch_deleted_while_dispatching_hears_nothing)
{
	struct bell a = {0}, b = {.deletes = &a};
	a.deletes = &b;
	bell_add(&a, 'a', EPOLLIN);
	bell_add(&b, 'b', EPOLLIN);
	turn(NS_PER_SEC);
	turn(0);
	assert_int_equal(log_len, 1);
	loop_del(&loop, &a.watch);
	loop_del(&loop, &b.watch);
	close(a.watch.fd);
	close(b.watch.fd);
}

/* So that who was stopped and goes on sees what its peers sent before it judges them late. */
LOOP_TEST(events_come_before_timers)
{
	struct alarm t = {0};
	struct bell a = {0};
	alarm_set(&t, 't', clock_ns() - NS_PER_SEC);
	bell_add(&a, 'a', EPOLLIN);
	turn(NS_PER_SEC);
	assert_string_equal(log_text, "at");
	loop_del(&loop, &a.watch);
	close(a.watch.fd);
}

LOOP_TEST(yielding_sees_events_and_sleeps_in_the_end)
{
	struct bell a = {0};
	int64_t start = clock_ns();
	loop.yields = 20;
	bell_add(&a, 'a', EPOLLIN);
	turn(NS_PER_SEC);
	assert_string_equal(log_text, "a");
	turn(20 * NS_PER_MS);
	assert_true(clock_ns() - start >= 20 * NS_PER_MS);
	loop_del(&loop, &a.watch);
	close(a.watch.fd);
}

/* ---- sources in memory ---- */

struct source {
	struct loop_poll poll;
	char name;
	int events;  /* that have happened and are not dispatched */
	int arrives; /* one happens after so many looks */
	struct source *removes[2];
	int slept; /* looks before a sleep */
};

static bool look(void *ctx, bool sleeps)
{
	struct source *s = ctx;
	s->slept += sleeps;
	for (int i = 0; i < 2; i++)
		if (s->removes[i])
			loop_poll_del(&loop, &s->removes[i]->poll);
	if (s->arrives && --s->arrives == 0)
		s->events++;
	if (!s->events)
		return false;
	s->events--;
	note(s->name);
	return true;
}

static void source_add(struct source *s, char name)
{
	s->name = name;
	s->poll.fn = look;
	s->poll.ctx = s;
	loop_poll_add(&loop, &s->poll);
}

LOOP_TEST(a_turn_with_an_event_in_memory_does_not_sleep)
{
	struct err err = {0};
	for (loop.yields = 0; loop.yields < 5; loop.yields += 4) {
		struct source a = {.events = 1}, b = {.events = 1};
		log_len = 0;
		source_add(&a, 'a');
		source_add(&b, 'b');
		assert_int_equal(loop_turn(&loop, INT64_MAX, &err), 0);
		assert_int_equal(log_len, 2);
		turn(0); /* nothing has happened */
		assert_int_equal(log_len, 2);
		loop_poll_del(&loop, &a.poll);
		loop_poll_del(&loop, &b.poll);
	}
}

/* An event after the last look would wake a descriptor, if the source knew that the loop sleeps. */
LOOP_TEST(a_source_learns_of_a_sleep)
{
	struct source a = {0}, late = {.arrives = 4};
	struct err err = {0};
	loop.yields = 3;
	source_add(&a, 'a');
	assert_int_equal(loop_turn(&loop, 0, &err), 0);
	assert_int_equal(a.slept, 0); /* it does not sleep */
	turn(NS_PER_MS);
	assert_int_equal(a.slept, 1);
	source_add(&late, 'l');
	assert_int_equal(loop_turn(&loop, INT64_MAX, &err), 0); /* in the last look */
	assert_string_equal(log_text, "l");
	assert_int_equal(late.slept, 1);
	loop_poll_del(&loop, &late.poll);
	loop_poll_del(&loop, &a.poll);
}

LOOP_TEST(an_event_while_yielding)
{
	struct source a = {.arrives = 2};
	struct err err = {0};
	loop.yields = 3;
	source_add(&a, 'a');
	assert_int_equal(loop_turn(&loop, INT64_MAX, &err), 0);
	assert_string_equal(log_text, "a");
	assert_int_equal(a.slept, 0);
	loop_poll_del(&loop, &a.poll);
}

/* Descriptors are heard in the same turn. */
LOOP_TEST(memory_and_descriptors)
{
	struct source a = {.events = 100};
	struct bell b = {0};
	for (loop.yields = 0; loop.yields < 5; loop.yields += 4) {
		source_add(&a, 'a');
		bell_add(&b, 'b', EPOLLIN);
		turn(NS_PER_SEC);
		loop_poll_del(&loop, &a.poll);
		loop_del(&loop, &b.watch);
		close(b.watch.fd);
	}
	assert_string_equal(log_text, "abab");
}

LOOP_TEST(a_source_removes_sources)
{
	for (int i = 0; i < 4; i++) { /* the last one that was added is asked first */
		struct source a = {0}, b = {0}, c = {0};
		source_add(&a, 'a');
		source_add(&b, 'b');
		source_add(&c, 'c');
		b.removes[0] = i & 1 ? &a : &b;
		b.removes[1] = i & 2 ? &c : NULL;
		turn(0);
		a.events = b.events = c.events = 1;
		log_len = 0;
		turn(0);
		turn(0);
		assert_int_equal(log_len, i & 2 ? 1 : 2);
		assert_int_equal(a.events, i & 1);
		assert_int_equal(b.events, !(i & 1));
		assert_int_equal(c.events, i >> 1);
		loop_poll_del(&loop, &a.poll);
		loop_poll_del(&loop, &a.poll);
		loop_poll_del(&loop, &b.poll);
		loop_poll_del(&loop, &c.poll);
		assert_null(loop.polls);
	}
}

int main(void)
{
	return unit_run(NULL, NULL);
}
