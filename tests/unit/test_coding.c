/* Coded pieces: every piece comes back, small where it can be, and no bytes do harm. */
#include <math.h>
#include <string.h>

#include "lib/data/coding/coder.h"
#include "lib/data/kernels/planes.h"
#include "tests/unit/unit.h"

static struct coder *coders[2]; /* without zstd, with it if there is one */
static uint64_t seed = 88172645463325252u;

static int set_up(void **unused)
{
	for (int i = 0; i < 2; i++)
		assert_non_null(coders[i] = coder_new(i, NULL));
	return 0;
}

static int tear_down(void **unused)
{
	coder_free(coders[0]);
	coder_free(coders[1]);
	return 0;
}

static bool have_zstd(void)
{
	if (!coder_has_zstd(coders[1]))
		print_message("skipped: there is no libzstd\n");
	return coder_has_zstd(coders[1]);
}

static uint64_t draw(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static double uniform(void)
{
	return ((double)(draw() >> 11) + .5) * 0x1p-53;
}

static uint16_t weight(double *w)
{
	const float f = (float)*w;
	uint32_t bits;
	memcpy(&bits, &f, sizeof bits);
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* @old: Gaussian weights in bf16; @new: after a step that changes 2.1 % of them. */
static void draw_weights(uint16_t *old, uint16_t *new, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		double w = .02 * sqrt(-2 * log(uniform())) * cos(2 * M_PI * uniform());
		old[i] = weight(&w);
		w += 5.8e-7 * sqrt(-2 * log(uniform())) * cos(2 * M_PI * uniform());
		new[i] = weight(&w);
	}
}

/* A copy in memory of just its length, behind which a sanitizer sees each access. */
static uint8_t *copy(const void *bytes, size_t n)
{
	uint8_t *p = malloc(n ? n : 1);
	assert_non_null(p);
	if (n)
		memcpy(p, bytes, n);
	return p;
}

struct coded {
	uint8_t *bytes;
	size_t n;
};

static void check_decoded(struct coder *c, const struct coded *coded, const uint8_t *piece,
                          const uint8_t *base, size_t n)
{
	struct err err = ERR_INIT;
	uint8_t *exact = copy(coded->bytes, coded->n), *back = malloc(n ? n : 1);
	assert_non_null(back);
	if (coding_decode(c, exact, coded->n, base, back, n, &err) < 0)
		fail_msg("%s of %zu bytes: %s", coding_name(coding_of(exact)), n, err.text);
	assert_true(!n || memcmp(back, piece, n) == 0);
	free(exact);
	free(back);
}

/* Encode, check the decoded, return the coded; the caller frees it. */
static struct coded round_trip(struct coder *c, const void *piece, const void *base, size_t n,
                               unsigned width)
{
	struct coded coded = {malloc(CODING_ROOM(n)), 0};
	uint8_t *p = copy(piece, n), *b = base ? copy(base, n) : NULL;
	assert_non_null(coded.bytes);
	coded.n = coding_encode(c, p, b, n, width, coded.bytes);
	assert_in_range(coded.n, CODING_HEAD, CODING_ROOM(n));
	check_decoded(c, &coded, p, b, n);
	free(p);
	free(b);
	return coded;
}

static size_t size_of(struct coder *c, const void *piece, const void *base, size_t n,
                      unsigned width, enum coding want)
{
	struct coded coded = round_trip(c, piece, base, n, width);
	if (coding_of(coded.bytes) != want)
		fail_msg("%s, not %s", coding_name(coding_of(coded.bytes)), coding_name(want));
	free(coded.bytes);
	return coded.n;
}

/* ---- round trips ---- */

static void fill(uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)(draw() >> 24);
}

/* A part of the elements gets other bytes: any, or a little more or less. */
static void change(uint8_t *p, size_t n, unsigned width, double part, bool little)
{
	for (size_t at = 0; at < n; at += width) {
		const size_t len = n - at < width ? n - at : width;
		if (uniform() >= part)
			continue;
		if (little)
			p[at] = (uint8_t)(p[at] + (draw() & 1 ? 1 : 255));
		else
			fill(p + at, len);
	}
}

