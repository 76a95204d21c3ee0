/* Inputs as the command line describes them: --format, --dtype, --shape, --raw-file, --include,
 * --exclude. */
#ifndef COLLCTL_CMD_INPUTS_H
#define COLLCTL_CMD_INPUTS_H

#include "cmd/options.h"
#include "lib/data/dataset.h"
#include "lib/job/job.h"

struct input_source {
	const struct command *cmd;
	const struct options *o;
	bool raw_file; /* any bytes */
	bool trees;    /* with raw_file: folders too */
	struct job
	        *job; /* which goes on while a pipe is awaited, an archive unpacked; NULL: none */
};

/* --raw-file excludes what says more of a file. ERR_USAGE. */
int inputs_check(const struct options *, struct err *err);
/* dataset_open; of a command that takes any bytes the error says how. */
int inputs_open(struct dataset *, const char *path, const struct input_source *, struct err *err);
/* Keep the tensors that are wanted. */
int inputs_select(struct dataset *, const struct options *, struct err *err);

#endif
