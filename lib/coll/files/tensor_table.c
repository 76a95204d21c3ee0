#include "lib/coll/files/tensor_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <xxhash.h>

#include "lib/base/buf.h"
#include "lib/data/digest.h"

#define NAME_SHOWN 4096 /* bytes shown of a tensor's name */

struct text {
	char name[NAME_SHOWN + 32];
	char value[ARRAY_SHAPE_TEXT + 64];
};

/* There may be many thousands of tensors, for which snprintf would take several times as long. */
static void describe_type(const struct tensor_entry *e, struct buf *value)
{
	const struct tensor *t = e->tensor;
	char text[ARRAY_SHAPE_TEXT];
	const char *shape = tensor_shape_text(t, text);

	if (e->any_rows)
		shape = strchr(shape, ',') ? strchr(shape, ',') : ")";
	buf_put_text(value, dtype_name(t->dtype));
	buf_put_text(value, e->any_rows ? " (*" : " ");
	buf_put_text(value, shape);
	if (e->as_stored && t->fortran)
		buf_put_text(value, " in Fortran's order");
}

static void describe(const struct tensor_table *t, size_t i, struct tensor_entry *e,
                     struct text *out)
{
	char digest[DIGEST_TEXT], input[32] = "";
	struct buf name, value;

	t->at(t->ctx, i, e);
	if (e->ninputs) /* names must ascend, so all numbers have the same width */
		snprintf(input, sizeof input, "input %0*d%s", snprintf(NULL, 0, "%d", e->ninputs),
		         e->input + 1, *e->tensor->name ? " " : "");
	buf_init_fixed(&name, out->name, sizeof out->name);
	buf_put_text(&name, input);
	buf_put(&name, e->tensor->name, strnlen(e->tensor->name, NAME_SHOWN));
	buf_put_u8(&name, 0);
	buf_init_fixed(&value, out->value, sizeof out->value);
	if (e->digest) {
		buf_put_text(&value, "digest ");
		buf_put_text(&value, digest_text(e->digest, digest));
	} else {
		describe_type(e, &value);
	}
	buf_put_u8(&value, 0);
}

/* Show the page that begins at entry @i. Returns the first entry of the next page. */
static size_t show_page(const struct tensor_table *t, size_t i, struct buf *out)
{
	struct tensor_entry e;
	struct text text;

	for (; i < t->n && out->len < TABLE_PAGE && !out->failed; i++) {
		describe(t, i, &e, &text);
		table_put(out, text.name, text.value);
	}
	return i;
}

void tensor_table_show(struct tensor_table *t, uint32_t page, struct buf *out)
{
	if (page < t->page) {
		t->page = 0;
		t->first = 0;
	}
	for (; t->page < page && t->first < t->n; t->page++) {
		t->first = show_page(t, t->first, out);
		out->len = 0;
	}
	show_page(t, t->first, out);
}

void tensor_content_fact(struct intent *in, bool one_array)
{
	intent_add(in, "content", one_array ? "one array" : "named tensors");
}

int tensor_table_fact(const struct tensor_table *t, struct intent *in, struct err *err)
{
	XXH3_state_t *state = XXH3_createState();
	struct tensor_entry e;
	struct text text;
	char fact[64];

	if (!state)
		return err_nomem(err, "the digest of the tensors", sizeof *in);
	XXH3_128bits_reset(state);
	for (size_t i = 0; i < t->n; i++) {
		describe(t, i, &e, &text);
		XXH3_128bits_update(state, text.name, strlen(text.name) + 1);
		/* The page shows only part of a long name; the digest covers all of it. */
		XXH3_128bits_update(state, e.tensor->name, strlen(e.tensor->name) + 1);
		XXH3_128bits_update(state, text.value, strlen(text.value) + 1);
	}
	XXH128_hash_t h = XXH3_128bits_digest(state);
	XXH3_freeState(state);
	snprintf(fact, sizeof fact, "%zu of digest %016" PRIx64 "%016" PRIx64, t->n, h.high64,
	         h.low64);
	intent_add(in, "tensors", fact);
	snprintf(in->table, sizeof in->table, "tensors");
	return 0;
}
