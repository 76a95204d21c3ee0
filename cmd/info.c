/* info: shows the contents of files: types, shapes, tensors, digests, statistics. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/commands.h"
#include "cmd/options/request.h"
#include "cmd/text/columns.h"
#include "cmd/text/progress.h"
#include "cmd/text/result.h"
#include "lib/base/json.h"
#include "lib/base/text.h"
#include "lib/base/units.h"
#include "lib/coll/files/inspect.h"
#include "lib/data/kernels/reduce.h"
#include "lib/data/torch/cover.h"

#define NAME_TEXT 4096

/* The type that all tensors have, or DTYPE_NONE. */
static enum dtype common_dtype(const struct dataset *d)
{
	enum dtype dtype = d->ntensors ? d->tensors[0].dtype : DTYPE_NONE;

	for (size_t i = 1; i < d->ntensors; i++)
		if (d->tensors[i].dtype != dtype)
			return DTYPE_NONE;
	return dtype;
}

static uint64_t elements(const struct dataset *d)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < d->ntensors; i++)
		sum += d->tensors[i].count;
	return sum;
}

/* ---- aliases ---- */

struct located {
	const struct tensor *tensor;
	size_t index;
};

/* Compares the places of two tensors in the files; 0 if they are the same elements. */
static int by_place(const struct tensor *a, const struct tensor *b)
{
	if (a->file != b->file)
		return a->file < b->file ? -1 : 1;
	if (a->offset != b->offset)
		return a->offset < b->offset ? -1 : 1;
	if (a->dtype != b->dtype)
		return a->dtype < b->dtype ? -1 : 1;
	if (a->ndim != b->ndim)
		return a->ndim < b->ndim ? -1 : 1;
	for (int i = 0; i < a->ndim; i++)
		if (a->shape[i] != b->shape[i])
			return a->shape[i] < b->shape[i] ? -1 : 1;
	return 0;
}

static int by_place_and_index(const void *a, const void *b)
{
	const struct located *x = a, *y = b;
	const int order = by_place(x->tensor, y->tensor);

	return order ? order : (x->index > y->index) - (x->index < y->index);
}

/* For each tensor the index of the first one that is the same bytes of a file with the same type
 * and shape; its own index if there is none. Malloced. */
static size_t *find_aliases(const struct dataset *d, struct err *err)
{
	size_t *first = err_calloc(d->ntensors + 1, sizeof *first, "the aliases", err), n = 0;
	struct located *all = err_calloc(d->ntensors + 1, sizeof *all, "the aliases", err);

	for (size_t i = 0; first && all && i < d->ntensors; i++) {
		const struct tensor *t = &d->tensors[i];
		first[i] = i;
		if (t->bytes && !t->copied && !t->npieces && !d->files[t->file].unpacked)
			all[n++] = (struct located){t, i};
	}
	if (n)
		qsort(all, n, sizeof *all, by_place_and_index);
	for (size_t i = 1; i < n; i++)
		if (by_place(all[i].tensor, all[i - 1].tensor) == 0)
			first[all[i].index] = first[all[i - 1].index];
	if (!all) {
		free(first);
		first = NULL;
	}
	free(all);
	return first;
}

/* ---- statistics ---- */

static uint64_t finite(const struct stats *s)
{
	return s->count - s->nans - s->infs;
}

/* Does the type have an order, and are there finite elements? */
static bool has_extremes(const struct stats *s)
{
	return s->min <= s->max;
}

/* Does the type have arithmetic, and are there finite elements? struct stats has no mean of complex
 * numbers. */
static bool has_mean(const struct stats *s, enum dtype dtype)
{
	return dtype_has_arithmetic(dtype) && !dtype_is_complex(dtype) && finite(s) > 0;
}

static double mean(const struct stats *s)
{
	return s->sum / (double)finite(s);
}

/* ---- JSON ---- */

/* The shortest decimal number that rounds to @x in @dtype: 0.1 for f32. */
static double shortest(double x, enum dtype dtype)
{
	convert_fn *narrow = convert_kernel(dtype, DTYPE_F64);
	uint64_t want = 0, have = 0;
	char text[32];
	double short_one = x;

	if (!narrow)
		return x;
	narrow(&want, &x, 1);
	for (int digits = 1; digits <= 17; digits++) {
		snprintf(text, sizeof text, "%.*g", digits, x);
		short_one = strtod(text, NULL);
		narrow(&have, &short_one, 1);
		if (have == want)
			return short_one;
	}
	return x;
}

