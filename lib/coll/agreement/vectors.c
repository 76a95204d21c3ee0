/*
 * Makes vectors from inputs: which tensors are in which vector, and in what order. See agreement.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/coll/agreement/agreement.h"
#include "lib/data/kernels/delta.h"
#include "lib/data/kernels/q8.h"

bool vector_diverges(const struct vector *v, const struct coll_algorithm *alg)
{
	return coll_reduces(v->kind) && (alg->flags & COLL_DIVERGENT) &&
	       reduce_order_matters(v->op, v->dtype);
}

bool vector_is_delta(const struct vector *v, const struct coll_request *r)
{
	return r->origin && v->kind == r->kind;
}

bool agreement_replicates(const struct agreement *a, const struct coll_request *r)
{
	bool same = coll_rules(r->kind)->replicated;
	for (int i = 0; i < a->nvectors; i++)
		same &= !vector_diverges(&a->vectors[i], a->vectors[i].algorithm);
	return same;
}

/* ---- checks ---- */

/* What a refusal begins with. Written for it alone, as there may be many thousands of tensors. */
static const char *subject(char buf[512], const char *path, const struct tensor *t)
{
	snprintf(buf, 512, "%s%s%s%s", path, *t->name ? ": tensor '" : "", t->name,
	         *t->name ? "'" : "");
	return buf;
}

/* Check that the request supports @t, a tensor of the input @path. */
static int check_tensor(const struct coll_request *r, const char *path, const struct tensor *t,
                        struct err *err)
{
	enum dtype d = t->dtype;
	const bool taken = r->integers == INTEGERS_FIRST || r->integers == INTEGERS_EQUAL;
	const bool mean = r->op == REDUCE_AVG || r->op == REDUCE_TRIMMED;
	const bool floats = r->origin || r->op == REDUCE_SLERP;
	char buf[512];
	const char *or_exclude = *t->name ? ", or exclude it (--exclude)" : "";
	if (!dtype_has_arithmetic(d))
		return err_set(err, ERR_INPUT,
		               "%s: %s has no arithmetic: it can only be broadcast%s",
		               subject(buf, path, t), dtype_name(d),
		               *t->name ? " or excluded (--exclude)" : "");
	if (!*t->name && r->output_dtype && request_output_dtype(r, d) != r->output_dtype)
		return err_set(err, ERR_USAGE,
		               "%s: --output-dtype converts floats, and the input has %s: remove "
		               "the option",
		               subject(buf, path, t), dtype_name(d));
	if (!*t->name && r->max_shard)
		return err_set(err, ERR_USAGE,
		               "%s: --max-shard-size divides named tensors, and the input is one "
		               "array: remove the option",
		               subject(buf, path, t));
	if (!coll_reduces(r->kind) || (dtype_is_integer(d) && taken))
		return 0;
	if (request_is_q8(r) && (!dtype_is_float(d) || dtype_is_complex(d)))
		return err_set(err, ERR_USAGE, "%s: --wire q8 is for floats, not %s%s%s",
		               subject(buf, path, t), dtype_name(d),
		               dtype_is_integer(d) ? ": give --integers first or equal" : "",
		               or_exclude);
	if (floats && delta_dtype(d) != DTYPE_NONE)
		return 0;
	if (floats)
		return err_set(
		        err, ERR_USAGE, "%s: %s is not defined on %s%s%s", subject(buf, path, t),
		        r->origin ? "--origin" : "--op slerp", dtype_name(d),
		        dtype_is_integer(d) ? ": give --integers first or equal" : "", or_exclude);
	if (mean && dtype_is_integer(d) && (r->op == REDUCE_AVG || reduce_op_defined(r->op, d)))
		return r->integers ? 0
		                   : err_set(err, ERR_USAGE,
		                             "%s: --op %s is not defined on %s: give "
		                             "--integers first, equal or round%s",
		                             subject(buf, path, t), reduce_op_name(r->op),
		                             dtype_name(d), or_exclude);
	if (reduce_op_defined(r->op, d))
		return 0;
	return err_set(err, ERR_USAGE, "%s: --op %s is not defined on %s%s", subject(buf, path, t),
	               reduce_op_name(r->op), dtype_name(d),
	               *t->name ? ": exclude it (--exclude)" : "");
}

