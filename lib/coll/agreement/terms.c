#include "lib/coll/agreement/terms.h"

#include <stdlib.h>
#include <string.h>

#include "lib/coll/agreement/agree_wire.h"
#include "lib/coll/agreement/claims.h"

#define VECTOR_LEAST 7 /* bytes of the shortest vector */

static int malformed(struct err *err)
{
	return err_set(err, ERR_INTEGRITY, "malformed details");
}

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
	buf_put_str(b, v->algorithm);
	buf_put_u8(b, (uint8_t)v->wire);
	buf_put_u32(b, v->windows);
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
	wire_put_weight(b, t->divisor);
	buf_put_u8(b, t->weighted);
	buf_put_u8(b, t->keeps_order);
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
		if (v->failed || wire_get_rows(v, size, &out->rows, err) < 0)
			return err->code ? -1 : malformed(err);
		return alike(out->rows, size) ? malformed(err) : 0;
	}
	out->rows_each = view_u64(v);
	return v->failed || one > 1 || out->rows_each > INT64_MAX / (uint64_t)size ? malformed(err)
	                                                                           : 0;
}

static int get_vector(struct view *v, const struct terms_form *form, struct vector_terms *out,
                      struct err *err)
{
	view_str(v, out->algorithm, sizeof out->algorithm);
	unsigned wire = view_u8(v);
	out->windows = view_u32(v);
	if (v->failed || !out->windows || wire >= DTYPES || !dtype_size((enum dtype)wire))
		return malformed(err);
	out->wire = (enum dtype)wire;
	if (form->rows && get_rows(v, form->size, out, err) < 0)
		return -1;
	if (!form->from || !view_u8(v))
		return v->failed ? malformed(err) : 0;
	return wire_get_rows(v, form->size, &out->from, err);
}

static int get_vectors(struct view *v, const struct terms_form *form, struct terms *t,
                       struct err *err)
{
	uint32_t n = view_u32(v);
	if (v->failed || n == 0 || n > view_left(v) / VECTOR_LEAST)
		return malformed(err);
	if (!(t->vectors = err_calloc(n, sizeof *t->vectors, "the vectors", err)))
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
		return malformed(err);
	if (!(t->gathered = err_calloc(n, sizeof *t->gathered, "the ranks' files", err)))
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
	*t = (struct terms){0};
	if (wire_get_weight(&v, &t->divisor, err) < 0)
		return -1;
	t->weighted = view_u8(&v);
	t->keeps_order = view_u8(&v);
	if (get_dropped(&v, form, t, err) < 0)
		return -1;
	size_t len = view_u32(&v);
	const uint8_t *root = view_bytes(&v, len);
	if (!root)
		return malformed(err);
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
