/*
 * The header of .safetensors files: the files of the reference library are read, and written as it
 * wrote them (COLLCTL_GOLDEN names another folder of such files); every rule of the format has a
 * header that breaks it.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/data/formats/safetensors.h"
#include "tests/unit/unit.h"

/* ---- what a header holds ---- */

struct table {
	struct tensor *v;
	size_t n;
};

static int add(void *ctx, const struct tensor *t, struct err *err)
{
	struct table *table = ctx;
	(void)err;
	table->v = reallocarray(table->v, table->n + 1, sizeof *table->v);
	struct tensor *n = &table->v[table->n++];
	uint64_t *shape = calloc((size_t)t->ndim + 1, sizeof *shape);
	for (int i = 0; i < t->ndim; i++)
		shape[i] = t->shape[i];
	*n = *t;
	n->name = strdup(t->name);
	n->shape = shape;
	return 0;
}

static void release(struct table *table)
{
	for (size_t i = 0; i < table->n; i++) {
		free((void *)(uintptr_t)table->v[i].name);
		free((void *)(uintptr_t)table->v[i].shape);
	}
	free(table->v);
	*table = (struct table){0};
}

/* ---- files of the reference library ---- */

static uint8_t *read_file(const char *path, size_t *len)
{
	FILE *f = fopen(path, "rb");
	uint8_t *data;
	assert_non_null(f);
	assert_int_equal(fseek(f, 0, SEEK_END), 0);
	*len = (size_t)ftell(f);
	rewind(f);
	data = malloc(*len + 1);
	assert_int_equal(fread(data, 1, *len, f), *len);
	fclose(f);
	return data;
}

/* Where each tensor was found is where it would be put. */
static void assert_laid_out(const struct table *table, const char *metadata, const uint8_t *file,
                            size_t file_len, size_t head_file)
{
	const struct tensor **tensors = calloc(table->n + 1, sizeof *tensors);
	uint64_t *offsets = calloc(table->n + 1, sizeof *offsets), size;
	struct err err = {0};
	char *head;
	size_t len;
	for (size_t i = 0; i < table->n; i++)
		tensors[i] = &table->v[table->n - 1 - i];
	if (safetensors_lay_out(tensors, table->n, metadata, &head, &len, offsets, &size, &err))
		fail_msg("%s", err.text);
	assert_int_equal(len, head_file);
	assert_memory_equal(head, file, len);
	assert_int_equal(size, file_len);
	for (size_t i = 0; i < table->n; i++)
		assert_int_equal(offsets[i], tensors[i]->offset);
	free(head);
	free(tensors);
	free(offsets);
}

static void assert_as_reference(const char *path)
{
	struct table table = {0};
	struct err err = {0};
	size_t file_len, len;
	char *metadata = NULL;
	uint8_t *file = read_file(path, &file_len);
	if (safetensors_header_len(file, file_len, &len, &err) ||
	    safetensors_parse((char *)file + 8, len, file_len, add, &table, &metadata, &err))
		fail_msg("%s: %s", path, err.text);
	free(file);
	file = read_file(path, &file_len); /* what was parsed is overwritten */
	assert_laid_out(&table, metadata, file, file_len, 8 + len);
	release(&table);
	free(metadata);
	free(file);
}

TEST(test_reference)
{
	const char *folder = getenv("COLLCTL_GOLDEN");
	char path[4096];
	int files = 0;
	if (!folder)
		folder = "tests/golden";
	DIR *dir = opendir(folder);
	if (!dir)
		fail_msg("%s: cannot list: run it in the repository's root", folder);
	for (struct dirent *e; (e = readdir(dir));) {
		if (!strstr(e->d_name, ".safetensors"))
			continue;
		snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
		assert_as_reference(path);
		files++;
	}
	closedir(dir);
	assert_true(files >= 3);
}

/* ---- headers that are right ---- */

static void parse_right(const char *json, uint64_t data, struct table *table, char **metadata)
{
	struct err err = {0};
	char *text = strdup(json);
	if (safetensors_parse(text, strlen(json), 8 + strlen(json) + data, add, table, metadata,
	                      &err))
		fail_msg("%s: %s", json, err.text);
	free(text);
}

