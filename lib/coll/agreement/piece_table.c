#include "lib/coll/agreement/piece_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/fields.h"
#include "lib/base/text.h"
#include "lib/data/torch/cover.h"
#include "lib/data/torch/pieces.h"
#include "lib/data/torch/torch_values.h"
#include "lib/job/ranks.h"

/* A tensor as one rank lists it. */
struct listed_tensor {
	const char *name;
	int rank;
	enum dtype dtype;
	int ndim;
	bool known;
	const uint64_t *shape; /* known: of the whole; else the least that holds its parts */
	size_t first, n;       /* its pieces, until they are sorted */
};

char *piece_tensor_text(const struct tensor *t, char buf[PIECE_TENSOR_TEXT])
{
	char name[256], shape[ARRAY_SHAPE_TEXT];
	snprintf(buf, PIECE_TENSOR_TEXT, "tensor '%s' %s", text_escape(name, sizeof name, t->name),
	         tensor_shape_text(t, shape));
	return buf;
}

static int compare_axes(const uint64_t *a, const uint64_t *b, int ndim)
{
	for (int i = 0; i < ndim; i++)
		if (a[i] != b[i])
			return a[i] < b[i] ? -1 : 1;
	return 0;
}

/* ---- this rank's table ---- */

bool piece_has_elements(const struct tensor *t)
{
	return t->count > 0;
}

int piece_table_order(const void *a, const void *b)
{
	static const uint64_t zero[ARRAY_MAX_DIMS];
	const struct tensor *x = *(const struct tensor *const *)a,
	                    *y = *(const struct tensor *const *)b;
	int d = strcmp(x->name, y->name);
	if (d == 0 && x->ndim != y->ndim)
		return x->ndim < y->ndim ? -1 : 1;
	if (d == 0)
		d = compare_axes(x->first ? x->first : zero, y->first ? y->first : zero, x->ndim);
	if (d == 0)
		d = compare_axes(x->shape, y->shape, x->ndim);
	if (d == 0 && x->file != y->file)
		return x->file < y->file ? -1 : 1;
	return d ? d : (x->offset > y->offset) - (x->offset < y->offset);
}

static void put_axes(struct buf *b, const uint64_t *axes, int ndim)
{
	for (int i = 0; i < ndim; i++)
		buf_put_u64(b, axes ? axes[i] : 0);
}

/* The shape of the whole: NULL: not known. */
static const uint64_t *whole_of(const struct tensor *t)
{
	return t->first ? t->whole : t->shape;
}

/* The least shape that holds all parts, also those without elements. */
static void least_shape(const struct tensor *const *v, size_t n, uint64_t shape[ARRAY_MAX_DIMS])
{
	memset(shape, 0, ARRAY_MAX_DIMS * sizeof *shape);
	for (size_t k = 0; k < n; k++)
		for (int i = 0; i < v[k]->ndim; i++) {
			const uint64_t end = v[k]->first[i] + v[k]->shape[i];
			shape[i] = end > shape[i] ? end : shape[i];
		}
}

static void put_tensor(struct buf *b, const struct tensor *const *v, size_t n)
{
	const struct tensor *t = v[0];
	const uint64_t *whole = whole_of(t);
	uint64_t least[ARRAY_MAX_DIMS];
	uint32_t npieces = 0;
	for (size_t i = 0; i < n; i++)
		npieces += piece_has_elements(v[i]);
	if (!whole)
		least_shape(v, n, least);
	buf_put_str(b, t->name);
	buf_put_u8(b, (uint8_t)t->dtype);
	buf_put_u8(b, (uint8_t)t->ndim);
	buf_put_u8(b, whole != NULL);
	put_axes(b, whole ? whole : least, t->ndim);
	buf_put_u32(b, npieces);
	for (size_t i = 0; i < n; i++) {
		if (!piece_has_elements(v[i]))
			continue;
		buf_put_u8(b, 0);
		put_axes(b, v[i]->first, t->ndim);
		put_axes(b, v[i]->shape, t->ndim);
	}
}

static int check_put(const struct tensor *t, const struct tensor *first, struct err *err)
{
	char text[PIECE_TENSOR_TEXT];
	if (strlen(t->name) > PIECE_NAME_MAX)
		return err_set(err, ERR_INPUT, "the name of %s has %zu bytes: expected at most %u",
		               piece_tensor_text(t, text), strlen(t->name), PIECE_NAME_MAX);
	if (t->dtype == first->dtype && t->ndim == first->ndim &&
	    !whole_of(t) == !whole_of(first) &&
	    (!whole_of(t) || compare_axes(whole_of(t), whole_of(first), t->ndim) == 0))
		return 0;
	return err_set(err, ERR_INPUT, "the parts of %s say different types or shapes of it",
	               piece_tensor_text(t, text));
}

