/*
 * A scalar reference for every collective: what the output must be, from the inputs alone. Moves
 * and integers to the bit, sums in rank order too, other sums of floats within their rounding.
 */
#ifndef COLLCTL_TESTS_EXEC_ORACLE_H
#define COLLCTL_TESTS_EXEC_ORACLE_H

#include <complex.h>

#include "lib/sched/placement.h"
#include "tests/unit/exec_world.h"

/* ---- where an element comes from ---- */

/* Element @at of the inputs of the ranks [lo, hi); of none: the identity. */
struct source {
	int lo, hi;
	uint64_t at;
};

static inline struct source source_of(const struct problem *p, int r, uint64_t pos)
{
	switch (p->alg->kind) {
	case COLL_SCAN:
		return (struct source){0, r + 1, pos};
	case COLL_EXSCAN:
		return (struct source){0, r, pos};
	case COLL_REDUCE_SCATTER:
		return (struct source){0, p->size, p->off[r] + pos};
	case COLL_BROADCAST:
		return (struct source){p->root, p->root + 1, pos};
	case COLL_SCATTER:
		return (struct source){p->root, p->root + 1, p->off[r] + pos};
	case COLL_GATHER:
	case COLL_ALLGATHER:
		for (int i = 0;; pos -= p->off[i + 1] - p->off[i], i++)
			if (pos < p->off[i + 1] - p->off[i])
				return (struct source){i, i + 1, pos};
	case COLL_ALLTOALL:
		for (int i = 0;; i++) {
			const uint64_t *off = p->uneven ? p->parts[i][0] : p->off;
			if (pos < off[r + 1] - off[r])
				return (struct source){i, i + 1, off[r] + pos};
			pos -= off[r + 1] - off[r];
		}
	default:
		return (struct source){0, p->size, pos};
	}
}

static inline bool moves(enum coll_kind kind)
{
	return kind == COLL_BROADCAST || kind == COLL_SCATTER || kind == COLL_GATHER ||
	       kind == COLL_ALLGATHER || kind == COLL_ALLTOALL;
}

/* ---- values ---- */

static inline double real_of(const void *p, enum dtype d)
{
	float f;
	double x;
	uint64_t u = 0;
	if (d == DTYPE_F64) {
		memcpy(&x, p, sizeof x);
		return x;
	}
	if (dtype_is_float(d)) {
		convert_kernel(DTYPE_F32, d)(&f, p, 1);
		return (double)f;
	}
	memcpy(&u, p, dtype_size(d));
	return (double)u;
}

/* CMPLX, which clang's headers lack. */
static inline double complex complex_of(double re, double im)
{
	double parts[2] = {re, im};
	double complex z;
	memcpy(&z, parts, sizeof z);
	return z;
}

static inline double complex value_of(const void *p, enum dtype d)
{
	enum dtype part = part_dtype(d);
	const uint8_t *imaginary = (const uint8_t *)p + dtype_size(part);
	return complex_of(real_of(p, part), part == d ? 0 : real_of(imaginary, part));
}

static inline double roundoff(enum dtype d)
{
	switch (part_dtype(d)) {
	case DTYPE_F8E4M3:
		return 0x1p-4;
	case DTYPE_BF16:
		return 0x1p-8;
	case DTYPE_F16:
		return 0x1p-11;
	case DTYPE_F32:
		return 0x1p-24;
	default:
		return 0x1p-53;
	}
}

static inline bool is_signed(enum dtype d)
{
	return d == DTYPE_I32 || d == DTYPE_I64;
}

static inline uint64_t combine(enum reduce_op op, enum dtype d, uint64_t a, uint64_t b)
{
	uint64_t flip = is_signed(d) ? 1ull << (8 * dtype_size(d) - 1) : 0;
	bool less = (a ^ flip) < (b ^ flip);
	switch (op) {
	case REDUCE_SUM:
		return a + b;
	case REDUCE_PROD:
		return a * b;
	case REDUCE_MIN:
		return less ? a : b;
	case REDUCE_MAX:
		return less ? b : a;
	case REDUCE_BAND:
	case REDUCE_LAND: /* of 0 and 1 */
		return a & b;
	case REDUCE_BOR:
	case REDUCE_LOR:
		return a | b;
	default:
		return a ^ b;
	}
}

