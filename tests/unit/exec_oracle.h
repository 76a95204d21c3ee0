/*
 * Cases for the executor, run and compared with the model of their collective: moves and integers
 * to the bit, sums in rank order too, other sums of floats within their rounding.
 */
#ifndef COLLCTL_TESTS_EXEC_ORACLE_H
#define COLLCTL_TESTS_EXEC_ORACLE_H

#include "lib/sched/placement.h"
#include "tests/model/collective_model.h"
#include "tests/unit/exec_world.h"

/* ---- one element ---- */

static inline _Noreturn void wrong(const struct part_files *f, int r, uint64_t i, const void *got,
                                   double complex want)
{
	const double complex x = model_number(f->p->dtype, got);
	fail_msg("rank %d, element %llu is %.17g%+.17gi, not %.17g%+.17gi: %s", r,
	         (unsigned long long)i, creal(x), cimag(x), creal(want), cimag(want),
	         describe(f->world));
	abort();
}

static inline void check_bits(const struct part_files *f, const struct model *m, int r, uint64_t i,
                              const void *got)
{
	uint8_t want[MODEL_ELEMENT];
	model_element(m, r, i, want);
	if (memcmp(got, want, dtype_size(m->dtype)) != 0)
		wrong(f, r, i, got, model_number(m->dtype, want));
}

static inline void check_near(const struct part_files *f, const struct model *m, int r, uint64_t i,
                              const void *got)
{
	double slack;
	const double complex want = model_near(m, r, i, &slack);
	if (!(cabs(model_number(m->dtype, got) - want) <= slack))
		wrong(f, r, i, got, want);
}

/* ---- all of them ---- */

static inline struct model model_of(const struct part_files *f)
{
	const struct problem *p = f->p;
	struct model m = model_of_blocks(p->alg->kind, p->size, p->root, p->off);
	m.dtype = p->dtype;
	m.op = p->op;
	m.divisor = p->divisor;
	m.trim = p->trim;
	for (int r = 0; r < p->size; r++) {
		if (p->uneven) {
			m.cut[r] = p->parts[r][0];
			m.rows[r] = m.cut[r][p->size];
		}
		m.ninputs[r] = p->inputs[r];
		for (int k = 0; k < p->inputs[r]; k++)
			m.in[r][k] = f->in[r][k];
	}
	return m;
}

/* All ranks' outputs of a part are right. */
static inline void check_part(const struct part_files *f)
{
	const struct problem *p = f->p;
	const struct model m = model_of(f);
	for (int r = 0; r < p->size; r++) {
		assert_int_equal(output_len(p, r), model_rows(&m, r));
		for (uint64_t i = 0, n = p->mute[r] ? 0 : output_len(p, r); i < n; i++) {
			const uint8_t *got = f->out[r] + i * dtype_size(p->dtype);
			if (model_rounds(&m) && !p->ordered)
				check_near(f, &m, r, i, got);
			else
				check_bits(f, &m, r, i, got);
		}
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
	return coll_reduces(p->alg->kind) && dtype_is_float(p->dtype) &&
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

/* The same, with lanes that hold the case's vector and no more: to clear them takes time. */
static inline struct timing ease_of(const struct problem *p)
{
	struct timing t = at_ease;
	const size_t bytes = 4096 + p->count * dtype_size(p->dtype);
	if (t.capacity > bytes)
		t.capacity = bytes;
	return t;
}

/* Where an algorithm cuts the window's own length, and what is added first depends on the piece, an
 * element's order of operands depends on the number of windows. */
static inline bool windows_matter(const struct problem *p)
{
	const struct coll_args a = args_of(p, 0);
	const struct hosts_sizes s = hosts_sizes(&a);
	const char *name = coll_resolve(p->alg, &a)->name;
	const bool hosts = !strcmp(name, "hosts");

	if (!rounds(p))
		return false;
	if (p->alg->kind == COLL_REDUCE)
		return hosts || !strcmp(name, "circulant");
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
	struct timing ease = ease_of(p);
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
#define NDTYPES LENGTH(dtypes)

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
	p->trim = 0.125 * below(state, 4);
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
	if (!coll_reduces(kind))
		return p->op == REDUCE_SUM; /* nobody looks at it */
	if (reduce_is_joint(p->op) && !(p->alg->flags & COLL_JOINT))
		return false;
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
#define NSIZES LENGTH(sizes)

#endif