TEST(test_tensors)
{
	struct table table = {0};
	char *metadata, shape[ARRAY_SHAPE_TEXT];
	const char json[] =
	        "{ \"b\" : {\"shape\":[2,3], \"data_offsets\":[4,28],\"dtype\":\"F32\"},\n"
	        "\"\\u00fc\":{\"dtype\":\"F4\",\"shape\":[2,4],\"data_offsets\":[0,4]},"
	        "\"empty\":{\"dtype\":\"I64\",\"shape\":[0,9],\"data_offsets\":[4,4]},"
	        "\"last\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[28,29]}}   ";
	parse_right(json, 29, &table, &metadata);
	assert_null(metadata);
	assert_int_equal(table.n, 4);
	static const struct {
		const char *name, *shape;
		enum dtype dtype;
		uint64_t at, bytes, count;
	} want[] = {
	        {"b", "(2, 3)", DTYPE_F32, 4, 24, 6},
	        {"\xc3\xbc", "(2, 4)", DTYPE_F4, 0, 4, 8},
	        {"empty", "(0, 9)", DTYPE_I64, 4, 0, 0},
	        {"last", "()", DTYPE_U8, 28, 1, 1},
	};
	for (size_t i = 0; i < 4; i++) {
		const struct tensor *t = &table.v[i];
		assert_string_equal(t->name, want[i].name);
		assert_string_equal(tensor_shape_text(t, shape), want[i].shape);
		assert_int_equal(t->dtype, want[i].dtype);
		assert_int_equal(t->offset, 8 + strlen(json) + want[i].at);
		assert_int_equal(t->bytes, want[i].bytes);
		assert_int_equal(t->count, want[i].count);
		assert_false(t->swapped || t->fortran);
	}
	release(&table);
}

TEST(test_metadata)
{
	static const struct {
		const char *json, *metadata;
	} rows[] = {
	        {"{}", NULL},
	        {"{\"__metadata__\":{}}", "{}"},
	        {"{\"__metadata__\" : { \"z\": \"1\", \"a\" : \"\" } }",
	         "{\"a\":\"\",\"z\":\"1\"}"},
	        {"{\"__metadata__\":{\"\\u00fc\\n\":\"\\\"\\\\\\/\\u0007\\u007f\"}}",
	         "{\"\xc3\xbc\\n\":\"\\\"\\\\/\\u0007\x7f\"}"},
	        {"{\"__metadata__\":{\"ab\\u0063\xc3\xbc"
	         "de\":\"f\\\\g\xc3\xbc\"}}",
	         "{\"abc\xc3\xbc"
	         "de\":\"f\\\\g\xc3\xbc\"}"},
	};
	for (size_t i = 0; i < LENGTH(rows); i++) {
		struct table table = {0};
		char *metadata;
		parse_right(rows[i].json, 0, &table, &metadata);
		assert_int_equal(table.n, 0);
		if (rows[i].metadata)
			assert_string_equal(metadata, rows[i].metadata);
		else
			assert_null(metadata);
		free(metadata);
	}
}

TEST(test_dtypes)
{
	int named = 0;
	for (int t = 0; t < DTYPES; t++) {
		const char *name = safetensors_dtype_name((enum dtype)t);
		named += name != NULL;
		if (name)
			assert_int_equal(safetensors_dtype_by_name(name, strlen(name)), t);
	}
	assert_int_equal(named, 22);
	assert_null(safetensors_dtype_name(DTYPE_C128));
	assert_null(safetensors_dtype_name(DTYPE_I128));
	assert_int_equal(safetensors_dtype_by_name("F32x", 3), DTYPE_F32);
	assert_int_equal(safetensors_dtype_by_name("F32", 2), DTYPE_NONE);
	assert_int_equal(safetensors_dtype_by_name("f32", 3), DTYPE_NONE);
	assert_int_equal(safetensors_dtype_by_name("", 0), DTYPE_NONE);
}

/* ---- headers that are wrong ---- */