int piece_table_put(struct buf *b, const struct tensor *const *v, size_t n, struct err *err)
{
	for (size_t i = 0, same; i < n; i += same) {
		for (same = 0; i + same < n && strcmp(v[i]->name, v[i + same]->name) == 0; same++)
			if (check_put(v[i + same], v[i], err) < 0)
				return -1;
		put_tensor(b, v + i, same);
	}
	return 0;
}

/* ---- tables of other ranks ---- */

int piece_table_init(struct piece_table *t, int size, uint64_t limit, struct err *err)
{
	*t = (struct piece_table){.size = size, .limit = limit};
	t->rows = err_calloc((size_t)size, sizeof *t->rows, "the tables of pieces", err);
	t->count = err_calloc((size_t)size, sizeof *t->count, "the tables of pieces", err);
	return t->rows && t->count ? 0 : -1;
}

void piece_table_release(struct piece_table *t)
{
	pool_release(&t->pool);
	free(t->listed.v);
	free(t->pieces.v);
	free(t->tensors);
	free(t->rows);
	free(t->count);
	*t = (struct piece_table){0};
}

/* Count @bytes that are about to be allocated. */
static int use(struct piece_table *t, uint64_t bytes, struct err *err)
{
	t->used += bytes;
	if (t->used <= t->limit)
		return 0;
	return err_set(
	        err, ERR_RESOURCE,
	        "the tables of the ranks' pieces need more than the %llu bytes that --memory "
	        "leaves for them: give more --memory",
	        (unsigned long long)t->limit);
}

static int wrong(struct err *err)
{
	return malformed(err, "ROUND", "pieces");
}

/* @ndim numbers, each at most 63 bits. *axes is the pool's. */
static int get_axes(struct piece_table *t, struct view *v, int ndim, const uint64_t **axes,
                    struct err *err)
{
	const size_t bytes = (size_t)ndim * sizeof **axes;
	if (view_left(v) < bytes)
		return wrong(err);
	uint64_t *kept =
	        use(t, bytes, err) < 0 ? NULL : pool_alloc(&t->pool, bytes + 1, "pieces", err);
	if (!kept)
		return -1;
	for (int i = 0; i < ndim; i++)
		if ((kept[i] = view_u64(v)) > INT64_MAX)
			return wrong(err);
	*axes = kept;
	return 0;
}

/* The bytes of a box. -1: it is empty, or too large. */
static int box_bytes(enum dtype dtype, int ndim, const uint64_t *size, uint64_t *bytes)
{
	struct array_info info = {.dtype = dtype, .ndim = ndim};
	if (ndim)
		memcpy(info.shape, size, (size_t)ndim * sizeof *size);
	if (array_count(&info) < 0)
		return -1;
	*bytes = array_bytes(&info);
	return 0;
}

static int get_piece(struct piece_table *t, struct view *v, const struct listed_tensor *l,
                     struct err *err)
{
	struct piece p = {.rank = l->rank, .ndim = l->ndim};
	if (view_u8(v) || v->failed)
		return wrong(err);
	if (get_axes(t, v, l->ndim, &p.first, err) < 0 || get_axes(t, v, l->ndim, &p.size, err) < 0)
		return -1;
	for (int i = 0; i < l->ndim; i++)
		if (p.size[i] > l->shape[i] || p.first[i] > l->shape[i] - p.size[i])
			return wrong(err);
	if (box_bytes(l->dtype, l->ndim, p.size, &p.bytes) < 0 || !p.bytes)
		return wrong(err);
	p.number = (uint32_t)t->count[l->rank]++;
	if (use(t, 2 * sizeof p, err) < 0)
		return -1;
	struct piece *kept = vec_push(&t->pieces);
	if (!kept)
		return err_nomem(err, "the tables of pieces", sizeof p);
	*kept = p;
	return 0;
}

static int get_name(struct piece_table *t, struct view *v, const char **name, struct err *err)
{
	const size_t n = view_u16(v);
	const void *text = view_bytes(v, n);
	if (!text || !torch_is_text(text, n) || memchr(text, '\0', n))
		return wrong(err);
	char *kept = use(t, n + 1, err) < 0 ? NULL : pool_alloc(&t->pool, n + 1, "pieces", err);
	if (!kept)
		return -1;
	memcpy(kept, text, n);
	kept[n] = '\0';
	*name = kept;
	return 0;
}

