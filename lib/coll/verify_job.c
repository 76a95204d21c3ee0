/*
 * verify: checks that all ranks have the same bits. First the ranks compare names, types and shapes
 * of the tensors; then each rank reads its files, and they compare digests. Ranks do not connect to
 * each other; rank 0 gets only digests. File k is compared with file k of the other ranks. With
 * --same, or if there is no other rank, a rank compares its files with each other; with --same the
 * ranks then compare only their first files.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/base/offload.h"
#include "lib/coll/files/inspect.h"
#include "lib/coll/files/tensor_table.h"
#include "lib/coll/request/paths.h"
#include "lib/coll/task.h"

struct verify {
	struct coll *life;
	struct inspection *files;
	int nfiles;
	int ncompared;                /* the first ones, which the ranks compare */
	const char **names;           /* names of the open files */
	struct tensor_entry *tensors; /* [ntensors] of all files */
	size_t ntensors;
	struct tensor_table table;    /* of the files that the ranks compare */
	uint8_t digest[DIGEST_BYTES]; /* of these files */
	bool read;                    /* the digests are complete */
	uint64_t total;               /* bytes to read */
	struct loop_watch pieces;     /* an eventfd: readable when a piece has been read */
};

/* ---- opening the files ---- */

static void note(void *ctx, const char *text)
{
	const struct verify *v = ctx;

	coll_note(v->life, v->life->rank == 0 ? 0 : 1, "%s", text);
}

static int open_file(struct verify *v, const char *path, struct err *err)
{
	const struct input_options *o = &v->life->request->files;
	const struct input_source from = {.o = o,
	                                  .raw_file = o->raw_file,
	                                  .memory = v->life->request->settings.memory,
	                                  .job = v->life->job,
	                                  .note = note,
	                                  .ctx = v};

	return inspect_open(&v->files[v->nfiles++], path, &from, err);
}

static int open_files(struct verify *v, const struct paths *paths, struct err *err)
{
	if (!(v->files = err_calloc((size_t)paths->n, sizeof *v->files, "the files", err)))
		return -1;
	for (int i = 0; i < paths->n; i++) {
		if (open_file(v, paths->names[i], err) < 0)
			return -1;
		v->ntensors += v->files[i].data.ntensors;
		v->total += dataset_bytes(&v->files[i].data);
	}
	return 0;
}

static int open_all(struct verify *v, struct err *err)
{
	const struct coll *life = v->life;
	const struct coll_request *r = life->request;
	struct paths paths;
	int ret = paths_expand(&paths, r->inputs, r->ninputs, life->rank, life->size, err);

	if (ret == 0)
		ret = open_files(v, &paths, err);
	paths_release(&paths);
	v->ncompared = r->same && v->nfiles ? 1 : v->nfiles;
	return ret;
}

/* ---- the local files ---- */

static bool compares_local(const struct verify *v)
{
	return v->nfiles > 1 && (v->life->request->same || v->life->size == 1);
}

static int differs(const struct verify *v, int k, const char *what, const char *is, const char *was,
                   struct err *err)
{
	return err_set(err, ERR_DISAGREE, "%s: %s%s differs from %s of %s", v->files[k].data.path,
	               what, is, was, v->files[0].data.path);
}

static int same_order(const struct verify *v, int k, struct err *err)
{
	const struct dataset *a = &v->files[0].data, *b = &v->files[k].data;
	char what[256] = "";

	for (size_t i = 0; i < a->ntensors; i++) {
		const struct tensor *t = &a->tensors[i], *u = &b->tensors[i];
		if (t->fortran == u->fortran)
			continue;
		if (*t->name)
			snprintf(what, sizeof what, "tensor '%.200s': ", t->name);
		return differs(v, k, what, u->fortran ? "order Fortran's" : "order C's",
		               t->fortran ? "Fortran's" : "C's", err);
	}
	return 0;
}

