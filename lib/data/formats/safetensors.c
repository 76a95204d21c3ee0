#include "lib/data/formats/safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/base/sort.h"
#include "lib/data/formats/json_scan.h"

#define NAME "'%.200s'" /* of a tensor; truncated so that the rest of the message fits */

/* The types in the order of the reference library, by alignment. Files have tensors in the reverse
 * order. */
#define TYPE(name, dtype)                    \
	{                                    \
		name, sizeof name - 1, dtype \
	}
static const struct {
	const char *name;
	size_t len;
	enum dtype dtype;
} types[] = {
        TYPE("BOOL", DTYPE_BOOL),
        TYPE("F4", DTYPE_F4),
        TYPE("F6_E2M3", DTYPE_F6_E2M3),
        TYPE("F6_E3M2", DTYPE_F6_E3M2),
        TYPE("U8", DTYPE_U8),
        TYPE("I8", DTYPE_I8),
        TYPE("F8_E5M2", DTYPE_F8E5M2),
        TYPE("F8_E4M3", DTYPE_F8E4M3),
        TYPE("F8_E8M0", DTYPE_F8_E8M0),
        TYPE("F8_E4M3FNUZ", DTYPE_F8_E4M3FNUZ),
        TYPE("F8_E5M2FNUZ", DTYPE_F8_E5M2FNUZ),
        TYPE("I16", DTYPE_I16),
        TYPE("U16", DTYPE_U16),
        TYPE("F16", DTYPE_F16),
        TYPE("BF16", DTYPE_BF16),
        TYPE("I32", DTYPE_I32),
        TYPE("U32", DTYPE_U32),
        TYPE("F32", DTYPE_F32),
        TYPE("C64", DTYPE_C64),
        TYPE("F64", DTYPE_F64),
        TYPE("I64", DTYPE_I64),
        TYPE("U64", DTYPE_U64),
};
#undef TYPE
#define TYPES (int)(sizeof types / sizeof *types)

/* The type's place in the table, or -1. */
static int type_rank(enum dtype dtype)
{
	int i = TYPES - 1;
	while (i >= 0 && types[i].dtype != dtype)
		i--;
	return i;
}

const char *safetensors_dtype_name(enum dtype dtype)
{
	int i = type_rank(dtype);
	return i < 0 ? NULL : types[i].name;
}

enum dtype safetensors_dtype_by_name(const char *name, size_t len)
{
	for (int i = 0; i < TYPES; i++)
		if (types[i].len == len && !memcmp(types[i].name, name, len))
			return types[i].dtype;
	return DTYPE_NONE;
}

/* ---- reading ---- */

int safetensors_header_len(const uint8_t prefix[SAFETENSORS_PREFIX], uint64_t file_size,
                           size_t *len, struct err *err)
{
	if (file_size < SAFETENSORS_PREFIX)
		return err_set(err, ERR_INPUT,
		               "%" PRIu64 " bytes are too few for a .safetensors file", file_size);
	uint64_t n = get_u64(prefix);
	if (n > SAFETENSORS_HEADER_MAX)
		return err_set(err, ERR_INPUT, "the header has %" PRIu64 " bytes: the limit is %u",
		               n, SAFETENSORS_HEADER_MAX);
	if (n > file_size - SAFETENSORS_PREFIX)
		return err_set(err, ERR_INPUT,
		               "the file ends inside its header: found %" PRIu64
		               " bytes, expected at least %" PRIu64,
		               file_size, n + SAFETENSORS_PREFIX);
	*len = (size_t)n;
	return 0;
}

/* The range of a tensor's bytes, relative to the header's end. */
struct range {
	uint64_t begin, end;
	const char *name;
};

struct pair {
	const char *key, *value;
};

struct header {
	struct json_scan scan;
	uint64_t data; /* offset of the header's end */
	int (*tensor)(void *ctx, const struct tensor *, struct err *);
	void *ctx;
	struct range *ranges; /* of each tensor */
	size_t n;
	bool has_metadata;
	struct pair *pairs; /* of the metadata */
	size_t npairs;
	struct err *err;
};

