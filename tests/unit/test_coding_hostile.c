/* Coded bytes that lie: a decoder fails, or makes a piece of the right length, and nothing else. */
#include <string.h>

#include "lib/data/coding/coder.h"
#include "tests/unit/unit.h"

#define N 601 /* bytes of the pieces, an odd number */

static struct coder *with, *without;
static uint8_t piece[N], base[N], coded[CODING_ROOM(N)];

static int set_up(void **unused)
{
	assert_non_null(with = coder_new(true, NULL));
	assert_non_null(without = coder_new(false, NULL));
	for (size_t i = 0; i < N; i++) {
		base[i] = (uint8_t)(i / 7);
		piece[i] = (uint8_t)(base[i] + (i % 10 == 0 || i > 595 ? 2 : 0));
	}
	return 0;
}

static int tear_down(void **unused)
{
	coder_free(with);
	coder_free(without);
	return 0;
}

/* 0: the coding would not be smaller than the piece. */
static size_t write_piece(struct coder *c, enum coding how, unsigned width)
{
	return coder_write(c, how, how == CODING_EQUAL ? base : piece, base, N, width, coded);
}

/* Decode from and to memory of just the lengths. -1: refused, as it must be. */
static int decode(const uint8_t *bytes, size_t n, const uint8_t *old, struct err *err)
{
	uint8_t *exact = malloc(n ? n : 1), *back = malloc(N);
	assert_true(exact && back);
	if (n)
		memcpy(exact, bytes, n);
	*err = ERR_INIT;
	const int ret = coding_decode(with, exact, n, old, back, N, err);
	assert_true(ret == 0 ||
	            (err->code == (with->deflate ? ERR_INTEGRITY : err->code) && err->text[0]));
	assert_true((ret < 0) == (err->code != 0));
	for (size_t i = 0, sum = 0; ret == 0 && i < N; i++)
		if (back[i] && ++sum == N) /* reads it all */
			break;
	free(exact);
	free(back);
	return ret;
}

static void refused(const uint8_t *bytes, size_t n, const char *why)
{
	struct err err;
	assert_int_equal(decode(bytes, n, base, &err), -1);
	if (!strstr(err.text, why))
		fail_msg("'%s' does not say '%s'", err.text, why);
}

static void each_coding(void (*check)(size_t n))
{
	for (enum coding how = 0; how < CODINGS; how++)
		for (unsigned width = 1; width <= (how < CODING_PLANES ? 1 : 8); width *= 2) {
			size_t n = write_piece(with, how, width);
			if (n)
				check(n);
			n = write_piece(without, how, width);
			if (n)
				check(n);
		}
}

static void cut(size_t n)
{
	struct err err;
	assert_int_equal(decode(coded, n, base, &err), 0);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(decode(coded, i, base, &err), -1);
}

TEST(a_piece_that_is_cut_anywhere_is_refused)
{
	each_coding(cut);
}

static void lengthen(size_t n)
{
	uint8_t longer[CODING_ROOM(N) + 1] = {0};
	memcpy(longer, coded, n);
	refused(longer, n + 1, "1 bytes follow its end");
}

TEST(bytes_behind_the_end_are_refused)
{
	each_coding(lengthen);
}

static void mutate(size_t n)
{
	struct err err;
	for (size_t i = 0; i < n; i++) {
		const uint8_t was = coded[i];
		/* Every value; in the middle of a long one, which is a stream's, each bit. */
		for (unsigned x = 1; x < 256; x = i < 160 || i + 8 > n ? x + 1 : 2 * x) {
			coded[i] = (uint8_t)(was ^ x);
			decode(coded, n, base, &err);
		}
		coded[i] = was;
	}
}

TEST(no_changed_byte_does_harm)
{
	each_coding(mutate);
}

TEST(heads_that_lie_are_refused)
{
	size_t n = write_piece(with, CODING_RAW, 0);
	struct err err;
	coded[0] = CODINGS;
	refused(coded, n, "coding 6 is not known");
	coded[0] = CODING_RAW;
	coded[1] = 2;
	refused(coded, n, "coding raw has elements of 2 bytes");
	coded[1] = 0;
	coded[3] = 1;
	refused(coded, n, "is not known");
	coded[3] = 0;
	put_u32(coded + 4, N + 1);
	refused(coded, n, "it stands for 602 bytes, not 601");
	put_u32(coded + 4, UINT32_MAX);
	refused(coded, n, "not 601");
	n = write_piece(without, CODING_GAPS, 2);
	coded[1] = 3;
	refused(coded, n, "coding gaps has elements of 3 bytes");
	coded[1] = 0;
	refused(coded, n, "elements of 0 bytes");
	coded[1] = 2;
	assert_int_equal(decode(coded, n, NULL, &err), -1);
	assert_non_null(strstr(err.text, "coding gaps needs a base"));
	n = write_piece(with, CODING_EQUAL, 0);
	assert_int_equal(decode(coded, n, NULL, &err), -1);
	assert_non_null(strstr(err.text, "coding equal needs a base"));
}