static void assert_refused(const char *json, size_t len, uint64_t file_size, const char *words)
{
	struct table table = {0};
	struct err err = {0};
	char *metadata = (char *)1, *text = malloc(len + 1);
	memcpy(text, json, len);
	assert_int_equal(safetensors_parse(text, len, file_size, add, &table, &metadata, &err), -1);
	if (!strstr(err.text, words))
		fail_msg("%s: '%s' lacks '%s'", json, err.text, words);
	assert_int_equal(err.code, ERR_INPUT);
	assert_null(metadata);
	release(&table);
	free(text);
}

#define ENTRY(dtype, shape, offsets) \
	"\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets
#define A(entry) "{\"a\":{" entry "}}"

static const struct {
	const char *json;
	uint64_t data;
	const char *words;
} wrong[] = {
        {"", 0, "does not begin with '{'"},
        {" {}", 0, "does not begin with '{'"},
        {"[]", 0, "does not begin with '{'"},
        {"{", 0, "is not valid JSON"},
        {"{}x", 0, "is not valid JSON"},
        {"{\"a\xff\":1}", 0, "is not valid JSON"},
        {"{\"a\xc0\x80\":1}", 0, "is not valid JSON"},
        {"{\"a\xed\xa0\x80\":1}", 0, "is not valid JSON"},
        {"{\"a\\u0000\":1}", 0, "is not valid JSON"},
        {"{\"a\\ud800\":1}", 0, "is not valid JSON"},
        {"{\"a\":{" ENTRY("\"U8\"", "[]", "[0,1]") "},\"a\":{" ENTRY("\"U8\"", "[]", "[1,2]") "}}",
         2, "tensor 'a' appears twice"},
        {"{\"a\":{" ENTRY("\"U8\"", "[]", "[0,1]") "},\"\\u0061\":{" ENTRY("\"U8\"", "[]",
                                                                           "[1,2]") "}}",
         2, "tensor 'a' appears twice"},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "__metadata__ appears twice"},
        {"{\"a\" {}}", 0, "the header is not valid JSON: byte 5 is '{': expected ':'"},
        {"{\"a\"}", 0, "byte 4 is '}': expected ':'"},
        {"{\"__metadata__\":{\"a\":\"\n\"}}", 0, "byte 22 is \\x0a: expected UTF-8 text"},
        {"{\"__metadata__\":{\"a\":\"", 0, "it ends at byte 22: expected a closing quote"},
        {"{\"__metadata__\":{\"a\":\"1\",}}", 0, "is '}': expected a string"},
        {"{\"__metadata__\":{\"a\":\"1\" \"b\":\"1\"}}", 0, "expected ',' or '}'"},
        {"{\"a\\x\":1}", 0, "expected an escaped character"},
        {"{\"a\\ud800\\u0041\":1}", 0, "expected the second half"},
        {"{\"a\\udc00\":1}", 0, "expected an escaped character"},
        {"{\"a\\u00g0\":1}", 0, "expected an escaped character"},
        {"{\"a\xf4\x90\x80\x80\":1}", 0, "is not valid JSON"},
        {"{\"a\xe0\x80\x80\":1}", 0, "is not valid JSON"},
        {"{\"a\xe2\x82\":1}", 0, "is not valid JSON"},
        {A(ENTRY("\"U8\"", "[01]", "[0,1]")), 1, "dimension 0 of the shape"},
        {A(ENTRY("\"U8\"", "[1e0]", "[0,1]")), 1, "dimension 0 of the shape"},
        {A(ENTRY("\"U8\"", "[1,]", "[0,1]")), 1, "dimension 1 of the shape"},
        {A(ENTRY("\"U8\"", "[1 1]", "[0,1]")), 1, "expected ',' or ']'"},
        {A("\"dtype\":\"U8\"," ENTRY("\"U8\"", "[]", "[0,1]")), 1,
         "tensor 'a': has the key 'dtype' twice"},
        {"{\"__metadata__\":{\"a\":\"1\",\"a\":\"1\"}}", 0, "__metadata__: 'a' appears twice"},
        {"{\"__metadata__\":[]}", 0, "__metadata__ is not an object"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "__metadata__: 'a' is not a string"},
        {"{\"a\":1}", 0, "tensor 'a': its entry is not an object"},
        {"{\"a\":[]}", 0, "tensor 'a': its entry is not an object"},
        {A("\"shape\":[],\"data_offsets\":[0,1]"), 1, "tensor 'a': lacks the key 'dtype'"},
        {A("\"dtype\":\"U8\",\"data_offsets\":[0,1]"), 1, "lacks the key 'shape'"},
        {A("\"dtype\":\"U8\",\"shape\":[]"), 1, "lacks the key 'data_offsets'"},
        {A(ENTRY("\"U8\"", "[]", "[0,1]") ",\"x\":1"), 1, "tensor 'a': has the key 'x'"},
        {A(ENTRY("8", "[]", "[0,1]")), 1, "tensor 'a': dtype is not a string"},
        {A(ENTRY("\"f32\"", "[]", "[0,4]")), 4, "tensor 'a': dtype 'f32' is unknown"},
        {A(ENTRY("\"C128\"", "[]", "[0,16]")), 16, "tensor 'a': dtype 'C128' is unknown"},
        {A(ENTRY("\"U8\"", "3", "[0,3]")), 3, "tensor 'a': shape is not an array"},
        {A(ENTRY("\"U8\"", "[-1]", "[0,1]")), 1, "dimension 0 of the shape"},
        {A(ENTRY("\"U8\"", "[1,1.0]", "[0,1]")), 1, "dimension 1 of the shape"},
        {A(ENTRY("\"U8\"", "[true]", "[0,1]")), 1, "not an integer from 0"},
        {A(ENTRY("\"U8\"", "[\"1\"]", "[0,1]")), 1, "not an integer from 0"},
        {A(ENTRY("\"U8\"", "[18446744073709551616]", "[0,1]")), 1,
         "not an integer from 0 to 2^64 - 1"},
        {A(ENTRY("\"U8\"", "[4294967296,4294967296]", "[0,1]")), 1, "the shape is too large"},
        {A(ENTRY("\"F64\"", "[4611686018427387904]", "[0,0]")), 0, "the shape is too large"},
        {A(ENTRY("\"U8\"", "[0,4294967296,4294967296]", "[0,0]")), 0, "the shape is too large"},
        {A(ENTRY("\"U8\"", "[1]", "3")), 1, "data_offsets are not two integers"},
        {A(ENTRY("\"U8\"", "[1]", "[1]")), 1, "data_offsets are not two integers"},
        {A(ENTRY("\"U8\"", "[1]", "[0,1,2]")), 1, "data_offsets are not two integers"},
        {A(ENTRY("\"U8\"", "[1]", "[-1,0]")), 1, "data_offsets are not two integers"},
        {A(ENTRY("\"U8\"", "[1]", "[0,1.5]")), 1, "data_offsets are not two integers"},
        {A(ENTRY("\"U8\"", "[1]", "[1,0]")), 1, "data_offsets [1, 0] end before they begin"},
        {A(ENTRY("\"F32\"", "[3]", "[0,16]")), 16,
         "tensor 'a': data_offsets [0, 16] hold 16 bytes: expected 12 for f32 of shape (3,)"},
        {A(ENTRY("\"F4\"", "[3]", "[0,2]")), 2,
         "tensor 'a': 12 bits for f4 of shape (3,) are not a whole number of bytes"},
        {A(ENTRY("\"F6_E2M3\"", "[2]", "[0,2]")), 2, "12 bits for f6e2m3"},
        {A(ENTRY("\"U8\"", "[1]", "[1,2]")), 2,
         "tensor 'a': data_offsets [1, 2] leave a hole: expected them to begin at 0"},
        {"{\"a\":{" ENTRY("\"U8\"", "[2]", "[0,2]") "},\"b\":{" ENTRY("\"U8\"", "[2]",
                                                                      "[3,5]") "}}",
         5, "tensor 'b': data_offsets [3, 5] leave a hole: expected them to begin at 2"},
        {"{\"b\":{" ENTRY("\"U8\"", "[2]", "[1,3]") "},\"a\":{" ENTRY("\"U8\"", "[2]",
                                                                      "[0,2]") "}}",
         3,
         "tensor 'b': data_offsets [1, 3] overlap another tensor's: expected them to begin at 2"},
        {"{\"b\":{" ENTRY("\"U8\"", "[2]", "[0,2]") "},\"a\":{" ENTRY("\"U8\"", "[2]",
                                                                      "[0,2]") "}}",
         2, "data_offsets [0, 2] overlap"},
        {A(ENTRY("\"U8\"", "[2]", "[0,2]")), 3, "has 3 bytes of data: expected 2"},
        {A(ENTRY("\"U8\"", "[2]", "[0,2]")), 1, "has 1 bytes of data: expected 2"},
        {"{}", 1, "has 1 bytes of data: expected 0"},
};

