/*
 * A trace: a record of what one rank does and when, for --trace. Its memory is limited: once it is
 * full, events are only counted.
 *
 * Times are clock_ns() of the rank's host. Any thread may call trace_add, which does not block; the
 * other functions are called while no thread does.
 */
#ifndef COLLCTL_EXEC_TRACE_H
#define COLLCTL_EXEC_TRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/buf.h"
#include "lib/base/err.h"

enum trace_kind {
	TRACE_JOIN,    /* stages of the job (coll.h): joining and agreeing */
	TRACE_CONNECT, /* opening outputs and connections */
	TRACE_RUN,
	TRACE_SEAL,   /* the output's last bytes are written; with sync, they reach the disk */
	TRACE_WINDOW, /* stream: its window, from its first step to its last */
	TRACE_SEND,   /* a step sends to peer: from the first byte that the connection accepts to
	               * the last */
	TRACE_RECV,   /* a step receives from peer: from the first byte to the last */
	TRACE_ADD,    /* the same, of a step that reduces what it receives */
	TRACE_COPY,   /* local steps */
	TRACE_REDUCE,
	TRACE_READ, /* a transfer from an input's file, and to an output's */
	TRACE_WRITE,
	/* The thread slept: */
	TRACE_WAIT_RECV,   /* until data of peer arrived */
	TRACE_WAIT_SEND,   /* until the connection to peer accepted data */
	TRACE_WAIT_READ,   /* until elements of an input were read */
	TRACE_WAIT_WRITE,  /* until elements of the output were written */
	TRACE_WAIT_DEVICE, /* until a device completed a task */
	TRACE_KINDS
};

#define TRACE_NONE    UINT32_MAX
#define TRACE_STREAMS 64 /* at most */

struct trace_event {
	int64_t start, end; /* ns */
	uint64_t bytes;     /* that were moved; 0: none */
	uint32_t window;    /* number of the window (exec.h); TRACE_NONE: none */
	uint32_t step;      /* index in the window's schedule; TRACE_NONE: none */
	uint32_t number; /* TRACE_SEND, RECV, ADD: the message's index on its lane, the same at both
	                    ends; else 0 */
	int32_t peer;    /* rank; -1: none */
	uint16_t stream; /* 0 if the kind has none */
	uint8_t kind;    /* enum trace_kind */
	uint8_t memory;  /* TRACE_SEND, RECV, ADD: 1: the lane is a memory lane */
};

/* Has it a peer? */
static inline bool trace_has_peer(const struct trace_event *e)
{
	return (e->kind >= TRACE_SEND && e->kind <= TRACE_ADD) || e->kind == TRACE_WAIT_RECV ||
	       e->kind == TRACE_WAIT_SEND;
}

static inline bool trace_is_message(const struct trace_event *e)
{
	return e->kind == TRACE_SEND || e->kind == TRACE_RECV || e->kind == TRACE_ADD;
}

struct trace {
	struct trace_event *events; /* [cap]; only pages that were filled use memory */
	size_t cap;
	_Atomic size_t added; /* number of events, also of those that were not kept */
};

int trace_init(struct trace *, size_t cap, struct err *err);
void trace_release(struct trace *); /* also of a zeroed one */
void trace_add(struct trace *, const struct trace_event *);
/* Forget all events: what they record happens again. */
void trace_clear(struct trace *);
/* Add the final @n events, n <= cap. In a full trace they replace the last events, which then count
 * as not kept. */
void trace_add_last(struct trace *, const struct trace_event *, size_t n);
/* The number of events that were kept. */
size_t trace_kept(const struct trace *);

#define TRACE_EVENT_BYTES 44 /* of an event in a message */
extern const struct message trace_event_message;
void trace_event_put(struct buf *, const struct trace_event *);
/* Decode an event of one of @size ranks; the view advances. -1: malformed: an unknown kind or
 * stream, a peer that is not below @size, a negative time, or an end before the start. */
int trace_event_get(struct trace_event *, struct view *, int size);

#endif