static int same_tensors(const struct verify *v, int k, struct err *err)
{
	static const char *const content[] = {"named tensors", "one array"};
	const struct dataset *a = &v->files[0].data, *b = &v->files[k].data;
	struct err why = ERR_INIT;

	if (dataset_is_array(a) != dataset_is_array(b))
		return differs(v, k, "content ", content[dataset_is_array(b)],
		               content[dataset_is_array(a)], err);
	if (dataset_same(a, b, &why) < 0)
		return err_set(err, ERR_DISAGREE, "%s", why.text);
	return same_order(v, k, err);
}

/* Do all local files have the tensors of the first? */
static int compare_tensors(const struct verify *v, struct err *err)
{
	for (int k = 1; compares_local(v) && k < v->nfiles; k++)
		if (same_tensors(v, k, err) < 0)
			return -1;
	return 0;
}

/* The first tensor of file @k with other bits than the first file's. */
static int different_bits(const struct verify *v, int k, struct err *err)
{
	const struct inspection *a = &v->files[0], *b = &v->files[k];
	char is[DIGEST_TEXT], was[DIGEST_TEXT], what[256] = "digest ";
	size_t i = 0;

	while (i + 1 < a->data.ntensors && memcmp(a->digests[i], b->digests[i], DIGEST_BYTES) == 0)
		i++;
	if (*a->data.tensors[i].name)
		snprintf(what, sizeof what, "tensor '%.200s': digest ", a->data.tensors[i].name);
	return differs(v, k, what, digest_text(b->digests[i], is), digest_text(a->digests[i], was),
	               err);
}

static int compare_bits(const struct verify *v, struct err *err)
{
	for (int k = 1; compares_local(v) && k < v->nfiles; k++)
		if (memcmp(v->files[0].digest, v->files[k].digest, DIGEST_BYTES) != 0)
			return different_bits(v, k, err);
	return 0;
}

/* ---- all files ---- */

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
	if (!(v->tensors =
	              err_calloc(v->ntensors + 1, sizeof *v->tensors, "the table of tensors", err)))
		return -1;
	for (int k = 0; k < v->nfiles; k++) {
		const struct dataset *d = &v->files[k].data;
		for (size_t i = 0; i < d->ntensors; i++)
			v->tensors[at++] = (struct tensor_entry){
			        .tensor = &d->tensors[i],
			        .input = k,
			        .ninputs = v->ncompared > 1 ? v->ncompared : 0,
			        .as_stored = true};
		if (k < v->ncompared)
			v->table.n = at;
	}
	return 0;
}

/* Do the ranks compare one file with one array? */
static bool is_array(const struct verify *v)
{
	return v->ncompared == 1 && dataset_is_array(&v->files[0].data);
}

/* ---- agreeing ---- */

static void array_facts(struct verify *v)
{
	const struct tensor *t = v->tensors[0].tensor;
	char text[ARRAY_SHAPE_TEXT];

	if (v->life->request->files.raw_file) {
		snprintf(text, sizeof text, "%" PRIu64, t->bytes);
		intent_add(&v->life->intent, "size", text);
		return;
	}
	intent_add(&v->life->intent, "dtype", dtype_name(t->dtype));
	intent_add(&v->life->intent, "shape", tensor_shape_text(t, text));
	intent_add(&v->life->intent, "order", t->fortran ? "Fortran's" : "C's");
}

static int describe(struct verify *v, struct err *err)
{
	struct intent *in = &v->life->intent;
	char text[16];

	in->memory = UINT64_MAX;
	in->ninputs = 1;
	if (v->ncompared == 1)
		snprintf(in->subject, sizeof in->subject, "%s", v->files[0].data.path);
	snprintf(text, sizeof text, "%d", v->ncompared);
	intent_add(in, "number of files", text);
	if (v->ncompared == 1)
		tensor_content_fact(in, is_array(v));
	if (!is_array(v))
		return tensor_table_fact(&v->table, in, err);
	array_facts(v);
	return 0;
}

