/*
 * What the ranks of a collective agree on. Each says what it is to do (facts, which must be the
 * same) and, where the others can't know it, what its array is (details); rank 0 decides
 * (collective_decide.c) and tells every rank what it has to know; each then lays out its own
 * blocks. See collective.h.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/collective.h"
#include "lib/job/details.h"

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

static int lay_out_rows(const struct collective *c, int rank, const uint64_t *rows,
                        const uint64_t *from, struct layout *l, struct err *err)
{
	uint64_t row = 1, all, got;
	struct array_info whole = c->info;
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

int terms_lay_out(const struct collective *c, int rank, const uint64_t *rows, const uint64_t *from,
                  struct layout *l, struct err *err)
{
	size_t n = (size_t)c->size + 1;
	if (!l->off)
		l->off = calloc(n, sizeof *l->off);
	if (!l->recv_off)
		l->recv_off = calloc(n, sizeof *l->recv_off);
	if (!l->off || !l->recv_off)
		return err_nomem(err, "the blocks", 2 * n * sizeof *l->off);
	l->out = c->info;
	if (c->rules->cut == CUT_ELEMENTS)
		coll_split(c->info.count, c->size, l->off);
	else if (lay_out_rows(c, rank, rows, from, l, err) < 0)
		return -1;
	l->args = (struct coll_args){
	        .rank = rank,
	        .size = c->size,
	        .root = c->o->root,
	        .ninputs = c->ninputs ? c->ninputs : 1,
	        .noutputs = 1,
	        .off = l->off,
	        .recv_off = from ? l->recv_off : NULL,
	        .base = (unsigned)c->o->base,
	        .steps = (unsigned)c->o->steps,
	        .esize = (unsigned)dtype_size(c->info.dtype),
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

/* ---- what this rank says ---- */

/* Must its array be told? Of scatter and broadcast the root's, for the others have none; where the
 * arrays may differ, everybody's. */
static bool tells_array(const struct collective *c)
{
	if (c->kind == COLL_BROADCAST || c->kind == COLL_SCATTER)
		return c->rank == c->o->root;
	return c->rules->cut == CUT_JOINED || c->kind == COLL_ALLTOALL;
}

