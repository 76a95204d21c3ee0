/*
 * A line on the terminal that is drawn over itself and cleared before anything else is printed.
 * One a process. It is drawn by whoever of the terminal's foreground processes has the lock on it,
 * so that ranks started from one shell don't draw over each other.
 *
 * Rank 0 under `collctl run` has no terminal but a pipe to run. Its bar travels through it as a
 * line that begins with BAR_MARK, and run draws it: only one process writes to the terminal, in one
 * order.
 */
#ifndef COLLCTL_CMD_BAR_H
#define COLLCTL_CMD_BAR_H

#include <stdbool.h>

#define BAR_MARK '\r'
#define BAR_MAX  512 /* bytes of a bar with its terminating NUL */

/* Is there a terminal that understands being drawn on? */
bool bar_possible(void);
/* Its columns now; 80 where it doesn't say. */
int bar_width(void);

/* Show @text, less than BAR_MAX bytes, without control characters and no wider than the terminal.
 * Left out where it would have to wait for the reader. */
void bar_draw(const char *text);
/* Before anything else is printed: the bar that stands there goes, also another process's, which
 * draws it again. Idempotent. */
void bar_clear(void);

/* In a rank whose stderr leads to a launcher that draws its bar on @terminal, which stays open. */
void bar_launched(int terminal);

/* Will a write to stderr be taken at once? One that waits would hold up a job's event loop. */
bool bar_writable(void);

#endif
