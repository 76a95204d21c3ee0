/*
 * Merges the output of several processes: each process writes to its own pipe, and whole lines are
 * forwarded to one descriptor with a prefix that tells the rank.
 */
#ifndef COLLCTL_CMD_RUN_LINES_H
#define COLLCTL_CMD_RUN_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/err.h"

#define LINES_MAX (64u << 10) /* a longer line is broken into several */

/* Treatment of the JSON lines of --progress. */
enum lines_progress {
	LINES_PROGRESS_ANY,  /* treat them as other lines */
	LINES_PROGRESS_PASS, /* forward them without a prefix */
	LINES_PROGRESS_DROP,
};

/*
 * Suppresses repeated messages of several processes: a line that begins with @mark is dropped if
 * another process has printed it, unless this process prints it more often. Empty when zeroed.
 */
#define ECHOES_MAX 32 /* number of recent different lines to remember */
struct echoes {
	const char *mark;
	int ranks;
	struct echo *said;
	int n;
	int oldest;
};
void echoes_release(struct echoes *);

/* Called before a write to @fd that may block; waits for the reader. False: drop the line. */
typedef bool lines_wait(void *ctx, int fd);

/* Called with bytes that have been read; removes some, in place, and returns how many are left. */
typedef size_t lines_filter(void *ctx, char *bytes, size_t n);

struct lines {
	int rank;
	struct echoes *echoes; /* NULL: forward every line */
	lines_filter *filter;  /* NULL: none */
	void *filter_ctx;
	lines_wait *wait; /* NULL: block */
	void *wait_ctx;
	int from; /* the pipe, non-blocking; -1: closed */
	int to;   /* an error there closes the pipe, so that the writer sees that its reader is gone
	           */
	bool bars;                  /* the lines include the process's bar: draw it (bar.h) */
	void (*cleared)(void *ctx); /* with bars: BAR_TELL has come, and the bar is cleared */
	void *cleared_ctx;
	enum lines_progress progress;
	char prefix[96]; /* "[12] " */
	char *buf;       /* the incomplete line; at most LINES_MAX bytes */
	size_t len, cap;
	char *ahead; /* [nahead]: read by lines_fetch, and not forwarded yet */
	size_t nahead;
};

/* Open the pipe; *write_end (close-on-exec) is for the process, and the caller closes it.
 * ERR_RESOURCE. */
int lines_open(struct lines *l, int rank, int to, int *write_end, struct err *err);

/* Forward the data in the pipe; never waits for the process. False: the pipe has ended or its
 * output cannot be written; an incomplete line has been forwarded. */
bool lines_pump(struct lines *l);

/* Read what is in the pipe, and let the filter see it: the next lines_pump forwards it. Never waits
 * for anything, and may be called while a write waits (lines.wait). */
void lines_fetch(struct lines *l);

/* Close the pipe. */
void lines_release(struct lines *l);

/* Forward the data left in the pipe and close it, even if another process has its other end open.
 */
void lines_drain(struct lines *l);

#endif
