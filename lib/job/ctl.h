/*
 * A control link: messages {u32 body length, u8 type, body} over one duplex connection between a
 * rank and the coordinator. Nothing is allocated from a length over CTL_BODY_MAX; a longer message
 * is ERR_INTEGRITY.
 */
#ifndef COLLCTL_JOB_CTL_H
#define COLLCTL_JOB_CTL_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/buf.h"
#include "lib/base/err.h"
#include "lib/net/conn.h"

#define CTL_BODY_MAX (1u << 20)

struct ctl {
	struct conn *conn; /* owned; NULL: closed or never opened */
	struct buf in, out;
	bool ending, ended; /* this side's end is to be, has been announced */
	bool alerted;       /* lost because the peer had received corrupt bytes */
	struct err lacked;  /* memory, to send: the link is lost by that */
	int64_t heard;      /* clock_ns() of the last bytes that came */
	/* Both may call ctl_release on this link. */
	void (*on_message)(void *ctx, uint8_t type, struct view body);
	/* Code 0: the peer ended in order; ERR_PEER_LOST; ERR_INTEGRITY: what it sent is no
	 * message. */
	void (*on_lost)(void *ctx, const struct err *);
	/* Memory is lacking here to take or send a message; the link stands. */
	void (*on_lacking)(void *ctx, const struct err *);
	void *ctx;
};

/* @conn is shaken hands with; it becomes the link's. Set the functions and ctx before. */
int ctl_start(struct ctl *, struct conn *conn, struct loop *loop, struct err *err);
void ctl_release(struct ctl *); /* idempotent */
static inline bool ctl_open(const struct ctl *c)
{
	return c->conn != NULL;
}
/* Queue a message; @body may be NULL. Losing the link shows in on_lost, later. */
void ctl_send(struct ctl *, uint8_t type, const struct buf *body);
/* Read what has come by now, though the loop has not said so yet. */
void ctl_look(struct ctl *);
/* Announce the end once everything queued is out; the other side's end then comes by on_lost. */
void ctl_end(struct ctl *);

#endif
