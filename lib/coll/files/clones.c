#include "lib/coll/files/clones.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/coll/collective.h"

/* clang-format off */
MESSAGE(clone_part, "ROUND",
	FIELD(BYTES, clone_part, like),
	FIELD(BOOL, clone_part, leaves));

MESSAGE(clone_chain, "ANSWER",
	FIELD(RANK_OR_NONE, clone_chain, from),
	FIELD(RANK_OR_NONE, clone_chain, to));
/* clang-format on */

static const uint8_t none[sizeof((struct clone_part *)0)->like];

/* ---- the round ---- */

bool clones_exchanges(const struct collective *c)
{
	return c->agreed.clones && c->transfer.clones.told < c->agreed.ncame;
}

/* Those that leave an output to another rank come last in a chain, because theirs is not synced. */
static int by_chain(const void *a, const void *b)
{
	const struct clone_place *p = a, *q = b;
	const int like = memcmp(p->part.like, q->part.like, sizeof p->part.like);
	if (p->host != q->host)
		return p->host < q->host ? -1 : 1;
	if (like)
		return like;
	if (p->part.leaves != q->part.leaves)
		return p->part.leaves ? 1 : -1;
	return p->rank < q->rank ? -1 : 1;
}

static int make_chains(struct collective *c, struct err *err)
{
	struct clones *k = &c->transfer.clones;
	const struct clone_place *p = k->places;
	const int size = c->agreed.size, n = c->agreed.ncame;
	if (!(k->chains = err_calloc((size_t)size, sizeof *k->chains, "the outputs", err)))
		return -1;
	qsort(k->places, (size_t)n, sizeof *k->places, by_chain);
	for (int i = 0; i < size; i++)
		k->chains[i] = (struct clone_chain){-1, -1};
	for (int i = 1; i < n; i++) {
		if (p[i].host != p[i - 1].host ||
		    memcmp(p[i].part.like, p[i - 1].part.like, sizeof none) != 0 ||
		    memcmp(p[i].part.like, none, sizeof none) == 0)
			continue;
		k->chains[p[i].rank].from = p[i - 1].rank;
		k->chains[p[i - 1].rank].to = p[i].rank;
	}
	return 0;
}

int clones_take(struct collective *c, int rank, struct view part, struct err *err)
{
	struct clones *k = &c->transfer.clones;
	const size_t size = (size_t)c->agreed.size;
	if (!k->places && !(k->places = err_calloc(size, sizeof *k->places, "the outputs", err)))
		return -1;
	struct clone_place *p = &k->places[k->taken];
	p->rank = rank;
	p->host = c->agreed.host[rank];
	if (message_get_all(&clone_part_message, &p->part, part, err) < 0)
		return -1;
	return ++k->taken == c->agreed.ncame ? make_chains(c, err) : 0;
}

void clones_answer(struct collective *c, int rank, struct buf *out)
{
	struct clones *k = &c->transfer.clones;
	k->told++;
	message_put(&clone_chain_message, &k->chains[rank], out);
}

/* ---- this rank's part ---- */

/* Do this rank's outputs have the bytes that all ranks get, and are they synced? Without a sync a
 * clone would wait for the disk, and a copy does not. The root of a broadcast of selected tensors
 * reads what it sends from its output. */
static bool may_clone(const struct collective *c)
{
	return c->agreed.clones && c->transfer.sink && !c->transfer.selected &&
	       !c->request->no_sync && c->request->settings.lanes != JOB_LANES_TCP &&
	       agreement_replicates(&c->agreed, c->request) && sink_may_clone(c->transfer.sink);
}

void clones_prepare(struct collective *c)
{
	struct clones *k = &c->transfer.clones;
	k->chain = (struct clone_chain){-1, -1};
	k->deferred = may_clone(c);
	if (k->deferred)
		sink_defer(c->transfer.sink);
}

/* Where the bytes of the vectors are in the files. */
static void hash_places(const struct collective *c, XXH3_state_t *hash)
{
	for (int i = 0; i < c->agreed.nvectors; i++)
		for (int k = 0; k < c->transfer.copies; k++) {
			const struct extents *e = &c->transfer.files[i].out[k];
			XXH3_128bits_update(hash, &e->bytes, sizeof e->bytes);
			for (size_t n = 0; n < e->n; n++) {
				const uint64_t at[] = {e->v[n].at, (uint64_t)e->v[n].file,
				                       e->v[n].offset};
				XXH3_128bits_update(hash, at, sizeof at);
			}
		}
}

