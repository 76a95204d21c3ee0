#include "cmd/job.h"

#include <stdio.h>

#include "cmd/request.h"
#include "cmd/result.h"

/* ---- notes ---- */

static void print_note(void *ctx, int level, int rank, const char *text)
{
	const struct job_view *v = ctx;
	if (level > v->o->verbose)
		return;
	if (rank >= 0)
		report_note("rank %d: %s", rank, text);
	else
		report_note("%s", text);
}

/* @value NULL: not given. */
static void print_source(struct job_view *v, int rank, const char *what, const char *value,
                         const void *member)
{
	char from[64], text[512];
	if (!value)
		return;
	snprintf(text, sizeof text, "%s %s (%s)", what, value,
	         options_source(v->o, member, from, sizeof from));
	print_note(v, 1, rank, text);
}

/* Rank, size and the job's name, and where each came from. */
static void print_member(const struct options *o, const struct member *m)
{
	const struct job_conf *c = &m->conf;
	const struct launch *l = &m->launch;
	char rank[64], size[64], name[64], number[16] = "auto";
	const char *file = c->hosts ? "the hostfile" : "no source";
	const char *rank_from =
	        o->request.settings.rank != -1
	                ? options_source(o, &o->request.settings.rank, rank, sizeof rank)
	        : l->rank_from ? l->rank_from
	        : c->size == 1 ? "--size 1"
	                       : file;
	const char *size_from =
	        o->request.settings.size > 0
	                ? options_source(o, &o->request.settings.size, size, sizeof size)
	        : l->size_from ? l->size_from
	                       : file;
	const char *name_from =
	        o->request.settings.job
	                ? options_source(o, &o->request.settings.job, name, sizeof name)
	        : c->name_from ? c->name_from
	                       : "the default";
	if (c->rank >= 0)
		snprintf(number, sizeof number, "%d", c->rank);
	report_note("rank %s (%s) of %d (%s), job %s (%s)%s%s", number, rank_from, c->size,
	            size_from, c->name, name_from, l->launcher ? ", started by " : "",
	            l->launcher ? l->launcher : "");
}

static void on_joining(void *ctx, const struct member *m)
{
	struct job_view *v = ctx;
	const struct options *o = v->o;
	const struct job_conf *c = &m->conf;
	int rank = c->rank >= 0 ? c->rank : -1;
	if (o->verbose <= 0)
		return;
	print_member(o, m);
	if (c->rendezvous)
		print_source(v, rank, "meeting at the store", c->rendezvous,
		             &o->request.settings.rendezvous);
	else if (c->hosts)
		print_source(v, rank, "meeting at the first host of", o->request.settings.hostfile,
		             &o->request.settings.hostfile);
	print_source(v, rank, "listening at", c->listen, &o->request.settings.listen);
	print_source(v, rank, "advertising", c->advertise, &o->request.settings.advertise);
	print_source(v, rank, "using the interface", c->iface, &o->request.settings.iface);
}

/* ---- the observer ---- */

static void on_opened(void *ctx, struct job *job)
{
	struct job_view *v = ctx;
	progress_start_job(&v->progress, v->o, v->command, job);
}

static void on_moving(void *ctx, uint64_t bytes, const struct sink *sink)
{
	struct job_view *v = ctx;
	progress_files(&v->progress, bytes, sink);
}

static void on_selected(void *ctx, const struct select_args *args, const struct selection *s)
{
	(void)ctx;
	explain_selection(args, s);
}

struct coll_observer job_observer(struct job_view *view, const struct command *cmd,
                                  const struct options *o)
{
	*view = (struct job_view){.o = o, .command = cmd->name};
	return (struct coll_observer){.ctx = view,
	                              .note = print_note,
	                              .joining = on_joining,
	                              .opened = on_opened,
	                              .moving = on_moving,
	                              .selected = on_selected};
}

int job_command(enum coll_work work, const struct command *cmd, const struct options *o, int argc,
                char **argv)
{
	struct coll_request request;
	struct coll_result result = {.err = {.rank = ERR_RANK_SELF}, .rank = -1};
	struct job_view view;
	const struct coll_observer observer = job_observer(&view, cmd, o);
	if (request_from_options(&request, work, cmd, o, argc, argv, &result.err) == 0)
		coll_run(&request, &observer, &result);
	progress_stop(&view.progress);
	/* Report a failure before coll_end, where rank 0 may still wait for other ranks. */
	int code = result_print(&result, &request, o);
	coll_end(&result);
	return code;
}
