#include "cmd/trace.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/report.h"
#include "cmd/svg.h"
#include "cmd/trace_json.h"
#include "lib/base/path.h"
#include "lib/base/units.h"
#include "lib/coll/paths.h"
#include "lib/data/target.h"

/* Is @path one of @names, of any rank? Patterns of inputs are not expanded. Only names that end
 * alike are looked up: ranks may be many, and their files far away. */
static bool is_named(const char *path, const char *const *names, int n, int size)
{
	const uint64_t place = target_place(path, true);
	bool same = false;

	for (int i = 0; place && i < n && !same; i++) {
		const int fills = paths_vary(names[i]) ? size : 1;
		for (int r = 0; r < fills && !same; r++) {
			struct err ignored = {.rank = ERR_RANK_SELF};
			char *name = paths_fill(names[i], r, size, NULL, &ignored);
			same = name && strcmp(path_name(name), path_name(path)) == 0 &&
			       target_place(name, true) == place;
			free(name);
		}
	}
	return same;
}

/* The trace would replace a file of the job. */
static int check_place(const struct trace_files *t, const char *option, const char *path, int size,
                       struct err *err)
{
	const struct coll_request *r = t->request;

	if (!path)
		return 0;
	if (is_named(path, r->outputs, r->noutputs, size))
		return err_set(err, ERR_USAGE, "%s: %s is an output: give another name", option,
		               path);
	if (is_named(path, (const char *const *)r->inputs, r->ninputs, size))
		return err_set(err, ERR_USAGE, "%s: %s is an input: give another name", option,
		               path);
	return 0;
}

static int check_places(const struct trace_files *t, int size, struct err *err)
{
	const struct options *o = t->o;

	if (check_place(t, "--trace", o->trace, size, err) < 0 ||
	    check_place(t, "--trace-svg", o->trace_svg, size, err) < 0)
		return -1;
	if (o->trace && o->trace_svg && is_named(o->trace, &o->trace_svg, 1, 1))
		return err_set(err, ERR_USAGE,
		               "--trace-svg: %s is the file of --trace: give another name",
		               o->trace_svg);
	return 0;
}

/* Before data move: a file that cannot be written fails the job now. */
static int begin(struct trace_files *t, int size, struct err *err)
{
	int fd;

	if (check_places(t, size, err) < 0)
		return -1;
	t->errors = calloc((size_t)size, sizeof *t->errors);
	if (!t->errors)
		return err_nomem(err, "the trace", (size_t)size * sizeof *t->errors);
	if (t->o->trace_svg) {
		struct outfile picture;
		bool exists;
		if (outfile_probe(&picture, t->o->trace_svg, 0, true, &exists, err) < 0)
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

static int commit_json(struct trace_files *t, const struct coll_result *r, struct err *err)
{
	trace_json_end(t->text, t->command, r, t->errors, t->missed);
	fflush(t->text);
	if (check_text(t, err) < 0 || outfile_measure(&t->json, err) < 0 ||
	    outfile_seal(&t->json, err) < 0)
		return -1;
	return outfile_commit(&t->json, err);
}

static int commit_picture(struct trace_files *t, const struct coll_result *r, struct err *err)
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
	ret = svg_write(t->o->trace_svg, svg, len, err);
	free(svg);
	return ret;
}

int trace_commit(struct trace_files *t, const struct coll_result *r, struct err *err)
{
	if (!t->errors)
		return 0;
	if (t->missed)
		report_note("rank %d: --trace: the ranks did not keep %" PRIu64
		            " events, the last of them: their records were full",
		            r->rank, t->missed);
	if ((t->text && commit_json(t, r, err) < 0) ||
	    (t->o->trace_svg && commit_picture(t, r, err) < 0)) {
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
	trace_picture_release(&t->picture);
	free(t->errors);
	*t = (struct trace_files){0};
}
