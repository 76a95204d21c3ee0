/*
 * What rank 0 does when all ranks of a collective agree: from their details the rows of all, from
 * these the algorithm and the windows of each part, and for each rank what it has to know. See
 * collective.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/collective.h"
#include "cmd/tuning.h"
#include "lib/exec/select.h"

#define WINDOW_BYTES (4u << 20) /* of a window, about: a few of them fit the last cache */
#define WINDOW_LEAST 1024       /* where --memory asks for less: each costs a latency */
#define STREAMS      3          /* windows under way at once: one read, one moved, one written */

/* ---- what the ranks have said ---- */

/* Take the rows of @rank's array @p, and of alltoall how it cuts them, which go to @own. */
static int hear_array(struct collective *c, struct part *p, int rank, struct view *v, uint64_t *own,
                      struct err *err)
{
	struct array_info info;
	bool even;
	if (details_get_array(v, c->size, &info, own, &even, err) < 0)
		return -1;
	if (info.ndim == 0)
		return err_set(err, ERR_INTEGRITY, "its array has no axis 0");
	p->all_rows[rank] = info.shape[0];
	if (even)
		terms_cut_rows(info.shape[0], NULL, c->size, own);
	return 0;
}

/* The arrays of every rank, which may differ in their rows. */
static int hear_arrays(struct collective *c, int rank, struct view *v, struct err *err)
{
	size_t size = (size_t)c->size;
	if (view_u8(v) != TELLS_ARRAYS || view_u32(v) != (uint32_t)c->nparts || v->failed)
		return err_set(err, ERR_INTEGRITY, "malformed details");
	for (int i = 0; i < c->nparts; i++) {
		struct part *p = &c->parts[i];
		uint64_t *own = p->cuts + (c->kind == COLL_ALLTOALL ? (size_t)rank * size : 0);
		if (hear_array(c, p, rank, v, own, err) < 0)
			return -1;
	}
	return collective_collects(c) ? gathered_note(c, rank, v, err) : 0;
}

static int make_tables(const struct collective *c, struct part *p, struct err *err)
{
	size_t size = (size_t)c->size, cells = c->kind == COLL_ALLTOALL ? size * size : size;
	p->cuts = calloc(cells, sizeof *p->cuts);
	p->all_rows = calloc(size, sizeof *p->all_rows);
	return p->cuts && p->all_rows ? 0
	                              : err_nomem(err, "the ranks' rows", cells * sizeof *p->cuts);
}

/* The cuts are not sent if they are the same on all ranks. */
static void settle_tables(const struct collective *c, struct part *p)
{
	size_t size = (size_t)c->size;
	bool alike = true;
	for (size_t r = 1; c->kind == COLL_ALLTOALL && alike && r < size; r++)
		alike = memcmp(p->cuts + r * size, p->cuts, size * sizeof *p->cuts) == 0;
	if (c->kind != COLL_ALLTOALL || alike) {
		free(p->cuts);
		p->cuts = NULL;
	}
	if (c->rules->cut == CUT_JOINED)
		memcpy(p->rows, p->all_rows, size * sizeof *p->rows);
}

/* The places that @rank is to write. */
static int hear_claims(struct collective *c, int rank, struct view *v, struct err *err)
{
	uint32_t len = view_u32(v);
	const uint8_t *claims = view_bytes(v, len);
	struct view its = view_of(claims ? claims : v->p, claims ? len : 0);
	return claims ? claims_get(&c->claims, rank, &its, err)
	              : err_set(err, ERR_INTEGRITY, "malformed details");
}

/* Read the details of all ranks: weights, orders, outputs, arrays. */
static int hear_all(struct collective *c, const struct intent *const *intents, struct err *err)
{
	bool arrays = c->rules->cut == CUT_JOINED || c->kind == COLL_ALLTOALL;
	uint64_t order = 0;
	c->divisor = 0;
	c->keeps_order = true;
	for (int i = 0; arrays && i < c->nparts; i++)
		if (make_tables(c, &c->parts[i], err) < 0)
			return -1;
	for (int r = 0; r < c->size; r++) {
		struct view v = intents[r]->details;
		struct err why = {.rank = ERR_RANK_SELF};
		double weight;
		if (details_get_weight(&v, &weight, &why) < 0)
			return terms_malformed(r, &why, err);
		uint64_t its = view_u64(&v);
		if (hear_claims(c, r, &v, &why) < 0)
			return terms_malformed(r, &why, err);
		order = r ? order : its;
		c->keeps_order &= its == order && its != ORDER_MIXED;
		c->weighted |= weight != 1;
		c->divisor += weight * intents[r]->ninputs;
		if (arrays && hear_arrays(c, r, &v, &why) < 0)
			return terms_malformed(r, &why, err);
	}
	for (int i = 0; arrays && i < c->nparts; i++)
		settle_tables(c, &c->parts[i]);
	if (c->op == REDUCE_AVG && !(c->divisor > 0))
		return err_set(err, ERR_USAGE, "--weight: those of all ranks add up to 0");
	return 0;
}