static inline _Noreturn void wrong(const struct part_files *f, int r, uint64_t i,
                                   double complex got, double complex want)
{
	fail_msg("rank %d, element %llu is %.17g%+.17gi, not %.17g%+.17gi: %s", r,
	         (unsigned long long)i, creal(got), cimag(got), creal(want), cimag(want),
	         describe(f->world));
	abort();
}

static inline void check_move(const struct part_files *f, int r, uint64_t i, struct source s)
{
	size_t esize = dtype_size(f->p->dtype);
	const uint8_t *got = f->out[r] + i * esize, *want = f->in[s.lo][0] + s.at * esize;
	if (memcmp(got, want, esize) != 0)
		wrong(f, r, i, value_of(got, f->p->dtype), value_of(want, f->p->dtype));
}

static inline uint64_t all_ones(enum dtype d)
{
	return UINT64_MAX >> (64 - 8 * dtype_size(d));
}

static inline uint64_t integer_identity(enum reduce_op op, enum dtype d)
{
	switch (op) {
	case REDUCE_PROD:
	case REDUCE_LAND:
		return 1;
	case REDUCE_MIN:
		return all_ones(d) >> is_signed(d);
	case REDUCE_MAX:
		return is_signed(d) ? (all_ones(d) >> 1) + 1 : 0;
	case REDUCE_BAND:
		return all_ones(d);
	default:
		return 0;
	}
}

static inline void check_integer(const struct part_files *f, int r, uint64_t i, struct source s)
{
	const struct problem *p = f->p;
	size_t esize = dtype_size(p->dtype);
	uint64_t want = integer_identity(p->op, p->dtype), got = 0;
	bool first = true;
	for (int q = s.lo; q < s.hi; q++)
		for (int k = 0; k < p->inputs[q]; k++, first = false) {
			uint64_t x = 0;
			memcpy(&x, f->in[q][k] + s.at * esize, esize);
			want = first ? x : combine(p->op, p->dtype, want, x) & all_ones(p->dtype);
		}
	memcpy(&got, f->out[r] + i * esize, esize);
	if (got != want)
		wrong(f, r, i, (double)got, (double)want);
}

/* How far a result may be from @want, the terms' absolute values having the sum @sum_abs. */
static inline double slack_of(const struct problem *p, double complex want, double sum_abs,
                              int terms)
{
	/* Of a complex product each part is rounded three times. */
	double each =
	        (terms + 2) * 1.05 * roundoff(p->dtype) * (dtype_is_complex(p->dtype) ? 3 : 1);
	double least = p->dtype == DTYPE_F8E4M3 ? 0x1p-10 : 0x1p-25; /* of subnormal numbers */
	if (p->op == REDUCE_PROD)
		return cabs(want) * each + (p->dtype == DTYPE_F8E4M3 ? terms * least : 0);
	if (p->op == REDUCE_SUM || p->op == REDUCE_AVG)
		return sum_abs * each + terms * least;
	return 0;
}

