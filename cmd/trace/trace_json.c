#include "cmd/trace/trace_json.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

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

static long long thread_of(const struct trace_event *e)
{
	const int first = kinds[e->kind].first;

	if (trace_is_message(e))
		return first + 2 * ((long long)e->peer * TRACE_STREAMS + e->stream % TRACE_STREAMS);
	return first == THREAD_STAGES ? first : first + e->stream % TRACE_STREAMS;
}

/* A line of the file. A trace has many thousands, while all ranks wait: fprintf would take most of
 * that time. */
struct line {
	char text[512];
	size_t n;
};

static void put(struct line *l, const char *text)
{
	const size_t n = strlen(text), room = sizeof l->text - l->n;

	memcpy(l->text + l->n, text, n < room ? n : room);
	l->n += n < room ? n : room;
}

static void put_number(struct line *l, const char *before, uint64_t x)
{
	char digits[24], *p = digits + sizeof digits - 1;

	*p = '\0';
	do
		*--p = (char)('0' + x % 10);
	while (x /= 10);
	put(l, before);
	put(l, p);
}

/* Nanoseconds as microseconds. */
static void put_us(struct line *l, const char *before, int64_t ns)
{
	const unsigned part = (unsigned)(ns % 1000);
	const char fraction[] = {'.', (char)('0' + part / 100), (char)('0' + part / 10 % 10),
	                         (char)('0' + part % 10), '\0'};

	put_number(l, before, (uint64_t)(ns / 1000));
	put(l, fraction);
}

/* @format with its numbers, "%d" each. */
static void put_name(struct line *l, const char *format, int a, int b)
{
	const int numbers[] = {a, b};

	for (int i = 0; *format && l->n < sizeof l->text; format++) {
		if (*format != '%') {
			l->text[l->n++] = *format;
			continue;
		}
		put_number(l, "", (uint64_t)numbers[i++ & 1]);
		format++;
	}
}

static void end_line(struct line *l, FILE *f)
{
	fwrite(l->text, 1, l->n, f);
}

/* ---- names of processes and threads ---- */

static void put_meta(FILE *f, const char *what, int rank, long long thread)
{
	fprintf(f, ",\n{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%lld,\"args\":{", what,
	        rank, thread);
}

/* @host has no control characters, but it may have any others. One that is not UTF-8 is left out.
 */
static void put_process(FILE *f, int rank, const char *host)
{
	json_t *named = *host ? json_sprintf("rank %d (%s)", rank, host) : NULL;
	json_t *name = named ? named : json_sprintf("rank %d", rank);
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
		struct line l = {.n = 0};
		if (i && thread_of(list[i - 1]) == thread)
			continue;
		put_name(&l, kinds[list[i]->kind].thread, list[i]->stream, list[i]->peer);
		put_meta(f, "thread_name", t->rank, thread);
		fprintf(f, "\"name\":\"%.*s%s\"}}", (int)l.n, l.text,
		        trace_is_message(list[i]) && list[i]->memory ? " (memory)" : "");
		put_meta(f, "thread_sort_index", t->rank, thread);
		fprintf(f, "\"sort_index\":%lld}}", thread);
	}
	free(list);
}

/* ---- events ---- */

static void put_slice(FILE *f, int rank, const struct trace_event *e)
{
	struct line l = {.n = 0};
	const char *comma = "";

	put(&l, ",\n{\"ph\":\"X\",\"name\":\"");
	put_name(&l, kinds[e->kind].name, e->peer, 0);
	put_number(&l, "\",\"pid\":", (uint64_t)rank);
	put_number(&l, ",\"tid\":", (uint64_t)thread_of(e));
	put_us(&l, ",\"ts\":", e->start);
	put_us(&l, ",\"dur\":", e->end - e->start);
	put(&l, ",\"args\":{");
	if (e->window != TRACE_NONE) {
		put_number(&l, "\"window\":", e->window);
		comma = ",";
	}
	if (e->step != TRACE_NONE) {
		put(&l, comma);
		put_number(&l, "\"step\":", e->step);
		comma = ",";
	}
	if (e->bytes) {
		put(&l, comma);
		put_number(&l, "\"bytes\":", e->bytes);
		comma = ",";
	}
	if (e->peer >= 0) {
		put(&l, comma);
		put_number(&l, "\"peer\":", (uint64_t)e->peer);
	}
	put(&l, "}}");
	end_line(&l, f);
}

/* An end of the arrow of a message: at the beginning of the send, and at the end of the receive,
 * inside its slice. */
static void put_arrow(FILE *f, int rank, const struct trace_event *e)
{
	const bool sends = e->kind == TRACE_SEND;
	struct line l = {.n = 0};

	put(&l, sends ? ",\n{\"ph\":\"s\"" : ",\n{\"ph\":\"f\",\"bp\":\"e\"");
	put_number(&l, ",\"cat\":\"message\",\"name\":\"message\",\"id\":\"",
	           (uint64_t)(sends ? rank : e->peer));
	put_number(&l, "-", (uint64_t)(sends ? e->peer : rank));
	put_number(&l, "-", e->stream);
	put_number(&l, "-", e->number);
	put_number(&l, "\",\"pid\":", (uint64_t)rank);
	put_number(&l, ",\"tid\":", (uint64_t)thread_of(e));
	put_us(&l, ",\"ts\":", sends || e->end == e->start ? e->start : e->end - 1);
	put(&l, "}");
	end_line(&l, f);
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
		if (trace_is_message(&t->events[i]))
			put_arrow(f, t->rank, &t->events[i]);
	}
}

void trace_json_end(FILE *f, const char *command, const struct coll_result *r, const double *error,
                    uint64_t missed)
{
	fprintf(f,
	        "\n],\"otherData\":{\"command\":\"%s\",\"version\":\"" COLLCTL_VERSION
	        "\",\"algorithm\":\"%s\",\"ranks\":%d,\"events_not_kept\":%" PRIu64
	        ",\"clock_error_us\":[",
	        command, r->algorithm ? r->algorithm->name : "", r->size, missed);
	for (int i = 0; i < r->size; i++)
		fprintf(f, "%s%.3f", i ? "," : "", error[i] * 1e6);
	fputs("]}}\n", f);
}
