/*
 * Is a record of the store stale? Its address is tried, and what is met there is the evidence. A
 * record that a coordinator still stands behind must never be replaced: two coordinators would
 * divide the ranks. So:
 *
 * - Who proves to be a coordinator of this job lives, whatever it does then: it may be full, refuse
 *   this rank, or close the connection because its own job has failed. With TLS the job's key is
 * the proof; with --insecure its answer to HELLO is.
 * - Nobody listens there, or the host is not reached: stale. A coordinator listens before it
 *   publishes, and for as long as its record is of use.
 * - Silence, for as long as a try lasts: stale. A coordinator answers a handshake, and with
 *   --insecure HELLO, at once.
 * - Something else answers (HTTP, SSH, the coordinator of another job): stale after three tries,
 * for a flipped bit can make one handshake fail.
 * - The connection ends before anything was proved: that is what a service that can't read TLS
 * does, but also a coordinator that strangers have filled. Stale if it goes on for five seconds.
 *
 * Pure: the time is the caller's.
 */
#ifndef COLLCTL_JOB_SUSPECT_H
#define COLLCTL_JOB_SUSPECT_H

#include <stdbool.h>
#include <stdint.h>

enum met {
	MET_NOTHING, /* the try failed for a reason of this rank's own */
	MET_LIFE,
	MET_NOBODY,
	MET_SILENCE,
	MET_STRANGER,
	MET_CLOSE,
};

struct suspect {
	int strangers, closes;
	int64_t since; /* of the first stranger or close */
	bool gone;
};

void suspect_meet(struct suspect *, enum met, int64_t now);
bool suspect_is_stale(const struct suspect *, int64_t now);

#endif