static int get_tensor(struct piece_table *t, int rank, struct view *v, struct err *err)
{
	struct listed_tensor l = {.rank = rank, .first = t->pieces.n};
	uint64_t bytes;
	if (get_name(t, v, &l.name, err) < 0)
		return -1;
	const unsigned dtype = view_u8(v), ndim = view_u8(v), known = view_u8(v);
	if (v->failed || dtype >= DTYPES || !dtype_size((enum dtype)dtype) ||
	    ndim > ARRAY_MAX_DIMS || known > 1)
		return wrong(err);
	l.dtype = (enum dtype)dtype;
	l.ndim = (int)ndim;
	l.known = known;
	if (get_axes(t, v, l.ndim, &l.shape, err) < 0)
		return -1;
	const uint32_t n = view_u32(v);
	if (v->failed || n > PIECES_MAX || n > view_left(v) ||
	    box_bytes(l.dtype, l.ndim, l.shape, &bytes) < 0)
		return wrong(err);
	l.n = n;
	for (uint32_t i = 0; i < n; i++)
		if (get_piece(t, v, &l, err) < 0)
			return -1;
	struct listed_tensor *kept = use(t, 2 * sizeof l, err) < 0 ? NULL : vec_push(&t->listed);
	if (!kept)
		return err_nomem(err, "the tables of pieces", sizeof l);
	*kept = l;
	return 0;
}

int piece_table_add(struct piece_table *t, int rank, struct view v, struct err *err)
{
	while (view_left(&v))
		if (get_tensor(t, rank, &v, err) < 0)
			return -1;
	return 0;
}

/* ---- settling ---- */

static int by_name(const void *a, const void *b)
{
	const struct listed_tensor *x = a, *y = b;
	const int d = strcmp(x->name, y->name);
	return d ? d : (x->rank > y->rank) - (x->rank < y->rank);
}

