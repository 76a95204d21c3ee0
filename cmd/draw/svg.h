/*
 * Self-contained pictures: SVG without scripts, and without external fonts and style sheets; light
 * or dark by the reader's setting.
 */
#ifndef COLLCTL_CMD_DRAW_SVG_H
#define COLLCTL_CMD_DRAW_SVG_H

#include <stdbool.h>
#include <stdio.h>

#include "lib/base/err.h"

/* Begin a picture of @width times @height pixels. Its style has the classes "title" and "note" for
 * texts, and a background; @style: further rules. */
void svg_begin(FILE *, double width, double height, const char *title, const char *style);

/* Write text as the content of an element or an attribute. Bytes that are not printable ASCII
 * become \xNN. */
void svg_text(FILE *, const char *);

/* End the picture and close its stream, which open_memstream opened with @text. False: out of
 * memory; *text is freed. */
bool svg_end(FILE *, char **text);

/* Write @svg[len] to the file @path, which is replaced as a whole; "-": stdout. ERR_OUTPUT. */
int svg_write(const char *path, const char *svg, size_t len, struct err *err);

#endif
