#include "algorithms/table.h"
#include "lib/coll/agreement/planner.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/coll/agreement/agree_wire.h"
#include "lib/data/kernels/joint.h"
#include "lib/exec/exec.h"
#include "lib/sched/placement.h"

/* The decisions for a vector and their inputs. */
struct planned {
	const struct coll_algorithm *algorithm;
	const struct coll_algorithm *near; /* the choice of `auto` for near hosts */
	double seconds;                    /* the predicted time; 0: the algorithm has no price */
	enum dtype wire;
	uint32_t windows;
	uint64_t *all_rows; /* [size] rows of every rank's array; NULL: all equal */
	/* alltoall: [size] the rows that each rank sends to each, for ranks that give them; NULL:
	 * as even as possible. Consecutive ranks with equal lists share one. */
	uint64_t **counts;
	bool uneven; /* alltoall: the ranks cut their arrays differently */
};

static const struct coll_rules *rules_of(const struct planner *p)
{
	return coll_rules(p->request->kind);
}

static bool is_joint(const struct planner *p)
{
	return request_is_joint(p->request);
}

struct offer_form offer_form_of(const struct coll_request *r, int size)
{
	return (struct offer_form){.size = size,
	                           .names = r->each && r->kind == COLL_SCATTER,
	                           .gathered = request_gathers_files(r)};
}

struct terms_form terms_form_of(const struct coll_request *r, int rank, int size, int root,
                                int planner, uint32_t nclaims)
{
	return (struct terms_form){.size = size,
	                           .nclaims = nclaims,
	                           .rows = coll_rules(r->kind)->cut == CUT_JOINED,
	                           .joint = request_is_joint(r),
	                           .from = r->kind == COLL_ALLTOALL,
	                           .gathered = request_gathers_files(r) && rank == root &&
	                                       rank != planner};
}

/* ---- the ranks' offers ---- */

static int init_vector(const struct planner *p, struct planned *v, struct err *err)
{
	const size_t size = (size_t)p->agreed->size;
	const bool cuts = p->request->kind == COLL_ALLTOALL;
	v->all_rows = err_calloc(size, sizeof *v->all_rows, "the ranks' rows", err);
	if (cuts)
		v->counts = err_calloc(size, sizeof *v->counts, "the ranks' rows", err);
	return v->all_rows && (v->counts || !cuts) ? 0 : -1;
}

int planner_init(struct planner *p, struct err *err)
{
	size_t n = (size_t)p->agreed->nvectors, size = (size_t)p->agreed->size;
	p->keeps_order = true;
	p->most_inputs = 1;
	p->nvectors = p->agreed->nvectors;
	if (network_init(&p->network, hosts_or_ranks(agreement_hosts(p->agreed), p->agreed->ncame),
	                 p->tuning, err) < 0)
		return -1;
	p->vectors = err_calloc(n, sizeof *p->vectors, "the plan", err);
	p->reads = err_calloc(size, sizeof *p->reads, "the plan", err);
	if (request_gathers_files(p->request))
		p->gathered = err_calloc(size, sizeof *p->gathered, "the plan", err);
	if (is_joint(p) &&
	    !(p->inputs = err_calloc(size, sizeof *p->inputs, "the ranks' inputs", err)))
		return -1;
	if (!p->vectors || !p->reads || (request_gathers_files(p->request) && !p->gathered))
		return -1;
	for (size_t i = 0; i < n && request_any_rows(p->request); i++)
		if (init_vector(p, &p->vectors[i], err) < 0)
			return -1;
	return 0;
}

static bool same_counts(const uint64_t *a, const uint64_t *b, size_t size)
{
	return a == b || (a && b && memcmp(a, b, size * sizeof *a) == 0);
}

static bool is_even(uint64_t rows, const uint64_t *counts, int size)
{
	for (int j = 0; j < size; j++)
		if (counts[j] != layout_cut_at(rows, NULL, size, j))
			return false;
	return true;
}

