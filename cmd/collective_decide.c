/*
 * What rank 0 does when all ranks of a collective agree: from their details the rows of all, from
 * these the algorithm and the windows, and for each rank what it has to know. See collective.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/collective.h"
#include "cmd/tuning.h"
#include "lib/exec/select.h"
#include "lib/job/details.h"

#define WINDOW_BYTES (4u << 20) /* of a window, about: a few of them fit the last cache */
#define STREAMS      3          /* windows under way at once: one read, one moved, one written */

/* ---- what the ranks have said ---- */

/* The rows of every rank's array and, of alltoall, how each cuts them. */
static int hear_rows(struct collective *c, const struct intent *const *intents, struct err *err)
{
	size_t size = (size_t)c->size;
	bool alltoall = c->kind == COLL_ALLTOALL, alike = true;
	uint64_t *cuts = calloc(alltoall ? size * size : size, sizeof *cuts), *own = cuts;
	c->all_rows = calloc(size, sizeof *c->all_rows);
	if (!cuts || !c->all_rows) {
		free(cuts);
		return err_nomem(err, "the ranks' rows", size * size * sizeof *cuts);
	}
	int ret = 0;
	for (int r = 0; r < c->size && ret == 0; r++, own += alltoall ? size : 0) {
		struct array_info info;
		struct err why = {.rank = ERR_RANK_SELF};
		bool even;
		ret = details_get_array(intents[r]->details, c->size, &info, own, &even, &why);
		if (ret == 0 && info.ndim == 0)
			ret = err_set(&why, ERR_INTEGRITY, "its array has no axis 0");
		if (ret < 0) {
			terms_malformed(r, &why, err);
			break;
		}
		c->all_rows[r] = info.shape[0];
		if (even)
			terms_cut_rows(info.shape[0], NULL, c->size, own);
		alike = alike && memcmp(own, cuts, size * sizeof *own) == 0;
	}
	if (alltoall && !alike && ret == 0)
		c->cuts = cuts;
	else
		free(cuts);
	return ret;
}

/* The rows of @rank's parts and what comes to it, for rank 0 of all ranks. @column has room for a
 * number of each rank. */
static int lay_out_of(const struct collective *c, int rank, uint64_t *column, struct layout *l,
                      struct err *err)
{
	if (!c->cuts)
		return terms_lay_out(c, rank, c->rows, NULL, l, err);
	for (int s = 0; s < c->size; s++)
		column[s] = c->cuts[(size_t)s * (size_t)c->size + (size_t)rank];
	return terms_lay_out(c, rank, c->cuts + (size_t)rank * (size_t)c->size, column, l, err);
}

/* ---- what rank 0 decides ---- */

static int choose_auto(struct collective *c, const struct coll_args *args, int host_cpus,
                       struct err *err)
{
	struct select_tuning tuning;
	struct selection chosen = {0};
	struct select_args s = {
	        .kind = c->kind,
	        .size = c->size,
	        .bytes = coll_count(args) * args->esize,
	        .op = c->op,
	        .dtype = c->info.dtype,
	        .ordered = c->ordered,
	        .divergent = c->o->allow_divergent,
	        .insecure = c->o->insecure,
	        .host_cpus = host_cpus,
	        .base = args->base,
	        .steps = args->steps,
	        .uneven = args->recv_off != NULL,
	};
	int ret = 0;
	tuning_init(&tuning);
	if (c->o->tuning) {
		ret = tuning_read(&tuning, c->o->tuning, err);
		s.tuning = &tuning;
	}
	if (ret == 0)
		ret = select_all(&s, &chosen, err);
	if (ret == 0 && c->o->explain)
		explain_selection(&s, &chosen);
	c->algorithm = chosen.alg;
	if (ret == 0 && !chosen.alg)
		ret = err_set(err, ERR_USAGE, "no algorithm of %s serves this", c->cmd->name);
	selection_release(&chosen);
	tuning_release(&tuning);
	return ret;
}

static int choose_algorithm(struct collective *c, const struct coll_args *args, int host_cpus,
                            struct err *err)
{
	const char *name = c->o->algorithm;
	if (strcmp(name, "auto") == 0) {
		if (choose_auto(c, args, host_cpus, err) < 0)
			return -1;
	} else {
		c->algorithm = coll_find(c->kind, name);
		if (!c->algorithm)
			return err_set(err, ERR_OTHER, "rank 0 has no algorithm %s", name);
	}
	c->algorithm = coll_resolve(c->algorithm, args);
	if (c->ordered && !(c->algorithm->flags & COLL_ORDERED))
		return err_set(err, ERR_USAGE,
		               "--algorithm %s is %s here, which can't add in rank order: take "
		               "another, or leave --order rank out",
		               name, c->algorithm->name);
	return 0;
}

/* The type that travels. In rank order nothing is rounded on the way: partial sums, and those of
 * several local inputs, travel in f64. An average of f16 is summed in f32 where the algorithm would
 * round each partial sum, for that may overflow. */
