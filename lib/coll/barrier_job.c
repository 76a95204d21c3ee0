/*
 * A barrier. "auto" only joins and votes, over the links to rank 0, without a mesh; when the join
 * timeout expires, the error names the missing ranks. A named algorithm also tries the links of its
 * schedule (all_to_all: every link) and continues after links that fail.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/coll/task.h"
#include "lib/job/ranks.h"
#include "lib/links/probe.h"

struct barrier {
	const struct coll_algorithm *algorithm; /* NULL: auto */
	struct probe_stats probe;
	int peers;
};

static int check(struct coll *c, struct err *err)
{
	struct barrier *b = c->state;
	return request_algorithm(COLL_BARRIER, c->request->algorithm, &b->algorithm, err);
}

static int offer(struct coll *c, struct err *err)
{
	(void)err;
	c->intent.memory = UINT64_MAX;
	c->intent.ninputs = 1;
	return 0;
}

static void renew(struct coll *c)
{
	struct barrier *b = c->state;
	b->probe = (struct probe_stats){0};
	b->peers = 0;
}

static bool meshes(const struct coll *c)
{
	const struct barrier *b = c->state;
	return b->algorithm;
}

static int decide(void *ctx, const struct intent *const *intents, struct plan *plan,
                  struct err *err)
{
	const struct coll *c = ctx;
	const struct barrier *b = c->state;
	(void)intents;
	(void)err;
	if (b->algorithm)
		strcpy(plan->algorithm, b->algorithm->name);
	plan->windows = plan->streams = 1;
	return 0;
}

/* The peers that the algorithm's schedule sends to (EXEC_OUT) or receives from (EXEC_IN). */
static int peers_of(const uint8_t *used, int size, int direction, int *peers)
{
	int n = 0;
	for (int p = 0; p < size; p++)
		if (used[p] & direction)
			peers[n++] = p;
	return n;
}

/* The edges of the schedule, by peer. */
static int find_edges(const struct coll *c, uint8_t *used, struct err *err)
{
	const struct barrier *b = c->state;
	const int *came = c->plan.came, n = c->plan.ncame;
	uint64_t *off = err_calloc((size_t)n + 1, sizeof *off, "the links", err);
	if (!off)
		return -1;
	for (int j = 1; j <= n; j++)
		off[j] = 1;
	const struct exec_vector vector = {.algorithm = b->algorithm,
	                                   .args = {.rank = ranks_find(came, n, c->rank),
	                                            .size = n,
	                                            .ninputs = 1,
	                                            .stores = true,
	                                            .off = off,
	                                            .host = came ? NULL : c->plan.host},
	                                   .ranks = came,
	                                   .windows = 1};
	const struct exec_conf conf = {.vectors = &vector, .nvectors = 1, .size = c->size};
	const int ret = n > 1 ? exec_window_edges(&conf, used, err) : 0;
	free(off);
	return ret;
}

/* Try each link of the algorithm with a notice of many packets. A rank that gets no notice learns
 * from the vote which links failed. No rank passes the vote before all ranks have reached it. */
static int try_links(struct coll *c, struct err *err)
{
	struct barrier *b = c->state;
	uint8_t *used = err_calloc((size_t)c->size, 1, "the links", err);
	int *out = err_calloc(2 * (size_t)c->size, sizeof *out, "the links", err);
	int *in = out ? out + c->size : NULL;
	int ret = used && out ? find_edges(c, used, err) : -1;
	for (int p = 0; ret == 0 && p < c->size; p++)
		b->peers += used[p] != 0;
	if (ret == 0 && b->peers) {
		struct mesh *mesh =
		        probe_links(c->job, out, peers_of(used, c->size, EXEC_OUT, out), in,
		                    peers_of(used, c->size, EXEC_IN, in), &b->probe, err);
		if (mesh)
			mesh_settle(mesh);
		else
			ret = -1;
	}
	free(used);
	free(out);
	return ret;
}

static int connect_all(struct coll *c, struct err *err)
{
	const struct barrier *b = c->state;
	return b->algorithm ? try_links(c, err) : 0;
}

static void report(struct coll *c, struct coll_result *r)
{
	const struct barrier *b = c->state;
	r->algorithm = b->algorithm;
	r->stats = (struct exec_stats){.bytes_sent = b->probe.bytes_sent,
	                               .bytes_received = b->probe.bytes_received,
	                               .messages = b->probe.messages};
	r->peers = b->peers;
}

static void release(struct coll *c)
{
	(void)c;
}

const struct coll_task coll_task_barrier = {
        .state_size = sizeof(struct barrier),
        .check = check,
        .offer = offer,
        .renew = renew,
        .meshes = meshes,
        .decide = decide,
        .connect = connect_all,
        .report = report,
        .release = release,
};