static int take_counts(const struct planner *p, struct planned *v, int rank,
                       const struct offered_array *a, struct err *err)
{
	const size_t size = (size_t)p->agreed->size;
	uint64_t *before = rank ? v->counts[rank - 1] : NULL;
	if (!a->counts || is_even(a->info.shape[0], a->counts, p->agreed->size))
		return 0;
	if (same_counts(a->counts, before, size)) {
		v->counts[rank] = before;
		return 0;
	}
	if (!(v->counts[rank] =
	              err_calloc(size, sizeof *a->counts, "the rows that a rank sends", err)))
		return -1;
	memcpy(v->counts[rank], a->counts, size * sizeof *a->counts);
	return 0;
}

/* Add the rank's array. Only its rows and their division may differ from the others'. */
static int take_array(struct planner *p, struct planned *v, int rank, const struct offered_array *a,
                      struct err *err)
{
	if (a->info.ndim == 0)
		return err_set(err, ERR_INTEGRITY, "its array has no axis 0");
	v->all_rows[rank] = a->info.shape[0];
	return v->counts ? take_counts(p, v, rank, a, err) : 0;
}

static int take_files(struct planner *p, int rank, struct rank_files *files, struct err *err)
{
	const uint64_t limit = budget_lists(p->request->settings.memory);
	p->listed += file_list_memory(&files->files);
	p->gathered[rank] = *files;
	*files = (struct rank_files){0};
	if (p->listed <= limit)
		return 0;
	return err_set(err, ERR_RESOURCE,
	               "the lists of the ranks' files need more than the %" PRIu64
	               " bytes that --memory leaves for them: give more --memory",
	               limit);
}

static int take_arrays(struct planner *p, int rank, struct offer_content *c, struct err *err)
{
	if (c->has != OFFER_ARRAYS || c->narrays != (uint32_t)p->agreed->nvectors)
		return malformed(err, "INTENT", "arrays");
	for (uint32_t i = 0; i < c->narrays; i++)
		if (take_array(p, &p->vectors[i], rank, &c->arrays[i], err) < 0)
			return -1;
	return p->gathered ? take_files(p, rank, c->gathered, err) : 0;
}

int planner_take(struct planner *p, int rank, struct offer *o, uint32_t ninputs, uint32_t streams,
                 struct err *err)
{
	if (claims_get(&p->claims, rank, &o->claims, err) < 0)
		return -1;
	if (rank == 0)
		p->order = o->order;
	p->reads[rank] = o->reads;
	p->keeps_order &= o->order == p->order && o->order != OFFER_ORDER_MIXED;
	p->weighted |= o->weighted;
	p->divisor += o->weights;
	p->contributions += ninputs;
	if (!o->codes && p->nwithout++ == 0)
		p->without = rank;
	if (p->inputs && ninputs < 1)
		return malformed(err, "INTENT", "ninputs");
	if (p->inputs)
		p->inputs[agreement_number(p->agreed, rank)] = ninputs;
	if (ninputs > p->most_inputs)
		p->most_inputs = ninputs;
	network_add(&p->network, host_of_rank(p->agreed->host, rank), &o->link);
	if (streams > p->streams)
		p->streams = streams;
	return request_any_rows(p->request) ? take_arrays(p, rank, &o->content, err) : 0;
}

struct reader {
	uint64_t reads;
	int rank;
};

static int by_reads(const void *a, const void *b)
{
	const struct reader *x = a, *y = b;
	if (x->reads != y->reads)
		return x->reads < y->reads ? -1 : 1;
	return x->rank - y->rank;
}

