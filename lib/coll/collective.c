/* A collective over files: its stages (task.h), from the inputs to the committed output. See
 * collective.h. */
#include "algorithms/table.h"
#include "lib/coll/collective.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/units.h"
#include "lib/coll/files/consolidated.h"
#include "lib/coll/files/written.h"
#include "lib/exec/budget.h"

/* ---- before the job ---- */

static void begin(struct collective *c)
{
	c->agreed.size = c->agreed.ncame = c->life->size;
	c->agreed.root = c->request->root;
}

/* With --root HOST or --rank auto, the root's rank is unknown until the ranks have joined. */
static int prepare(struct coll *life, struct err *err)
{
	struct collective *c = life->state;
	const struct coll_request *r = c->request = life->request;
	struct job_conf *conf = &life->member.conf;
	struct presence *p = &conf->present;
	bool any_rank = conf->rank == JOB_RANK_AUTO && life->size > 1;
	c->life = life;
	begin(c);
	if (!coll_rules(r->kind)->rooted)
		return 0;
	conf->root = r->root;
	if (r->root_host) {
		host_name_make(p->root, r->root_host);
		p->finds_root = true;
		conf->root = -1;
	} else if (any_rank && !r->have_root) {
		if (!request_root_offers(r))
			return err_set(
			        err, ERR_USAGE,
			        "%s: --rank auto needs the host of the root: give --root HOST",
			        r->command);
		p->finds_root = true;
		conf->root = -1;
	}
	return 0;
}

/* ---- the offer ---- */

/* Check this rank's own settings. Done after joining, so that all ranks get the error. */
static int check_part(const struct collective *c, struct err *err)
{
	const struct coll_request *r = c->request;
	if (agreement_reads(&c->agreed, r) && r->ninputs == 0)
		return err_set(err, ERR_USAGE,
		               coll_rules(r->kind)->rooted
		                       ? "%s: rank %d is the root: give its input"
		                       : "%s: rank %d has no input",
		               r->command, c->agreed.rank);
	if (agreement_writes(&c->agreed, r) && !r->noutputs)
		return err_set(err, ERR_USAGE, "%s: no output: give -o FILE", r->command);
	return 0;
}

/* Refuse a named algorithm whose results differ between ranks, unless the request allows that. */
static int check_divergence(const struct collective *c, struct err *err)
{
	const struct coll_request *r = c->request;
	const struct coll_algorithm *alg = coll_find(r->kind, r->algorithm);
	if (r->op == REDUCE_SLERP && coll_reduces(r->kind)) /* two contributions have one order */
		return 0;
	for (int i = 0; alg && !r->divergent && i < c->agreed.nvectors; i++) {
		const struct vector *v = &c->agreed.vectors[i];
		if (v->kind != r->kind || !vector_diverges(v, alg))
			continue;
		return err_set(err, ERR_USAGE,
		               "--algorithm %s adds in a different order on each rank, so that "
		               "the last bits of a %s of %s differ: give --allow-divergent, or "
		               "choose another algorithm",
		               alg->name, reduce_op_name(v->op), dtype_name(v->dtype));
	}
	return 0;
}

static int offer(struct coll *life, struct err *err)
{
	struct collective *c = life->state;
	c->agreed.rank = life->rank;
	if (life->member.conf.present.finds_root)
		c->agreed.root = job_root(life->job);
	if (check_part(c, err) < 0 || files_open_inputs(c, err) < 0 || check_divergence(c, err) < 0)
		return -1;
	return agree_offer(c, err);
}

static bool meshes(const struct coll *life)
{
	return !life->request->dry_run;
}

/* Does a lane that breaks take the ranks back? The same on all ranks. */
static bool goes_back(const struct coll *life)
{
	const struct coll_request *r = life->request;
	const bool twice = r->op == REDUCE_SLERP && coll_reduces(r->kind);
	return life->size > 1 && !r->dry_run && !twice;
}

