/*
 * Jobs of several parts: lists of collectives of any kind, type and operation that run on one mesh.
 * Every part is run alone at ease first and compared with the reference; then all run together,
 * under other streams, lane capacities, quanta and stalls, which must give the same bits. A failure
 * names its seed and parameters; COLLCTL_SEED=<seed> runs one list again, COLLCTL_LONG=1 many more.
 */
#include "algorithms/table.h"
#include "lib/exec/exec_internal.h"
#include "tests/unit/exec_oracle.h"

#ifdef COLLCTL_SANITIZED /* ten times slower: a smaller sample */
#define SAMPLE 40
#else
#define SAMPLE 250
#endif
#define TIMINGS 4

/* ---- lists ---- */

static uint64_t list_bytes(const struct list *l)
{
	uint64_t bytes = 0;
	for (int k = 0; k < l->n; k++)
		bytes += l->parts[k].count * dtype_size(wire_of(&l->parts[k]));
	return bytes;
}

static void pick_part(struct problem *p, uint64_t *state, int size)
{
	*p = (struct problem){.seed = draw(state) >> 40};
	do {
		p->alg = coll_algorithms[below(state, (unsigned)coll_algorithms_len)];
	} while (p->alg->kind == COLL_BARRIER || !serves(p->alg, size));
	do {
		p->dtype = dtypes[below(state, NDTYPES)];
		p->op = (enum reduce_op)below(state, REDUCE_OPS);
	} while (!sensible(p));
	p->count = pick_count(state, size);
	p->ordered = (p->alg->flags & COLL_ORDERED) && rounds(p) && below(state, 2);
	problem_fill(p, state, size, INPUTS);
	for (int r = 0; r < size; r++)
		p->mute[r] = below(state, 4) == 0;
	if (below(state, 3) == 0)
		uneven(p, state);
	if (p->alg->kind == COLL_ALLTOALL && below(state, 2))
		uneven_parts(p, state);
}

/* What the part before asks for, of other values; or all but the root, who writes, the inputs. */
static void pick_again(struct problem *p, uint64_t *state)
{
	switch (below(state, 4)) {
	case 0:
		p->root = (int)below(state, (unsigned)p->size);
		break;
	case 1:
		p->mute[below(state, (unsigned)p->size)] ^= true;
		break;
	case 2:
		if (coll_takes_several(p->alg->kind))
			p->inputs[below(state, (unsigned)p->size)] = 1 + (int)below(state, INPUTS);
		break;
	}
	p->seed = draw(state) >> 40;
}

/* Some of the ranks. Returns their number. */
static int pick_group(int *ranks, uint64_t *state, int size)
{
	int n = 0;
	for (int r = 0; r < size; r++)
		if (below(state, 2) || (!n && r == size - 1))
			ranks[n++] = r;
	return n;
}

static void pick_list(struct list *l, uint64_t *state, int size)
{
	l->n = 1 + (int)below(state, PARTS);
	for (int k = 0; k < l->n; k++) {
		bool again = k && !l->grouped[k - 1] && below(state, 4) == 0;
		l->grouped[k] = k && !again && below(state, 3) == 0;
		if (again) {
			l->parts[k] = l->parts[k - 1];
			pick_again(&l->parts[k], state);
		} else {
			pick_part(&l->parts[k], state,
			          l->grouped[k] ? pick_group(l->ranks[k], state, size) : size);
		}
		l->windows[k] = again ? l->windows[k - 1] : 1 + below(state, 5);
	}
}

/* ---- running them ---- */

/* Every part alone at ease, against the reference. */
static void run_alone(struct world alone[PARTS], const struct list *l)
{
	for (int k = 0; k < l->n; k++) {
		struct timing ease = at_ease;
		ease.windows = l->windows[k];
		run(&alone[k], &l->parts[k], &ease);
		check_values(&alone[k]);
	}
}