TEST(counts_that_lie_are_refused)
{
	const size_t n = write_piece(without, CODING_GAPS, 2);
	uint8_t *changed = coded + 8, *longs = coded + 12, *length = coded + 16, *gap = coded + 20;
	const uint32_t k = get_u32(changed);
	assert_int_equal(get_u32(longs), 0);
	assert_int_equal(get_u32(length), k);
	put_u32(changed, N);
	refused(coded, n, "601 changes and 0 long gaps of 300 elements");
	put_u32(changed, k + 1); /* the stream is shorter now, but no frame of zstd */
	assert_int_equal(decode(coded, n, base, &(struct err){0}), -1);
	put_u32(changed, k);
	put_u32(longs, 2);
	refused(coded, n, "2 long gaps");
	put_u32(longs, 0);
	put_u32(length, k + 1);
	refused(coded, n, "takes");
	put_u32(length, UINT32_MAX);
	refused(coded, n, "it ends within a stream");
	put_u32(length, k);
	gap[0] = 254;
	refused(coded, n, "a gap leads behind the end of the piece");
	gap[0] = 255;
	refused(coded, n, "1 of its gaps are long, not 0");
}

/* The head of a piece of ZSTD with the stream @bytes. */
static size_t as_stream(uint8_t *to, const void *bytes, size_t n)
{
	memset(to, 0, CODING_HEAD);
	to[0] = CODING_ZSTD;
	put_u32(to + 4, N);
	put_u32(to + 8, (uint32_t)n);
	memcpy(to + 12, bytes, n);
	return 12 + n;
}

TEST(only_one_frame_of_the_right_length_is_unpacked)
{
	static const uint8_t skippable[] = {0x50, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, 7};
	static const uint8_t old_format[] = {0x25, 0xb5, 0x2f, 0xfd, 0, 0, 0, 0, 0, 0, 0};
	/* One block that repeats a byte 2^20 times; then 601 times. */
	uint8_t bomb[] = {0x28, 0xb5, 0x2f, 0xfd, 0, 0x50, 3, 0, 0x80, 'x'};
	uint8_t twice[64], to[128];
	struct err err;
	if (!with->inflate) {
		print_message("skipped: there is no libzstd\n");
		return;
	}
	refused(to, as_stream(to, bomb, sizeof bomb), "cannot be unpacked");
	put_u32(bomb + 5, 0x50 | (1u | 1u << 1 | N << 3) << 8);
	bomb[9] = 'x';
	assert_int_equal(decode(to, as_stream(to, bomb, sizeof bomb), base, &err), 0);
	put_u32(bomb + 5, 0x50 | (1u | 1u << 1 | (N - 1) << 3) << 8);
	refused(to, as_stream(to, bomb, sizeof bomb), "a stream unpacks to 600 bytes, not 601");
	put_u32(bomb + 5, 0x50 | (1u | 1u << 1 | (N + 1) << 3) << 8);
	refused(to, as_stream(to, bomb, sizeof bomb), "cannot be unpacked");
	refused(to, as_stream(to, skippable, sizeof skippable), "is no frame of zstd");
	refused(to, as_stream(to, old_format, sizeof old_format), "is no frame of zstd");
	refused(to, as_stream(to, "", 0), "is no frame of zstd");
	put_u32(bomb + 5, 0x50 | (1u | 1u << 1 | N << 3) << 8);
	memcpy(twice, bomb, sizeof bomb);
	memcpy(twice + sizeof bomb, skippable, sizeof skippable);
	refused(to, as_stream(to, twice, sizeof bomb + sizeof skippable), "is no frame of zstd");
}

TEST(without_zstd_a_compressed_piece_names_the_library)
{
	uint8_t back[N];
	struct err err = ERR_INIT;
	size_t n = write_piece(with, CODING_GAPS, 1);
	if (with->deflate) {
		assert_int_equal(coding_decode(without, coded, n, base, back, N, &err), -1);
		assert_int_equal(err.code, ERR_RESOURCE);
		assert_non_null(strstr(err.text, "libzstd"));
	}
	err = ERR_INIT;
	n = write_piece(without, CODING_GAPS, 1);
	assert_int_equal(coding_decode(without, coded, n, base, back, N, &err), 0);
	assert_memory_equal(back, piece, N);
}

int main(void)
{
	return unit_run(set_up, tear_down);
}