enum key { KEY_DTYPE, KEY_SHAPE, KEY_OFFSETS, KEYS };
static const char *const key_names[KEYS] = {"dtype", "shape", "data_offsets"};

/* A tensor's entry during the scan. */
struct entry {
	struct header *h;
	const char *name, *dtype;
	uint64_t shape[ARRAY_MAX_DIMS], offsets[2];
	int ndim, noffsets;
	unsigned seen; /* keys */
};

static int on_dimension(void *ctx)
{
	struct entry *e = ctx;
	if (e->ndim == ARRAY_MAX_DIMS)
		return err_set(e->h->err, ERR_INPUT, "tensor " NAME ": has more than %d dimensions",
		               e->name, ARRAY_MAX_DIMS);
	if (json_scan_natural(&e->h->scan, &e->shape[e->ndim]))
		return err_set(e->h->err, ERR_INPUT,
		               "tensor " NAME
		               ": dimension %d of the shape is not an integer from 0 to 2^64 - 1",
		               e->name, e->ndim);
	e->ndim++;
	return 0;
}

static int wrong_offsets(const struct entry *e)
{
	return err_set(e->h->err, ERR_INPUT,
	               "tensor " NAME ": data_offsets are not two integers from 0 to 2^64 - 1",
	               e->name);
}

static int on_offset(void *ctx)
{
	struct entry *e = ctx;
	if (e->noffsets == 2 || json_scan_natural(&e->h->scan, &e->offsets[e->noffsets]))
		return wrong_offsets(e);
	e->noffsets++;
	return 0;
}

static int scan_value(struct entry *e, enum key key)
{
	struct json_scan *s = &e->h->scan;
	switch (key) {
	case KEY_DTYPE:
		if (!json_scan_next_is(s, '"'))
			return err_set(e->h->err, ERR_INPUT,
			               "tensor " NAME ": dtype is not a string", e->name);
		return json_scan_string(s, &e->dtype);
	case KEY_SHAPE:
		if (!json_scan_next_is(s, '['))
			return err_set(e->h->err, ERR_INPUT,
			               "tensor " NAME ": shape is not an array", e->name);
		return json_scan_array(s, on_dimension, e);
	default:
		if (!json_scan_next_is(s, '['))
			return wrong_offsets(e);
		return json_scan_array(s, on_offset, e) ? -1
		       : e->noffsets < 2                ? wrong_offsets(e)
		                                        : 0;
	}
}

static int on_field(void *ctx, const char *name)
{
	struct entry *e = ctx;
	int key = 0;
	while (key < KEYS && strcmp(name, key_names[key]) != 0)
		key++;
	if (key == KEYS)
		return err_set(e->h->err, ERR_INPUT,
		               "tensor " NAME ": has the key '%.40s': expected 'dtype', 'shape' "
		               "and 'data_offsets' only",
		               e->name, name);
	if (e->seen & 1u << key)
		return err_set(e->h->err, ERR_INPUT, "tensor " NAME ": has the key '%s' twice",
		               e->name, name);
	e->seen |= 1u << key;
	return scan_value(e, (enum key)key);
}

static int scan_entry(struct entry *e)
{
	if (!json_scan_next_is(&e->h->scan, '{'))
		return err_set(e->h->err, ERR_INPUT, "tensor " NAME ": its entry is not an object",
		               e->name);
	if (json_scan_object(&e->h->scan, on_field, e))
		return -1;
	for (int i = 0; i < KEYS; i++)
		if (!(e->seen & 1u << i))
			return err_set(e->h->err, ERR_INPUT, "tensor " NAME ": lacks the key '%s'",
			               e->name, key_names[i]);
	return 0;
}

/* Set the type and the number of elements. Checks that the tensor's bits, ignoring zero dimensions,
 * fit 64-bit arithmetic. */
