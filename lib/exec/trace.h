/*
 * A record of what one rank does and when, for --trace. Memory is bounded: once the record is full,
 * events are counted and not kept.
 *
 * Times are clock_ns() of the rank's host. Thread-safe: any thread may add events without waiting.
 */
#ifndef COLLCTL_EXEC_TRACE_H
#define COLLCTL_EXEC_TRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/buf.h"
#include "lib/base/err.h"

enum trace_kind {
	TRACE_JOIN,    /* the stages of the job (coll.h) */
	TRACE_CONNECT, /* edges are connected and outputs opened */
	TRACE_RUN,
	TRACE_SEAL,   /* the output's last bytes are written; with sync, they reach the disk */
	TRACE_WINDOW, /* stream: its window, from its first step to its last */
	TRACE_SEND,   /* a step sends to peer: from the first byte that the connection accepts to
	               * the last */
	TRACE_RECV,   /* a step receives from peer: from the first byte to the last */
	TRACE_ADD,    /* the same, and the rank adds what it has */
	TRACE_COPY,   /* local steps */
	TRACE_REDUCE,
	TRACE_READ, /* a transfer from an input's file, and to an output's */
	TRACE_WRITE,
	TRACE_WAIT_RECV,  /* the thread slept until data of peer came, */
	TRACE_WAIT_SEND,  /* until the connection to peer took more, */
	TRACE_WAIT_READ,  /* until elements of an input had been read, */
	TRACE_WAIT_WRITE, /* or until elements of the output had been written */
	TRACE_WAIT_DEVICE,
	TRACE_KINDS
};

#define TRACE_NONE    UINT32_MAX
#define TRACE_STREAMS 64 /* at most */

struct trace_event {
	int64_t start, end; /* ns */
	uint64_t bytes;     /* of what moved; 0: nothing does */
	uint32_t window;    /* as exec.h numbers them, over all vectors; TRACE_NONE: none */
	uint32_t step;      /* of the window's schedule; TRACE_NONE: none */
	uint32_t number;    /* TRACE_SEND, RECV, ADD: among the messages of its lane, the same at
	                     * both ends; else 0 */
	int32_t peer;       /* rank; -1: none */
	uint16_t stream;    /* 0 if the kind has none */
	uint8_t kind;       /* enum trace_kind */
	uint8_t memory;     /* TRACE_SEND, RECV, ADD: 1: the lane is in the host's memory */
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
	struct trace_event *events; /* [cap]; its pages are used as they are filled */
	size_t cap;
	_Atomic size_t added; /* also those that were not kept */
};

int trace_init(struct trace *, size_t cap, struct err *err);
void trace_release(struct trace *); /* also of a zeroed one */
void trace_add(struct trace *, const struct trace_event *);
/* Add @n last events, at most as many as the record has room for. In a full record they replace the
 * last ones, which then count as not kept. No other thread may add any more. */
void trace_add_last(struct trace *, const struct trace_event *, size_t n);
/* The events that were kept; no thread may add any more. */
size_t trace_kept(const struct trace *);

/* TRACE_EVENT_BYTES of a message. */
#define TRACE_EVENT_BYTES 44
extern const struct message trace_event_message;
void trace_event_put(struct buf *, const struct trace_event *);
/* Consumes what it reads. -1: malformed: an unknown kind or stream, a peer that is not below
 * @size, a time before 0, an end before the start. */
int trace_event_get(struct trace_event *, struct view *, int size);

#endif