void vector_serve(struct vector *v, const struct agreement *a, const struct coll_request *r,
                  int ninputs)
{
	bool rows = coll_rules(r->kind)->cut == CUT_ROWS;
	bool mean = request_runs_mean(r);
	bool whole = mean && dtype_is_integer(v->dtype) && coll_reduces(r->kind);
	v->kind = r->kind;
	v->op = request_run_op(r);
	v->root = a->root;
	v->ninputs = r->each || a->content == CONTENT_BYTES ? 1 : ninputs;
	v->equal = v->stores_block = false;
	if (!whole || (r->integers != INTEGERS_FIRST && r->integers != INTEGERS_EQUAL))
		return;
	v->equal = r->integers == INTEGERS_EQUAL;
	/* Comparing needs all elements, even if only a block is stored. */
	v->stores_block = v->equal && rows;
	v->kind = rows && !v->equal ? COLL_SCATTER : COLL_BROADCAST;
	v->op = REDUCE_SUM;
	v->root = 0;
}

struct layout_of vector_layout_of(const struct vector *v, const struct agreement *a,
                                  const struct coll_request *r)
{
	return (struct layout_of){
	        .request = r,
	        .size = a->ncame,
	        .kind = v->kind,
	        .root = agreement_number(a, v->root),
	        .ninputs = v->ninputs,
	        .joint = v->kind == r->kind ? a->joint : NULL,
	        .stores = agreement_writes(a, r) || v->equal,
	        .array = &v->info,
	        .blocks = v->blocks,
	        .host = agreement_hosts(a),
	        .shares = v->algorithm && v->algorithm->flags & COLL_WEIGHTED ? a->shares : NULL};
}

/* ---- arrays ---- */

int vectors_of_arrays(struct agreement *a, int n, struct err *err)
{
	a->content = CONTENT_ARRAYS;
	a->vectors = err_calloc((size_t)n, sizeof *a->vectors, "the arrays", err);
	a->tensors = err_calloc((size_t)n, sizeof *a->tensors, "the arrays", err);
	if (!a->vectors || !a->tensors)
		return -1;
	a->nvectors = n;
	a->ntensors = (size_t)n;
	for (int i = 0; i < n; i++) {
		struct vector *v = &a->vectors[i];
		a->tensors[i] = (struct vector_tensor){.input = i, .vector = i, .tensor.name = ""};
		if (!(v->tensors = err_calloc(1, sizeof *v->tensors, "the arrays", err)))
			return -1;
		v->tensors[0] = (uint32_t)i;
		v->ntensors = 1;
	}
	return 0;
}

/* Make a vector for each input, or one for all inputs that are reduced locally. */
static int arrays_of_inputs(struct agreement *a, const struct coll_request *r,
                            const struct dataset *inputs, int n, struct err *err)
{
	if (vectors_of_arrays(a, r->each ? n : 1, err) < 0)
		return -1;
	for (int i = 0; i < a->nvectors; i++) {
		struct vector *v = &a->vectors[i];
		const struct tensor *t = &inputs[i].tensors[0];
		if (tensor_info(t, &v->info) < 0)
			return err_set(err, ERR_INPUT, "%s: has too many dimensions, %d",
			               inputs[i].path, t->ndim);
		v->info.format = inputs[i].format;
		v->info.fortran = t->fortran;
		v->dtype = t->dtype;
		a->tensors[i].tensor = *t;
		if (check_tensor(r, inputs[i].path, t, err) < 0)
			return -1;
		vector_serve(v, a, r, n);
	}
	return 0;
}

/* ---- tensors by type ---- */

/* List the tensors in canonical order: of each input with request.each, else of the first input,
 * because the others have the same tensors.
 */
static int list_tensors(struct agreement *a, const struct coll_request *r,
                        const struct dataset *inputs, int ninputs, struct err *err)
{
	int n = r->each ? ninputs : 1;
	size_t total = 0;
	for (int k = 0; k < n; k++)
		total += inputs[k].ntensors;
	if (!(a->tensors = err_calloc(total + 1, sizeof *a->tensors, "the tensors", err)))
		return -1;
	for (int k = 0; k < n; k++)
		for (size_t i = 0; i < inputs[k].ntensors; i++) {
			const struct tensor *t = &inputs[k].tensors[i];
			a->tensors[a->ntensors++] =
			        (struct vector_tensor){.tensor = *t, .input = k, .index = i};
			if (check_tensor(r, inputs[k].path, t, err) < 0)
				return -1;
		}
	return 0;
}

static int describe_vectors(struct agreement *a, struct err *err)
{
	for (int i = 0; i < a->nvectors; i++) {
		struct array_info *info = &a->vectors[i].info;
		*info = (struct array_info){.format = &format_raw,
		                            .dtype = a->vectors[i].dtype,
		                            .ndim = 1,
		                            .shape = {info->count}};
		if (array_count(info) < 0)
			return err_set(err, ERR_INPUT, "the inputs have too many elements");
	}
	return 0;
}