/* The rows of @rank's parts and what comes to it, for rank 0 of all ranks. @column has room for a
 * number of each rank. */
static int lay_out_of(const struct collective *c, const struct part *p, int rank, uint64_t *column,
                      struct layout *l, struct err *err)
{
	if (!p->cuts)
		return terms_lay_out(c, p, rank, p->rows, NULL, l, err);
	for (int s = 0; s < c->size; s++)
		column[s] = p->cuts[(size_t)s * (size_t)c->size + (size_t)rank];
	return terms_lay_out(c, p, rank, p->cuts + (size_t)rank * (size_t)c->size, column, l, err);
}

/* ---- what rank 0 decides ---- */

/* The arguments of the selection for a part. */
static struct select_args select_args_of(const struct collective *c, const struct part *p,
                                         const struct coll_args *args, const struct plan *plan)
{
	return (struct select_args){
	        .kind = p->kind,
	        .size = c->size,
	        .bytes = coll_count(args) * dtype_size(p->dtype),
	        .op = p->op,
	        .dtype = p->dtype,
	        .weighted = c->weighted,
	        .folds = plan->total_inputs > (uint64_t)c->size,
	        .ordered = c->ordered && p->kind == c->kind,
	        .divergent = c->o->allow_divergent,
	        .insecure = c->o->insecure,
	        .host_cpus = (int)plan->host_cpus,
	        .base = args->base,
	        .steps = args->steps,
	        .uneven = args->recv_off != NULL,
	};
}

static int choose_auto(const struct collective *c, struct part *p, struct select_args s,
                       struct err *err)
{
	struct select_tuning tuning;
	struct selection chosen = {0};
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
	p->algorithm = chosen.alg;
	if (ret == 0 && !chosen.alg)
		ret = err_set(err, ERR_USAGE, "no algorithm of %s serves this", c->cmd->name);
	selection_release(&chosen);
	tuning_release(&tuning);
	return ret;
}

static int choose_algorithm(const struct collective *c, struct part *p,
                            const struct coll_args *args, const struct plan *plan, struct err *err)
{
	const struct select_args s = select_args_of(c, p, args, plan);
	const char *name = c->o->algorithm;
	if (strcmp(name, "auto") == 0 || p->kind != c->kind) {
		if (choose_auto(c, p, s, err) < 0)
			return -1;
	} else {
		p->algorithm = coll_find(p->kind, name);
		if (!p->algorithm)
			return err_set(err, ERR_OTHER, "there is no algorithm %s", name);
	}
	p->algorithm = coll_resolve(p->algorithm, args);
	if (c->ordered && p->kind == c->kind && !(p->algorithm->flags & COLL_ORDERED))
		return err_set(err, ERR_USAGE,
		               "--algorithm %s is %s here, which can't add in rank order: take "
		               "another, or leave --order rank out",
		               name, p->algorithm->name);
	p->wire = select_wire(&s, p->algorithm);
	return 0;
}

/* The ranks that can differ in what they hold: all of few; of many, the first and last, those
 * around the root, some between, and who has most. */
static bool is_sample(const struct collective *c, const struct part *p, int r, int widest)
{
	int size = c->size, past_root = (r - p->root + size) % size;
	return size <= 32 || r < 4 || r >= size - 4 || r == widest || past_root < 4 ||
	       past_root >= size - 4 || r % (size / 16) == 0;
}

/* The most bytes of buffers that a window of the whole vector would take of any rank. */
static int footprint(const struct collective *c, const struct part *p, int ninputs, uint64_t *most,
                     struct err *err)
{
	const uint64_t *rows = p->all_rows ? p->all_rows : p->rows;
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
		if (!is_sample(c, p, r, widest))
			continue;
		ret = lay_out_of(c, p, r, column, &l, err);
		l.args.ninputs = p->kind == c->kind ? ninputs : 1;
		if (ret == 0)
			ret = exec_footprint(p->algorithm, &l.args, p->op, p->wire, c->ordered,
			                     &bytes, err);
		if (ret == 0 && bytes > *most)
			*most = bytes;
	}
	terms_layout_release(&l);
	free(column);
	return ret;
}

/* How many windows of each part: as many as the memory asks for, and so many that their buffers
 * stay in the cache; more than one stream only where there are windows to overlap. */