/* The coordinator writes the trace: a rank that asked for one in vain says so. */
static void note_trace(const struct coll *life)
{
	const int writer = job_coordinator(life->job);
	if (!life->request->trace || life->rank == writer)
		return;
	if (!life->plan.trace)
		coll_note(life, 0, "nothing is traced: rank %d must be given --trace", writer);
	else
		coll_note(life, 1, "rank %d writes the trace", writer);
}

static int adopt(struct coll *life, struct err *err)
{
	struct collective *c = life->state;
	note_trace(life);
	if (agree_adopt(c, err) < 0)
		return -1;
	return c->consolidated ? consolidated_exchange(c, err) : 0;
}

/* Some operations read all inputs before the transfer. A rank that connects cannot wait for that
 * without an end, so all wait in a round before any connects. */
static bool prepares(const struct collective *c)
{
	const struct coll_request *r = c->request;
	return coll_reduces(r->kind) && (r->op == REDUCE_TIES || r->op == REDUCE_SLERP) &&
	       !r->dry_run && c->agreed.size > 1;
}

static bool awaits_prepared(const struct collective *c)
{
	return prepares(c) && c->prepared < c->agreed.ncame;
}

static int await_prepared(struct collective *c, struct err *err)
{
	struct buf none;
	if (!prepares(c))
		return 0;
	buf_init(&none, 0);
	return coll_await_round(c->life, &none, "a round", NULL, err);
}

/* The ranks exchange tables of pieces before the transfer, traces after it, and what their outputs
 * need in place of it. */
static int collect(void *ctx, int rank, struct view part, struct err *err)
{
	struct coll *life = ctx;
	struct collective *c = life->state;
	if (consolidated_exchanges(c))
		return consolidated_take(c, rank, part, err);
	if (deletes_exchanges(c))
		return deletes_take(c, rank, part, err);
	if (clones_exchanges(c))
		return clones_take(c, rank, part, err);
	if (awaits_prepared(c))
		return view_left(&part) ? malformed(err, "ROUND", "inputs") : 0;
	if (update_exchanges(c))
		return update_take(c, rank, part, err);
	if (gather_update_exchanges(c))
		return gather_update_take(c, rank, part, err);
	if (slerp_exchanges(c))
		return slerp_take(c, part, err);
	if (life->request->dry_run)
		return host_room_take(c, rank, part, err);
	return tracing_take_part(ctx, rank, part, err);
}

static void answer(void *ctx, int rank, struct buf *out)
{
	struct coll *life = ctx;
	struct collective *c = life->state;
	if (consolidated_exchanges(c))
		consolidated_answer(c, rank, out);
	else if (deletes_exchanges(c))
		deletes_answer(c, out);
	else if (clones_exchanges(c))
		clones_answer(c, rank, out);
	else if (awaits_prepared(c))
		c->prepared++;
	else if (update_exchanges(c))
		update_answer(c, out);
	else if (gather_update_exchanges(c))
		gather_update_answer(c, rank, out);
	else if (slerp_exchanges(c))
		slerp_answer(c, out);
	else if (!life->request->dry_run)
		tracing_answer(ctx, rank, out);
}

/* ---- data ---- */

/* Bytes that this rank reads, and writes to each output. */
static void count_bytes(const struct collective *c, uint64_t *in, uint64_t *out)
{
	*in = *out = 0;
	for (int i = 0; i < c->agreed.nvectors; i++) {
		const struct vector *v = &c->agreed.vectors[i];
		const struct coll_args *args = &v->layout.args;
		struct coll_layout l = coll_layout(v->kind, args->rank, args->size, args->root);
		*in += vector_element(&c->agreed, v, coll_in_at(v->kind, args, l.in_hi)) *
		       dtype_size(v->dtype);
		*out += vector_element(&c->agreed, v, coll_out_at(v->kind, args, l.out_hi)) *
		        dtype_size(v->out);
	}
}

/* Whichever is more. */
static uint64_t bytes_of(const struct collective *c)
{
	uint64_t in, out;
	count_bytes(c, &in, &out);
	return in > out ? in : out;
}

