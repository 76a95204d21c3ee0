/*
 * The coding of pieces as differences to a base (lib/data/coding/coding.h): its size, and its speed
 * in GB of the file a second of one thread's processor time, the best of several passes.
 *
 *   delta_bench WIDTH OLD NEW             two versions of a file with elements of WIDTH bytes
 *   delta_bench draw STEP MIB OLD NEW     write two: Gaussian weights in bf16, and the same after a
 *                                         step of Adam of that size
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "lib/data/coding/coder.h"

#define PASSES 5
#define SEED   UINT64_C(88172645463325252)

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static double processor_time(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- drawn weights ---- */

/* Marsaglia's xorshift. */
static double uniform(void)
{
	static uint64_t x = SEED;
	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return ((double)(x >> 11) + .5) * 0x1p-53;
}

static double normal(void)
{
	return sqrt(-2 * log(uniform())) * cos(2 * M_PI * uniform());
}

static uint16_t to_bf16(double x)
{
	const float f = (float)x;
	uint32_t bits;
	memcpy(&bits, &f, sizeof bits);
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static int draw(double step, size_t mib, const char *old_path, const char *new_path)
{
	FILE *old = fopen(old_path, "wb"), *new = fopen(new_path, "wb");
	if (!old || !new)
		fail("delta_bench");
	for (size_t i = 0; i < mib << 19; i++) {
		const double weight = .02 * normal();
		const uint16_t a = to_bf16(weight), b = to_bf16(weight + step * normal());
		if (fwrite(&a, sizeof a, 1, old) != 1 || fwrite(&b, sizeof b, 1, new) != 1)
			fail("delta_bench");
	}
	return fclose(old) || fclose(new) ? 1 : 0;
}

/* ---- measuring ---- */

struct files {
	const uint8_t *old, *new;
	size_t n;
	unsigned width;
	uint8_t *coded, *decoded;
	size_t *lengths; /* of the coded pieces, which lie CODING_ROOM(CODING_PIECE) apart */
};

/* @how: a coding; CODINGS: the choice. */
static double encode(struct coder *c, const struct files *f, int how, unsigned width, size_t *bytes)
{
	const double start = processor_time();
	*bytes = 0;
	for (size_t at = 0, i = 0, n; at < f->n; at += n, i++) {
		uint8_t *to = f->coded + i * CODING_ROOM(CODING_PIECE);
		const uint8_t *piece = f->new + at, *base = f->old + at;
		n = f->n - at < CODING_PIECE ? f->n - at : CODING_PIECE;
		size_t len = how == CODINGS
		                     ? coding_encode(c, piece, base, n, width, to)
		                     : coder_write(c, (enum coding)how, piece, base, n, width, to);
		if (!len)
			len = coder_write(c, CODING_RAW, piece, base, n, 0, to);
		f->lengths[i] = len;
		*bytes += len;
	}
	return processor_time() - start;
}

static double decode(struct coder *c, const struct files *f)
{
	struct err err = ERR_INIT;
	const double start = processor_time();
	for (size_t at = 0, i = 0, n; at < f->n; at += n, i++) {
		n = f->n - at < CODING_PIECE ? f->n - at : CODING_PIECE;
		if (coding_decode(c, f->coded + i * CODING_ROOM(CODING_PIECE), f->lengths[i],
		                  f->old + at, f->decoded + at, n, &err) < 0) {
			fprintf(stderr, "delta_bench: %s\n", err.text);
			exit(1);
		}
	}
	return processor_time() - start;
}

static void measure(struct coder *c, const struct files *f, const char *name, int how,
                    unsigned width)
{
	double encoded = 1e9, decoded = 1e9;
	size_t bytes = 0;
	for (int pass = 0; pass < PASSES; pass++) {
		const double e = encode(c, f, how, width, &bytes), d = decode(c, f);
		encoded = e < encoded ? e : encoded;
		decoded = d < decoded ? d : decoded;
	}
	if (memcmp(f->decoded, f->new, f->n) != 0) {
		fprintf(stderr, "delta_bench: %s: what is decoded differs\n", name);
		exit(1);
	}
	printf("%-36s %8.3f %8.2f %8.2f\n", name, 100. * (double)bytes / (double)f->n,
	       (double)f->n / encoded / 1e9, (double)f->n / decoded / 1e9);
}

static const uint8_t *map(const char *path, size_t *n)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		fail(path);
	*n = (size_t)st.st_size;
	void *p = mmap(NULL, *n, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
	if (p == MAP_FAILED)
		fail(path);
	close(fd);
	return p;
}

static double changed(const struct files *f)
{
	const size_t all = f->n / f->width;
	size_t n = 0;
	for (size_t i = 0; i < all; i++)
		n += memcmp(f->old + i * f->width, f->new + i * f->width, f->width) != 0;
	return 100. * (double)n / (double)all;
}

int main(int argc, char **argv)
{
	struct files f;
	struct err err = ERR_INIT;
	struct coder *with = coder_new(true, &err), *without = coder_new(false, &err);
	size_t old_bytes, pieces;
	if (argc == 6 && strcmp(argv[1], "draw") == 0)
		return draw(atof(argv[2]), (size_t)atol(argv[3]), argv[4], argv[5]);
	f.width = argc == 4 ? (unsigned)atoi(argv[1]) : 0;
	if (f.width != 1 && f.width != 2 && f.width != 4 && f.width != 8) {
		fprintf(stderr, "usage: delta_bench 1|2|4|8 OLD NEW, or draw STEP MIB OLD NEW\n");
		return 2;
	}
	f.old = map(argv[2], &old_bytes);
	f.new = map(argv[3], &f.n);
	f.n = f.n < old_bytes ? f.n : old_bytes; /* the rest has no base */
	pieces = f.n / CODING_PIECE + 1;
	f.coded = malloc(pieces * CODING_ROOM(CODING_PIECE));
	f.decoded = malloc(f.n);
	f.lengths = malloc(pieces * sizeof *f.lengths);
	if (!with || !without || !f.n || !f.coded || !f.decoded || !f.lengths)
		fail("delta_bench");
	memset(f.coded, 1, pieces * CODING_ROOM(CODING_PIECE));
	memset(f.decoded, 1, f.n);
	printf("%.1f MiB, %.2f %% of the elements changed\n", (double)f.n / (1 << 20), changed(&f));
	printf("%-36s %8s %8s %8s\n", "", "% of it", "encode", "decode");
	if (coder_has_zstd(with)) {
		measure(with, &f, "zstd -1", CODING_ZSTD, 0);
		measure(with, &f, "byte planes, zstd -1", CODING_PLANES, f.width);
		measure(with, &f, "XOR, zstd -1", CODING_XOR, 1);
		measure(with, &f, "XOR, byte planes, zstd -1", CODING_XOR, f.width);
		measure(with, &f, "gaps", CODING_GAPS, f.width);
		measure(with, &f, "the choice", CODINGS, f.width);
		measure(with, &f, "the choice, width not given", CODINGS, 0);
	}
	measure(without, &f, "the choice, without zstd", CODINGS, f.width);
	coder_free(with);
	coder_free(without);
	return 0;
}
