/*
 * What a terminal shows: its width, its colours, and the columns of a text.
 *
 * Widths of characters are those of Unicode, whatever the locale is: a wide character has two
 * columns, a combining one none.
 */
#ifndef COLLCTL_CMD_TEXT_TERMINAL_H
#define COLLCTL_CMD_TEXT_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* The present number of columns of the terminal @fd; 0: not a terminal, or not known. */
int terminal_width(int fd);

/* Is @fd a terminal that understands escape sequences? */
bool terminal_can_draw(int fd);

enum terminal_style {
	TERMINAL_PLAIN,
	TERMINAL_ERROR,  /* the mark of an error message */
	TERMINAL_BAD,    /* a result that is a failure */
	TERMINAL_CHOSEN, /* the row that was chosen */
};

/* The sequences that begin and end a style; "" where @fd has no colours: it is no terminal, TERM is
 * "dumb", or NO_COLOR is set and not empty (no-color.org). */
const char *terminal_begin(int fd, enum terminal_style);
const char *terminal_end(int fd, enum terminal_style);

/* Columns of a text that text_escape has made. */
int terminal_columns(const char *text);
/* Cut the end of @text in place, so that it has at most @columns. Returns @text. */
char *terminal_cut(char *text, int columns);
/* Copy @src to @dst[cap]. If it has more than @columns (at least 1), its middle is replaced by "…".
 * What does not fit is cut. Returns @dst. */
char *terminal_shorten(char *dst, size_t cap, const char *src, int columns);
/* Print the words of @text in lines of at most @width columns (0: in one line), from @column on,
 * where the cursor is. Each word is printed by @put; NULL: unchanged. No newline follows the last
 * line. */
void terminal_wrap(FILE *f, const char *text, int column, int width,
                   void (*put)(FILE *f, const char *word, int len));

#endif