/* Make an empty vector for each type that occurs. */
static int make_vectors(struct agreement *a, const struct coll_request *r, int ninputs,
                        int vector_of[DTYPES], struct err *err)
{
	size_t count[DTYPES] = {0};
	/* A job needs at least one vector. Files without tensors get one without elements. */
	enum dtype of_none = request_runs_mean(r) ? DTYPE_F32 : DTYPE_U8;
	for (size_t i = 0; i < a->ntensors; i++)
		count[a->tensors[i].tensor.dtype]++;
	if (!(a->vectors = err_calloc(DTYPES, sizeof *a->vectors, "the vectors", err)))
		return -1;
	for (int d = 0; d < DTYPES; d++) {
		if (!count[d] && (a->ntensors || d != (int)of_none))
			continue;
		struct vector *v = &a->vectors[a->nvectors];
		vector_of[d] = a->nvectors++;
		v->dtype = (enum dtype)d;
		if (!(v->tensors =
		              err_calloc(count[d] + 1, sizeof *v->tensors, "the vectors", err)))
			return -1;
		vector_serve(v, a, r, ninputs);
	}
	return 0;
}

/* Make a vector for each type that occurs, in the order of enum dtype. */
static int group_by_type(struct agreement *a, const struct coll_request *r, int ninputs,
                         struct err *err)
{
	int vector_of[DTYPES];
	if (make_vectors(a, r, ninputs, vector_of, err) < 0)
		return -1;
	for (size_t i = 0; i < a->ntensors; i++) {
		struct vector_tensor *t = &a->tensors[i];
		struct vector *v = &a->vectors[t->vector = vector_of[t->tensor.dtype]];
		t->at = v->info.count;
		if (__builtin_add_overflow(v->info.count, t->tensor.count, &v->info.count))
			return err_set(err, ERR_INPUT, "the inputs have too many elements");
		v->tensors[v->ntensors++] = (uint32_t)i;
	}
	return describe_vectors(a, err);
}

/* ---- bytes ---- */

int vectors_of_files(struct agreement *a, const struct coll_request *r, struct err *err)
{
	const struct file_list *l = &a->root_files;
	size_t n = (size_t)l->nfiles;
	uint64_t at = 0;
	a->content = CONTENT_BYTES;
	if (!(a->vectors = err_calloc(1, sizeof *a->vectors, "the files", err)))
		return -1;
	struct vector *v = a->vectors;
	a->nvectors = 1;
	a->tensors = err_calloc(n + 1, sizeof *a->tensors, "the files", err);
	v->tensors = err_calloc(n + 1, sizeof *v->tensors, "the files", err);
	if (!a->tensors || !v->tensors)
		return -1;
	for (size_t f = 0; f < n; f++) {
		struct vector_tensor *t = &a->tensors[f];
		const uint64_t bytes = listed_bytes(&l->files[f]);
		*t = (struct vector_tensor){.at = at, .index = f};
		t->tensor = (struct tensor){.name = n > 1 ? l->files[f].name : "",
		                            .dtype = DTYPE_U8,
		                            .ndim = 1,
		                            .count = bytes,
		                            .bytes = bytes};
		t->tensor.shape = &t->tensor.count;
		v->tensors[v->ntensors++] = (uint32_t)f;
		at += bytes;
	}
	a->ntensors = n;
	v->dtype = DTYPE_U8;
	v->info.count = at;
	vector_serve(v, a, r, 1);
	return describe_vectors(a, err);
}

int vectors_of_folder(struct agreement *a, const struct coll_request *r, uint64_t bytes,
                      struct err *err)
{
	if (vectors_of_arrays(a, 1, err) < 0)
		return -1;
	struct vector *v = a->vectors;
	struct tensor *t = &a->tensors[0].tensor;
	v->dtype = DTYPE_U8;
	v->info.count = bytes;
	*t = (struct tensor){
	        .name = "", .dtype = DTYPE_U8, .ndim = 1, .count = bytes, .bytes = bytes};
	t->shape = &t->count;
	vector_serve(v, a, r, 1);
	return describe_vectors(a, err);
}

/* ---- files beside tensors ---- */

/* Room in the lists for one more vector, and for the files. */
static int add_room(struct agreement *a, struct err *err)
{
	const size_t n = agreement_entries(a);
	void *vectors = err_realloc(a->vectors, (size_t)a->nvectors + 1, sizeof *a->vectors,
	                            "the vectors", err);
	if (!vectors)
		return -1;
	a->vectors = vectors;
	a->vectors[a->nvectors] = (struct vector){.dtype = DTYPE_U8};
	void *tensors = err_realloc(a->tensors, n + 1, sizeof *a->tensors, "the files", err);
	if (!tensors)
		return -1;
	a->tensors = tensors;
	return 0;
}

