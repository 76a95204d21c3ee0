/* What --progress shows: the line at every width, the JSON, the rate. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "cmd/text/bar.h"
#include "cmd/text/progress_text.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "tests/unit/unit.h"

#define MIB (1024.0 * 1024)
#define GIB (1024 * MIB)

static struct progress_now running(double moved, double total)
{
	return (struct progress_now){.rank = 0,
	                             .phase = "run",
	                             .doing = "run",
	                             .moved = (uint64_t)moved,
	                             .total = (uint64_t)total,
	                             .slowest = -1};
}

static void shows(int width, const struct progress_now *now, double rate, const char *want)
{
	char line[BAR_MAX];

	assert_string_equal(progress_line(line, sizeof line, width, "allreduce", now, rate), want);
}

TEST(test_widths)
{
	struct progress_now now = running(1.2 * GIB, 2.8 * GIB);
	const double rate = 612 * MIB;
	now.slowest = 2;
	now.slowest_done = 0.389;
	shows(0, &now, rate,
	      "allreduce  42%  1.2 of 2.8 GiB  612 MiB/s  2.7 s left  run  slowest: rank 2 (38%)");
	shows(200, &now, rate,
	      "allreduce  [############..................]  42%  1.2 of 2.8 GiB  612 MiB/s  "
	      "2.7 s left  run  slowest: rank 2 (38%)");
	shows(100, &now, rate,
	      "allreduce  [#####.........]  42%  1.2 of 2.8 GiB  612 MiB/s  2.7 s left  "
	      "run  slowest: rank 2 (38%)");
	shows(80, &now, rate,
	      "[####......]  42%  1.2 of 2.8 GiB  612 MiB/s  2.7 s left  slowest: rank 2 (38%)");
	shows(60, &now, rate, "[#####........]  42%  1.2 of 2.8 GiB  612 MiB/s  2.7 s left");
	shows(40, &now, rate, "[###......]  42%  612 MiB/s  2.7 s left");
	shows(20, &now, rate, "42%  2.7 s left");
	shows(5, &now, rate, "42%");
}

/* Whatever is shown fits, with a column to spare so that no terminal wraps. */
TEST(test_fits)
{
	static const double rates[] = {-1, 0, 3, 999, 1023.7, 5e6, 9e17};
	static const double totals[] = {0, 1, 1023, 1024, 1e6, 1e12, 1.8e19};
	char line[BAR_MAX];
	for (int width = 6; width < 300; width++)
		for (size_t t = 0; t < LENGTH(totals); t++)
			for (size_t r = 0; r < LENGTH(rates); r++) {
				struct progress_now now = running(totals[t] / 3, totals[t]);
				now.slowest = 65535;
				now.slowest_done = 1;
				progress_line(line, sizeof line, width, "reduce-scatter", &now,
				              rates[r]);
				assert_true((int)strlen(line) < width);
			}
}

TEST(test_small_buffer)
{
	struct progress_now now = running(5, 10);
	for (size_t cap = 1; cap < 40; cap++) {
		char *line = malloc(cap); /* exactly, for the sanitizer */
		assert_non_null(line);
		progress_line(line, cap, 0, "allreduce", &now, 1);
		assert_true(strlen(line) < cap);
		free(line);
	}
}

TEST(test_unknown)
{
	struct progress_now now = running(0, 0);
	now.doing = "waiting for ranks";
	shows(80, &now, -1, "allreduce  waiting for ranks");
	shows(20, &now, -1, "waiting for ranks");
	now = running(300 * MIB, 0); /* the total is not known */
	shows(80, &now, 50 * MIB, "allreduce  300 MiB  50 MiB/s  run");
	now = running(0, 2 * GIB); /* nothing has come yet */
	shows(80, &now, -1, "allreduce  [..............................]  0%  0.0 of 2.0 GiB  run");
	now = running(2 * GIB, 2 * GIB);
	now.doing = "storing";
	shows(80, &now, 5 * MIB,
	      "allreduce  [########################]  100%  2.0 of 2.0 GiB  5.0 MiB/s  storing");
	now = running(3 * GIB, 2 * GIB); /* the total was an estimate */
	shows(60, &now, -1, "allreduce  [###################]  100%  3.0 of 2.0 GiB  run");
}

