/*
 * Links that failed: ordered pairs of ranks, as both ends report them to the coordinator, and the
 * sentence that names them all.
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
	LINK_WRONG,      /* bytes are changed on the way, or something else answers */
	LINK_LARGE_LOST, /* connected, but full-size packets do not arrive */
	LINK_BROKEN,     /* the connection ended */
	LINK_SLOW,       /* works, but not as the user demands */
	LINK_TLS,        /* the ends cannot authenticate each other */
	LINK_STATES
};
/* "refused" */
const char *link_state_words(enum link_state);
/* The state that the failure of a connection shows. */
enum link_state link_state_of(const struct err *);
/* The same of a connection that failed before its ends had authenticated each other, with the
 * reason. */
enum link_state link_state_of_handshake(const struct err *, char why[LINK_WHY]);

struct link_fault {
	int from, to;
	enum link_state state;
	bool by_sender; /* reported by the end that dials, whose reason counts */
	char why[LINK_WHY];
};

struct link_faults {
	struct link_fault *list; /* in the order of from, then to */
	size_t n, more;
};

/* Does a report of @state, by the sender or not, replace what is known of a link? The sender's word
 * counts; what is only too slow counts least. */
bool link_replaces(enum link_state known, bool known_by_sender, enum link_state state,
                   bool by_sender);
/* Add the report of @reporter, one of the two ends of the link. -1: no memory. */
int links_add(struct link_faults *, int reporter, int from, int to, enum link_state state,
              const char *why, struct err *err);
/* NULL: no failure of this link is known. */
const struct link_fault *links_find(const struct link_faults *, int from, int to);
void links_release(struct link_faults *);

/* "2 links failed: no answer for 5 s: rank 1 (10.0.0.2) -> rank 3 (10.0.0.4), ...". A pair whose
 * two directions failed alike is "rank 1 <-> rank 3". @host writes the text in parentheses.
 */
void links_text(const struct link_faults *,
                const char *(*host)(void *ctx, int rank, char *buf, size_t cap), void *ctx,
                char *text, size_t cap);

/* The body of LINKS: one fault after another. */
extern const struct message link_fault_message;
void link_encode(int from, int to, enum link_state state, const char *why, struct buf *b);
/* Read one fault of the links of @reporter. ERR_INTEGRITY. */
int link_decode(struct link_fault *, int reporter, int size, struct view *body, struct err *err);
/* Add those of @body, which @reporter of @size ranks has sent. -1: malformed, or no memory. */
int links_decode(struct link_faults *, int reporter, int size, struct view body, struct err *err);

#endif
