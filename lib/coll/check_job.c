/*
 * check: tests and measures every link. First all links at once: connect, and send more bytes than
 * a packet holds (probe.h). Then rank r measures the round trip to rank r + k, and how long one
 * more connection takes, while rank r - k measures those to rank r, for k = 1, 2 ... P - 1; then
 * the bandwidths in the same rounds. So a port carries one measurement in each direction at a time.
 * The rounds of the control links (job_round) keep the ranks in step; they also take the figures to
 * the coordinator's rank, which makes the matrix of them.
 *
 * A link that fails does not end the job. The vote does, with the names of all that failed. Nor
 * does a rank that does not join: at the end of --join-timeout the others check the links among
 * them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/text.h"
#include "lib/coll/check_files.h"
#include "lib/coll/files/written.h"
#include "lib/coll/task.h"
#include "lib/job/ranks.h"
#include "lib/links/clique.h"
#include "lib/links/link_matrix.h"
#include "lib/links/meter.h"
#include "lib/links/probe.h"
#include "lib/price/tuning.h"

/* An answer after the first round: for each rank which of the links between it and the reader
 * work. */
#define WORKS_TO   1u
#define WORKS_FROM 2u

struct check {
	struct job_settings settings; /* the request's, but for the ranks that do not join */
	struct link_matrix matrix;    /* on the coordinator's rank */
	bool coordinates;
	struct select_tuning found;
	struct probe_stats probe;
	struct meter *meter;
	int *peers, *out, *in; /* the other ranks; those to measure; those that measure this rank */
	int nout, nin;
	size_t reported; /* bytes of failures that the coordinator has */
};

static int check(struct coll *c, struct err *err)
{
	struct check *k = c->state;
	return tuning_read_old(&k->found, c->request->tuning_out, err);
}

/* As long as two ranks come, there are links. Two parts of the ranks may both begin: no harm is
 * done. */
static int prepare(struct coll *c, struct err *err)
{
	struct check *k = c->state;
	(void)err;
	k->settings = *c->member.conf.settings;
	k->settings.min_ranks = 2;
	k->settings.grace = k->settings.join_timeout;
	c->member.conf.settings = &k->settings;
	return 0;
}

static int offer(struct coll *c, struct err *err)
{
	(void)err;
	c->intent.memory = UINT64_MAX;
	c->intent.ninputs = 1;
	return 0;
}

static bool meshes(const struct coll *c)
{
	(void)c;
	return true;
}

/* The ranks that take part, without gaps: which is this one, and which number has the @k-th? */
static int own_place(const struct coll *c)
{
	return ranks_find(c->plan.came, c->plan.ncame, c->rank);
}

static int rank_at(const struct coll *c, int k)
{
	return ranks_at(c->plan.came, k);
}

/* The name in the hostfile, by which the ranks reach the host, or else its own. */
static const char *name_of(void *ctx, int rank)
{
	const struct coll *c = ctx;
	const struct hostfile *hosts = c->member.conf.hosts;
	const char *name = hosts ? hostfile_host(hosts, rank) : job_host(c->job, rank);
	return name && *name ? name : c->member.conf.present.host;
}

/* A list names hosts: if all have the same name, it cannot say which it means. */
static int check_names(const struct coll *c, const struct plan *plan, struct err *err)
{
	const struct check *k = c->state;
	const int other = link_rank(&k->matrix, link_rank(&k->matrix, 0) == c->rank);
	if (!c->request->check.hosts_out || c->member.conf.hosts || plan->hosts < 2 ||
	    *job_host(c->job, other))
		return 0;
	return err_set(err, ERR_USAGE,
	               "--hosts-out: the names of all %d hosts are '%s': list them with --hostfile",
	               plan->hosts, c->member.conf.present.host);
}

static int decide(void *ctx, const struct intent *const *intents, struct plan *plan,
                  struct err *err)
{
	struct coll *c = ctx;
	struct check *k = c->state;
	(void)intents;
	plan->windows = plan->streams = 1;
	k->coordinates = true;
	if (link_matrix_init(&k->matrix, plan->ncame, err) < 0)
		return -1;
	k->matrix.came = plan->came;
	k->matrix.all = c->size;
	return check_names(c, plan, err);
}

static int collect(void *ctx, int rank, struct view part, struct err *err)
{
	const struct coll *c = ctx;
	struct check *k = c->state;
	return link_matrix_take(&k->matrix, rank, part, err);
}

static void answer(void *ctx, int rank, struct buf *out)
{
	const struct coll *c = ctx;
	const struct check *k = c->state;
	const int reader = ranks_find(c->plan.came, c->plan.ncame, rank);
	for (int r = 0; r < c->plan.ncame; r++) {
		unsigned bits = 0;
		if (r != reader && link_cell(&k->matrix, reader, r)->state == LINK_WORKS)
			bits |= WORKS_TO;
		if (r != reader && link_cell(&k->matrix, r, reader)->state == LINK_WORKS)
			bits |= WORKS_FROM;
		buf_put_u8(out, (uint8_t)bits);
	}
}

