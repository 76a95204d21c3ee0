#include "lib/coll/files/shards.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/path.h"
#include "lib/coll/collective.h"
#include "lib/coll/files/consolidated.h"
#include "lib/data/dataset/dataset_internal.h"

bool shard_box(const struct tensor *t, int axis, int size, int rank, uint64_t *first,
               uint64_t *lengths)
{
	for (int i = 0; i < t->ndim; i++) {
		first[i] = 0;
		lengths[i] = t->shape[i];
	}
	if (axis >= t->ndim)
		return rank == 0;
	const uint64_t n = t->shape[axis], p = (uint64_t)size, r = (uint64_t)rank;
	const uint64_t chunk = n / p + (n % p != 0);
	first[axis] = chunk && r > n / chunk ? n : r * chunk;
	lengths[axis] = n - first[axis] < chunk ? n - first[axis] : chunk;
	return true;
}

static uint64_t box_bytes(const struct tensor *t, const uint64_t *lengths)
{
	uint64_t bytes = dtype_size(t->dtype);
	for (int i = 0; i < t->ndim; i++)
		bytes *= lengths[i];
	return bytes;
}

/* The bytes of a rank's part of @t. */
static uint64_t part_bytes(const struct collective *c, const struct tensor *t, int rank)
{
	uint64_t first[ARRAY_MAX_DIMS], lengths[ARRAY_MAX_DIMS];
	const bool has = shard_box(t, c->request->shard_dim, c->agreed.size, rank, first, lengths);
	return has ? box_bytes(t, lengths) : 0;
}

int shards_rows(const struct collective *c, uint64_t *rows, struct err *err)
{
	const struct dataset *d = &c->transfer.inputs[0];
	uint64_t all = 0;
	for (size_t i = 0; i < d->ntensors; i++)
		if (__builtin_add_overflow(all, d->tensors[i].bytes, &all) || all > INT64_MAX)
			return err_set(err, ERR_INPUT, "the inputs have too many elements");
	for (int r = 0; r < c->agreed.size; r++)
		for (size_t i = 0; i < d->ntensors; i++)
			rows[r] += part_bytes(c, &d->tensors[i], r);
	return 0;
}

/* ---- the root reads ---- */

/* The part of a tensor that a rank gets. */
struct part {
	const struct tensor *tensor;
	uint64_t first[ARRAY_MAX_DIMS], lengths[ARRAY_MAX_DIMS];
	int axis; /* its elements are consecutive in the tensor from this axis on */
};

/* The offset in the tensor of the part's run @run, bytes. Axes before part->axis are whole. */
static uint64_t run_offset(const struct part *p, uint64_t run)
{
	const struct tensor *t = p->tensor;
	uint64_t row = dtype_size(t->dtype);
	if (!t->ndim || p->axis >= t->ndim)
		return 0;
	for (int i = p->axis + 1; i < t->ndim; i++)
		row *= t->shape[i];
	return (run * t->shape[p->axis] + p->first[p->axis]) * row;
}

/* Read @n bytes at @at of the part. */
static int read_part(const struct collective *c, const struct part *p, uint8_t *buf, uint64_t at,
                     uint64_t n, struct err *err)
{
	uint64_t run = dtype_size(p->tensor->dtype);
	for (int i = p->axis; i < p->tensor->ndim; i++)
		run *= p->lengths[i];
	for (uint64_t len; n; at += len, buf += len, n -= len) {
		len = run - at % run < n ? run - at % run : n;
		if (dataset_read(&c->transfer.inputs[0], p->tensor, buf, len,
		                 run_offset(p, at / run) + at % run, err) < 0)
			return -1;
	}
	return 0;
}

int shards_read(const struct collective *c, void *buf, uint64_t pos, uint64_t n, struct err *err)
{
	const struct dataset *d = &c->transfer.inputs[0];
	const uint64_t *off = c->agreed.vectors[0].layout.off;
	const int axis = c->request->shard_dim, size = c->agreed.size;
	uint8_t *to = buf;
	for (int r = 0; n && r < size; r++) {
		uint64_t begin = off[r];
		for (size_t i = 0; n && pos < off[r + 1] && i < d->ntensors; i++) {
			struct part p = {.tensor = &d->tensors[i]};
			p.axis = axis < p.tensor->ndim ? axis : 0;
			const uint64_t bytes =
			        shard_box(p.tensor, axis, size, r, p.first, p.lengths)
			                ? box_bytes(p.tensor, p.lengths)
			                : 0;
			if (pos < begin + bytes) {
				const uint64_t left = begin + bytes - pos,
				               len = left < n ? left : n;
				if (read_part(c, &p, to, pos - begin, len, err) < 0)
					return -1;
				to += len;
				pos += len;
				n -= len;
			}
			begin += bytes;
		}
	}
	return 0;
}

/* ---- this rank's shard ---- */

/* What the agreement's tensors are made of. */
static int add_part(struct collective *c, const struct tensor *t, uint64_t *at, struct err *err)
{
	struct agreement *a = &c->agreed;
	struct consolidated *p = c->consolidated;
	uint64_t *axes = pool_alloc(&p->all.pool, (2 * (size_t)t->ndim + 1) * sizeof *axes,
	                            "the tensors", err);
	if (!axes)
		return -1;
	if (!shard_box(t, c->request->shard_dim, a->size, a->rank, axes, axes + t->ndim))
		return 0;
	const uint64_t bytes = box_bytes(t, axes + t->ndim);
	const struct tensor part = {.name = t->name,
	                            .dtype = t->dtype,
	                            .ndim = t->ndim,
	                            .shape = axes + t->ndim,
	                            .first = axes,
	                            .whole = t->shape,
	                            .count = bytes / dtype_size(t->dtype),
	                            .bytes = bytes};
	a->vectors[0].tensors[a->ntensors] = (uint32_t)a->ntensors;
	a->tensors[a->ntensors] =
	        (struct vector_tensor){.tensor = part, .index = a->ntensors, .at = *at};
	a->ntensors++;
	*at += bytes;
	return 0;
}

