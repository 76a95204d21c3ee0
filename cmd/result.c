#include "cmd/result.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cmd/report.h"
#include "lib/base/clock.h"
#include "lib/base/units.h"

static double seconds(int64_t from, int64_t to)
{
	return from && to > from ? (double)(to - from) / NS_PER_SEC : 0;
}

static double algbw(const struct result *r)
{
	double s = seconds(r->times.connect, r->times.run);
	return s > 0 ? (double)r->bytes / s / 1e9 : 0;
}

static json_t *string_or_null(const char *s)
{
	return s ? json_string(s) : json_null();
}

static json_t *seconds_json(const struct times *t)
{
	int64_t end = t->commit ? t->commit : clock_ns();
	return json_pack("{s:f, s:f, s:f, s:f, s:f}", "total", seconds(t->start, end), "join",
	                 seconds(t->start, t->join), "connect", seconds(t->join, t->connect), "run",
	                 seconds(t->connect, t->run), "commit", seconds(t->run, t->commit));
}

static json_t *to_json(const struct result *r, const struct err *err, const char *phase,
                       json_t *inputs)
{
	json_t *j = json_object();
	json_object_set_new(j, "command", json_string(r->command));
	json_object_set_new(j, "ok", json_boolean(!err));
	json_object_set_new(j, "rank", r->rank >= 0 ? json_integer(r->rank) : json_null());
	json_object_set_new(j, "size", r->size ? json_integer(r->size) : json_null());
	json_object_set_new(j, "algorithm", string_or_null(r->algorithm));
	json_object_set_new(j, "requested", string_or_null(r->requested));
	json_object_set_new(j, "op", string_or_null(r->op));
	json_object_set_new(j, "dtype", string_or_null(r->dtype));
	json_object_set_new(j, "count", json_integer((json_int_t)r->count));
	json_object_set_new(j, "bytes", json_integer((json_int_t)r->bytes));
	if (r->tensors)
		json_object_set_new(j, "tensors", json_integer((json_int_t)r->tensors));
	json_object_set_new(j, "inputs", inputs);
	json_object_set_new(j, "output", r->output ? report_path_json(r->output) : json_null());
	json_object_set_new(j, "digest", string_or_null(r->digest[0] ? r->digest : NULL));
	json_object_set_new(j, "steps", json_integer((json_int_t)r->stats.messages));
	json_object_set_new(j, "peers", json_integer(r->peers));
	json_object_set_new(j, "windows", json_integer(r->windows));
	json_object_set_new(j, "streams", json_integer(r->streams));
	json_object_set_new(j, "bytes_sent", json_integer((json_int_t)r->stats.bytes_sent));
	json_object_set_new(j, "bytes_received", json_integer((json_int_t)r->stats.bytes_received));
	json_object_set_new(j, "seconds", seconds_json(&r->times));
	json_object_set_new(j, "algbw", json_real(algbw(r)));
	json_object_set_new(j, "busbw", json_real(algbw(r) * r->bus_factor));
	if (r->found)
		json_object_set(j, "stats", r->found);
	if (r->files)
		json_object_set_new(j, "files", r->files);
	json_object_set_new(j, "error", err ? report_error_json(err, r->rank, phase) : json_null());
	return j;
}

bool result_shown(const struct options *o, int rank)
{
	return o->verbose > 0 || (o->verbose == 0 && rank == 0);
}

/* "19.7 s (join 1.0 ms, connect 3.1 ms, run 18.2 s, commit 1.5 s)" */
static char *times_text(const struct times *t, char *buf, size_t cap)
{
	char total[UNITS_TEXT], join[UNITS_TEXT], connect[UNITS_TEXT], run[UNITS_TEXT],
	        commit[UNITS_TEXT];

	snprintf(buf, cap, "%s (join %s, connect %s, run %s, commit %s)",
	         duration_text(seconds(t->start, t->commit), total),
	         duration_text(seconds(t->start, t->join), join),
	         duration_text(seconds(t->join, t->connect), connect),
	         duration_text(seconds(t->connect, t->run), run),
	         duration_text(seconds(t->run, t->commit), commit));
	return buf;
}

/* One line of what was done. */
static void summary(const struct result *r)
{
	const char *by = r->algorithm ? " by " : "", *algorithm = r->algorithm ? r->algorithm : "";
	char size[UNITS_TEXT], total[UNITS_TEXT], times[8 * UNITS_TEXT];
	const struct times *t = &r->times;

	if (!r->dtype) {
		report_note("rank %d: %s of %d ranks%s%s: %s%s%s%s", r->rank, r->command, r->size,
		            by, algorithm, duration_text(seconds(t->start, t->commit), total),
		            r->remark ? " (" : "", r->remark ? r->remark : "",
		            r->remark ? ")" : "");
		return;
	}
	report_note("rank %d: %s%s%s of %d ranks%s%s: %s of %s in %s%s%s%s%s", r->rank, r->command,
	            r->op ? " " : "", r->op ? r->op : "", r->size, by, algorithm,
	            size_text(r->bytes, size), strcmp(r->dtype, "mixed") ? r->dtype : "mixed types",
	            times_text(t, times, sizeof times), r->output ? ", wrote " : "",
	            r->output ? r->output : "", r->digest[0] ? ", digest " : "", r->digest);
}

int result_print(const struct result *r, const struct options *o, const struct err *err,
                 const char *phase, json_t *inputs)
{
	int code = err ? report(err, r->rank) : 0;
	if (o->json) {
		int printed = report_json(to_json(r, err, phase, inputs));
		json_decref(r->found);
		return code ? code : printed;
	}
	json_decref(r->found);
	json_decref(inputs);
	if (!err && result_shown(o, r->rank))
		summary(r);
	return code;
}

void price_remark(const struct selection *s, const struct select_price *p, char *text, size_t cap)
{
	static const char *const taken[] = {
	        [SELECT_BY_FORMULA] = "taken: the cheapest",
	        [SELECT_BY_MEASUREMENT] = "taken: the fastest measured",
	        [SELECT_BY_ROUNDING] = "taken: rounds 16-bit floats once",
	        [SELECT_BY_LINKS] = "taken: the links of barrier without -a",
	};

	*text = '\0';
	if (p->alg == s->alg)
		snprintf(text, cap, "%s", taken[s->reason]);
	else if (p->verdict == SELECT_FALLS_BACK)
		snprintf(text, cap, "is %s here", p->runs->name);
	else if (p->verdict == SELECT_UNORDERED)
		snprintf(text, cap, "can't add in rank order");
	else if (p->verdict == SELECT_DIVERGENT)
		snprintf(text, cap, "needs --allow-divergent");
}

void explain_selection(const struct select_args *a, const struct selection *s)
{
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
}
