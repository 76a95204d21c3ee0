/*
 * The agreement of a collective. Each rank sends the facts, which must be the same on all ranks,
 * and its offer (offer.h). Rank 0 plans (planner.h) and answers with terms (terms.h). Each rank
 * then lays out its own blocks. See collective.h.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "algorithms/table.h"
#include "lib/coll/agreement/agree_wire.h"
#include "lib/base/text.h"
#include "lib/coll/collective.h"
#include "lib/coll/files/consolidated.h"
#include "lib/data/coding/coding.h"
#include "lib/data/dataset/dataset_beside.h"
#include "lib/exec/budget.h"
#include "lib/job/ranks.h"
#include "lib/price/tuning.h"

/* ---- the offer ---- */

/* Hash of the tensors in Fortran order; 0: none. */
static uint64_t order_of(const struct agreement *a)
{
	uint64_t h = 0;
	for (size_t i = 0; i < a->ntensors; i++)
		if (a->tensors[i].tensor.fortran)
			h = XXH3_64bits_withSeed(&i, sizeof i, h) | 1;
	return h;
}

/* Do all local inputs have the same tensors in Fortran order? */
static bool same_order(const struct collective *c)
{
	const struct dataset *in = c->transfer.inputs;
	const struct inspection *origin = &c->transfer.origin.file;
	if (c->request->have_outer) /* the momentum is in C order */
		return false;
	for (size_t i = 0; origin->open && i < in[0].ntensors; i++)
		if (origin->data.tensors[i].fortran != in[0].tensors[i].fortran)
			return false;
	for (int k = 1; !c->request->each && k < c->transfer.ninputs; k++)
		for (size_t i = 0; i < in[k].ntensors; i++)
			if (in[k].tensors[i].fortran != in[0].tensors[i].fortran)
				return false;
	return true;
}

/* Does this rank offer its arrays? In scatter and broadcast only the root does, because the others
 * have none; elsewhere all ranks do if arrays may differ. */
static bool offers_arrays(const struct collective *c)
{
	if (c->agreed.content != CONTENT_ARRAYS && c->agreed.content != CONTENT_PIECES)
		return false;
	return request_root_offers(c->request) ? collective_is_root(c)
	                                       : request_any_rows(c->request);
}

/* The rows of each rank's part of an array that is cut; NULL: as even as possible. */
static const uint64_t *counts_of(const struct collective *c)
{
	return c->request->have_shard_dim ? c->consolidated->rows : c->request->counts;
}

static int list_arrays(const struct collective *c, struct offer_content *out, struct err *err)
{
	const struct agreement *a = &c->agreed;
	out->has = OFFER_ARRAYS;
	if (!(out->arrays =
	              err_calloc((size_t)a->nvectors + 1, sizeof *out->arrays, "the arrays", err)))
		return -1;
	for (int i = 0; i < a->nvectors; i++) {
		struct offered_array *array = &out->arrays[i];
		out->narrays++;
		array->info = a->vectors[i].info;
		array->counts = (uint64_t *)counts_of(c);
		/* Only these outputs take the names of the root's inputs. */
		if (!c->request->each || c->request->kind != COLL_SCATTER)
			continue;
		array->name = (char *)files_name(c, i);
		if (files_check_name(array->name, err) < 0)
			return -1;
	}
	return 0;
}

/* The offer owns only the list of arrays and borrows the rest. */
static int put_offer(struct collective *c, struct offer *o, struct err *err)
{
	struct rank_files gathered = gathered_offer(c);
	const struct offer_form form = offer_form_of(c->request, c->agreed.size);
	int ret = 0;
	if (c->agreed.content == CONTENT_BYTES && c->transfer.ninputs) {
		o->content.has = OFFER_FILES;
		o->content.files = c->agreed.root_files;
	} else if (c->agreed.beside.nfiles) {
		o->content.has = OFFER_FILES;
		o->content.files = c->agreed.beside;
	} else if (offers_arrays(c)) {
		ret = list_arrays(c, &o->content, err);
		o->content.gathered = &gathered;
	}
	if (ret == 0)
		offer_put(&c->details, o, &form);
	free(o->content.arrays);
	return ret;
}

