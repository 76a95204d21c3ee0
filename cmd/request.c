#include "cmd/request.h"

int request_from_options(struct coll_request *r, enum coll_work work, const struct command *cmd,
                         const struct options *o, int argc, char **argv, struct err *err)
{
	*r = o->request;
	r->work = work;
	r->command = cmd->name;
	r->trace = o->trace || o->trace_svg;
	if (r->trace && r->dry_run)
		return err_set(err, ERR_USAGE, "--dry-run: no data move, so there is no --trace");
	r->inputs = argv + 1;
	r->ninputs = argc - 1;
	r->files.takes_bytes = cmd->opts & OPTS_BYTES;
	if (work == WORK_COLLECTIVE && coll_by_name(cmd->name, &r->kind) < 0)
		return err_set(err, ERR_OTHER, "%s is not a collective", cmd->name);
	return 0;
}
