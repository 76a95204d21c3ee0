#include "cmd/trace_json.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>

#include "lib/base/clock.h"
#include "lib/base/version.h"

/* The threads of a rank's process, in the order in which a viewer shows them. */

enum {
	THREAD_STAGES = 1,
	THREAD_WAITS = 100,
	THREAD_WINDOWS = 200,
	THREAD_READS = 300,
	THREAD_WRITES = 400,
	THREAD_LOCAL = 500,
	THREAD_LANES = 1000, /* + (peer * TRACE_STREAMS + stream) * 2 + receives */
};

static const struct {
	const char *name;   /* of the event; "%d": the peer */
	const char *thread; /* "%d": the stream */
	int first;
} kinds[TRACE_KINDS] = {
        [TRACE_JOIN] = {"join", "stages", THREAD_STAGES},
        [TRACE_CONNECT] = {"connect", "stages", THREAD_STAGES},
        [TRACE_RUN] = {"run", "stages", THREAD_STAGES},
        [TRACE_SEAL] = {"complete the output", "stages", THREAD_STAGES},
        [TRACE_WINDOW] = {"window", "stream %d: windows", THREAD_WINDOWS},
        [TRACE_SEND] = {"send to rank %d", "stream %d: to rank %d", THREAD_LANES},
        [TRACE_RECV] = {"receive from rank %d", "stream %d: from rank %d", THREAD_LANES + 1},
        [TRACE_ADD] = {"receive from rank %d and add", "stream %d: from rank %d", THREAD_LANES + 1},
        [TRACE_COPY] = {"copy", "stream %d: local steps", THREAD_LOCAL},
        [TRACE_REDUCE] = {"add", "stream %d: local steps", THREAD_LOCAL},
        [TRACE_READ] = {"read", "stream %d: read the inputs", THREAD_READS},
        [TRACE_WRITE] = {"write", "stream %d: write the output", THREAD_WRITES},
        [TRACE_WAIT_RECV] = {"wait for data of rank %d", "thread %d: waits", THREAD_WAITS},
        [TRACE_WAIT_SEND] = {"wait until rank %d takes data", "thread %d: waits", THREAD_WAITS},
        [TRACE_WAIT_READ] = {"wait for an input", "thread %d: waits", THREAD_WAITS},
        [TRACE_WAIT_WRITE] = {"wait for the output", "thread %d: waits", THREAD_WAITS},
        [TRACE_WAIT_DEVICE] = {"wait for a device", "thread %d: waits", THREAD_WAITS},
};

static bool is_message(const struct trace_event *e)
{
	return e->kind == TRACE_SEND || e->kind == TRACE_RECV || e->kind == TRACE_ADD;
}

static long long thread_of(const struct trace_event *e)
{
	const int first = kinds[e->kind].first;

	if (is_message(e))
		return first + 2 * ((long long)e->peer * TRACE_STREAMS + e->stream % TRACE_STREAMS);
	return first == THREAD_STAGES ? first : first + e->stream % TRACE_STREAMS;
}

/* Nanoseconds as microseconds. */
static void put_us(FILE *f, const char *key, int64_t ns)
{
	fprintf(f, ",\"%s\":%" PRId64 ".%03d", key, ns / 1000, (int)(ns % 1000));
}

/* The formats of the table take at most two numbers. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static void put_name(FILE *f, const char *format, int a, int b)
{
	fprintf(f, format, a, b);
}
#pragma GCC diagnostic pop

/* ---- names of processes and threads ---- */

static void put_meta(FILE *f, const char *what, int rank, long long thread)
{
	fprintf(f, ",\n{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%lld,\"args\":{", what,
	        rank, thread);
}

/* @host has no control characters, but it may have any others. */
static void put_process(FILE *f, int rank, const char *host)
{
	json_t *name = json_sprintf(*host ? "rank %d (%s)" : "rank %d", rank, host);
	char *text = name ? json_dumps(name, JSON_ENCODE_ANY | JSON_ENSURE_ASCII) : NULL;

	put_meta(f, "process_name", rank, 0);
	fprintf(f, "\"name\":%s}}", text ? text : "\"\"");
	put_meta(f, "process_sort_index", rank, 0);
	fprintf(f, "\"sort_index\":%d}}", rank);
	free(text);
	json_decref(name);
}

