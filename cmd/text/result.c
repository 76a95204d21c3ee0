#include "cmd/text/result.h"

#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cmd/commands.h"
#include "cmd/text/report.h"
#include "cmd/text/where.h"
#include "lib/base/clock.h"
#include "lib/base/json.h"
#include "lib/base/path.h"
#include "lib/base/units.h"
#include "lib/coll/bench/bench.h"
#include "lib/coll/files/inspect.h"
#include "lib/job/ranks.h"

bool result_shown(const struct options *o, int rank)
{
	return o->verbose > 0 || (o->verbose == 0 && rank == 0);
}

/* The operation in the report. */
static const char *op_of(const struct coll_request *r)
{
	static char text[REDUCE_OP_TEXT];
	bool has = r->work == WORK_COLLECTIVE && coll_reduces(r->kind);
	return has ? reduce_op_text(r->op, &r->param, text) : NULL;
}

static const char *requested_of(const struct coll_request *r)
{
	return r->work == WORK_VERIFY ? NULL : r->algorithm;
}

static const char *algorithm_of(const struct coll_result *r, const struct coll_request *q)
{
	return r->algorithm ? r->algorithm->name : requested_of(q);
}

/* A remark in parentheses after the line, or NULL. */
static const char *remark_of(const struct coll_result *r, const struct coll_request *q)
{
	if (q->work != WORK_BARRIER)
		return NULL;
	if (!r->algorithm)
		return BARRIER_AUTO;
	return strcmp(r->algorithm->name, "all_to_all") == 0
	               ? "every link carries full-size packets"
	               : "its links carry full-size packets";
}

/* ---- JSON ---- */

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
		json_array_append_new(names, report_path_json(r->inputs[i]));
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
		                                report_path_json(f->input), "name", f->tensor,
		                                "count", (json_int_t)f->count, "nan",
		                                (json_int_t)f->nans, "inf", (json_int_t)f->infs));
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
		json_array_append_new(files,
		                      json_pack("{s:o, s:s}", "file",
		                                report_path_json(r->files[k].data.path), "digest",
		                                digest_text(r->files[k].digest, digest)));
	return files;
}

static json_t *digest_json(const struct coll_result *r)
{
	char digest[DIGEST_TEXT];
	return r->has_digest ? json_string(digest_text(r->digest, digest)) : json_null();
}

/* What a dry run would do with a file: the word in JSON, and in text. */
static const struct {
	const char *word, *text;
} fates[] = {
        [SINK_CREATE] = {"create", "would create"},
        [SINK_REPLACE] = {"replace", "would replace"},
        [SINK_KEEP] = {"keep", "would keep, because it is the input:"},
        [SINK_EQUAL] = {"equal", "would leave, because it is as the root's:"},
        [SINK_LEAVE] = {"leave", "would leave to another rank:"},
        [SINK_STDOUT] = {"stdout", "would write to"},
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
		json_t *o = json_pack("{s:o, s:s, s:o}", "file", report_path_json(f->path),
		                      "action", fates[f->fate].word, "bytes",
		                      f->sized ? json_integer((json_int_t)f->bytes) : json_null());
		if (f->points_to)
			json_object_set_new(o, "link", report_path_json(f->points_to));
		json_array_append_new(outputs, o);
	}
	for (size_t i = 0; i < p->ndeletes; i++)
		json_array_append_new(deletes, report_path_json(p->deletes[i]));
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
	                    err->code ? report_error_json(err, r->rank, phase_name(r->phase))
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