static json_t *number(long double x, enum dtype dtype)
{
	if (dtype_is_float(dtype))
		return json_real(shortest((double)x, dtype));
	return x < 0 ? json_integer((json_int_t)x) : json_u64((uint64_t)x);
}

static json_t *mean_json(const struct stats *s, enum dtype dtype)
{
	json_t *j = has_mean(s, dtype) ? json_real(mean(s)) : NULL; /* NULL too if it overflows */

	return j ? j : json_null();
}

static json_t *axes_json(const uint64_t *axes, int ndim)
{
	json_t *j = json_array();

	for (int i = 0; i < ndim; i++)
		json_array_append_new(j, json_integer((json_int_t)axes[i]));
	return j;
}

static json_t *shape_json(const struct tensor *t)
{
	return axes_json(t->shape, t->ndim);
}

/* Of a piece: where it begins, and the shape of the whole, if that is known. */
static void add_place(json_t *j, const struct tensor *t)
{
	if (!j || !t->first)
		return;
	json_object_set_new(j, "offsets", axes_json(t->first, t->ndim));
	json_object_set_new(j, "whole", t->whole ? axes_json(t->whole, t->ndim) : json_null());
}

static json_t *holes_json(const struct inspection *in)
{
	json_t *holes = json_array();

	for (size_t i = 0; i < in->holes.n; i++) {
		const struct inspect_hole *h = &in->holes.v[i];
		json_array_append_new(holes, json_pack("{s:s, s:o, s:o}", "name", h->name,
		                                       "offsets", axes_json(h->first, h->ndim),
		                                       "shape", axes_json(h->size, h->ndim)));
	}
	return holes;
}

static json_t *digest_json(const struct inspection *in, const uint8_t digest[DIGEST_BYTES])
{
	char text[DIGEST_TEXT];

	return in->digests ? json_string(digest_text(digest, text)) : json_null();
}

static json_t *piece_json(const struct dataset *d, int file, uint64_t offset, uint64_t bytes)
{
	return json_pack("{s:o, s:I, s:I}", "file", json_path(d->files[file].name), "offset",
	                 (json_int_t)offset, "bytes", (json_int_t)bytes);
}

/* Where the tensor's bytes lie in the files, in C order; of a view, and of an archive's member,
 * nowhere. */
static json_t *pieces_json(const struct dataset *d, const struct tensor *t)
{
	json_t *pieces = json_array();

	for (int k = 0; k < t->npieces && !t->copied; k++)
		if (!d->files[t->pieces[k].file].unpacked)
			json_array_append_new(pieces,
			                      piece_json(d, t->pieces[k].file, t->pieces[k].offset,
			                                 t->pieces[k].bytes));
	if (!t->npieces && t->bytes && !t->copied && !d->files[t->file].unpacked)
		json_array_append_new(pieces, piece_json(d, t->file, t->offset, t->bytes));
	return pieces;
}

static json_t *tensor_json(const struct inspection *in, size_t i, const size_t *first)
{
	const struct tensor *t = &in->data.tensors[i];
	const struct stats *s = in->stats ? &in->stats[i] : NULL;
	json_t *j = json_pack(
	        "{s:s, s:s, s:o, s:I, s:I, s:o, s:b, s:b, s:o, s:o}", "name", t->name, "dtype",
	        dtype_name(t->dtype), "shape", shape_json(t), "count", (json_int_t)t->count,
	        "bytes", (json_int_t)t->bytes, "digest",
	        digest_json(in, in->digests ? in->digests[i] : NULL), "fortran_order", t->fortran,
	        "big_endian", t->swapped, "pieces", pieces_json(&in->data, t), "alias_of",
	        first[i] != i ? json_string(in->data.tensors[first[i]].name) : json_null());

	if (in->holes.n)
		add_place(j, t);
	if (!j || !s || !dtype_has_arithmetic(t->dtype))
		return j;
	json_object_set_new(j, "min", has_extremes(s) ? number(s->min, t->dtype) : json_null());
	json_object_set_new(j, "max", has_extremes(s) ? number(s->max, t->dtype) : json_null());
	json_object_set_new(j, "mean", mean_json(s, t->dtype));
	json_object_set_new(j, "nan", json_integer((json_int_t)s->nans));
	json_object_set_new(j, "inf", json_integer((json_int_t)s->infs));
	return j;
}

static json_t *values_json(const struct dataset *d)
{
	json_t *values = json_array();

	for (size_t i = 0; i < d->nvalues; i++)
		json_array_append_new(
		        values, json_pack("{s:s, s:o}", "name", d->values[i].name, "value",
		                          json_loads(d->values[i].json, JSON_DECODE_ANY, NULL)));
	return values;
}

