/* The digests of a collective's outputs: made as bytes are written, finished before the commit. See
 * collective.h. */
#include <stdlib.h>
#include <string.h>

#include "lib/coll/collective.h"

struct digest *output_digest_new(const struct collective *c, const struct vector *v)
{
	const struct tensor **tensors = calloc(v->ntensors + 1, sizeof *tensors);
	struct digest *digest = NULL;
	for (size_t i = 0; tensors && i < v->ntensors; i++)
		tensors[i] = &c->agreed.tensors[v->tensors[i]].tensor;
	if (tensors)
		digest = digest_new(tensors, v->ntensors);
	free(tensors);
	return digest;
}

/* ---- reading back ---- */

struct reader {
	const struct collective *c;
	const struct extents *from;
	uint8_t *to;
};

static int read_piece(void *ctx, const struct extent *e, uint64_t bytes, struct err *err)
{
	struct reader *r = ctx;
	if (sink_pread(r->c->transfer.sink, e->file, r->to, bytes, e->offset, err) < 0)
		return -1;
	r->to += bytes;
	return 0;
}

static int read_back(void *ctx, void *buf, size_t bytes, uint64_t pos, struct err *err)
{
	struct reader *r = ctx;
	r->to = buf;
	if (r->c->transfer.update.coded)
		return update_read_coded(&r->c->transfer.update, UPDATE_TO_ALL, buf, pos, bytes,
		                         err);
	return extents_visit(r->from, pos, bytes, read_piece, r, err);
}

int output_digest_settle(const struct collective *c, const struct vector_files *files, uint64_t pos,
                         uint64_t bytes, struct err *err)
{
	struct reader r = {.c = c, .from = files->out};
	if (sink_awaits_clones(c->transfer.sink))
		return 0;
	/* The caller may still write from write_staging. */
	return digest_settle(files->digest, pos, bytes, c->transfer.compare_staging, STAGING,
	                     read_back, &r, err);
}

/* ---- the end ---- */

/* Finish the digests of all tensors. @room: space for those of one vector. */
static int finish_vectors(struct collective *c, uint8_t (*room)[DIGEST_BYTES], struct err *err)
{
	struct transfer *t = &c->transfer;
	for (int i = 0; i < c->agreed.nvectors; i++) {
		const struct vector *v = &c->agreed.vectors[i];
		struct reader r = {.c = c, .from = t->files[i].out};
		if (digest_final(t->files[i].digest, read_back, &r, room, err) < 0)
			return -1;
		for (size_t k = 0; k < v->ntensors; k++)
			memcpy(t->digests[v->tensors[k]], room[k], DIGEST_BYTES);
	}
	return 0;
}

int output_digests_finish(struct collective *c, struct err *err)
{
	struct transfer *t = &c->transfer;
	size_t n = c->agreed.ntensors;
	const char **names = err_calloc(n + 1, sizeof *names, "the digests", err);
	uint8_t(*room)[DIGEST_BYTES] =
	        err_calloc(agreement_entries(&c->agreed) + 1, sizeof *room, "the digests", err);
	int ret = names && room ? finish_vectors(c, room, err) : -1;
	for (size_t i = 0; ret == 0 && i < n; i++)
		names[i] = c->agreed.tensors[i].tensor.name;
	if (ret == 0 &&
	    digest_names(names, (const uint8_t(*)[DIGEST_BYTES])t->digests, n, t->digest) < 0)
		ret = err_nomem(err, "the digest", n);
	free(names);
	free(room);
	return ret;
}