int planner_same_inputs(const struct planner *p, int *ranks, struct err *err)
{
	const int size = p->agreed->size;
	struct reader *all = err_calloc((size_t)size, sizeof *all, "the ranks' inputs", err);
	int most = 0, first = 0;
	if (!all)
		return -1;
	for (int r = 0; r < size; r++)
		all[r] = (struct reader){p->reads[r], r};
	qsort(all, (size_t)size, sizeof *all, by_reads);
	for (int i = 0, n; i < size; i += n) {
		for (n = 1; i + n < size && all[i + n].reads == all[i].reads; n++)
			;
		if (all[i].reads && n > 1 && n > most) {
			most = n;
			first = i;
		}
	}
	for (int i = 0; i < most; i++)
		ranks[i] = all[first + i].rank;
	free(all);
	return most;
}

/* Cuts that are the same on all ranks are not sent. */
static void settle_cuts(const struct planner *p, struct planned *v)
{
	const size_t size = (size_t)p->agreed->size;
	for (size_t r = 1; v->counts && r < size; r++)
		v->uneven |= v->all_rows[r] != v->all_rows[0] ||
		             !same_counts(v->counts[r], v->counts[0], size);
}

/* The rows that @rank gets from each rank. */
static void rows_to(const struct planned *v, int rank, int size, uint64_t *from)
{
	for (int s = 0; s < size; s++)
		from[s] = layout_cut_at(v->all_rows[s], v->counts[s], size, rank);
}

/* ---- layouts of all ranks ---- */

/* The numbers of inputs, if vector @v has the joint operation. */
static const uint32_t *joint_of(const struct planner *p, const struct vector *v)
{
	return v->kind == p->request->kind ? p->inputs : NULL;
}

static bool is_weighted(const struct planned *v)
{
	return v->algorithm && v->algorithm->flags & COLL_WEIGHTED;
}

/* Lay out the part of vector @i of the rank that has @number (agreement_number). @column: scratch,
 * [2 * size]. */
static int lay_out(const struct planner *p, int i, int number, uint64_t *column,
                   struct vector_layout *l, struct err *err)
{
	const struct vector *v = &p->agreed->vectors[i];
	const struct planned *planned = &p->vectors[i];
	struct layout_of of = vector_layout_of(v, p->agreed, p->request);
	of.joint = joint_of(p, v);
	of.shares = is_weighted(planned) ? p->shares : NULL;
	const int size = p->agreed->ncame;
	if (!planned->uneven)
		return layout_make(l, &of, number,
		                   rules_of(p)->cut == CUT_JOINED ? planned->all_rows : v->rows,
		                   NULL, err);
	rows_to(planned, number, size, column);
	layout_cut_rows(planned->all_rows[number], planned->counts[number], size, column + size);
	return layout_make(l, &of, number, column + size, column, err);
}

/* The sample of ranks whose memory use is computed: all if there are few; else the first and last,
 * those around the root, some in between, and the one with the most elements. */
static bool is_sample(int root, int size, int r, int widest)
{
	int past_root = (r - root + size) % size;
	return size <= 32 || r < 4 || r >= size - 4 || r == widest || past_root < 4 ||
	       past_root >= size - 4 || r % (size / 16) == 0;
}

/* The most bytes of a window by the slowest link, for @alg with @args. */
static uint64_t link_window(const struct planner *p, const struct coll_algorithm *alg,
                            const struct coll_args *args)
{
	const double rate = network_rate(&p->network), trip = p->network.round_trip;
	struct coll_cost cost = {0};
	if (rate > 0 && args->size > 1)
		alg->cost(args, &cost);
	return budget_link_window(rate,
	                          cost.rounds * (trip > 0 ? trip / 2 : price_default.latency));
}