/* A round, with the failures that are new and the figures of a link (NULL: none). */
static int report_round(struct coll *c, const struct link_figures *f, struct view *got,
                        struct err *err)
{
	struct check *k = c->state;
	struct view failures = job_failed_links(c->job);
	struct buf b;
	failures.p += k->reported;
	k->reported += view_left(&failures);
	buf_init(&b, JOB_ROUND_MAX);
	link_report_begin(&b, failures);
	if (f)
		link_report_add(&b, f);
	return coll_round(c, &b, "the report of links", got, err);
}

/* ---- the first round ---- */

static struct mesh *try_all(struct coll *c, struct err *err)
{
	struct check *k = c->state;
	const int size = c->plan.ncame, n = size - 1, own = own_place(c);
	if (!(k->peers = err_calloc(3 * (size_t)size, sizeof *k->peers, "the links", err)))
		return NULL;
	k->out = k->peers + size;
	k->in = k->out + size;
	for (int i = 0; i < n; i++)
		k->peers[i] = rank_at(c, i + (i >= own));
	return probe_links(c->job, k->peers, n, k->peers, n, &k->probe, err);
}

/* Which links do both of their ends call good? */
static int choose_links(struct coll *c, struct err *err)
{
	struct check *k = c->state;
	struct view bits;
	if (report_round(c, NULL, &bits, err) < 0)
		return -1;
	if (view_left(&bits) != (size_t)c->plan.ncame)
		return err_set(err, ERR_INTEGRITY, "a malformed answer about the links");
	for (int i = 0; i < c->plan.ncame; i++) {
		if (rank_at(c, i) == c->rank)
			continue;
		if (bits.p[i] & WORKS_TO)
			k->out[k->nout++] = rank_at(c, i);
		if (bits.p[i] & WORKS_FROM)
			k->in[k->nin++] = rank_at(c, i);
	}
	return 0;
}

static int connect_all(struct coll *c, struct err *err)
{
	struct check *k = c->state;
	if (k->coordinates && written_probe(c->request, err) < 0)
		return -1;
	if (c->size == 1)
		return 0;
	struct mesh *mesh = try_all(c, err);
	if (!mesh)
		return -1;
	job_caller_watches(c->job, true);
	if (choose_links(c, err) < 0)
		return -1;
	k->meter = meter_open(c->job, mesh, k->out, k->nout, k->in, k->nin, err);
	return k->meter ? 0 : -1;
}

/* ---- the measurements ---- */

/* Does the link do what the user demands? */
static void judge(const struct coll *c, const struct link_figures *f)
{
	const struct check_request *q = &c->request->check;
	if (f->rate > 0 && f->rate < (double)q->min_bandwidth)
		job_link_failed(c->job, c->rank, f->to, LINK_SLOW, "less than --min-bandwidth");
	if (f->median > 0 && q->max_latency && f->median * NS_PER_SEC > (double)q->max_latency)
		job_link_failed(c->job, c->rank, f->to, LINK_SLOW, "longer than --max-latency");
}

static int measure_delays(struct coll *c, struct link_figures *f, struct err *err)
{
	const struct check *k = c->state;
	const int ret = meter_connect(k->meter, f->to, &f->connect, &f->handshake, err);
	if (c->request->settings.insecure)
		f->handshake = 0;
	return ret <= 0 ? ret
	                : meter_ping(k->meter, f->to, c->request->check.time / 4, &f->least,
	                             &f->median, err);
}

/* The delays first, then bandwidths: the bytes of a stream would delay the pings of others. */
static int measure(struct coll *c, bool streams, struct err *err)
{
	struct check *k = c->state;
	const int64_t time = c->request->check.time;
	const int size = c->plan.ncame, own = own_place(c);
	for (int d = 1; d < size; d++) {
		struct link_figures f = {.to = rank_at(c, (own + d) % size)};
		int ret = streams ? meter_stream(k->meter, f.to, time, &f.rate, err)
		                  : measure_delays(c, &f, err);
		if (ret > 0)
			judge(c, &f);
		if (ret < 0 || report_round(c, &f, NULL, err) < 0)
			return -1;
		job_moved(c->job, (uint64_t)streams * (uint64_t)(size - 1) + (uint64_t)d,
		          2 * (uint64_t)(size - 1));
	}
	return 0;
}

static int measure_all(struct coll *c, struct err *err)
{
	const struct check *k = c->state;
	if (measure(c, false, err) < 0)
		return -1;
	meter_end_connects(k->meter);
	return measure(c, true, err);
}

/* The first place whose rank is on the host of the one at @place. Each rank whose host is not known
 * has another one. */
