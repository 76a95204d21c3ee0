#include "cmd/trace/trace_files.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/text/report.h"
#include "cmd/trace/trace_json.h"
#include "lib/base/units.h"

/* Before data move: a file that cannot be written fails the job now. */
static int begin(struct trace_files *t, int size, struct err *err)
{
	int fd;

	if (!(t->errors = err_calloc((size_t)size, sizeof *t->errors, "the trace", err)))
		return -1;
	if (t->o->trace_svg) {
		struct outfile picture;
		bool exists;
		if (outfile_probe(&picture, t->o->trace_svg, 0, NULL, true, &exists, err) < 0)
			return -1;
		outfile_release(&picture);
	}
	if (!t->o->trace)
		return 0;
	if (outfile_open(&t->json, t->o->trace, 0, false, true, err) < 0)
		return -1;
	fd = dup(t->json.fd);
	t->text = fd < 0 ? NULL : fdopen(fd, "w");
	if (!t->text) {
		if (fd >= 0)
			close(fd);
		return err_errno(err, ERR_RESOURCE, "%s", t->o->trace);
	}
	trace_json_begin(t->text);
	return 0;
}

static int check_text(const struct trace_files *t, struct err *err)
{
	return ferror(t->text) ? err_errno(err, ERR_OUTPUT, "%s", t->o->trace) : 0;
}

int trace_take(struct trace_files *t, const struct coll_traced *traced, struct err *err)
{
	if (!t->errors && begin(t, traced->size, err) < 0)
		return -1;
	t->errors[traced->rank] = traced->error;
	if (traced->last)
		t->missed += traced->missed;
	if (t->o->trace_svg)
		trace_picture_add(&t->picture, traced);
	if (!t->text || !traced->n)
		return 0;
	trace_json_add(t->text, traced);
	fflush(t->text); /* a full disk is found before the vote */
	return check_text(t, err);
}

static int finish_json(struct trace_files *t, const struct coll_result *r, struct err *err)
{
	trace_json_end(t->text, t->command, r, t->errors, t->missed);
	fflush(t->text);
	if (check_text(t, err) < 0 || outfile_measure(&t->json, err) < 0)
		return -1;
	return outfile_seal(&t->json, err);
}

static int finish_picture(struct trace_files *t, const struct coll_result *r, struct err *err)
{
	char title[256], size[UNITS_TEXT], *svg;
	size_t len;
	int ret;

	snprintf(title, sizeof title, "%s %s, %d rank%s, %s of %s", t->command,
	         r->algorithm ? r->algorithm->name : "", r->size, r->size == 1 ? "" : "s",
	         size_text(r->bytes, size), r->dtype ? r->dtype : "bytes");
	svg = trace_picture_draw(&t->picture, title, r->size, r->hosts > 1 ? r->host : NULL, &len);
	if (!svg)
		return err_nomem(err, "the picture of the trace", 0);
	ret = outfile_open(&t->svg, t->o->trace_svg, len, true, true, err);
	if (ret == 0)
		ret = outfile_pwrite(&t->svg, svg, len, 0, err);
	if (ret == 0)
		ret = outfile_seal(&t->svg, err);
	free(svg);
	return ret;
}

int trace_finish(struct trace_files *t, const struct coll_result *r, struct err *err)
{
	if (t->text && finish_json(t, r, err) < 0)
		return -1;
	return t->o->trace_svg ? finish_picture(t, r, err) : 0;
}

int trace_commit(struct trace_files *t, const struct coll_result *r, struct err *err)
{
	if (!t->errors)
		return 0;
	if (t->missed)
		report_note("rank %d: --trace: the last %" PRIu64
		            " events are missing: the records of the ranks were full",
		            r->rank, t->missed);
	if ((t->text && outfile_commit(&t->json, err) < 0) ||
	    (t->o->trace_svg && outfile_commit(&t->svg, err) < 0)) {
		char why[sizeof err->text];
		memcpy(why, err->text, sizeof why);
		snprintf(err->text, sizeof err->text, "%.*s; the outputs are complete",
		         (int)sizeof err->text - 40, why);
		return -1;
	}
	return 0;
}

void trace_files_release(struct trace_files *t)
{
	if (t->text)
		fclose(t->text);
	outfile_release(&t->json);
	outfile_release(&t->svg);
	trace_picture_release(&t->picture);
	free(t->errors);
	*t = (struct trace_files){0};
}
