/*
 * Lanes that break, over in-memory lanes: all ranks stop, and begin again with the first window
 * that is not complete on all of them, over new lanes. The bits are those of a run without a break,
 * and what is complete is not written again. COLLCTL_SEED=<seed> runs one case again.
 */
#include "algorithms/table.h"
#include "tests/unit/exec_oracle.h"

#ifdef COLLCTL_SANITIZED
#define SAMPLE 40
#else
#define SAMPLE 150
#endif
#define BREAKS 3

struct counts {
	int breaks, later; /* of these, with a complete window */
};

static uint64_t complete_on_all(const struct world *w)
{
	uint64_t least = UINT64_MAX;
	for (int r = 0; r < w->size; r++)
		if (exec_complete(w->exec[r]) < least)
			least = exec_complete(w->exec[r]);
	return least;
}

/* Overwrite what is to be computed again: all but window 0 to @first - 1 of every block. */
static void spoil(struct world *w, uint64_t first)
{
	const struct part_files *f = &w->parts[0];
	const struct problem *p = f->p;
	const size_t esize = dtype_size(p->dtype);
	for (int r = 0; r < p->size; r++) {
		const struct coll_layout l = layout_of(p, r);
		const struct coll_args a = args_of(p, r);
		for (int j = l.out_lo; j < l.out_hi; j++) {
			const uint64_t at = coll_out_at(p->alg->kind, &a, j),
			               len = coll_out_at(p->alg->kind, &a, j + 1) - at,
			               done = (uint64_t)((unsigned __int128)len * first /
			                                 f->windows);
			memset(f->out[r] + (at + done) * esize, 0x5a, (len - done) * esize);
		}
	}
}

/* A lane of those of @easy breaks, or none if the place is not reached. */
static void draw_break(struct world *w, const struct world *easy, uint64_t *state)
{
	const struct tap *lane = NULL;
	for (int tries = 0; tries < 100 && (!lane || !lane->seen); tries++) {
		w->fault_from = (int)below(state, (unsigned)w->size);
		w->fault_to = (int)below(state, (unsigned)w->size);
		lane = easy->taps[w->fault_from][w->fault_to][0][0];
	}
	w->fault = lane ? FAULT_RESET : FAULT_NONE;
	w->fault_at = lane ? draw(state) % (lane->seen / (uint64_t)w->t.streams + 1) : 0;
	if (w->t.lends) /* references are to whole elements */
		w->fault_at -= w->fault_at % MODEL_ELEMENT;
}

static void play_with_breaks(struct world *w, const struct world *easy, uint64_t *state,
                             struct counts *n)
{
	for (int i = 0;; i++) {
		struct err err = ERR_INIT;
		int failed = -1;
		w->fault = FAULT_NONE;
		if (i < BREAKS)
			draw_break(w, easy, state);
		start(w);
		if (play(w, &failed, &err) == 0)
			return;
		if (err.code != ERR_PEER_LOST || err.rank != w->fault_from || failed != w->fault_to)
			fail_msg("rank %d failed (%d): %s: %s", failed, err.code, err.text,
			         describe(w));
		const uint64_t first = complete_on_all(w);
		assert_true(first >= w->first && first <= w->t.windows);
		stop(w);
		spoil(w, first);
		w->first = first;
		n->breaks++;
		n->later += first > 0;
	}
}

static void one_case(uint64_t seed, struct counts *n)
{
	static struct world easy, other;
	uint64_t state = seed * 7919;
	struct problem p = {.seed = seed, .op = REDUCE_SUM};
	int size;
	do {
		p.alg = coll_algorithms[below(&state, (unsigned)coll_algorithms_len)];
		size = sizes[1 + below(&state, NSIZES - 2)];
	} while (p.alg->kind == COLL_BARRIER || !serves(p.alg, size));
	p.dtype = dtypes[below(&state, NDTYPES)];
	p.op = below(&state, 2) ? REDUCE_AVG : REDUCE_SUM;
	if (!sensible(&p))
		p.op = REDUCE_SUM;
	p.count = 100 + below(&state, 2000);
	problem_fill(&p, &state, size, INPUTS);
	struct timing t = pick_timing(&state, p.count * dtype_size(wire_of(&p)));
	t.windows = 1 + below(&state, 9);
	t.lends = seed % 5 == 1;
	t.piece = seed % 5 == 2 ? 64 : 0;
	t.files = seed % 5 == 3;
	t.stalls &= !t.files;
	struct timing ease = ease_of(&p);
	ease.windows = windows_matter(&p) ? t.windows : 1;
	run(&easy, &p, &ease);
	check_values(&easy);
	world_init(&other, &p, &t);
	play_with_breaks(&other, &easy, &state, n);
	same_bits(&other.parts[0], &easy.parts[0]);
	check_ranks(&other.parts[0]);
	world_free(&easy);
	world_free(&other);
}

TEST(lanes_that_break)
{
	const char *one = getenv("COLLCTL_SEED");
	struct counts n = {0};
	uint64_t last = long_run() ? 20000 : SAMPLE;
	if (one) {
		one_case(strtoull(one, NULL, 10), &n);
		return;
	}
	for (uint64_t seed = 1; seed <= last; seed++)
		one_case(seed, &n);
	assert_true(n.breaks > (int)last && n.later > (int)last / 4);
}

/* The last window is complete on all ranks, and a lane breaks before its end: nothing is left. */
TEST(a_lane_breaks_behind_the_last_window)
{
	static struct world w;
	uint64_t seed = 5;
	struct problem p = {.alg = coll_find(COLL_ALLREDUCE, "ring_chunked"),
	                    .dtype = DTYPE_F32,
	                    .op = REDUCE_SUM,
	                    .count = 100,
	                    .seed = 3};
	struct timing t = {.windows = 4, .streams = 3, .capacity = 64, .seed = 1};
	problem_fill(&p, &seed, 3, 1);
	world_init(&w, &p, &t);
	w.first = 4;
	run_world(&w);
	for (int r = 0; r < p.size; r++)
		assert_int_equal(exec_complete(w.exec[r]), 4);
	assert_int_equal(w.parts[0].out[0][0], 0xa5);
	world_free(&w);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
