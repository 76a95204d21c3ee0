/*
 * Coded pieces. The first byte says what the rest is: a coded piece, with or without a base and
 * zstd; or a piece and its base, which are coded with a width and decoded again. What decodes is
 * coded again, and must come back.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/data/coding/coder.h"
#include "tests/fuzz/check.h"

#define LARGEST 65536 /* of a piece here */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static struct coder *coders[2];
static uint8_t pattern[LARGEST];

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	for (int i = 0; i < 2; i++)
		CHECK(coders[i] = coder_new(i, NULL));
	for (size_t i = 0; i < LARGEST; i++)
		pattern[i] = (uint8_t)(i / 8);
	return 0;
}

/* Memory of just this length, behind which a sanitizer sees each access. */
static uint8_t *memory(size_t n)
{
	uint8_t *p = malloc(n ? n : 1);
	CHECK(p);
	return p;
}

static void round_trip(struct coder *c, const uint8_t *piece, const uint8_t *base, size_t n,
                       unsigned width)
{
	uint8_t *coded = memory(CODING_ROOM(n)), *back = memory(n);
	struct err err = ERR_INIT;
	const size_t bytes = coding_encode(c, piece, base, n, width, coded);
	CHECK(bytes >= CODING_HEAD && bytes <= CODING_ROOM(n));
	CHECK(coding_decode(c, coded, bytes, base, back, n, &err) == 0);
	CHECK(!n || memcmp(back, piece, n) == 0);
	free(coded);
	free(back);
}

static void decode(struct coder *c, const uint8_t *coded, size_t bytes, const uint8_t *base)
{
	/* Of the length that it says, so that not most inputs fail there alone. */
	const size_t says = bytes >= CODING_HEAD ? get_u32(coded + 4) : 0;
	const size_t n = says <= LARGEST ? says : LARGEST;
	uint8_t *piece = memory(n), *old = memory(n);
	struct err err = ERR_INIT;
	memset(piece, 0xee, n);
	memcpy(old, pattern, n);
	const int ret = coding_decode(c, coded, bytes, base ? old : NULL, piece, n, &err);
	CHECK((ret < 0) == (err.code != 0));
	CHECK(ret == 0 || (err.text[0] && (err.code == ERR_INTEGRITY || !coder_has_zstd(c))));
	if (ret == 0)
		round_trip(c, piece, old, n, coded[1]);
	free(piece);
	free(old);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const unsigned widths[] = {0, 1, 2, 4, 8, 0, 2, 2};
	if (!size)
		return 0;
	const unsigned how = data[0];
	struct coder *c = coders[!(how & 2)];
	data++;
	size--;
	if (how & 1)
		round_trip(c, data, how & 4 ? NULL : data + size / 2, size / 2, widths[how >> 5]);
	else
		decode(c, data, size, how & 4 ? NULL : pattern);
	return 0;
}
