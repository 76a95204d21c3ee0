/*
 * Pictures that stand alone: SVG without scripts, fonts or style sheets from elsewhere, light or
 * dark as the reader's screen is.
 */
#ifndef COLLCTL_CMD_DRAW_SVG_H
#define COLLCTL_CMD_DRAW_SVG_H

#include <stdbool.h>
#include <stdio.h>

#include "lib/base/err.h"

/* Begin a picture of these pixels. The style has texts (classes "title" and "note") on a
 * background; @style: the picture's own rules. */
void svg_begin(FILE *, double width, double height, const char *title, const char *style);

/* Text as the content of an element or of an attribute. Bytes that are not printable ASCII become
 * \x7f. */
void svg_text(FILE *, const char *);

/* End the picture and close its stream. @text: what the stream wrote (open_memstream). False, with
 * *@text freed: out of memory. */
bool svg_end(FILE *, char **text);

/* Write @len bytes to the file @path, in one step, or to stdout if it is "-". */
int svg_write(const char *path, const char *svg, size_t len, struct err *err);

#endif
