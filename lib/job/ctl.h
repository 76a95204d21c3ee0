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
	bool ending, ended; /* this side is to announce its end, has announced it */
	bool alerted;       /* lost because the peer had received corrupt bytes */
	struct err lacked;  /* memory ran out while sending, which loses the link */
	int64_t heard;      /* clock_ns() of the last received bytes */
	/* Both may call ctl_release on this link. */
	void (*on_message)(void *ctx, uint8_t type, struct view body);
	/* Code 0: the peer announced its end; ERR_PEER_LOST; ERR_INTEGRITY: the received bytes are
	 * not a message. */
	void (*on_lost)(void *ctx, const struct err *);
	/* Memory ran out while receiving or sending a message; the link remains open. */
	void (*on_lacking)(void *ctx, const struct err *);
	void *ctx;
};

/* The link takes ownership of @conn, whose handshake is done. Set the functions and ctx first. */
int ctl_start(struct ctl *, struct conn *conn, struct loop *loop, struct err *err);
/* Move the connection of @from here, with the bytes that are queued to be sent; @from is released.
 */
int ctl_take(struct ctl *, struct ctl *from, struct loop *loop, struct err *err);
void ctl_release(struct ctl *); /* idempotent */
static inline bool ctl_open(const struct ctl *c)
{
	return c->conn != NULL;
}
/* Queue a message; @body may be NULL. If the link is lost, on_lost is called later. */
void ctl_send(struct ctl *, uint8_t type, const struct buf *body);
/* Read the bytes that have arrived, before the loop reports them. */
void ctl_look(struct ctl *);
/* Announce the end after all queued messages; on_lost then reports the end of the other side. */
void ctl_end(struct ctl *);

#endif