static void try_list(const struct list *l, const struct timing *t, int n)
{
	static struct world alone[PARTS], together;
	run_alone(alone, l);
	for (int i = 0; i < n; i++) {
		world_init_list(&together, l, &t[i]);
		run_world(&together);
		for (int k = 0; k < l->n; k++)
			same_bits(&together.parts[k], &alone[k].parts[0]);
		world_free(&together);
	}
	for (int k = 0; k < l->n; k++)
		world_free(&alone[k]);
}

static void one_list(uint64_t seed)
{
	static struct list l;
	uint64_t state = seed * 1000003;
	struct timing t[TIMINGS];
	pick_list(&l, &state, 1 + (int)below(&state, 9));
	for (int i = 0; i < TIMINGS; i++) {
		t[i] = pick_timing(&state, list_bytes(&l));
		t[i].files = i == TIMINGS - 1;
		t[i].stalls &= !t[i].files; /* only files may wake */
	}
	try_list(&l, t, TIMINGS);
}

TEST(parts_give_what_each_gives_alone)
{
	const char *one = getenv("COLLCTL_SEED");
	uint64_t n = long_run() ? 2500 : SAMPLE;
	if (one) {
		one_list(strtoull(one, NULL, 10));
		return;
	}
	for (uint64_t seed = 1; seed <= n; seed++)
		one_list(seed);
}

/* Lanes that take a byte at a time and stall: for lists that are small enough. */
TEST(parts_over_lanes_of_a_byte)
{
	for (uint64_t seed = 1; seed <= (long_run() ? 600 : SAMPLE / 4); seed++) {
		static struct list l;
		uint64_t s = seed * 7000003;
		pick_list(&l, &s, 1 + (int)below(&s, 9));
		struct timing t = {.streams = 1 + (int)below(&s, STREAMS),
		                   .capacity = 1,
		                   .quantum = 1,
		                   .stalls = true,
		                   .seed = seed};
		if (list_bytes(&l) < 2000)
			try_list(&l, &t, 1);
	}
}

/* Nothing, or an element, or fewer than ranks: most windows are empty. */
TEST(parts_of_hardly_anything)
{
	for (size_t a = 0; a < coll_algorithms_len; a++)
		for (uint64_t count = 0; count < 3; count++) {
			static struct list l;
			uint64_t s = 13 + a;
			int size = serves(coll_algorithms[a], 5) ? 5 : 4;
			if (coll_algorithms[a]->kind == COLL_BARRIER)
				continue;
			l.n = 3;
			for (int k = 0; k < l.n; k++) {
				pick_part(&l.parts[k], &s, size);
				l.parts[k].uneven = false;
				l.parts[k].count = (count + (uint64_t)k) % 3;
				coll_split(l.parts[k].count, size, l.parts[k].off);
				l.windows[k] = 1 + below(&s, 5);
			}
			l.parts[1].alg = coll_algorithms[a];
			l.parts[1].op = REDUCE_SUM;
			l.parts[1].ordered = false;
			problem_fill(&l.parts[1], &s, size, INPUTS);
			struct timing t = {.streams = 1 + (int)(count % STREAMS), .capacity = 64};
			try_list(&l, &t, 1);
		}
}

/* Parts whose windows are larger than a lane's turn, a writer's quantum, a conversion's piece and
 * the windows before. */
TEST(large_parts)
{
	static const struct {
		enum coll_kind kind;
		const char *algorithm;
		enum dtype dtype;
		enum reduce_op op;
	} of[] = {
	        {COLL_ALLREDUCE, "ring_chunked", DTYPE_U8, REDUCE_SUM},
	        {COLL_ALLREDUCE, "circulant", DTYPE_BF16, REDUCE_AVG},
	        {COLL_BROADCAST, "binomial", DTYPE_F64, REDUCE_SUM},
	        {COLL_ALLREDUCE, "direct", DTYPE_C128, REDUCE_AVG},
	};
	static struct list l;
	uint64_t s = 5;
	for (l.n = 0; l.n < 4; l.n++) {
		struct problem *p = &l.parts[l.n];
		*p = (struct problem){.alg = coll_find(of[l.n].kind, of[l.n].algorithm),
		                      .dtype = of[l.n].dtype,
		                      .op = of[l.n].op,
		                      .count = 50021 * (uint64_t)(l.n + 1),
		                      .seed = s};
		l.windows[l.n] = 3;
		problem_fill(p, &s, 3, 2);
	}
	struct timing t[] = {{.streams = 2, .capacity = 70001, .stalls = true, .seed = 1},
	                     {.streams = 3, .capacity = 70001, .files = true, .seed = 2}};
	try_list(&l, t, 2);
}