static int list_vectors(struct collective *c, struct err *err)
{
	const struct agreement *a = &c->agreed;
	struct transfer *t = &c->transfer;
	size_t n = (size_t)a->nvectors;
	if (!(t->vectors = err_calloc(n, sizeof *t->vectors, "the vectors", err)))
		return -1;
	for (size_t i = 0; i < n; i++) {
		const struct vector *v = &a->vectors[i];
		t->vectors[i] = (struct exec_vector){
		        .algorithm = v->algorithm,
		        .args = v->layout.args,
		        .ranks = v->ranks,
		        .op = v->op,
		        .dtype = v->wire,
		        .ordered = c->request->ordered,
		        .defer_final = v->defer_final,
		        .divisor = a->divisor,
		        .trim = request_run_part(c->request),
		        .windows = v->windows,
		};
		t->vectors[i].args.devices = devices_count(c->life->devices);
		t->vectors[i].args.unlinked = devices_are_unlinked(c->life->devices);
	}
	return 0;
}

int collective_processors(void)
{
	cpu_set_t allowed;
	return sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 0;
}

int collective_threads(const struct collective *c)
{
	return c->request->threads ? c->request->threads
	                           : collective_processors() / job_ranks_here(c->life->job);
}

/* One thread runs the streams if others would take processors from the host's other ranks. A limit
 * of the rate belongs to one thread. -1: error. */
static int count_threads(const struct collective *c, struct err *err)
{
	const int streams = (int)c->life->plan.streams;
	int threads = collective_threads(c);
	if (c->request->settings.limit_rate)
		return 1;
	if (threads > streams)
		threads = streams;
	if (!c->life->devices)
		return threads;
	return c->life->size > 1 ? coll_devices_for(c->life, threads, err) : 1;
}

/* With devices, plan.memory is a part of --memory (budget_with_devices). */
static uint64_t window_bytes(const struct collective *c)
{
	if (request_is_q8(c->request))
		return 0;
	return c->life->devices ? c->request->settings.memory : c->life->plan.memory;
}

/* List the vectors to move. Returns the number of connections that they need, or -1. */
static int list_lanes(struct collective *c, struct err *err)
{
	uint64_t bytes = bytes_of(c);
	size_t size = (size_t)c->agreed.size;
	const int threads = count_threads(c, err);
	if (threads < 0 || list_vectors(c, err) < 0)
		return -1;
	c->transfer.drive = (struct drive){
	        .job = c->life->job,
	        .devices = c->life->devices,
	        .threads = threads,
	        .memory = budget_connections(c->life->plan.memory, c->agreed.piece),
	        .window_bytes = window_bytes(c),
	        .lane_bytes = bytes,
	        .back = goes_back(c->life) ? elements_go_back : NULL,
	        .back_ctx = c,
	        .whole = c->request->stats || c->life->tracing,
	        .conf =
	                {
	                        .vectors = c->transfer.vectors,
	                        .nvectors = c->agreed.nvectors,
	                        .size = c->agreed.size,
	                        .streams = (int)c->life->plan.streams,
	                        .io = {elements_read, elements_write, c},
	                        .threads = bytes > INLINE_BYTES,
	                        .piece = c->agreed.piece,
	                        .timed = true,
	                        .trace = c->life->tracing ? &c->life->tracing->trace : NULL,
	                },
	        .times = {.peers = err_calloc(size, sizeof(int64_t), "the times", err)},
	};
	return c->transfer.drive.times.peers ? drive_lanes(&c->transfer.drive, err) : -1;
}

