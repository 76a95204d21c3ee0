/* --trace and --trace-svg: the text and the picture of what ranks may send. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/draw/spacetime_svg.h"
#include "cmd/draw/trace_svg.h"
#include "cmd/trace/trace_json.h"
#include "tests/unit/unit.h"

/* ---- the text ---- */

/* The events of a file with the part @t. */
static json_t *written(const struct coll_traced *t, const struct coll_result *r)
{
	const double error[] = {0, 1.5e-6};
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	json_error_t why;
	assert_non_null(f);
	trace_json_begin(f);
	trace_json_add(f, t);
	trace_json_end(f, "allreduce", r, error, 7);
	assert_int_equal(fclose(f), 0);
	json_t *all = json_loads(text, JSON_REJECT_DUPLICATES, &why);
	if (!all)
		fail_msg("%s: %s", why.text, text);
	free(text);
	return all;
}

static const json_t *event(const json_t *all, const char *name)
{
	const json_t *e;
	size_t i;
	json_array_foreach(json_object_get(all, "traceEvents"), i,
	                   e) if (strcmp(json_string_value(json_object_get(e, "name")), name) ==
	                          0) return e;
	fail_msg("no event %s", name);
	return NULL;
}

static double number(const json_t *e, const char *key)
{
	return json_number_value(json_object_get(e, key));
}

TEST(any_host_and_any_event_is_json)
{
	static const char *const hosts[] = {"a", "\"},{\\", "gr\303\274n", "\377\300", "</script>"};
	const struct trace_event events[] = {
	        {.start = 1001,
	         .end = 3000,
	         .bytes = 5,
	         .window = 2,
	         .step = 3,
	         .number = 4,
	         .peer = 0,
	         .kind = TRACE_SEND},
	        {.start = INT64_MAX,
	         .end = INT64_MAX,
	         .bytes = INT64_MAX, /* more are no integer of jansson */
	         .window = UINT32_MAX - 1,
	         .step = UINT32_MAX - 1,
	         .number = UINT32_MAX,
	         .peer = 0,
	         .stream = TRACE_STREAMS - 1,
	         .kind = TRACE_ADD},
	        {.window = TRACE_NONE, .step = TRACE_NONE, .peer = -1, .kind = TRACE_WAIT_RECV},
	};
	const struct coll_result r = {.size = 2};
	for (size_t i = 0; i < LENGTH(hosts); i++) {
		const struct coll_traced t = {.rank = 1,
		                              .size = 2,
		                              .host = hosts[i],
		                              .events = events,
		                              .n = 1,
		                              .last = true};
		json_t *all = written(&t, &r);
		const json_t *e = event(all, "send to rank 0");
		assert_true(number(e, "ts") == 1.001 && number(e, "dur") == 1.999);
		assert_true(number(json_object_get(e, "args"), "window") == 2);
		const char *name = json_string_value(json_object_get(
		        json_object_get(event(all, "process_name"), "args"), "name"));
		assert_non_null(strstr(name, "rank 1"));
		e = json_object_get(all, "otherData");
		assert_true(number(e, "events_not_kept") == 7 && number(e, "ranks") == 2);
		assert_true(json_number_value(json_array_get(json_object_get(e, "clock_error_us"),
		                                             1)) == 1.5);
		json_decref(all);
	}
	const struct coll_traced all = {
	        .rank = 1, .size = 2, .host = "", .events = events, .n = LENGTH(events)};
	json_decref(written(&all, &r));
}

/* ---- the picture ---- */

/* Rank 0 sends @n messages to rank 1 in each of @windows windows. */
static char *drawn(uint32_t windows, uint32_t n, int size)
{
	struct trace_picture p = {0};
	struct trace_event *sends = calloc(n, sizeof *sends);
	size_t len;
	assert_non_null(sends);
	for (uint32_t w = 0; w < windows; w++) {
		struct coll_traced t = {.size = size, .host = "", .events = sends, .n = n};
		for (uint32_t i = 0; i < n; i++)
			sends[i] = (struct trace_event){.start = 1000 + w * n + i,
			                                .end = 1001 + w * n + i,
			                                .bytes = 10,
			                                .window = w,
			                                .number = w * n + i,
			                                .peer = 1,
			                                .kind = TRACE_SEND};
		trace_picture_add(&p, &t);
		t.rank = 1;
		for (uint32_t i = 0; i < n; i++) {
			sends[i].peer = 0;
			sends[i].kind = TRACE_RECV;
		}
		trace_picture_add(&p, &t);
	}
	char *svg = trace_picture_draw(&p, "title", size, NULL, &len);
	assert_non_null(svg);
	assert_int_equal(strlen(svg), len);
	trace_picture_release(&p);
	free(sends);
	return svg;
}

TEST(a_picture_has_the_windows_that_fit)
{
	char *few = drawn(4, 100, 2);
	assert_null(strstr(few, "windows 0 to"));
	assert_non_null(strstr(few, "<title>rank 0 to rank 1: 10 bytes"));
	free(few);
	char *many = drawn(8, SPACETIME_MESSAGES / 4, 2);
	assert_non_null(strstr(many, "windows 0 to 1 of 8"));
	assert_null(strstr(many, "too many"));
	free(many);
}

TEST(one_window_of_too_many_messages_is_a_map)
{
	char *svg = drawn(1, SPACETIME_MESSAGES + 1, 2);
	assert_non_null(strstr(svg, "the messages are too many to draw one by one"));
	assert_non_null(strstr(svg, "row: from rank, column: to rank"));
	free(svg);
	svg = drawn(1, 3, 65);
	assert_null(strstr(svg, "too many"));
	assert_non_null(strstr(svg, "row: from rank, column: to rank"));
	free(svg);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
