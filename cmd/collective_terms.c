/*
 * What the ranks of a collective agree on. Each says what it is to do (facts, which must be the
 * same) and, where the others can't know it, what its array is (details); rank 0 decides
 * (collective_decide.c) and tells every rank what it has to know; each then lays out its own
 * blocks. See collective.h.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "cmd/collective.h"

/* ---- the command line ---- */

static int parse_counts(struct collective *c, struct err *err)
{
	const char *s = c->o->counts;
	uint64_t sum;
	int n = 0;
	c->counts = calloc((size_t)c->size, sizeof *c->counts);
	if (!c->counts)
		return err_nomem(err, "--counts", (size_t)c->size * sizeof *c->counts);
	for (;; s++) {
		size_t digits = strspn(s, "0123456789");
		if (!digits || digits > 18 || (s[digits] && s[digits] != ','))
			return err_set(err, ERR_USAGE,
			               "--counts: '%s' is not a list of rows, such as 3,4,0",
			               c->o->counts);
		if (n < c->size)
			c->counts[n] = strtoull(s, NULL, 10);
		n++;
		s += digits;
		if (!*s)
			break;
	}
	if (n != c->size)
		return err_set(err, ERR_USAGE, "--counts: has %d numbers for %d ranks", n, c->size);
	if (rows_sum(c->counts, c->size, &sum) < 0)
		return err_set(err, ERR_USAGE, "--counts: too many rows");
	return 0;
}

int terms_check(struct collective *c, struct err *err)
{
	if (options_fit(c->o, c->kind, c->size, err) < 0)
		return -1;
	return c->o->counts ? parse_counts(c, err) : 0;
}

/* ---- layouts ---- */

static int count_array(struct array_info *info, uint64_t rows, struct err *err)
{
	info->shape[0] = rows;
	info->offset = 0;
	return array_count(info) < 0 ? err_set(err, ERR_RESOURCE, "the result is too large") : 0;
}

/* Prefix sums of @rows, in elements of @row each. */
static void add_up(const uint64_t *rows, int size, uint64_t row, uint64_t *off)
{
	off[0] = 0;
	for (int j = 0; j < size; j++)
		off[j + 1] = off[j] + rows[j] * row;
}

/* The rows of the array that @rank gets. */
static int rows_out(const struct collective *c, int rank, const uint64_t *rows,
                    const uint64_t *from, uint64_t *sum)
{
	if (c->kind == COLL_ALLTOALL && !from)
		return __builtin_mul_overflow(rows[rank], (uint64_t)c->size, sum) ? -1 : 0;
	if (c->rules->cut == CUT_JOINED || from)
		return rows_sum(from ? from : rows, c->size, sum);
	*sum = rows[rank];
	return 0;
}

static int lay_out_rows(const struct collective *c, const struct part *p, int rank,
                        const uint64_t *rows, const uint64_t *from, struct layout *l,
                        struct err *err)
{
	uint64_t row = 1, all, got;
	struct array_info whole = p->info;
	for (int i = 1; i < whole.ndim; i++)
		row *= whole.shape[i];
	if (rows_sum(rows, c->size, &all) < 0 || rows_out(c, rank, rows, from, &got) < 0)
		return err_set(err, ERR_RESOURCE, "the result is too large");
	if (count_array(&whole, all, err) < 0 || count_array(&l->out, got, err) < 0)
		return -1;
	add_up(rows, c->size, row, l->off);
	if (from)
		add_up(from, c->size, row, l->recv_off);
	return 0;
}

/* Does this rank store what comes of @p, or look at it? */
static bool takes(const struct collective *c, const struct part *p)
{
	return collective_writes(c) || p->equal;
}

