/* Outputs that several ranks name: each rank claims the places that it writes. Rank 0 compares them
 * and tells each rank which of its places another rank writes. See collective.h and claims.h. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/path.h"
#include "lib/coll/collective.h"
#include "lib/coll/files/shards.h"
#include "lib/coll/request/paths.h"
#include "lib/data/files/target.h"

/* ---- this rank's claims ---- */

/* The place of -o @path; for a set, the place of its folder, also if -o names its index. */
static uint64_t output_place(const struct collective *c, const char *path, struct err *err)
{
	if (c->request->have_shard_dim) {
		char *shard = shards_path(c, path, err);
		uint64_t place = shard ? target_place(shard, c->request->force) : 0;
		free(shard);
		return place;
	}
	if (c->request->files.raw_file || !path_is_index(path))
		return target_place(path, c->request->force);
	char *folder = path_folder(path, err);
	uint64_t place = folder ? target_place(folder, c->request->force) : 0;
	free(folder);
	return place;
}

/* --each: the place of each input's output in the folder @path. */
static int each_place(const struct collective *c, const char *path, uint64_t folder,
                      uint64_t *places, uint32_t n, struct err *err)
{
	bool many = (uint32_t)c->transfer.ninputs > n;
	places[0] = folder;
	for (int i = 0; i < c->transfer.ninputs; i++) {
		char *in = files_each_output(path, &c->transfer.inputs[i], err);
		if (!in)
			return -1;
		/* If there are too many, claim one place for all. */
		places[many ? 0 : i] = target_place_in(many ? places[0] : folder, path_name(in));
		free(in);
	}
	return 0;
}

/* Does this rank know the names of its outputs? In a broadcast or scatter they come from the root
 * and are the same on all ranks. */
static bool names_each(const struct collective *c)
{
	return c->request->each && c->transfer.ninputs && c->request->kind != COLL_BROADCAST &&
	       c->request->kind != COLL_SCATTER;
}

static int claim_each(struct collective *c, struct buf *b, const char *path, struct err *err)
{
	c->agreed.nclaims = c->transfer.ninputs > CLAIMS_MAX ? 1 : (uint32_t)c->transfer.ninputs;
	uint64_t folder = target_place(path, c->request->force);
	uint64_t *places = err_calloc(c->agreed.nclaims, sizeof *places, "the outputs", err);
	if (!places)
		return -1;
	int ret = each_place(c, path, folder, places, c->agreed.nclaims, err);
	if (ret == 0)
		claims_put(b, path, places, c->agreed.nclaims);
	free(places);
	return ret;
}

static int claim_output(struct collective *c, struct buf *b, const char *name, struct err *err)
{
	char *path = paths_fill(name, c->agreed.rank, c->agreed.size, NULL, err);
	int ret = path ? 0 : -1;
	if (ret == 0 && names_each(c)) {
		ret = claim_each(c, b, path, err);
	} else if (ret == 0) {
		uint64_t place = output_place(c, path, err);
		claims_put(b, path, &place, 1);
		c->agreed.nclaims++;
	}
	free(path);
	return ret;
}

int outputs_claim(struct collective *c, struct buf *b, struct err *err)
{
	const struct coll_request *r = c->request;
	int ret = 0, n = agreement_writes(&c->agreed, r) ? r->noutputs : 0;
	if (n > CLAIMS_MAX || (n > 1 && r->each)) /* check_outputs refuses it */
		n = 0;
	for (int k = 0; k < n && ret == 0; k++)
		ret = claim_output(c, b, r->outputs[k], err);
	return ret;
}

/* ---- rank 0's answer ---- */

void outputs_drop(struct collective *c, int first, int at)
{
	const struct agreement *a = &c->agreed;
	struct sink *sink = c->transfer.sink;
	/* One claim may stand for all outputs. */
	bool drops = a->dropped && a->nclaims && a->dropped[a->nclaims == 1 ? 0 : at];
	if (!drops || first == sink_files(sink))
		return;
	coll_note(c->life, 1, "%s: another rank writes it", sink_path(sink, first));
	for (int f = first; f < sink_files(sink); f++)
		sink_drop(sink, f);
}
