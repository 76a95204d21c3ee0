/*
 * Which rank is to blame for a failure: chooses the better one of two pieces of evidence. Pure.
 *
 * The order, the best first: a rank's report of its own failure; the loss of its control link; a
 * peer's report of wrong bytes; the rank's silence, which explains other reports; any other report
 * of a peer. (If a stream is cut, one end may see wrong bytes and the other end a lost connection.)
 * Among reports of no progress, the best is one of a rank whose bytes are not acknowledged, because
 * that rank is at the broken link; then that of the rank that has waited longest. Of equals, the
 * first one is kept.
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
	bool lane;         /* only a lane broke, and the reporter can go back (coord_back.c) */
	bool unanswered;   /* the peer's kernel does not acknowledge the reporter's bytes */
	uint64_t still_ms; /* time without progress at the reporter */
};

/* Returns @known or @next. */
const struct evidence *blame(const struct evidence *known, const struct evidence *next);

#endif
