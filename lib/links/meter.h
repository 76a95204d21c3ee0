/*
 * Measuring links: the round trip and the bandwidth of connections that probe_links (probe.h) has
 * tested. Each connection measures the link from its dialler to its listener; the listener only
 * answers.
 *
 * On such a connection both ends send frames of METER_FRAME bytes:
 *
 *     PING    dialler    number; the listener sends it back
 *     START   dialler    a: ns at the beginning of the stream that do not count
 *     DATA    dialler    a: n; n bytes follow
 *     STOP    dialler    the listener answers with RESULT
 *     RESULT  listener   a: bytes that count, b: in how many ns they came; 0: none did
 */
#ifndef COLLCTL_LINKS_METER_H
#define COLLCTL_LINKS_METER_H

#include "lib/job/job.h"

#define METER_FRAME 24
#define METER_DATA  (64u << 10) /* the most bytes that follow a DATA frame */

enum meter_type { METER_PING = 1, METER_START, METER_DATA_FOLLOWS, METER_STOP, METER_RESULT };

struct meter_frame {
	enum meter_type type;
	uint64_t a, b;
};
void meter_encode(const struct meter_frame *, uint8_t out[METER_FRAME]);
/* -1: no such frame. */
int meter_decode(struct meter_frame *, const uint8_t in[METER_FRAME]);

struct meter;

/* Answer on the connections from @in[nin] of a stopped mesh from now on, whenever the job's loop
 * turns. @out[nout]: the peers to measure. */
struct meter *meter_open(struct job *, struct mesh *, const int *out, int nout, const int *in,
                         int nin, struct err *err);
void meter_close(struct meter *);

/* Each measures the link to @peer. 1: measured; 0: the link fails (job_link_failed has been called,
 * and it is not measured again); -1: the job has failed. */

/* The seconds in which one more connection is established, and those in which its ends authenticate
 * each other then. Not after meter_end_connects. */
int meter_connect(struct meter *, int peer, double *connect, double *handshake, struct err *err);
/* All ranks have measured their connects. */
void meter_end_connects(struct meter *);
/* Round trips in seconds, for up to @time ns, at least one and at most METER_PINGS: the median of
 * those between the two processes, and the least, which may be between the kernels. */
#define METER_PINGS 200
int meter_ping(struct meter *, int peer, int64_t time, double *least, double *median,
               struct err *err);
/* Send for @time ns. @rate: the bytes per second that have come, of all but the first quarter of
 * that time. */
int meter_stream(struct meter *, int peer, int64_t time, double *rate, struct err *err);

#endif
