#include "lib/data/safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "lib/base/buf.h"

#define NAME "'%.200s'" /* of a tensor: what is longer must not hide what is said of it */

/* The types in the order of the reference library, which is that of their alignment: a file holds
 * those of the last first. */
static const struct {
	const char *name;
	enum dtype dtype;
} types[] = {
        {"BOOL", DTYPE_BOOL},
        {"F4", DTYPE_F4},
        {"F6_E2M3", DTYPE_F6_E2M3},
        {"F6_E3M2", DTYPE_F6_E3M2},
        {"U8", DTYPE_U8},
        {"I8", DTYPE_I8},
        {"F8_E5M2", DTYPE_F8E5M2},
        {"F8_E4M3", DTYPE_F8E4M3},
        {"F8_E8M0", DTYPE_F8_E8M0},
        {"F8_E4M3FNUZ", DTYPE_F8_E4M3FNUZ},
        {"F8_E5M2FNUZ", DTYPE_F8_E5M2FNUZ},
        {"I16", DTYPE_I16},
        {"U16", DTYPE_U16},
        {"F16", DTYPE_F16},
        {"BF16", DTYPE_BF16},
        {"I32", DTYPE_I32},
        {"U32", DTYPE_U32},
        {"F32", DTYPE_F32},
        {"C64", DTYPE_C64},
        {"F64", DTYPE_F64},
        {"I64", DTYPE_I64},
        {"U64", DTYPE_U64},
};
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
		if (strlen(types[i].name) == len && !memcmp(types[i].name, name, len))
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

/* Where a tensor's bytes lie, counted from the header's end. */
struct range {
	uint64_t begin, end;
	const char *name;
};

/* A whole number that is not negative; -1: it is none. */
static int get_natural(const json_t *j, uint64_t *out)
{
	if (!json_is_integer(j) || json_integer_value(j) < 0)
		return -1;
	*out = (uint64_t)json_integer_value(j);
	return 0;
}

static int parse_dtype(const char *name, const json_t *j, struct tensor *t, struct err *err)
{
	if (!json_is_string(j))
		return err_set(err, ERR_INPUT, "tensor " NAME ": dtype is no string", name);
	t->dtype = safetensors_dtype_by_name(json_string_value(j), json_string_length(j));
	if (t->dtype == DTYPE_NONE)
		return err_set(err, ERR_INPUT,
		               "tensor " NAME
		               ": dtype '%.40s' is unknown: expected one such as F32 or BF16",
		               name, json_string_value(j));
	return 0;
}

/* The dimensions and their product; the bits, zero dimensions left aside, fit 64. */
static int parse_shape(const char *name, const json_t *j, uint64_t shape[ARRAY_MAX_DIMS],
                       struct tensor *t, struct err *err)
{
	uint64_t bits = dtype_bits(t->dtype);
	if (!json_is_array(j))
		return err_set(err, ERR_INPUT, "tensor " NAME ": shape is no array", name);
	if (json_array_size(j) > ARRAY_MAX_DIMS)
		return err_set(err, ERR_INPUT,
		               "tensor " NAME ": has %zu dimensions: the limit is %d", name,
		               json_array_size(j), ARRAY_MAX_DIMS);
	t->ndim = (int)json_array_size(j);
	t->shape = shape;
	t->count = 1;
	for (int i = 0; i < t->ndim; i++) {
		if (get_natural(json_array_get(j, (size_t)i), &shape[i]))
			return err_set(err, ERR_INPUT,
			               "tensor " NAME
			               ": dimension %d of the shape is no whole number from 0",
			               name, i);
		if (shape[i] && __builtin_mul_overflow(bits, shape[i], &bits))
			return err_set(err, ERR_INPUT, "tensor " NAME ": the shape is too large",
			               name);
		t->count *= shape[i];
	}
	return 0;
}

static int parse_offsets(const char *name, const json_t *j, struct range *r, struct err *err)
{
	if (!json_is_array(j) || json_array_size(j) != 2 ||
	    get_natural(json_array_get(j, 0), &r->begin) ||
	    get_natural(json_array_get(j, 1), &r->end))
		return err_set(err, ERR_INPUT,
		               "tensor " NAME ": data_offsets are not two whole numbers from 0",
		               name);
	if (r->end < r->begin)
		return err_set(err, ERR_INPUT,
		               "tensor " NAME ": data_offsets [%" PRIu64 ", %" PRIu64
		               "] end before they begin",
		               name, r->begin, r->end);
	r->name = name;
	return 0;
}