/* Check that there are descriptors for all connections and outputs before opening them. */
static int check_descriptors(const struct collective *c, int lanes, struct err *err)
{
	const struct sink *sink = c->transfer.sink;
	char links[64] = "", files[64] = "", what[160];
	int n = sink ? sink_descriptors(sink) : 0;
	if (lanes)
		snprintf(links, sizeof links, "the %d connections to other ranks", lanes);
	if (n)
		snprintf(files, sizeof files, "the output's %d file%s", sink_files(sink),
		         sink_files(sink) == 1 ? "" : "s");
	snprintf(what, sizeof what, "%s%s%s", links, lanes && n ? " and " : "", files);
	if (!lanes && !n)
		return 0;
	if (need_descriptors(lanes + n + SPARE_DESCRIPTORS, what, err) == 0)
		return 0;
	size_t len = strlen(err->text);
	if (lanes && c->life->plan.streams > 1)
		snprintf(err->text + len, sizeof err->text - len, "; --streams 1 needs fewer");
	return -1;
}

/* Determine the outputs, the vectors and the connections. */
static int arrange(struct collective *c, struct err *err)
{
	int lanes = -1;
	if (files_settle_order(c, err) < 0 || files_name_outputs(c, err) < 0 ||
	    deletes_find(c, err) < 0 || update_agree(c, err) < 0 || gather_update_agree(c, err) < 0)
		return -1;
	const size_t n = (size_t)c->agreed.nvectors;
	if (!(c->transfer.files = err_calloc(n, sizeof *c->transfer.files, "the vectors", err)) ||
	    files_map_outputs(c, err) < 0 || (lanes = list_lanes(c, err)) < 0)
		return -1;
	return check_descriptors(c, lanes, err);
}

static int preview(struct coll *life, struct err *err)
{
	struct collective *c = life->state;
	if (arrange(c, err) < 0 || files_check_outputs(c, err) < 0 ||
	    written_check_data(c, err) < 0 || host_room_check(c, err) < 0)
		return -1;
	return preview_make(c, err);
}

static int connect_all(struct coll *life, struct err *err)
{
	struct collective *c = life->state;
	if (arrange(c, err) < 0)
		return -1;
	clones_prepare(c);
	if (files_open_outputs(c, err) < 0 || written_check_data(c, err) < 0 ||
	    clones_agree(c, err) < 0 || input_stats_scan(c, err) < 0 ||
	    elements_prepare(c, err) < 0 || origin_prepare(c, err) < 0 || slerp_prepare(c, err) < 0)
		return -1;
	life->times.prepare = clock_ns();
	return await_prepared(c, err) < 0 ? -1 : clones_connect(c, err);
}

static void note_sharing(const struct coll *life)
{
	for (int k = 0; k < devices_threads(life->devices); k++) {
		const char *why = devices_not_shared(devices_of(life->devices, k));
		if (*why)
			coll_note(life, 1, "memory lanes copy elements of devices: %s", why);
	}
}

static int run(struct coll *life, struct err *err)
{
	struct collective *c = life->state;
	const struct coll_observer *o = life->observer;
	uint64_t in, out;
	count_bytes(c, &in, &out);
	progress_begin(c, out);
	out = c->transfer.to_write;
	if (o->moving)
		o->moving(o->ctx, in > out ? in : out, life);
	c->transfer.drive.stays = life->devices || clones_are_chained(c);
	const int ret = slerp_measure(c, err) < 0 ? -1 : drive_run(&c->transfer.drive, err);
	note_sharing(life);
	return ret < 0 ? -1 : elements_check_error(c, err);
}

/* ---- the end ---- */

static int seal_files(void *ctx, struct err *err)
{
	return files_seal(ctx, err);
}

static int give_names(void *ctx, struct err *err)
{
	return files_commit(ctx, err) < 0 ? -1 : deletes_remove(ctx, err);
}

/* fsync may take long; a fast one is not worth a thread. */
static bool may_take_long(const struct collective *c)
{
	return c->transfer.sink && (update_wanted(c) || c->request->deletes ||
	                            !(c->request->no_sync && bytes_of(c) <= INLINE_BYTES));
}

/* Tell the other ranks how long this one worked while data moved. Waiting for a disk or a device is
 * its own work, waiting for ranks is not. */