static int choose_windows(struct collective *c, const struct intent *const *intents,
                          struct plan *plan, struct err *err)
{
	uint64_t *bytes = calloc((size_t)c->nparts, sizeof *bytes);
	uint64_t most_inputs = 1, streams = 0, total = 0;
	if (!bytes)
		return err_nomem(err, "the windows", (size_t)c->nparts * sizeof *bytes);
	for (int r = 0; r < c->size; r++) {
		if (intents[r]->ninputs > most_inputs)
			most_inputs = intents[r]->ninputs;
		if (intents[r]->streams > streams)
			streams = intents[r]->streams;
	}
	for (int i = 0; i < c->nparts; i++) {
		if (footprint(c, &c->parts[i], (int)most_inputs, &bytes[i], err) < 0) {
			free(bytes);
			return -1;
		}
		uint64_t windows = (bytes[i] + WINDOW_BYTES / 2) / WINDOW_BYTES;
		total += windows < 1 ? 1 : windows;
	}
	if (!streams)
		streams = total > 1 ? STREAMS : 1;
	/* Half of the memory for the windows, the rest for connections, threads and schedules. */
	uint64_t room = plan->memory / 2 / streams;
	if (room < WINDOW_LEAST)
		room = WINDOW_LEAST;
	total = 0;
	for (int i = 0; i < c->nparts; i++) {
		uint64_t windows = (bytes[i] + WINDOW_BYTES / 2) / WINDOW_BYTES;
		if (windows < 1)
			windows = 1;
		if (bytes[i] / windows > room)
			windows = bytes[i] / room + 1;
		c->parts[i].windows = windows > UINT32_MAX ? UINT32_MAX : (uint32_t)windows;
		total += c->parts[i].windows;
	}
	plan->streams = (uint32_t)(streams < total ? streams : total);
	free(bytes);
	return 0;
}

static int choose_parts(struct collective *c, struct plan *plan, struct err *err)
{
	uint64_t *column = calloc((size_t)c->size, sizeof *column);
	struct layout l = {0};
	int ret = column ? 0 : err_nomem(err, "the blocks", (size_t)c->size * sizeof *column);
	for (int i = 0; i < c->nparts && ret == 0; i++) {
		struct part *p = &c->parts[i];
		ret = lay_out_of(c, p, 0, column, &l, err);
		if (ret == 0)
			ret = choose_algorithm(c, p, &l.args, plan, err);
	}
	terms_layout_release(&l);
	free(column);
	return ret;
}

/* The details of the root of a broadcast or scatter, without weight, order and outputs. */
static struct view root_view(const struct collective *c, const struct intent *root)
{
	struct view v = root->details;
	(void)c;
	view_u64(&v);
	view_u64(&v);
	view_bytes(&v, view_u32(&v));
	return v;
}

int decide_plan(void *ctx, const struct intent *const *intents, struct plan *plan, struct err *err)
{
	struct collective *c = ctx;
	if (c->kind == COLL_BROADCAST || c->kind == COLL_SCATTER) {
		struct view v = root_view(c, intents[c->root]);
		c->root_told = v;
		if (terms_adopt_root(c, &v, err) < 0)
			return -1;
	}
	if (hear_all(c, intents, err) < 0 || choose_parts(c, plan, err) < 0 ||
	    claims_settle(&c->claims, collective_replicates(c), c->root, err) < 0)
		return -1;
	plan->windows = 1;
	return choose_windows(c, intents, plan, err);
}

/* What @rank has to know of a part. */
static void put_part(const struct collective *c, const struct part *p, int rank, struct buf *out)
{
	struct told_part told = {.wire = p->wire, .windows = p->windows};
	snprintf(told.algorithm, sizeof told.algorithm, "%s", p->algorithm->name);
	details_put_part(out, &told);
	if (c->rules->cut == CUT_JOINED)
		details_put_rows(out, p->all_rows, c->size);
	if (c->kind != COLL_ALLTOALL)
		return;
	buf_put_u8(out, p->cuts != NULL);
	for (int s = 0; p->cuts && s < c->size; s++)
		buf_put_u64(out, p->cuts[(size_t)s * (size_t)c->size + (size_t)rank]);
}

void decide_details(void *ctx, int rank, struct buf *out)
{
	struct collective *c = ctx;
	size_t len = view_left(&c->root_told);
	details_put_weight(out, c->divisor);
	buf_put_u8(out, c->weighted);
	buf_put_u8(out, c->keeps_order);
	claims_put_dropped(&c->claims, rank, out);
	buf_put_u32(out, (uint32_t)len);
	buf_put(out, c->root_told.p, len);
	buf_put_u32(out, (uint32_t)c->nparts);
	for (int i = 0; i < c->nparts; i++)
		put_part(c, &c->parts[i], rank, out);
	if (collective_collects(c) && rank == c->root)
		gathered_put(c, out);
}
