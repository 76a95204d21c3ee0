/* --trace and --trace-svg: writes the files with what the ranks of a job have done. */
#ifndef COLLCTL_CMD_TRACE_TRACE_FILES_H
#define COLLCTL_CMD_TRACE_TRACE_FILES_H

#include <stdio.h>

#include "cmd/draw/trace_svg.h"
#include "cmd/options/options.h"
#include "lib/coll/coll.h"
#include "lib/data/files/outfile.h"

struct trace_files {
	const struct options *o;
	const char *command;
	struct outfile json; /* of --trace */
	struct outfile svg;  /* of --trace-svg, once it is drawn */
	FILE *text;          /* what is written to it; NULL: not open */
	struct trace_picture picture;
	double *errors;  /* [size]: seconds by which the ranks' times may be wrong */
	uint64_t missed; /* events that the ranks did not keep */
};

/* As coll_observer.traced. */
int trace_take(struct trace_files *, const struct coll_traced *, struct err *err);
/* As coll_observer.traced_all: the files are complete. */
int trace_finish(struct trace_files *, const struct coll_result *, struct err *err);
/* The job has succeeded: the files get their names. */
int trace_commit(struct trace_files *, const struct coll_result *, struct err *err);
void trace_files_release(struct trace_files *); /* and remove what was not committed */

#endif