/* Of the rank's inputs that are reduced together. */
static double sum_of_weights(const struct collective *c)
{
	const struct coll_request *r = c->request;
	const int n = r->each && c->transfer.ninputs ? 1 : c->transfer.ninputs;
	double sum = 0;
	if (r->nweights <= 1)
		return n * request_weight(r, 0);
	for (int i = 0; i < n; i++)
		sum += request_weight(r, i);
	return sum;
}

/* May the job use coded pieces? */
static bool codes_pieces(const struct coll_request *r)
{
	return r->wire == COLL_WIRE_LOSSLESS || r->wire == COLL_WIRE_AUTO;
}

static int too_long(const struct collective *c, struct err *err)
{
	const struct dataset *d = c->transfer.inputs;
	if (c->transfer.ninputs && d->tree)
		return err_set(err, ERR_RESOURCE,
		               "%s: the names of its %d files do not fit a message of %u bytes: "
		               "choose some by --include and --exclude, or send an archive",
		               d->path, d->nfiles, DETAILS_MAX);
	return err_set(err, ERR_RESOURCE,
	               "the description of the inputs does not fit a message of %u bytes",
	               DETAILS_MAX);
}

static int offer(struct collective *c, struct err *err)
{
	bool mixed = c->agreed.content == CONTENT_TENSORS && !same_order(c);
	struct offer o = {.weights = sum_of_weights(c),
	                  .weighted =
	                          request_is_weighted(c->request) || c->request->op == REDUCE_SLERP,
	                  .reads = files_identity(c),
	                  .codes = codes_pieces(c->request) && coding_library(),
	                  .order = mixed ? OFFER_ORDER_MIXED : order_of(&c->agreed),
	                  .link = coll_offered_link(c->life)};
	struct buf claims;
	buf_init(&claims, DETAILS_MAX);
	buf_init(&c->details, DETAILS_MAX);
	int ret = outputs_claim(c, &claims, err);
	if (ret == 0 && claims.failed)
		ret = err_set(err, ERR_RESOURCE, "the names of the outputs do not fit a message");
	o.claims = claims.len ? view_of(claims.data, claims.len) : view_of("", 0);
	if (ret == 0)
		ret = put_offer(c, &o, err);
	buf_release(&claims);
	if (ret == 0 && c->details.failed)
		ret = too_long(c, err);
	if (ret == 0)
		c->life->intent.details = view_of(c->details.data, c->details.len);
	return ret;
}

/* Divide the rows of this rank's array among the ranks. */
static int cut_rows(struct vector *v, const struct agreement *a, const uint64_t *counts,
                    struct err *err)
{
	if (!(v->rows = err_calloc((size_t)a->size, sizeof *v->rows, "the ranks' rows", err)))
		return -1;
	layout_cut_rows(v->info.shape[0], counts, a->size, v->rows);
	return 0;
}

int agree_offer(struct collective *c, struct err *err)
{
	const struct coll_request *r = c->request;
	struct intent *in = &c->life->intent;
	for (int i = 0; coll_rules(r->kind)->cut == CUT_ROWS && i < c->agreed.nvectors; i++)
		if (cut_rows(&c->agreed.vectors[i], &c->agreed, counts_of(c), err) < 0)
			return -1;
	in->memory = coll_memory(c->life);
	in->ninputs = c->transfer.ninputs == 0 ? 0
	              : r->each || c->agreed.content == CONTENT_BYTES
	                      ? 1
	                      : (uint32_t)c->transfer.ninputs;
	in->streams = (uint32_t)r->streams;
	if (!r->streams && request_uses_devices(r))
		in->streams = BUDGET_STREAMS; /* copies of a window overlap those of others */
	if (agree_facts(c, in, err) < 0 || offer(c, err) < 0)
		return -1;
	c->life->table = &c->table;
	return 0;
}

/* ---- the root's offer ---- */

/* Report that decoding the message of @rank failed with *why. The culprit is @rank, or this rank if
 * it lacks memory. Returns -1. */
static int blame(int rank, const struct err *why, struct err *err)
{
	if (why->code == ERR_RESOURCE)
		rank = ERR_RANK_SELF;
	return err_rank(err, why->code, rank, "%s", why->text);
}