/* Is there a descriptor for each lane, two more edges, and a file that is passed? */
static bool has_descriptors(const struct collective *c)
{
	const struct drive *d = &c->transfer.drive;
	struct err ignored = ERR_INIT;
	int edges = 2;
	for (int r = 0; r < c->agreed.size; r++)
		edges += !!(d->edges[r] & EXEC_OUT) + !!(d->edges[r] & EXEC_IN);
	return need_descriptors(edges * d->conf.streams + 1 + SPARE_DESCRIPTORS, "", &ignored) == 0;
}

static int describe(const struct collective *c, struct clone_part *part, struct err *err)
{
	const struct sink *sink = c->transfer.sink;
	XXH128_canonical_t like;
	uint64_t numbers[2];
	dev_t dev;
	if (!c->transfer.clones.deferred || !sink_has_clones(sink, &dev) || !has_descriptors(c))
		return 0;
	XXH3_state_t *hash = XXH3_createState();
	if (!hash)
		return err_nomem(err, "the outputs", sizeof like);
	numbers[0] = (uint64_t)dev;
	numbers[1] = (uint64_t)sink_files(sink);
	XXH3_128bits_reset(hash);
	XXH3_128bits_update(hash, numbers, sizeof numbers);
	sink_hash(sink, hash);
	hash_places(c, hash);
	XXH128_canonicalFromHash(&like, XXH3_128bits_digest(hash));
	XXH3_freeState(hash);
	memcpy(part->like, like.digest, sizeof part->like);
	for (int f = 0; f < sink_files(sink); f++)
		part->leaves |= sink_fate(sink, f) == SINK_LEAVE;
	return 0;
}

static bool is_chained(const struct clone_chain *chain)
{
	return chain->from >= 0 || chain->to >= 0;
}

/* A neighbour is another rank of this host. */
static bool is_neighbour(const struct collective *c, int r)
{
	const struct agreement *a = &c->agreed;
	return r < 0 || (r < a->size && r != a->rank && a->host[r] == a->host[a->rank]);
}

static int exchange(struct collective *c, const struct clone_part *part, struct err *err)
{
	struct clone_chain *chain = &c->transfer.clones.chain;
	struct view answer;
	struct buf b;
	buf_init(&b, JOB_ROUND_MAX);
	message_put(&clone_part_message, part, &b);
	if (coll_await_round(c->life, &b, "the outputs of the ranks", &answer, err) < 0 ||
	    message_get_all(&clone_chain_message, chain, answer, err) < 0)
		return -1;
	if (!is_neighbour(c, chain->from) || !is_neighbour(c, chain->to) ||
	    (is_chained(chain) &&
	     (chain->from == chain->to || !memcmp(part->like, none, sizeof none))))
		return malformed(err, "ANSWER", "chain");
	return 0;
}

int clones_agree(struct collective *c, struct err *err)
{
	const struct clones *k = &c->transfer.clones;
	struct clone_part part = {0};
	if (c->agreed.clones && (describe(c, &part, err) < 0 || exchange(c, &part, err) < 0))
		return -1;
	return k->deferred && k->chain.from < 0 ? sink_fill(c->transfer.sink, err) : 0;
}

/* ---- the lanes of the chain ---- */

static int connect_chain(struct collective *c, struct err *err)
{
	struct drive *d = &c->transfer.drive;
	const struct clone_chain *chain = &c->transfer.clones.chain;
	const size_t size = (size_t)c->agreed.size;
	uint8_t *used = err_malloc(size, "the edges", err);
	if (!used)
		return -1;
	memcpy(used, d->edges, size);
	if (chain->from >= 0)
		used[chain->from] |= EXEC_IN;
	if (chain->to >= 0)
		used[chain->to] |= EXEC_OUT;
	int ret = drive_connect_edges(d, used, err);
	free(used);
	return ret;
}

/* The lane to or from a neighbour, if it can pass descriptors. */
static struct conn *lane(const struct collective *c, int rank, bool out)
{
	struct conn *conn = rank >= 0 ? mesh_conn(c->transfer.drive.mesh, rank, out, 0) : NULL;
	return conn && conn->ops->lending && conn->ops->lending->pass ? conn : NULL;
}