/* ---- progress ---- */

/* What is to be moved is known from the beginning: exactly where there is one window, else to a few
 * elements a window and peer. */
static void check_total(struct world *w, bool exactly)
{
	for (int r = 0; r < w->size; r++) {
		struct exec_stats s;
		uint64_t slack = 0;
		for (int k = 0; k < w->nparts; k++)
			slack += (uint64_t)(w->parts[k].windows * (uint32_t)w->size * 64);
		exec_stats(w->exec[r], &s);
		for (int k = 0; k < EXEC_MOVES; k++) {
			const uint64_t moved = s.moved[k], total = s.total[k];
			const uint64_t off = total > moved ? total - moved : moved - total;
			if (off > (exactly ? 0 : slack))
				fail_msg("rank %d moved %llu bytes of %llu (%d): %s", r,
				         (unsigned long long)moved, (unsigned long long)total, k,
				         describe(w));
		}
	}
}

TEST(the_total_is_known_before)
{
	for (uint64_t seed = 1; seed <= SAMPLE / 4; seed++) {
		static struct list l;
		static struct world w;
		uint64_t s = seed * 31;
		bool once = seed % 2;
		struct timing t = at_ease;
		pick_list(&l, &s, 1 + (int)below(&s, 9));
		for (int k = 0; once && k < l.n; k++)
			l.windows[k] = 1;
		t.streams = 1 + (int)below(&s, STREAMS);
		world_init_list(&w, &l, &t);
		run_world(&w);
		check_total(&w, once);
		world_free(&w);
	}
}

/* Whatever number of windows a coordinator gives: those without elements are passed over at once.
 */
TEST(edges_of_more_windows_than_elements)
{
	static const uint32_t windows[] = {1, 7, 97, 1000, UINT32_MAX};
	for (size_t i = 0; i < coll_algorithms_len; i++) {
		const uint64_t off[] = {0, 5, 5, 6, 11}, recv_off[] = {0, 5, 10, 15, 20};
		const bool parts = coll_algorithms[i]->kind == COLL_ALLTOALL;
		struct exec_vector v = {.algorithm = coll_algorithms[i],
		                        .args = {.rank = 1,
		                                 .size = 4,
		                                 .ninputs = 1,
		                                 .stores = true,
		                                 .off = off,
		                                 .recv_off = parts ? recv_off : NULL,
		                                 .steps = 1,
		                                 .esize = 4}};
		struct err err = {0};
		if (!serves(v.algorithm, 4) || v.algorithm->kind == COLL_BARRIER)
			continue;
		for (size_t k = 0; k < LENGTH(windows); k++) {
			const struct exec_conf conf = {.vectors = &v, .nvectors = 1};
			uint8_t found[4] = {0}, each[4] = {0};
			struct window w;
			v.windows = windows[k];
			if (exec_window_edges(&conf, found, &err) < 0)
				fail_msg("%s: %s", v.algorithm->name, err.text);
			if (windows[k] == UINT32_MAX)
				continue;
			assert_int_equal(window_init(&w, 4, &err), 0);
			for (uint32_t n = 0; n < windows[k]; n++) {
				window_set(&w, &v, n);
				assert_int_equal(exec_edges(w.algorithm, &w.args, each, &err), 0);
			}
			window_release(&w);
			assert_memory_equal(found, each, 4);
		}
	}
}

int main(void)
{
	return unit_run(NULL, NULL);
}