int terms_lay_out(const struct collective *c, const struct part *p, int rank, const uint64_t *rows,
                  const uint64_t *from, struct layout *l, struct err *err)
{
	size_t n = (size_t)c->size + 1;
	if (!l->off)
		l->off = calloc(n, sizeof *l->off);
	if (!l->recv_off)
		l->recv_off = calloc(n, sizeof *l->recv_off);
	if (!l->off || !l->recv_off)
		return err_nomem(err, "the blocks", 2 * n * sizeof *l->off);
	l->out = p->info;
	l->out.swapped = false;
	if (c->rules->cut == CUT_ELEMENTS)
		coll_split(p->info.count, c->size, l->off);
	else if (lay_out_rows(c, p, rank, rows, from, l, err) < 0)
		return -1;
	l->args = (struct coll_args){
	        .rank = rank,
	        .size = c->size,
	        .root = p->root,
	        .ninputs = p->nin && p->kind == c->kind ? p->nin : 1,
	        .noutputs = takes(c, p),
	        .off = l->off,
	        .recv_off = from ? l->recv_off : NULL,
	        .base = (unsigned)c->o->base,
	        .steps = (unsigned)c->o->steps,
	        .esize = (unsigned)dtype_size(p->dtype),
	};
	return 0;
}

void terms_layout_release(struct layout *l)
{
	free(l->off);
	free(l->recv_off);
}

void terms_cut_rows(uint64_t rows, const uint64_t *counts, int size, uint64_t *out)
{
	for (int j = 0; j < size; j++)
		out[j] = counts ? counts[j]
		                : rows / (uint64_t)size + ((uint64_t)j < rows % (uint64_t)size);
}

/* ---- tables ---- */

/* tensor_at: item @i as all ranks have it; once the result is there, with its digest. */
static void item_at(void *ctx, size_t i, struct tensor_entry *out)
{
	const struct collective *c = ctx;
	*out = (struct tensor_entry){
	        .tensor = &c->items[i].tensor,
	        .input = c->items[i].input,
	        .ninputs = !c->o->each || c->shape == OF_BYTES ? 0
	                   : c->shape == OF_ARRAYS             ? c->nparts
	                                                       : c->ninputs,
	        .any_rows = c->rules->cut == CUT_JOINED || c->kind == COLL_ALLTOALL,
	        .digest = c->sealing ? c->digests[i] : NULL,
	};
}

/* ---- what this rank says ---- */

/* Must its arrays be told? Of scatter and broadcast the root's, for the others have none; where the
 * arrays may differ, everybody's. */
static bool tells_arrays(const struct collective *c)
{
	if (c->kind == COLL_BROADCAST || c->kind == COLL_SCATTER)
		return c->rank == c->root;
	return c->rules->cut == CUT_JOINED || c->kind == COLL_ALLTOALL;
}

/* "(*, 4)" where the number of rows is a rank's own. */
static void shape_fact(struct collective *c)
{
	char shape[ARRAY_SHAPE_TEXT], text[ARRAY_SHAPE_TEXT];
	bool any_rows = c->rules->cut == CUT_JOINED || c->kind == COLL_ALLTOALL;
	tensor_shape_text(&c->items[0].tensor, shape);
	snprintf(text, sizeof text, "(*%s", strchr(shape, ',') ? strchr(shape, ',') : ")");
	intent_add(&c->intent, "shape", any_rows ? text : shape);
}

static int counts_fact(struct collective *c, struct err *err)
{
	size_t cap = (size_t)c->size * 21 + 8, at = 0;
	char *text = malloc(cap);
	if (!text)
		return err_nomem(err, "--counts", cap);
	strcpy(text, "none");
	for (int j = 0; c->counts && j < c->size; j++)
		at += (size_t)snprintf(text + at, cap - at, "%s%" PRIu64, j ? "," : "",
		                       c->counts[j]);
	intent_add(&c->intent, "--counts", text);
	free(text);
	return 0;
}

static void number_fact(struct collective *c, const char *name, int value)
{
	char text[16];
	snprintf(text, sizeof text, "%d", value);
	intent_add(&c->intent, name, text);
}

static void flag_fact(struct collective *c, const char *name, bool given)
{
	intent_add(&c->intent, name, given ? "given" : "not given");
}

/* What the inputs are: one array, or a table of tensors. Of a broadcast's files nobody else has
 * any. */
static int input_facts(struct collective *c, struct err *err)
{
	struct intent *in = &c->intent;
	if (!c->ninputs)
		return 0;
	snprintf(in->subject, sizeof in->subject, "%s",
	         c->o->each ? c->cmd->name : c->inputs[0].path);
	if (c->shape == OF_BYTES)
		return 0;
	bool one_array = c->nitems == 1 && !*c->items[0].tensor.name;
	if (c->o->each)
		number_fact(c, "number of inputs", c->ninputs);
	tensor_content_fact(in, one_array);
	if (!one_array)
		return tensor_table_fact(&c->table, in, err);
	intent_add(in, "dtype", dtype_name(c->items[0].tensor.dtype));
	shape_fact(c);
	return 0;
}