static json_t *to_json(const struct inspection *in, const size_t *first)
{
	const struct dataset *d = &in->data;
	enum dtype dtype = common_dtype(d);
	json_t *tensors = json_array(), *files = json_array();

	for (size_t i = 0; i < d->ntensors; i++)
		json_array_append_new(tensors, tensor_json(in, i, first));
	for (int i = 0; i < d->nfiles; i++)
		if (!d->files[i].unpacked)
			json_array_append_new(files, json_path(d->files[i].name));
	json_t *j = json_pack(
	        "{s:s, s:b, s:o, s:s, s:o, s:o, s:I, s:I, s:o, s:o, s:o, s:o, s:n}", "command",
	        "info", "ok", 1, "file", json_path(d->path), "format", d->format->name, "dtype",
	        dtype == DTYPE_NONE ? json_null() : json_string(dtype_name(dtype)), "shape",
	        dataset_is_array(d) ? shape_json(&d->tensors[0]) : json_null(), "count",
	        (json_int_t)elements(d), "bytes", (json_int_t)dataset_bytes(d), "digest",
	        digest_json(in, in->digest), "files", files, "tensors", tensors, "values",
	        values_json(d), "error");
	if (j && in->holes.n) {
		json_object_set_new(j, "digest", json_null());
		json_object_set_new(j, "missing", holes_json(in));
	}
	return j;
}

/* ---- text ---- */

/* " and " between the last two, ", " between others: "bf16, f32 and i64". */
static void print_dtypes(const struct dataset *d)
{
	bool there[DTYPES] = {false};
	int n = 0;

	for (size_t i = 0; i < d->ntensors; i++) {
		n += !there[d->tensors[i].dtype];
		there[d->tensors[i].dtype] = true;
	}
	for (enum dtype t = 0; t < DTYPES; t++)
		if (there[t])
			printf("%s%s", dtype_name(t), --n > 1 ? ", " : n == 1 ? " and " : "");
}

/* "model: safetensors, 5 files, 201 tensors of bf16, 1100000000 elements, 2.0 GiB" */
static void print_summary(const struct inspection *in)
{
	const struct dataset *d = &in->data;
	char text[NAME_TEXT], shape[ARRAY_SHAPE_TEXT], size[UNITS_TEXT], digest[DIGEST_TEXT];

	printf("%s: %s, ", text_escape(text, sizeof text, d->path), d->format->name);
	if (d->sharded)
		printf("%d file%s, ", d->nfiles, d->nfiles == 1 ? "" : "s");
	if (!dataset_is_array(d))
		printf("%zu %s%s%s", d->ntensors, in->holes.n ? "piece" : "tensor",
		       d->ntensors == 1 ? "" : "s", d->ntensors ? " of " : "");
	print_dtypes(d);
	if (dataset_is_array(d))
		printf(" %s%s%s", tensor_shape_text(&d->tensors[0], shape),
		       d->tensors[0].fortran ? " in Fortran order" : "",
		       d->tensors[0].swapped ? ", big-endian" : "");
	printf(", %" PRIu64 " elements, %s\n", elements(d), size_text(dataset_bytes(d), size));
	if (in->digests && !in->holes.n)
		printf("digest %s\n", digest_text(in->digest, digest));
}

static void value_text(char text[32], long double x, enum dtype dtype)
{
	if (dtype_is_float(dtype))
		snprintf(text, 32, "%.6Lg", x);
	else
		snprintf(text, 32, "%.0Lf", x);
}

/* A tensor's statistics: minimum, maximum, mean, NaN, Inf; "-" if it has none. */
enum { STATS = 5 };

static const char *const stats_head[STATS] = {"min", "max", "mean", "NaN", "Inf"};

static void stats_text(const struct stats *s, enum dtype dtype, char text[STATS][32])
{
	for (int i = 0; i < STATS; i++)
		strcpy(text[i], "-");
	if (!dtype_has_arithmetic(dtype))
		return;
	if (has_extremes(s)) {
		value_text(text[0], s->min, dtype);
		value_text(text[1], s->max, dtype);
	}
	if (has_mean(s, dtype))
		snprintf(text[2], sizeof text[2], "%.6g", mean(s));
	snprintf(text[3], sizeof text[3], "%" PRIu64, s->nans);
	snprintf(text[4], sizeof text[4], "%" PRIu64, s->infs);
}

