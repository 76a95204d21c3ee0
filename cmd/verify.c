/*
 * verify: have all ranks the same bits? First they compare what their files are, tensor by tensor;
 * then each reads its own, and they compare digests. There is no mesh: rank 0 hears of digests
 * alone.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "cmd/commands.h"
#include "cmd/inspect.h"
#include "cmd/joining.h"
#include "cmd/paths.h"
#include "cmd/progress.h"
#include "cmd/result.h"
#include "cmd/tensor_table.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/offload.h"

struct verify {
	const struct command *cmd;
	const struct options *o;
	struct joining joining;
	struct job *job;
	struct inspection *files;
	int nfiles;
	struct tensor_entry *tensors; /* of all files */
	struct tensor_table table;
	struct intent intent;
	struct plan plan;
	uint8_t digest[DIGEST_BYTES]; /* of all files */
	bool read;                    /* the digests are there */
	uint64_t total;               /* bytes to read */
	struct loop_watch pieces;     /* an eventfd: readable when a piece has been read */
	struct progress progress;
	struct times times;
	enum phase phase;
};

/* ---- what there is ---- */

static int open_file(struct verify *v, const char *path, struct err *err)
{
	const struct input_source from = {
	        .cmd = v->cmd, .o = v->o, .raw_file = v->o->raw_file, .job = v->job};

	return inspect_open(&v->files[v->nfiles++], path, &from, err);
}

static int open_files(struct verify *v, const struct paths *paths, struct err *err)
{
	v->files = calloc((size_t)paths->n, sizeof *v->files);
	if (!v->files)
		return err_nomem(err, "the files", (size_t)paths->n * sizeof *v->files);
	for (int i = 0; i < paths->n; i++) {
		if (open_file(v, paths->names[i], err) < 0)
			return -1;
		v->table.n += v->files[i].data.ntensors;
		v->total += dataset_bytes(&v->files[i].data);
	}
	return 0;
}

static int open_all(struct verify *v, char **names, int n, struct err *err)
{
	struct paths paths;
	int ret = paths_expand(&paths, names, n, job_rank(v->job), v->joining.conf.size, err);

	if (ret == 0)
		ret = open_files(v, &paths, err);
	paths_release(&paths);
	return ret;
}

static void entry_at(void *ctx, size_t i, struct tensor_entry *out)
{
	const struct verify *v = ctx;

	*out = v->tensors[i];
}

static int list_tensors(struct verify *v, struct err *err)
{
	size_t at = 0;

	v->table.at = entry_at;
	v->table.ctx = v;
	v->tensors = calloc(v->table.n + 1, sizeof *v->tensors);
	if (!v->tensors)
		return err_nomem(err, "the table of tensors", v->table.n * sizeof *v->tensors);
	for (int k = 0; k < v->nfiles; k++) {
		const struct dataset *d = &v->files[k].data;
		for (size_t i = 0; i < d->ntensors; i++)
			v->tensors[at++] =
			        (struct tensor_entry){.tensor = &d->tensors[i],
			                              .input = k,
			                              .ninputs = v->nfiles > 1 ? v->nfiles : 0,
			                              .as_stored = true};
	}
	return 0;
}

/* Has the one file one array, for which no name is needed? */
static bool is_array(const struct verify *v)
{
	return v->nfiles == 1 && dataset_is_array(&v->files[0].data);
}

/* ---- agreeing ---- */

static int patterns_fact(struct intent *in, const char *name, const char *const *patterns, int n,
                         struct err *err)
{
	struct buf text;

	buf_init(&text, UINT32_MAX);
	for (int i = 0; i < n; i++) {
		buf_put(&text, patterns[i], strlen(patterns[i]));
		buf_put(&text, i + 1 < n ? ", " : "", i + 1 < n ? 2 : 1);
	}
	int ret = text.failed ? err_nomem(err, name, text.len) : 0;
	if (ret == 0)
		intent_add(in, name, n ? (char *)text.data : "not given");
	buf_release(&text);
	return ret;
}

static void array_facts(struct verify *v)
{
	const struct tensor *t = v->tensors[0].tensor;
	char text[ARRAY_SHAPE_TEXT];

	if (v->o->raw_file) {
		snprintf(text, sizeof text, "%" PRIu64, t->bytes);
		intent_add(&v->intent, "size", text);
		return;
	}
	intent_add(&v->intent, "dtype", dtype_name(t->dtype));
	intent_add(&v->intent, "shape", tensor_shape_text(t, text));
	intent_add(&v->intent, "order", t->fortran ? "Fortran's" : "C's");
}