int shards_adopt(struct collective *c, struct err *err)
{
	struct agreement *a = &c->agreed;
	const struct piece_table *all = &c->consolidated->all;
	struct vector *v = a->vectors;
	uint64_t at = 0;
	for (int r = 0; r < a->size; r++)
		if (r != a->root && all->count[r])
			return err_rank(err, ERR_INTEGRITY, r,
			                "sent tensors: only the root has some");
	free(a->tensors); /* the root's array of bytes */
	free(v->tensors);
	a->content = CONTENT_PIECES;
	a->ntensors = 0;
	a->tensors = err_calloc(all->ntensors + 1, sizeof *a->tensors, "the tensors", err);
	v->tensors = err_calloc(all->ntensors + 1, sizeof *v->tensors, "the tensors", err);
	if (!a->tensors || !v->tensors)
		return -1;
	for (size_t i = 0; i < all->ntensors; i++)
		if (add_part(c, &all->tensors[i].tensor, &at, err) < 0)
			return -1;
	v->ntensors = c->table.n = a->ntensors;
	if (at == v->rows[a->rank])
		return 0;
	return err_rank(err, ERR_INTEGRITY, a->root,
	                "sends another number of bytes than its tensors have");
}

/* As torch's HuggingFaceStorageWriter names them. */
#define SHARD      "shard-%05d-model-00001-of-00001.safetensors"
#define SHARD_NAME 64

/* Is it this rank's shard? Others were there before the job: who knows whether another rank
 * replaces them. */
static bool is_shard(void *ctx, const char *name)
{
	const struct collective *c = ctx;
	char own[SHARD_NAME];
	snprintf(own, sizeof own, SHARD, c->agreed.rank + 1);
	return strcmp(own, name) == 0;
}

char *shards_path(const struct collective *c, const char *path, struct err *err)
{
	const struct format *format;
	char name[SHARD_NAME];
	/* In this order: another rank may create the folder meanwhile. */
	const bool named = format_of(path, NULL, &format, NULL) == 0;
	if (strcmp(path, "-") == 0 || (named && !path_is_folder(path))) {
		err_set(err, ERR_USAGE,
		        "%s: with --shard-dim each rank writes a shard to a folder: name a folder",
		        path);
		return NULL;
	}
	snprintf(name, sizeof name, SHARD, c->agreed.rank + 1);
	return path_join(path, name, err);
}

static void put_axes(const uint64_t *axes, int ndim, struct buf *out)
{
	char number[24];
	for (int k = 0; k < ndim; k++) {
		snprintf(number, sizeof number, "%s%" PRIu64, k ? ", " : "", axes[k]);
		buf_put_text(out, number);
	}
}

/* "{"w": {"saved_offsets": [3, 0], "whole": [6, 2]}}" */
static void put_places(const struct agreement *a, struct buf *out)
{
	buf_put_text(out, "{");
	for (size_t i = 0; i < a->ntensors; i++) {
		const struct tensor *t = &a->tensors[i].tensor;
		buf_put_text(out, i ? ", " : "");
		buf_put_json(out, t->name, strlen(t->name));
		buf_put_text(out, ": {\"saved_offsets\": [");
		put_axes(t->first, t->ndim, out);
		buf_put_text(out, "], \"whole\": [");
		put_axes(t->whole, t->ndim, out);
		buf_put_text(out, "]}");
	}
	buf_put_text(out, "}");
}

/* The shard's __metadata__. Malloced; NULL: an error. */
static char *metadata_text(const struct agreement *a, struct err *err)
{
	struct buf places, b;
	buf_init(&places, SIZE_MAX);
	buf_init(&b, SIZE_MAX);
	put_places(a, &places);
	buf_put_text(&b, "{\"DCP_VERSION\":\"1.0\",\"format\":\"pt\",\"DCP_SHARDING_INFO\":");
	buf_put_json(&b, (const char *)places.data, places.len);
	buf_put_text(&b, "}");
	buf_put_u8(&b, '\0');
	char *text = NULL;
	if (places.failed || b.failed)
		err_nomem(err, "metadata", b.len);
	else
		text = err_strdup((const char *)b.data, "metadata", err);
	buf_release(&places);
	buf_release(&b);
	return text;
}

int shards_name(struct collective *c, const char *path, struct err *err)
{
	const struct agreement *a = &c->agreed;
	struct dataset_file file = {.metadata = metadata_text(a, err)};
	struct dataset like = {.format = &format_safetensors,
	                       .files = &file,
	                       .nfiles = 1,
	                       .ntensors = a->ntensors};
	like.tensors = err_calloc(like.ntensors + 1, sizeof *like.tensors, "the tensors", err);
	char *shard = shards_path(c, path, err);
	int ret = file.metadata && like.tensors && shard ? 0 : -1;
	for (size_t i = 0; ret == 0 && i < like.ntensors; i++)
		like.tensors[i] = a->tensors[i].tensor;
	if (ret == 0)
		ret = dataset_set_alone(path, NULL, is_shard, c, err);
	if (ret == 0)
		ret = sink_add_folder(c->transfer.sink, path, err);
	if (ret == 0)
		ret = sink_add_like(c->transfer.sink, shard, NULL, &like, c->transfer.places, err);
	free(shard);
	free(like.tensors);
	free(file.metadata);
	return ret;
}
