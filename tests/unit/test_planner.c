/* The planner: what rank 0 chooses from what all ranks offer, as every rank then reads it. */
#include <stdlib.h>
#include <string.h>

#include "algorithms/table.h"
#include "lib/coll/agreement/planner.h"
#include "tests/unit/unit.h"

#define SIZE 3

/* Offers of SIZE ranks with arrays of rows[r] rows, cut as counts[r] say; rank 0's vector is like
 * its array. */
struct world {
	struct coll_request request;
	struct agreement agreed;
	struct planner planner;
	void (*selected)(void *ctx, const struct select_args *, const struct selection *);
	void *selected_ctx;
	struct plan plan;
	struct offer offers[SIZE];
	struct offered_array arrays[SIZE];
	uint32_t ninputs[SIZE];
};

static struct array_info array(uint64_t rows, enum dtype dtype)
{
	struct array_info info = {
	        .format = &format_npy, .dtype = dtype, .ndim = 2, .shape = {rows, 2}};
	assert_int_equal(array_count(&info), 0);
	return info;
}

static void begin(struct world *w, struct coll_request request, enum dtype dtype,
                  const uint64_t rows[SIZE])
{
	struct err err = {0};
	*w = (struct world){.request = request, .plan = {.memory = 256u << 20}};
	w->request.command = coll_name(request.kind);
	if (!w->request.algorithm)
		w->request.algorithm = "auto";
	w->plan.total_inputs = SIZE;
	w->agreed = (struct agreement){.size = SIZE, .ncame = SIZE};
	assert_int_equal(vectors_of_arrays(&w->agreed, 1, &err), 0);
	struct vector *v = &w->agreed.vectors[0];
	v->info = array(rows[0], dtype);
	v->dtype = dtype;
	vector_serve(v, &w->agreed, &w->request, 1);
	if (coll_rules(request.kind)->cut == CUT_ROWS) {
		v->rows = calloc(SIZE, sizeof *v->rows);
		assert_non_null(v->rows);
		layout_cut_rows(rows[0], NULL, SIZE, v->rows);
	}
	for (int r = 0; r < SIZE; r++) {
		w->ninputs[r] = 1;
		w->arrays[r] = (struct offered_array){.info = array(rows[r], dtype)};
		w->offers[r] = (struct offer){
		        .weights = 1,
		        .claims = view_of("", 0),
		        .content = {.has = OFFER_ARRAYS, .arrays = &w->arrays[r], .narrays = 1}};
	}
}

/* Seconds to each host, when decide() settles the network; the streams that rank 1 asks for. */
static double far_away;
static uint32_t asked;

static int decide(struct world *w, struct err *err)
{
	w->planner = (struct planner){.request = &w->request,
	                              .agreed = &w->agreed,
	                              .selected = w->selected,
	                              .selected_ctx = w->selected_ctx};
	int ret = planner_init(&w->planner, err);
	for (int r = 0; r < SIZE && ret == 0; r++)
		ret = planner_take(&w->planner, r, &w->offers[r], w->ninputs[r], r == 1 ? asked : 0,
		                   err);
	for (int h = 0; h < w->planner.network.n; h++)
		network_add_round_trip(&w->planner.network, h, far_away);
	network_settle(&w->planner.network, &price_default);
	return ret < 0 ? -1 : planner_decide(&w->planner, &w->plan, err);
}

/* The terms of @rank, as it reads them; to be released with *form. */
static struct terms terms_of(const struct world *w, int rank, struct terms_form *form)
{
	struct err err = {0};
	struct terms t;
	struct buf b;
	buf_init(&b, DETAILS_MAX);
	planner_terms(&w->planner, rank, view_of("", 0), &b);
	assert_false(b.failed);
	*form = terms_form_of(&w->request, rank, SIZE, w->agreed.root, w->agreed.rank, 0);
	assert_int_equal(terms_get(view_of(b.data, b.len), form, &t, &err), 0);
	t.root = view_of("", 0);
	buf_release(&b);
	return t;
}

static void end(struct world *w)
{
	planner_release(&w->planner);
	agreement_release(&w->agreed);
}

static const uint64_t same[SIZE] = {5, 5, 5};