/* The most buffer bytes that any rank needs if vector @i is one window, and link_window. */
static int footprint(const struct planner *p, int i, uint64_t *column, uint64_t *most,
                     uint64_t *window, struct err *err)
{
	const struct vector *v = &p->agreed->vectors[i];
	const struct planned *planned = &p->vectors[i];
	const uint64_t *rows = planned->all_rows ? planned->all_rows : v->rows;
	const int root = agreement_number(p->agreed, v->root);
	int size = p->agreed->ncame, widest = 0, ret = 0;
	struct vector_layout l = {0};
	uint64_t bytes;
	*most = 0;
	for (int r = 1; rows && r < size; r++)
		if (rows[r] > rows[widest])
			widest = r;
	for (int r = 1; joint_of(p, v) && r < size; r++)
		if (p->inputs[r] > p->inputs[widest])
			widest = r;
	for (int r = 1; is_weighted(planned) && r < size; r++)
		if (p->shares[r] > p->shares[widest])
			widest = r;
	for (int r = 0; r < size && ret == 0; r++) {
		if (!is_sample(root, size, r, widest))
			continue;
		ret = lay_out(p, i, r, column, &l, err);
		l.args.ninputs = v->kind == p->request->kind ? (int)p->most_inputs : 1;
		if (ret == 0)
			ret = exec_footprint(planned->algorithm, &l.args, v->op, planned->wire,
			                     p->request->ordered, &bytes, err);
		if (ret == 0 && bytes > *most)
			*most = bytes;
		if (ret == 0 && r == 0)
			*window = link_window(p, planned->algorithm, &l.args);
	}
	layout_release(&l);
	return ret;
}

/* ---- decisions ---- */

static struct select_args select_args_of(const struct planner *p, const struct vector *v,
                                         const struct coll_args *args, const struct plan *plan)
{
	const struct coll_request *r = p->request;
	return (struct select_args){
	        .kind = v->kind,
	        .size = p->agreed->ncame,
	        .bytes = coll_count(args) * dtype_size(v->dtype),
	        .op = v->op,
	        .dtype = v->dtype,
	        .out = request_output_dtype(r, v->dtype),
	        .origin = vector_is_delta(v, r),
	        .blocks = v->blocks > 0,
	        .weighted = p->weighted,
	        .joint = joint_of(p, v),
	        .folds = plan->total_inputs > (uint64_t)p->agreed->ncame,
	        .ordered = r->ordered && v->kind == r->kind && !joint_of(p, v),
	        .divergent = r->divergent,
	        .insecure = r->settings.insecure,
	        .memory = r->settings.lanes != JOB_LANES_TCP,
	        .host_cpus = (int)plan->host_cpus,
	        .host = args->host,
	        .base = args->base,
	        .steps = args->steps,
	        .uneven = args->recv_off != NULL,
	        .root = args->root,
	        .network = &p->network,
	        .tuning = p->tuning,
	};
}

/* @named: by --algorithm; NULL: auto. */
static int choose_by_price(const struct planner *p, struct planned *planned,
                           const struct select_args *args, const struct coll_algorithm *named,
                           struct err *err)
{
	struct selection chosen = {0};
	int ret = select_all(args, &chosen, err);
	if (named) {
		chosen.alg = named;
		chosen.reason = SELECT_BY_NAME;
	}
	if (ret == 0 && p->selected)
		p->selected(p->selected_ctx, args, &chosen);
	planned->algorithm = chosen.alg;
	const struct select_price *price = selection_price(&chosen, planned->algorithm);
	planned->seconds = price ? price->formula : 0;
	if (ret == 0 && !planned->algorithm)
		ret = err_set(err, ERR_USAGE, "no algorithm of %s can run this job",
		              p->request->command);
	selection_release(&chosen);
	return ret;
}

/* The choice if the hosts were near. */
static int choose_near(const struct planner *p, struct planned *planned,
                       const struct select_args *args, struct err *err)
{
	struct network near = p->network;
	struct select_args a = *args;
	near.round_trip = 0;
	a.network = &near;
	return p->network.round_trip > 0 ? select_auto(&a, &planned->near, err) : 0;
}

double planner_seconds(const struct planner *p, int i)
{
	return p->vectors && i < p->nvectors ? p->vectors[i].seconds : 0;
}

const struct coll_algorithm *planner_near_choice(const struct planner *p, int i,
                                                 const struct coll_algorithm **chosen)
{
	const struct planned *v = &p->vectors[i];
	*chosen = v->algorithm;
	return v->near != v->algorithm ? v->near : NULL;
}