static int home_of(const struct coll *c, int place)
{
	const char *host = job_host(c->job, rank_at(c, place));
	int home = *host ? 0 : place;
	while (home < place && strcmp(job_host(c->job, rank_at(c, home)), host) != 0)
		home++;
	return home;
}

static int end_matrix(struct coll *c, struct err *err)
{
	struct check *k = c->state;
	int *home = err_calloc((size_t)c->plan.ncame, sizeof *home, "the links", err);
	if (!home)
		return -1;
	for (int i = 0; i < c->plan.ncame; i++)
		home[i] = home_of(c, i);
	const int ret = link_matrix_end(&k->matrix, home, err);
	free(home);
	return ret;
}

static int run(struct coll *c, struct err *err)
{
	const struct check *k = c->state;
	job_phase(c->job, PHASE_RUN);
	if (c->size > 1 && measure_all(c, err) < 0)
		return -1;
	job_caller_watches(c->job, false);
	return k->coordinates ? end_matrix(c, err) : 0;
}

/* ---- the end ---- */

static const char *own_name_of(void *ctx, int rank)
{
	return job_host(((struct coll *)ctx)->job, rank);
}

/* Write the files of this rank's options. */
static int write_files(struct coll *c, struct err *err)
{
	struct check *k = c->state;
	struct check_hosts hosts = {.links = &k->matrix,
	                            .n = c->plan.hosts,
	                            .host = c->plan.host,
	                            .name = name_of,
	                            .ctx = c};
	const char *list = c->request->check.hosts_out;
	const int n = list ? check_write_hosts(&hosts, list, err) : 0;
	if (n < 0)
		return -1;
	if (list)
		coll_note(c, 0, "%s: %d of %d hosts reach each other%s", list, n, hosts.n,
		          hosts.n <= CLIQUE_EXACT
		                  ? ""
		                  : "; a quick search found them, there may be more");
	hosts.name = own_name_of;
	if (!c->request->tuning_out)
		return 0;
	return check_rates(&hosts, &k->found, err) < 0
	               ? -1
	               : tuning_write(&k->found, c->request->tuning_out, err);
}

/* As every job says that ranks are missing: it blames the first. */
static int fail_missing(const struct coll *c, struct err *err)
{
	const struct link_matrix *m = &((const struct check *)c->state)->matrix;
	const bool one = m->all - m->size == 1;
	char list[256];
	ranks_missing(m->came, m->size, m->all, list, sizeof list);
	return err_rank(err, ERR_PEER_LOST, atoi(list),
	                "%s%s%sdid not join within %g s (--join-timeout)", one ? "" : "ranks ",
	                one ? "" : list, one ? "" : " ",
	                (double)c->request->settings.join_timeout / NS_PER_SEC);
}

/* Are ranks or hosts missing? Links that fail come first: the vote reports them. */
static int check_absent(const struct coll *c, struct err *err)
{
	const struct check *k = c->state;
	const char *absent = c->request->check.absent;
	int n = 0, len, first = 0;
	for (const char *at = absent; text_line(&at, n ? &len : &first);)
		n++;
	if (k->matrix.faults.n)
		return 0;
	if (k->matrix.came)
		return fail_missing(c, err);
	if (!n)
		return 0;
	if (n == 1)
		return err_set(err, ERR_PEER_LOST, "left out: %.*s", first, absent);
	return err_set(err, ERR_PEER_LOST,
	               "%d hosts, or some of their ranks, are left out, the first: %.*s", n, first,
	               absent);
}

static int seal(struct coll *c, const uint8_t **digest, struct err *err)
{
	const struct check *k = c->state;
	const struct coll_observer *o = c->observer;
	(void)digest;
	if (!k->coordinates)
		return 0;
	if (o->checked && o->checked(o->ctx, c->job, &k->matrix, err) < 0)
		return -1;
	return write_files(c, err) < 0 ? -1 : check_absent(c, err);
}

static void report(struct coll *c, struct coll_result *r)
{
	const struct check *k = c->state;
	r->stats = (struct exec_stats){.bytes_sent = k->probe.bytes_sent,
	                               .bytes_received = k->probe.bytes_received};
	r->peers = c->plan.ncame > 0 ? c->plan.ncame - 1 : 0;
}

static void disconnect(struct coll *c)
{
	struct check *k = c->state;
	meter_close(k->meter);
	k->meter = NULL;
}

static void release(struct coll *c)
{
	struct check *k = c->state;
	free(k->peers);
	link_matrix_release(&k->matrix);
	tuning_release(&k->found);
}

const struct coll_task coll_task_check = {
        .state_size = sizeof(struct check),
        .check = check,
        .prepare = prepare,
        .offer = offer,
        .meshes = meshes,
        .decide = decide,
        .collect = collect,
        .answer = answer,
        .connect = connect_all,
        .run = run,
        .seal = seal,
        .report = report,
        .disconnect = disconnect,
        .release = release,
};
