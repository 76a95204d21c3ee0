#include "lib/coll/request/inputs.h"

#include <stdio.h>
#include <string.h>

#include "lib/job/job.h"

int inputs_check(const struct input_options *o, struct err *err)
{
	const char *with = o->dtype    ? "--dtype"
	                   : o->shape  ? "--shape"
	                   : o->format ? "--format"
	                   : o->nstrip ? "--strip"
	                               : NULL;
	if (!o->raw_file || !with)
		return 0;
	return err_set(err, ERR_USAGE,
	               "%s: --raw-file ignores types and names: remove one of the two", with);
}

/* Suggest --raw-file for a file of an unknown format, or of another than its name says. */
static int hint_at_bytes(const struct input_options *o, struct err *err)
{
	size_t n = strlen(err->text);

	if (o->takes_bytes && !o->raw_file &&
	    (err->code == ERR_USAGE || strstr(err->text, ", or give --format")))
		snprintf(err->text + n, sizeof err->text - n, ", or --raw-file for its bytes");
	return -1;
}

/* Keep the job running, and able to stop, while waiting for the writer of a pipe. */
static int await_pipe(void *ctx, int fd, struct err *err)
{
	const struct input_source *in = ctx;

	return job_await(in->job, fd, err);
}

static void skip(void *ctx, const char *path, const char *why)
{
	const struct input_source *in = ctx;

	in->skip(in->ctx, path, why);
}

/* Unpacking an archive may take long. */
static int unpack_in_thread(void *ctx, int (*fn)(void *, struct err *), void *arg, struct err *err)
{
	const struct input_source *in = ctx;

	return job_run_in_thread(in->job, fn, arg, err);
}

static void note_unused(void *ctx, const struct dataset *d, const char *option, const char *pattern)
{
	const struct input_source *in = ctx;
	char text[512];

	if (!in->note)
		return;
	snprintf(text, sizeof text, "%.300s: no %s matches %s '%.100s'", d->path,
	         d->tree ? "file or folder" : "tensor", option, pattern);
	in->note(in->ctx, text);
}

static struct dataset_patterns patterns_of(const struct input_source *in)
{
	return (struct dataset_patterns){.include = in->o->include,
	                                 .exclude = in->o->exclude,
	                                 .ninclude = in->o->ninclude,
	                                 .nexclude = in->o->nexclude,
	                                 .none = in->parts || in->none,
	                                 .unused = note_unused,
	                                 .ctx = (void *)in};
}

int inputs_open(struct dataset *d, const char *path, const struct input_source *in, struct err *err)
{
	const struct array_hints hints = {
	        .format = in->o->format, .dtype = in->o->dtype, .shape = in->o->shape};
	const struct dataset_patterns names = patterns_of(in);
	const struct dataset_source from = {.hints = &hints,
	                                    .await = in->job ? await_pipe : NULL,
	                                    .aside = in->job ? unpack_in_thread : NULL,
	                                    .skip = in->skip ? skip : NULL,
	                                    .ctx = (void *)in,
	                                    .raw_file = in->raw_file,
	                                    .names = in->o->raw_file ? &names : NULL,
	                                    .heads_only = in->heads_only,
	                                    .pieces = in->pieces,
	                                    .parts = in->parts,
	                                    .links = in->links,
	                                    .memory = in->memory};

	if (dataset_open(d, path, &from, err) == 0)
		return 0;
	return hint_at_bytes(in->o, err);
}

int inputs_select(struct dataset *d, const struct input_source *in, struct err *err)
{
	const struct input_options *o = in->o;
	const struct dataset_patterns patterns = patterns_of(in);

	if (d->tree) /* its files were chosen when it was opened */
		return 0;
	if (d->hull && in->note) {
		char text[512];
		snprintf(text, sizeof text,
		         "%.300s: its %d file%s not say the shapes of the whole tensors: pieces at "
		         "their ends may be missing",
		         d->path, d->nfiles, d->nfiles == 1 ? " does" : "s do");
		in->note(in->ctx, text);
	}
	if (dataset_select(d, &patterns, err) < 0)
		return -1;
	return dataset_strip(d, o->strip, o->nstrip, err);
}