static int choose_algorithm(const struct planner *p, int i, const struct coll_args *args,
                            const struct plan *plan, struct err *err)
{
	const struct vector *v = &p->agreed->vectors[i];
	struct planned *planned = &p->vectors[i];
	const struct select_args s = select_args_of(p, v, args, plan);
	const char *name = p->request->algorithm;
	const bool named = strcmp(name, "auto") != 0 && v->kind == p->request->kind;
	const struct coll_algorithm *asked = named ? coll_find(v->kind, name) : NULL;
	if (named && !asked)
		return err_set(err, ERR_OTHER, "there is no algorithm %s", name);
	if (choose_by_price(p, planned, &s, asked, err) < 0 ||
	    (!named && choose_near(p, planned, &s, err) < 0))
		return -1;
	planned->algorithm = coll_resolve(planned->algorithm, args);
	if (s.ordered && !(planned->algorithm->flags & COLL_ORDERED))
		return err_set(err, ERR_USAGE,
		               "--algorithm %s falls back to %s, which cannot add in rank "
		               "order: choose another algorithm, or remove --order rank",
		               name, planned->algorithm->name);
	planned->wire = select_wire(&s, planned->algorithm);
	return 0;
}

/* The shares, which are the same for all vectors: those for the request's kind, if any vector with
 * shares is of it. */
static int choose_shares(struct planner *p, enum coll_kind kind, const struct coll_args *args,
                         struct err *err)
{
	const size_t n = (size_t)p->agreed->ncame;
	if (p->shares && kind != p->request->kind)
		return 0;
	if (!p->shares && !(p->shares = err_calloc(n, sizeof *p->shares, "the ranks' shares", err)))
		return -1;
	return network_shares(&p->network, kind, args, p->shares, err);
}

static int choose_algorithms(struct planner *p, uint64_t *column, const struct plan *plan,
                             struct err *err)
{
	struct vector_layout l = {0};
	int ret = 0;
	for (int i = 0; i < p->agreed->nvectors && ret == 0; i++) {
		ret = lay_out(p, i, 0, column, &l, err);
		if (ret == 0)
			ret = choose_algorithm(p, i, &l.args, plan, err);
		if (ret == 0)
			p->bytes += coll_count(&l.args) * dtype_size(p->agreed->vectors[i].dtype);
		if (ret == 0 && is_weighted(&p->vectors[i]))
			ret = choose_shares(p, p->agreed->vectors[i].kind, &l.args, err);
	}
	layout_release(&l);
	return ret;
}

/* Are the windows in memory that the ranks share, as far as rank 0 knows? */
static bool shares_memory(const struct planner *p, const struct plan *plan)
{
	return plan->host_cpus && p->request->settings.lanes != JOB_LANES_TCP;
}

/*
 * The streams that are asked for, or that fill a far link; 0: automatic. If the ranks have all
 * processors of their host, one is enough: while it waits for a file, other ranks work, and fewer
 * buffers stay in the cache.
 */
static uint64_t streams_wanted(const struct planner *p, const struct plan *plan)
{
	const int size = p->agreed->ncame;
	const bool crowded = size > 1 && plan->host_cpus && (uint32_t)size >= plan->host_cpus;
	if (p->streams || p->far_streams)
		return p->streams ? p->streams : p->far_streams;
	return crowded ? 1 : 0;
}

/* BUDGET_TASKS, if devices copy the windows, as far as rank 0 knows; else 0. */
static uint64_t device_tasks(const struct planner *p)
{
	return request_uses_devices(p->request) ? BUDGET_TASKS(p->agreed->ncame, p->most_inputs)
	                                        : 0;
}