static int facts(struct collective *c, struct err *err)
{
	struct intent *in = &c->intent;
	const struct options *o = c->o;
	intent_add(in, "collective", c->cmd->name);
	if (coll_reduces(c->kind))
		intent_add(in, "--op", o->op);
	if (c->cmd->opts & OPTS_BYTES)
		flag_fact(c, "--raw-file", o->raw_file);
	if (c->cmd->opts & OPTS_OUTPUT)
		flag_fact(c, "--each", o->each);
	if (c->cmd->opts & OPTS_AVG)
		intent_add(in, "--integers", o->integers ? o->integers : "not given");
	c->table = (struct tensor_table){.n = c->nitems, .at = item_at, .ctx = c};
	if (input_facts(c, err) < 0)
		return -1;
	if (c->cmd->opts & OPTS_ROOT)
		number_fact(c, "--root", c->root);
	intent_add(in, "--algorithm", o->algorithm);
	if (c->cmd->opts & OPTS_BASE)
		number_fact(c, "--base", o->base);
	if (c->cmd->opts & OPTS_STEPS)
		number_fact(c, "--steps", o->steps);
	if (coll_reduces(c->kind)) {
		intent_add(in, "--order", o->order);
		flag_fact(c, "--allow-divergent", o->allow_divergent);
	}
	if (c->kind == COLL_REDUCE_SCATTER ||
	    (c->kind == COLL_SCATTER && (c->rank == c->root || c->counts)))
		return counts_fact(c, err);
	return 0;
}

/* Which tensors lie in Fortran's order; 0: none. */
static uint64_t order_of(const struct collective *c)
{
	uint64_t h = 0;
	for (size_t i = 0; i < c->nitems; i++)
		if (c->items[i].tensor.fortran)
			h = XXH3_64bits_withSeed(&i, sizeof i, h) | 1;
	return h;
}

/* Do the local inputs that are reduced with one another lie in the same order? */
static bool same_order(const struct collective *c)
{
	for (int k = 1; !c->o->each && k < c->ninputs; k++)
		for (size_t i = 0; i < c->inputs[k].ntensors; i++)
			if (c->inputs[k].tensors[i].fortran != c->inputs[0].tensors[i].fortran)
				return false;
	return true;
}

/* Where the others' outputs have the names of the root's inputs. */
static int tell_name(struct buf *b, const char *name, struct err *err)
{
	if (files_check_name(name, err) < 0)
		return -1;
	details_put_name(b, name);
	return 0;
}

static int tell(struct collective *c, struct err *err)
{
	struct buf *b = &c->details;
	bool arrays = c->shape == OF_ARRAYS && tells_arrays(c);
	buf_init(b, DETAILS_MAX);
	details_put_weight(b, c->o->weight);
	buf_put_u64(b, c->shape == OF_TENSORS && !same_order(c) ? ORDER_MIXED : order_of(c));
	if (claims_tell(c, b, err) < 0)
		return -1;
	buf_put_u8(b, c->shape == OF_BYTES && c->ninputs ? TELLS_FILES
	              : arrays                           ? TELLS_ARRAYS
	                                                 : TELLS_NOTHING);
	if (c->shape == OF_BYTES && c->ninputs)
		details_put_told(b, &c->told);
	if (arrays)
		buf_put_u32(b, (uint32_t)c->nparts);
	for (int i = 0; arrays && i < c->nparts; i++) {
		if (c->o->each && c->kind == COLL_SCATTER &&
		    tell_name(b, files_name(c, i), err) < 0)
			return -1;
		details_put_array(b, &c->parts[i].info, c->counts, c->size);
	}
	if (collective_collects(c) && gathered_tell(c, b, err) < 0)
		return -1;
	if (b->failed)
		return err_set(err, ERR_RESOURCE,
		               "what the other ranks have to know of the inputs does not fit a "
		               "message of %u bytes",
		               DETAILS_MAX);
	c->intent.details = view_of(b->data, b->len);
	return 0;
}