static int offer(struct coll *life, struct err *err)
{
	struct verify *v = life->state;

	v->life = life;
	if (open_all(v, err) < 0 || compare_tensors(v, err) < 0 || list_tensors(v, err) < 0 ||
	    describe(v, err) < 0)
		return -1;
	life->table = is_array(v) ? NULL : &v->table;
	return 0;
}

/* ---- reading in a thread ---- */

static int signal_piece(void *ctx, struct err *err)
{
	struct verify *v = ctx;

	if (offload_stopped(err) < 0)
		return -1;
	event_signal(v->pieces.fd);
	return 0;
}

/* Combine the digests of several files, as if they were tensors named by the files' numbers. */
static int join_digests(struct verify *v, struct err *err)
{
	size_t n = (size_t)v->ncompared;
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
		if (inspect_read(file, false, signal_piece, v, err) < 0)
			return -1;
		for (size_t i = 0; i < file->data.ntensors; i++)
			e++->digest = file->digests[i];
	}
	return compare_bits(v, err) < 0 ? -1 : join_digests(v, err);
}

/* A piece has been read. */
static void on_piece(void *ctx, uint32_t events)
{
	const struct verify *v = ctx;
	uint64_t n, moved = 0;
	(void)events;

	if (io_retry(read(v->pieces.fd, &n, sizeof n)) < 0)
		return; /* an earlier call has read it */
	for (int k = 0; k < v->nfiles; k++)
		moved += v->files[k].moved;
	job_moved(v->life->job, moved, v->total);
}

static int run(struct coll *life, struct err *err)
{
	struct verify *v = life->state;
	struct loop *loop = job_loop(v->life->job);

	v->pieces = (struct loop_watch){
	        .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .fn = on_piece, .ctx = v};
	if (v->pieces.fd < 0)
		return err_errno(err, ERR_RESOURCE, "eventfd");
	int ret = loop_add(loop, &v->pieces, EPOLLIN, err);
	if (ret == 0) {
		job_phase(v->life->job, PHASE_RUN);
		job_moved(v->life->job, 0, v->total);
		ret = job_run_in_thread(v->life->job, read_files, v, err);
		loop_del(loop, &v->pieces);
	}
	close(v->pieces.fd);
	v->read = ret == 0;
	return ret;
}

/* ---- the end ---- */

static int seal(struct coll *life, const uint8_t **digest, struct err *err)
{
	const struct verify *v = life->state;

	(void)err;
	*digest = v->digest;
	return 0;
}

static const char *dtype_of(const struct verify *v)
{
	enum dtype dtype = v->ntensors ? v->tensors[0].tensor->dtype : DTYPE_NONE;

	for (size_t i = 1; i < v->ntensors; i++)
		if (v->tensors[i].tensor->dtype != dtype)
			return "mixed";
	return v->ntensors ? dtype_name(dtype) : NULL;
}

static void report(struct coll *life, struct coll_result *r)
{
	struct verify *v = life->state;

	r->dtype = v->tensors ? dtype_of(v) : NULL;
	r->bytes = v->total;
	for (size_t i = 0; v->tensors && i < v->ntensors; i++) {
		r->count += v->tensors[i].tensor->count;
		r->tensors += *v->tensors[i].tensor->name != '\0';
	}
	r->has_digest = v->read;
	memcpy(r->digest, v->digest, sizeof r->digest);
	r->files = v->read ? v->files : NULL;
	r->local = compares_local(v);
	v->names = err_calloc((size_t)v->nfiles + 1, sizeof *v->names, "the names of the files",
	                      &r->err);
	for (int k = 0; v->names && k < v->nfiles; k++)
		if (v->files[k].open)
			v->names[r->ninputs++] = v->files[k].data.path;
	r->inputs = v->names;
}

static void release(struct coll *life)
{
	struct verify *v = life->state;

	for (int k = 0; k < v->nfiles; k++)
		inspect_release(&v->files[k]);
	free(v->files);
	free(v->names);
	free(v->tensors);
}

const struct coll_task coll_task_verify = {
        .state_size = sizeof(struct verify),
        .offer = offer,
        .run = run,
        .seal = seal,
        .report = report,
        .release = release,
};