static json_t *to_json(const struct coll_result *r, const struct coll_request *q)
{
	json_t *j = result_json_begin(q->command, r);
	json_object_set_new(j, "algorithm", string_or_null(algorithm_of(r, q)));
	json_object_set_new(j, "requested", string_or_null(requested_of(q)));
	json_object_set_new(j, "op", string_or_null(op_of(q)));
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
	json_object_set_new(j, "output", r->output ? report_path_json(r->output) : json_null());
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
		json_object_set_new(j, "where", where_json(r));
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

/* ---- text ---- */

/* "19.7 s (join 1.0 ms, connect 3.1 ms, run 18.2 s, commit 1.5 s)" */
static char *times_text(const struct coll_times *t, char *buf, size_t cap)
{
	char total[UNITS_TEXT], join[UNITS_TEXT], connect[UNITS_TEXT], run[UNITS_TEXT],
	        commit[UNITS_TEXT];

	snprintf(buf, cap, "%s (join %s, connect %s, run %s, commit %s)",
	         duration_text(coll_seconds(t->start, t->commit), total),
	         duration_text(coll_seconds(t->start, t->join), join),
	         duration_text(coll_seconds(t->join, t->connect), connect),
	         duration_text(coll_seconds(t->connect, t->run), run),
	         duration_text(coll_seconds(t->run, t->commit), commit));
	return buf;
}

/* "4 ranks", "3 of 4 ranks (missing: 2)" */
static const char *ranks_text(const struct coll_result *r, char *out, size_t cap)
{
	char missing[80];

	if (r->came)
		snprintf(out, cap, "%d of %d ranks (missing: %s)", r->ncame, r->size,
		         ranks_missing(r->came, r->ncame, r->size, missing, sizeof missing));
	else
		snprintf(out, cap, "%d rank%s", r->size, r->size == 1 ? "" : "s");
	return out;
}

/* "4 ranks", "4 ranks, 6 inputs"; of one rank alone "4 files". */
static void whose_text(const struct coll_result *r, const struct coll_request *q, char *out,
                       size_t cap)
{
	const bool several = q->work == WORK_COLLECTIVE && coll_takes_several(q->kind) &&
	                     r->all_inputs > (uint64_t)r->ncame;
	char ranks[128];

	if (several && r->size == 1)
		snprintf(out, cap, "%" PRIu64 " files", r->all_inputs);
	else if (several)
		snprintf(out, cap, "%s, %" PRIu64 " inputs", ranks_text(r, ranks, sizeof ranks),
		         r->all_inputs);
	else
		ranks_text(r, out, cap);
}

/* ", 7.9 MiB of files in pieces: 8 equal, 0 delta, 0 compressed, 1 raw", if ranks compared them. */
static void pieces_text(const struct coll_result *r, const struct coll_request *q, char *out,
                        size_t cap)
{
	const struct coll_pieces *n = &r->pieces;
	char size[UNITS_TEXT];

	*out = '\0';
	if (n->known && request_compares(q))
		snprintf(out, cap,
		         ", %s of files in pieces: %" PRIu64 " equal, %" PRIu64 " delta, %" PRIu64
		         " compressed, %" PRIu64 " raw",
		         size_text(r->content_bytes, size), n->equal, n->delta, n->compressed,
		         n->raw);
}

/* Print one line that summarises the job. */
static void summary(const struct coll_result *r, const struct coll_request *q)
{
	const char *algorithm = algorithm_of(r, q), *op = op_of(q), *remark = remark_of(r, q);
	const char *by = algorithm ? " by " : "";
	char size[UNITS_TEXT], total[UNITS_TEXT], times[8 * UNITS_TEXT], digest[DIGEST_TEXT];
	const struct coll_times *t = &r->times;
	char whose[192], pieces[192];

	if (!algorithm)
		algorithm = "";
	whose_text(r, q, whose, sizeof whose);
	if (!r->dtype) {
		report_note("rank %d: %s of %s%s%s: %s%s%s%s", r->rank, q->command, whose, by,
		            algorithm, duration_text(coll_seconds(t->start, t->commit), total),
		            remark ? " (" : "", remark ? remark : "", remark ? ")" : "");
		return;
	}
	pieces_text(r, q, pieces, sizeof pieces);
	report_note("rank %d: %s%s%s of %s%s%s: %s of %s in %s%s%s%s%s%s", r->rank, q->command,
	            op ? " " : "", op ? op : "", whose, by, algorithm, size_text(r->bytes, size),
	            strcmp(r->dtype, "mixed") ? r->dtype : "mixed types",
	            times_text(t, times, sizeof times), r->output ? ", wrote " : "",
	            r->output ? r->output : "", r->has_digest ? ", digest " : "",
	            r->has_digest ? digest_text(r->digest, digest) : "", pieces);
}

/* ", without files predicted to take 1.2 ms"; "": there is no prediction on this rank. */
static void predicted_text(double seconds, char *out, size_t cap)
{
	char time[UNITS_TEXT];

	*out = '\0';
	if (seconds > 0)
		snprintf(out, cap, ", without files predicted to take %s",
		         seconds < 1 ? latency_text(seconds, time) : duration_text(seconds, time));
}

/* "781.2 KiB of f32 by ring, sent as f64, in 3 windows, without files predicted to take 1.2 ms" */
static void print_planned(const struct coll_planned *v, int rank)
{
	char size[UNITS_TEXT], predicted[80];
	bool wider = v->wire != v->dtype;

	predicted_text(v->seconds, predicted, sizeof predicted);
	report_note("rank %d: %s of %s by %s%s%s%s%s, in %" PRIu32 " window%s%s", rank,
	            size_text(v->bytes, size), dtype_name(v->dtype), v->algorithm->name,
	            wider ? ", sent as " : "", wider ? dtype_name(v->wire) : "",
	            v->out != v->dtype ? ", written as " : "",
	            v->out != v->dtype ? dtype_name(v->out) : "", v->windows,
	            v->windows == 1 ? "" : "s", predicted);
}

/* Without slashes at its end. */
static int folder_length(const char *path)
{
	return (int)path_trim(path, strlen(path));
}

/* --dry-run: print what this rank would do. */
static void print_preview(const struct coll_result *r, const struct coll_request *q)
{
	const struct coll_preview *p = r->preview;
	const char *op = op_of(q);
	char read[UNITS_TEXT], written[UNITS_TEXT], sent[UNITS_TEXT], received[UNITS_TEXT];
	char ranks[128];

	report_note("rank %d: dry run: %s%s%s of %s on %" PRIu32 " stream%s", r->rank, q->command,
	            op ? " " : "", op ? op : "", ranks_text(r, ranks, sizeof ranks), r->streams,
	            r->streams == 1 ? "" : "s");
	for (int i = 0; i < p->nvectors; i++)
		print_planned(&p->vectors[i], r->rank);
	report_note("rank %d: would read %s, write %s, and exchange data with %d rank%s: send %s, "
	            "receive %s",
	            r->rank, size_text(p->bytes_read, read), size_text(p->bytes_written, written),
	            r->peers, r->peers == 1 ? "" : "s", size_text(r->stats.bytes_sent, sent),
	            size_text(r->stats.bytes_received, received));
	for (int i = 0; i < p->noutputs; i++) {
		const struct coll_planned_output *f = &p->outputs[i];
		if (f->fate == SINK_EQUAL) /* they are counted, and may be many */
			continue;
		report_note("rank %d: %s %s%s%s", r->rank, fates[f->fate].text,
		            f->fate == SINK_STDOUT ? "stdout" : f->path, f->points_to ? " -> " : "",
		            f->points_to ? f->points_to : "");
	}
	for (size_t i = 0; i < p->ndeletes; i++)
		report_note("rank %d: would delete %.*s/%s", r->rank, folder_length(r->output),
		            r->output, p->deletes[i]);
}

/* --delete: every rank says how many, because they differ. */
static void print_deleted(const struct coll_result *r)
{
	report_note("rank %d: %s: files and folders deleted: %zu", r->rank, r->output,
	            r->deleted_files);
}

/* --stats: print the tensors of the inputs that have NaN or Inf. */
static void print_found(const struct coll_result *r, const struct coll_request *q)
{
	for (size_t i = 0; i < r->nfound; i++) {
		const struct coll_found *f = &r->found[i];
		report_note("rank %d: %s%s%s%s: %" PRIu64 " NaN and %" PRIu64 " Inf in %" PRIu64
		            " elements",
		            r->rank, f->input, *f->tensor ? ": tensor '" : "", f->tensor,
		            *f->tensor ? "'" : "", f->nans, f->infs, f->count);
	}
	if (r->ninputs && !r->nfound)
		report_note("rank %d: no NaN and no Inf in %" PRIu64 " elements", r->rank,
		            r->found_all.count);
	if (r->overflowed)
		report_note("rank %d: %" PRIu64 " elements of the result are too large for %s: "
		            "they are Inf or NaN in the output",
		            r->rank, r->overflowed, dtype_name(q->output_dtype));
}

/* "w.safetensors: tensor 'a.b' f32 (3, 4): digest 0123..." */
static void print_tensors(const struct inspection *file, int rank)
{
	char shape[ARRAY_SHAPE_TEXT], digest[DIGEST_TEXT];

	for (size_t i = 0; i < file->data.ntensors; i++) {
		const struct tensor *t = &file->data.tensors[i];
		report_note("rank %d: %s: tensor '%s' %s %s: digest %s", rank, file->data.path,
		            t->name, dtype_name(t->dtype), tensor_shape_text(t, shape),
		            digest_text(file->digests[i], digest));
	}
}

/* verify: print the files, with -v also their tensors. */
static void print_files(const struct coll_result *r, const struct options *o)
{
	char digest[DIGEST_TEXT];

	for (int k = 0; r->files && k < r->ninputs; k++) {
		const struct inspection *file = &r->files[k];
		if (o->verbose > 0 && !dataset_is_array(&file->data))
			print_tensors(file, r->rank);
		report_note("rank %d: %s: digest %s", r->rank, file->data.path,
		            digest_text(file->digest, digest));
	}
}

/* verify: what was compared with what, where that is not plain. */
static void print_compared(const struct coll_result *r)
{
	char others[48] = "the other rank";

	if (r->size > 2)
		snprintf(others, sizeof others, "the other %d ranks", r->size - 1);
	if (r->local && r->size > 1)
		report_note("rank %d: %d files were compared with each other and with the files of "
		            "%s",
		            r->rank, r->ninputs, others);
	else if (r->local)
		report_note("rank %d: %d files were compared with each other", r->rank, r->ninputs);
	else if (r->size == 1)
		report_note("rank %d: the file was not compared with any other: give another "
		            "file, or start more ranks",
		            r->rank);
	else if (r->ninputs > 1)
		report_note("rank %d: each of %d files was compared with the file in the same "
		            "place on %s, but not with the other files of this rank (--same)",
		            r->rank, r->ninputs, others);
}

int result_print(const struct coll_result *r, const struct coll_request *q, const struct options *o)
{
	bool ok = !r->err.code;
	if (ok && q->stats && !q->dry_run && o->verbose >= 0)
		print_found(r, q);
	if (ok && !o->json && result_shown(o, r->rank))
		print_files(r, o);
	if (ok && !o->json && q->work == WORK_VERIFY && result_shown(o, r->rank))
		print_compared(r);
	int code = ok ? 0 : report(&r->err, r->rank);
	if (o->json) {
		int printed = report_json(to_json(r, q));
		return code ? code : printed;
	}
	if (r->preview && o->verbose >= 0)
		print_preview(r, q);
	else if (ok && result_shown(o, r->rank))
		summary(r, q);
	if (ok && q->deletes && !r->preview && o->verbose >= 0)
		print_deleted(r);
	if (ok && r->spent.threads && o->verbose > 0)
		where_print(r, q);
	return code;
}