TEST(pieces_of_all_sizes_widths_and_rates_come_back)
{
	static const size_t sizes[] = {0,           1,    2,     3,     7,
	                               8,           9,    255,   256,   2047,
	                               2049,        4096, 40003, 65536, CODING_PIECE - 1,
	                               CODING_PIECE};
	static const double parts[] = {0, 1e-4, .021, .3, 1};
	static const unsigned widths[] = {0, 1, 2, 4, 8};
	uint8_t *base = malloc(CODING_PIECE), *piece = malloc(CODING_PIECE);
	fill(base, CODING_PIECE);
	for (size_t s = 0; s < LENGTH(sizes); s++)
		for (size_t r = 0; r < LENGTH(parts); r++)
			for (size_t w = 0; w < LENGTH(widths); w++)
				for (int zstd = 0; zstd < 2; zstd++) {
					const size_t n = sizes[s];
					memcpy(piece, base, n);
					change(piece, n, widths[w] ? widths[w] : 4, parts[r],
					       w % 2);
					free(round_trip(coders[zstd], piece, base, n, widths[w])
					             .bytes);
				}
	free(base);
	free(piece);
}

TEST(arrays_may_be_anywhere)
{
	enum { N = 5000 };
	uint8_t memory[3][N + 8], coded[CODING_ROOM(N) + 8];
	struct err err = ERR_INIT;
	fill(memory[0], sizeof memory[0]);
	for (unsigned width = 1; width <= 8; width *= 2)
		for (size_t at = 0; at < 8; at++) {
			uint8_t *base = memory[0] + at, *piece = memory[1] + (at + 3) % 8;
			uint8_t *back = memory[2] + (at + 5) % 8;
			memcpy(piece, base, N);
			change(piece, N, width, .1, true);
			for (enum coding how = CODING_RAW; how < CODINGS; how++) {
				size_t n = coder_write(coders[1], how, piece, base, N, width,
				                       coded + at);
				assert_true(n || how != CODING_RAW);
				if (!n)
					continue;
				assert_int_equal(coding_decode(coders[1], coded + at, n, base, back,
				                               N, &err),
				                 0);
				assert_memory_equal(back, piece, N);
			}
		}
}

TEST(equal_pieces_are_a_head_alone)
{
	static uint8_t piece[CODING_PIECE];
	fill(piece, sizeof piece);
	for (int zstd = 0; zstd < 2; zstd++)
		for (size_t n = 0; n <= sizeof piece; n = 3 * n + 1)
			assert_int_equal(size_of(coders[zstd], piece, piece, n, 2, CODING_EQUAL),
			                 CODING_HEAD);
}

TEST(random_pieces_are_raw)
{
	static uint8_t piece[100000], base[100000];
	fill(piece, sizeof piece);
	fill(base, sizeof base);
	for (int zstd = 0; zstd < 2; zstd++)
		for (unsigned width = 0; width <= 8; width = width ? 2 * width : 1) {
			size_of(coders[zstd], piece, base, sizeof piece, width, CODING_RAW);
			size_of(coders[zstd], piece, NULL, sizeof piece, width, CODING_RAW);
		}
}

TEST(long_gaps)
{
	static const size_t gaps[] = {0, 253, 254, 255, 256, 257, 511, 65535, 65536, 130000};
	static uint8_t base[CODING_PIECE], piece[CODING_PIECE];
	for (unsigned width = 1; width <= 8; width *= 2)
		for (size_t i = 0; i < LENGTH(gaps); i++) {
			const size_t next = (1 + gaps[i]) * width;
			memset(piece, 0, sizeof piece);
			piece[0] = 1;
			piece[next < sizeof piece ? next : width] = 2;
			piece[sizeof piece - 1] = 3;
			for (int zstd = 0; zstd < 2; zstd++)
				assert_in_range(size_of(coders[zstd], piece, base, sizeof piece,
				                        width, CODING_GAPS),
				                CODING_HEAD, 150);
			memset(piece, 0, sizeof piece);
			piece[gaps[i] * width % sizeof piece] = 1;
			size_of(coders[0], piece, base, sizeof piece, width, CODING_GAPS);
		}
}