static int describe(const struct entry *e, struct tensor *t, struct err *err)
{
	*t = (struct tensor){.name = e->name, .ndim = e->ndim, .shape = e->shape, .count = 1};
	t->dtype = safetensors_dtype_by_name(e->dtype, strlen(e->dtype));
	if (t->dtype == DTYPE_NONE)
		return err_set(err, ERR_INPUT,
		               "tensor " NAME
		               ": dtype '%.40s' is unknown: expected one such as F32 or BF16",
		               t->name, e->dtype);
	uint64_t bits = dtype_bits(t->dtype);
	for (int i = 0; i < t->ndim; i++) {
		t->count *= t->shape[i];
		if (t->shape[i] && __builtin_mul_overflow(bits, t->shape[i], &bits))
			return err_set(err, ERR_INPUT, "tensor " NAME ": the shape is too large",
			               t->name);
	}
	return 0;
}

/* Check that the size matches type and shape. */
static int check_bytes(struct tensor *t, const struct range *r, struct err *err)
{
	char shape[ARRAY_SHAPE_TEXT];
	uint64_t bits = t->count * dtype_bits(t->dtype);
	if (bits % 8)
		return err_set(err, ERR_INPUT,
		               "tensor " NAME ": %" PRIu64
		               " bits for %s of shape %s are not a whole number of bytes",
		               t->name, bits, dtype_name(t->dtype), tensor_shape_text(t, shape));
	t->bytes = bits / 8;
	if (r->end < r->begin)
		return err_set(err, ERR_INPUT,
		               "tensor " NAME ": data_offsets [%" PRIu64 ", %" PRIu64
		               "] end before they begin",
		               t->name, r->begin, r->end);
	if (r->end - r->begin != t->bytes)
		return err_set(err, ERR_INPUT,
		               "tensor " NAME ": data_offsets [%" PRIu64 ", %" PRIu64
		               "] hold %" PRIu64 " bytes: expected %" PRIu64 " for %s of shape %s",
		               t->name, r->begin, r->end, r->end - r->begin, t->bytes,
		               dtype_name(t->dtype), tensor_shape_text(t, shape));
	return 0;
}

static int on_tensor(struct header *h, const char *name)
{
	struct entry e = {.h = h, .name = name};
	struct tensor t;
	struct range *ranges = err_grow(h->ranges, h->n, sizeof *ranges, "the tensors", h->err);
	if (!ranges)
		return -1;
	h->ranges = ranges;
	if (scan_entry(&e) || describe(&e, &t, h->err))
		return -1;
	struct range *r = &ranges[h->n++];
	*r = (struct range){e.offsets[0], e.offsets[1], name};
	if (check_bytes(&t, r, h->err))
		return -1;
	t.offset = h->data + r->begin;
	return h->tensor(h->ctx, &t, h->err);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct range *)a)->name, ((const struct range *)b)->name);
}

static int check_names(struct range *r, size_t n, struct err *err)
{
	sort_list(r, n, sizeof *r, by_name);
	for (size_t i = 1; i < n; i++)
		if (strcmp(r[i - 1].name, r[i].name) == 0)
			return err_set(err, ERR_INPUT, "tensor " NAME " appears twice", r[i].name);
	return 0;
}

static int by_range(const void *a, const void *b)
{
	const struct range *x = a, *y = b;
	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	return x->end < y->end ? -1 : x->end > y->end;
}

/* Check that the tensors fill @bytes without holes or overlaps. */
static int check_ranges(struct range *r, size_t n, uint64_t bytes, struct err *err)
{
	uint64_t end = 0;
	sort_list(r, n, sizeof *r, by_range);
	for (size_t i = 0; i < n; i++) {
		if (r[i].begin != end)
			return err_set(err, ERR_INPUT,
			               "tensor " NAME ": data_offsets [%" PRIu64 ", %" PRIu64
			               "] %s: expected them to begin at %" PRIu64,
			               r[i].name, r[i].begin, r[i].end,
			               r[i].begin < end ? "overlap another tensor's"
			                                : "leave a hole",
			               end);
		end = r[i].end;
	}
	if (end != bytes)
		return err_set(err, ERR_INPUT,
		               "has %" PRIu64 " bytes of data: expected %" PRIu64
		               ", where the last tensor ends",
		               bytes, end);
	return 0;
}