static int describe(struct collective *c, struct err *err)
{
	struct intent *in = &c->intent;
	in->memory = c->o->memory;
	in->ninputs = c->ninputs == 0                      ? 0
	              : c->o->each || c->shape == OF_BYTES ? 1
	                                                   : (uint32_t)c->ninputs;
	in->streams = (uint32_t)c->o->streams;
	return facts(c, err) < 0 ? -1 : tell(c, err);
}

/* ---- what every rank hears ---- */

int terms_malformed(int rank, const struct err *why, struct err *err)
{
	return err_rank(err, why->code, rank, "%s", why->text);
}

static int make_rows(const struct collective *c, struct part *p, struct err *err)
{
	size_t bytes = (size_t)c->size * sizeof *p->rows;
	if (c->rules->cut == CUT_ELEMENTS || p->rows)
		return 0;
	p->rows = calloc(1, bytes);
	if (!p->rows)
		return err_nomem(err, "the ranks' rows", bytes);
	if (c->rules->cut == CUT_ROWS && c->ninputs)
		terms_cut_rows(p->info.shape[0], c->counts, c->size, p->rows);
	return 0;
}

static int adopt_array(struct collective *c, struct view *v, int i, uint64_t *counts,
                       struct err *err)
{
	struct part *p = &c->parts[i];
	bool even;
	if (c->o->each && details_get_name(v, &c->names[i], err) < 0)
		return -1;
	if (details_get_array(v, c->size, &p->info, counts, &even, err) < 0)
		return -1;
	p->kind = c->kind;
	p->root = c->root;
	p->dtype = p->info.dtype;
	if (c->rules->cut == CUT_ELEMENTS)
		return 0;
	if (p->info.ndim == 0)
		return err_set(err, ERR_INTEGRITY, "its array has no axis 0");
	if (make_rows(c, p, err) < 0)
		return -1;
	terms_cut_rows(p->info.shape[0], even ? NULL : counts, c->size, p->rows);
	return 0;
}

static int adopt_arrays(struct collective *c, struct view *v, struct err *err)
{
	uint32_t n = view_u32(v);
	if (v->failed || n == 0 || n > view_left(v) || (n > 1 && !c->o->each))
		return err_set(err, ERR_INTEGRITY, "malformed details");
	uint64_t *counts = calloc((size_t)c->size, sizeof *counts);
	c->names = calloc(n, sizeof *c->names);
	int ret = counts && c->names ? parts_of_arrays(c, (int)n, err)
	                             : err_nomem(err, "the root's arrays", n * sizeof *c->names);
	for (uint32_t i = 0; ret == 0 && i < n; i++)
		ret = adopt_array(c, v, (int)i, counts, err);
	free(counts);
	return ret;
}

int terms_adopt_root(struct collective *c, struct view *v, struct err *err)
{
	struct err why = {.rank = ERR_RANK_SELF};
	int ret = -1;
	if (c->nparts) /* the root itself, or rank 0, which has heard it as the coordinator */
		return 0;
	switch (view_u8(v)) {
	case TELLS_ARRAYS:
		ret = adopt_arrays(c, v, &why);
		break;
	case TELLS_FILES:
		c->shape = OF_BYTES;
		ret = c->kind == COLL_BROADCAST ? details_get_told(v, &c->told, &why)
		                                : err_set(&why, ERR_INTEGRITY, "malformed details");
		if (ret == 0)
			ret = parts_of_told(c, &why);
		break;
	default:
		err_set(&why, ERR_INTEGRITY, "it did not tell what it has");
	}
	if (ret == 0)
		ret = details_end(v, &why);
	return ret < 0 ? terms_malformed(c->root, &why, err) : 0;
}

static void note_fall_back(const struct collective *c, const struct part *p)
{
	const char *asked = c->o->algorithm;
	bool loud = c->o->verbose > 0 || (c->o->verbose == 0 && c->rank == 0);
	const struct coll_algorithm *alg = coll_find(p->kind, asked);
	if (!alg || alg == p->algorithm || p->kind != c->kind || !loud)
		return;
	report_note("rank %d: %s: %s falls back to %s%s%s%s", c->rank, c->cmd->name, asked,
	            p->algorithm->name, *alg->restrictions ? " (" : "", alg->restrictions,
	            *alg->restrictions ? ")" : "");
}