/* It has the ranks' lists of gathered files. */
TEST(a_root_that_plans_is_sent_no_files)
{
	const struct coll_request gather = {.kind = COLL_GATHER, .files.raw_file = true};
	assert_false(terms_form_of(&gather, 0, SIZE, 0, 0, 0).gathered);
	assert_true(terms_form_of(&gather, 1, SIZE, 1, 0, 0).gathered);
	assert_false(terms_form_of(&gather, 2, SIZE, 1, 0, 0).gathered);
}

/* A list of files that take more memory than there is for those of all ranks. */
static struct file_list long_list(int n)
{
	struct file_list l = {.format = &format_raw, .tree = true, .folder = true};
	l.files = calloc((size_t)n, sizeof *l.files);
	assert_non_null(l.files);
	for (l.nfiles = 0; l.nfiles < n; l.nfiles++)
		assert_non_null(l.files[l.nfiles].name = strdup("a name of a file"));
	return l;
}

TEST(lists_of_gathered_files_are_limited_by_memory)
{
	static const int n = (5 << 20) / (int)sizeof(struct listed_file) / SIZE;
	for (int enough = 0; enough < 2; enough++) {
		struct err err = {0};
		struct rank_files files[SIZE] = {0};
		struct world w;
		begin(&w, (struct coll_request){.kind = COLL_GATHER, .files.raw_file = true},
		      DTYPE_U8, same);
		w.request.settings.memory = enough ? 64u << 20 : 64u << 10;
		for (int r = 0; r < SIZE; r++) {
			files[r].files = long_list(n);
			w.offers[r].content.gathered = &files[r];
		}
		assert_int_equal(decide(&w, &err), enough ? 0 : -1);
		assert_int_equal(err.code, enough ? 0 : ERR_RESOURCE);
		assert_true(enough || strstr(err.text, "give more --memory"));
		for (int r = 0; r < SIZE; r++)
			rank_files_release(&files[r]);
		end(&w);
	}
}

TEST(all_ranks_get_the_same_terms)
{
	struct err err = {0};
	struct terms_form form;
	struct world w;
	begin(&w, (struct coll_request){.kind = COLL_ALLREDUCE}, DTYPE_F32, same);
	assert_int_equal(decide(&w, &err), 0);
	for (int r = 0; r < SIZE; r++) {
		struct terms t = terms_of(&w, r, &form);
		assert_int_equal(t.nvectors, 1);
		assert_non_null(coll_find(COLL_ALLREDUCE, t.vectors[0].algorithm));
		assert_true(t.vectors[0].wire == DTYPE_F32 && t.vectors[0].windows == 1);
		assert_true(!t.weighted && t.keeps_order && t.divisor == SIZE);
		assert_null(t.vectors[0].rows);
		terms_release(&t, &form);
	}
	assert_int_equal(w.plan.streams, 1);
	end(&w);
}

TEST(a_named_algorithm_is_taken)
{
	struct err err = {0};
	struct world w;
	begin(&w, (struct coll_request){.kind = COLL_ALLREDUCE, .algorithm = "ring"}, DTYPE_F32,
	      same);
	assert_int_equal(decide(&w, &err), 0);
	struct terms_form form;
	struct terms t = terms_of(&w, 2, &form);
	assert_string_equal(t.vectors[0].algorithm, "ring");
	terms_release(&t, &form);
	end(&w);
}

/* Little memory makes many windows. */
TEST(memory_makes_windows)
{
	static const uint64_t many[SIZE] = {1u << 20, 1u << 20, 1u << 20};
	struct err err = {0};
	struct terms_form form;
	struct world w;
	begin(&w, (struct coll_request){.kind = COLL_ALLREDUCE}, DTYPE_F32, many);
	w.plan.memory = 1u << 20;
	assert_int_equal(decide(&w, &err), 0);
	struct terms t = terms_of(&w, 0, &form);
	assert_true(t.vectors[0].windows > 16 && w.plan.streams > 1);
	terms_release(&t, &form);
	end(&w);
}

TEST(joined_rows_are_told_to_all)
{
	static const uint64_t rows[SIZE] = {4, 0, 9};
	struct err err = {0};
	struct terms_form form;
	struct world w;
	begin(&w, (struct coll_request){.kind = COLL_ALLGATHER}, DTYPE_F32, rows);
	assert_int_equal(decide(&w, &err), 0);
	for (int r = 0; r < SIZE; r++) {
		struct terms t = terms_of(&w, r, &form);
		assert_memory_equal(t.vectors[0].rows, rows, sizeof rows);
		terms_release(&t, &form);
	}
	end(&w);
}

