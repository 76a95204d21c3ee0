/* A chart of lines: x is bytes on a logarithmic scale, y a value. Each line's name is at its end;
 * hover texts describe lines and points. */
#ifndef COLLCTL_CMD_DRAW_CHART_SVG_H
#define COLLCTL_CMD_DRAW_CHART_SVG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define CHART_VALUE 32 /* bytes of a value's text */

struct chart_point {
	double x, y;    /* bytes, value; both > 0 */
	bool joined;    /* to the line's previous point */
	bool marked;    /* a circle, with a hover text */
	const void *of; /* for the caller's hover */
};

struct chart_line {
	const char *name, *remark,
	        *help; /* all are in the hover text; remark: "" or ", which ..." */
	bool dashed;
	struct chart_point *points;
	size_t n; /* 0: the line is not drawn */
	/* set by chart_svg */
	int colour;
	double at; /* y of its name */
};

struct chart {
	const char *title, *note; /* above the chart */
	const char *axis;         /* the values and their unit, above their axis; "": none */
	const char *mark;         /* the legend of the circles, below the chart */
	bool log;                 /* y is logarithmic, too; else linear from 0 */
	/* Write the label @y of the axis. Returns @text. */
	char *(*value)(double y, char text[CHART_VALUE]);
	/* Write the hover text of a marked point. */
	void (*hover)(FILE *, const struct chart_line *, const struct chart_point *);
	struct chart_line *lines; /* chart_svg sorts them */
	size_t n;
};

/* Draw the chart. Malloced, *len bytes; NULL: out of memory. */
char *chart_svg(struct chart *, size_t *len);

#endif