static inline void check_float(const struct part_files *f, int r, uint64_t i, struct source s)
{
	const struct problem *p = f->p;
	size_t esize = dtype_size(p->dtype);
	double largest = p->dtype == DTYPE_F8E4M3 ? 448 : (double)INFINITY;
	long double complex want = p->op == REDUCE_PROD  ? 1
	                           : p->op == REDUCE_MIN ? largest
	                           : p->op == REDUCE_MAX ? -largest
	                                                 : 0;
	double sum_abs = 0;
	int terms = 0;
	for (int q = s.lo; q < s.hi; q++)
		for (int k = 0; k < p->inputs[q]; k++, terms++) {
			double complex x = value_of(f->in[q][k] + s.at * esize, p->dtype);
			if (p->op == REDUCE_SUM || p->op == REDUCE_AVG)
				want += x;
			else if (p->op == REDUCE_PROD)
				want *= x;
			else if (p->op == REDUCE_MIN ? creal(x) < (double)creall(want)
			                             : creal(x) > (double)creall(want))
				want = x;
			sum_abs += cabs(x);
		}
	double complex got = value_of(f->out[r] + i * esize, p->dtype);
	double slack = slack_of(p, (double complex)want, sum_abs, terms);
	if (p->op == REDUCE_AVG) {
		want /= p->divisor;
		slack = slack / p->divisor + (p->dtype == DTYPE_F8E4M3 ? 0x1p-10 : 0);
	}
	if (got != want && !(cabsl(got - want) <= (long double)slack))
		wrong(f, r, i, got, (double complex)want);
}

static inline double complex in_f64(enum reduce_op op, double complex a, double complex b)
{
	if (op != REDUCE_PROD)
		return a + b;
	return complex_of(creal(a) * creal(b) - cimag(a) * cimag(b),
	                  creal(a) * cimag(b) + cimag(a) * creal(b));
}

/* --order rank: the very bits of a sum in f64 in rank order, rounded once. */
static inline void check_ordered(const struct part_files *f, int r, uint64_t i, struct source s)
{
	const struct problem *p = f->p;
	size_t esize = dtype_size(p->dtype);
	uint8_t want[16];
	double complex sum = p->op == REDUCE_PROD;
	for (int q = s.lo; q < s.hi; q++) {
		double complex own = value_of(f->in[q][0] + s.at * esize, p->dtype);
		for (int k = 1; k < p->inputs[q]; k++)
			own = in_f64(p->op, own, value_of(f->in[q][k] + s.at * esize, p->dtype));
		sum = q == s.lo ? own : in_f64(p->op, sum, own);
	}
	if (p->op == REDUCE_AVG)
		sum = complex_of(creal(sum) / p->divisor, cimag(sum) / p->divisor);
	enum dtype wide = dtype_is_complex(p->dtype) ? DTYPE_C128 : DTYPE_F64;
	convert_kernel(p->dtype, wide)(want, &sum, 1);
	if (memcmp(want, f->out[r] + i * esize, esize) != 0)
		wrong(f, r, i, value_of(f->out[r] + i * esize, p->dtype), value_of(want, p->dtype));
}

/* All ranks' outputs of a part are right. */
static inline void check_part(const struct part_files *f)
{
	const struct problem *p = f->p;
	for (int r = 0; r < p->size; r++)
		for (uint64_t i = 0, n = p->mute[r] ? 0 : output_len(p, r); i < n; i++) {
			struct source s = source_of(p, r, i);
			if (moves(p->alg->kind))
				check_move(f, r, i, s);
			else if (p->ordered)
				check_ordered(f, r, i, s);
			else if (dtype_is_float(p->dtype))
				check_float(f, r, i, s);
			else
				check_integer(f, r, i, s);
		}
}

static inline void check_values(const struct world *w)
{
	for (int k = 0; k < w->nparts; k++)
		check_part(&w->parts[k]);
}

/* ---- a case against the reference ---- */

static inline bool rounds(const struct problem *p)
{
	return !moves(p->alg->kind) && dtype_is_float(p->dtype) &&
	       (p->op == REDUCE_SUM || p->op == REDUCE_AVG || p->op == REDUCE_PROD);
}

/* Do all ranks have the same output? An algorithm whose operand order differs by rank says so, and
 * may round differently. */
static inline bool same_everywhere(const struct problem *p)
{
	enum coll_kind kind = p->alg->kind;
	if (kind != COLL_ALLREDUCE && kind != COLL_ALLGATHER && kind != COLL_BROADCAST)
		return false;
	return !(rounds(p) && (p->alg->flags & COLL_DIVERGENT));
}

