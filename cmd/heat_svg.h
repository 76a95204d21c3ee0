/* A picture of who sends how much to whom, for many ranks. */
#ifndef COLLCTL_CMD_HEAT_SVG_H
#define COLLCTL_CMD_HEAT_SVG_H

#include <stddef.h>
#include <stdint.h>

/* The most ranks on a side; of more, neighbours share a cell. */
#define HEAT_SIDE_MAX 256

struct heat_view {
	const char *title, *note;         /* above the picture */
	int size, group;                  /* ranks; of these in a row of cells */
	int side;                         /* cells on a side */
	const int *host;                  /* as in struct coll_args; NULL: no blocks */
	const uint64_t *bytes, *messages; /* [side * side]: from, to */
};

/* Malloced; NULL: out of memory. */
char *heat_svg(const struct heat_view *, size_t *len);

#endif