/* ---- JSON text, written like the reference library ---- */

static int by_key(const void *a, const void *b)
{
	return strcmp(((const struct pair *)a)->key, ((const struct pair *)b)->key);
}

/* Sort the pairs and check that no key appears twice. */
static int sort_pairs(struct header *h)
{
	sort_list(h->pairs, h->npairs, sizeof *h->pairs, by_key);
	for (size_t i = 1; i < h->npairs; i++)
		if (strcmp(h->pairs[i - 1].key, h->pairs[i].key) == 0)
			return err_set(h->err, ERR_INPUT, "__metadata__: '%.200s' appears twice",
			               h->pairs[i].key);
	return 0;
}

static int metadata_text(struct header *h, char **out)
{
	struct buf b;
	if (!h->has_metadata)
		return 0;
	/* Escapes may lengthen the text, at most six times. */
	buf_init(&b, 6ull * SAFETENSORS_HEADER_MAX);
	buf_put_text(&b, "{");
	for (size_t i = 0; i < h->npairs; i++) {
		buf_put_text(&b, i ? "," : "");
		buf_put_json(&b, h->pairs[i].key, strlen(h->pairs[i].key));
		buf_put_text(&b, ":");
		buf_put_json(&b, h->pairs[i].value, strlen(h->pairs[i].value));
	}
	buf_put_text(&b, "}");
	buf_put_u8(&b, 0);
	if (b.failed) {
		buf_release(&b);
		return err_nomem(h->err, "__metadata__", b.max);
	}
	*out = (char *)b.data;
	return 0;
}

static int on_pair(void *ctx, const char *key)
{
	struct header *h = ctx;
	struct pair *pairs = err_grow(h->pairs, h->npairs, sizeof *pairs, "__metadata__", h->err);
	if (!pairs)
		return -1;
	h->pairs = pairs;
	if (!json_scan_next_is(&h->scan, '"'))
		return err_set(h->err, ERR_INPUT, "__metadata__: '%.200s' is not a string", key);
	pairs[h->npairs].key = key;
	return json_scan_string(&h->scan, &pairs[h->npairs++].value);
}

static int on_metadata(struct header *h)
{
	if (h->has_metadata)
		return err_set(h->err, ERR_INPUT, "__metadata__ appears twice");
	h->has_metadata = true;
	if (!json_scan_next_is(&h->scan, '{'))
		return err_set(h->err, ERR_INPUT, "__metadata__ is not an object");
	return json_scan_object(&h->scan, on_pair, h);
}

/* ---- the header ---- */

static int on_entry(void *ctx, const char *name)
{
	return strcmp(name, "__metadata__") == 0 ? on_metadata(ctx) : on_tensor(ctx, name);
}

int safetensors_parse(char *json, size_t len, uint64_t file_size,
                      int (*tensor)(void *ctx, const struct tensor *, struct err *), void *ctx,
                      char **metadata, struct err *err)
{
	struct header h = {
	        .data = SAFETENSORS_PREFIX + len, .tensor = tensor, .ctx = ctx, .err = err};
	*metadata = NULL;
	if (file_size < SAFETENSORS_PREFIX || len > file_size - SAFETENSORS_PREFIX)
		return err_set(err, ERR_INPUT, "the file ends inside its header");
	if (!len || json[0] != '{')
		return err_set(err, ERR_INPUT,
		               "is not a .safetensors file: its header does not begin with '{'");
	json_scan_init(&h.scan, "the header", json, len, err);
	int ret = json_scan_object(&h.scan, on_entry, &h) || json_scan_end(&h.scan) ||
	                          check_names(h.ranges, h.n, err) || sort_pairs(&h) ||
	                          check_ranges(h.ranges, h.n, file_size - h.data, err) ||
	                          metadata_text(&h, metadata)
	                  ? -1
	                  : 0;
	free(h.ranges);
	free(h.pairs);
	return ret;
}