static void left(double seconds, const char *want)
{
	struct progress_now now = running(1e9, 1e9 + seconds * 1000);
	char line[BAR_MAX];
	progress_line(line, sizeof line, 0, "x", &now, 1000);
	const char *rate = strstr(line, "1000 B/s  ");
	assert_non_null(rate);
	rate += strlen("1000 B/s  ");
	assert_int_equal(strncmp(rate, want, strlen(want)), 0);
	assert_string_equal(rate + strlen(want), "  run");
}

TEST(test_times)
{
	left(0.04, "0.0 s left");
	left(2.64, "2.6 s left");
	left(9.94, "9.9 s left");
	left(9.96, "10 s left");
	left(59.5, "1 min 00 s left");
	left(200, "3 min 20 s left");
	left(3599.6, "1 h 00 min left");
	left(3900, "1 h 05 min left");
	left(359999, "99 h 59 min left");
	left(1e9, "over 99 h left");
}

static void amount(double bytes, const char *want)
{
	struct progress_now now = running(bytes, 0);
	char line[BAR_MAX], whole[BAR_MAX];
	progress_line(line, sizeof line, 0, "x", &now, -1);
	snprintf(whole, sizeof whole, "x  %s  run", want);
	assert_string_equal(line, whole);
}

TEST(test_amounts)
{
	amount(1, "1 B");
	amount(1023, "1023 B");
	amount(1024, "1.0 KiB");
	amount(1024 * 1023.9, "1.0 MiB");
	amount(99.9 * MIB, "99.9 MiB");
	amount(100 * MIB, "100 MiB");
	amount(1.8e19, "15.6 EiB");
}

/* Names of hosts come from other ranks: they are escaped, and cut by columns. */
TEST(test_names)
{
	struct joined joined = {
	        .here = 1, .size = 2, .by_host = true, .names = "\346\250\241\346\250\241\302\233"};
	struct progress_now now = {
	        .rank = 1, .phase = "join", .doing = "x", .slowest = -1, .joined = &joined};

	shows(40, &now, -1, "allreduce  1 of 2 joined: \346\250\241\346\250\241\\xc2\\x9b");
	shows(20, &now, -1, "1 of 2 joined: \346\250\241\346\250\241");
	shows(19, &now, -1, "1 of 2 joined: \346\250\241");
	json_t *object = progress_json(&now, -1);
	const char *names = NULL;
	assert_int_equal(
	        json_unpack(object, "{s:{s:{s:s}}}", "progress", "joined", "hosts", &names), 0);
	assert_string_equal(names, "\346\250\241\346\250\241\\xc2\\x9b");
	json_decref(object);
}

TEST(test_counts)
{
	struct progress_now now = running(4, 6);
	char line[BAR_MAX];

	now.counts = true;
	progress_line(line, sizeof line, 0, "check", &now, 2);
	assert_string_equal(line, "check  66%  4 of 6  1.0 s left  run");
	progress_line(line, sizeof line, 0, "check", &now, 0.25);
	assert_string_equal(line, "check  66%  4 of 6  8.0 s left  run");
	now = running(0, 0); /* it has not begun */
	now.counts = true;
	progress_line(line, sizeof line, 0, "check", &now, -1);
	assert_string_equal(line, "check  run");
}

static void json_is(const struct progress_now *now, double rate, const char *want)
{
	json_t *got = progress_json(now, rate), *expected = json_loads(want, 0, NULL);
	char *text = json_dumps(got, JSON_COMPACT);

	assert_non_null(expected);
	if (!json_equal(got, expected))
		fail_msg("%s instead of %s", text, want);
	free(text);
	json_decref(got);
	json_decref(expected);
}