/* Ranks that must have the same output have it, and none has more than its output. */
static inline void check_ranks(const struct part_files *f)
{
	const struct problem *p = f->p;
	size_t esize = dtype_size(p->dtype);
	int first = 0;
	while (first < p->size && p->mute[first])
		first++;
	for (int r = first; same_everywhere(p) && r < p->size; r++)
		if (!p->mute[r] && memcmp(f->out[r], f->out[first], output_len(p, r) * esize) != 0)
			fail_msg("rank %d's result differs from rank %d's: %s", r, first,
			         describe(f->world));
	for (int r = 0; r < p->size; r++)
		assert_int_equal(f->out[r][output_len(p, r) * esize], 0xa5);
}

/* Run a world that is initialised. */
static inline void run_world(struct world *w)
{
	struct err err = {0};
	int failed = -1;
	start(w);
	if (play(w, &failed, &err) < 0)
		fail_msg("rank %d failed (%d): %s: %s", failed, err.code, err.text, describe(w));
	for (int k = 0; k < w->nparts; k++)
		check_ranks(&w->parts[k]);
}

static inline void run(struct world *w, const struct problem *p, const struct timing *t)
{
	world_init(w, p, t);
	run_world(w);
}

static const struct timing at_ease = {.windows = 1, .streams = 1, .capacity = 1u << 20, .seed = 1};

/* Where an algorithm cuts the window's own length, and what is added first depends on the piece, an
 * element's order of operands depends on the number of windows. */
static inline bool windows_matter(const struct problem *p)
{
	const struct coll_args a = args_of(p, 0);
	const struct hosts_sizes s = hosts_sizes(&a);
	const bool hosts = !strcmp(p->alg->name, "hosts");

	if (!rounds(p))
		return false;
	if (p->alg->kind == COLL_REDUCE)
		return hosts || !strcmp(p->alg->name, "circulant");
	return hosts && s.least != s.most;
}

static inline void same_bits(const struct part_files *f, const struct part_files *easy)
{
	const struct problem *p = f->p;
	for (int r = 0; r < p->size; r++)
		if (memcmp(f->out[r], easy->out[r], output_len(p, r) * dtype_size(p->dtype)) != 0)
			fail_msg("rank %d has other bits than at ease: %s", r, describe(f->world));
}

/* The case at ease, and the same again under each of @t: the same bits. */
static inline void try(const struct problem *p, const struct timing *t, int n)
{
	static struct world easy, other;
	struct timing ease = at_ease;
	run(&easy, p, &ease);
	check_values(&easy);
	for (int i = 0; i < n; i++) {
		if (windows_matter(p) && ease.windows != t[i].windows) {
			ease.windows = t[i].windows;
			world_free(&easy);
			run(&easy, p, &ease);
			check_values(&easy);
		}
		run(&other, p, &t[i]);
		same_bits(&other.parts[0], &easy.parts[0]);
		world_free(&other);
	}
	world_free(&easy);
}

/* ---- making cases ---- */

static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16, DTYPE_I32,    DTYPE_U8,
                                    DTYPE_F64, DTYPE_I64,  DTYPE_C64, DTYPE_F8E4M3, DTYPE_C128};
#define NDTYPES (sizeof dtypes / sizeof dtypes[0])

static inline uint64_t pick_count(uint64_t *state, int size)
{
	static const uint64_t primes[] = {2, 7, 97, 101, 509, 1009};
	switch (below(state, 7)) {
	case 0:
		return 0;
	case 1:
		return 1;
	case 2:
		return (uint64_t)size - 1;
	case 3:
		return (uint64_t)size;
	case 4:
		return 2000 + below(state, 3000);
	default:
		return primes[below(state, 6)];
	}
}