TEST(test_wrong)
{
	for (size_t i = 0; i < LENGTH(wrong); i++) {
		size_t len = strlen(wrong[i].json);
		assert_refused(wrong[i].json, len, 8 + len + wrong[i].data, wrong[i].words);
	}
	assert_refused("{}", 2, 9, "ends inside its header");
	assert_refused("{}", 2, 0, "ends inside its header");
	assert_refused("{}\0", 3, 11, "is not valid JSON");
}

TEST(test_many_dimensions)
{
	for (int ndim = ARRAY_MAX_DIMS; ndim <= ARRAY_MAX_DIMS + 1; ndim++) {
		struct table table = {0};
		char json[512] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[1", *metadata;
		for (int i = 1; i < ndim; i++)
			strcat(json, ",1");
		strcat(json, "],\"data_offsets\":[0,1]}}");
		if (ndim <= ARRAY_MAX_DIMS)
			parse_right(json, 1, &table, &metadata);
		else
			assert_refused(json, strlen(json), 9 + strlen(json),
			               "tensor 'a': has more than 64 dimensions");
		release(&table);
	}
}

TEST(test_length)
{
	static const struct {
		uint64_t n, file_size;
		const char *words;
	} rows[] = {
	        {2, 10, NULL},
	        {100000000, 100000008, NULL},
	        {0, 7, "7 bytes are too few"},
	        {0, 0, "0 bytes are too few"},
	        {3, 10, "found 10 bytes, expected at least 11"},
	        {100000001, 1ull << 40, "has 100000001 bytes: the limit is 100000000"},
	        {UINT64_MAX, UINT64_MAX, "the limit is 100000000"},
	};
	for (size_t i = 0; i < LENGTH(rows); i++) {
		struct err err = {0};
		uint8_t prefix[8];
		size_t len = 0;
		put_u64(prefix, rows[i].n);
		int ret = safetensors_header_len(prefix, rows[i].file_size, &len, &err);
		assert_int_equal(ret, rows[i].words ? -1 : 0);
		if (!rows[i].words)
			assert_int_equal(len, rows[i].n);
		else if (!strstr(err.text, rows[i].words))
			fail_msg("'%s' lacks '%s'", err.text, rows[i].words);
	}
}

/* What no file of the kind can hold. */
TEST(test_not_laid_out)
{
	const uint64_t shape[] = {1};
	struct tensor t = {
	        .name = "a", .dtype = DTYPE_C128, .ndim = 1, .shape = shape, .bytes = 16};
	const struct tensor *tensors[] = {&t, &t};
	struct err err = {0};
	uint64_t offsets[2], size;
	size_t len;
	char *head;
	assert_int_equal(safetensors_lay_out(tensors, 1, NULL, &head, &len, offsets, &size, &err),
	                 -1);
	assert_string_equal(err.text, "tensor 'a': .safetensors has no type for c128");
	t.dtype = DTYPE_U8;
	t.bytes = INT64_MAX / 2;
	err_clear(&err);
	assert_int_equal(safetensors_lay_out(tensors, 2, NULL, &head, &len, offsets, &size, &err),
	                 -1);
	assert_int_equal(err.code, ERR_OUTPUT);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
