#include "cmd/inputs.h"

#include <stdio.h>
#include <string.h>

int inputs_check(const struct options *o, struct err *err)
{
	const char *with = o->dtype      ? "--dtype"
	                   : o->shape    ? "--shape"
	                   : o->format   ? "--format"
	                   : o->ninclude ? "--include"
	                   : o->nexclude ? "--exclude"
	                                 : NULL;
	if (o->times && !o->raw_file)
		return err_set(err, ERR_USAGE, "--times: needs --raw-file");
	if (!o->raw_file || !with)
		return 0;
	return err_set(err, ERR_USAGE, "%s: --raw-file takes the bytes as they are: leave one out",
	               with);
}

/* A file that is no array can be taken as it is. */
static int hint_at_bytes(const struct command *cmd, struct err *err)
{
	size_t n = strlen(err->text);

	if ((cmd->opts & OPTS_BYTES) && err->code == ERR_USAGE)
		snprintf(err->text + n, sizeof err->text - n, ", or --raw-file for its bytes");
	return -1;
}

/* Whoever writes to a pipe may take long: meanwhile the job goes on, and can be stopped. */
static int await_pipe(void *ctx, int fd, struct err *err)
{
	const struct input_source *in = ctx;

	return job_await(in->job, fd, err);
}

static void skip(void *ctx, const char *path, bool symlink)
{
	const struct input_source *in = ctx;

	if (in->o->verbose >= 0)
		report_note("rank %d: %s: is %s: left out", job_rank(in->job), path,
		            symlink ? "a symbolic link" : "neither a file nor a folder");
}

/* So does who unpacks an archive. */
static int unpack_aside(void *ctx, int (*fn)(void *, struct err *), void *arg, struct err *err)
{
	const struct input_source *in = ctx;

	return job_aside(in->job, fn, arg, err);
}

int inputs_open(struct dataset *d, const char *path, const struct input_source *in, struct err *err)
{
	const struct options *opts = in->o;
	const struct array_hints hints = {
	        .format = array_format_by_name(opts->format),
	        .dtype = opts->dtype ? dtype_by_name(opts->dtype) : DTYPE_NONE,
	        .shape = opts->shape,
	};
	const struct dataset_source from = {.hints = &hints,
	                                    .await = in->job ? await_pipe : NULL,
	                                    .aside = in->job ? unpack_aside : NULL,
	                                    .skip = in->trees ? skip : NULL,
	                                    .ctx = (void *)in,
	                                    .raw_file = in->raw_file};

	if (dataset_open(d, path, &from, err) == 0)
		return 0;
	return hint_at_bytes(in->cmd, err);
}

int inputs_select(struct dataset *d, const struct options *o, struct err *err)
{
	if (!o->ninclude && !o->nexclude)
		return 0;
	return dataset_select(d, o->include, o->ninclude, o->exclude, o->nexclude, err);
}