static int adopt_array(struct collective *c, struct offered_array *array, int i, struct err *err)
{
	struct agreement *a = &c->agreed;
	struct vector *v = &a->vectors[i];
	a->names[i] = array->name;
	array->name = NULL;
	v->info = array->info;
	v->kind = c->request->kind;
	v->root = a->root;
	v->dtype = v->info.dtype;
	if (coll_rules(c->request->kind)->cut == CUT_ELEMENTS)
		return 0;
	if (v->info.ndim == 0)
		return err_set(err, ERR_INTEGRITY, "its array has no axis 0");
	return cut_rows(v, a, array->counts, err);
}

static int adopt_arrays(struct collective *c, struct offer_content *o, struct err *err)
{
	if (o->narrays > 1 && !c->request->each)
		return malformed(err, "ROSTER", "arrays");
	c->agreed.names = err_calloc(o->narrays, sizeof *c->agreed.names, "the root's arrays", err);
	if (!c->agreed.names)
		return -1;
	if (vectors_of_arrays(&c->agreed, (int)o->narrays, err) < 0)
		return -1;
	for (uint32_t i = 0; i < o->narrays; i++)
		if (adopt_array(c, &o->arrays[i], (int)i, err) < 0)
			return -1;
	return 0;
}

/* Names that another program would read instead of the output are refused from rank 0, too. */
static int adopt_beside(struct collective *c, struct file_list *l, struct err *err)
{
	char shown[256];
	if (!l->folder || l->tree)
		return malformed(err, "ROSTER", "content");
	for (int i = 0; i < l->nfiles; i++)
		if (!dataset_beside_name(l->files[i].name))
			return err_set(
			        err, ERR_DISAGREE,
			        "would write '%s' beside the tensors (--with-files): expected "
			        "the name of a file without weights",
			        text_escape(shown, sizeof shown, l->files[i].name));
	c->agreed.beside = *l;
	*l = (struct file_list){0};
	return vectors_add_beside(&c->agreed, err);
}

static int adopt_content(struct collective *c, struct offer_content *o, struct err *err)
{
	if (c->request->with_files && !request_root_offers(c->request))
		return o->has == OFFER_FILES     ? adopt_beside(c, &o->files, err)
		       : o->has == OFFER_NOTHING ? 0
		                                 : malformed(err, "ROSTER", "content");
	if (o->has == OFFER_NOTHING)
		return err_set(err, ERR_INTEGRITY, "sent no description of its inputs");
	if (o->has == OFFER_ARRAYS)
		return adopt_arrays(c, o, err);
	if (c->request->kind != COLL_BROADCAST)
		return malformed(err, "ROSTER", "content");
	c->agreed.root_files = o->files;
	o->files = (struct file_list){0};
	return vectors_of_files(&c->agreed, c->request, err);
}

/* The rank whose offer rank 0 passes on to all. */
static int offering_rank(const struct collective *c)
{
	return request_root_offers(c->request) ? c->agreed.root : 0;
}

/* Does rank 0 pass an offer on to all? */
static bool has_offering_rank(const struct collective *c)
{
	return request_root_offers(c->request) || c->request->with_files;
}

/* Make this rank's vectors from that rank's arrays or files. */
static int adopt_root(struct collective *c, struct view bytes, struct err *err)
{
	const struct offer_form form = offer_form_of(c->request, c->agreed.size);
	struct err why = ERR_INIT;
	struct offer_content o;
	/* the root, or rank 0, which decoded the offer earlier */
	if (request_root_offers(c->request) ? c->agreed.nvectors > 0 : c->agreed.rank == 0)
		return 0;
	int ret = offer_content_get(bytes, &form, &o, &why);
	if (ret == 0)
		ret = adopt_content(c, &o, &why);
	offer_content_release(&o);
	return ret < 0 ? blame(offering_rank(c), &why, err) : 0;
}

/* ---- rank 0 ---- */

/* Does `auto` choose an algorithm, with or without a tuning file? */
static bool chooses(const struct collective *c)
{
	bool any = strcmp(c->request->algorithm, "auto") == 0;
	for (int i = 0; i < c->agreed.nvectors; i++)
		any |= c->agreed.vectors[i].kind != c->request->kind;
	return any;
}

static int take_offer(struct collective *c, int rank, const struct intent *in, struct err *err)
{
	const struct offer_form form = offer_form_of(c->request, c->agreed.size);
	struct err why = ERR_INIT;
	struct offer o;
	int ret = offer_get(in->details, &form, &o, &why);
	if (ret == 0)
		ret = planner_take(&c->planner, rank, &o, in->ninputs, in->streams, &why);
	offer_release(&o);
	return ret < 0 ? blame(rank, &why, err) : 0;
}

