#include "lib/coll/result_json.h"

#include <float.h>

#include "lib/base/clock.h"
#include "lib/base/json.h"
#include "lib/coll/bench/bench.h"
#include "lib/coll/files/inspect.h"
#include "lib/coll/time_spent.h"
#include "lib/job/ranks.h"

const char *result_op(const struct coll_request *r, char text[REDUCE_OP_TEXT])
{
	const bool has = r->work == WORK_COLLECTIVE && coll_reduces(r->kind);
	return has ? reduce_op_text(r->op, &r->param, text) : NULL;
}

static const char *requested_of(const struct coll_request *r)
{
	return r->work == WORK_VERIFY ? NULL : r->algorithm;
}

const char *result_algorithm(const struct coll_result *r, const struct coll_request *q)
{
	return r->algorithm ? r->algorithm->name : requested_of(q);
}

/* Bytes per second. */
static double algbw(const struct coll_result *r)
{
	double s = coll_seconds(r->times.connect, r->times.run);
	return s > 0 ? (double)r->bytes / s : 0;
}

static double busbw(const struct coll_result *r, const struct coll_request *q)
{
	return q->work == WORK_COLLECTIVE ? algbw(r) * bench_bus_factor(q->kind, r->ncame) : 0;
}

void result_json_bandwidths(json_t *j, double algbw, double busbw)
{
	json_object_set_new(j, "bandwidth",
	                    json_pack("{s:o, s:o}", "algorithm", json_measured(algbw), "bus",
	                              json_measured(busbw)));
	json_object_set_new(j, "algbw", json_measured(algbw / 1e9));
	json_object_set_new(j, "busbw", json_measured(busbw / 1e9));
}

static json_t *string_or_null(const char *s)
{
	return s ? json_string(s) : json_null();
}

static json_t *seconds_json(const struct coll_times *t)
{
	int64_t end = t->commit ? t->commit : clock_ns();
	return json_pack("{s:o, s:o, s:o, s:o, s:o}", "total",
	                 json_measured(coll_seconds(t->start, end)), "join",
	                 json_measured(coll_seconds(t->start, t->join)), "connect",
	                 json_measured(coll_seconds(t->join, t->connect)), "run",
	                 json_measured(coll_seconds(t->connect, t->run)), "commit",
	                 json_measured(coll_seconds(t->run, t->commit)));
}

static json_t *inputs_json(const struct coll_result *r)
{
	json_t *names = json_array();
	for (int i = 0; i < r->ninputs; i++)
		json_array_append_new(names, json_path(r->inputs[i]));
	return names;
}

static json_t *without_old_json(const struct coll_result *r)
{
	json_t *ranks = json_array();
	for (int i = 0; i < r->nwithout; i++)
		json_array_append_new(ranks, json_integer(r->without_old[i]));
	return json_pack("{s:o, s:I}", "ranks", ranks, "bytes", (json_int_t)r->whole_bytes);
}

static json_t *found_json(const struct coll_result *r)
{
	json_t *tensors = json_array();
	for (size_t i = 0; i < r->nfound; i++) {
		const struct coll_found *f = &r->found[i];
		json_array_append_new(tensors,
		                      json_pack("{s:o, s:s, s:I, s:I, s:I}", "input",
		                                json_path(f->input), "name", f->tensor, "count",
		                                (json_int_t)f->count, "nan", (json_int_t)f->nans,
		                                "inf", (json_int_t)f->infs));
	}
	return json_pack("{s:I, s:I, s:I, s:I, s:o}", "count", (json_int_t)r->found_all.count,
	                 "nan", (json_int_t)r->found_all.nans, "inf", (json_int_t)r->found_all.infs,
	                 "overflowed", (json_int_t)r->overflowed, "tensors", tensors);
}

static json_t *files_json(const struct coll_result *r)
{
	json_t *files = json_array();
	char digest[DIGEST_TEXT];
	for (int k = 0; r->files && k < r->ninputs; k++)
		json_array_append_new(files, json_pack("{s:o, s:s}", "file",
		                                       json_path(r->files[k].data.path), "digest",
		                                       digest_text(r->files[k].digest, digest)));
	return files;
}

static json_t *digest_json(const struct coll_result *r)
{
	char digest[DIGEST_TEXT];
	return r->has_digest ? json_string(digest_text(r->digest, digest)) : json_null();
}

/* What a dry run would do with a file. */
static const char *const fates[] = {
        [SINK_CREATE] = "create", [SINK_REPLACE] = "replace", [SINK_KEEP] = "keep",
        [SINK_EQUAL] = "equal",   [SINK_LEAVE] = "leave",     [SINK_STDOUT] = "stdout",
};

