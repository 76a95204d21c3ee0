#include "cmd/options/request.h"

#include <string.h>

static int check_name(const char *option, const char *path, struct err *err)
{
	if (path && strcmp(path, "-") == 0)
		return err_set(err, ERR_USAGE, "%s: - is not a file: give the name of one", option);
	return 0;
}

/* A trace is not for stdout, which has the job's results. */
static int check_trace(const struct options *o, bool dry_run, struct err *err)
{
	if ((o->trace || o->trace_svg) && dry_run)
		return err_set(err, ERR_USAGE, "--dry-run: no data move, so there is no --trace");
	if (check_name("--trace", o->trace, err) < 0)
		return -1;
	return check_name("--trace-svg", o->trace_svg, err);
}

int request_from_options(struct coll_request *r, enum coll_work work, const struct command *cmd,
                         const struct options *o, int argc, char **argv, struct err *err)
{
	*r = o->request;
	r->work = work;
	r->command = cmd->name;
	r->trace = o->trace || o->trace_svg;
	r->also[0] = (struct coll_also){"--trace", o->trace};
	r->also[1] = (struct coll_also){"--trace-svg", o->trace_svg};
	r->also[2] = (struct coll_also){"--svg", o->svg};
	if (check_trace(o, r->dry_run, err) < 0)
		return -1;
	r->inputs = argv + 1;
	r->ninputs = argc - 1;
	r->files.takes_bytes = command_groups(cmd) & FOR_BYTES;
	if (work == WORK_COLLECTIVE && coll_by_name(cmd->name, &r->kind) < 0)
		return err_set(err, ERR_OTHER, "%s is not a collective", cmd->name);
	return 0;
}
