#include "lib/exec/trace.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/fields.h"

int trace_init(struct trace *t, size_t cap, struct err *err)
{
	*t = (struct trace){.cap = cap};
	t->events = err_calloc(cap, sizeof *t->events, "the trace", err);
	return t->events ? 0 : -1;
}

void trace_release(struct trace *t)
{
	free(t->events);
	*t = (struct trace){0};
}

void trace_add(struct trace *t, const struct trace_event *e)
{
	size_t k = atomic_fetch_add_explicit(&t->added, 1, memory_order_relaxed);
	if (k < t->cap)
		t->events[k] = *e;
}

void trace_clear(struct trace *t)
{
	atomic_store(&t->added, 0);
}

void trace_add_last(struct trace *t, const struct trace_event *e, size_t n)
{
	const size_t kept = trace_kept(t), at = kept < t->cap - n ? kept : t->cap - n;
	memcpy(t->events + at, e, n * sizeof *e);
	atomic_fetch_add(&t->added, n);
}

size_t trace_kept(const struct trace *t)
{
	size_t n = atomic_load_explicit(&t->added, memory_order_acquire);
	return n < t->cap ? n : t->cap;
}

/* clang-format off */
MESSAGE(trace_event, "ROUND",
	FIELD(U64, trace_event, start, .most = INT64_MAX),
	FIELD(U64, trace_event, end, .most = INT64_MAX),
	FIELD(U64, trace_event, bytes),
	FIELD(U32, trace_event, window),
	FIELD(U32, trace_event, step),
	FIELD(U32, trace_event, number),
	FIELD(RANK_OR_NONE, trace_event, peer),
	FIELD(U16, trace_event, stream, .most = TRACE_STREAMS - 1),
	FIELD(U8, trace_event, kind, .most = TRACE_KINDS - 1),
	FIELD(BOOL, trace_event, memory));
/* clang-format on */

void trace_event_put(struct buf *out, const struct trace_event *e)
{
	message_put(&trace_event_message, e, out);
}

int trace_event_get(struct trace_event *e, struct view *v, int size)
{
	if (message_get(&trace_event_message, e, v, NULL) < 0)
		return -1;
	return e->end < e->start || e->peer >= size || (e->peer < 0 && trace_has_peer(e)) ? -1 : 0;
}