static void report_work(const struct collective *c)
{
	const struct exec_times *t = &c->transfer.drive.times;
	struct workload w = {0};
	for (int k = 0; k < SPENT_KINDS; k++) {
		uint64_t ns = t->ns[k] > 0 ? (uint64_t)t->ns[k] : 0;
		w.total += ns;
		if (k == SPENT_RECV || k == SPENT_SEND)
			continue;
		w.busy += ns;
		if (ns > w.most) {
			w.most = ns;
			w.on = (uint8_t)k;
		}
	}
	if (t->contended > (int64_t)w.most) {
		w.most = (uint64_t)t->contended;
		w.on = SPENT_KINDS;
	}
	if (t->threads)
		job_worked(c->life->job, &w);
}

static void note_coded(const struct collective *c)
{
	const struct coded_count *n = &c->transfer.drive.stats.coded;
	char plain[UNITS_TEXT], coded[UNITS_TEXT];
	if (n->plain)
		coll_note(c->life, 1,
		          "--wire: %s of data travelled to and from other hosts as %s (%.0f %%)",
		          size_text(n->plain, plain), size_text(n->coded, coded),
		          100 * (double)n->coded / (double)n->plain);
}

static int seal(struct coll *life, const uint8_t **digest, struct err *err)
{
	struct collective *c = life->state;
	struct transfer *t = &c->transfer;
	report_work(c);
	note_coded(c);
	job_phase(life->job, PHASE_COMMIT);
	if (clones_receive(c, err) < 0)
		return -1;
	int ret = may_take_long(c) ? job_run_in_thread(life->job, seal_files, c, err)
	                           : files_seal(c, err);
	if (ret < 0 || clones_pass(c, err) < 0)
		return -1;
	t->sealing = agreement_replicates(&c->agreed, c->request);
	if (t->sealing)
		*digest = t->digest;
	return 0;
}

/* Extra shards, for example of an earlier set. The user may need them, so they stay. */
static void note_strays(void *ctx, const char *folder, const char *first, int n)
{
	const struct collective *c = ctx;
	char others[64] = "";
	if (n > 1)
		snprintf(others, sizeof others, " and %d other file%s", n - 1, n == 2 ? "" : "s");
	coll_note(c->life, 0, "%s: %s%s: not part of the set that was written; not removed", folder,
	          first, others);
}

static enum fate fate_of(const struct sink *s)
{
	static const enum fate fates[] = {[SINK_NO_FILES] = FATE_NOTHING,
	                                  [SINK_ALL_OLD] = FATE_OLD,
	                                  [SINK_ALL_NEW] = FATE_NEW,
	                                  [SINK_MIXED] = FATE_MIXED};
	return s ? fates[sink_state(s)] : FATE_NOTHING;
}

static enum fate commit(struct coll *life, struct err *err)
{
	struct collective *c = life->state;
	struct transfer *t = &c->transfer;
	int ret = may_take_long(c) ? job_commit_in_thread(life->job, give_names, c, err)
	                           : give_names(c, err);
	deletes_note(c);
	t->in_place = ret == 0 || t->deletes.extras.failed;
	if (t->in_place && t->sink)
		sink_strays(t->sink, note_strays, c);
	return fate_of(t->sink);
}

/* ---- the result ---- */

/* Elements of a vector that is laid out. */
static uint64_t count_of(const struct vector *v)
{
	return v->layout.args.off && !v->blocks ? coll_count(&v->layout.args) : v->info.count;
}

/* The vector that moves most. The report shows its algorithm and type. */
static const struct vector *largest(const struct agreement *a)
{
	const struct vector *most = a->vectors;
	for (int i = 1; i < a->nvectors && !agreement_is_beside(a, i); i++)
		if (array_bytes(&a->vectors[i].info) > array_bytes(&most->info))
			most = &a->vectors[i];
	return a->nvectors ? most : NULL;
}

/* The type of all tensors, if they have one. */
static const char *dtype_of_tensors(const struct agreement *a)
{
	for (size_t i = 1; i < a->ntensors; i++)
		if (a->tensors[i].tensor.dtype != a->tensors[0].tensor.dtype)
			return "mixed";
	return dtype_name(a->ntensors ? a->tensors[0].tensor.dtype : DTYPE_U8);
}

