/*
 * Measures links: the round trip and the bandwidth of connections that probe_links (probe.h) has
 * tested. On each connection the dialling end measures; the listening end only answers. One thread:
 * the job's.
 *
 * The ends of such a connection send frames of METER_FRAME bytes:
 *
 *     PING    dialler    number; the listener sends it back
 *     START   dialler    a: ns at the beginning of the stream that are not measured
 *     DATA    dialler    a: n; n bytes follow
 *     STOP    dialler    the listener answers with RESULT
 *     RESULT  listener   a: bytes that were measured, b: the ns in which they arrived; 0: none did
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

/* Begin to answer, whenever the job's loop runs, on the connections from @in[nin] of @mesh, which
 * is stopped (mesh_stop) and must outlive the meter. @out[nout]: the peers to measure. NULL:
 * ERR_RESOURCE. */
struct meter *meter_open(struct job *, struct mesh *, const int *out, int nout, const int *in,
                         int nin, struct err *err);
void meter_close(struct meter *);

/* The functions below measure the link to @peer; they run the job's loop. 1: measured; 0: the link
 * fails: job_link_failed was called, and the link is not measured again; -1: the job has failed. */

/* Make one more connection: the seconds until it is connected, and from then until its ends are
 * authenticated. Not after meter_end_connects. */
int meter_connect(struct meter *, int peer, double *connect, double *handshake, struct err *err);
/* Call it when all ranks have called meter_connect for all links. */
void meter_end_connects(struct meter *);
/* Measure round trips for up to @time ns, at least one and at most METER_PINGS. In seconds: the
 * median of those between the two processes, and the least, which may be that between the
 * kernels. */
#define METER_PINGS 200
int meter_ping(struct meter *, int peer, int64_t time, double *least, double *median,
               struct err *err);
/* Send for @time ns. *rate: the bytes per second that arrived after the first quarter of this
 * time. */
int meter_stream(struct meter *, int peer, int64_t time, double *rate, struct err *err);

#endif
