/*
 * The output of several processes on one descriptor: each writes to a pipe of its own, and what
 * comes out of it is passed on a line at a time, behind a prefix that says whose it is.
 */
#ifndef COLLCTL_CMD_LINES_H
#define COLLCTL_CMD_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/err.h"

#define LINES_MAX (64u << 10) /* a longer line is broken into several */

/* What to do with the JSON lines of --progress. */
enum lines_progress {
	LINES_PROGRESS_ANY,  /* treat them as other lines */
	LINES_PROGRESS_PASS, /* pass them on without a prefix */
	LINES_PROGRESS_DROP,
};

/*
 * Passes on a message once that several processes print: a line that begins with @mark is left out
 * if another process has printed it, unless this one prints it more often. Zeroed: empty.
 */
#define ECHOES_MAX 32 /* different lines that are remembered, the latest */
struct echoes {
	const char *mark;
	int ranks;
	struct echo *said;
	int n;
	int oldest;
};
void echoes_release(struct echoes *);

/* Before a write to @fd, which may have to wait for its reader. False: leave the line out. */
typedef bool lines_wait(void *ctx, int fd);

struct lines {
	int rank;
	struct echoes *echoes; /* NULL: every line is passed on */
	lines_wait *wait;      /* NULL: wait as long as it takes */
	void *wait_ctx;
	int from;  /* the pipe, non-blocking; -1: closed */
	int to;    /* whose errors end the pipe: the writer sees that its reader left */
	bool bars; /* the process's bar is among the lines, to be drawn (bar.h) */
	enum lines_progress progress;
	char prefix[16]; /* "[12] " */
	char *buf;       /* what is there of a line; at most LINES_MAX bytes */
	size_t len, cap;
};

/* Opens the pipe; *@write_end (close-on-exec) is for the process. Returns 0 or -1. */
int lines_open(struct lines *l, int rank, int to, int *write_end, struct err *err);

/* Pass on what the pipe holds; never waits for the process. False: the pipe has ended, or nobody
 * takes what comes out of it; what was left of a line has been passed on. */
bool lines_pump(struct lines *l);

/* Close the pipe. */
void lines_release(struct lines *l);

/* Pass on all that the pipe still holds and close it, whoever else may hold its other end. */
void lines_drain(struct lines *l);

#endif
