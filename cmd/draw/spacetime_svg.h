/* A picture of what ranks do: a vertical line for each rank, with time downwards, and arrows for
 * messages. */
#ifndef COLLCTL_CMD_DRAW_SPACETIME_SVG_H
#define COLLCTL_CMD_DRAW_SPACETIME_SVG_H

#include <stddef.h>
#include <stdint.h>

/* The most ranks and messages; with more, the picture would be black and the file large. */
#define SPACETIME_RANKS    64
#define SPACETIME_MESSAGES 20000

enum spacetime_kind {
	SPACETIME_MESSAGE, /* rank sends to peer, which keeps it as it is */
	SPACETIME_ADDED,   /* rank sends to peer, which adds it */
	SPACETIME_REDUCE,  /* rank adds what it has; no peer */
	SPACETIME_COPY,    /* rank copies; no peer */
};

struct spacetime_event {
	int rank, peer;    /* peer -1: none */
	double start, end; /* seconds; a message: from its first byte out to its last byte in */
	uint64_t bytes;
	enum spacetime_kind kind;
};

struct spacetime_view {
	const char *title, *note; /* above the picture; the note may be "" */
	int size;
	const int *host; /* as in struct coll_args, to mark the hosts; NULL: not known */
	const struct spacetime_event *events;
	size_t nevents;
};

/* Draw the picture. Malloced, *len bytes; NULL: out of memory. */
char *spacetime_svg(const struct spacetime_view *, size_t *len);

#endif
