/*
 * The speed of the kernels, one line each: GB/s of results written (a sum reads twice that), for a
 * size that stays in L2 and one that doesn't fit in any cache. Usage: reduce_bench [name-part]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/data/kernels/reduce.h"

#define SMALL ((size_t)192 << 10)
#define LARGE ((size_t)64 << 20)

static void *bytes(size_t n, int seed)
{
	unsigned char *p = aligned_alloc(64, n);
	if (!p)
		exit(1);
	/* Small positive numbers in every type: no subnormals, no NaN. */
	for (size_t i = 0; i < n; i++)
		p[i] = (unsigned char)(0x30 + (i * 7 + (size_t)seed) % 13);
	return p;
}

enum kind { REDUCE, CONVERT, SCALE, FINAL };

struct job {
	enum kind kind;
	enum reduce_op op;
	enum dtype to, from;
};

static int run(const struct job *j, void *d, const void *b, size_t n)
{
	if (j->kind == REDUCE) {
		reduce_fn *fn = reduce_kernel(j->op, j->to, j->from, false);
		if (!fn)
			return -1;
		fn(d, d, b, n);
	} else if (j->kind == CONVERT) {
		convert_fn *fn = convert_kernel(j->to, j->from);
		if (!fn)
			return -1;
		fn(d, b, n);
	} else if (j->kind == SCALE) {
		scale_fn *fn = scale_kernel(j->to, j->from);
		if (!fn)
			return -1;
		fn(d, b, 0.1, n);
	} else {
		final_fn *fn = final_kernel(j->to, j->from);
		if (!fn)
			return -1;
		fn(d, b, 3.0, n);
	}
	return 0;
}

/* The best of several trials, each of about 10 ms. */
static double speed(const struct job *j, size_t size)
{
	size_t to = dtype_size(j->to), from = dtype_size(j->from);
	size_t n = size / (to > from ? to : from);
	size_t out = n * dtype_size(j->to);
	void *d = bytes(size, 1), *b = bytes(size, 2);
	double best = 0;
	for (int trial = 0; trial < 5; trial++) {
		int64_t start = clock_ns(), now;
		size_t done = 0;
		do {
			memset(d, 0x30, j->kind == REDUCE ? 64 : 0);
			if (run(j, d, b, n))
				return -1;
			done += out;
			now = clock_ns();
		} while (now - start < 10 * NS_PER_MS);
		double gbs = (double)done / (double)(now - start);
		best = gbs > best ? gbs : best;
	}
	free(d);
	free(b);
	return best;
}

int main(int argc, char **argv)
{
	static const char *const kinds[] = {"reduce", "convert", "scale", "final"};
	printf("%-28s %8s %8s   GB/s of results\n", "", "192 KiB", "64 MiB");
	for (int kind = REDUCE; kind <= FINAL; kind++)
		for (int op = 0; op < (kind == REDUCE ? REDUCE_OPS : 1); op++)
			for (int to = 1; to < DTYPES; to++)
				for (int from = 1; from < DTYPES; from++) {
					if (!dtype_size((enum dtype)to) ||
					    !dtype_size((enum dtype)from))
						continue;
					struct job j = {(enum kind)kind, (enum reduce_op)op,
					                (enum dtype)to, (enum dtype)from};
					char name[64];
					snprintf(name, sizeof name, "%s %s %s<-%s", kinds[kind],
					         kind == REDUCE ? reduce_op_name(j.op) : "",
					         dtype_name(j.to), dtype_name(j.from));
					if (argc > 1 && !strstr(name, argv[1]))
						continue;
					double s = speed(&j, SMALL);
					if (s < 0)
						continue;
					printf("%-28s %8.1f %8.1f\n", name, s, speed(&j, LARGE));
				}
	return 0;
}
