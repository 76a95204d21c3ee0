/* bench: measure a collective over sizes and algorithms. */
#include "cmd/bench_print.h"
#include "cmd/job.h"
#include "cmd/request.h"
#include "cmd/result.h"

struct bench_view {
	struct job_view job;
	enum bench_form form;
	json_t *rows;
};

static void on_measuring(void *ctx, const struct bench_head *head)
{
	const struct bench_view *v = ctx;
	bench_print_head(head, v->form);
}

static void on_measured(void *ctx, const struct bench_head *head, const struct bench_row *row)
{
	const struct bench_view *v = ctx;
	if (head->rank == 0)
		bench_print_row(head, row, v->form);
	json_array_append_new(v->rows, bench_row_json(head, row));
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
	if (o->json && o->csv)
		return err_set(err, ERR_USAGE,
		               "--json and --csv both write to stdout: give one of them");
	return ret;
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

int cmd_bench(const struct command *cmd, struct options *o, int argc, char **argv)
{
	struct bench_view view = {.form = o->json  ? BENCH_JSON
	                                  : o->csv ? BENCH_CSV
	                                           : BENCH_TABLE,
	                          .rows = json_array()};
	struct coll_observer observer = job_observer(&view.job, cmd, o);
	struct coll_result result = {.err = {.rank = ERR_RANK_SELF}, .rank = -1};
	struct coll_request request;
	observer.ctx = &view;
	observer.opened = NULL; /* the rows show the progress */
	observer.measuring = on_measuring;
	observer.measured = on_measured;
	if (ask(&request, cmd, o, argc, argv, &result.err) == 0)
		coll_run(&request, &observer, &result);
	int code = print_result(&view, cmd, argv[1], &result);
	coll_end(&result);
	json_decref(view.rows);
	return code;
}