static inline struct timing pick_timing(uint64_t *state, uint64_t bytes)
{
	static const size_t capacities[] = {1, 2, 3, 5, 7, 16, 61, 256, 4096, 65536};
	static const size_t quanta[] = {1, 3, 0, 0, 0, 1000};
	struct timing t = {
	        .windows = 1 + below(state, 5),
	        .streams = 1 + (int)below(state, STREAMS),
	        .capacity = capacities[below(state, 10)],
	        .quantum = quanta[below(state, 6)],
	        .stalls = below(state, 2),
	};
	/* A byte at a time is for small vectors: it costs a round a byte. */
	size_t least = bytes / 2000;
	if (t.capacity < least)
		t.capacity = least;
	if (t.quantum && t.quantum < least)
		t.quantum = least;
	t.seed = draw(state) >> 40;
	return t;
}

/* What is asked of @p's algorithm on @size ranks, of its count: even blocks. */
static inline void problem_fill(struct problem *p, uint64_t *state, int size, int most_inputs)
{
	p->size = size;
	p->root = (int)below(state, (unsigned)size);
	p->base = below(state, 5);
	p->base += p->base == 1;
	p->steps = 0;
	while (p->alg->kind == COLL_EXCHANGE && size > 1 && size % (2 << p->steps) == 0)
		p->steps++;
	p->divisor = 0;
	p->uneven = false;
	for (int r = 0; r < size; r++) {
		p->inputs[r] = coll_takes_several(p->alg->kind)
		                       ? 1 + (int)below(state, (unsigned)most_inputs)
		                       : 1;
		p->divisor += p->inputs[r];
	}
	coll_split(p->count, size, p->off);
	/* Unknown hosts, hosts of two ranks, or two hosts of which one has a third of the ranks. */
	p->placed = (p->root + (int)p->base) % 3;
	for (int r = 0; r < size; r++)
		p->host[r] = (p->root + (int)p->base) % 3 == 1 ? r / 2 : r % 3 == 1;
}

/* Can the algorithm run on so many ranks? */
static inline bool serves(const struct coll_algorithm *alg, int size)
{
	return alg->kind != COLL_EXCHANGE || size == 1 || size % 2 == 0;
}

/* Has the operation a meaning for the collective's elements? */
static inline bool sensible(const struct problem *p)
{
	enum coll_kind kind = p->alg->kind;
	if (moves(kind) || kind == COLL_EXCHANGE)
		return p->op == REDUCE_SUM; /* nobody looks at it */
	return reduce_op_defined(p->op, p->dtype) &&
	       !(p->op == REDUCE_AVG && (kind == COLL_SCAN || kind == COLL_EXSCAN));
}

/* Uneven blocks, with empty ones among them: emitters take any. */
static inline void uneven(struct problem *p, uint64_t *state)
{
	uint64_t cuts[RANKS + 1] = {0};
	for (int j = 1; j < p->size; j++)
		cuts[j] = draw(state) % (p->count + 1);
	cuts[p->size] = p->count;
	for (int j = 1; j < p->size; j++)
		for (int k = j; k > 1 && cuts[k - 1] > cuts[k]; k--) {
			uint64_t x = cuts[k];
			cuts[k] = cuts[k - 1];
			cuts[k - 1] = x;
		}
	memcpy(p->off, cuts, sizeof cuts);
}

/* An alltoall of parts that differ by both ranks. */
static inline void uneven_parts(struct problem *p, uint64_t *state)
{
	uint64_t counts[RANKS * RANKS];
	unsigned most = 1 + (unsigned)(p->count / (uint64_t)p->size);
	for (int i = 0; i < p->size * p->size; i++)
		counts[i] = below(state, 3) ? below(state, most + 1) : 0;
	p->uneven = true;
	for (int r = 0; r < p->size; r++)
		coll_offsets(counts, p->size, r, p->parts[r][0], p->parts[r][1]);
}

static inline bool long_run(void)
{
	const char *s = getenv("COLLCTL_LONG");
	return s && s[0] && strcmp(s, "0") != 0;
}

static const int sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16};
#define NSIZES (sizeof sizes / sizeof sizes[0])

#endif
