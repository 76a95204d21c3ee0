/* Outputs that several ranks name: each rank sends the places that it writes, rank 0 compares them
 * and answers which of them another rank writes. See collective.h and lib/job/claims.h. */
#include <stdlib.h>
#include <string.h>

#include "cmd/collective.h"
#include "cmd/paths.h"
#include "lib/base/path.h"
#include "lib/data/target.h"

/* ---- this rank's claims ---- */

/* The place of -o @path; of a set, which -o may name by its index, the place of its folder. */
static uint64_t output_place(const struct collective *c, const char *path, struct err *err)
{
	if (c->o->raw_file || !array_is_index(path))
		return target_place(path, c->o->force);
	char *folder = path_folder(path, err);
	uint64_t place = folder ? target_place(folder, c->o->force) : 0;
	free(folder);
	return place;
}

/* --each: the place of each input's output in the folder @path. */
static int each_place(const struct collective *c, const char *path, uint64_t folder,
                      uint64_t *places, uint32_t n, struct err *err)
{
	bool many = (uint32_t)c->ninputs > n;
	places[0] = folder;
	for (int i = 0; i < c->ninputs; i++) {
		char *in = files_in_folder(path, c->inputs[i].path, err);
		if (!in)
			return -1;
		/* If there are too many, one place stands for all. */
		places[many ? 0 : i] = target_place_in(many ? places[0] : folder, path_name(in));
		free(in);
	}
	return 0;
}

/* Does this rank know the names of its outputs? In a broadcast or scatter they are the root's, the
 * same on all ranks. */
static bool names_each(const struct collective *c)
{
	return c->o->each && c->ninputs && c->kind != COLL_BROADCAST && c->kind != COLL_SCATTER;
}

static int claim_each(struct collective *c, struct buf *b, const char *path, struct err *err)
{
	c->nclaims = c->ninputs > CLAIMS_MAX ? 1 : (uint32_t)c->ninputs;
	uint64_t folder = target_place(path, c->o->force);
	uint64_t *places = calloc(c->nclaims, sizeof *places);
	if (!places)
		return err_nomem(err, "the outputs", c->nclaims * sizeof *places);
	int ret = each_place(c, path, folder, places, c->nclaims, err);
	if (ret == 0)
		claims_put(b, path, places, c->nclaims);
	free(places);
	return ret;
}

static int claim_output(struct collective *c, struct buf *b, const char *name, struct err *err)
{
	char *path = paths_fill(name, c->rank, c->size, NULL, err);
	int ret = path ? 0 : -1;
	if (ret == 0 && names_each(c)) {
		ret = claim_each(c, b, path, err);
	} else if (ret == 0) {
		uint64_t place = output_place(c, path, err);
		claims_put(b, path, &place, 1);
		c->nclaims++;
	}
	free(path);
	return ret;
}

int claims_tell(struct collective *c, struct buf *b, struct err *err)
{
	struct buf own;
	int ret = 0, n = collective_writes(c) ? c->o->noutputs : 0;
	buf_init(&own, DETAILS_MAX);
	if (n > CLAIMS_MAX || (n > 1 && c->o->each)) /* check_outputs refuses it */
		n = 0;
	for (int k = 0; k < n && ret == 0; k++)
		ret = claim_output(c, &own, c->o->outputs[k], err);
	if (ret == 0 && own.failed)
		ret = err_set(err, ERR_RESOURCE, "the names of the outputs do not fit a message");
	buf_put_u32(b, (uint32_t)own.len);
	buf_put(b, own.data, own.len);
	buf_release(&own);
	return ret;
}

/* ---- rank 0's answer ---- */

int claims_hear(struct collective *c, struct view *v, struct err *err)
{
	c->dropped = calloc(c->nclaims + 1, sizeof *c->dropped);
	if (!c->dropped)
		return err_nomem(err, "the outputs", c->nclaims * sizeof *c->dropped);
	return claims_get_dropped(v, c->dropped, c->nclaims, err);
}

void claims_drop(struct collective *c, int first, int at)
{
	/* One claim may stand for all outputs. */
	bool drops = c->dropped && c->nclaims && c->dropped[c->nclaims == 1 ? 0 : at];
	if (!drops || first == sink_files(c->sink))
		return;
	if (c->o->verbose > 0)
		report_note("rank %d: %s: another rank writes it", c->rank,
		            sink_path(c->sink, first));
	for (int f = first; f < sink_files(c->sink); f++)
		sink_drop(c->sink, f);
}