static void report_vectors(const struct agreement *a, struct coll_result *r)
{
	const struct vector *most = largest(a);
	r->algorithm = most ? most->algorithm : NULL;
	r->dtype = most && most->dtype ? dtype_name(most->dtype) : NULL;
	for (int i = 0; i < a->nvectors && !agreement_is_beside(a, i); i++) {
		const struct vector *v = &a->vectors[i];
		r->count += count_of(v);
		r->bytes += count_of(v) * dtype_size(v->dtype);
		r->windows += v->windows;
		if (v->dtype != most->dtype)
			r->dtype = "mixed";
	}
	if (a->content == CONTENT_PIECES)
		r->dtype = dtype_of_tensors(a);
	bool named = a->content != CONTENT_BYTES && a->ntensors &&
	             (a->ntensors > 1 || *a->tensors[0].tensor.name);
	r->tensors = named ? a->ntensors : 0;
}

static void report_inputs(struct collective *c, struct coll_result *r)
{
	struct transfer *t = &c->transfer;
	/* The index of a broadcast set is an additional input. */
	bool one = c->agreed.content == CONTENT_BYTES && !c->request->each && t->ninputs;
	int n = one ? 1 : t->ninputs;
	t->input_names = err_calloc((size_t)n + 1, sizeof *t->input_names,
	                            "the names of the inputs", &r->err);
	for (int i = 0; t->input_names && i < n; i++)
		t->input_names[r->ninputs++] = t->inputs[i].path;
	r->inputs = t->input_names;
}

static void describe(const struct coll *life, struct coll_result *r)
{
	const struct collective *c = life->state;
	report_vectors(&c->agreed, r);
}

/* Are parts of the root's files not sent, so that the digest is not that of the files? */
static bool leaves_out(const struct file_list *l)
{
	for (int f = 0; f < l->nfiles; f++)
		if (l->files[f].linked || l->files[f].data.sparse)
			return true;
	return false;
}

/* A file that is gathered alone, or joined with others, is sent whole. */
static bool leaves_out_any(const struct agreement *a)
{
	bool any = leaves_out(&a->root_files);
	for (int r = 0; a->rank_files && r < a->size; r++)
		any |= rank_files_is_folder(&a->rank_files[r]) &&
		       leaves_out(&a->rank_files[r].files);
	return any;
}

/* The files that this rank sends in a gather or, at the root, those of all ranks. */
static void count_gathered(const struct collective *c, struct coll_result *r)
{
	const struct agreement *a = &c->agreed;
	r->has_files = c->transfer.gives.files != NULL;
	for (int i = 0; i < (a->rank_files ? a->size : 1); i++) {
		const struct file_list *l =
		        a->rank_files ? &a->rank_files[i].files : &c->transfer.gives;
		for (int f = 0; f < l->nfiles; f++) {
			r->content_bytes += l->files[f].bytes;
			r->equal_files += l->files[f].equal;
			r->sent_files += !l->files[f].linked && !l->files[f].equal;
		}
	}
}

static void count_files(const struct collective *c, struct coll_result *r)
{
	const struct file_list *l = &c->agreed.root_files;
	const uint8_t *lacks = c->transfer.update.lacks;
	if (c->request && request_gathers_files(c->request)) {
		count_gathered(c, r);
		return;
	}
	r->has_files = l->nfiles || l->nfolders;
	r->equal_files = c->transfer.update.nequal;
	r->deleted_files = c->transfer.deletes.extras.removed;
	for (int f = 0; f < l->nfiles; f++) {
		r->content_bytes += l->files[f].bytes;
		r->sent_files +=
		        !l->files[f].linked && (!lacks || update_bit(lacks, 2 * (uint64_t)f));
	}
	if (!r->err.code && r->has_files)
		r->pieces = update_count_pieces(c);
}