static enum dtype wire_dtype(const struct collective *c, const struct coll_algorithm *alg,
                             uint64_t total_inputs)
{
	enum dtype d = c->info.dtype;
	bool folds = total_inputs > (uint64_t)c->size;
	if (c->ordered && (folds || (alg->flags & COLL_PARTIALS)))
		return reduce_acc_dtype(c->op, d, true);
	if (d == DTYPE_F16 && c->op == REDUCE_AVG && (!(alg->flags & COLL_FINAL) || folds))
		return DTYPE_F32;
	return d;
}

/* The ranks that can differ in what they hold: all of few; of many, the first and last, those
 * around the root, some between, and who has most. */
static bool is_sample(const struct collective *c, int r, int widest)
{
	int size = c->size, past_root = (r - c->o->root + size) % size;
	return size <= 32 || r < 4 || r >= size - 4 || r == widest || past_root < 4 ||
	       past_root >= size - 4 || r % (size / 16) == 0;
}

/* The most bytes of buffers that a window of the whole vector would take of any rank. */
static int footprint(const struct collective *c, int ninputs, enum dtype wire, uint64_t *most,
                     struct err *err)
{
	const uint64_t *rows = c->all_rows ? c->all_rows : c->rows;
	uint64_t *column = calloc((size_t)c->size, sizeof *column), bytes;
	struct layout l = {0};
	int widest = 0, ret = 0;
	*most = 0;
	for (int r = 1; rows && r < c->size; r++)
		if (rows[r] > rows[widest])
			widest = r;
	if (!column)
		ret = err_nomem(err, "the blocks", (size_t)c->size * sizeof *column);
	for (int r = 0; r < c->size && ret == 0; r++) {
		if (!is_sample(c, r, widest))
			continue;
		ret = lay_out_of(c, r, column, &l, err);
		l.args.ninputs = ninputs;
		if (ret == 0)
			ret = exec_footprint(c->algorithm, &l.args, c->op, wire, c->ordered, &bytes,
			                     err);
		if (ret == 0 && bytes > *most)
			*most = bytes;
	}
	terms_layout_release(&l);
	free(column);
	return ret;
}

/* How many windows: as many as the memory asks for, and so many that their buffers stay in the
 * cache; more than one stream only where there are windows to overlap. */
static int choose_windows(const struct collective *c, const struct intent *const *intents,
                          struct plan *plan, struct err *err)
{
	uint64_t bytes, most_inputs = 1, streams = 0;
	for (int r = 0; r < c->size; r++) {
		if (intents[r]->ninputs > most_inputs)
			most_inputs = intents[r]->ninputs;
		if (intents[r]->streams > streams)
			streams = intents[r]->streams;
	}
	if (footprint(c, (int)most_inputs, (enum dtype)plan->dtype, &bytes, err) < 0)
		return -1;
	uint64_t windows = (bytes + WINDOW_BYTES / 2) / WINDOW_BYTES;
	if (windows < 1)
		windows = 1;
	if (!streams)
		streams = windows > 1 ? STREAMS : 1;
	/* Half of the memory for the windows, the rest for connections, threads and schedules. */
	uint64_t room = plan->memory / 2 / streams;
	if (room == 0)
		room = 1;
	if (bytes / windows > room)
		windows = bytes / room + 1;
	if (windows > UINT32_MAX)
		windows = UINT32_MAX;
	plan->windows = (uint32_t)windows;
	plan->streams = (uint32_t)(streams < windows ? streams : windows);
	return 0;
}

int decide_plan(void *ctx, const struct intent *const *intents, struct plan *plan, struct err *err)
{
	struct collective *c = ctx;
	struct layout l = {0};
	uint64_t *column = calloc((size_t)c->size, sizeof *column);
	int ret = -1;
	if (!column)
		err_nomem(err, "the blocks", (size_t)c->size * sizeof *column);
	else if (c->kind == COLL_BROADCAST || c->kind == COLL_SCATTER)
		ret = terms_adopt_root(c, intents[c->o->root]->details, err);
	else if (c->rules->cut == CUT_JOINED || c->kind == COLL_ALLTOALL)
		ret = hear_rows(c, intents, err);
	else
		ret = 0;
	if (ret == 0 && c->rules->cut == CUT_JOINED)
		memcpy(c->rows, c->all_rows, (size_t)c->size * sizeof *c->rows);
	if (ret == 0)
		ret = lay_out_of(c, 0, column, &l, err);
	if (ret == 0)
		ret = choose_algorithm(c, &l.args, (int)plan->host_cpus, err);
	if (ret == 0) {
		snprintf(plan->algorithm, sizeof plan->algorithm, "%s", c->algorithm->name);
		plan->dtype = (uint8_t)wire_dtype(c, c->algorithm, plan->total_inputs);
		ret = choose_windows(c, intents, plan, err);
	}
	terms_layout_release(&l);
	free(column);
	return ret;
}

/* What @rank has to know: the root's array, the rows of all, what comes from each. */
void decide_details(void *ctx, int rank, struct buf *out)
{
	struct collective *c = ctx;
	if (c->kind == COLL_BROADCAST || c->kind == COLL_SCATTER)
		details_put_array(out, &c->info, c->rows, c->size);
	else if (c->rules->cut == CUT_JOINED)
		details_put_rows(out, c->all_rows, c->size);
	for (int s = 0; c->cuts && s < c->size; s++)
		buf_put_u64(out, c->cuts[(size_t)s * (size_t)c->size + (size_t)rank]);
}
