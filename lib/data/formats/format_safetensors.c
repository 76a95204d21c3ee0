/* .safetensors (safetensors.c), and sets of them (dataset_set.c, sink_set.c). */
#include <stdlib.h>

#include "lib/base/sort.h"
#include "lib/data/files/input.h"
#include "lib/data/formats/format_internal.h"
#include "lib/data/formats/safetensors.h"
#include "lib/data/torch/dcp.h"

/* ---- reading ---- */

struct shard {
	struct dataset *dataset;
	int file;
};

static int add_shard_tensor(void *ctx, const struct tensor *t, struct err *err)
{
	const struct shard *s = ctx;
	return dataset_add_tensor(s->dataset, t, s->file, err);
}

int dataset_add_safetensors(struct dataset *d, int file, struct err *err)
{
	struct dataset_file *f = &d->files[file];
	struct shard shard = {d, file};
	struct err why = {0};
	uint8_t prefix[SAFETENSORS_PREFIX] = {0};
	size_t len = 0, have = f->size < sizeof prefix ? (size_t)f->size : sizeof prefix;
	if (input_pread(f->fd, f->path, prefix, have, 0, err))
		return -1;
	if (safetensors_header_len(prefix, f->size, &len, &why))
		return err_set(err, why.code, "%s: %s", f->path, why.text);
	char *json = err_malloc(len + 1, "a header", err);
	if (!json)
		return -1;
	int ret = input_pread(f->fd, f->path, json, len, sizeof prefix, err);
	if (ret == 0) {
		ret = safetensors_parse(json, len, f->size, add_shard_tensor, &shard, &f->metadata,
		                        &why);
		if (ret)
			err_set(err, why.code, "%s: %s", f->path, why.text);
	}
	free(json);
	return ret;
}

static int open_file(struct dataset *d, const struct dataset_source *source,
                     const struct array_hints *hints, struct err *err)
{
	(void)hints;
	if (dataset_add_safetensors(d, 0, err) < 0)
		return -1;
	if (!dcp_is_safetensors(d) || source->pieces)
		return 0;
	if (source->parts)
		return dcp_join_safetensors(d, source, err);
	return err_set(err, ERR_INPUT,
	               "%s: holds pieces of a distributed checkpoint, not whole tensors: name its "
	               "folder",
	               d->path);
}

/* ---- writing ---- */

int sink_add_safetensors(struct sink *s, const char *path, const struct dataset *like,
                         const struct tensor **of, size_t n, const char *metadata,
                         struct place *places, struct err *err)
{
	char *head = NULL;
	size_t head_len;
	uint64_t size;
	int file = -1;
	struct err why = ERR_INIT;
	uint64_t *offsets = err_calloc(n + 1, sizeof *offsets, "the tensors of an output", err);
	if (!offsets)
		return -1;
	if (safetensors_lay_out(of, n, metadata, &head, &head_len, offsets, &size, &why))
		err_set(err, why.code, "%s: %s", path, why.text);
	else
		file = sink_add(s, path, head, head_len, size, err);
	for (size_t i = 0; file >= 0 && i < n; i++)
		places[of[i] - like->tensors] = (struct place){file, offsets[i]};
	free(head);
	free(offsets);
	return file < 0 ? -1 : 0;
}

/* Compares by file, then by the order in the dataset. */
static int by_file(const void *a, const void *b)
{
	const struct tensor *const *x = a, *const *y = b;
	if ((*x)->file != (*y)->file)
		return (*x)->file < (*y)->file ? -1 : 1;
	return *x < *y ? -1 : *x > *y;
}

const struct tensor **sink_by_file(const struct dataset *like, struct err *err)
{
	const struct tensor **of =
	        err_calloc(like->ntensors + 1, sizeof *of, "the tensors of an output", err);
	if (!of)
		return NULL;
	for (size_t i = 0; i < like->ntensors; i++)
		of[i] = &like->tensors[i];
	sort_list(of, like->ntensors, sizeof *of, by_file);
	return of;
}

static int lay_out(struct sink *s, const char *path, const struct dataset *like,
                   struct place *places, struct err *err)
{
	if (like->sharded)
		return sink_add_set(s, path, like, places, err);
	const struct tensor **of = sink_by_file(like, err);
	const char *metadata = like->nfiles ? like->files[0].metadata : NULL;
	int ret =
	        of ? sink_add_safetensors(s, path, like, of, like->ntensors, metadata, places, err)
	           : -1;
	free(of);
	return ret;
}

const struct format format_safetensors = {
        .name = "safetensors",
        .suffixes = {".safetensors"},
        .index = ".safetensors.index.json",
        .number = 3,
        .open = open_file,
        .open_set = dataset_open_set,
        .lay_out = lay_out,
};