TEST(the_bits_of_floats_do_not_matter)
{
	static const uint32_t bits[] = {0,          0x80000000, 0x7fc00000, 0xffc00000, 0x7f800001,
	                                0x7fffffff, 0xffffffff, 0x7f800000, 0xff800000, 1};
	uint32_t base[64 * LENGTH(bits)], piece[64 * LENGTH(bits)];
	for (size_t i = 0; i < LENGTH(base); i++) {
		base[i] = bits[i % LENGTH(bits)];
		piece[i] = bits[draw() % LENGTH(bits)];
	}
	for (int zstd = 0; zstd < 2; zstd++)
		for (unsigned width = 0; width <= 8; width = width ? 2 * width : 1)
			free(round_trip(coders[zstd], piece, base, sizeof piece, width).bytes);
}

/* ---- sizes ---- */

TEST(gaps_of_weights_take_little_more_than_their_entropy)
{
	enum { N = CODING_PIECE / 2 };
	static uint16_t old[N], new[N];
	draw_weights(old, new, N);
	assert_in_range(size_of(coders[0], new, old, sizeof new, 2, CODING_GAPS), 1,
	                sizeof new / 1000 * 34);
	if (!have_zstd())
		return;
	const size_t n = size_of(coders[1], new, old, sizeof new, 2, CODING_GAPS);
	assert_in_range(n, 1, sizeof new / 1000 * 14);
	/* Without the width it is found, or one as good. */
	assert_in_range(size_of(coders[1], new, old, sizeof new, 0, CODING_GAPS), 1, n * 11 / 10);
	assert_in_range(size_of(coders[1], new, NULL, sizeof new, 2, CODING_PLANES), 1,
	                sizeof new / 100 * 70);
	assert_in_range(size_of(coders[1], new, NULL, sizeof new, 0, CODING_PLANES), 1,
	                sizeof new / 100 * 70);
}

/* Numbers of some width of which a part gets a little larger; carries change narrower elements. */
TEST(the_width_is_found)
{
	enum { N = 400000 };
	static uint8_t old[N], new[N];
	if (!have_zstd())
		return;
	for (unsigned width = 1; width <= 8; width *= 2) {
		fill(old, N);
		memcpy(new, old, N);
		for (size_t at = 0; at < N; at += width) {
			uint64_t x = 0;
			memcpy(&x, new + at, width);
			x += uniform() < .2 ? draw() % 8 << (4 * width - 4) : 0;
			memcpy(new + at, &x, width);
		}
		const size_t n = size_of(coders[1], new, old, N, width, CODING_GAPS);
		assert_in_range(size_of(coders[1], new, old, N, 0, CODING_GAPS), 1, n * 21 / 20);
	}
}

TEST(the_smallest_coding_is_taken)
{
	static uint32_t old[50000], new[50000];
	uint8_t *text = (uint8_t *)new;
	if (!have_zstd())
		return;
	fill((uint8_t *)old, sizeof old);
	for (size_t i = 0; i < LENGTH(old); i++)
		new[i] = old[i] ^ 0x55555555;
	assert_in_range(size_of(coders[1], new, old, sizeof new, 4, CODING_XOR), 1, 500);
	for (size_t i = 0; i < sizeof new; i++)
		text[i] = (uint8_t) "a piece that is the same again and again, "[i % 42];
	assert_in_range(size_of(coders[1], new, old, sizeof new, 4, CODING_ZSTD), 1, 500);
	assert_in_range(size_of(coders[1], new, NULL, sizeof new, 0, CODING_ZSTD), 1, 500);
	assert_int_equal(size_of(coders[0], new, NULL, sizeof new, 0, CODING_RAW),
	                 CODING_ROOM(sizeof new));
}

TEST(every_coding_has_a_name)
{
	for (enum coding how = 0; how < CODINGS; how++)
		assert_true(strlen(coding_name(how)) > 2);
	assert_string_equal(coding_name(CODING_GAPS), "gaps");
}

int main(void)
{
	return unit_run(set_up, tear_down);
}
