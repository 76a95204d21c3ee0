/* The life of a job. See coll.h and task.h. */
#include "lib/coll/agreement/request_facts.h"
#include "lib/coll/coll.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/coll/files/written.h"
#include "lib/coll/task.h"
#include "lib/exec/budget.h"
#include "lib/store/store.h"

static const struct coll_task *const tasks[] = {
        [WORK_COLLECTIVE] = &coll_task_collective, [WORK_BARRIER] = &coll_task_barrier,
        [WORK_VERIFY] = &coll_task_verify,         [WORK_BENCH] = &coll_task_bench,
        [WORK_CHECK] = &coll_task_check,
};

int coll_round(struct coll *c, struct buf *part, const char *what, struct view *answer,
               struct err *err)
{
	int ret = part->failed ? err_nomem(err, what, part->max)
	                       : job_round(c->job, part, answer, err);
	buf_release(part);
	return ret;
}

int coll_await_round(struct coll *c, struct buf *part, const char *what, struct view *answer,
                     struct err *err)
{
	job_caller_watches(c->job, true);
	int ret = coll_round(c, part, what, answer, err);
	job_caller_watches(c->job, false);
	return ret;
}

void coll_note(const struct coll *c, int level, const char *fmt, ...)
{
	char text[1024];
	va_list ap;
	if (!c->observer->note)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	c->observer->note(c->observer->ctx, level, c->rank, text);
}

/* ---- the stages ---- */

static int stage(struct coll *c, int (*fn)(struct coll *, struct err *), struct err *err)
{
	return fn ? fn(c, err) : 0;
}

/* Without numbers, a rank that finds no record any more begins another job. */
static bool has_one_coordinator(const struct job_conf *conf)
{
	return conf->rendezvous && conf->rank != JOB_RANK_AUTO;
}

/* Everything before the job is open. */
static int prepare(struct coll *c, struct err *err)
{
	const struct coll_request *r = c->request;
	const struct coll_observer *o = c->observer;
	if (request_check(r, err) < 0 || written_check(r, err) < 0 ||
	    stage(c, c->task->check, err) < 0 || member_init(&c->member, &r->settings, err) < 0)
		return -1;
	c->member.conf.note = o->note;
	c->member.conf.note_ctx = o->ctx;
	if (r->settings.store_token_file && r->settings.rendezvous &&
	    store_exposes_token(r->settings.rendezvous))
		coll_note(c, 0,
		          "%s: the token of --store-token-file is sent in plain text: use an "
		          "https URL",
		          r->settings.rendezvous);
	c->rank = c->member.conf.rank >= 0 ? c->member.conf.rank : -1;
	c->size = c->member.conf.size;
	if (o->joining)
		o->joining(o->ctx, &c->member);
	if (request_check_size(r, c->size, err) < 0 ||
	    request_check_fewest(&r->settings, c->size, has_one_coordinator(&c->member.conf), err) <
	            0 ||
	    stage(c, c->task->prepare, err) < 0 ||
	    member_present(&c->member, r->ninputs ? r->inputs[0] : NULL,
	                   r->noutputs ? r->outputs[0] : NULL, err) < 0)
		return -1;
	c->job = job_open(&c->member.conf, err);
	if (c->job && o->opened)
		o->opened(o->ctx, c->job);
	return c->job ? 0 : -1;
}

/* What the thread that opens devices uses. */
struct opening {
	struct device_list list;
	enum gpu_path path;
	struct gpu_limits limits;
	int place;
	struct devices *devices;
	int threads; /* for which they are opened once more */
};

static int open_devices(void *ctx, struct err *err)
{
	struct opening *o = ctx;
	o->devices = devices_open(&o->list, o->path, &o->limits, o->place, err);
	return o->devices ? 0 : -1;
}

static void drop_devices(void *ctx)
{
	struct opening *o = ctx;
	devices_close(o->devices);
	free(o);
}

