#include "lib/coll/agreement/terms.h"

#include <stdlib.h>
#include <string.h>

#include "lib/coll/agreement/agree_wire.h"
#include "lib/coll/agreement/claims.h"
#include "lib/data/kernels/joint.h"
#include "lib/exec/budget.h"
#include "lib/exec/coded.h"
#include "lib/price/fill.h"

#define VECTOR_LEAST 7 /* bytes of the shortest vector */

static bool has_size(const void *dtype)
{
	return dtype_size(*(const enum dtype *)dtype);
}

/* Whole elements of every type; 0: data are not coded. */
static bool is_piece(const void *piece)
{
	return *(const uint32_t *)piece % BUDGET_PIECE_UNIT == 0;
}

/* What all terms begin with, and what each of their vectors does. */
/* clang-format off */
MESSAGE(terms, "ROSTER",
	FIELD(U64, terms, divisor, .fits = wire_is_weight),
	FIELD(BOOL, terms, weighted),
	FIELD(BOOL, terms, keeps_order),
	FIELD(U32, terms, piece, .most = CODED_PIECE_MAX, .fits = is_piece),
	FIELD(BOOL, terms, clones));

MESSAGE(vector_terms, "ROSTER",
	FIELD(TEXT, vector_terms, algorithm),
	FIELD(U8, vector_terms, wire, .most = DTYPES - 1, .fits = has_size),
	FIELD(U32, vector_terms, windows, .least = 1));
/* clang-format on */

/* ---- encoding ---- */

static bool alike(const uint64_t *rows, int size)
{
	for (int r = 1; r < size; r++)
		if (rows[r] != rows[0])
			return false;
	return true;
}

/* A number of each rank; @list NULL: all are @each. */
static void put_numbers(struct buf *b, const uint64_t *list, uint64_t each, int size)
{
	const bool one = !list || alike(list, size);
	buf_put_u8(b, one);
	if (one)
		buf_put_u64(b, list ? list[0] : each);
	else
		wire_put_rows(b, list, size);
}

static void put_vector(struct buf *b, const struct vector_terms *v, const struct terms_form *form)
{
	message_put(&vector_terms_message, v, b);
	if (form->rows)
		put_numbers(b, v->rows, v->rows_each, form->size);
	if (!form->from)
		return;
	buf_put_u8(b, v->from != NULL);
	if (v->from)
		wire_put_rows(b, v->from, form->size);
}

void shares_put(struct buf *b, const uint32_t *shares, int size)
{
	buf_put_u8(b, shares != NULL);
	for (int r = 0; shares && r < size; r++)
		buf_put_u32(b, shares[r]);
}

void terms_put(struct buf *b, const struct terms *t, const struct terms_form *form)
{
	size_t len = view_left(&t->root);
	message_put(&terms_message, t, b);
	claims_put_dropped(b, t->dropped, form->nclaims);
	buf_put_u32(b, (uint32_t)len);
	buf_put(b, t->root.p, len);
	buf_put_u32(b, t->nvectors);
	for (uint32_t i = 0; i < t->nvectors; i++)
		put_vector(b, &t->vectors[i], form);
	shares_put(b, t->shares, form->size);
	if (form->joint)
		put_numbers(b, t->inputs, t->inputs_each, form->size);
	for (int r = 0; form->gathered && r < form->size; r++)
		rank_files_put(b, &t->gathered[r]);
}

/* ---- decoding ---- */

/* @what: the field, for errors. */
static int get_numbers(struct view *v, int size, const char *what, uint64_t **list, uint64_t *each,
                       struct err *err)
{
	const unsigned one = view_u8(v);
	if (!one) {
		if (wire_get_rows(v, size, list, err) < 0)
			return -1;
		return alike(*list, size) ? malformed(err, "ROSTER", what) : 0;
	}
	*each = view_u64(v);
	return v->failed || one > 1 || *each > INT64_MAX / (uint64_t)size
	               ? malformed(err, "ROSTER", what)
	               : 0;
}