TEST(test_json)
{
	struct progress_now now = {.rank = -1, .phase = "join", .doing = "x", .slowest = -1};
	json_is(&now, -1,
	        "{\"progress\":{\"rank\":null,\"phase\":\"join\",\"moved\":0,\"total\":null,"
	        "\"rate\":null,\"left\":null,\"slowest\":null}}");
	now = running(100, 300);
	now.rank = 3;
	now.slowest = 1;
	now.slowest_done = 0.25;
	json_is(&now, 50,
	        "{\"progress\":{\"rank\":3,\"phase\":\"run\",\"moved\":100,\"total\":300,"
	        "\"rate\":50.0,\"left\":4.0,\"slowest\":{\"rank\":1,\"done\":0.25}}}");
	now.moved = 300;
	json_is(&now, 50,
	        "{\"progress\":{\"rank\":3,\"phase\":\"run\",\"moved\":300,\"total\":300,"
	        "\"rate\":50.0,\"left\":0.0,\"slowest\":{\"rank\":1,\"done\":0.25}}}");
}

/* What is equal on all ranks is no work to come, and shown beside it. */
TEST(test_files)
{
	struct coll_progress files = {
	        .sent = 7, .received = 8, .compared = 4, .skipped = (uint64_t)(3 * GIB)};
	struct progress_now now = running(100 * MIB, 300 * MIB);
	files.pipeline.part[PIPELINE_READ].done = 6;
	files.pipeline.part[PIPELINE_WRITE].done = 9;
	files.pipeline.part[PIPELINE_STORE].done = 5;
	now.files = &files;
	now.files_left = 9;
	shows(0, &now, 100 * MIB,
	      "allreduce  33%  100 of 300 MiB  3.0 GiB skipped  100 MiB/s  9.0 s left  run");
	shows(60, &now, 100 * MIB, "[####.........]  33%  100 of 300 MiB  100 MiB/s  9.0 s left");
	now.moved = now.total = 300;
	json_is(&now, 50,
	        "{\"progress\":{\"rank\":0,\"phase\":\"run\",\"moved\":300,\"total\":300,"
	        "\"rate\":50.0,\"left\":0.0,\"slowest\":null,\"bytes\":{\"compared\":4,\"skipped\":"
	        "3221225472,"
	        "\"read\":6,\"sent\":7,\"received\":8,\"written\":9,\"stored\":5}}}");
	files.skipped = 0;
	shows(0, &now, -1, "allreduce  100%  300 of 300 B  run");
	now = (struct progress_now){
	        .doing = "connecting", .slowest = -1, .files = &files, .comparing = true};
	files.compared = 1 << 30;
	shows(0, &now, -1, "allreduce  1.0 GiB  comparing files");
}

/* The ranks are done when the slowest is. */
TEST(test_slowest)
{
	struct progress_now now = running(100 * MIB, 300 * MIB);
	now.slowest = 1;
	now.slowest_done = 0.25;
	now.slowest_left = 6;
	shows(0, &now, 100 * MIB,
	      "allreduce  33%  100 of 300 MiB  100 MiB/s  6.0 s left  run  slowest: rank 1 (25%)");
	now.slowest_left = 1; /* no faster than this rank */
	shows(0, &now, 100 * MIB,
	      "allreduce  33%  100 of 300 MiB  100 MiB/s  2.0 s left  run  slowest: rank 1 (25%)");
	now.moved = now.total;
	now.slowest_left = 6;
	shows(0, &now, 100 * MIB,
	      "allreduce  100%  300 of 300 MiB  100 MiB/s  6.0 s left  run  slowest: rank 1 (25%)");
}

TEST(test_meter_from_a_start)
{
	struct meter m = {0};
	meter_start(&m, 5 * NS_PER_SEC);
	assert_true(meter_rate(&m) < 0);
	meter_add(&m, 6 * NS_PER_SEC, 0); /* waiting counts */
	assert_float_equal(meter_rate(&m), 0, 0);
	meter_add(&m, 7 * NS_PER_SEC, 100);
	assert_true(meter_rate(&m) > 50 && meter_rate(&m) < 60);
	for (uint64_t i = 2; i < 50; i++)
		meter_add(&m, (int64_t)(6 + i) * NS_PER_SEC, i * 100);
	assert_float_equal(meter_rate(&m), 100, 1);
}