/* Are the bytes as many as type and shape say? */
static int check_bytes(struct tensor *t, const struct range *r, struct err *err)
{
	char shape[ARRAY_SHAPE_TEXT];
	uint64_t bits = t->count * dtype_bits(t->dtype);
	if (bits % 8)
		return err_set(err, ERR_INPUT,
		               "tensor " NAME ": %" PRIu64
		               " bits for %s of shape %s are no whole bytes",
		               t->name, bits, dtype_name(t->dtype), tensor_shape_text(t, shape));
	t->bytes = bits / 8;
	if (r->end - r->begin != t->bytes)
		return err_set(err, ERR_INPUT,
		               "tensor " NAME ": data_offsets [%" PRIu64 ", %" PRIu64
		               "] hold %" PRIu64 " bytes: expected %" PRIu64 " for %s of shape %s",
		               t->name, r->begin, r->end, r->end - r->begin, t->bytes,
		               dtype_name(t->dtype), tensor_shape_text(t, shape));
	return 0;
}

/* Exactly dtype, shape and data_offsets. */
static int check_keys(const char *name, json_t *entry, struct err *err)
{
	static const char *const keys[] = {"dtype", "shape", "data_offsets"};
	const char *key;
	json_t *value;
	if (!json_is_object(entry))
		return err_set(err, ERR_INPUT, "tensor " NAME ": its entry is no object", name);
	for (int i = 0; i < 3; i++)
		if (!json_object_get(entry, keys[i]))
			return err_set(err, ERR_INPUT, "tensor " NAME ": lacks the key '%s'", name,
			               keys[i]);
	json_object_foreach(entry, key, value) if (
	        strcmp(key, keys[0]) && strcmp(key, keys[1]) &&
	        strcmp(key, keys[2])) return err_set(err, ERR_INPUT,
	                                             "tensor " NAME
	                                             ": has the key '%.40s': expected 'dtype', "
	                                             "'shape' and 'data_offsets' only",
	                                             name, key);
	return 0;
}

static int parse_entry(const char *name, json_t *entry, uint64_t data, struct tensor *t,
                       uint64_t shape[ARRAY_MAX_DIMS], struct range *r, struct err *err)
{
	*t = (struct tensor){.name = name};
	if (check_keys(name, entry, err) ||
	    parse_dtype(name, json_object_get(entry, "dtype"), t, err) ||
	    parse_shape(name, json_object_get(entry, "shape"), shape, t, err) ||
	    parse_offsets(name, json_object_get(entry, "data_offsets"), r, err) ||
	    check_bytes(t, r, err))
		return -1;
	t->offset = data + r->begin;
	return 0;
}

static int by_range(const void *a, const void *b)
{
	const struct range *x = a, *y = b;
	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	return x->end < y->end ? -1 : x->end > y->end;
}

