/*
 * Links that failed. A link is an ordered pair of ranks; both of its ends report to the
 * coordinator. Keeps the reports, and makes the sentence that names all failed links. One thread.
 */
#ifndef COLLCTL_JOB_FAILED_LINKS_H
#define COLLCTL_JOB_FAILED_LINKS_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/buf.h"
#include "lib/base/err.h"

#define LINKS_MAX 1024 /* kept; the rest is counted */
#define LINK_WHY  128  /* bytes of a reason */

enum link_state {
	LINK_WORKS,
	LINK_REFUSED,
	LINK_NO_ROUTE,
	LINK_TIMED_OUT,  /* no answer */
	LINK_WRONG,      /* bytes are changed on the way, or another process answers */
	LINK_LARGE_LOST, /* connected, but full-size packets do not arrive */
	LINK_BROKEN,     /* the connection ended */
	LINK_SLOW,       /* works, but is slower than the user demands */
	LINK_TLS,        /* the ends cannot authenticate each other */
	LINK_STATES
};
const char *link_state_words(enum link_state); /* "refused" */
/* The state of a link whose connection failed with this error. */
enum link_state link_state_of(const struct err *);
/* The same for a connection that failed before its ends had authenticated each other; writes the
 * reason to @why. */
enum link_state link_state_of_handshake(const struct err *, char why[LINK_WHY]);

struct link_fault {
	int from, to;
	enum link_state state;
	bool by_sender; /* reported by the dialling end, whose report takes precedence */
	char why[LINK_WHY];
};

struct link_faults {
	struct link_fault *list; /* [n], sorted by from, then by to */
	size_t n, more;          /* more: the number of reports that were not kept */
};

/* Does a report of @state, from the sender or not, replace the known report of a link? The sender's
 * report takes precedence; LINK_SLOW has the lowest precedence. */
bool link_replaces(enum link_state known, bool known_by_sender, enum link_state state,
                   bool by_sender);
/* Add the report of @reporter, one of the two ends of the link; @why is copied. ERR_RESOURCE. */
int links_add(struct link_faults *, int reporter, int from, int to, enum link_state state,
              const char *why, struct err *err);
/* The failure of a link, owned by @f; NULL: none is known. */
const struct link_fault *links_find(const struct link_faults *, int from, int to);
void links_release(struct link_faults *);

/* Write to @text[cap]: "2 links failed: no answer for 5 s: rank 1 (10.0.0.2) -> rank 3 (10.0.0.4),
 * ...". If both directions failed for the same reason: "rank 1 <-> rank 3". @host returns the text
 * in parentheses, written to @buf. */
void links_text(const struct link_faults *,
                const char *(*host)(void *ctx, int rank, char *buf, size_t cap), void *ctx,
                char *text, size_t cap);

/* Append one fault to the body of LINKS, which is a sequence of faults. */
extern const struct message link_fault_message;
void link_encode(int from, int to, enum link_state state, const char *why, struct buf *b);
/* Decode one fault, reported by @reporter of @size ranks; the view advances. ERR_INTEGRITY. */
int link_decode(struct link_fault *, int reporter, int size, struct view *body, struct err *err);
/* Add all faults of the body of LINKS from @reporter. ERR_INTEGRITY, ERR_RESOURCE. */
int links_decode(struct link_faults *, int reporter, int size, struct view body, struct err *err);

#endif
