/*
 * Tables on stdout. If stdout is a terminal that is too narrow for a table, columns become as
 * narrow as their texts, then the middle of long names is left out, then each row is printed in
 * several lines. If stdout is not a terminal, rows are printed unchanged.
 */
#ifndef COLLCTL_CMD_TEXT_COLUMNS_H
#define COLLCTL_CMD_TEXT_COLUMNS_H

#include <stdbool.h>

#include "cmd/text/terminal.h"

#define TABLE_COLUMNS 16

struct table_column {
	const char *over, *head; /* two lines of heading; NULL: nothing */
	int width;               /* columns, those of the heading included */
	int used;                /* columns of its widest text; 0: not known; by table_widen */
	int gap;                 /* blanks before it */
	bool right;              /* align texts to the right */
	bool begins; /* begins a group of columns, which is not broken if it fits one line */
	int least;   /* texts may be shortened to this number of columns; 0: they may not */
};

struct table {
	struct table_column *columns;
	int n;       /* at most TABLE_COLUMNS */
	char mark;   /* the first character of the heading's lines; '\0': a blank */
	int room;    /* columns of the terminal; 0: any number; set by table_fit */
	bool broken; /* rows have several lines; set by table_fit */
};

struct table_cell {
	const char *text; /* as text_escape makes it; NULL: nothing */
	enum terminal_style style;
};

/* Take note of the widths of these cells. */
void table_widen(struct table *, const struct table_cell *);
/* Fit the table into the present width of the terminal, if stdout is one. */
void table_fit(struct table *);
void table_heading(const struct table *);
/* Print a line below a row, from column @indent on; it is wrapped to the terminal's width. */
void table_remark(const struct table *, int indent, const char *text);
/* Print a row of t->n cells. */
void table_row(const struct table *, const struct table_cell *);

#endif
