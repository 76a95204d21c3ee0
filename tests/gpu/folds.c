#include "tests/gpu/folds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/exec/memory_space.h"

#define MISMATCHES 20 /* that are printed */

static uint64_t seed = 88172645463325252u;

static uint64_t next(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

/* Bytes for an element, or a part of a complex number, of @size bytes: any, or with an upper part
 * as infinities, NaN, zeros, subnormals and the largest values have it, or near one. */
static void put_value(uint8_t *p, size_t size)
{
	static const uint16_t tops[] = {0,      0x8000, 0x7f80, 0xff80, 0x7ff0, 0xfff0, 0x7ff8,
	                                0x7c00, 0xfc00, 0x7e00, 0x7f7f, 0x7fef, 0x7bff, 0xffff,
	                                0x7fff, 0x0080, 0x0010, 0x0400, 0x7eff, 0x7cff};
	static const uint64_t rests[] = {0, 1, UINT64_MAX};
	const uint64_t kind = next() % 4;
	uint64_t bits = next();

	if (kind == 0)
		bits = (uint64_t)tops[next() % (sizeof tops / sizeof *tops)] << 48 |
		       rests[next() % 3] >> 16;
	else if (kind == 1) /* sums of numbers of about one size are rounded */
		bits = (bits & ~(UINT64_C(0x7e) << 56)) | UINT64_C(0x3e) << 56;
	bits >>= 64 - 8 * size;
	memcpy(p, &bits, size);
}

static void fill(uint8_t *p, size_t bytes, enum dtype dtype)
{
	const size_t size = dtype_size(dtype) / (dtype_is_complex(dtype) ? 2 : 1);
	const size_t part = size > 8 ? 8 : size;

	for (size_t i = 0; i + part <= bytes; i += part)
		put_value(p + i, part);
}

/* Every value of a type of at most two bytes, and every pair of those of one byte. */
static void fill_all(uint8_t *inputs[], const struct fold_case *c)
{
	const size_t size = dtype_size(c->dtype);

	for (uint64_t i = 0; size <= 2 && i < c->n; i++) {
		const uint64_t second = i >> 8;
		memcpy(inputs[0] + c->offset + i * size, &i, size);
		if (size == 1 && c->ninputs > 1)
			memcpy(inputs[1] + c->offset + i * size, &second, size);
	}
}

enum dtype fold_acc(enum dtype dtype, int i)
{
	const enum dtype accs[FOLD_ACCS] = {dtype, DTYPE_F32, DTYPE_F64, DTYPE_C128};
	return i > 0 && accs[i] == dtype ? DTYPE_NONE : accs[i];
}

void folds_expect(const struct fold_case *c, const uint8_t *const *inputs, uint8_t *dst)
{
	uint8_t *in[FOLD_INPUTS];
	struct err err = {0};

	for (int k = 0; k < c->ninputs; k++)
		in[k] = (uint8_t *)(uintptr_t)inputs[k];
	if (c->in_place)
		in[0] = dst;
	const struct memory_task t = {.op = MEMORY_FOLD,
	                              .dst = dst + c->to,
	                              .inputs = in,
	                              .offset = c->offset,
	                              .ninputs = c->ninputs,
	                              .n = c->n,
	                              .to = c->dtype,
	                              .of = c->dtype,
	                              .with = c->dtype,
	                              .acc = c->acc,
	                              .reduce = c->op};
	memory_host.start(&memory_host, &t, &err);
}

void identity_expect(enum reduce_op op, enum dtype dtype, uint64_t n, void *dst)
{
	reduce_identity(op, dtype, dst, n);
}

struct checking {
	fold_run *run;
	void *ctx;
	int every;
	long seen, cases;
	uint8_t *inputs[FOLD_INPUTS], *found, *expected;
	size_t filled[FOLD_INPUTS]; /* bytes of the inputs with values for this kernel */
};

static int mismatch(const struct fold_case *c, const struct checking *b)
{
	const size_t size = dtype_size(c->dtype);
	size_t at = 0;

	while (b->found[at] == b->expected[at])
		at++;
	const long long element = ((long long)at - (long long)c->to) / (long long)size;
	printf("%s %s in %s, %d inputs, %llu elements at %llu to %llu%s: element %lld differs",
	       reduce_op_name(c->op), dtype_name(c->dtype), dtype_name(c->acc), c->ninputs,
	       (unsigned long long)c->n, (unsigned long long)c->offset, (unsigned long long)c->to,
	       c->in_place ? " in place" : "", element);
	const size_t first = (size_t)((long long)c->to + element * (long long)size);
	printf(": ");
	for (size_t i = size; i-- > 0;)
		printf("%02x", b->found[first + i]);
	printf(", not ");
	for (size_t i = size; i-- > 0;)
		printf("%02x", b->expected[first + i]);
	printf("\n");
	return 1;
}

/* Is the next case one of those that run? */
static bool is_chosen(struct checking *b)
{
	return b->seen++ % b->every == 0;
}

/* Values for what the inputs of @c lack. */
static void prepare(const struct fold_case *c, struct checking *b)
{
	const size_t end = c->offset + c->n * dtype_size(c->dtype);

	for (int k = 0; k < c->ninputs; k++) {
		const size_t have = b->filled[k];

		if (have >= end)
			continue;
		fill(b->inputs[k] + have, end - have, c->dtype);
		b->filled[k] = end;
	}
}

static int check(const struct fold_case *c, struct checking *b)
{
	const uint8_t *const *inputs = (const uint8_t *const *)b->inputs;

	b->cases++;
	memcpy(b->found, c->in_place ? b->inputs[0] : b->inputs[FOLD_INPUTS - 1], FOLD_BYTES);
	memcpy(b->expected, b->found, FOLD_BYTES);
	folds_expect(c, inputs, b->expected);
	if (b->run(b->ctx, c, inputs, b->found) < 0)
		return 1;
	return memcmp(b->found, b->expected, FOLD_BYTES) ? mismatch(c, b) : 0;
}

/* All lengths and places of one kernel. */
static int check_kernel(enum reduce_op op, enum dtype dtype, enum dtype acc, struct checking *b)
{
	static const int ninputs[] = {2, 1, 3, 5, 17, FOLD_INPUTS};
	static const struct {
		unsigned n, offset, to;
		bool in_place;
	} places[] = {
	        {1, 0, 0, false},    {7, 1, 1, false},     {33, 3, 3, true},
	        {1013, 1, 0, false}, {4099, 5, 5, true},   {4096, 0, 0, false},
	        {777, 16, 0, false}, {20011, 0, 0, false}, {5, 2, 2, true},
	};
	const size_t size = dtype_size(dtype), step = size > 8 ? 8 : size;
	int bad = 0;

	memset(b->filled, 0, sizeof b->filled);
	for (size_t k = 0; k < sizeof ninputs / sizeof *ninputs; k++)
		for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
			const struct fold_case c = {op,
			                            dtype,
			                            acc,
			                            ninputs[k],
			                            places[p].n,
			                            places[p].offset * step,
			                            places[p].to * step,
			                            places[p].in_place};
			if (!is_chosen(b))
				continue;
			prepare(&c, b);
			bad += check(&c, b);
		}
	if (is_chosen(b)) {
		const struct fold_case all = {op, dtype, acc, 2, 65536, 0, 0, false};

		prepare(&all, b);
		fill_all(b->inputs, &all);
		bad += check(&all, b);
	}
	return bad;
}

int folds_check(fold_run *run, void *ctx, int every, long *cases)
{
	struct checking b = {.run = run, .ctx = ctx, .every = every};
	int bad = 0;

	for (int k = 0; k < FOLD_INPUTS + 2; k++) {
		uint8_t *p = aligned_alloc(64, FOLD_BYTES);
		if (!p)
			exit(1);
		fill(p, FOLD_BYTES, DTYPE_U64);
		*(k < FOLD_INPUTS ? &b.inputs[k] : k == FOLD_INPUTS ? &b.found : &b.expected) = p;
	}
	for (int op = 0; op < REDUCE_OPS; op++)
		for (int t = 1; t < DTYPES; t++)
			for (int i = 0; i < FOLD_ACCS && bad < MISMATCHES; i++) {
				const enum dtype dtype = (enum dtype)t, acc = fold_acc(dtype, i);
				if (acc && reduce_kernel((enum reduce_op)op, acc, dtype, false))
					bad += check_kernel((enum reduce_op)op, dtype, acc, &b);
			}
	for (int k = 0; k < FOLD_INPUTS; k++)
		free(b.inputs[k]);
	free(b.found);
	free(b.expected);
	*cases = b.cases;
	return bad;
}