static int by_place(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;
	if (x->tensor != y->tensor)
		return x->tensor < y->tensor ? -1 : 1;
	int d = compare_axes(x->first, y->first, x->ndim);
	if (d == 0)
		d = compare_axes(x->size, y->size, x->ndim);
	if (d == 0 && x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return d ? d : (x->number > y->number) - (x->number < y->number);
}

/* Rank b->rank says of a tensor something else than rank a->rank. */
static int differ(const struct listed_tensor *a, const struct listed_tensor *b, struct err *err)
{
	char text[ARRAY_SHAPE_TEXT], other[ARRAY_SHAPE_TEXT], name[256];
	const struct tensor t = {.ndim = a->ndim, .shape = a->shape},
	                    u = {.ndim = b->ndim, .shape = b->shape};
	text_escape(name, sizeof name, a->name);
	if (a->dtype != b->dtype)
		return err_rank(err, ERR_DISAGREE, b->rank,
		                "tensor '%s': dtype %s differs from %s on rank %d", name,
		                dtype_name(b->dtype), dtype_name(a->dtype), a->rank);
	return err_rank(err, ERR_DISAGREE, b->rank,
	                "tensor '%s': shape %s%s differs from %s on rank %d", name,
	                tensor_shape_text(&u, other), b->known ? "" : ", which its pieces need,",
	                tensor_shape_text(&t, text), a->rank);
}

/* Does the tensor that a rank knows hold the pieces of another? */
static bool holds(const struct listed_tensor *known, const struct listed_tensor *l)
{
	for (int i = 0; i < l->ndim; i++)
		if (l->shape[i] > known->shape[i] || (l->known && l->shape[i] != known->shape[i]))
			return false;
	return true;
}

/* The shape of the tensor that the @n ranks at @l list: as one of them knows it, or the least that
 * holds all pieces. */
static int find_shape(const struct listed_tensor *l, size_t n, uint64_t *shape, struct err *err)
{
	const struct listed_tensor *known = NULL;
	memset(shape, 0, ARRAY_MAX_DIMS * sizeof *shape);
	for (size_t k = 0; k < n; k++) {
		if (k && l[k].rank == l[k - 1].rank)
			return err_rank(err, ERR_INTEGRITY, l[k].rank,
			                "lists one tensor twice among its pieces");
		if (l[k].dtype != l->dtype || l[k].ndim != l->ndim)
			return differ(l, &l[k], err);
		if (l[k].known && !known)
			known = &l[k];
		for (int i = 0; i < l->ndim; i++)
			if (l[k].shape[i] > shape[i])
				shape[i] = l[k].shape[i];
	}
	for (size_t k = 0; known && k < n; k++)
		if (!holds(known, &l[k]))
			return differ(known, &l[k], err);
	return 0;
}

/* Make tensor @number of the @n ranks at @l. */
static int make_tensor(struct piece_table *t, const struct listed_tensor *l, size_t n,
                       uint32_t number, struct err *err)
{
	const size_t bytes = (size_t)l->ndim * sizeof(uint64_t);
	struct array_info info = {.dtype = l->dtype, .ndim = l->ndim};
	char name[256];
	struct whole_tensor *w = &t->tensors[number];
	uint64_t *shape = pool_alloc(&t->pool, bytes + 1, "pieces", err);
	if (!shape || find_shape(l, n, info.shape, err) < 0)
		return -1;
	if (array_count(&info) < 0)
		return err_set(err, ERR_INPUT, "tensor '%s': the pieces of all ranks are too large",
		               text_escape(name, sizeof name, l->name));
	if (bytes)
		memcpy(shape, info.shape, bytes);
	w->tensor = (struct tensor){.name = l->name,
	                            .dtype = l->dtype,
	                            .ndim = l->ndim,
	                            .shape = shape,
	                            .count = info.count,
	                            .bytes = array_bytes(&info)};
	for (size_t k = 0; k < n; k++) {
		for (size_t i = 0; i < l[k].n; i++)
			t->pieces.v[l[k].first + i].tensor = number;
		w->n += l[k].n;
	}
	return 0;
}

static int make_tensors(struct piece_table *t, struct err *err)
{
	struct listed_tensor *l = t->listed.v;
	const size_t n = t->listed.n;
	uint64_t at = 0;
	if (n)
		qsort(l, n, sizeof *l, by_name);
	t->tensors = err_calloc(n + 1, sizeof *t->tensors, "the tensors", err);
	if (!t->tensors)
		return -1;
	for (size_t i = 0, same, first = 0; i < n; i += same) {
		for (same = 1; i + same < n && strcmp(l[i].name, l[i + same].name) == 0; same++)
			;
		struct whole_tensor *w = &t->tensors[t->ntensors];
		if (make_tensor(t, &l[i], same, (uint32_t)t->ntensors++, err) < 0)
			return -1;
		w->first = first;
		w->at = at;
		first += w->n;
		if (__builtin_add_overflow(at, w->tensor.bytes, &at) || at > INT64_MAX)
			return err_set(err, ERR_INPUT, "the tensors of all ranks are too large");
	}
	return 0;
}

/* Choose one of the replicas of each piece. */
static void choose(struct piece_table *t)
{
	struct piece *p = t->pieces.v;
	for (size_t i = 0; i < t->pieces.n; i++) {
		const bool again = i && p[i].tensor == p[i - 1].tensor &&
		                   compare_axes(p[i].first, p[i - 1].first, p[i].ndim) == 0 &&
		                   compare_axes(p[i].size, p[i - 1].size, p[i].ndim) == 0;
		p[i].chosen = again ? p[i - 1].chosen : i;
		if (again)
			continue;
		p[i].at = t->rows[p[i].rank];
		t->rows[p[i].rank] += p[i].bytes;
	}
}

static int overlap(const struct tensor *w, const struct piece *a, const struct piece *b,
                   struct err *err)
{
	char text[PIECE_TENSOR_TEXT], x[ARRAY_SHAPE_TEXT], y[ARRAY_SHAPE_TEXT];
	const bool one = a->rank == b->rank;
	return err_rank(err, one ? ERR_INPUT : ERR_DISAGREE, one ? ERR_RANK_SELF : b->rank,
	                "%s: piece %s of rank %d has elements of piece %s of rank %d",
	                piece_tensor_text(w, text), cover_text(b->first, b->size, b->ndim, y),
	                b->rank, cover_text(a->first, a->size, a->ndim, x), a->rank);
}

/* "rank 0 has", "ranks 0, 2 have"; "no rank has": nobody is beside the hole. */
static void name_neighbours(const struct piece_table *t, const struct whole_tensor *w,
                            const struct cover_found *f, char *out, size_t cap)
{
	char text[128] = "";
	struct rank_list list;
	int n = 0;
	rank_list_init(&list, text, sizeof text);
	for (int r = 0; r < t->size; r++)
		for (size_t i = w->first; i < w->first + w->n; i++) {
			const struct piece *p = &t->pieces.v[i];
			const struct cover_box b = {p->first, p->size};
			if (p->rank != r || !cover_touches(f->first, f->size, &b, p->ndim))
				continue;
			rank_list_add(&list, r);
			n++;
			break;
		}
	rank_list_end(&list);
	snprintf(out, cap, "%s%s %s", n ? (n > 1 ? "ranks " : "rank ") : "no rank", text,
	         n > 1 ? "have" : "has");
}

static int hole(const struct piece_table *t, const struct whole_tensor *w,
                const struct cover_found *f, struct err *err)
{
	char text[PIECE_TENSOR_TEXT], place[ARRAY_SHAPE_TEXT], beside[160];
	piece_tensor_text(&w->tensor, text);
	cover_text(f->first, f->size, w->tensor.ndim, place);
	if (!w->n)
		return err_set(err, ERR_INPUT,
		               "%s: no rank has a piece of it: name the folder that has it on "
		               "some rank, or leave it out by --exclude",
		               text);
	name_neighbours(t, w, f, beside, sizeof beside);
	return err_set(err, ERR_INPUT,
	               "%s: no rank has %s; %s the pieces beside it: name the folder that "
	               "has it on some rank",
	               text, place, beside);
}

/* Who hears of holes. */
struct listener {
	piece_hole *tell; /* NULL: a hole is an error */
	void *ctx;
};

/* What checks need for each tensor. */
struct checking {
	const struct piece_table *table;
	struct listener listener;
	struct cover_box *boxes; /* as many as a tensor has pieces */
	size_t *of;
	struct cover_found found;
};

/* Do the chosen pieces have every element once? */
static int check_tensor(struct checking *k, const struct whole_tensor *w, struct err *err)
{
	const struct piece *pieces = k->table->pieces.v;
	struct cover_found *f = &k->found;
	char text[PIECE_TENSOR_TEXT];
	size_t n = 0;
	for (size_t i = w->first; i < w->first + w->n; i++) {
		if (pieces[i].chosen != i)
			continue;
		k->of[n] = i;
		k->boxes[n++] = (struct cover_box){pieces[i].first, pieces[i].size};
	}
	if (cover_check(w->tensor.shape, w->tensor.ndim, k->boxes, n, f, err) < 0)
		return -1;
	switch (f->cover) {
	case COVER_HOLE:
		return k->listener.tell ? k->listener.tell(k->listener.ctx, &w->tensor, f->first,
		                                           f->size, err)
		                        : hole(k->table, w, f, err);
	case COVER_TWICE:
		return overlap(&w->tensor, &pieces[k->of[f->a]], &pieces[k->of[f->b]], err);
	case COVER_MANY:
		return err_set(err, ERR_INPUT, "%s: its pieces are cut in too many ways",
		               piece_tensor_text(&w->tensor, text));
	case COVER_ONCE:
		break;
	}
	return 0;
}

static int check_cover(const struct piece_table *t, struct listener listener, struct err *err)
{
	struct checking *k = err_calloc(1, sizeof *k, "the pieces", err);
	size_t most = 0;
	if (!k)
		return -1;
	for (size_t i = 0; i < t->ntensors; i++)
		most = t->tensors[i].n > most ? t->tensors[i].n : most;
	k->table = t;
	k->listener = listener;
	k->boxes = err_calloc(most + 1, sizeof *k->boxes, "the pieces", err);
	k->of = err_calloc(most + 1, sizeof *k->of, "the pieces", err);
	int ret = k->boxes && k->of ? 0 : -1;
	for (size_t i = 0; ret == 0 && i < t->ntensors; i++)
		ret = check_tensor(k, &t->tensors[i], err);
	free(k->boxes);
	free(k->of);
	free(k);
	return ret;
}

static int settle(struct piece_table *t, struct listener listener, struct err *err)
{
	if (make_tensors(t, err) < 0)
		return -1;
	if (t->pieces.n)
		qsort(t->pieces.v, t->pieces.n, sizeof *t->pieces.v, by_place);
	choose(t);
	return check_cover(t, listener, err);
}

int piece_table_settle(struct piece_table *t, struct err *err)
{
	if (settle(t, (struct listener){0}, err) < 0)
		return -1;
	if (t->ntensors)
		return 0;
	return err_set(
	        err, ERR_INPUT,
	        "no rank has a piece of a tensor: name the folders that hold the checkpoint, "
	        "and tensors that are in it");
}

int piece_table_holes(struct piece_table *t, piece_hole *tell, void *ctx, struct err *err)
{
	return settle(t, (struct listener){tell, ctx}, err);
}
