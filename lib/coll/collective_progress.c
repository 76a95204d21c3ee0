/* The progress of a collective over files. See collective.h. */
#include <math.h>

#include "lib/coll/collective.h"

/* Seconds that a byte takes, by default: it is copied from or to the page cache with 3 and 2 GB/s,
 * and the ranks of a host share a disk that stores 1 GB/s. */
#define READ_TIME  0.33e-9
#define WRITE_TIME 0.5e-9
#define STORE_TIME 1e-9

/* Of a byte in one direction, by the slowest of what it passes: the core, the host's port, and the
 * limit of the rate. */
static double send_time(const struct collective *c, int here, double crowd)
{
	const struct job_settings *s = &c->request->settings;
	const struct coll *life = c->life;
	const double far = life->plan.hosts > 1 ? price_default.egress * here : 0;
	const double port = life->link.up ? here / (NETWORK_PAYLOAD * (double)life->link.up) : far;
	double core = PRICE_MEMORY_COPY;
	int memory = 0, tcp = 0;
	if (c->transfer.drive.mesh)
		mesh_count(c->transfer.drive.mesh, &memory, &tcp);
	if (tcp)
		core = price_default.copy + (s->insecure ? 0 : price_default.tls);
	return fmax(core * crowd, fmax(port, s->limit_rate ? 1 / (double)s->limit_rate : 0));
}

static void weigh(struct collective *c)
{
	const int here = job_ranks_here(c->life->job), cpus = collective_processors();
	const double crowd = cpus && here > cpus ? (double)here / cpus : 1;
	const double seconds[PIPELINE_STAGES] = {
	        [PIPELINE_READ] = READ_TIME * crowd,
	        [PIPELINE_MOVE] = send_time(c, here, crowd) / 2, /* both directions at a time */
	        [PIPELINE_WRITE] = WRITE_TIME * crowd,
	        [PIPELINE_STORE] = STORE_TIME * here,
	};
	pipeline_weigh(&c->transfer.drive.pipeline, seconds);
}

void progress_compare(const struct collective *c)
{
	const struct coll_observer *o = c->life->observer;
	if (o->comparing)
		o->comparing(o->ctx, c->life);
}

void progress_begin(struct collective *c, uint64_t out)
{
	struct transfer *t = &c->transfer;
	const struct update *u = &t->update;
	weigh(c);
	t->moves = true;
	if (!t->sink || !sink_writes(t->sink))
		return;
	t->stores = sink_syncs(t->sink);
	/* Coded pieces are decoded, and equal pieces of other files copied, at the end. */
	t->to_write = u->coded ? u->plain_bytes : out * (uint64_t)t->copies;
	t->to_write += u->equal;
}

/* Before data move, a thread may compare files. */
static uint64_t skipped(const struct collective *c)
{
	const struct update *u = &c->transfer.update;
	const struct file_list *l = &c->agreed.root_files;
	uint64_t n = u->equal + c->transfer.gather_update.kept_bytes;
	if (!c->transfer.moves)
		return 0;
	for (int f = 0; u->lacks && f < l->nfiles; f++)
		if (!l->files[f].linked && !update_bit(u->lacks, 2 * (uint64_t)f))
			n += l->files[f].bytes;
	return n;
}

void coll_progress(const struct coll *life, struct coll_progress *out)
{
	const struct collective *c = life->state;
	const struct transfer *t = &c->transfer;
	const struct sink_progress s = t->sink ? sink_progress(t->sink) : (struct sink_progress){0};
	struct pipeline *p = &out->pipeline;
	*out = (struct coll_progress){
	        .pipeline = t->drive.pipeline,
	        .sent = t->drive.before.bytes_sent + t->drive.stats.bytes_sent,
	        .received = t->drive.before.bytes_received + t->drive.stats.bytes_received,
	        .compared = t->update.compared,
	        .skipped = skipped(c),
	        .waited = s.waited,
	        .waited_ns = s.waited_ns};
	p->part[PIPELINE_WRITE].done = s.written + t->update.checked;
	p->part[PIPELINE_WRITE].total = t->to_write;
	p->part[PIPELINE_STORE].done = s.stored + t->update.checked;
	p->part[PIPELINE_STORE].total = t->stores ? t->to_write : 0;
	if (life->times.seal)
		pipeline_complete(p);
}
