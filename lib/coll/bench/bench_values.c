#include <string.h>

#include "lib/coll/bench/bench.h"

/* The largest n such that the type holds every integer up to n. */
static uint64_t exact(enum dtype dtype)
{
	return dtype == DTYPE_F8E4M3 ? 16 : dtype == DTYPE_F8E5M2 ? 8 : 256;
}

/* Element @pos of @rank's input. Sums over all ranks are exact; at most one factor of a product
 * differs from 1. */
static uint64_t value(const struct bench_values *v, int rank, uint64_t pos)
{
	uint64_t size = (uint64_t)v->args->size, r = (uint64_t)rank;
	if (v->op == REDUCE_PROD)
		return (pos + r) % size == 0 ? 1 + pos % 3 : 1;
	uint64_t most = exact(v->dtype), kinds = size < most / 2 ? most / size : 2;
	if (size > most && (pos + r) % (size / most + 1))
		return 0;
	return (pos * 7 + pos / kinds + r * 3) % kinds;
}

static void make(const struct bench_values *v, int rank, uint64_t pos, void *buf, size_t n)
{
	float wide[2 * BENCH_CHUNK];
	bool complex = dtype_is_complex(v->dtype);
	for (size_t i = 0; i < n; i++) {
		uint64_t x = value(v, rank, pos + i);
		switch (v->dtype) {
		case DTYPE_I8:
		case DTYPE_U8:
			((uint8_t *)buf)[i] = (uint8_t)x;
			break;
		case DTYPE_I16:
		case DTYPE_U16:
			((uint16_t *)buf)[i] = (uint16_t)x;
			break;
		case DTYPE_I32:
		case DTYPE_U32:
			((uint32_t *)buf)[i] = (uint32_t)x;
			break;
		case DTYPE_I64:
		case DTYPE_U64:
			((uint64_t *)buf)[i] = x;
			break;
		case DTYPE_BOOL:
			((uint8_t *)buf)[i] = x != 0;
			break;
		case DTYPE_C64:
		case DTYPE_C128:
			wide[2 * i] = (float)x;
			wide[2 * i + 1] = v->op == REDUCE_PROD ? 0 : (float)x;
			break;
		default:
			wide[i] = (float)x;
		}
	}
	if (complex)
		convert_kernel(v->dtype == DTYPE_C64 ? DTYPE_F32 : DTYPE_F64, DTYPE_F32)(buf, wide,
		                                                                         2 * n);
	else if (dtype_is_float(v->dtype))
		convert_kernel(v->dtype, DTYPE_F32)(buf, wide, n);
}

/* @buf = the operation over ranks [lo, hi). */
static void fold(const struct bench_values *v, int lo, int hi, uint64_t pos, uint8_t *buf, size_t n)
{
	uint8_t *term = v->buf + 2 * BENCH_PIECE;
	make(v, lo, pos, buf, n);
	for (int r = lo + 1; r < hi; r++) {
		make(v, r, pos, term, n);
		reduce_kernel(v->op, v->dtype, v->dtype, false)(buf, buf, term, n);
	}
	if (v->op == REDUCE_AVG) {
		memcpy(term, buf, n * dtype_size(v->dtype));
		final_kernel(v->dtype, v->dtype)(buf, term, v->divisor, n);
	}
}

/* Where block @j of this rank's output begins. */
static uint64_t out_at(const struct bench_values *v, int j)
{
	return coll_out_at(v->kind, v->args, j);
}

/* Compute elements [pos, pos + n) of this rank's output into @buf, up to the block's end. Returns
 * their number. */
static size_t expect(const struct bench_values *v, uint64_t pos, uint8_t *buf, size_t n)
{
	const struct coll_args *a = v->args;
	const int me = a->rank;
	int j = 0;
	switch (v->kind) {
	case COLL_REDUCE_SCATTER:
		fold(v, 0, a->size, a->off[me] + pos, buf, n);
		return n;
	case COLL_BROADCAST:
		make(v, a->root, pos, buf, n);
		return n;
	case COLL_SCATTER:
		make(v, a->root, a->off[me] + pos, buf, n);
		return n;
	case COLL_GATHER:
	case COLL_ALLGATHER:
	case COLL_ALLTOALL:
		while (out_at(v, j + 1) <= pos)
			j++;
		if (n > out_at(v, j + 1) - pos)
			n = out_at(v, j + 1) - pos;
		make(v, j, pos - out_at(v, j) + (v->kind == COLL_ALLTOALL ? a->off[me] : 0), buf,
		     n);
		return n;
	case COLL_SCAN:
		fold(v, 0, me + 1, pos, buf, n);
		return n;
	case COLL_EXSCAN:
		if (me == 0)
			reduce_identity(v->op, v->dtype, buf, n);
		else
			fold(v, 0, me, pos, buf, n);
		return n;
	default:
		fold(v, 0, a->size, pos, buf, n);
		return n;
	}
}

int bench_read(void *ctx, int vector, int input, void *buf, uint64_t pos, uint64_t n,
               struct err *err)
{
	struct bench_values *v = ctx;
	size_t esize = dtype_size(v->dtype);
	(void)vector;
	(void)input;
	(void)err;
	for (uint64_t i = 0, len; !v->filled && i < n; i += len) {
		len = n - i < BENCH_CHUNK ? n - i : BENCH_CHUNK;
		make(v, v->args->rank, pos + i, (uint8_t *)buf + i * esize, len);
	}
	return 0;
}

int bench_write(void *ctx, int vector, const void *buf, uint64_t pos, uint64_t n, bool final,
                struct err *err)
{
	struct bench_values *v = ctx;
	size_t esize = dtype_size(v->dtype);
	uint8_t *want = v->buf, *have = v->buf + BENCH_PIECE;
	(void)vector;
	(void)err;
	for (uint64_t i = 0, len; i < n; i += len) {
		const uint8_t *got = (const uint8_t *)buf + i * esize;
		len = expect(v, pos + i, want, n - i < BENCH_CHUNK ? n - i : BENCH_CHUNK);
		if (final && v->op == REDUCE_AVG) {
			final_kernel(v->dtype, v->dtype)(have, got, v->divisor, len);
			got = have;
		}
		for (uint64_t k = 0; k < len && memcmp(want, got, len * esize) != 0; k++)
			v->wrong += memcmp(want + k * esize, got + k * esize, esize) != 0;
	}
	return 0;
}