/* A prediction; null: it is not known on this rank. */
static json_t *predicted_json(double seconds)
{
	return seconds > 0 ? json_measured(seconds) : json_null();
}

static json_t *planned_json(const struct coll_planned *v)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:o}", "algorithm",
	                 v->algorithm->name, "dtype", dtype_name(v->dtype), "wire",
	                 dtype_name(v->wire), "output_dtype", dtype_name(v->out), "count",
	                 (json_int_t)v->count, "bytes", (json_int_t)v->bytes, "windows",
	                 (json_int_t)v->windows, "predicted", predicted_json(v->seconds));
}

static json_t *preview_json(const struct coll_preview *p)
{
	json_t *vectors = json_array(), *outputs = json_array(), *deletes = json_array();
	for (int i = 0; i < p->nvectors; i++)
		json_array_append_new(vectors, planned_json(&p->vectors[i]));
	for (int i = 0; i < p->noutputs; i++) {
		const struct coll_planned_output *f = &p->outputs[i];
		json_t *o = json_pack("{s:o, s:s, s:o}", "file", json_path(f->path), "action",
		                      fates[f->fate], "bytes",
		                      f->sized ? json_integer((json_int_t)f->bytes) : json_null());
		if (f->points_to)
			json_object_set_new(o, "link", json_path(f->points_to));
		json_array_append_new(outputs, o);
	}
	for (size_t i = 0; i < p->ndeletes; i++)
		json_array_append_new(deletes, json_path(p->deletes[i]));
	return json_pack("{s:I, s:I, s:o, s:o, s:o}", "bytes_read", (json_int_t)p->bytes_read,
	                 "bytes_written", (json_int_t)p->bytes_written, "vectors", vectors,
	                 "outputs", outputs, "deletes", deletes);
}

json_t *result_missing_json(const struct coll_result *r)
{
	json_t *list = json_array();
	for (int rank = 0; r->came && rank < r->size; rank++)
		if (ranks_find(r->came, r->ncame, rank) < 0)
			json_array_append_new(list, json_integer(rank));
	return list;
}

json_t *result_json_begin(const char *command, const struct coll_result *r)
{
	json_t *j = json_object();
	json_object_set_new(j, "command", json_string(command));
	json_object_set_new(j, "ok", json_boolean(!r->err.code));
	json_object_set_new(j, "rank", r->rank >= 0 ? json_integer(r->rank) : json_null());
	json_object_set_new(j, "size", r->size ? json_integer(r->size) : json_null());
	json_object_set_new(j, "hosts", r->hosts ? json_integer(r->hosts) : json_null());
	return j;
}

json_t *result_json_end(json_t *j, const struct coll_result *r)
{
	const struct err *err = &r->err;
	json_object_set_new(j, "error",
	                    err->code ? json_error(err, r->rank, phase_name(r->phase))
	                              : json_null());
	return j;
}

/* What NCCL did; null: it was not asked for. */
static json_t *nccl_json(const struct device_nccl *n)
{
	if (n->state == 0)
		return json_null();
	return json_pack("{s:I, s:s}", "reductions", (json_int_t)n->folds,
	                 n->state > 0 ? "version" : "error", n->text);
}

/* What is known of this rank's link. "rate": bytes per second. */
static json_t *network_json(const struct coll_result *r)
{
	const struct network_found *l = &r->link;
	json_t *rate = l->from ? json_pack("{s:I, s:I}", "up", (json_int_t)l->up, "down",
	                                   (json_int_t)l->down)
	                       : json_null();
	return json_pack("{s:o, s:o, s:o}", "rate", rate, "rtt",
	                 r->round_trip > 0 ? json_measured(r->round_trip) : json_null(), "from",
	                 string_or_null(network_from_name(l->from)));
}

/* How data travelled to and from other hosts. "max_error" null: there is no bound. */
static json_t *wire_json(const struct coll_result *r, const struct coll_request *q)
{
	const struct coded_count *n = &r->stats.coded;
	const uint64_t moved = r->stats.bytes_sent + r->stats.bytes_received;
	const bool bounded = r->max_error <= FLT_MAX;

	if (!request_is_q8(q))
		return json_pack("{s:s, s:I, s:I}", "coding", r->coded ? "lossless" : "raw",
		                 "plain_bytes", (json_int_t)n->plain, "coded_bytes",
		                 (json_int_t)n->coded);
	return json_pack("{s:s, s:I, s:I, s:o}", "coding", "q8", "plain_bytes",
	                 (json_int_t)((double)moved * r->plain_part), "coded_bytes",
	                 (json_int_t)moved, "max_error",
	                 bounded ? json_real((double)r->max_error) : json_null());
}

