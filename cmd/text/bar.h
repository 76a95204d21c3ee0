/*
 * The progress bar: one line on the terminal, which is redrawn in place. It is cleared before any
 * other output, and if a signal ends the process. One per process. Only the foreground process that
 * holds the terminal's lock draws, so that several ranks in one shell do not overwrite each other's
 * bars.
 *
 * Under `collctl run`, also on another host, stderr of rank 0 is a pipe to run. The rank sends its
 * bar as a line that begins with BAR_MARK, and run draws it, so that only one process writes to the
 * terminal. Its stdout may be the same terminal: before the rank writes there, it waits until run
 * has cleared the bar.
 */
#ifndef COLLCTL_CMD_TEXT_BAR_H
#define COLLCTL_CMD_TEXT_BAR_H

#include <stdbool.h>

#define BAR_MARK  '\r'
#define BAR_CLEAR "\r"   /* the lines that clear it: one before other lines, */
#define BAR_TELL  "\r\r" /* and one that run must tell when it is done (lines.cleared) */
#define BAR_MAX   512    /* bytes of a bar with its terminating NUL */

/* Is stderr a terminal that can redraw a line? */
bool bar_possible(void);
/* The terminal's present number of columns; 80 if unknown. */
int bar_width(void);

/* Show @text, less than BAR_MAX bytes, escaped and cut at the terminal's last column but one, so
 * that no terminal wraps it. Skipped if the write would block. */
void bar_draw(const char *text);
/* Clear the bar before other output, also another process's, which redraws it. May be called
 * repeatedly. A rank of `run` waits until that is done, but not for long. */
void bar_clear(void);
/* What clears the bar: a message on stderr begins with it, in the same write, so that no other
 * process draws its bar between the two. "" if there is no bar. This process's bar counts as
 * cleared. */
const char *bar_erasure(void);

/* For a rank whose stderr is a pipe to `run`: `run` draws the bar on @terminal, which must stay
 * open. The eventfd @cleared (-1: none) becomes readable when `run` has cleared it. */
void bar_launched(int terminal, int cleared);
/* The same on another host: the terminal there has @columns. */
void bar_launched_far(int columns, int cleared);

/* Can stderr be written without blocking? A blocking write would stop the job's event loop. */
bool bar_writable(void);

#endif
