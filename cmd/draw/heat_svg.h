/* A picture of who sends how much to whom, for many ranks. */
#ifndef COLLCTL_CMD_DRAW_HEAT_SVG_H
#define COLLCTL_CMD_DRAW_HEAT_SVG_H

#include <stddef.h>
#include <stdint.h>

struct heat_view {
	const char *title, *note; /* above the picture */
	int size;                 /* ranks */
	const int *host;          /* as in struct coll_args; NULL: no blocks */
};

/* Calls @add for every message. */
typedef void heat_add(void *cells, int from, int to, uint64_t bytes);
typedef void heat_each(const void *ctx, heat_add *add, void *cells);

/* Neighbours share a cell if the picture would not be readable otherwise. Malloced; NULL: out of
 * memory. */
char *heat_svg(const struct heat_view *, heat_each *each, const void *ctx, size_t *len);

#endif