static json_t *pieces_json(const struct coll_pieces *n)
{
	return json_pack("{s:I, s:I, s:I, s:I}", "equal", (json_int_t)n->equal, "delta",
	                 (json_int_t)n->delta, "compressed", (json_int_t)n->compressed, "raw",
	                 (json_int_t)n->raw);
}

json_t *result_json(const struct coll_result *r, const struct coll_request *q)
{
	char op[REDUCE_OP_TEXT];
	json_t *j = result_json_begin(q->command, r);
	json_object_set_new(j, "algorithm", string_or_null(result_algorithm(r, q)));
	json_object_set_new(j, "requested", string_or_null(requested_of(q)));
	json_object_set_new(j, "op", string_or_null(result_op(q, op)));
	json_object_set_new(j, "dtype", string_or_null(r->dtype));
	json_object_set_new(j, "count", json_integer((json_int_t)r->count));
	json_object_set_new(j, "bytes", json_integer((json_int_t)r->bytes));
	if (q->settings.min_ranks)
		json_object_set_new(j, "missing", result_missing_json(r));
	if (r->tensors)
		json_object_set_new(j, "tensors", json_integer((json_int_t)r->tensors));
	json_object_set_new(j, "inputs", inputs_json(r));
	if (r->all_inputs)
		json_object_set_new(j, "all_inputs", json_integer((json_int_t)r->all_inputs));
	json_object_set_new(j, "output", r->output ? json_path(r->output) : json_null());
	json_object_set_new(j, "digest", digest_json(r));
	if (r->output && q->work == WORK_COLLECTIVE)
		json_object_set_new(j, "cloned", json_boolean(r->cloned));
	if (q->update || q->delta)
		json_object_set_new(j, "equal_files", json_integer((json_int_t)r->equal_files));
	if (r->has_files)
		json_object_set_new(j, "files",
		                    json_pack("{s:I, s:I, s:I}", "equal",
		                              (json_int_t)r->equal_files, "sent",
		                              (json_int_t)r->sent_files, "deleted",
		                              (json_int_t)r->deleted_files));
	if (r->has_files)
		json_object_set_new(j, "content_bytes", json_integer((json_int_t)r->content_bytes));
	if (r->pieces.known)
		json_object_set_new(j, "pieces", pieces_json(&r->pieces));
	if (r->plain_bytes)
		json_object_set_new(j, "plain_bytes", json_integer((json_int_t)r->plain_bytes));
	if (r->nwithout)
		json_object_set_new(j, "without_old", without_old_json(r));
	json_object_set_new(j, "steps", json_integer((json_int_t)r->stats.messages));
	json_object_set_new(j, "peers", json_integer(r->peers));
	json_object_set_new(j, "windows", json_integer(r->windows));
	json_object_set_new(j, "streams", json_integer(r->streams));
	json_object_set_new(j, "reconnects", json_integer(r->reconnects));
	json_object_set_new(
	        j, "lanes",
	        json_pack("{s:i, s:i}", "memory", r->memory_lanes, "tcp", r->tcp_lanes));
	if (q->wire)
		json_object_set_new(j, "wire", wire_json(r, q));
	if (r->hosts > 1)
		json_object_set_new(j, "network", network_json(r));
	if (r->device_path)
		json_object_set_new(j, "device",
		                    json_pack("{s:s, s:s?, s:o}", "memory", q->devices.text,
		                              "local", *r->device_path ? r->device_path : NULL,
		                              "nccl", nccl_json(&r->nccl)));
	json_object_set_new(j, "bytes_sent", json_integer((json_int_t)r->stats.bytes_sent));
	json_object_set_new(j, "bytes_received", json_integer((json_int_t)r->stats.bytes_received));
	json_object_set_new(j, "seconds", seconds_json(&r->times));
	if (q->work == WORK_COLLECTIVE)
		json_object_set_new(j, "predicted", predicted_json(r->predicted));
	if (r->spent.threads && !r->err.code)
		json_object_set_new(j, "where", time_json(r));
	result_json_bandwidths(j, algbw(r), busbw(r, q));
	if (q->stats && !q->dry_run && !r->err.code)
		json_object_set_new(j, "stats", found_json(r));
	if (r->preview)
		json_object_set_new(j, "dry_run", preview_json(r->preview));
	if (q->work == WORK_VERIFY)
		json_object_set_new(j, "files", files_json(r));
	if (q->work == WORK_VERIFY && !r->err.code)
		json_object_set_new(j, "compared",
		                    json_pack("{s:i, s:b, s:b}", "files", r->ninputs, "with_local",
		                              r->local, "with_ranks", r->size > 1));
	return result_json_end(j, r);
}