static void print_array_stats(const struct inspection *in)
{
	char text[STATS][32];

	if (!in->stats)
		return;
	stats_text(&in->stats[0], in->data.tensors[0].dtype, text);
	for (int k = 0; k < STATS; k++)
		printf("%s%s %s", k ? ", " : "", stats_head[k], text[k]);
	putchar('\n');
}

/* Columns of the table of tensors. The name is last, because it may have any length. */
enum { TENSOR_DTYPE, TENSOR_SHAPE, TENSOR_BYTES, TENSOR_DIGEST, TENSOR_STATS };

#define NAME_LEAST   24 /* columns that a narrow terminal leaves of a name */
#define DIGEST_LEAST 13 /* and of a digest: enough to tell it from others */

/* The cells of a tensor, in a text for each. */
struct tensor_text {
	char shape[ARRAY_SHAPE_TEXT], bytes[24], digest[DIGEST_TEXT], stats[STATS][32],
	        name[NAME_TEXT];
};

/* Append " [0:3, 0:4]" to the name of a piece. */
static void add_range(char name[NAME_TEXT], const struct tensor *t)
{
	char range[ARRAY_SHAPE_TEXT];
	const size_t n = strlen(name);

	snprintf(name + n, NAME_TEXT - n, " %s", cover_text(t->first, t->shape, t->ndim, range));
}

static void tensor_cells(const struct inspection *in, size_t i, struct tensor_text *text,
                         struct table_cell *cells)
{
	const struct tensor *t = &in->data.tensors[i];
	int n = TENSOR_STATS;

	snprintf(text->bytes, sizeof text->bytes, "%" PRIu64, t->bytes);
	cells[TENSOR_DTYPE].text = dtype_name(t->dtype);
	cells[TENSOR_SHAPE].text = tensor_shape_text(t, text->shape);
	cells[TENSOR_BYTES].text = text->bytes;
	cells[TENSOR_DIGEST].text = in->digests ? digest_text(in->digests[i], text->digest) : "-";
	if (in->stats)
		stats_text(&in->stats[i], t->dtype, text->stats);
	for (int k = 0; in->stats && k < STATS; k++)
		cells[n++].text = text->stats[k];
	cells[n].text = text_escape(text->name, sizeof text->name, t->name);
	if (in->holes.n && t->first)
		add_range(text->name, t);
}

static void print_tensors(const struct inspection *in)
{
	struct table_column columns[TABLE_COLUMNS] = {
	        [TENSOR_DTYPE] = {.head = "dtype", .width = 5},
	        [TENSOR_SHAPE] = {.head = "shape", .width = 5, .gap = 2},
	        [TENSOR_BYTES] = {.head = "bytes", .width = 5, .gap = 2, .right = true},
	        [TENSOR_DIGEST] = {.head = "digest", .width = 6, .gap = 2, .least = DIGEST_LEAST},
	};
	struct table table = {.columns = columns, .n = TENSOR_STATS};
	struct table_cell cells[TABLE_COLUMNS] = {{NULL, TERMINAL_PLAIN}};
	struct tensor_text text;

	if (!in->data.ntensors)
		return;
	for (int k = 0; in->stats && k < STATS; k++)
		columns[table.n++] = (struct table_column){.head = stats_head[k],
		                                           .width = (int)strlen(stats_head[k]),
		                                           .gap = 2,
		                                           .right = true,
		                                           .begins = k == 0};
	columns[table.n++] = (struct table_column){
	        .head = "name", .width = 4, .gap = 2, .begins = true, .least = NAME_LEAST};
	for (size_t i = 0; i < in->data.ntensors; i++) {
		tensor_cells(in, i, &text, cells);
		table_widen(&table, cells);
	}
	table_fit(&table);
	table_heading(&table);
	for (size_t i = 0; i < in->data.ntensors; i++) {
		tensor_cells(in, i, &text, cells);
		table_row(&table, cells);
	}
}

static void print_holes(const struct inspection *in)
{
	char name[NAME_TEXT], range[ARRAY_SHAPE_TEXT];

	if (in->holes.n)
		printf("missing pieces, the first of each tensor:\n");
	for (size_t i = 0; i < in->holes.n; i++) {
		const struct inspect_hole *h = &in->holes.v[i];
		printf("%s %s\n", text_escape(name, sizeof name, h->name),
		       cover_text(h->first, h->size, h->ndim, range));
	}
}