static int extend_devices(void *ctx, struct err *err)
{
	struct opening *o = ctx;
	(void)err;
	devices_extend(o->devices, o->threads);
	return 0;
}

static void note_devices(const struct coll *c)
{
	const char *path = devices_path(c->devices);
	const struct memory_space *const *spaces = devices_spaces(c->devices);
	char names[DEVICES_MOST * 24] = "";
	for (int i = 0, at = 0; i < devices_count(c->devices); i++)
		at += snprintf(names + at, sizeof names - (size_t)at, "%s%s", i ? ", " : "",
		               spaces[i]->name);
	if (devices_are_unlinked(c->devices))
		coll_note(
		        c, 1,
		        "devices: %s; without access to each other's memory, so all inputs are on "
		        "%s",
		        names, spaces[0]->name);
	else
		coll_note(c, 1, "devices: %s%s%s", names,
		          *path ? "; they reach each other's memory by " : "", path);
}

static int ask_driver(struct coll *c, int (*fn)(void *, struct err *), struct opening *o,
                      struct err *err)
{
	return job_ask_in_thread(c->job, "--device cuda: the driver", fn, drop_devices, o, err);
}

int coll_devices_for(struct coll *c, int threads, struct err *err)
{
	if (devices_threads(c->devices) < threads) {
		struct opening *o = err_calloc(1, sizeof *o, "the devices", err);
		if (!o)
			return -1;
		o->devices = c->devices;
		o->threads = threads;
		c->devices = NULL; /* those of the thread, until it ends */
		if (ask_driver(c, extend_devices, o, err) < 0)
			return -1;
		c->devices = o->devices;
		free(o);
	}
	const int sets = devices_threads(c->devices);
	return sets < threads ? sets : threads;
}

/* A driver may take long to start, or hang. */
static int find_devices(struct coll *c, struct err *err)
{
	const int local = c->member.launch.local_rank;
	if (!request_uses_devices(c->request)) {
		if (c->request->devices.wanted)
			coll_note(c, 0,
			          "all inputs are needed at once: computed in host memory, "
			          "without --device");
		return 0;
	}
	struct opening *o = err_malloc(sizeof *o, "the devices", err);
	if (!o)
		return -1;
	*o = (struct opening){.list = c->request->devices,
	                      .path = c->request->device_path,
	                      .place = local >= 0 ? local : c->rank,
	                      .limits = {.start_ns = c->request->settings.timeout / 2,
	                                 .pinned = c->request->settings.memory / 4,
	                                 .own = c->request->device_memory / 4}};
	if (ask_driver(c, open_devices, o, err) < 0)
		return -1;
	c->devices = o->devices;
	free(o);
	note_devices(c);
	return 0;
}

static void note_nccl(const struct coll *c)
{
	struct device_nccl nccl;
	devices_nccl(c->devices, &nccl);
	if (nccl.state > 0)
		coll_note(c, 1, "NCCL %s made %llu of the reductions between devices", nccl.text,
		          (unsigned long long)nccl.folds);
	else if (nccl.state < 0)
		coll_note(c, 1, "NCCL has failed: %s", nccl.text);
}

uint64_t coll_device_memory(const struct coll *c)
{
	const uint64_t room = c->request->device_memory;
	return room ? room : devices_free_bytes(c->devices) / 4 * 3;
}

uint64_t coll_memory(const struct coll *c)
{
	const uint64_t memory = c->request->settings.memory;
	if (!c->devices)
		return memory;
	return budget_with_devices(memory, devices_pinned_bytes(c->devices), coll_device_memory(c));
}

static void show_table(void *ctx, uint32_t page, struct buf *out)
{
	const struct coll *c = ctx;
	tensor_table_show(c->table, page, out);
}