/* The bytes of the elements of all vectors over the bytes that stand for them on lanes. */
static double plain_part(const struct agreement *a)
{
	double plain = 0, wire = 0;
	for (int i = 0; i < a->nvectors; i++) {
		const struct vector *v = &a->vectors[i];
		plain += (double)v->info.count * (double)dtype_size(v->dtype);
		wire += (double)(v->blocks ? v->blocks : v->info.count) *
		        (double)dtype_size(v->wire ? v->wire : v->dtype);
	}
	return wire > 0 ? plain / wire : 1;
}

static void report(struct coll *life, struct coll_result *r)
{
	struct collective *c = life->state;
	const struct transfer *t = &c->transfer;
	report_vectors(&c->agreed, r);
	report_inputs(c, r);
	r->streams = life->plan.streams;
	for (int i = 0; i < c->agreed.nvectors; i++)
		r->predicted += planner_seconds(&c->planner, i);
	r->coded = c->agreed.piece > 0;
	r->max_error = t->max_error;
	r->plain_part = plain_part(&c->agreed);
	r->output = t->sink ? t->output : NULL;
	r->stats = t->drive.stats;
	r->spent = t->drive.times;
	r->peers = t->drive.npeers;
	r->reconnects = life->job ? job_reconnects(life->job) : 0;
	if (t->drive.mesh)
		mesh_count(t->drive.mesh, &r->memory_lanes, &r->tcp_lanes);
	count_files(c, r);
	r->cloned = t->in_place && clones_made(c);
	r->plain_bytes = t->update.coded ? t->update.plain_bytes : 0;
	r->without_old = t->update.without_old;
	r->nwithout = t->update.nwithout;
	r->whole_bytes = t->update.coded_bytes[UPDATE_WHOLE];
	r->has_digest = t->in_place && t->sink && !r->equal_files && !t->update.equal &&
	                !t->update.coded && !leaves_out_any(&c->agreed);
	memcpy(r->digest, t->digest, sizeof r->digest);
	if (r->err.code || !c->request)
		return;
	if (c->request->dry_run)
		r->preview = &t->preview;
	else if (c->request->stats)
		input_stats_report(c, r);
}

/* Free the executor's file threads and lanes before the mesh. */
static void disconnect(struct coll *life)
{
	struct collective *c = life->state;
	exec_free(c->transfer.drive.exec);
}

/* All but the inputs. */
static void release_round(struct collective *c)
{
	elements_release(c);
	origin_release(c);
	outer_release(c);
	slerp_release(c);
	input_stats_release(c);
	preview_release(c);
	host_room_release(c);
	clones_release(c);
	deletes_release(c);
	update_release(c);
	gather_update_release(c);
	files_release(c);
	consolidated_release(c);
	free(c->transfer.drive.edges); /* set if nothing was connected */
	free(c->transfer.drive.times.peers);
	free(c->transfer.vectors);
	agree_release(c);
}

static void release(struct coll *life)
{
	release_round(life->state);
	files_close_inputs(life->state);
}

/* The inputs stay open: a pipe can be read once. */
static void renew(struct coll *life)
{
	struct collective *c = life->state;
	struct transfer *t = &c->transfer;
	const struct transfer open = {.inputs = t->inputs,
	                              .ninputs = t->ninputs,
	                              .origin.file = t->origin.file,
	                              .outer.file = t->outer.file};
	t->origin.file = (struct inspection){0};
	t->outer.file = (struct inspection){0};
	disconnect(life);
	release_round(c);
	*c = (struct collective){.life = life, .request = life->request, .transfer = open};
	begin(c);
}

const struct coll_task coll_task_collective = {
        .state_size = sizeof(struct collective),
        .prepare = prepare,
        .offer = offer,
        .renew = renew,
        .meshes = meshes,
        .goes_back = goes_back,
        .decide = agree_decide,
        .terms = agree_terms,
        .collect = collect,
        .answer = answer,
        .adopt = adopt,
        .preview = preview,
        .connect = connect_all,
        .run = run,
        .seal = seal,
        .commit = commit,
        .describe = describe,
        .report = report,
        .disconnect = disconnect,
        .release = release,
};