/* Cuts that differ: every rank learns what comes to it; cuts that are alike need not be told. */
TEST(an_alltoall_is_transposed)
{
	/* Also of two ranks alike, and as even as possible. */
	uint64_t kinds[][SIZE][SIZE] = {{{1, 2, 2}, {0, 5, 0}, {3, 1, 1}},
	                                {{1, 2, 2}, {1, 2, 2}, {3, 1, 1}},
	                                {{3, 1, 1}, {2, 2, 1}, {2, 2, 1}},
	                                {{3, 1, 1}, {3, 1, 1}, {3, 1, 1}},
	                                {{2, 2, 1}, {2, 2, 1}, {2, 2, 1}}};
	struct err err = {0};
	struct terms_form form;
	struct world w;
	for (int i = -1; i < 5; i++) {
		uint64_t(*cuts)[SIZE] = kinds[i < 0 ? 0 : i];
		const bool uneven = i >= 0 && i < 3;
		begin(&w, (struct coll_request){.kind = COLL_ALLTOALL}, DTYPE_F32, same);
		for (int r = 0; r < SIZE && i >= 0; r++)
			w.arrays[r].counts = cuts[r];
		assert_int_equal(decide(&w, &err), 0);
		for (int r = 0; r < SIZE; r++) {
			struct terms t = terms_of(&w, r, &form);
			assert_true(!uneven == !t.vectors[0].from);
			for (int s = 0; s < SIZE && uneven; s++)
				assert_int_equal(t.vectors[0].from[s], cuts[s][r]);
			terms_release(&t, &form);
		}
		end(&w);
	}
}

TEST(weights_add_up)
{
	struct err err = {0};
	struct world w;
	begin(&w, (struct coll_request){.kind = COLL_ALLREDUCE, .op = REDUCE_AVG}, DTYPE_F32, same);
	w.offers[1].weights = 0.5;
	w.offers[1].weighted = true;
	w.offers[2].weights = 0;
	w.offers[2].weighted = true;
	assert_int_equal(decide(&w, &err), 0);
	assert_true(w.planner.weighted && w.planner.divisor == 1.5);
	end(&w);
	begin(&w, (struct coll_request){.kind = COLL_ALLREDUCE, .op = REDUCE_AVG}, DTYPE_F32, same);
	for (int r = 0; r < SIZE; r++)
		w.offers[r].weights = 0;
	assert_int_equal(decide(&w, &err), -1);
	assert_int_equal(err.code, ERR_USAGE);
	end(&w);
}

/* The operation needs all inputs of all ranks: the algorithm has them, and every rank knows how
 * many the others have. */
TEST(joint_operations_are_told_the_inputs)
{
	static const enum coll_kind kinds[] = {COLL_ALLREDUCE, COLL_REDUCE, COLL_REDUCE_SCATTER};
	struct err err = {0};
	struct terms_form form;
	struct world w;
	for (size_t i = 0; i < LENGTH(kinds); i++) {
		begin(&w, (struct coll_request){.kind = kinds[i], .op = REDUCE_MEDIAN}, DTYPE_F16,
		      same);
		w.ninputs[1] = 4;
		w.plan.total_inputs = 6;
		assert_int_equal(decide(&w, &err), 0);
		struct terms t = terms_of(&w, 2, &form);
		assert_non_null(t.inputs);
		assert_true(t.inputs[0] == 1 && t.inputs[1] == 4 && t.inputs[2] == 1);
		assert_true(coll_find(kinds[i], t.vectors[0].algorithm)->flags & COLL_JOINT);
		assert_int_equal(t.vectors[0].wire, DTYPE_F16);
		terms_release(&t, &form);
		end(&w);
	}
}

/* Their scratch counts: more inputs make more windows. */
TEST(joint_operations_need_memory)
{
	static const uint64_t many[SIZE] = {1u << 20, 1u << 20, 1u << 20};
	uint32_t windows[2];
	struct err err = {0};
	struct terms_form form;
	struct world w;
	for (uint32_t i = 0; i < 2; i++) {
		begin(&w, (struct coll_request){.kind = COLL_REDUCE, .op = REDUCE_MEDIAN},
		      DTYPE_F32, many);
		for (int r = 0; r < SIZE; r++)
			w.ninputs[r] = 1 + 9 * i;
		w.plan.memory = 1u << 20;
		assert_int_equal(decide(&w, &err), 0);
		struct terms t = terms_of(&w, 0, &form);
		windows[i] = t.vectors[0].windows;
		terms_release(&t, &form);
		end(&w);
	}
	assert_in_range(windows[1], 8 * windows[0], 12 * windows[0]);
}