int clones_connect(struct collective *c, struct err *err)
{
	struct clones *k = &c->transfer.clones;
	if ((is_chained(&k->chain) ? connect_chain(c, err)
	                           : drive_connect(&c->transfer.drive, err)) < 0)
		return -1;
	if (k->chain.from < 0)
		return 0;
	k->takes = lane(c, k->chain.from, false) != NULL;
	if (k->takes) {
		sink_await_clones(c->transfer.sink);
		return 0;
	}
	coll_note(c->life, 1, "%s: is written, not cloned: no memory lane from rank %d",
	          sink_path(c->transfer.sink, 0), k->chain.from);
	return sink_fill(c->transfer.sink, err);
}

/* ---- descriptors ---- */

/* Wait until the lane @conn to @peer has passed *@fd or, from @peer, has brought one. */
static int await(struct collective *c, struct conn *conn, int peer, bool out, int *fd,
                 struct err *err)
{
	const struct conn_lending *lending = conn->ops->lending;
	int ret;
	while ((ret = out ? lending->pass(conn, *fd, err) : lending->take(conn, fd, err)) == 0)
		if (job_turn(c->life->job, err) < 0)
			return -1;
	if (ret < 0 && err->code != ERR_RESOURCE)
		err->rank = peer;
	return ret < 0 ? -1 : 0;
}

struct cloning {
	struct collective *c;
	int file, from;
};

static int clone_file(void *ctx, struct err *err)
{
	const struct cloning *job = ctx;
	struct clones *k = &job->c->transfer.clones;
	int error = 0;
	if (sink_clone(job->c->transfer.sink, job->file, job->from, &error, err) < 0) {
		if (err->code == ERR_INTEGRITY)
			err->rank = k->chain.from;
		return -1;
	}
	k->copied += error != 0;
	if (error)
		k->error = error;
	return 0;
}

/* Say what this rank did with its files, or with one of them. */
static void note_clones(const struct collective *c)
{
	const struct clones *k = &c->transfer.clones;
	const int n = sink_files(c->transfer.sink);
	const char *path = sink_path(c->transfer.sink, 0);
	char others[64] = "";
	if (n > 1)
		snprintf(others, sizeof others, " and %d other file%s", n - 1, n == 2 ? "" : "s");
	if (k->copied)
		coll_note(c->life, 1, "%s%s: copied from rank %d: cannot be cloned: %s", path,
		          others, k->chain.from, strerror(k->error));
	else
		coll_note(c->life, 1, "%s%s: cloned from rank %d, not written", path, others,
		          k->chain.from);
}

/* The job's loop watches the lane from now on, and no executor's loop does. */
static int watch(struct collective *c, struct conn *conn, struct err *err)
{
	return conn ? conn_watch(conn, job_loop(c->life->job), NULL, NULL, err) : 0;
}

int clones_receive(struct collective *c, struct err *err)
{
	struct clones *k = &c->transfer.clones;
	struct conn *in = lane(c, k->chain.from, false), *out = lane(c, k->chain.to, true);
	if (!k->takes)
		return 0;
	int ret = watch(c, in, err) < 0 ? -1 : watch(c, out, err);
	for (int f = 0; ret == 0 && f < sink_files(c->transfer.sink); f++) {
		struct cloning job = {c, f, -1};
		if (sink_descriptor(c->transfer.sink, f) < 0)
			continue;
		ret = await(c, in, k->chain.from, false, &job.from, err);
		if (ret == 0 && out)
			ret = await(c, out, k->chain.to, true, &job.from, err);
		if (ret == 0)
			ret = job_run_in_thread(c->life->job, clone_file, &job, err);
		if (job.from >= 0)
			close(job.from);
	}
	if (ret == 0)
		note_clones(c);
	return ret;
}

int clones_pass(struct collective *c, struct err *err)
{
	struct clones *k = &c->transfer.clones;
	struct conn *out = lane(c, k->chain.to, true);
	if (k->takes || !out)
		return 0;
	int ret = watch(c, out, err);
	for (int f = 0; ret == 0 && f < sink_files(c->transfer.sink); f++) {
		int fd = sink_descriptor(c->transfer.sink, f);
		if (fd >= 0)
			ret = await(c, out, k->chain.to, true, &fd, err);
	}
	return ret;
}

bool clones_are_chained(const struct collective *c)
{
	return is_chained(&c->transfer.clones.chain);
}

bool clones_made(const struct collective *c)
{
	return c->transfer.clones.takes && !c->transfer.clones.copied;
}

void clones_release(struct collective *c)
{
	free(c->transfer.clones.places);
	free(c->transfer.clones.chains);
}