static int find_root_offer(struct collective *c, const struct intent *root, struct err *err)
{
	const struct offer_form form = offer_form_of(c->request, c->agreed.size);
	struct err why = ERR_INIT;
	struct offer o;
	int ret = offer_get(root->details, &form, &o, &why);
	c->root_offer = o.bytes;
	offer_release(&o);
	return ret < 0 ? blame(offering_rank(c), &why, err) : adopt_root(c, c->root_offer, err);
}

/* Often a mistake: one name for all ranks, where each has its own file. */
static int note_same_inputs(const struct collective *c, struct err *err)
{
	const int size = c->agreed.size;
	int *ranks = err_calloc((size_t)size, sizeof *ranks, "the ranks' inputs", err);
	char text[256];
	struct rank_list list;
	if (!ranks)
		return -1;
	const int n = planner_same_inputs(&c->planner, ranks, err);
	rank_list_init(&list, text, sizeof text);
	for (int i = 0; i < n; i++)
		rank_list_add(&list, ranks[i]);
	rank_list_end(&list);
	free(ranks);
	if (n > 0)
		coll_note(c->life, 0,
		          "ranks %s read the same input%s, which count%s %d times: put {rank} into "
		          "the name%s if each rank has its own",
		          text, c->transfer.ninputs > 1 ? "s" : "",
		          c->transfer.ninputs > 1 ? "" : "s", n,
		          c->transfer.ninputs > 1 ? "s" : "");
	return n < 0 ? -1 : 0;
}

/* How data will travel between hosts, if --wire is given. */
static void note_wire(const struct collective *c)
{
	const struct planner *p = &c->planner;
	char others[48] = "";
	if (!codes_pieces(c->request) || c->agreed.size == 1)
		return;
	if (p->nwithout > 1)
		snprintf(others, sizeof others, " and %d other%s", p->nwithout - 1,
		         p->nwithout > 2 ? "s" : "");
	if (!planner_wants_coding(p))
		coll_note(c->life, 1,
		          "--wire auto: no link is known to be slower than the coder, so data "
		          "travel as they are; --link-rate gives the rate of a link");
	else if (p->nwithout)
		coll_note(c->life, 0,
		          "--wire: rank %d%s cannot open libzstd (Debian: libzstd1), so data "
		          "travel as they are",
		          p->without, others);
	else
		coll_note(c->life, 1,
		          "--wire: data travel to other hosts in coded pieces of at most %" PRIu32
		          " bytes",
		          p->piece);
}

int agree_decide(void *ctx, const struct intent *const *intents, struct plan *plan, struct err *err)
{
	struct coll *life = ctx;
	struct collective *c = life->state;
	const struct coll_observer *o = life->observer;
	const char *file = c->request->tuning;
	struct select_tuning tuning;
	tuning_init(&tuning);
	int ret = agreement_gather(&c->agreed, plan->came, plan->ncame, plan->host, err);
	if (ret == 0 && has_offering_rank(c))
		ret = find_root_offer(c, intents[offering_rank(c)], err);
	if (ret == 0 && file && chooses(c))
		ret = tuning_read(&tuning, file, err);
	c->planner = (struct planner){.request = c->request,
	                              .agreed = &c->agreed,
	                              .tuning = file ? &tuning : NULL,
	                              .selected = c->request->explain ? o->selected : NULL,
	                              .selected_ctx = o->ctx};
	if (ret == 0)
		ret = planner_init(&c->planner, err);
	for (int r = 0; ret == 0 && r < c->agreed.size; r++)
		ret = !intents[r] ? 0 : take_offer(c, r, intents[r], err);
	if (ret == 0 && c->planner.gathered && !collective_is_root(c))
		ret = gathered_fits(&c->agreed, c->planner.gathered, err);
	if (ret == 0)
		ret = coll_find_network(life, plan->host, c->planner.tuning, &c->planner.network,
		                        err);
	if (ret == 0)
		ret = note_same_inputs(c, err);
	if (ret == 0)
		ret = planner_decide(&c->planner, plan, err);
	/* The other ranks' parts of the round may come before this rank has adopted the terms. */
	c->agreed.clones = ret == 0 && c->planner.clones;
	if (ret == 0)
		network_notes(c, plan);
	if (ret == 0)
		note_wire(c);
	plan->trace = c->request->trace && !c->request->dry_run;
	tuning_release(&tuning);
	c->planner.tuning = NULL;
	return ret;
}

