/* --trace-svg: draws what a job has done, as `plan --svg` draws a plan. */
#ifndef COLLCTL_CMD_DRAW_TRACE_SVG_H
#define COLLCTL_CMD_DRAW_TRACE_SVG_H

#include "lib/base/vec.h"
#include "lib/coll/coll.h"

/* The messages and local steps to draw. Of a long job only those of the first windows are kept. */
struct trace_picture {
	VEC(struct trace_ranked {
		int rank;
		struct trace_event e;
	})
	events;
	uint32_t windows; /* events of windows below this number are kept */
	uint32_t all;     /* number of windows of the job */
	bool lacks;       /* memory ran out */
};

void trace_picture_add(struct trace_picture *, const struct coll_traced *);
/* Malloced; NULL: out of memory. @host: as in struct coll_args, or NULL. */
char *trace_picture_draw(struct trace_picture *, const char *title, int size, const int *host,
                         size_t *len);
void trace_picture_release(struct trace_picture *);

#endif