static int choose_windows(struct planner *p, uint64_t *column, struct plan *plan, struct err *err)
{
	int n = p->agreed->nvectors, ret = 0;
	uint64_t *bytes = err_calloc((size_t)n, sizeof *bytes, "the windows", err);
	uint64_t *most = err_calloc((size_t)n, sizeof *most, "the windows", err);
	uint32_t *windows = err_calloc((size_t)n, sizeof *windows, "the windows", err);
	if (!bytes || !most || !windows)
		ret = -1;
	p->far = (struct budget_far){network_bdp(&p->network), p->network.socket};
	p->far_streams = budget_far_streams(&p->far, plan->memory, p->agreed->ncame);
	for (int i = 0; i < n && ret == 0; i++)
		ret = footprint(p, i, column, &bytes[i], &most[i], err);
	if (ret == 0)
		plan->streams = budget_windows(
		        plan->memory, streams_wanted(p, plan), shares_memory(p, plan),
		        device_tasks(p), p->far_streams ? &p->far : NULL, bytes, most, n, windows);
	for (int i = 0; i < n && ret == 0; i++)
		p->vectors[i].windows = windows[i];
	free(bytes);
	free(most);
	free(windows);
	return ret;
}

/* On one host there are no links, but limits. */
static bool has_slow_link(const struct network *n)
{
	const double least = 1 / (double)BUDGET_CODER_RATE;
	return (n->n > 1 || n->limited) &&
	       (n->slowest.egress > least || n->slowest.ingress > least);
}

bool planner_wants_coding(const struct planner *p)
{
	return p->request->wire == COLL_WIRE_LOSSLESS ||
	       (p->request->wire == COLL_WIRE_AUTO && has_slow_link(&p->network));
}

/* The most bytes of a coded piece, if all ranks can code. */
static void choose_piece(struct planner *p, const struct plan *plan)
{
	if (planner_wants_coding(p) && !p->nwithout && p->agreed->ncame > 1)
		p->piece = budget_piece(plan->memory, p->agreed->ncame, plan->streams);
}

/* Do all ranks get the same bits? */
static bool replicates(const struct planner *p)
{
	bool same = rules_of(p)->replicated;
	for (int i = 0; i < p->agreed->nvectors; i++)
		same &= !vector_diverges(&p->agreed->vectors[i], p->vectors[i].algorithm);
	return same;
}

bool planner_may_clone(const struct coll_request *r, const int *host)
{
	return host && coll_rules(r->kind)->replicated && !request_compares(r) && !r->consolidate &&
	       !r->have_outer && !r->dry_run;
}

/* A clone needs a message to each rank of a chain, and the sync of one file after another's. */
#define CLONE_LEAST (16u << 20)

/* Is the joint operation of all contributions defined? */
static int check_joint(const struct planner *p, const struct vector *v, struct err *err)
{
	const struct coll_request *r = p->request;
	uint64_t n = 0;
	if (!joint_of(p, v))
		return 0;
	for (int i = 0; i < p->agreed->ncame; i++)
		n += p->inputs[i];
	if (n > JOINT_MOST)
		return err_set(err, ERR_USAGE, "--op %s: at most %d inputs, but there are %" PRIu64,
		               reduce_op_name(r->op), JOINT_MOST, n);
	if (r->op != REDUCE_MEDIAN || n % 2 || !dtype_is_integer(v->dtype) || r->integers)
		return 0;
	return err_set(err, ERR_USAGE,
	               "--op median of an even number of inputs, %" PRIu64
	               ", is not defined on %s: give --integers first, equal or round",
	               n, dtype_name(v->dtype));
}

