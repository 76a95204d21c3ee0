/*
 * libFuzzer over pickles of torch.save: what is accepted has tensors that lie in their storages,
 * and names that are text.
 */
#include <string.h>

#include "lib/base/text.h"
#include "lib/data/torch/torch_values.h"
#include "tests/fuzz/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int tensor(void *ctx, const char *name, const struct torch_tensor *t, struct err *err)
{
	size_t *n = ctx;
	uint64_t end = t->offset + 1, count = 1;
	(void)err;
	++*n;
	for (size_t i = 0, len; name[i]; i += len) {
		uint32_t c;
		len = text_char(name + i, &c);
		CHECK(len > 0);
	}
	CHECK(dtype_size(t->dtype) > 0);
	for (int i = 0; i < t->ndim; i++)
		count *= t->shape[i];
	CHECK(count == t->count);
	for (int i = 0; t->piece && i < t->ndim; i++)
		CHECK(t->first[i] <= t->whole[i] && t->shape[i] <= t->whole[i] - t->first[i]);
	for (int i = 0; count && i < t->ndim; i++)
		end += (t->shape[i] - 1) * t->stride[i];
	CHECK(!count || end * dtype_size(t->dtype) <= t->storage_bytes);
	return 0;
}

static int other(void *ctx, const char *name, const struct pickle_value *v, struct err *err)
{
	(void)ctx;
	(void)err;
	CHECK(strlen(name) < TORCH_NAME_MAX);
	CHECK(v->kind != PICKLE_DICT && v->kind != PICKLE_LIST && v->kind != PICKLE_TUPLE);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t tensors = 0;
	const struct torch_visitor visitor = {
	        .pieces = true, .tensor = tensor, .other = other, .ctx = &tensors};
	struct pickle p;
	struct err err = ERR_INIT;
	if (pickle_read(&p, data, size, torch_permits, &err)) {
		CHECK(err.code == ERR_INPUT && err.text[0]);
		return 0;
	}
	if (torch_visit(p.root, size, &visitor, &err))
		CHECK(err.code == ERR_INPUT && err.text[0]);
	pickle_release(&p);
	return 0;
}