void agree_terms(void *ctx, int rank, struct buf *out)
{
	const struct coll *life = ctx;
	const struct collective *c = life->state;
	planner_terms(&c->planner, rank, c->root_offer, out);
}

/* ---- the terms ---- */

static void note_fall_back(const struct collective *c, const struct vector *v)
{
	const char *asked = c->request->algorithm;
	const struct coll_algorithm *alg = coll_find(v->kind, asked);
	if (!alg || alg == v->algorithm || v->kind != c->request->kind)
		return;
	coll_note(c->life, c->agreed.rank == 0 ? 0 : 1, "%s: %s falls back to %s%s%s%s",
	          c->request->command, asked, v->algorithm->name, *alg->restrictions ? " (" : "",
	          alg->restrictions, *alg->restrictions ? ")" : "");
}

static int adopt_rows(struct vector *v, struct vector_terms *t, int size, struct err *err)
{
	if (!t->rows &&
	    !(t->rows = err_calloc((size_t)size, sizeof *t->rows, "the ranks' rows", err)))
		return -1;
	for (int r = 0; r < size && t->rows_each; r++)
		t->rows[r] = t->rows_each;
	v->rows = t->rows;
	t->rows = NULL;
	return 0;
}

/* Can this rank convert its inputs to the type on the wire, and that to the type of the outputs? */
static bool can_convert(const struct vector *v)
{
	if (v->blocks || v->wire == DTYPE_Q8)
		return v->blocks && v->wire == DTYPE_Q8;
	return convert_kernel(v->wire, v->dtype) &&
	       (v->op == REDUCE_AVG ? final_kernel(v->out, v->wire) != NULL
	                            : convert_kernel(v->out, v->wire) != NULL);
}

static int adopt_vector(struct collective *c, struct vector *v, struct vector_terms *t,
                        struct err *err)
{
	v->algorithm = coll_find(v->kind, t->algorithm);
	if (!v->algorithm)
		return err_set(err, ERR_DISAGREE,
		               "chose algorithm %s, which this rank does not know", t->algorithm);
	v->wire = t->wire;
	v->out = request_output_dtype(c->request, v->dtype);
	v->windows = t->windows;
	v->defer_final = v->wire != v->out;
	if (v == c->agreed.vectors)
		note_fall_back(c, v);
	if (!can_convert(v))
		return err_set(err, ERR_INTEGRITY,
		               "chose to send %s as %s, which this rank cannot convert to %s",
		               dtype_name(v->dtype), dtype_name(v->wire), dtype_name(v->out));
	if (request_is_joint(c->request) && v->kind == c->request->kind &&
	    !(v->algorithm->flags & COLL_JOINT))
		return err_set(err, ERR_INTEGRITY,
		               "chose algorithm %s, which cannot have all inputs at once",
		               t->algorithm);
	if (coll_rules(c->request->kind)->cut == CUT_JOINED &&
	    adopt_rows(v, t, c->agreed.size, err) < 0)
		return -1;
	v->from = t->from;
	t->from = NULL;
	return 0;
}

/* Scale the weights by a power of two so that their sum is less than one. This rounds nothing, and
 * no sum of weighted elements leaves the range of the elements. */
static void scale_weights(struct agreement *a)
{
	a->exponent = 0;
	if (a->weighted)
		a->divisor = frexp(a->divisor, &a->exponent);
}

/* The numbers of inputs of all ranks, if the operation is joint. */
static int adopt_inputs(struct collective *c, const struct terms *t, struct err *err)
{
	struct agreement *a = &c->agreed;
	const size_t n = (size_t)a->ncame;
	if (!t->inputs && !t->inputs_each)
		return 0;
	if (!(a->joint = err_calloc(n, sizeof *a->joint, "the ranks' inputs", err)))
		return -1;
	for (size_t k = 0; k < n; k++)
		a->joint[k] = (uint32_t)(t->inputs ? t->inputs[k] : t->inputs_each);
	return a->joint[agreement_number(a, a->rank)] == c->life->intent.ninputs
	               ? 0
	               : malformed(err, "ROSTER", "inputs");
}