/* Send what this rank asks for. */
static int offer(void *ctx, struct err *err)
{
	struct coll *c = ctx;
	const struct coll_task *t = c->task;
	if (request_facts(c->request, &c->intent, err) < 0 || stage(c, t->offer, err) < 0)
		return -1;
	const bool mesh = c->size > 1 && t->meshes && t->meshes(c);
	const struct job_callbacks callbacks = {.decide = t->decide,
	                                        .details = t->terms,
	                                        .table = c->table ? show_table : NULL,
	                                        .noun = "tensor",
	                                        .collect = t->collect,
	                                        .answer = t->answer,
	                                        .forms_anew = t->renew,
	                                        .goes_back = t->goes_back && t->goes_back(c),
	                                        .ctx = c};
	c->offered = true;
	return job_offer(c->job, &c->intent, mesh, &callbacks, err);
}

static bool reads_a_pipe(const struct coll_request *r)
{
	for (int i = 0; i < r->ninputs; i++)
		if (dataset_is_pipe(r->inputs[i]))
			return true;
	return r->origin && dataset_is_pipe(r->origin);
}

/* An offer needs the number, the root, and the memory of devices. One that waits for the writer of
 * a pipe is made once this rank has joined, and hears of the end of the job. */
static int join(struct coll *c, struct err *err)
{
	const bool early = c->rank >= 0 && c->size > 0 && !c->member.conf.present.finds_root &&
	                   !c->request->devices.wanted && !reads_a_pipe(c->request);
	if (job_enter(c->job, early ? offer : NULL, c, err) < 0)
		return -1;
	c->rank = job_rank(c->job);
	return 0;
}

static int agree(struct coll *c, struct err *err)
{
	if (job_agree(c->job, &c->plan, err) < 0 || stage(c, c->task->adopt, err) < 0)
		return -1;
	if (c->plan.hosts > 1) {
		c->link = coll_link(c);
		c->round_trip =
		        (double)job_round_trip(c->job, job_coordinator(c->job)) / NS_PER_SEC;
	}
	c->times.join = clock_ns();
	return 0;
}

static int commit(struct coll *c, struct err *err)
{
	struct err mine = ERR_INIT;
	const uint8_t *digest = NULL;
	if (c->task->seal && c->task->seal(c, &digest, err) < 0)
		return -1;
	c->times.seal = clock_ns();
	if (c->plan.trace && tracing_collect(c, err) < 0)
		return -1;
	if (job_vote(c->job, digest, err) < 0)
		return -1;
	c->times.verdict = clock_ns();
	if (c->observer->decided)
		c->observer->decided(c->observer->ctx);
	if (!c->task->commit)
		return 0;
	const enum fate fate = c->task->commit(c, &mine);
	return job_finish(c->job, &mine, fate, err);
}

/* request.dry_run. The vote tells every rank whether the job would fail on any. */
static int preview(struct coll *c, struct err *err)
{
	c->phase = PHASE_CONNECT;
	if (stage(c, c->task->preview, err) < 0)
		return -1;
	job_phase(c->job, PHASE_COMMIT);
	c->phase = PHASE_COMMIT;
	if (job_vote(c->job, NULL, err) < 0)
		return -1;
	c->times.commit = clock_ns();
	return 0;
}

/* What the start took of the time of round trips, to a rank 0 that is far away. The join also waits
 * for ranks that come late. */
static void note_start(const struct coll *c)
{
	if (network_class(c->round_trip) <= 0)
		return;
	coll_note(c, 2,
	          "the join took as long as %.1f round trips to rank %d, the connections for data "
	          "%.1f",
	          coll_seconds(c->times.start, c->times.join) / c->round_trip,
	          job_coordinator(c->job),
	          coll_seconds(c->times.join, c->times.connect) / c->round_trip);
}

