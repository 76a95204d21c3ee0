/* check: test and measure every link between the ranks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/draw/svg.h"
#include "cmd/job_command.h"
#include "cmd/options/request.h"
#include "cmd/run/run_rank.h"
#include "cmd/text/check_print.h"
#include "cmd/text/result.h"
#include "lib/coll/result_json.h"

struct links_view {
	struct job_view job;
	json_t *found; /* with --json: of check_json; NULL: not known here */
};

static const char *host_of(void *ctx, int rank)
{
	return job_host(ctx, rank);
}

static int write_picture(const struct check_view *view, const char *path, struct err *err)
{
	size_t len;
	char *svg = check_svg(view, &len);
	if (!svg)
		return err_nomem(err, "the picture of the links", 0);
	int ret = svg_write(path, svg, len, err);
	free(svg);
	return ret;
}

static int on_checked(void *ctx, struct job *job, const struct link_matrix *links, struct err *err)
{
	struct links_view *v = ctx;
	const struct options *o = v->job.o;
	const struct check_view view = {.links = links,
	                                .host = host_of,
	                                .ctx = job,
	                                .insecure = o->request.settings.insecure,
	                                .time = o->request.check.time,
	                                .absent = o->request.check.absent};
	progress_stop(&v->job.progress);
	const bool picture_only = options_svg_to_stdout(o);
	if (o->json)
		v->found = check_json(&view);
	else if (!picture_only)
		check_print_text(&view);
	return o->svg ? write_picture(&view, o->svg, err) : 0;
}

static json_t *json_of(const struct links_view *v, const struct command *cmd,
                       const struct coll_result *r)
{
	json_t *j = result_json_end(result_json_begin(cmd->name, r), r);
	json_object_set_new(j, "missing", result_missing_json(r));
	if (j && v->found && json_object_update(j, v->found) < 0) {
		json_decref(j);
		j = NULL;
	}
	return j;
}

int cmd_check(const struct command *cmd, struct options *o, int argc, char **argv)
{
	struct links_view view = {0};
	struct coll_observer observer = job_observer(&view.job, cmd, o);
	struct coll_result result = {.err = ERR_INIT, .rank = -1};
	struct coll_request request;
	observer.checked = on_checked;
	o->request.check.absent = getenv(RANK_ABSENT);
	if (o->json && options_svg_to_stdout(o))
		err_set(&result.err, ERR_USAGE,
		        "--json and --svg - both write to stdout: give one of them");
	else if (request_from_options(&request, WORK_CHECK, cmd, o, argc, argv, &result.err) == 0)
		coll_run(&request, &observer, &result);
	progress_stop(&view.job.progress);
	int code = result.err.code ? report(&result.err, result.rank) : 0;
	if (o->json) {
		int printed = report_json(json_of(&view, cmd, &result));
		code = code ? code : printed;
	}
	coll_end(&result);
	json_decref(view.found);
	return code;
}