int planner_decide(struct planner *p, struct plan *plan, struct err *err)
{
	size_t size = (size_t)p->agreed->size;
	if (p->request->op == REDUCE_AVG && !(p->divisor > 0))
		return err_set(err, ERR_USAGE, "--weight: the weights of all ranks add up to 0");
	if (request_check_contributions(p->request, p->contributions, err) < 0)
		return -1;
	for (int i = 0; i < p->agreed->nvectors; i++)
		settle_cuts(p, &p->vectors[i]);
	uint64_t *column = err_calloc(2 * size, sizeof *column, "the blocks", err);
	int ret = column ? 0 : -1;
	plan->windows = 1;
	for (int i = 0; i < p->agreed->nvectors && ret == 0; i++)
		ret = check_joint(p, &p->agreed->vectors[i], err);
	if (ret == 0)
		ret = choose_algorithms(p, column, plan, err);
	if (ret == 0)
		ret = claims_settle(&p->claims, replicates(p), p->agreed->root, err);
	if (ret == 0)
		ret = choose_windows(p, column, plan, err);
	if (ret == 0)
		choose_piece(p, plan);
	p->clones = planner_may_clone(p->request, plan->host) && replicates(p) &&
	            p->bytes >= CLONE_LEAST;
	free(column);
	return ret;
}

/* ---- terms ---- */

/* @from: scratch, [size]. */
static struct vector_terms terms_of(const struct planner *p, const struct planned *v, int rank,
                                    uint64_t *from)
{
	struct vector_terms t = {.wire = v->wire, .windows = v->windows, .rows = v->all_rows};
	snprintf(t.algorithm, sizeof t.algorithm, "%s", v->algorithm->name);
	if (v->uneven)
		rows_to(v, rank, p->agreed->size, from);
	t.from = v->uneven ? from : NULL;
	return t;
}

void planner_terms(const struct planner *p, int rank, struct view root, struct buf *out)
{
	size_t n = (size_t)p->agreed->nvectors, size = (size_t)p->agreed->ncame;
	struct vector_terms *vectors = calloc(n, sizeof *vectors);
	size_t cells = p->request->kind == COLL_ALLTOALL ? n * size : 1;
	uint64_t *from = calloc(cells, sizeof *from);
	struct terms t = {.divisor = p->divisor,
	                  .weighted = p->weighted,
	                  .keeps_order = p->keeps_order,
	                  .piece = p->piece,
	                  .clones = p->clones,
	                  .root = root,
	                  .vectors = vectors,
	                  .nvectors = (uint32_t)n,
	                  .inputs_each = 1,
	                  .shares = p->shares,
	                  .gathered = p->gathered};
	uint32_t nclaims = 0;
	if (p->inputs && (t.inputs = calloc(size, sizeof *t.inputs)))
		for (size_t r = 0; r < size; r++)
			t.inputs[r] = p->inputs[r];
	if (vectors && from && (t.inputs || !p->inputs) &&
	    claims_dropped(&p->claims, rank, &t.dropped, &nclaims, NULL) == 0) {
		const struct terms_form form = terms_form_of(
		        p->request, rank, (int)size, p->agreed->root, p->agreed->rank, nclaims);
		for (size_t i = 0; i < n; i++)
			vectors[i] = terms_of(p, &p->vectors[i], rank,
			                      cells > 1 ? from + i * size : from);
		terms_put(out, &t, &form);
	} else {
		out->failed = out->nomem = true;
	}
	free(t.dropped);
	free(t.inputs);
	free(vectors);
	free(from);
}

void planner_release(struct planner *p)
{
	for (int i = 0; p->vectors && i < p->nvectors; i++) {
		struct planned *v = &p->vectors[i];
		free(v->all_rows);
		for (int r = 0; v->counts && r < p->agreed->size; r++)
			if (r == 0 || v->counts[r] != v->counts[r - 1])
				free(v->counts[r]);
		free(v->counts);
	}
	for (int r = 0; p->gathered && r < p->agreed->size; r++)
		rank_files_release(&p->gathered[r]);
	network_release(&p->network);
	free(p->vectors);
	free(p->gathered);
	free(p->reads);
	free(p->inputs);
	free(p->shares);
	claims_release(&p->claims);
	p->vectors = NULL;
	p->gathered = NULL;
	p->reads = NULL;
	p->inputs = NULL;
	p->shares = NULL;
}
