#include "cmd/job_command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/options/request.h"
#include "cmd/run/retry.h"
#include "cmd/text/explain.h"
#include "cmd/text/result.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/data/dataset/dataset.h"

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
	print_source(v, rank, "listening at", c->settings->addresses.listen,
	             &o->request.settings.addresses.listen);
	print_source(v, rank, "advertising", c->settings->addresses.advertise,
	             &o->request.settings.addresses.advertise);
	print_source(v, rank, "using the interface", c->settings->addresses.iface,
	             &o->request.settings.addresses.iface);
	print_source(v, rank, "using the congestion control", c->settings->congestion,
	             &o->request.settings.congestion);
}

/* ---- the observer ---- */

static void on_opened(void *ctx, struct job *job)
{
	struct job_view *v = ctx;
	progress_start_job(&v->progress, v->o, v->command, job);
	v->progress.counts = strcmp(v->command, "check") == 0; /* measurements */
}

static void on_comparing(void *ctx, const struct coll *coll)
{
	struct job_view *v = ctx;
	progress_compares(&v->progress, coll);
}

static void on_moving(void *ctx, uint64_t bytes, const struct coll *coll)
{
	struct job_view *v = ctx;
	progress_files(&v->progress, bytes, coll);
}

static void on_selected(void *ctx, const struct select_args *args, const struct selection *s)
{
	(void)ctx;
	explain_selection(args, s);
}

static int on_traced(void *ctx, const struct coll_traced *part, struct err *err)
{
	struct job_view *v = ctx;
	return trace_take(&v->trace, part, err);
}

static int on_traced_all(void *ctx, const struct coll_result *r, struct err *err)
{
	struct job_view *v = ctx;
	return trace_finish(&v->trace, r, err);
}

static int told_verdict = -1;

void job_tell_verdict(int fd)
{
	told_verdict = fd;
}

static void on_decided(void *ctx)
{
	(void)ctx;
	if (told_verdict >= 0 && io_retry(write(told_verdict, "", 1)) < 0)
		errno = 0; /* nobody listens any more */
}

struct coll_observer job_observer(struct job_view *view, const struct command *cmd,
                                  const struct options *o)
{
	*view = (struct job_view){
	        .o = o, .command = cmd->name, .trace = {.o = o, .command = cmd->name}};
	return (struct coll_observer){.ctx = view,
	                              .note = print_note,
	                              .joining = on_joining,
	                              .opened = on_opened,
	                              .comparing = on_comparing,
	                              .moving = on_moving,
	                              .selected = on_selected,
	                              .traced = on_traced,
	                              .traced_all = on_traced_all,
	                              .decided = on_decided};
}

/* ---- the command ---- */

struct one_job {
	enum coll_work work;
	const struct command *cmd;
	const struct options *o;
	int argc;
	char **argv;
};

/* The failure is not the job's result: the job begins again. */
static void print_loss(const struct options *o, const struct coll_result *result, int left)
{
	if (o->verbose < 0)
		return;
	report(&result->err, result->rank);
	report_note("the job begins again (try %d of %d)", o->retry - left + 2, o->retry + 1);
}

void job_set_device_environment(const struct coll_request *r)
{
	const char *file = getenv("NCCL_DEBUG_FILE"), *level = getenv("NCCL_DEBUG");
	if (!r->devices.wanted)
		return;
	setenv("NCCL_SOCKET_IFNAME", "lo", 0);
	setenv("NCCL_RAS_ENABLE", "0", 0);
	/* The version goes to stdout even with a file. */
	if (!file || !*file || (level && strcasecmp(level, "VERSION") == 0))
		unsetenv("NCCL_DEBUG");
	/* A queue for each stream: streams of one queue wait for each other. */
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
}

static int run_once(void *ctx, int left, bool *again)
{
	const struct one_job *j = ctx;
	struct coll_request request;
	struct coll_result result = {.err = ERR_INIT, .rank = -1};
	struct job_view view;
	const struct coll_observer observer = job_observer(&view, j->cmd, j->o);
	int ret = request_from_options(&request, j->work, j->cmd, j->o, j->argc, j->argv,
	                               &result.err);
	if (j->o->retry)
		request.settings.ask = NULL; /* each try would ask */
	if (left < j->o->retry)
		request.settings.started = clock_ns(); /* a later try is no rank left over */
	job_set_device_environment(&request);
	if (ret == 0)
		ret = coll_run(&request, &observer, &result);
	if (ret == 0)
		trace_commit(&view.trace, &result, &result.err);
	trace_files_release(&view.trace);
	progress_stop(&view.progress);
	/* Report a failure before coll_end, where rank 0 may still wait for other ranks. */
	int code = result.err.code;
	*again = result.repeatable && left > 0;
	if (*again)
		print_loss(j->o, &result, left);
	else
		code = result_print(&result, &request, j->o);
	coll_end(&result);
	return code;
}

/* A descriptor can be read only once: the next try would find it empty. */
static int check_retry(const struct one_job *j, struct err *err)
{
	const struct job_settings *s = &j->o->request.settings;
	const char *option = s->secret_fd >= 0             ? "--secret-fd"
	                     : s->tls_key_password_fd >= 0 ? "--tls-key-password-fd"
	                                                   : NULL;
	if (option)
		return err_set(err, ERR_USAGE,
		               "--retry: %s can be read only once; use a file or the environment",
		               option);
	for (int i = 1; i < j->argc; i++)
		if (dataset_is_pipe(j->argv[i]))
			return err_set(err, ERR_USAGE,
			               "--retry: the input %s can be read only once; use a file",
			               j->argv[i]);
	return 0;
}

int job_command(enum coll_work work, const struct command *cmd, const struct options *o, int argc,
                char **argv)
{
	struct one_job j = {.work = work, .cmd = cmd, .o = o, .argc = argc, .argv = argv};
	struct err err = ERR_INIT;
	bool again;
	if (!o->retry)
		return run_once(&j, 0, &again);
	if (check_retry(&j, &err) < 0)
		return report_failure(cmd->name, o->json, &err);
	int code = retry(o->retry, run_once, &j, &err);
	return code < 0 ? report_failure(cmd->name, o->json, &err) : code;
}