static int decide_joint(enum reduce_op op, enum coll_integers integers, enum dtype dtype,
                        uint32_t third, struct err *err)
{
	struct world w;
	err_clear(err);
	begin(&w, (struct coll_request){.kind = COLL_ALLREDUCE, .op = op, .integers = integers},
	      dtype, same);
	w.ninputs[2] = third;
	const int ret = decide(&w, err);
	end(&w);
	return ret;
}

TEST(joint_operations_that_are_refused)
{
	struct err err = {0};
	assert_int_equal(decide_joint(REDUCE_MEDIAN, INTEGERS_NONE, DTYPE_I32, 1, &err), 0);
	assert_int_equal(decide_joint(REDUCE_MEDIAN, INTEGERS_NONE, DTYPE_I32, 2, &err), -1);
	assert_true(err.code == ERR_USAGE && strstr(err.text, "inputs, 4,"));
	assert_int_equal(decide_joint(REDUCE_MEDIAN, INTEGERS_ROUND, DTYPE_I32, 2, &err), 0);
	assert_int_equal(decide_joint(REDUCE_MEDIAN, INTEGERS_FIRST, DTYPE_I32, 2, &err), 0);
	assert_int_equal(decide_joint(REDUCE_MEDIAN, INTEGERS_NONE, DTYPE_F32, 4094, &err), 0);
	assert_int_equal(decide_joint(REDUCE_MEDIAN, INTEGERS_NONE, DTYPE_F32, 4095, &err), -1);
	assert_true(err.code == ERR_USAGE && strstr(err.text, "4097"));
	assert_int_equal(decide_joint(REDUCE_MEDIAN, INTEGERS_NONE, DTYPE_F32, 0, &err), -1);
	assert_int_equal(err.code, ERR_INTEGRITY);
}

/* Of several groups of readers the largest, and of no group none. */
TEST(the_same_inputs_are_found)
{
	static const struct {
		uint64_t reads[SIZE];
		int n, ranks[SIZE];
	} cases[] = {
	        {{0}, 0, {0}},          {{7, 8, 9}, 0, {0}},       {{7, 8, 7}, 2, {0, 2}},
	        {{0, 9, 9}, 2, {1, 2}}, {{9, 9, 9}, 3, {0, 1, 2}},
	};
	struct err err = {0};
	struct world w;
	int ranks[SIZE];
	for (size_t i = 0; i < LENGTH(cases); i++) {
		begin(&w, (struct coll_request){.kind = COLL_ALLREDUCE}, DTYPE_F32, same);
		for (int r = 0; r < SIZE; r++)
			w.offers[r].reads = cases[i].reads[r];
		assert_int_equal(decide(&w, &err), 0);
		assert_int_equal(planner_same_inputs(&w.planner, ranks, &err), cases[i].n);
		assert_memory_equal(ranks, cases[i].ranks, (size_t)cases[i].n * sizeof *ranks);
		end(&w);
	}
}

/* What the ranks know of their links is the network of the plan: of each host, whose ranks may
 * differ, by the best source, and then the lowest. */
TEST(links_are_the_network)
{
	static const int host[SIZE] = {0, 1, 1};
	struct err err = {0};
	struct world w;
	begin(&w, (struct coll_request){.kind = COLL_ALLREDUCE}, DTYPE_F32, same);
	w.agreed.host = host;
	w.offers[0].link = (struct network_found){.limit = 5000};
	w.offers[1].link = (struct network_found){8000, 9000, NETWORK_TOLD, 0, 0};
	w.offers[2].link = (struct network_found){100, 100, NETWORK_INTERFACE, 1000, 0};
	assert_int_equal(decide(&w, &err), 0);
	assert_int_equal(w.planner.network.n, 2);
	const struct network_found *found = &w.planner.network.host[0].found;
	assert_true(!found->up && !found->down && !found->from && found->limit == 5000);
	found = &w.planner.network.host[1].found;
	assert_true(found->up == 8000 && found->down == 9000 && found->from == NETWORK_TOLD &&
	            found->limit == 1000);
	assert_true(w.planner.network.limited && w.planner.network.uneven);
	end(&w);
}

