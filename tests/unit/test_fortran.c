/* Fortran's order to C's against the definition: random shapes, sizes of elements and budgets. */
#include "tests/unit/elements.h"

#include <stdio.h>
#include <unistd.h>

#include "lib/data/formats/fortran.h"

#define IN_AT  77
#define OUT_AT 13

static FILE *file_of(const void *data, size_t bytes, uint64_t at)
{
	FILE *f = tmpfile();
	assert_non_null(f);
	assert_int_equal(pwrite(fileno(f), data, bytes, (off_t)at), bytes);
	return f;
}

/* Element i of C's order, by its place in Fortran's. */
static size_t place(const uint64_t *shape, int ndim, size_t i)
{
	size_t index[64], at = 0;
	for (int k = ndim - 1; k >= 0; k--) {
		index[k] = i % shape[k];
		i /= shape[k];
	}
	for (int k = ndim - 1; k >= 0; k--)
		at = at * shape[k] + index[k];
	return at;
}

static void check(const uint64_t *shape, int ndim, size_t esize, size_t memory)
{
	struct err err = {0};
	size_t n = 1;
	for (int k = 0; k < ndim; k++)
		n *= shape[k];
	char *src = malloc(n * esize + 1), *found = malloc(n * esize + OUT_AT + 1);
	for (size_t i = 0; i < n * esize; i++)
		src[i] = (char)next();
	FILE *in = file_of(src, n * esize, IN_AT), *out = file_of("guard", 5, 0);
	assert_int_equal(fortran_to_c(fileno(in), IN_AT, fileno(out), OUT_AT, shape, ndim, esize,
	                              memory, &err),
	                 0);
	ssize_t size = pread(fileno(out), found, n * esize + OUT_AT + 1, 0);
	assert_int_equal(size, n ? n * esize + OUT_AT : 5);
	assert_memory_equal(found, "guard", 5);
	for (size_t i = 0; i < n; i++)
		assert_memory_equal(found + OUT_AT + i * esize, src + place(shape, ndim, i) * esize,
		                    esize);
	fclose(in);
	fclose(out);
	free(src);
	free(found);
}

TEST_WITH(test_random_shapes, reseed, NULL)
{
	for (int round = 0; round < 600; round++) {
		uint64_t shape[8];
		int ndim = (int)(next() % 7);
		size_t n = 1, esize = 1 + next() % 16;
		for (int k = 0; k < ndim; k++) {
			size_t most = 4000 / n < 40 ? 4000 / n : 40;
			shape[k] = next() % 50 ? 1 + next() % (most ? most : 1) : 0;
			n *= shape[k] ? shape[k] : 1;
		}
		check(shape, ndim, esize, next() % 3 ? next() % (2 * n * esize + 2) : 1u << 20);
	}
}

/* The lengths about the blocks that are turned at once, in every usual size. */
TEST_WITH(test_planes, reseed, NULL)
{
	static const uint64_t lengths[] = {1, 2, 31, 32, 33, 64, 65};
	for (size_t i = 0; i < LENGTH(lengths); i++)
		for (size_t k = 0; k < LENGTH(lengths); k++)
			for (size_t esize = 1; esize <= 16; esize *= 2) {
				uint64_t shape[3] = {lengths[i], 3, lengths[k]};
				check(shape, 3, esize, 1u << 20);
				check(shape, 3, esize, 700);
			}
}

TEST_WITH(test_edges, reseed, NULL)
{
	uint64_t ones[64], twos[12] = {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2};
	for (int k = 0; k < 64; k++)
		ones[k] = 1;
	check(NULL, 0, 8, 100);
	check(ones, 64, 4, 100);
	ones[0] = 5;
	ones[30] = 7;
	ones[63] = 3;
	check(ones, 64, 4, 100);
	check(twos, 12, 2, 0);
	check(twos, 12, 2, 1000);
	check((uint64_t[]){1000}, 1, 3, 100);
	check((uint64_t[]){10, 700, 10}, 3, 1, 4000); /* runs that share the middle axis */
	check((uint64_t[]){0, UINT64_MAX}, 2, 8, 100);
}

TEST_WITH(test_short_file, reseed, NULL)
{
	char data[100] = {0};
	struct err err = {0};
	FILE *in = file_of(data, 95, 0), *out = tmpfile();
	assert_int_equal(
	        fortran_to_c(fileno(in), 0, fileno(out), 0, (uint64_t[]){10, 10}, 2, 1, 50, &err),
	        -1);
	assert_int_equal(err.code, ERR_INPUT);
	assert_non_null(strstr(err.text, "became shorter"));
	err_clear(&err);
	assert_int_equal(fortran_to_c(fileno(in), 0, -1, 0, (uint64_t[]){9, 10}, 2, 1, 50, &err),
	                 -1);
	assert_int_equal(err.code, ERR_RESOURCE);
	fclose(in);
	fclose(out);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
