#include "lib/coll/agreement/offer.h"

#include <stdlib.h>

#include "lib/coll/agreement/agree_wire.h"

#define ARRAY_LEAST 7 /* bytes of the shortest array */

/* What every offer has before its content. */
/* clang-format off */
MESSAGE(network_found, "INTENT",
	FIELD(U64, network_found, up),
	FIELD(U64, network_found, down),
	FIELD(U8, network_found, from, .most = NETWORK_SOURCES - 1),
	FIELD(U64, network_found, limit),
	FIELD(U64, network_found, socket));

MESSAGE(offer, "INTENT",
	FIELD(U64, offer, weights, .fits = wire_is_weight),
	FIELD(BOOL, offer, weighted),
	FIELD(U64, offer, order),
	FIELD(U64, offer, reads),
	FIELD(BOOL, offer, codes),
	FIELD(PART, offer, link, .part = &network_found_message),
	FIELD(SPAN, offer, claims));
/* clang-format on */

/* ---- encoding ---- */

static void put_content(struct buf *b, const struct offer_content *c, const struct offer_form *form)
{
	buf_put_u8(b, (uint8_t)c->has);
	if (c->has == OFFER_FILES)
		file_list_put(b, &c->files);
	if (c->has != OFFER_ARRAYS)
		return;
	buf_put_u32(b, c->narrays);
	for (uint32_t i = 0; i < c->narrays; i++) {
		if (form->names)
			buf_put_str(b, c->arrays[i].name);
		wire_put_array(b, &c->arrays[i].info, c->arrays[i].counts, form->size);
	}
	if (form->gathered)
		rank_files_put(b, c->gathered);
}

void offer_put(struct buf *b, const struct offer *o, const struct offer_form *form)
{
	message_put(&offer_message, o, b);
	put_content(b, &o->content, form);
}

/* ---- decoding ---- */

static int get_array(struct view *v, const struct offer_form *form, struct offered_array *a,
                     struct err *err)
{
	if (form->names && wire_get_name(v, &a->name, err) < 0)
		return -1;
	return wire_get_array(v, form->size, &a->info, &a->counts, err);
}

static int get_arrays(struct view *v, const struct offer_form *form, struct offer_content *c,
                      struct err *err)
{
	uint32_t n = view_u32(v);
	if (v->failed || n == 0 || n > view_left(v) / ARRAY_LEAST)
		return malformed(err, WIRE_BOTH, "arrays");
	c->arrays = err_calloc((size_t)n + 1, sizeof *c->arrays, "a rank's arrays",
	                       err); /* one more for an array that is truncated */
	if (!c->arrays)
		return -1;
	for (; c->narrays < n; c->narrays++)
		if (get_array(v, form, &c->arrays[c->narrays], err) < 0)
			return -1;
	if (!form->gathered)
		return 0;
	if (!(c->gathered = err_calloc(1, sizeof *c->gathered, "a rank's files", err)))
		return -1;
	return rank_files_get(v, c->gathered, (int)n, err);
}

int offer_content_get(struct view v, const struct offer_form *form, struct offer_content *c,
                      struct err *err)
{
	int ret = 0;
	*c = (struct offer_content){0};
	unsigned has = view_u8(&v);
	if (v.failed || has > OFFER_FILES)
		return malformed(err, WIRE_BOTH, "content");
	c->has = (enum offer_has)has;
	if (c->has == OFFER_ARRAYS)
		ret = get_arrays(&v, form, c, err);
	else if (c->has == OFFER_FILES)
		ret = file_list_get(&v, &c->files, err);
	return ret < 0 ? -1 : wire_end(&v, err);
}

int offer_get(struct view v, const struct offer_form *form, struct offer *o, struct err *err)
{
	if (message_get(&offer_message, o, &v, err) < 0)
		return -1;
	o->bytes = v;
	return offer_content_get(v, form, &o->content, err);
}

void offer_content_release(struct offer_content *c)
{
	/* An array that failed to decode may have its name. */
	for (uint32_t i = 0; c->arrays && i <= c->narrays; i++) {
		free(c->arrays[i].name);
		free(c->arrays[i].counts);
	}
	free(c->arrays);
	if (c->gathered)
		rank_files_release(c->gathered);
	free(c->gathered);
	file_list_release(&c->files);
	*c = (struct offer_content){0};
}

void offer_release(struct offer *o)
{
	offer_content_release(&o->content);
}
