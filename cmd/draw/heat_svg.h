/* A picture of how much each rank sends to each other rank, for many ranks. */
#ifndef COLLCTL_CMD_DRAW_HEAT_SVG_H
#define COLLCTL_CMD_DRAW_HEAT_SVG_H

#include <stddef.h>
#include <stdint.h>

struct heat_view {
	const char *title, *note; /* above the picture */
	int size;                 /* ranks */
	const int *host;          /* as in struct coll_args, to mark the hosts; NULL: not known */
};

/* heat_each calls @add for every message. */
typedef void heat_add(void *cells, int from, int to, uint64_t bytes);
typedef void heat_each(const void *ctx, heat_add *add, void *cells);

/* Draw the picture. If there are too many ranks, a cell stands for several neighbours. Malloced,
 * *len bytes; NULL: out of memory. */
char *heat_svg(const struct heat_view *, heat_each *each, const void *ctx, size_t *len);

#endif
