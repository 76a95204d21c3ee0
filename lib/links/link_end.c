#include "lib/links/link_end.h"

void link_end_stop(struct link_end *e)
{
	e->over = true;
	if (e->conn)
		e->conn->on_ready = NULL;
}

bool link_end_fail(struct link_end *e, enum link_state state, const char *why)
{
	struct job *job = e->all->job;
	const int rank = job_rank(job);
	const bool reports = !e->over && !e->all->lacking.code;
	link_end_stop(e);
	if (reports)
		job_link_failed(job, e->out ? rank : e->peer, e->out ? e->peer : rank, state, why);
	return reports;
}

bool link_end_broke(struct link_end *e, const struct err *err)
{
	if (err->code == ERR_RESOURCE)
		e->all->lacking = *err;
	return link_end_fail(e, link_state_of(err), err->text);
}

int link_ends_check(struct link_ends *all, struct err *err)
{
	if (!all->lacking.code && mesh_state(all->mesh, &all->lacking) >= 0)
		return 0;
	*err = all->lacking;
	err->rank = ERR_RANK_SELF;
	return -1;
}
