#include "cmd/text/result.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cmd/commands.h"
#include "cmd/text/report.h"
#include "cmd/text/where.h"
#include "lib/base/path.h"
#include "lib/base/units.h"
#include "lib/coll/files/inspect.h"
#include "lib/coll/result_json.h"
#include "lib/job/ranks.h"

/* Does @rank print the result? Rank 0 does, with -v every rank, with -q none. */
static bool is_shown(const struct options *o, int rank)
{
	return o->verbose > 0 || (o->verbose == 0 && rank == 0);
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
	char op_text[REDUCE_OP_TEXT];
	const char *algorithm = result_algorithm(r, q), *op = result_op(q, op_text);
	const char *remark = remark_of(r, q);
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

/* What a dry run would do with a file. */
static const char *const fates[] = {
        [SINK_CREATE] = "would create",
        [SINK_REPLACE] = "would replace",
        [SINK_KEEP] = "would keep, because it is the input:",
        [SINK_EQUAL] = "would leave, because it is as the root's:",
        [SINK_LEAVE] = "would leave to another rank:",
        [SINK_STDOUT] = "would write to",
};

/* --dry-run: print what this rank would do. */
static void print_preview(const struct coll_result *r, const struct coll_request *q)
{
	const struct coll_preview *p = r->preview;
	char op_text[REDUCE_OP_TEXT];
	const char *op = result_op(q, op_text);
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
		report_note("rank %d: %s %s%s%s", r->rank, fates[f->fate],
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
	if (ok && !o->json && is_shown(o, r->rank))
		print_files(r, o);
	if (ok && !o->json && q->work == WORK_VERIFY && is_shown(o, r->rank))
		print_compared(r);
	int code = ok ? 0 : report(&r->err, r->rank);
	if (o->json) {
		int printed = report_json(result_json(r, q));
		return code ? code : printed;
	}
	if (r->preview && o->verbose >= 0)
		print_preview(r, q);
	else if (ok && is_shown(o, r->rank))
		summary(r, q);
	if (ok && q->deletes && !r->preview && o->verbose >= 0)
		print_deleted(r);
	if (ok && r->spent.threads && o->verbose > 0)
		where_print(r, q);
	return code;
}