static int describe(struct verify *v, struct err *err)
{
	const struct options *o = v->o;
	struct intent *in = &v->intent;
	char text[16];

	*in = (struct intent){.memory = UINT64_MAX, .ninputs = 1};
	if (v->nfiles == 1)
		snprintf(in->subject, sizeof in->subject, "%s", v->files[0].data.path);
	intent_add(in, "collective", v->cmd->name);
	snprintf(text, sizeof text, "%d", v->nfiles);
	intent_add(in, "number of files", text);
	intent_add(in, "--raw-file", o->raw_file ? "given" : "not given");
	if (patterns_fact(in, "--include", o->include, o->ninclude, err) < 0 ||
	    patterns_fact(in, "--exclude", o->exclude, o->nexclude, err) < 0)
		return -1;
	if (v->nfiles == 1)
		tensor_content_fact(in, is_array(v));
	if (!is_array(v))
		return tensor_table_fact(&v->table, in, err);
	array_facts(v);
	return 0;
}

static int agree(struct verify *v, struct err *err)
{
	if (list_tensors(v, err) < 0 || describe(v, err) < 0)
		return -1;
	job_shows(v->job, "tensor", is_array(v) ? NULL : tensor_table_show, &v->table);
	return job_agree(v->job, &v->intent, false, NULL, NULL, &v->plan, err);
}

/* ---- reading, on a thread of its own ---- */

static int tell_piece(void *ctx, struct err *err)
{
	struct verify *v = ctx;
	uint64_t one = 1;

	if (offload_stopped(err) < 0)
		return -1;
	if (write(v->pieces.fd, &one, sizeof one) < 0)
		return 0; /* it is readable already */
	return 0;
}

/* The digest of several files, each of which has its number for a name. */
static int join_digests(struct verify *v, struct err *err)
{
	size_t n = (size_t)v->nfiles;
	char(*numbers)[24] = calloc(n, sizeof *numbers);
	const char **names = calloc(n, sizeof *names);
	uint8_t(*digests)[DIGEST_BYTES] = calloc(n, sizeof *digests);
	bool ok = numbers && names && digests;

	for (size_t i = 0; ok && i < n; i++) {
		snprintf(numbers[i], sizeof *numbers, "%zu", i);
		names[i] = n == 1 ? "" : numbers[i];
		memcpy(digests[i], v->files[i].digest, DIGEST_BYTES);
	}
	ok = ok && digest_names(names, (const uint8_t(*)[DIGEST_BYTES])digests, n, v->digest) == 0;
	free(numbers);
	free(names);
	free(digests);
	return ok ? 0 : err_nomem(err, "the digest", n * sizeof *digests);
}

static int read_files(void *ctx, struct err *err)
{
	struct verify *v = ctx;
	struct tensor_entry *e = v->tensors;

	for (int k = 0; k < v->nfiles; k++) {
		struct inspection *file = &v->files[k];
		if (inspect_read(file, false, tell_piece, v, err) < 0)
			return -1;
		for (size_t i = 0; i < file->data.ntensors; i++)
			e++->digest = file->digests[i];
	}
	return join_digests(v, err);
}

/* A piece has been read. */
static void on_piece(void *ctx, uint32_t events)
{
	const struct verify *v = ctx;
	uint64_t n, moved = 0;
	(void)events;

	if (io_retry(read(v->pieces.fd, &n, sizeof n)) < 0)
		return; /* it has been read before */
	for (int k = 0; k < v->nfiles; k++)
		moved += v->files[k].moved;
	job_moved(v->job, moved, v->total);
}

static int read_aside(struct verify *v, struct err *err)
{
	struct loop *loop = job_loop(v->job);

	v->pieces = (struct loop_watch){
	        .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .fn = on_piece, .ctx = v};
	if (v->pieces.fd < 0)
		return err_errno(err, ERR_RESOURCE, "eventfd");
	int ret = loop_add(loop, &v->pieces, EPOLLIN, err);
	if (ret == 0) {
		job_phase(v->job, PHASE_RUN);
		job_moved(v->job, 0, v->total);
		ret = job_aside(v->job, read_files, v, err);
		loop_del(loop, &v->pieces);
	}
	close(v->pieces.fd);
	v->read = ret == 0;
	return ret;
}

