#include "cmd/text/explain.h"

#include <inttypes.h>
#include <stdio.h>

#include "cmd/text/report.h"
#include "lib/sched/placement.h"

void price_remark(const struct selection *s, const struct select_price *p, char *text, size_t cap)
{
	static const char *const taken[] = {
	        [SELECT_BY_FORMULA] = "chosen: the fastest by formula",
	        [SELECT_BY_MEASUREMENT] = "chosen: the fastest measured",
	        [SELECT_BY_ROUNDING] = "chosen: rounds 16-bit floats once",
	        [SELECT_BY_LINKS] = "chosen: uses the links of barrier without -a",
	        [SELECT_BY_NAME] = "chosen: given by --algorithm",
	};
	size_t at = 0;

	*text = '\0';
	if (p->alg == s->alg)
		at = (size_t)snprintf(text, cap, "%s", taken[s->reason]);
	if (p->verdict == SELECT_FALLS_BACK)
		snprintf(text + at, cap - at, "%sfalls back to %s", at ? ", " : "", p->runs->name);
	else if (p->alg == s->alg)
		return;
	else if (p->verdict == SELECT_FOLDS)
		snprintf(text, cap, "adds in pairs");
	else if (p->verdict == SELECT_UNORDERED)
		snprintf(text, cap, "cannot add in rank order");
	else if (p->verdict == SELECT_DIVERGENT)
		snprintf(text, cap, "needs --allow-divergent");
	else if (p->verdict == SELECT_EVEN)
		snprintf(text, cap, "is for links that differ");
}

/* Does `plan` have options for all that decides? */
static bool can_plan(const struct select_args *a)
{
	const bool links = a->network && a->network->known;
	const bool converts = a->out != DTYPE_NONE && a->out != a->dtype;

	return !links && !converts && !a->tuning && !a->blocks && !a->weighted && !a->folds &&
	       !a->joint && !a->origin && !a->uneven && dtype_size(a->dtype) > 0;
}

/* " --hosts 2,3": the numbers of ranks on the hosts. False if the ranks of a host do not follow
 * each other, or the hosts are too many for a line. */
static bool put_hosts(char *text, size_t cap, const int *host, int size)
{
	size_t at = (size_t)snprintf(text, cap, " --hosts ");

	for (int first = 0, end; first < size; first = end) {
		for (end = first + 1; end < size && host[end] == host[first]; end++)
			;
		if (end < size && host[end] < host[first])
			return false;
		at += (size_t)snprintf(text + at, cap - at, "%s%d", first ? "," : "", end - first);
		if (at + 16 > cap)
			return false;
	}
	return true;
}

#define PLAN_TEXT 640

/* The command with which `plan` prints the schedules of the job. */
static bool plan_command(const struct select_args *a, const struct selection *s,
                         char text[PLAN_TEXT])
{
	const struct coll_args placed = {.size = a->size, .host = a->host};
	const bool several = a->host && hosts_count(&placed) > 1;
	const struct {
		bool given;
		const char *option;
	} flags[] = {{a->ordered, " --order rank"},
	             {a->divergent, " --allow-divergent"},
	             {a->insecure, " --insecure"},
	             {!a->memory, " --lanes tcp"}};
	char hosts[256] = "";

	if (several && !put_hosts(hosts, sizeof hosts, a->host, a->size))
		return false;
	int at = snprintf(text, PLAN_TEXT, "collctl plan %s -n %d%s --count %" PRIu64 " --dtype %s",
	                  coll_name(a->kind), a->size, hosts, a->bytes / dtype_size(a->dtype),
	                  dtype_name(a->dtype));
	const struct {
		bool given;
		const char *name;
		unsigned long long value;
	} numbers[] = {{a->host_cpus && !several, "host-cpus", (unsigned)a->host_cpus},
	               {a->root, "root", (unsigned)a->root},
	               {a->base, "base", a->base},
	               {a->steps, "steps", a->steps}};

	if (s->reason == SELECT_BY_NAME)
		at += snprintf(text + at, PLAN_TEXT - (size_t)at, " -a %s", s->alg->name);
	if (coll_reduces(a->kind))
		at += snprintf(text + at, PLAN_TEXT - (size_t)at, " --op %s",
		               reduce_op_name(a->op));
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		if (numbers[i].given)
			at += snprintf(text + at, PLAN_TEXT - (size_t)at, " --%s %llu",
			               numbers[i].name, numbers[i].value);
	for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
		if (flags[i].given)
			at += snprintf(text + at, PLAN_TEXT - (size_t)at, "%s", flags[i].option);
	return true;
}

void explain_selection(const struct select_args *a, const struct selection *s)
{
	char command[PLAN_TEXT];

	report_note("%s of %d ranks, %" PRIu64 " bytes of %s%s: predicted times",
	            coll_name(a->kind), a->size, a->bytes, dtype_name(a->dtype),
	            a->insecure ? ", --insecure" : "");
	for (size_t i = 0; i < s->nprices; i++) {
		const struct select_price *p = &s->prices[i];
		char measured[48] = "", remark[96];

		price_remark(s, p, remark, sizeof remark);
		if (p->measured >= 0)
			snprintf(measured, sizeof measured, ", %.3f ms measured",
			         p->measured * 1e3);
		report_note("%-20s %10.3f ms predicted%s%s%s", p->alg->name, p->formula * 1e3,
		            measured, *remark ? ", " : "", remark);
	}
	if (s->reason == SELECT_BY_MEASUREMENT)
		report_note("measured with %" PRIu64 " bytes", s->measured_at);
	if (can_plan(a) && plan_command(a, s, command))
		report_note("this prints the schedules: %s", command);
}
