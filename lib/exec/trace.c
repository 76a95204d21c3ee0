#include "lib/exec/trace.h"

#include <stdlib.h>
#include <string.h>

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

void trace_event_put(struct buf *out, const struct trace_event *e)
{
	buf_put_u64(out, (uint64_t)e->start);
	buf_put_u64(out, (uint64_t)e->end);
	buf_put_u64(out, e->bytes);
	buf_put_u32(out, e->window);
	buf_put_u32(out, e->step);
	buf_put_u32(out, e->number);
	buf_put_u32(out, (uint32_t)e->peer);
	buf_put_u16(out, e->stream);
	buf_put_u8(out, e->kind);
	buf_put_u8(out, e->memory);
}

int trace_event_get(struct trace_event *e, struct view *v, int size)
{
	e->start = (int64_t)view_u64(v);
	e->end = (int64_t)view_u64(v);
	e->bytes = view_u64(v);
	e->window = view_u32(v);
	e->step = view_u32(v);
	e->number = view_u32(v);
	e->peer = (int32_t)view_u32(v);
	e->stream = view_u16(v);
	e->kind = view_u8(v);
	e->memory = view_u8(v);
	return v->failed || e->kind >= TRACE_KINDS || e->peer < (trace_has_peer(e) ? 0 : -1) ||
	                       e->peer >= size || e->stream >= TRACE_STREAMS || e->start < 0 ||
	                       e->end < e->start || e->memory > 1
	               ? -1
	               : 0;
}
