#include "lib/coll/agreement/terms.h"

#include <stdlib.h>
#include <string.h>

#include "lib/coll/agreement/agree_wire.h"
#include "lib/coll/agreement/claims.h"

#define VECTOR_LEAST 7 /* bytes of the shortest vector */

static bool has_size(const void *dtype)
{
	return dtype_size(*(const enum dtype *)dtype);
}

/* What all terms begin with, and what each of their vectors does. */
/* clang-format off */
MESSAGE(terms, "ROSTER",
	FIELD(U64, terms, divisor, .fits = wire_is_weight),
	FIELD(BOOL, terms, weighted),
	FIELD(BOOL, terms, keeps_order));

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

static void put_rows(struct buf *b, const struct vector_terms *v, int size)
{
	const bool one = !v->rows || alike(v->rows, size);
	buf_put_u8(b, one);
	if (one)
		buf_put_u64(b, v->rows ? v->rows[0] : v->rows_each);
	else
		wire_put_rows(b, v->rows, size);
}

static void put_vector(struct buf *b, const struct vector_terms *v, const struct terms_form *form)
{
	message_put(&vector_terms_message, v, b);
	if (form->rows)
		put_rows(b, v, form->size);
	if (!form->from)
		return;
	buf_put_u8(b, v->from != NULL);
	if (v->from)
		wire_put_rows(b, v->from, form->size);
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
	for (int r = 0; form->gathered && r < form->size; r++)
		rank_files_put(b, &t->gathered[r]);
}

/* ---- decoding ---- */

static int get_rows(struct view *v, int size, struct vector_terms *out, struct err *err)
{
	const unsigned one = view_u8(v);
	if (!one) {
		if (wire_get_rows(v, size, &out->rows, err) < 0)
			return -1;
		return alike(out->rows, size) ? malformed(err, "ROSTER", "rows") : 0;
	}
	out->rows_each = view_u64(v);
	return v->failed || one > 1 || out->rows_each > INT64_MAX / (uint64_t)size
	               ? malformed(err, "ROSTER", "rows")
	               : 0;
}

static int get_vector(struct view *v, const struct terms_form *form, struct vector_terms *out,
                      struct err *err)
{
	if (message_get(&vector_terms_message, out, v, err) < 0)
		return -1;
	if (form->rows && get_rows(v, form->size, out, err) < 0)
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
	if (get_vectors(&v, form, t, err) < 0 ||
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
	free(t->vectors);
	free(t->dropped);
	*t = (struct terms){0};
}
