/*
 * Is a record in the store stale, so that its coordinator is gone? The caller tries to connect to
 * the record's address, and reports the result of each try (enum met). The record of a live
 * coordinator must never be replaced, because then some ranks would join another coordinator. The
 * results:
 *
 * - MET_LIFE: the peer proves that it is a coordinator of this job, by the job's key or, with
 *   --insecure, by its answer to HELLO. The record is not stale, whatever the peer does next: it
 *   may have no free place, refuse this rank, or close the connection because its job has failed.
 * - MET_NOBODY: the connection is refused, or the host is not reached. Stale: a coordinator listens
 *   before it publishes its record, and as long as the record is needed.
 * - MET_SILENCE: no answer for the duration of a try. Stale: a coordinator answers a handshake and,
 *   with --insecure, HELLO at once.
 * - MET_STRANGER: another service answers (HTTP, SSH, the coordinator of another job). Stale after
 *   three tries, because a corrupt bit can make one handshake fail.
 * - MET_CLOSE: the connection ends before any proof. Stale if this repeats for five seconds. A
 *   service without TLS behaves so, but also a coordinator whose places are taken by pending
 *   connections.
 *
 * Pure: the caller passes the time, clock_ns(). A struct suspect is empty when zeroed.
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
	bool gone;     /* stale for a reason that needs no repetition */
};

void suspect_meet(struct suspect *, enum met, int64_t now);
bool suspect_is_stale(const struct suspect *, int64_t now);

#endif
