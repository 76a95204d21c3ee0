/*
 * A control link: messages {u32 body length, u8 type, body} over one duplex connection between a
 * rank and the coordinator. A body longer than CTL_BODY_MAX is ERR_INTEGRITY, and no memory is
 * allocated for it. One thread: the one of the loop, which calls the callbacks.
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
	bool ending, ended; /* this end will announce its end (ctl_end); it has announced it */
	bool alerted;       /* the link was lost because the peer received corrupt bytes */
	struct err lacked;  /* memory ran out while sending; the link is then lost */
	int64_t heard;      /* clock_ns() of the last received bytes */
	/* on_message and on_lost may call ctl_release on this link. @body is valid during the
	 * call. */
	void (*on_message)(void *ctx, uint8_t type, struct view body);
	/* The link has ended. Code 0: the peer announced its end; ERR_PEER_LOST; ERR_INTEGRITY: the
	 * received bytes are not a message. */
	void (*on_lost)(void *ctx, const struct err *);
	/* Memory ran out while receiving or sending a message; the link remains open. */
	void (*on_lacking)(void *ctx, const struct err *);
	void *ctx;
};

/* Start the link over @conn, whose handshake is done. The caller has set the callbacks and ctx. The
 * link owns @conn, also on failure (ERR_RESOURCE); the caller releases it in either case. */
int ctl_start(struct ctl *, struct conn *conn, struct loop *loop, struct err *err);
/* Move the connection of @from here, with the bytes that are queued for sending, as ctl_start.
 * @from is released. */
int ctl_take(struct ctl *, struct ctl *from, struct loop *loop, struct err *err);
void ctl_release(struct ctl *); /* idempotent */
static inline bool ctl_open(const struct ctl *c)
{
	return c->conn != NULL;
}
/* Queue a message, and send as much as possible; @body, which may be NULL, is copied. If the link
 * is lost, on_lost is called later, not by this call. */
void ctl_send(struct ctl *, uint8_t type, const struct buf *body);
/* Handle the bytes that have arrived, without waiting for the loop. */
void ctl_look(struct ctl *);
/* Announce the end, behind all queued messages. on_lost later reports the end of the other end. */
void ctl_end(struct ctl *);

#endif
