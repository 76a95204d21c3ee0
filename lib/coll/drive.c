#include "lib/coll/drive.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/exec/budget.h"

#define YIELDS       20 /* yields before sleeping, while data move */
#define MANY_WINDOWS 65536

static struct conn *conn_of(void *ctx, int peer, bool out, int stream)
{
	return mesh_conn(ctx, peer, out, stream);
}

int drive_connect_edges(struct drive *d, const uint8_t *used, struct err *err)
{
	int size = exec_ranks(&d->conf), nout = 0, nin = 0, ret = 0;
	int *out = err_calloc((size_t)size, sizeof *out, "the edges", err);
	int *in = err_calloc((size_t)size, sizeof *in, "the edges", err);
	if (!out || !in)
		ret = -1;
	d->npeers = 0;
	for (int p = 0; ret == 0 && p < size; p++) {
		if (used[p] & EXEC_OUT)
			out[nout++] = p;
		if (used[p] & EXEC_IN)
			in[nin++] = p;
		d->npeers += used[p] != 0;
	}
	if (ret == 0 && d->npeers) {
		int nconns = (nout + nin) * d->conf.streams;
		d->mesh = job_connect(d->job, out, nout, in, nin, d->conf.streams,
		                      budget_connection(d->memory, d->lane_bytes, nconns),
		                      d->window_bytes, err);
		ret = d->mesh ? 0 : -1;
	}
	free(out);
	free(in);
	return ret;
}

static int find_edges(void *ctx, struct err *err)
{
	struct drive *d = ctx;
	return exec_window_edges(&d->conf, d->edges, err);
}

/* As many windows as the coordinator says: they may take long. */
static bool has_many_windows(const struct drive *d)
{
	uint64_t n = 0;
	for (int p = 0; p < d->conf.nvectors; p++)
		n += d->conf.vectors[p].windows;
	return n > MANY_WINDOWS;
}

int drive_lanes(struct drive *d, struct err *err)
{
	int size = exec_ranks(&d->conf), lanes = 0;
	if (!(d->edges = err_calloc((size_t)size, 1, "the edges", err)))
		return -1;
	if ((has_many_windows(d) ? job_run_in_thread(d->job, find_edges, d, err)
	                         : find_edges(d, err)) < 0)
		return -1;
	for (int p = 0; p < size; p++)
		lanes += !!(d->edges[p] & EXEC_OUT) + !!(d->edges[p] & EXEC_IN);
	return lanes * d->conf.streams;
}

int drive_connect(struct drive *d, struct err *err)
{
	if (!d->edges && drive_lanes(d, err) < 0)
		return -1;
	return drive_connect_edges(d, d->edges, err);
}

static int waits_for(void *ctx, int *peers, int cap, char *device, size_t device_cap)
{
	exec_waits_for_device(ctx, device, device_cap);
	return exec_waits_for(ctx, peers, cap);
}

static void files_moved(void *ctx, uint32_t events)
{
	const struct loop_watch *w = ctx;
	(void)events;
	event_clear(w->fd);
}

static int team_waits(void *ctx, int *peers, int cap, char *device, size_t device_cap)
{
	team_waits_for_device(ctx, device, device_cap);
	return team_waits_for(ctx, peers, cap);
}

/* The runs before this one are part of the job's progress, and so is the one that follows. */
static void report(struct drive *d)
{
	static const enum pipeline_stage stages[EXEC_MOVES] = {[EXEC_READ] = PIPELINE_READ,
	                                                       [EXEC_WIRE] = PIPELINE_MOVE,
	                                                       [EXEC_WRITE] = PIPELINE_WRITE};
	const uint64_t runs = d->again ? 2 : 1;
	uint64_t done, total;
	for (int k = 0; k < EXEC_MOVES; k++) {
		struct pipeline_part *part = &d->pipeline.part[stages[k]];
		part->done = d->before.moved[k] + d->stats.moved[k];
		part->total = d->before.total[k] + runs * d->stats.total[k];
	}
	pipeline_count(&d->pipeline, &done, &total);
	job_moved(d->job, done, total);
}

/* The executor has failed. */
static int failed(struct drive *d, const struct err *err)
{
	d->broke = err->code == ERR_PEER_LOST && err->rank >= 0;
	return -1;
}

/* The threads do the work: this one answers the coordinator. */
static int go_with_team(struct drive *d, struct err *err)
{
	for (;;) {
		int state = team_state(d->team, err);
		team_stats(d->team, &d->stats);
		report(d);
		if (state == 1 && d->conf.timed)
			team_times(d->team, &d->times);
		if (state)
			return state < 0 ? failed(d, err) : 0;
		if (job_turn(d->job, err) < 0 || job_goes_back(d->job))
			return -1;
	}
}

int drive_go(struct drive *d, struct err *err)
{
	if (d->team)
		return go_with_team(d, err);
	job_waits(d->job, waits_for, d->exec);
	exec_watch_lanes(d->exec);
	for (;;) {
		int ret = exec_advance(d->exec, err);
		exec_stats(d->exec, &d->stats);
		report(d);
		if (ret == 1 && d->conf.timed)
			exec_times(d->exec, &d->times);
		if (ret < 0 || ret == 1)
			return ret < 0 ? failed(d, err) : 0;
		if ((ret == EXEC_AGAIN ? job_poll : job_turn)(d->job, err) < 0 ||
		    job_goes_back(d->job))
			return -1;
	}
}

static int begin_team(struct drive *d, struct err *err)
{
	d->team = team_new(&d->conf, d->threads, d->devices, job_local_index(d->job), err);
	if (!d->team)
		return -1;
	d->files = (struct loop_watch){.fd = team_fd(d->team), .fn = files_moved, .ctx = &d->files};
	if (loop_add(job_loop(d->job), &d->files, EPOLLIN, err) < 0)
		return -1;
	job_waits(d->job, team_waits, d->team);
	job_phase(d->job, PHASE_RUN);
	return team_start(d->team, err);
}

