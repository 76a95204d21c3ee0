/*
 * Which rank is to blame for a failure: of two pieces of evidence, the better one. Pure.
 *
 * A rank's own report of its failure comes first, then the loss of its control link, then the
 * reports of others about it. Among reports, one of wrong bytes comes first: if a stream is cut,
 * one end sees wrong bytes and the other a lost connection. A silent rank explains the other
 * reports. Among reports of no progress, that of a rank whose bytes are not acknowledged comes
 * first, because it is at the broken link; then that of the rank that has waited longest. Among
 * equals the first one stays.
 */
#ifndef COLLCTL_JOB_COORDINATOR_BLAME_H
#define COLLCTL_JOB_COORDINATOR_BLAME_H

#include "lib/job/proto.h"

struct evidence {
	enum evidence_kind {
		EVIDENCE_NONE,
		EVIDENCE_REPORT,   /* a rank's report of a peer, or of the link to it */
		EVIDENCE_SILENCE,  /* no message from the rank for too long */
		EVIDENCE_LOST,     /* the rank's control link broke */
		EVIDENCE_OWN_WORD, /* the rank reports its own failure */
	} kind;
	struct err err; /* err.rank is to blame */
	enum phase phase;
	int reporter;      /* with EVIDENCE_REPORT */
	bool unanswered;   /* the peer's machine does not acknowledge the reporter's bytes */
	uint64_t still_ms; /* time without progress at the reporter */
};

/* Returns @known or @next. */
const struct evidence *blame(const struct evidence *known, const struct evidence *next);

#endif