TEST(test_meter)
{
	struct meter m = {0};
	int64_t at = 5 * NS_PER_SEC;
	uint64_t moved = 0;
	for (int i = 0; i < 100; i++) /* waiting doesn't count */
		meter_add(&m, at += NS_PER_SEC, 0);
	assert_true(meter_rate(&m) < 0);
	meter_add(&m, at += NS_PER_SEC / 2, moved = 500);
	assert_float_equal(meter_rate(&m), 1000, 1e-6); /* known from the first sample on */
	for (int i = 0; i < 5; i++)
		meter_add(&m, at += NS_PER_SEC / 5, moved += 200);
	assert_float_equal(meter_rate(&m), 1000, 1e-6);
	meter_add(&m, at, moved); /* no time has gone by */
	assert_float_equal(meter_rate(&m), 1000, 1e-6);
	meter_add(&m, at += NS_PER_SEC, moved);
	assert_true(meter_rate(&m) > 400 && meter_rate(&m) < 900);
	for (int i = 0; i < 200; i++) /* the last seconds are what counts */
		meter_add(&m, at += NS_PER_SEC / 5, moved += 20);
	assert_float_equal(meter_rate(&m), 100, 10);
	meter_add(&m, at += NS_PER_SEC, 1); /* another file */
	assert_true(meter_rate(&m) < 0);
}

/* ---- the time left ---- */

#define TICK (NS_PER_SEC / 5)
#define RUN  305 /* ticks; a burst is the end */

static double constant(int tick)
{
	(void)tick;
	return 10 * MIB;
}

/* To a quarter, steadily. */
static double slowing(int tick)
{
	return 10 * MIB * (1 - 0.75 * tick / RUN);
}

/* A second of data, a second of waiting for the disk. */
static double bursty(int tick)
{
	return tick / 5 % 2 ? 0 : 10 * MIB;
}

/* Within a factor of two, from the third second on, until five seconds before the end. */
static void estimate_holds(double (*bytes)(int tick))
{
	const int64_t start = 1000 * NS_PER_SEC;
	struct meter m = {0};
	double moved = 0, total = 0;

	for (int i = 0; i < RUN; i++)
		total += bytes(i);
	meter_start(&m, start);
	for (int i = 0; i < RUN - 25; i++) {
		moved += bytes(i);
		meter_add(&m, start + (i + 1) * TICK, (uint64_t)moved);
		const struct progress_now now = running(moved, total);
		json_t *shown = progress_json(&now, meter_rate(&m));
		const double left = json_real_value(
		        json_object_get(json_object_get(shown, "progress"), "left"));
		const double want = (RUN - 1 - i) * ((double)TICK / NS_PER_SEC);
		json_decref(shown);
		if (i >= 15 && (left < want / 2 || left > want * 2))
			fail_msg("tick %d: %f seconds left, %f shown", i, want, left);
	}
}

TEST(test_time_left)
{
	estimate_holds(constant);
	estimate_holds(slowing);
	estimate_holds(bursty);
}

/* A job of @total bytes over a network and to a disk of so many bytes a tick. A call that waits for
 * the disk does so once 128 MiB are behind, and at the end. */