static int get_inputs(struct view *v, int size, struct terms *t, struct err *err)
{
	uint64_t sum = 0;
	if (get_numbers(v, size, "inputs", &t->inputs, &t->inputs_each, err) < 0)
		return -1;
	for (int r = 0; r < size; r++) {
		const uint64_t n = t->inputs ? t->inputs[r] : t->inputs_each;
		if (n < 1 || n > JOINT_MOST)
			return malformed(err, "ROSTER", "inputs");
		sum += n;
	}
	return sum > JOINT_MOST ? malformed(err, "ROSTER", "inputs") : 0;
}

int shares_get(struct view *v, int size, uint32_t **shares, struct err *err)
{
	const unsigned any = view_u8(v);
	uint64_t sum = 0;
	if (v->failed || any > 1 || (any && view_left(v) / 4 < (size_t)size))
		return malformed(err, "ROSTER", "shares");
	if (!any)
		return 0;
	if (!(*shares = err_calloc((size_t)size, sizeof **shares, "the ranks' shares", err)))
		return -1;
	for (int r = 0; r < size; r++)
		sum += (*shares)[r] = view_u32(v);
	return sum == FILL_ALL ? 0 : malformed(err, "ROSTER", "shares");
}

static int get_vector(struct view *v, const struct terms_form *form, struct vector_terms *out,
                      struct err *err)
{
	if (message_get(&vector_terms_message, out, v, err) < 0)
		return -1;
	if (form->rows && get_numbers(v, form->size, "rows", &out->rows, &out->rows_each, err) < 0)
		return -1;
	if (!form->from || !view_u8(v))
		return v->failed ? malformed(err, "ROSTER", "from") : 0;
	return wire_get_rows(v, form->size, &out->from, err);
}

static int get_vectors(struct view *v, const struct terms_form *form, struct terms *t,
                       struct err *err)
{
	uint32_t n = view_u32(v);
	if (v->failed || n == 0 || n > view_left(v) / VECTOR_LEAST)
		return malformed(err, "ROSTER", "vectors");
	t->vectors = err_calloc(n, sizeof *t->vectors, "the vectors", err);
	if (!t->vectors)
		return -1;
	t->nvectors = n;
	for (uint32_t i = 0; i < n; i++)
		if (get_vector(v, form, &t->vectors[i], err) < 0)
			return -1;
	return 0;
}

static int get_gathered(struct view *v, const struct terms_form *form, struct terms *t,
                        struct err *err)
{
	size_t n = (size_t)form->size;
	if (view_left(v) / 2 < n)
		return malformed(err, "ROSTER", "gathered");
	t->gathered = err_calloc(n, sizeof *t->gathered, "the ranks' files", err);
	if (!t->gathered)
		return -1;
	for (size_t r = 0; r < n; r++)
		if (rank_files_get(v, &t->gathered[r], (int)t->nvectors, err) < 0)
			return -1;
	return 0;
}

static int get_dropped(struct view *v, const struct terms_form *form, struct terms *t,
                       struct err *err)
{
	if (!(t->dropped = err_calloc((size_t)form->nclaims + 1, sizeof *t->dropped, "the outputs",
	                              err)))
		return -1;
	return claims_get_dropped(v, t->dropped, form->nclaims, err);
}

int terms_get(struct view v, const struct terms_form *form, struct terms *t, struct err *err)
{
	if (message_get(&terms_message, t, &v, err) < 0)
		return -1;
	if (get_dropped(&v, form, t, err) < 0)
		return -1;
	size_t len = view_u32(&v);
	const uint8_t *root = view_bytes(&v, len);
	if (!root)
		return malformed(err, "ROSTER", "root");
	t->root = view_of(root, len);
	if (get_vectors(&v, form, t, err) < 0 || shares_get(&v, form->size, &t->shares, err) < 0 ||
	    (form->joint && get_inputs(&v, form->size, t, err) < 0) ||
	    (form->gathered && get_gathered(&v, form, t, err) < 0))
		return -1;
	return wire_end(&v, err);
}

void terms_release(struct terms *t, const struct terms_form *form)
{
	for (uint32_t i = 0; i < t->nvectors; i++) {
		free(t->vectors[i].rows);
		free(t->vectors[i].from);
	}
	for (int r = 0; t->gathered && r < form->size; r++)
		rank_files_release(&t->gathered[r]);
	free(t->gathered);
	free(t->inputs);
	free(t->shares);
	free(t->vectors);
	free(t->dropped);
	*t = (struct terms){0};
}