static int by_thread(const void *a, const void *b)
{
	const long long x = thread_of(*(const struct trace_event *const *)a),
	                y = thread_of(*(const struct trace_event *const *)b);
	return (x > y) - (x < y);
}

/* Name the threads of these events. A viewer takes a name twice. */
static void put_threads(FILE *f, const struct coll_traced *t)
{
	const struct trace_event **list = calloc(t->n + 1, sizeof *list);

	for (size_t i = 0; list && i < t->n; i++)
		list[i] = &t->events[i];
	if (list)
		qsort(list, t->n, sizeof *list, by_thread);
	for (size_t i = 0; list && i < t->n; i++) {
		const long long thread = thread_of(list[i]);
		if (i && thread_of(list[i - 1]) == thread)
			continue;
		put_meta(f, "thread_name", t->rank, thread);
		fputs("\"name\":\"", f);
		put_name(f, kinds[list[i]->kind].thread, list[i]->stream, list[i]->peer);
		fprintf(f, "%s\"}}", is_message(list[i]) && list[i]->memory ? " (memory)" : "");
		put_meta(f, "thread_sort_index", t->rank, thread);
		fprintf(f, "\"sort_index\":%lld}}", thread);
	}
	free(list);
}

/* ---- events ---- */

static void put_slice(FILE *f, int rank, const struct trace_event *e)
{
	const char *comma = "";

	fputs(",\n{\"ph\":\"X\",\"name\":\"", f);
	put_name(f, kinds[e->kind].name, e->peer, 0);
	fprintf(f, "\",\"pid\":%d,\"tid\":%lld", rank, thread_of(e));
	put_us(f, "ts", e->start);
	put_us(f, "dur", e->end - e->start);
	fputs(",\"args\":{", f);
	if (e->window != TRACE_NONE) {
		fprintf(f, "\"window\":%" PRIu32, e->window);
		comma = ",";
	}
	if (e->step != TRACE_NONE) {
		fprintf(f, "%s\"step\":%" PRIu32, comma, e->step);
		comma = ",";
	}
	if (e->bytes) {
		fprintf(f, "%s\"bytes\":%" PRIu64, comma, e->bytes);
		comma = ",";
	}
	if (e->peer >= 0)
		fprintf(f, "%s\"peer\":%d", comma, e->peer);
	fputs("}}", f);
}

/* An end of the arrow of a message: at the beginning of the send, and at the end of the receive,
 * inside its slice. */
static void put_arrow(FILE *f, int rank, const struct trace_event *e)
{
	const bool sends = e->kind == TRACE_SEND;

	fprintf(f,
	        ",\n{\"ph\":\"%s\",\"cat\":\"message\",\"name\":\"message\",\"id\":\"%d-%d-%d-"
	        "%" PRIu32 "\",\"pid\":%d,\"tid\":%lld",
	        sends ? "s" : "f\",\"bp\":\"e", sends ? rank : e->peer, sends ? e->peer : rank,
	        e->stream, e->number, rank, thread_of(e));
	put_us(f, "ts", sends || e->end == e->start ? e->start : e->end - 1);
	fputc('}', f);
}

void trace_json_begin(FILE *f)
{
	fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
	      "{\"ph\":\"M\",\"name\":\"trace_config\",\"pid\":0,\"args\":{}}",
	      f);
}

void trace_json_add(FILE *f, const struct coll_traced *t)
{
	put_process(f, t->rank, t->host);
	put_threads(f, t);
	for (size_t i = 0; i < t->n; i++) {
		put_slice(f, t->rank, &t->events[i]);
		if (is_message(&t->events[i]))
			put_arrow(f, t->rank, &t->events[i]);
	}
}

void trace_json_end(FILE *f, const char *command, int size, const double *error, uint64_t missed)
{
	fprintf(f,
	        "\n],\"otherData\":{\"command\":\"%s\",\"version\":\"" COLLCTL_VERSION
	        "\",\"ranks\":%d,\"events_not_kept\":%" PRIu64 ",\"clock_error_us\":[",
	        command, size, missed);
	for (int r = 0; r < size; r++)
		fprintf(f, "%s%.3f", r ? "," : "", error[r] * 1e6);
	fputs("]}}\n", f);
}
