/*
 * libFuzzer over the .npy header. The first byte says whether the file is as long as its header
 * says, and the type that "|V2" and "|V1" are; the rest is the file. Whatever parses must keep its
 * promises, and what is written of it must parse to the same.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/data/formats/array.h"
#include "tests/fuzz/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void round_trip(const struct array_info *info)
{
	char buf[ARRAY_HEADER_MAX];
	struct array_info back;
	struct err err = {0};
	size_t need;
	long n = info->format->header(info, buf, sizeof buf);
	CHECK(n > 0 && n % 64 == 0);
	CHECK(!npy_parse(buf, (size_t)n, (uint64_t)n + array_bytes(info), info->dtype, &back, &need,
	                 &err));
	CHECK(array_same(info, &back) && back.count == info->count);
	CHECK(back.fortran == info->fortran && !back.swapped);
	CHECK(back.offset == (uint64_t)n);
}

static int parse(const uint8_t *data, size_t size, uint64_t file_size, enum dtype hint,
                 struct array_info *info, struct err *err)
{
	size_t need = 0;
	int r = npy_parse(data, size, file_size, hint, info, &need, err);
	CHECK(need <= ARRAY_HEADER_MAX);
	CHECK(r != 1 || (need > size && need <= file_size));
	CHECK((r < 0) == (err->code != 0));
	CHECK(r >= 0 || (err->code == ERR_INPUT && err->text[0]));
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct array_info info;
	struct err err = {0};
	if (!size)
		return 0;
	static const enum dtype hints[] = {DTYPE_NONE, DTYPE_BF16, DTYPE_F8E4M3, DTYPE_F8E5M2};
	enum dtype hint = hints[(data[0] & 1) | (data[0] >> 1 & 2)];
	bool whole = data[0] & 2;
	data++;
	size--;
	/* A size that no file here has, so that most inputs fail there alone: take theirs. */
	uint64_t file_size = whole ? size : (uint64_t)1 << 62;
	int r = parse(data, size, file_size, hint, &info, &err);
	if (r < 0 && !whole && !strncmp(err.text, "has ", 4)) {
		file_size = info.offset + array_bytes(&info);
		err_clear(&err);
		r = parse(data, size, file_size, hint, &info, &err);
		CHECK(r == 0);
	}
	if (r)
		return 0;
	CHECK(info.offset <= size && info.offset + array_bytes(&info) == file_size);
	CHECK(info.ndim <= ARRAY_MAX_DIMS && info.dtype > DTYPE_NONE && info.dtype < DTYPES);
	round_trip(&info);
	return 0;
}
