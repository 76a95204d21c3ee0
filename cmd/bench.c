/* bench: measure a collective over sizes and algorithms. */
#include <stdlib.h>
#include <string.h>

#include "cmd/draw/svg.h"
#include "cmd/job_command.h"
#include "cmd/options/request.h"
#include "cmd/text/bench_print.h"
#include "cmd/text/result.h"
#include "lib/base/buf.h"
#include "lib/coll/result_json.h"

#define ROWS_MAX (64u << 20) /* bytes of the rows of a picture */

struct bench_view {
	struct job_view job;
	enum bench_form form;
	json_t *rows;
	struct buf drawn; /* --svg: struct bench_row of each case, on rank 0 */
};

static void on_measuring(void *ctx, const struct bench_head *head)
{
	const struct bench_view *v = ctx;
	bench_print_head(head, v->form);
}

static void on_measured(void *ctx, const struct bench_head *head, const struct bench_row *row)
{
	struct bench_view *v = ctx;
	if (head->rank == 0)
		bench_print_row(head, row, v->form);
	if (head->rank == 0 && v->job.o->svg)
		buf_put(&v->drawn, row, sizeof *row);
	json_array_append_new(v->rows, bench_row_json(head, row));
}

static int write_picture(void *ctx, const struct bench_head *head, struct err *err)
{
	const struct bench_view *v = ctx;
	const struct bench_row *rows = (const void *)v->drawn.data;
	size_t len;
	char *svg =
	        v->drawn.failed ? NULL : bench_svg(head, rows, v->drawn.len / sizeof *rows, &len);
	if (!svg)
		return err_nomem(err, "the picture of the bandwidths", v->drawn.len);
	int ret = svg_write(v->job.o->svg, svg, len, err);
	free(svg);
	return ret;
}

/* Check the options that are about the output. */
static int check_output(const struct coll_request *r, const struct options *o, struct err *err)
{
	const bool to_stdout = options_svg_to_stdout(o);
	const char *text = o->json ? "--json" : "--csv";
	if (o->json && o->csv)
		return err_set(err, ERR_USAGE,
		               "--json and --csv both write to stdout: give one of them");
	if (to_stdout && (o->json || o->csv))
		return err_set(err, ERR_USAGE,
		               "%s and --svg - both write to stdout: give one of them", text);
	if (o->svg && r->kind == COLL_BARRIER)
		return err_set(err, ERR_USAGE,
		               "bench --svg: a barrier has no bandwidth; remove --svg");
	return 0;
}

static int ask(struct coll_request *r, const struct command *cmd, const struct options *o, int argc,
               char **argv, struct err *err)
{
	int ret = request_from_options(r, WORK_BENCH, cmd, o, argc, argv, err);
	r->inputs = NULL; /* the operand is the collective */
	r->ninputs = 0;
	r->bench.dtype = r->files.dtype == DTYPE_NONE ? DTYPE_F32 : r->files.dtype;
	r->files.dtype = DTYPE_NONE;
	if (coll_by_name(argv[1], &r->kind) < 0)
		return err_set(err, ERR_USAGE, "bench: '%s' is not a collective", argv[1]);
	return ret < 0 ? -1 : check_output(r, o, err);
}

static int print_result(const struct bench_view *v, const struct command *cmd,
                        const char *collective, const struct coll_result *r)
{
	int code = r->err.code ? report(&r->err, r->rank) : 0;
	if (!v->job.o->json)
		return code;
	json_t *j = result_json_begin(cmd->name, r);
	json_object_set_new(j, "collective", json_string(collective));
	json_object_set(j, "rows", v->rows);
	int printed = report_json(result_json_end(j, r));
	return code ? code : printed;
}

static enum bench_form form_of(const struct options *o)
{
	if (options_svg_to_stdout(o))
		return BENCH_SILENT;
	return o->json ? BENCH_JSON : o->csv ? BENCH_CSV : BENCH_TABLE;
}

int cmd_bench(const struct command *cmd, struct options *o, int argc, char **argv)
{
	struct bench_view view = {.form = form_of(o), .rows = json_array()};
	struct coll_observer observer = job_observer(&view.job, cmd, o);
	struct coll_result result = {.err = ERR_INIT, .rank = -1};
	struct coll_request request;
	buf_init(&view.drawn, ROWS_MAX);
	observer.ctx = &view;
	observer.opened = NULL; /* the rows show the progress */
	observer.measuring = on_measuring;
	observer.measured = on_measured;
	observer.benched = o->svg ? write_picture : NULL;
	if (ask(&request, cmd, o, argc, argv, &result.err) == 0) {
		job_set_device_environment(&request);
		coll_run(&request, &observer, &result);
	}
	int code = print_result(&view, cmd, argv[1], &result);
	coll_end(&result);
	buf_release(&view.drawn);
	json_decref(view.rows);
	return code;
}