int vectors_add_beside(struct agreement *a, struct err *err)
{
	const struct file_list *l = &a->beside;
	const size_t n = (size_t)l->nfiles;
	if (!n)
		return 0;
	if (add_room(a, err) < 0)
		return -1;
	struct vector *v = &a->vectors[a->nvectors];
	if (!(v->tensors = err_calloc(n, sizeof *v->tensors, "the files", err)))
		return -1;
	a->nvectors++;
	for (size_t f = 0; f < n; f++) {
		const uint64_t bytes = l->files[f].bytes;
		struct vector_tensor *t = &a->tensors[a->ntensors + f];
		*t = (struct vector_tensor){
		        .vector = a->nvectors - 1, .at = v->info.count, .index = f};
		t->tensor = (struct tensor){.name = l->files[f].name,
		                            .dtype = DTYPE_U8,
		                            .ndim = 1,
		                            .count = bytes,
		                            .bytes = bytes};
		v->tensors[v->ntensors++] = (uint32_t)(a->ntensors + f);
		v->info.count += bytes; /* file_list_get has checked the sum */
	}
	for (size_t f = 0; f < n; f++)
		a->tensors[a->ntensors + f].tensor.shape =
		        &a->tensors[a->ntensors + f].tensor.count;
	v->kind = COLL_BROADCAST;
	v->op = REDUCE_SUM;
	v->ninputs = 1;
	v->info = (struct array_info){
	        .format = &format_raw, .dtype = DTYPE_U8, .ndim = 1, .shape = {v->info.count}};
	return array_count(&v->info) < 0 ? err_set(err, ERR_INPUT, "the files have too many bytes")
	                                 : 0;
}

/* ---- all ---- */

/* Divide each tensor that is added into blocks. */
static void cut_blocks(struct agreement *a, const struct coll_request *r)
{
	for (int i = 0; i < a->nvectors; i++) {
		struct vector *v = &a->vectors[i];
		for (size_t k = 0; v->kind == r->kind && k < v->ntensors; k++) {
			struct vector_tensor *t = &a->tensors[v->tensors[k]];
			t->block = v->blocks;
			v->blocks += q8_blocks(t->tensor.count);
		}
	}
}

struct block_run vector_block_run(const struct agreement *a, const struct vector *v, uint64_t pos,
                                  uint64_t n)
{
	size_t lo = 0, hi = v->ntensors;
	while (hi - lo > 1) {
		const size_t mid = lo + (hi - lo) / 2;
		*(a->tensors[v->tensors[mid]].block <= pos ? &lo : &hi) = mid;
	}
	const struct vector_tensor *t = &a->tensors[v->tensors[lo]];
	const uint64_t first = pos - t->block, all = q8_blocks(t->tensor.count);
	const uint64_t last = n < all - first ? first + n : all;
	struct block_run run = {.i = lo, .n = last - first, .at = first * Q8_VALUES};
	run.count = last < all ? run.n * Q8_VALUES
	                       : t->tensor.count - (first < all ? run.at : t->tensor.count);
	run.at = first < all ? t->at + run.at : t->at + t->tensor.count;
	return run;
}

uint64_t vector_element(const struct agreement *a, const struct vector *v, uint64_t at)
{
	return v->blocks ? vector_block_run(a, v, at, 0).at : at;
}

int vectors_of_inputs(struct agreement *a, const struct coll_request *r,
                      const struct dataset *inputs, int n, struct err *err)
{
	if (a->content == CONTENT_ARRAYS && arrays_of_inputs(a, r, inputs, n, err) < 0)
		return -1;
	if (a->content != CONTENT_ARRAYS &&
	    (list_tensors(a, r, inputs, n, err) < 0 || group_by_type(a, r, n, err) < 0))
		return -1;
	if (request_is_q8(r))
		cut_blocks(a, r);
	return 0;
}

void agreement_release(struct agreement *a)
{
	for (int i = 0; i < a->nvectors; i++) {
		struct vector *v = &a->vectors[i];
		free(v->tensors);
		layout_release(&v->layout);
		free(v->ranks);
		free(v->rows);
		free(v->from);
	}
	for (int i = 0; a->names && i < a->nvectors; i++)
		free(a->names[i]);
	for (int i = 0; a->rank_files && i < a->size; i++)
		rank_files_release(&a->rank_files[i]);
	free(a->names);
	free(a->rank_files);
	free(a->host_came);
	free(a->joint);
	free(a->shares);
	free(a->dropped);
	free(a->vectors);
	free(a->tensors);
	file_list_release(&a->root_files);
	file_list_release(&a->beside);
}