/* Long round trips change the choice; the planner knows what it would be without them. */
TEST(far_hosts)
{
	static const uint64_t rows[SIZE] = {1 << 20, 1 << 20, 1 << 20};
	static const double away[] = {1e-4, 0.05};
	for (int i = 0; i < 2; i++) {
		const struct coll_algorithm *chosen, *near;
		struct err err = {0};
		struct world w;
		begin(&w, (struct coll_request){.kind = COLL_ALLREDUCE}, DTYPE_F32, rows);
		far_away = away[i];
		assert_int_equal(decide(&w, &err), 0);
		far_away = 0;
		near = planner_near_choice(&w.planner, 0, &chosen);
		assert_true(i ? near && near != chosen : !near);
		end(&w);
	}
}

/* Over long round trips there are as many streams as fill the links, by the smallest buffers of any
 * rank, unless a rank asks for another number; each has a window. */
TEST(far_hosts_have_more_streams)
{
	static const uint64_t rows[SIZE] = {1 << 20, 1 << 20, 1 << 20};
	static const struct {
		double away;
		uint64_t socket;
		uint32_t asked, streams;
	} cases[] = {{1e-4, 1 << 20, 0, 3},
	             {0.05, 1 << 20, 0, 8}, /* 1 Gbit/s, 64 ms: 7.5 MB */
	             {0.05, 1 << 22, 0, 3},
	             {0.05, 1 << 20, 5, 5},
	             {0.2, 0, 0, 15}};
	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct err err = {0};
		struct world w;
		begin(&w, (struct coll_request){.kind = COLL_ALLREDUCE, .algorithm = "ring"},
		      DTYPE_F32, rows);
		for (int r = 0; r < SIZE; r++)
			w.offers[r].link =
			        (struct network_found){125000000, 125000000, NETWORK_TOLD, 0,
			                               r ? cases[i].socket : 8 * cases[i].socket};
		far_away = cases[i].away;
		asked = cases[i].asked;
		assert_int_equal(decide(&w, &err), 0);
		far_away = 0;
		asked = 0;
		assert_int_equal(w.plan.streams, cases[i].streams);
		end(&w);
	}
}

/* The shares of unequal links are in the terms of every rank. */
TEST(shares_are_in_the_terms)
{
	static const uint64_t rows[SIZE] = {1 << 20, 1 << 20, 1 << 20};
	struct err err = {0};
	struct terms_form form;
	struct world w;
	begin(&w, (struct coll_request){.kind = COLL_ALLREDUCE, .algorithm = "weighted"}, DTYPE_F32,
	      rows);
	for (int r = 0; r < SIZE; r++)
		w.offers[r].link = (struct network_found){r < 2 ? 80000000 : 8000000, 80000000,
		                                          NETWORK_TOLD, 0, 0};
	assert_int_equal(decide(&w, &err), 0);
	for (int r = 0; r < SIZE; r++) {
		struct terms t = terms_of(&w, r, &form);
		assert_string_equal(t.vectors[0].algorithm, "weighted");
		assert_non_null(t.shares);
		assert_true(t.shares[0] == t.shares[1] && t.shares[2] == 0);
		terms_release(&t, &form);
	}
	end(&w);
}

/* A job that also broadcasts integers has one list of shares: for its own kind. */
TEST(shares_are_for_the_kind_of_the_job)
{
	static const uint64_t rows[SIZE] = {1 << 20, 1 << 20, 1 << 20};
	for (int other = 0; other < 2; other++) {
		struct offered_array two[2] = {{.info = array(rows[0], DTYPE_F32)},
		                               {.info = array(rows[0], DTYPE_F32)}};
		struct err err = {0};
		struct world w;
		begin(&w, (struct coll_request){.kind = COLL_ALLREDUCE}, DTYPE_F32, rows);
		agreement_release(&w.agreed);
		w.agreed = (struct agreement){.size = SIZE, .ncame = SIZE};
		assert_int_equal(vectors_of_arrays(&w.agreed, 2, &err), 0);
		for (int i = 0; i < 2; i++) {
			w.agreed.vectors[i].info = array(rows[0], DTYPE_F32);
			w.agreed.vectors[i].dtype = DTYPE_F32;
			vector_serve(&w.agreed.vectors[i], &w.agreed, &w.request, 1);
		}
		w.agreed.vectors[other].kind = COLL_BROADCAST;
		for (int r = 0; r < SIZE; r++) {
			w.offers[r].content.arrays = two;
			w.offers[r].content.narrays = 2;
			w.offers[r].link = (struct network_found){r ? 4000000 : 40000000, 40000000,
			                                          NETWORK_TOLD, 0, 0};
		}
		assert_int_equal(decide(&w, &err), 0);
		struct terms_form form;
		struct terms t = terms_of(&w, 1, &form);
		for (int i = 0; i < 2; i++)
			assert_string_equal(t.vectors[i].algorithm, "weighted");
		assert_int_equal(t.shares[1], 0);
		terms_release(&t, &form);
		end(&w);
	}
}

