/*
 * Is a record of the store stale? The caller tries its address, and reports the result of each try
 * here. The record of a live coordinator must never be replaced: two coordinators would divide the
 * ranks. The results:
 *
 * - A peer proves to be a coordinator of this job: the record is not stale, whatever the peer does
 *   next. It may have no free place, refuse this rank, or close the connection because its job has
 *   failed. The proof is the job's key, or with --insecure the answer to HELLO.
 * - Connection refused, or the host is not reached: stale. A coordinator listens before it
 *   publishes, and as long as its record is needed.
 * - Silence for the duration of a try: stale. A coordinator answers a handshake, and with
 *   --insecure HELLO, at once.
 * - Another service answers (HTTP, SSH, the coordinator of another job): stale after three tries,
 *   because a flipped bit can make one handshake fail.
 * - The connection ends before any proof: stale if this repeats for five seconds. A service that
 *   does not speak TLS does this, but so does a coordinator whose places are taken by pending
 *   connections.
 *
 * Pure: the caller passes the time.
 */
#ifndef COLLCTL_STORE_SUSPECT_H
#define COLLCTL_STORE_SUSPECT_H

#include <stdbool.h>
#include <stdint.h>

enum met {
	MET_NOTHING, /* the try failed for a reason on this rank */
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
