/*
 * Who is to blame for a failure: of two pieces of evidence, the better one. Pure.
 *
 * A rank's own word comes first, then the loss of its control link, then what others report of it.
 * Of reports, one of wrong bytes comes first: where a stream is cut, one end sees wrong bytes and
 * the other a lost connection. A rank that has fallen silent explains the other reports. Of reports
 * that nothing moves, first comes that of a rank whose bytes are not acknowledged, for it sees the
 * broken link itself; then that of the rank that has waited for longest. Among equals the first one
 * stays.
 */
#ifndef COLLCTL_JOB_BLAME_H
#define COLLCTL_JOB_BLAME_H

#include "lib/job/proto.h"

struct evidence {
	enum evidence_kind {
		EVIDENCE_NONE,
		EVIDENCE_REPORT,   /* a rank's report of a peer, or of the link to it */
		EVIDENCE_SILENCE,  /* no message from the rank for too long */
		EVIDENCE_LOST,     /* the rank's control link broke */
		EVIDENCE_OWN_WORD, /* the rank itself says why it failed */
	} kind;
	struct err err; /* err.rank: who is to blame */
	enum phase phase;
	int reporter;      /* with EVIDENCE_REPORT */
	bool unanswered;   /* the peer's machine does not acknowledge the reporter's bytes */
	uint64_t still_ms; /* for how long nothing has moved at the reporter */
};

/* Returns @known or @next. */
const struct evidence *blame(const struct evidence *known, const struct evidence *next);

#endif