/* From the offer to the commit, of the ranks that take part. c->phase says where it failed. */
static int run_round(struct coll *c, struct err *err)
{
	if ((!c->offered && offer(c, err) < 0) || agree(c, err) < 0)
		return -1;
	if (c->request->dry_run)
		return preview(c, err);
	c->phase = PHASE_CONNECT;
	if ((c->plan.trace && tracing_begin(c, err) < 0) || stage(c, c->task->connect, err) < 0 ||
	    (c->plan.trace && tracing_sync(c, err) < 0))
		return -1;
	c->times.connect = clock_ns();
	note_start(c);
	c->phase = PHASE_RUN;
	if (stage(c, c->task->run, err) < 0)
		return -1;
	if (c->devices)
		note_nccl(c);
	c->times.run = clock_ns();
	c->phase = PHASE_COMMIT;
	if (commit(c, err) < 0)
		return -1;
	c->times.commit = clock_ns();
	return 0;
}

/* A rank was lost, and the job goes on without it. */
static void form_anew(struct coll *c)
{
	c->task->renew(c);
	tracing_release(c);
	c->intent = (struct intent){0};
	c->offered = false;
	c->plan = (struct plan){0};
	c->table = NULL;
	c->times.seal = 0;
	c->phase = PHASE_JOIN;
	if (c->observer->moving)
		c->observer->moving(c->observer->ctx, 0, NULL);
	job_form_anew(c->job);
}

static int run(struct coll *c, struct err *err)
{
	if (join(c, err) < 0 || find_devices(c, err) < 0)
		return -1;
	int ret = run_round(c, err);
	while (ret < 0 && job_forms_anew(c->job, err)) {
		form_anew(c);
		ret = run_round(c, err);
	}
	return ret;
}

/* ---- public functions ---- */

static struct coll *make(const struct coll_request *request, const struct coll_observer *observer)
{
	const struct coll_task *task = tasks[request->work];
	struct coll *c = calloc(1, sizeof *c);
	void *state = calloc(1, task->state_size);
	if (!c || !state) {
		free(c);
		free(state);
		return NULL;
	}
	*c = (struct coll){
	        .request = request, .observer = observer, .task = task, .state = state, .rank = -1};
	c->times.start = clock_ns();
	return c;
}

int coll_run(const struct coll_request *request, const struct coll_observer *observer,
             struct coll_result *result)
{
	struct err *err = &result->err;
	struct coll *c = make(request, observer);
	*result = (struct coll_result){.err = ERR_INIT, .rank = -1, .job = c};
	if (!c)
		return err_nomem(err, "the job", sizeof *c);
	int ret = prepare(c, err);
	if (ret == 0)
		ret = run(c, err);
	if (ret < 0 && !err->code) /* a mistake in the program must not look like success */
		err_set(err, ERR_OTHER, "the job failed without a reason: please report this");
	if (ret < 0 && c->job)
		job_fail(c->job, err);
	result->repeatable = c->job && (err->code == ERR_PEER_LOST || err->code == ERR_STALLED) &&
	                     !job_decided(c->job);
	result->phase = c->phase;
	result->rank = c->rank;
	result->size = c->size;
	result->all_inputs = c->request->work == WORK_COLLECTIVE ? c->plan.total_inputs : 0;
	result->came = c->plan.came;
	result->ncame = c->plan.ncame ? c->plan.ncame : c->size;
	result->hosts = c->plan.hosts;
	result->host = c->plan.host;
	result->link = c->link;
	result->round_trip = c->round_trip;
	result->times = c->times;
	result->busiest.rank = -1;
	if (c->job)
		result->busiest = *job_busiest(c->job);
	if (c->devices) {
		result->device_path = devices_path(c->devices);
		devices_nccl(c->devices, &result->nccl);
	}
	c->task->report(c, result);
	return err->code ? -1 : 0;
}

void coll_end(struct coll_result *result)
{
	struct coll *c = result->job;
	if (!c)
		return;
	if (c->task->disconnect)
		c->task->disconnect(c);
	devices_close(c->devices);
	job_close(c->job);
	c->task->release(c);
	tracing_release(c);
	member_release(&c->member);
	free(c->state);
	free(c);
	result->job = NULL;
}