/* ---- writing ---- */

static int by_place(const void *a, const void *b)
{
	const struct tensor *x = *(const struct tensor *const *)a;
	const struct tensor *y = *(const struct tensor *const *)b;
	if (x->dtype != y->dtype)
		return type_rank(y->dtype) - type_rank(x->dtype);
	return strcmp(x->name, y->name);
}

static void put_entry(struct buf *b, const struct tensor *t, uint64_t begin)
{
	buf_put_json(b, t->name, strlen(t->name));
	buf_put_text(b, ":{\"dtype\":\"");
	buf_put_text(b, safetensors_dtype_name(t->dtype));
	buf_put_text(b, "\",\"shape\":[");
	for (int i = 0; i < t->ndim; i++) {
		buf_put_text(b, i ? "," : "");
		buf_put_digits(b, t->shape[i]);
	}
	buf_put_text(b, "],\"data_offsets\":[");
	buf_put_digits(b, begin);
	buf_put_text(b, ",");
	buf_put_digits(b, begin + t->bytes);
	buf_put_text(b, "]}");
}

/* Set offsets[] relative to the data's beginning, and the data's size. */
static int place(const struct tensor *const *tensors, size_t n, uint64_t *offsets, uint64_t *bytes,
                 struct err *err)
{
	*bytes = 0;
	for (size_t i = 0; i < n; i++) {
		const struct tensor *t = tensors[i];
		if (type_rank(t->dtype) < 0)
			return err_set(err, ERR_OUTPUT,
			               "tensor " NAME ": .safetensors has no type for %s", t->name,
			               dtype_name(t->dtype));
		offsets[i] = *bytes;
		if (__builtin_add_overflow(*bytes, t->bytes, bytes) || *bytes > INT64_MAX / 2)
			return err_set(err, ERR_OUTPUT, "the tensors are too large for a file");
	}
	return 0;
}

static void put_header(struct buf *b, const struct tensor *const *tensors, size_t n,
                       const char *metadata, const uint64_t *offsets)
{
	buf_put_u64(b, 0);
	buf_put_text(b, "{");
	if (metadata) {
		buf_put_text(b, "\"__metadata__\":");
		buf_put_text(b, metadata);
	}
	for (size_t i = 0; i < n; i++) {
		buf_put_text(b, i || metadata ? "," : "");
		put_entry(b, tensors[i], offsets[i]);
	}
	buf_put_text(b, "}");
	while (!b->failed && b->len % 8)
		buf_put_u8(b, ' ');
	if (!b->failed)
		put_u64(b->data, b->len - SAFETENSORS_PREFIX);
}

int safetensors_lay_out(const struct tensor **tensors, size_t n, const char *metadata, char **head,
                        size_t *head_len, uint64_t *offsets, uint64_t *size, struct err *err)
{
	struct buf b;
	uint64_t bytes;
	sort_list(tensors, n, sizeof *tensors, by_place);
	if (place(tensors, n, offsets, &bytes, err))
		return -1;
	buf_init(&b, SAFETENSORS_PREFIX + (size_t)SAFETENSORS_HEADER_MAX);
	put_header(&b, tensors, n, metadata, offsets);
	if (b.failed) {
		buf_release(&b);
		return err_set(err, ERR_RESOURCE,
		               "the header is longer than %u bytes, or there is no memory for it",
		               SAFETENSORS_HEADER_MAX);
	}
	for (size_t i = 0; i < n; i++)
		offsets[i] += b.len;
	*head = (char *)b.data;
	*head_len = b.len;
	*size = b.len + bytes;
	return 0;
}