/* "(*, 4)" where the number of rows is a rank's own. */
static void shape_fact(struct collective *c)
{
	char shape[ARRAY_SHAPE_TEXT], text[ARRAY_SHAPE_TEXT];
	bool any_rows = c->rules->cut == CUT_JOINED || c->kind == COLL_ALLTOALL;
	array_shape_text(&c->info, shape);
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

static int describe(struct collective *c, struct err *err)
{
	struct intent *in = &c->intent;
	const struct options *o = c->o;
	intent_add(in, "collective", c->cmd->name);
	if (coll_reduces(c->kind))
		intent_add(in, "--op", o->op);
	if (c->cmd->opts & OPTS_BYTES)
		intent_add(in, "--raw-file", o->raw_file ? "given" : "not given");
	if (c->ninputs) {
		intent_add(in, "dtype", dtype_name(c->info.dtype));
		shape_fact(c);
		snprintf(in->subject, sizeof in->subject, "%s", c->inputs[0].path);
	}
	if (c->cmd->opts & OPTS_ROOT)
		number_fact(c, "--root", o->root);
	intent_add(in, "--algorithm", o->algorithm);
	if (c->cmd->opts & OPTS_BASE)
		number_fact(c, "--base", o->base);
	if (c->cmd->opts & OPTS_STEPS)
		number_fact(c, "--steps", o->steps);
	if (coll_reduces(c->kind)) {
		intent_add(in, "--order", o->order);
		intent_add(in, "--allow-divergent", o->allow_divergent ? "given" : "not given");
	}
	in->memory = o->memory;
	in->ninputs = (uint32_t)c->ninputs;
	in->streams = (uint32_t)o->streams;
	if (c->kind == COLL_REDUCE_SCATTER ||
	    (c->kind == COLL_SCATTER && (c->rank == o->root || c->counts)))
		if (counts_fact(c, err) < 0)
			return -1;
	buf_init(&c->details, DETAILS_MAX);
	if (tells_array(c))
		details_put_array(&c->details, &c->info, c->counts, c->size);
	if (c->details.failed)
		return err_nomem(err, "the details", DETAILS_MAX);
	if (c->details.len)
		in->details = view_of(c->details.data, c->details.len);
	return 0;
}

/* ---- what every rank hears ---- */

int terms_malformed(int rank, const struct err *why, struct err *err)
{
	return err_rank(err, why->code, rank, "%s", why->text);
}

int terms_adopt_root(struct collective *c, struct view details, struct err *err)
{
	uint64_t *counts = calloc((size_t)c->size, sizeof *counts);
	struct err why = {.rank = ERR_RANK_SELF};
	bool even;
	int ret = -1;
	if (!counts)
		err_nomem(err, "the root's array", (size_t)c->size * sizeof *counts);
	else if (details_get_array(details, c->size, &c->info, counts, &even, &why) < 0)
		terms_malformed(c->o->root, &why, err);
	else if (c->rows && c->info.ndim == 0)
		err_rank(err, ERR_INTEGRITY, c->o->root, "its array has no axis 0");
	else
		ret = 0;
	if (ret == 0 && c->rows)
		terms_cut_rows(c->info.shape[0], even ? NULL : counts, c->size, c->rows);
	free(counts);
	return ret;
}

static int hear(struct collective *c, struct err *err)
{
	struct view details = c->plan.details;
	struct err why = {.rank = ERR_RANK_SELF};
	size_t bytes = (size_t)c->size * sizeof *c->from;
	if (c->kind == COLL_BROADCAST || c->kind == COLL_SCATTER)
		return terms_adopt_root(c, details, err);
	if (c->rules->cut == CUT_JOINED)
		return details_get_rows(details, c->size, c->rows, &why) < 0
		               ? terms_malformed(0, &why, err)
		               : 0;
	if (c->kind != COLL_ALLTOALL || !view_left(&details))
		return 0;
	c->from = calloc(1, bytes);
	if (!c->from)
		return err_nomem(err, "the ranks' rows", bytes);
	return details_get_rows(details, c->size, c->from, &why) < 0 ? terms_malformed(0, &why, err)
	                                                             : 0;
}

static void note_fall_back(const struct collective *c)
{
	const char *asked = c->o->algorithm;
	bool loud = c->o->verbose > 0 || (c->o->verbose == 0 && c->rank == 0);
	const struct coll_algorithm *alg = coll_find(c->kind, asked);
	if (!alg || alg == c->algorithm || !loud)
		return;
	report_note("rank %d: %s: %s falls back to %s%s%s%s", c->rank, c->cmd->name, asked,
	            c->algorithm->name, *alg->restrictions ? " (" : "", alg->restrictions,
	            *alg->restrictions ? ")" : "");
}

static int adopt_plan(struct collective *c, struct err *err)
{
	c->algorithm = coll_find(c->kind, c->plan.algorithm);
	if (!c->algorithm || c->plan.dtype == DTYPE_NONE || c->plan.dtype >= DTYPES)
		return err_rank(err, ERR_DISAGREE, 0,
		                "it chose algorithm %s, which is unknown here", c->plan.algorithm);
	c->dtype = (enum dtype)c->plan.dtype;
	c->divisor = (double)c->plan.total_inputs;
	note_fall_back(c);
	return 0;
}

int terms_agree(struct collective *c, struct err *err)
{
	size_t bytes = (size_t)c->size * sizeof *c->rows;
	if (c->rules->cut != CUT_ELEMENTS) {
		c->rows = calloc(1, bytes);
		if (!c->rows)
			return err_nomem(err, "the ranks' rows", bytes);
		if (c->rules->cut == CUT_ROWS && c->ninputs)
			terms_cut_rows(c->info.shape[0], c->counts, c->size, c->rows);
	}
	if (describe(c, err) < 0)
		return -1;
	job_tells(c->job, decide_details, c);
	if (job_agree(c->job, &c->intent, c->size > 1, decide_plan, c, &c->plan, err) < 0 ||
	    adopt_plan(c, err) < 0 || hear(c, err) < 0)
		return -1;
	if (!convert_kernel(c->dtype, c->info.dtype) || !convert_kernel(c->info.dtype, c->dtype))
		return err_rank(err, ERR_INTEGRITY, 0, "it wants %s sent as %s",
		                dtype_name(c->info.dtype), dtype_name(c->dtype));
	return terms_lay_out(c, c->rank, c->rows, c->from, &c->layout, err);
}

void terms_release(struct collective *c)
{
	terms_layout_release(&c->layout);
	buf_release(&c->details);
	free(c->counts);
	free(c->rows);
	free(c->from);
	free(c->cuts);
	free(c->all_rows);
}