static void see_host(void *ctx, const struct select_args *args, const struct selection *s)
{
	(void)s;
	*(const int **)ctx = args->host;
}

/* The choice of `auto` gets the ranks' hosts. */
TEST(the_choice_knows_the_hosts)
{
	static const int host[SIZE] = {0, 0, 1};
	const int *seen = NULL;
	struct err err = {0};
	struct world w;
	begin(&w, (struct coll_request){.kind = COLL_ALLREDUCE}, DTYPE_F32, same);
	w.agreed.host = host;
	w.selected = see_host;
	w.selected_ctx = &seen;
	assert_int_equal(decide(&w, &err), 0);
	assert_ptr_equal(seen, host);
	end(&w);
}

/* Of tensors in Fortran's order all ranks' must be the same to stay so. */
TEST(orders_are_compared)
{
	static const uint64_t orders[][SIZE] = {
	        {7, 7, 7}, {7, 7, 9}, {OFFER_ORDER_MIXED, OFFER_ORDER_MIXED, OFFER_ORDER_MIXED}};
	for (int i = 0; i < 3; i++) {
		struct err err = {0};
		struct world w;
		begin(&w, (struct coll_request){.kind = COLL_ALLREDUCE}, DTYPE_F32, same);
		for (int r = 0; r < SIZE; r++)
			w.offers[r].order = orders[i][r];
		assert_int_equal(decide(&w, &err), 0);
		assert_true(w.planner.keeps_order == (i == 0));
		end(&w);
	}
}

/* An allreduce has one result, which rank 0 writes; those of a scan differ. */
TEST(outputs_of_one_place)
{
	static const enum coll_kind kinds[] = {COLL_ALLREDUCE, COLL_SCAN};
	static const uint64_t place = 77;
	for (int i = 0; i < 2; i++) {
		struct err err = {0};
		struct buf b;
		struct world w;
		begin(&w, (struct coll_request){.kind = kinds[i]}, DTYPE_F32, same);
		buf_init(&b, 4096);
		claims_put(&b, "out.npy", &place, 1);
		for (int r = 0; r < SIZE; r++)
			w.offers[r].claims = view_of(b.data, b.len);
		assert_int_equal(decide(&w, &err), i ? -1 : 0);
		assert_int_equal(err.code, i ? ERR_USAGE : 0);
		for (int r = 0; r < SIZE && !i; r++) {
			bool *dropped;
			uint32_t n;
			assert_int_equal(claims_dropped(&w.planner.claims, r, &dropped, &n, &err),
			                 0);
			assert_true(n == 1 && dropped[0] == (r != 0));
			free(dropped);
		}
		buf_release(&b);
		end(&w);
	}
}

/* What a peer has sent can be read, and yet can't be. */
TEST(offers_that_can_t_be)
{
	struct err err = {0};
	struct world w;
	begin(&w, (struct coll_request){.kind = COLL_ALLGATHER}, DTYPE_F32, same);
	w.offers[1].content.has = OFFER_NOTHING;
	assert_int_equal(decide(&w, &err), -1);
	assert_int_equal(err.code, ERR_INTEGRITY);
	end(&w);
	err_clear(&err);
	begin(&w, (struct coll_request){.kind = COLL_ALLGATHER}, DTYPE_F32, same);
	w.arrays[2].info.ndim = 0;
	assert_int_equal(decide(&w, &err), -1);
	assert_int_equal(err.code, ERR_INTEGRITY);
	end(&w);
	err_clear(&err);
	begin(&w, (struct coll_request){.kind = COLL_ALLGATHER}, DTYPE_F32, same);
	w.offers[2].content.narrays = 0;
	assert_int_equal(decide(&w, &err), -1);
	end(&w);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