/* Do the tensors fill @bytes without a hole and without an overlap? */
static int check_ranges(struct range *r, size_t n, uint64_t bytes, struct err *err)
{
	uint64_t end = 0;
	if (n > 1)
		qsort(r, n, sizeof *r, by_range);
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

/* ---- JSON text, as the reference library writes it ---- */

static void put_text(struct buf *b, const char *text)
{
	buf_put(b, text, strlen(text));
}

static void put_string(struct buf *b, const char *s)
{
	static const char named[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
	char escaped[8];
	put_text(b, "\"");
	while (*s) {
		size_t plain = 0;
		while ((unsigned char)s[plain] >= 0x20 && s[plain] != '"' && s[plain] != '\\')
			plain++;
		buf_put(b, s, plain);
		s += plain;
		if (!*s)
			break;
		const char *at = strchr(named, *s);
		if (at)
			snprintf(escaped, sizeof escaped, "\\%c", letters[at - named]);
		else
			snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned char)*s);
		put_text(b, escaped);
		s++;
	}
	put_text(b, "\"");
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int put_sorted(struct buf *b, json_t *object, const char **keys)
{
	const char *key;
	json_t *value;
	size_t n = 0;
	json_object_foreach(object, key, value) keys[n++] = key;
	if (n > 1)
		qsort(keys, n, sizeof *keys, by_text);
	put_text(b, "{");
	for (size_t i = 0; i < n; i++) {
		put_text(b, i ? "," : "");
		put_string(b, keys[i]);
		put_text(b, ":");
		put_string(b, json_string_value(json_object_get(object, keys[i])));
	}
	put_text(b, "}");
	buf_put_u8(b, 0);
	return b->failed ? -1 : 0;
}

static int parse_metadata(json_t *object, char **out, struct err *err)
{
	struct buf b;
	const char *key;
	json_t *value;
	if (!json_is_object(object))
		return err_set(err, ERR_INPUT, "__metadata__ is no object");
	json_object_foreach(object, key, value) if (!json_is_string(value)) return err_set(
	        err, ERR_INPUT, "__metadata__: '%.200s' is no string", key);
	const char **keys = calloc(json_object_size(object) + 1, sizeof *keys);
	/* What came as JSON may be longer by its escapes, but no more than six times. */
	buf_init(&b, 6ull * SAFETENSORS_HEADER_MAX);
	int ret = keys ? put_sorted(&b, object, keys) : -1;
	free(keys);
	if (ret) {
		buf_release(&b);
		return err_nomem(err, "__metadata__", b.max);
	}
	*out = (char *)b.data;
	return 0;
}

/* ---- the whole ---- */

struct header {
	json_t *root;
	uint64_t data; /* where the header ends */
	uint64_t file_size;
	struct range *ranges;
};

static int parse_entries(const struct header *h,
                         int (*tensor)(void *ctx, const struct tensor *, struct err *), void *ctx,
                         char **metadata, struct err *err)
{
	const char *name;
	json_t *entry;
	uint64_t shape[ARRAY_MAX_DIMS];
	struct tensor t;
	size_t n = 0;
	json_object_foreach(h->root, name, entry)
	{
		if (strcmp(name, "__metadata__") == 0) {
			if (parse_metadata(entry, metadata, err))
				return -1;
			continue;
		}
		if (parse_entry(name, entry, h->data, &t, shape, &h->ranges[n++], err) ||
		    tensor(ctx, &t, err))
			return -1;
	}
	return check_ranges(h->ranges, n, h->file_size - h->data, err);
}

int safetensors_parse(const char *json, size_t len, uint64_t file_size,
                      int (*tensor)(void *ctx, const struct tensor *, struct err *), void *ctx,
                      char **metadata, struct err *err)
{
	json_error_t where;
	struct header h = {.data = SAFETENSORS_PREFIX + len, .file_size = file_size};
	*metadata = NULL;
	if (file_size < SAFETENSORS_PREFIX || len > file_size - SAFETENSORS_PREFIX)
		return err_set(err, ERR_INPUT, "the file ends inside its header");
	if (!len || json[0] != '{')
		return err_set(err, ERR_INPUT,
		               "is not a .safetensors file: its header does not begin with '{'");
	h.root = json_loadb(json, len, JSON_REJECT_DUPLICATES, &where);
	if (!h.root)
		return err_set(err, ERR_INPUT, "the header is not right JSON: byte %d: %s",
		               where.position, where.text);
	h.ranges = calloc(json_object_size(h.root) + 1, sizeof *h.ranges);
	int ret = h.ranges ? parse_entries(&h, tensor, ctx, metadata, err)
	                   : err_nomem(err, "the tensors", json_object_size(h.root));
	free(h.ranges);
	json_decref(h.root);
	if (ret) {
		free(*metadata);
		*metadata = NULL;
	}
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
	char text[64];
	put_string(b, t->name);
	snprintf(text, sizeof text, ":{\"dtype\":\"%s\",\"shape\":[",
	         safetensors_dtype_name(t->dtype));
	put_text(b, text);
	for (int i = 0; i < t->ndim; i++) {
		snprintf(text, sizeof text, "%s%" PRIu64, i ? "," : "", t->shape[i]);
		put_text(b, text);
	}
	snprintf(text, sizeof text, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin,
	         begin + t->bytes);
	put_text(b, text);
}

/* offsets[] from the data's beginning, and the data's bytes. */
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
	put_text(b, "{");
	if (metadata) {
		put_text(b, "\"__metadata__\":");
		put_text(b, metadata);
	}
	for (size_t i = 0; i < n; i++) {
		put_text(b, i || metadata ? "," : "");
		put_entry(b, tensors[i], offsets[i]);
	}
	put_text(b, "}");
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
	if (n > 1)
		qsort(tensors, n, sizeof *tensors, by_place);
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