/* ---- telling ---- */

static const char *dtype_of(const struct verify *v)
{
	enum dtype dtype = v->table.n ? v->tensors[0].tensor->dtype : DTYPE_NONE;

	for (size_t i = 1; i < v->table.n; i++)
		if (v->tensors[i].tensor->dtype != dtype)
			return "mixed";
	return v->table.n ? dtype_name(dtype) : NULL;
}

static struct result result_of(const struct verify *v)
{
	struct result r = {
	        .command = v->cmd->name,
	        .rank = v->job ? job_rank(v->job) : -1,
	        .size = v->joining.conf.size,
	        .dtype = v->tensors ? dtype_of(v) : NULL,
	        .bytes = v->total,
	        .times = v->times,
	};

	for (size_t i = 0; v->tensors && i < v->table.n; i++) {
		r.count += v->tensors[i].tensor->count;
		r.tensors += *v->tensors[i].tensor->name != '\0';
	}
	if (v->read)
		digest_text(v->digest, r.digest);
	return r;
}

static json_t *files_json(const struct verify *v)
{
	json_t *files = json_array();
	char digest[DIGEST_TEXT];

	for (int k = 0; v->read && k < v->nfiles; k++)
		json_array_append_new(files,
		                      json_pack("{s:o, s:s}", "file",
		                                report_path_json(v->files[k].data.path), "digest",
		                                digest_text(v->files[k].digest, digest)));
	return files;
}

static json_t *names_json(const struct verify *v)
{
	json_t *names = json_array();

	for (int k = 0; k < v->nfiles; k++)
		if (v->files[k].open)
			json_array_append_new(names, report_path_json(v->files[k].data.path));
	return names;
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

static void print_files(const struct verify *v)
{
	int rank = job_rank(v->job);
	char digest[DIGEST_TEXT];

	if (v->o->json || !result_shown(v->o, rank))
		return;
	for (int k = 0; k < v->nfiles; k++) {
		const struct inspection *file = &v->files[k];
		if (v->o->verbose > 0 && !dataset_is_array(&file->data))
			print_tensors(file, rank);
		report_note("rank %d: %s: digest %s", rank, file->data.path,
		            digest_text(file->digest, digest));
	}
}

/* ---- the command ---- */

static int run(struct verify *v, char **names, int n, struct err *err)
{
	if (job_enter(v->job, err) < 0 || open_all(v, names, n, err) < 0 || agree(v, err) < 0)
		return -1;
	v->times.join = v->times.connect = clock_ns();
	v->phase = PHASE_RUN;
	if (read_aside(v, err) < 0)
		return -1;
	v->times.run = clock_ns();
	v->phase = PHASE_COMMIT;
	if (job_vote(v->job, v->digest, err) < 0)
		return -1;
	v->times.commit = clock_ns();
	return 0;
}

static void release(struct verify *v)
{
	for (int k = 0; k < v->nfiles; k++)
		inspect_release(&v->files[k]);
	free(v->files);
	free(v->tensors);
	joining_release(&v->joining);
}

int cmd_verify(const struct command *cmd, struct options *o, int argc, char **argv)
{
	struct verify v = {.cmd = cmd, .o = o};
	struct err err = {.rank = ERR_RANK_SELF};
	int ret = -1;

	v.times.start = clock_ns();
	if (inputs_check(o, &err) == 0 && paths_check_all(argv + 1, argc - 1, &err) == 0 &&
	    joining_init(&v.joining, o, &err) == 0 &&
	    joining_present(&v.joining, argv[1], NULL, &err) == 0)
		v.job = job_open(&v.joining.conf, &err);
	if (v.job) {
		progress_start_job(&v.progress, o, cmd->name, v.job);
		ret = run(&v, argv + 1, argc - 1, &err);
	}
	if (ret < 0 && v.job)
		job_fail(v.job, &err);
	progress_stop(&v.progress);
	if (ret == 0)
		print_files(&v);
	struct result r = result_of(&v);
	r.files = o->json ? files_json(&v) : NULL;
	int code = result_print(&r, o, ret < 0 ? &err : NULL, phase_name(v.phase), names_json(&v));
	job_close(v.job);
	release(&v);
	return code;
}
