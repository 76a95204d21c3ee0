#include "cmd/options/request.h"

int request_from_options(struct coll_request *r, enum coll_work work, const struct command *cmd,
                         const struct options *o, int argc, char **argv, struct err *err)
{
	*r = o->request;
	r->work = work;
	r->command = cmd->name;
	r->trace = o->trace || o->trace_svg;
	r->also[0] = (struct coll_also){"--trace", o->trace};
	r->also[1] = (struct coll_also){"--trace-svg", o->trace_svg};
	r->also[2] = (struct coll_also){"--svg", options_svg_to_stdout(o) ? NULL : o->svg};
	if (r->trace && r->dry_run)
		return err_set(err, ERR_USAGE, "--dry-run: no data move, so there is no --trace");
	r->inputs = argv + 1;
	r->ninputs = argc - 1;
	r->files.takes_bytes = command_groups(cmd) & FOR_BYTES;
	if (work == WORK_COLLECTIVE && coll_by_name(cmd->name, &r->kind) < 0)
		return err_set(err, ERR_OTHER, "%s is not a collective", cmd->name);
	return 0;
}
