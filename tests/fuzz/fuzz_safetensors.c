/*
 * libFuzzer over the JSON of a .safetensors header. The file is as long as its tensors say, unless
 * they say nothing. Whatever parses must keep the rules, and what is written of it must parse to
 * the same and be written the same again. What is JSON, jansson knows.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "lib/data/formats/safetensors.h"
#include "tests/fuzz/check.h"

#define NOT_JSON "the header is not valid JSON"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct table {
	struct tensor *v;
	size_t n;
	uint64_t begin, bytes; /* of the data */
};

static int add(void *ctx, const struct tensor *t, struct err *err)
{
	struct table *table = ctx;
	uint64_t *shape = calloc((size_t)t->ndim + 1, sizeof *shape);
	(void)err;
	CHECK(t->ndim >= 0 && t->ndim <= ARRAY_MAX_DIMS && safetensors_dtype_name(t->dtype));
	CHECK(t->count * dtype_bits(t->dtype) == t->bytes * 8);
	CHECK(t->offset >= table->begin);
	table->v = reallocarray(table->v, table->n + 1, sizeof *table->v);
	for (int i = 0; i < t->ndim; i++)
		shape[i] = t->shape[i];
	struct tensor *n = &table->v[table->n++];
	*n = *t;
	n->name = strdup(t->name);
	n->shape = shape;
	table->bytes += t->bytes;
	return 0;
}

static void release(struct table *table)
{
	for (size_t i = 0; i < table->n; i++) {
		free((void *)(uintptr_t)table->v[i].name);
		free((void *)(uintptr_t)table->v[i].shape);
	}
	free(table->v);
}

static int parse(const char *json, size_t len, uint64_t bytes, struct table *table, char **metadata,
                 struct err *err)
{
	*table = (struct table){.begin = 8 + len};
	*err = (struct err){0};
	char *text = malloc(len + 1);
	memcpy(text, json, len);
	int ret = safetensors_parse(text, len, 8 + len + bytes, add, table, metadata, err);
	free(text);
	CHECK((ret < 0) == (err->code != 0));
	CHECK(ret == 0 || (err->code == ERR_INPUT && err->text[0] && !*metadata));
	CHECK(ret < 0 || table->bytes == bytes);
	return ret;
}

static int by_offset(const void *a, const void *b)
{
	const struct tensor *x = a, *y = b;
	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static void check_filled(struct table *table)
{
	uint64_t end = table->begin;
	if (table->n > 1)
		qsort(table->v, table->n, sizeof *table->v, by_offset);
	for (size_t i = 0; i < table->n; i++) {
		CHECK(table->v[i].offset == end);
		end += table->v[i].bytes;
	}
}

/* Lay out @table; NULL: it can't be. */
static char *lay_out(const struct table *table, const char *metadata, size_t *len)
{
	const struct tensor **tensors = calloc(table->n + 1, sizeof *tensors);
	uint64_t *offsets = calloc(table->n + 1, sizeof *offsets), size;
	struct err err = {0};
	char *head = NULL;
	for (size_t i = 0; i < table->n; i++)
		tensors[i] = &table->v[i];
	int ret =
	        safetensors_lay_out(tensors, table->n, metadata, &head, len, offsets, &size, &err);
	CHECK((ret < 0) == (err.code != 0));
	if (ret == 0) {
		CHECK(*len % 8 == 0 && size == *len + table->bytes);
		for (size_t i = 0; i < table->n; i++)
			CHECK(offsets[i] >= *len && offsets[i] + tensors[i]->bytes <= size);
	}
	free(tensors);
	free(offsets);
	return ret ? NULL : head;
}

static void round_trip(const struct table *table, const char *metadata)
{
	struct table back;
	struct err err;
	size_t len, len2;
	char *again, *head = lay_out(table, metadata, &len), *metadata2;
	if (!head)
		return;
	CHECK(!parse(head + 8, len - 8, table->bytes, &back, &metadata2, &err));
	CHECK(back.n == table->n && !metadata == !metadata2);
	CHECK(!metadata || !strcmp(metadata, metadata2));
	again = lay_out(&back, metadata2, &len2);
	CHECK(again && len == len2 && !memcmp(head, again, len));
	release(&back);
	free(metadata2);
	free(again);
	free(head);
}

/* jansson overlooks a zero byte behind a number. */
static void ask_jansson(const char *json, size_t len, int ret, const struct err *err)
{
	json_t *tree = json_loadb(json, len, JSON_REJECT_DUPLICATES, NULL);
	CHECK(ret || tree);
	CHECK(!tree || memchr(json, 0, len) || strncmp(err->text, NOT_JSON, strlen(NOT_JSON)) != 0);
	json_decref(tree);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct table table;
	struct err err;
	char *metadata;
	uint64_t bytes;
	int ret = parse((const char *)data, size, 0, &table, &metadata, &err);
	if (ret && sscanf(err.text, "has 0 bytes of data: expected %" SCNu64, &bytes) == 1) {
		release(&table);
		ret = parse((const char *)data, size, bytes, &table, &metadata, &err);
		CHECK(ret == 0);
	}
	ask_jansson((const char *)data, size, ret, &err);
	if (ret == 0) {
		check_filled(&table);
		round_trip(&table, metadata);
	}
	release(&table);
	free(metadata);
	return 0;
}
