/* libFuzzer over a sharded set's index. What parses is sorted, found, and names no other folder.
 * What is JSON, jansson knows. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "lib/data/formats/shard_index.h"
#include "tests/fuzz/check.h"

#define NOT_JSON "the index is not valid JSON"
#define TOO_DEEP "expected fewer levels"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

/* jansson overlooks a zero byte behind a number. */
static void check_refused(const char *json, size_t len, const struct err *err)
{
	CHECK(err->code == ERR_INPUT && err->text[0]);
	size_t n = strlen(err->text), deep = strlen(TOO_DEEP);
	if (memchr(json, 0, len) || strncmp(err->text, NOT_JSON, strlen(NOT_JSON)) != 0 ||
	    (n > deep && strcmp(err->text + n - deep, TOO_DEEP) == 0))
		return;
	CHECK(!json_loadb(json, len, 0, NULL));
}

static void check_index(const struct shard_index *x)
{
	CHECK(x->nentries > 0 && x->nfiles > 0 && (size_t)x->nfiles <= x->nentries);
	for (int i = 0; i < x->nfiles; i++) {
		CHECK(x->files[i][0] && x->files[i][0] != '.' && !strchr(x->files[i], '/'));
		CHECK(!i || strcmp(x->files[i - 1], x->files[i]) < 0);
	}
	for (size_t i = 0; i < x->nentries; i++) {
		CHECK(!i || strcmp(x->entries[i - 1].tensor, x->entries[i].tensor) < 0);
		CHECK(x->entries[i].file >= 0 && x->entries[i].file < x->nfiles);
		CHECK(shard_index_find(x, x->entries[i].tensor) == &x->entries[i]);
	}
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	struct shard_index x;
	struct err err = {0};
	char *text = malloc(size + 1);
	memcpy(text, data, size);
	int ret = shard_index_parse(&x, text, size, &err);
	CHECK((ret < 0) == (err.code != 0));
	if (ret) {
		check_refused((const char *)data, size, &err);
	} else {
		check_index(&x);
		shard_index_release(&x);
	}
	free(text);
	return 0;
}