static void print_values(const struct dataset *d)
{
	char name[NAME_TEXT];

	if (d->nvalues)
		printf("other values, which outputs lack:\n");
	for (size_t i = 0; i < d->nvalues; i++) {
		json_t *value = json_loads(d->values[i].json, JSON_DECODE_ANY, NULL);
		char *text = json_text(value, JSON_ENCODE_ANY);
		printf("%s = %s\n", text_escape(name, sizeof name, d->values[i].name),
		       text ? text : "?");
		free(text);
		json_decref(value);
	}
}

/* Tensors that are the same bytes of a file, as tied weights are. */
static void print_aliases(const struct dataset *d, const size_t *first)
{
	char name[NAME_TEXT], of[NAME_TEXT];
	bool any = false;

	for (size_t i = 0; i < d->ntensors; i++) {
		if (first[i] == i)
			continue;
		printf("%s%s = %s\n", any ? "" : "the same bytes:\n",
		       text_escape(name, sizeof name, d->tensors[i].name),
		       text_escape(of, sizeof of, d->tensors[first[i]].name));
		any = true;
	}
}

static void print_inspection(const struct inspection *in, const size_t *first)
{
	print_summary(in);
	if (dataset_is_array(&in->data))
		print_array_stats(in);
	else
		print_tensors(in);
	print_aliases(&in->data, first);
	print_holes(in);
	print_values(&in->data);
}

/* ---- the command ---- */

static void look(void *ctx, struct progress_now *now)
{
	const struct inspection *in = ctx;

	now->phase = now->doing = "read";
	now->moved = in->moved;
	now->total = dataset_bytes(&in->data);
}

static int step(void *ctx, struct err *err)
{
	(void)err;
	progress_step(ctx);
	return 0;
}

static int inspect(struct inspection *in, const char *path, const struct input_source *from,
                   const struct options *o, struct err *err)
{
	struct progress progress;

	if (inspect_open_pieces(in, path, from, err) < 0)
		return -1;
	if (o->no_digest)
		return 0;
	progress_start(&progress, o, "info", NULL, look, in);
	int ret = inspect_read(in, o->request.stats, step, &progress, err);
	progress_stop(&progress);
	return ret;
}

static json_t *failure_json(const char *path, const struct err *err)
{
	return json_pack("{s:s, s:b, s:o, s:o}", "command", "info", "ok", 0, "file",
	                 json_path(path), "error", json_error(err, -1, "run"));
}

/* Show one file: set *@object (--json), or print its text, after an empty line unless it is the
 * @first. Returns the exit code. */
static int info(const char *path, const struct input_source *from, const struct options *o,
                bool first, json_t **object)
{
	struct inspection in = {0};
	struct err err = ERR_INIT;
	int code = 0;

	size_t *firsts =
	        inspect(&in, path, from, o, &err) < 0 ? NULL : find_aliases(&in.data, &err);
	if (!firsts) {
		code = report(&err, -1);
		*object = o->json ? failure_json(path, &err) : NULL;
	} else if (o->json) {
		*object = to_json(&in, firsts);
	} else {
		fputs(first ? "" : "\n", stdout);
		print_inspection(&in, firsts);
	}
	free(firsts);
	inspect_release(&in);
	return code;
}

static void note(void *ctx, const char *text)
{
	const struct options *o = ctx;

	if (o->verbose >= 0)
		report_note("%s", text);
}

/* If a file cannot be read, the others are still shown; the first failure sets the exit code. With
 * --json prints one object for one file, else an array. */
int cmd_info(const struct command *cmd, struct options *o, int argc, char **argv)
{
	json_t *all = o->json && argc > 2 ? json_array() : NULL, *object = NULL;
	struct input_options files = o->request.files;
	const struct input_source from = {.o = &files,
	                                  .pieces = true,
	                                  .heads_only = o->no_digest,
	                                  .raw_file = files.raw_file,
	                                  .memory = o->request.settings.memory,
	                                  .note = note,
	                                  .ctx = o};
	struct err err = ERR_INIT;
	int code = 0;

	files.takes_bytes = command_groups(cmd) & FOR_BYTES;
	if (o->no_digest && o->request.stats)
		err_set(&err, ERR_USAGE,
		        "--no-digest: --stats reads all elements: remove one of them");
	if (err.code || inputs_check(&files, &err) < 0)
		return report_failure(cmd->name, o->json, &err);

	for (int i = 1; i < argc; i++) {
		int failed = info(argv[i], &from, o, i == 1, &object);
		code = code ? code : failed;
		if (all)
			json_array_append_new(all, object);
	}
	if (!o->json)
		return code;
	int printed = report_json(all ? all : object);
	return code ? code : printed;
}