static int adopt_part(struct collective *c, int i, struct view *v, struct err *err)
{
	struct part *p = &c->parts[i];
	struct told_part told;
	if (details_get_part(v, &told, err) < 0)
		return -1;
	p->algorithm = coll_find(p->kind, told.algorithm);
	if (!p->algorithm)
		return err_rank(err, ERR_DISAGREE, job_coordinator(c->job),
		                "it chose algorithm %s, which is unknown here", told.algorithm);
	p->wire = told.wire;
	p->windows = told.windows;
	p->late = p->wire != p->dtype;
	if (i == 0)
		note_fall_back(c, p);
	if (!convert_kernel(p->wire, p->dtype) ||
	    !(p->op == REDUCE_AVG ? final_kernel(p->dtype, p->wire) != NULL
	                          : convert_kernel(p->dtype, p->wire) != NULL))
		return err_rank(err, ERR_INTEGRITY, job_coordinator(c->job),
		                "it wants %s sent as %s", dtype_name(p->dtype),
		                dtype_name(p->wire));
	if (make_rows(c, p, err) < 0)
		return -1;
	if (c->rules->cut == CUT_JOINED)
		return details_get_rows(v, c->size, p->rows, err);
	if (c->kind != COLL_ALLTOALL || !view_u8(v))
		return 0;
	p->from = calloc((size_t)c->size, sizeof *p->from);
	if (!p->from)
		return err_nomem(err, "the ranks' rows", (size_t)c->size * sizeof *p->from);
	return details_get_rows(v, c->size, p->from, err);
}

/* Weights by a power of two, which rounds nothing, so that they add up to less than one: no sum of
 * weighted elements leaves the range that the elements have. */
static void scale_weights(struct collective *c)
{
	int exponent = 0;
	if (c->weighted)
		c->divisor = frexp(c->divisor, &exponent);
	c->weight = ldexp(c->o->weight, -exponent);
}

static int hear(struct collective *c, struct err *err)
{
	struct view v = c->plan.details;
	uint32_t len;
	if (details_get_weight(&v, &c->divisor, err) < 0)
		return -1;
	c->weighted = view_u8(&v);
	scale_weights(c);
	c->keeps_order = view_u8(&v);
	if (claims_hear(c, &v, err) < 0)
		return -1;
	len = view_u32(&v);
	const uint8_t *root = view_bytes(&v, len);
	if (len && root) {
		struct view told = view_of(root, len);
		if (terms_adopt_root(c, &told, err) < 0)
			return -1;
	}
	if (view_u32(&v) != (uint32_t)c->nparts || v.failed || !c->nparts)
		return err_set(err, ERR_INTEGRITY, "malformed details");
	for (int i = 0; i < c->nparts; i++)
		if (adopt_part(c, i, &v, err) < 0)
			return -1;
	if (collective_collects(c) && c->rank == c->root && gathered_hear(c, &v, err) < 0)
		return -1;
	return details_end(&v, err);
}

int terms_agree(struct collective *c, struct err *err)
{
	struct err why = {.rank = ERR_RANK_SELF};
	for (int i = 0; i < c->nparts; i++)
		if (make_rows(c, &c->parts[i], err) < 0)
			return -1;
	if (describe(c, err) < 0)
		return -1;
	job_tells(c->job, decide_details, c);
	job_shows(c->job, "tensor", tensor_table_show, &c->table);
	if (job_agree(c->job, &c->intent, c->size > 1, decide_plan, c, &c->plan, err) < 0)
		return -1;
	if (hear(c, &why) < 0) {
		if (why.rank == ERR_RANK_SELF)
			why.rank = job_coordinator(c->job);
		*err = why;
		return -1;
	}
	for (int i = 0; i < c->nparts; i++) {
		struct part *p = &c->parts[i];
		if (terms_lay_out(c, p, c->rank, p->rows, p->from, &p->layout, err) < 0)
			return -1;
	}
	return 0;
}

void terms_release(struct collective *c)
{
	buf_release(&c->details);
	claims_release(&c->claims);
	free(c->dropped);
	free(c->counts);
}