void drive_hurry(struct job *job, const struct devices *devices, bool on)
{
	struct loop *loop = job_loop(job);
	loop->yields = on ? YIELDS : 0;
	loop->home = -1;
	if (on)
		loop_home(loop, job_local_index(job), devices_node(devices));
}

/* Memory for the executors' windows. */
static void share_memory(struct drive *d)
{
	struct arena *arena = d->mesh ? mesh_arena(d->mesh) : NULL;
	for (int k = 0; k < devices_threads(d->devices); k++)
		devices_share(devices_of(d->devices, k), arena);
	if (!arena || d->devices)
		return;
	shared_space_init(&d->shared, arena);
	d->conf.host = &d->shared.space;
}

int drive_begin(struct drive *d, struct err *err)
{
	struct loop *loop = job_loop(d->job);
	d->conf.conn = conn_of;
	d->conf.conn_ctx = d->mesh;
	d->files.fd = -1;
	if (!d->pipeline.part->weight)
		pipeline_weigh(&d->pipeline, (const double[PIPELINE_STAGES]){0});
	if (d->mesh)
		mesh_settle(d->mesh);
	d->conf.edges = d->edges;
	share_memory(d);
	if (d->threads > 1 && d->mesh)
		return begin_team(d, err);
	if (d->devices && devices_give(d->devices, &d->conf, loop, err) < 0)
		return -1;
	d->exec = exec_new(&d->conf, err);
	if (!d->exec)
		return -1;
	d->files = (struct loop_watch){.fd = exec_fd(d->exec), .fn = files_moved, .ctx = &d->files};
	if (d->files.fd >= 0 && loop_add(loop, &d->files, EPOLLIN, err) < 0)
		return -1;
	job_phase(d->job, PHASE_RUN);
	drive_hurry(d->job, d->devices, true);
	return 0;
}

void drive_end(struct drive *d)
{
	drive_hurry(d->job, d->devices, false);
	job_waits(d->job, NULL, NULL);
	loop_del(job_loop(d->job), &d->files);
	if (d->team)
		d->complete = team_stop(d->team);
	else if (d->exec)
		d->complete = exec_complete(d->exec);
	team_free(d->team);
	d->team = NULL;
	if (d->devices)
		devices_detach(d->devices);
}

static int run(struct drive *d, struct err *err)
{
	int ret = drive_begin(d, err);
	if (ret == 0)
		ret = drive_go(d, err);
	drive_end(d);
	return ret;
}

/* One session: until the data of all ranks have moved, or the job goes back. */
static int run_session(struct drive *d, struct err *err)
{
	d->broke = false;
	d->complete = d->conf.first;
	if (job_goes_back(d->job) || run(d, err) < 0)
		return -1;
	if (!d->back)
		return 0;
	const int64_t from = clock_ns();
	const int ret = job_await_moved(d->job, err);
	d->times.ns[SPENT_RECV] += (clock_ns() - from) * d->times.threads; /* of other ranks */
	return ret;
}

/* What has moved in a session that is over counts as sent, but only what is complete as moved. The
 * times are those of the last one. */
static void count_session(struct drive *d)
{
	uint64_t windows = 0;
	for (int p = 0; p < d->conf.nvectors; p++)
		windows += d->conf.vectors[p].windows;
	exec_stats_add(&d->before, &d->stats);
	for (int k = 0; k < EXEC_MOVES; k++) {
		if (!d->stats.total[k]) /* or it had not begun */
			continue;
		const uint64_t all = d->before.total[k] + d->stats.total[k];
		d->before.moved[k] = d->before.total[k] =
		        (uint64_t)((unsigned __int128)all * d->conf.first / windows);
	}
	d->stats = (struct exec_stats){0};
	memset(d->times.peers, 0, (size_t)exec_ranks(&d->conf) * sizeof *d->times.peers);
	d->times = (struct exec_times){.peers = d->times.peers};
}

/* The session has ended with *err. True: a new one begins. */
static bool begin_again(struct drive *d, struct err *err)
{
	if (!d->back || (err->code && !d->broke))
		return false;
	if (!job_goes_back(d->job) && (!d->broke || job_lane_broke(d->job, err) < 0))
		return false;
	err_clear(err);
	exec_free(d->exec);
	d->exec = NULL;
	if (job_go_back(d->job, !d->stays, d->whole ? 0 : d->complete, &d->conf.first, err) < 0)
		return false;
	d->mesh = NULL;
	d->conf.host = NULL;
	count_session(d);
	d->back(d->back_ctx);
	return drive_connect_edges(d, d->edges, err) == 0;
}

int drive_run(struct drive *d, struct err *err)
{
	int ret;
	do
		ret = run_session(d, err);
	while (ret < 0 && begin_again(d, err));
	exec_stats_add(&d->stats, &d->before);
	for (int k = 0; k < EXEC_MOVES; k++)
		d->stats.total[k] += d->before.total[k];
	d->before = (struct exec_stats){0};
	if (ret == 0)
		pipeline_complete(&d->pipeline); /* the totals were estimates */
	return ret;
}

int drive_run_first(struct drive *d, struct err *err)
{
	struct trace *trace = d->conf.trace;
	const bool timed = d->conf.timed;
	d->again = d->conf.repeat = true;
	d->conf.timed = false;
	d->conf.trace = NULL;
	int ret = run(d, err);
	exec_free(d->exec);
	d->exec = NULL;
	d->before = d->stats;
	d->again = d->conf.repeat = false;
	d->conf.timed = timed;
	d->conf.trace = trace;
	return ret;
}