static void files_estimate_holds(double total, double net, double disk)
{
	const double most = 128 * MIB;
	struct coll_progress f = {0};
	struct pipeline_part *part = f.pipeline.part;
	struct files_meters m = {0};
	double written[2000] = {0}, stored[2000] = {0}, waited[2000] = {0};
	int end = 0;

	for (; stored[end] < total; end++) {
		double next = fmin(total, written[end] + net);
		assert_true(end + 2 < 2000);
		stored[end + 1] = fmin(written[end], stored[end] + disk);
		waited[end + 1] = waited[end];
		if (written[end] >= total || next - stored[end + 1] > most) /* the disk is slower */
			waited[end + 1] += stored[end + 1] - stored[end];
		written[end + 1] = fmin(next, stored[end + 1] + most);
	}
	pipeline_weigh(&f.pipeline, (const double[PIPELINE_STAGES]){0.3, 0.2, 0.5, 1});
	for (int k = 0; k < PIPELINE_STAGES; k++)
		part[k].total = (uint64_t)total;
	meter_start(&m.early, NS_PER_SEC);
	for (int i = 1; i < end; i++) {
		part[PIPELINE_READ].done = part[PIPELINE_MOVE].done = part[PIPELINE_WRITE].done =
		        (uint64_t)written[i];
		/* Whether a chunk is on disk is known once later ones wait for it. */
		part[PIPELINE_STORE].done =
		        (uint64_t)(written[i] < total ? fmax(written[i] - most, 0) : stored[i]);
		f.waited = (uint64_t)waited[i];
		f.waited_ns = (uint64_t)(waited[i] / disk * (double)TICK);
		const double left = files_left(&m, &f, NS_PER_SEC + i * TICK);
		const double want = (end - i) * ((double)TICK / NS_PER_SEC);
		if (3 * i >= end && want > 1 && (left < want / 1.5 || left > want * 1.5))
			fail_msg("tick %d of %d: %f seconds left, %f estimated", i, end, want,
			         left);
	}
}

TEST(test_time_left_of_files)
{
	files_estimate_holds(1 * GIB, 4 * MIB, 100 * MIB); /* the network is the limit */
	files_estimate_holds(1 * GIB, 4 * MIB, 4.1 * MIB);
	files_estimate_holds(2 * GIB, 100 * MIB, 4 * MIB); /* the disk is the limit */
	files_estimate_holds(2 * GIB, 6 * MIB, 4 * MIB);
	files_estimate_holds(100 * MIB, 100 * MIB, 1 * MIB); /* all waits for the disk at the end */
}

/* Once nothing moves any more, what is still written counts by its own speed. */
TEST(test_time_left_of_late_writes)
{
	struct coll_progress f = {0};
	struct pipeline_part *part = f.pipeline.part;
	struct files_meters m = {0};

	pipeline_weigh(&f.pipeline, (const double[PIPELINE_STAGES]){0.3, 25, 0.5, 1});
	part[PIPELINE_READ].total = part[PIPELINE_MOVE].total = 100;
	part[PIPELINE_WRITE].total = 500;
	meter_start(&m.early, NS_PER_SEC);
	for (uint64_t i = 1; i <= 100; i++) {
		part[PIPELINE_READ].done = part[PIPELINE_MOVE].done = i;
		files_left(&m, &f, NS_PER_SEC + (int64_t)i * TICK);
	}
	for (uint64_t i = 1; i < 99; i++) { /* 100 ticks */
		part[PIPELINE_WRITE].done = 5 * i;
		const double left = files_left(&m, &f, NS_PER_SEC + (int64_t)(100 + i) * TICK);
		assert_float_equal(left, (double)(100 - i) * TICK / NS_PER_SEC, 0.1);
	}
}

/* ---- a rank of run ---- */

static _Atomic bool cleared;

/* As run, when it has read all bars: it clears the last, and says so. */
static void *launch(void *ctx)
{
	const int *fds = ctx;
	char text[256] = "";
	size_t len = 0;

	while (!strstr(text, "\n" BAR_TELL "\n")) {
		const ssize_t n = read(fds[0], text + len, sizeof text - 1 - len);
		if (n <= 0)
			return NULL;
		len += (size_t)n;
		text[len] = '\0';
	}
	cleared = true;
	event_signal(fds[2]);
	return NULL;
}

TEST(test_launched_waits)
{
	const int own = dup(STDERR_FILENO);
	int fds[3];
	pthread_t thread;

	assert_int_equal(pipe(fds), 0);
	fds[2] = eventfd(0, EFD_NONBLOCK);
	assert_true(dup2(fds[1], STDERR_FILENO) >= 0);
	bar_launched_far(80, fds[2]);
	assert_int_equal(pthread_create(&thread, NULL, launch, fds), 0);
	bar_clear(); /* there is none: nobody answers */
	bar_draw("a bar");
	bar_clear();
	const bool was = cleared;
	dup2(own, STDERR_FILENO);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(was);
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	close(own);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