/* A root that is the coordinator has the lists already. */
static void adopt_gathered(struct collective *c, struct terms *t)
{
	struct rank_files **from =
	        collective_is_root(c) && c->planner.gathered ? &c->planner.gathered : &t->gathered;
	c->agreed.rank_files = *from;
	*from = NULL;
}

static int adopt_terms(struct collective *c, struct terms *t, struct err *err)
{
	struct agreement *a = &c->agreed;
	a->divisor = t->divisor;
	a->weighted = t->weighted;
	a->keeps_order = t->keeps_order;
	a->piece = t->piece;
	scale_weights(a);
	if (a->piece && !codes_pieces(c->request))
		return malformed(err, "ROSTER", "piece");
	a->clones = t->clones;
	if (a->clones && !planner_may_clone(c->request, a->host))
		return malformed(err, "ROSTER", "clones");
	a->dropped = t->dropped;
	t->dropped = NULL;
	a->shares = t->shares;
	t->shares = NULL;
	adopt_gathered(c, t);
	if (adopt_inputs(c, t, err) < 0)
		return -1;
	if (view_left(&t->root) && adopt_root(c, t->root, err) < 0)
		return -1;
	if (t->nvectors != (uint32_t)a->nvectors)
		return malformed(err, "ROSTER", "vectors");
	for (int i = 0; i < a->nvectors; i++)
		if (adopt_vector(c, &a->vectors[i], &t->vectors[i], err) < 0)
			return -1;
	return a->rank_files ? gathered_check(a, err) : 0;
}

static int get_terms(struct collective *c, struct err *err)
{
	const struct agreement *a = &c->agreed;
	const struct terms_form form = terms_form_of(c->request, a->rank, a->ncame, a->root,
	                                             job_coordinator(c->life->job), a->nclaims);
	struct terms t;
	int ret = terms_get(c->life->plan.details, &form, &t, err);
	if (ret == 0)
		ret = adopt_terms(c, &t, err);
	terms_release(&t, &form);
	return ret;
}

void agree_describe_outputs(struct collective *c)
{
	struct agreement *a = &c->agreed;
	for (size_t i = 0; i < a->ntensors; i++) {
		struct tensor *t = &a->tensors[i].tensor;
		if (a->content == CONTENT_TENSORS) {
			t->fortran &= a->keeps_order;
			tensor_set_dtype(t, a->vectors[a->tensors[i].vector].out);
		}
		if (a->content != CONTENT_ARRAYS)
			continue;
		const struct array_info *out = &a->vectors[i].layout.out;
		*t = (struct tensor){.name = "",
		                     .dtype = out->dtype,
		                     .ndim = out->ndim,
		                     .shape = out->shape,
		                     .count = out->count,
		                     .bytes = array_bytes(out),
		                     .fortran = out->fortran};
	}
}

int agree_layout(struct collective *c, struct vector *v, struct err *err)
{
	const struct layout_of of = vector_layout_of(v, &c->agreed, c->request);
	const int number = agreement_number(&c->agreed, c->agreed.rank);
	layout_release(&v->layout);
	if (layout_make(&v->layout, &of, number, v->rows, v->from, err) < 0 ||
	    vector_list_ranks(v, &c->agreed, err) < 0)
		return -1;
	v->layout.out.dtype = v->out;
	return 0;
}

int agree_adopt(struct collective *c, struct err *err)
{
	struct agreement *a = &c->agreed;
	struct err why = ERR_INIT;
	const struct plan *plan = &c->life->plan;
	if (agreement_gather(a, plan->came, plan->ncame, plan->host, err) < 0)
		return -1;
	if (plan->came && coll_rules(c->request->kind)->rooted && agreement_number(a, a->root) < 0)
		return err_rank(err, ERR_INTEGRITY, job_coordinator(c->life->job),
		                "a roster without the root");
	if (get_terms(c, &why) < 0) {
		if (why.rank == ERR_RANK_SELF)
			return blame(job_coordinator(c->life->job), &why, err);
		*err = why;
		return -1;
	}
	for (int i = 0; i < a->nvectors; i++)
		if (agree_layout(c, &a->vectors[i], err) < 0)
			return -1;
	agree_describe_outputs(c);
	return 0;
}

void agree_release(struct collective *c)
{
	planner_release(&c->planner);
	buf_release(&c->details);
	agreement_release(&c->agreed);
}
