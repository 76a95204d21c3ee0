/* Traces: the record of events, their bytes, and the parts that ranks send; offsets of clocks. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lib/coll/tracing.h"
#include "tests/unit/unit.h"

/* ---- the record ---- */

static void *add_many(void *arg)
{
	struct trace *t = arg;
	for (uint32_t i = 0; i < 1000; i++)
		trace_add(t,
		          &(struct trace_event){.start = i, .end = i + 1, .number = i, .peer = 7});
	return NULL;
}

TEST(threads_add_events_and_the_rest_is_counted)
{
	pthread_t threads[4];
	struct trace t;
	struct err err = {0};
	assert_int_equal(trace_init(&t, 2500, &err), 0);
	assert_int_equal(trace_kept(&t), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, add_many, &t), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(trace_kept(&t), 2500);
	assert_int_equal(atomic_load(&t.added), 4000);
	for (size_t i = 0; i < 2500; i++) {
		assert_int_equal(t.events[i].peer, 7);
		assert_int_equal(t.events[i].end, t.events[i].start + 1);
		assert_int_equal(t.events[i].number, t.events[i].start);
	}
	trace_release(&t);
	trace_release(&t);
}

TEST(last_events_fit_into_a_full_record)
{
	const struct trace_event last[2] = {{.number = 77}, {.number = 78}};
	for (size_t n = 0; n <= 9; n++) {
		struct trace t;
		struct err err = {0};
		assert_int_equal(trace_init(&t, 5, &err), 0);
		for (uint32_t i = 0; i < n; i++)
			trace_add(&t, &(struct trace_event){.number = i});
		trace_add_last(&t, last, 2);
		const size_t kept = trace_kept(&t);
		assert_int_equal(kept, n + 2 < 5 ? n + 2 : 5);
		assert_int_equal(atomic_load(&t.added) - kept, n + 2 - kept);
		for (uint32_t i = 0; i < kept; i++)
			assert_int_equal(t.events[i].number,
			                 i + 2 < kept ? i : 77 + i + 2 - (uint32_t)kept);
		trace_release(&t);
	}
}

TEST(events_come_back)
{
	const struct trace_event e = {.start = 5,
	                              .end = INT64_MAX,
	                              .bytes = 1ull << 50,
	                              .window = TRACE_NONE,
	                              .step = 77,
	                              .number = 1u << 31,
	                              .peer = 3,
	                              .stream = 63,
	                              .kind = TRACE_ADD,
	                              .memory = 1};
	struct trace_event back;
	struct buf b;
	buf_init(&b, 100);
	trace_event_put(&b, &e);
	assert_int_equal(b.len, TRACE_EVENT_BYTES);
	for (size_t n = 0; n <= b.len; n++) {
		struct view v = view_of(b.data, n);
		assert_int_equal(trace_event_get(&back, &v, 4), n == b.len ? 0 : -1);
	}
	assert_true(back.start == e.start && back.end == e.end && back.bytes == e.bytes);
	assert_true(back.window == e.window && back.step == e.step && back.number == e.number);
	assert_true(back.peer == 3 && back.stream == 63 && back.kind == TRACE_ADD && back.memory);
	struct view v = view_of(b.data, b.len);
	assert_int_equal(trace_event_get(&back, &v, 3), -1); /* no such rank */
	buf_release(&b);
}

TEST(malformed_events_are_refused)
{
	const struct trace_event bad[] = {
	        {.start = 2, .end = 1}, {.start = -1, .end = 1},
	        {.kind = TRACE_KINDS},  {.peer = -2},
	        {.memory = 2},          {.kind = TRACE_SEND, .peer = -1},
	        {.stream = 64},         {.kind = TRACE_WAIT_RECV, .peer = -1},
	};
	for (size_t i = 0; i < LENGTH(bad); i++) {
		struct trace_event back;
		struct buf b;
		buf_init(&b, 100);
		trace_event_put(&b, &bad[i]);
		struct view v = view_of(b.data, b.len);
		assert_int_equal(trace_event_get(&back, &v, 4), -1);
		buf_release(&b);
	}
}

/* ---- parts ---- */

TEST(parts_have_whole_events)
{
	struct trace_part p;
	struct buf b;
	buf_init(&b, 1000);
	buf_put_u64(&b, 40);
	buf_put_u64(&b, 1ull << 40);
	buf_put_u8(&b, 1);
	for (int i = 0; i < 2; i++)
		trace_event_put(&b, &(struct trace_event){.end = i});
	for (size_t n = 0; n <= b.len; n++) {
		struct err err = {0};
		const bool whole = n >= 17 && (n - 17) % TRACE_EVENT_BYTES == 0;
		assert_int_equal(trace_part_decode(&p, view_of(b.data, n), &err), whole ? 0 : -1);
		assert_int_equal(err.code, whole ? 0 : ERR_INTEGRITY);
	}
	assert_true(p.error == 40 && p.missed == 1ull << 40 && p.more);
	assert_int_equal(view_left(&p.events), 2 * TRACE_EVENT_BYTES);
	buf_release(&b);
	assert_int_equal(tracing_capacity(1), 262144);
	assert_int_equal(tracing_capacity(16), 262144);
	assert_int_equal(tracing_capacity(65536), 64);
}

/* ---- clocks ---- */

TEST(the_shortest_exchange_counts)
{
	struct clock_offset best = {.error = -1};
	clock_offset_take(&best, 1000, 5100, 1400);
	assert_true(best.at == 1400 && best.error == 200 && best.offset == 5100 - 1200);
	clock_offset_take(&best, 2000, 6900, 3000); /* longer */
	assert_true(best.at == 1400);
	clock_offset_take(&best, 4000, 8050, 4100);
	assert_true(best.at == 4100 && best.error == 50 && best.offset == 8050 - 4050);
	clock_offset_take(&best, 5000, 3000, 5000); /* theirs is behind */
	assert_true(best.error == 0 && best.offset == -2000);
}

TEST(clocks_drift_between_two_measurements)
{
	const struct clock_offset first = {.at = 1000000, .offset = 500},
	                          last = {.at = 3000000, .offset = 700};
	assert_true(clock_offset_apply(&first, &last, 1000000) == 1000500);
	assert_true(clock_offset_apply(&first, &last, 2000000) == 2000600);
	assert_true(clock_offset_apply(&first, &last, 3000000) == 3000700);
	/* Before and after them, what is known is the offset there. */
	assert_true(clock_offset_apply(&first, &last, 0) == 500);
	assert_true(clock_offset_apply(&first, &last, 9000000) == 9000700);
	assert_true(clock_offset_apply(&last, &last, 5) == 705); /* one measurement */
}

TEST(errors_are_not_drift)
{
	const struct clock_offset rough = {.at = 1000, .offset = 40000, .error = 50000},
	                          fine = {.at = 4000, .offset = -500, .error = 1000};
	for (int64_t t = 0; t < 6000; t += 500) {
		assert_true(clock_offset_apply(&rough, &fine, t) == t - 500);
		assert_true(clock_offset_apply(&fine, &rough, t) == t - 500);
	}
}

int main(void)
{
	return unit_run(NULL, NULL);
}
