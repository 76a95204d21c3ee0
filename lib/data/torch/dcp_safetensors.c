/* Pieces of tensors in .safetensors files, as DCP's HuggingFaceStorageWriter saves them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/json.h"
#include "lib/data/torch/dcp.h"
#include "lib/data/torch/pieces.h"

/* {"w": {"saved_offsets": [3, 0]}}, as text, in __metadata__. torch does not say the shape of the
 * whole; `scatter --shard-dim` adds it: "whole": [6, 2]. */
#define INFO "DCP_SHARDING_INFO"

/* The sharding info of the file, a new reference; NULL: it has none, or it is malformed. */
static json_t *info_of(const struct dataset_file *f)
{
	json_t *metadata = f->metadata ? json_loads(f->metadata, 0, NULL) : NULL;
	const char *text = json_string_value(json_object_get(metadata, INFO));
	json_t *info = text ? json_loads(text, 0, NULL) : NULL;
	json_decref(metadata);
	return info;
}

bool dcp_is_safetensors(const struct dataset *d)
{
	for (int i = 0; i < d->nfiles; i++)
		if (d->files[i].metadata && strstr(d->files[i].metadata, INFO))
			return true;
	return false;
}

static int malformed(const struct dataset *d, const struct tensor *t, struct err *err)
{
	return err_set(err, ERR_INPUT, "%s: tensor '%.200s': its place in " INFO " is malformed",
	               d->files[t->file].path, t->name);
}

/* The box of @t by the info of its file. A tensor that the info lacks is whole. */
static int fill_box(const struct dataset *d, const struct tensor *t, json_t *info,
                    struct tensor_box *box, struct err *err)
{
	json_t *of = json_object_get(info, t->name), *first = json_object_get(of, "saved_offsets");
	*box = (struct tensor_box){.file = t->file, .offset = t->offset};
	if (t->ndim > ARRAY_MAX_DIMS || (of && json_array_size(first) != (size_t)t->ndim))
		return malformed(d, t, err);
	for (int i = 0; i < t->ndim; i++) {
		const json_t *n = json_array_get(first, (size_t)i);
		if (of && (!json_is_integer(n) || json_integer_value(n) < 0))
			return malformed(d, t, err);
		box->first[i] = of ? (uint64_t)json_integer_value(n) : 0;
		box->size[i] = t->shape[i];
	}
	return 0;
}

/* If the files of the tensors @t[n] say the shape of the whole, replace the hull in *info by it:
 * the hull must fit. */
static int take_whole(struct dataset *d, const struct tensor *t, size_t n, json_t *const *infos,
                      struct array_info *info, struct err *err)
{
	struct array_info whole = *info;
	size_t say = 0;
	for (size_t k = 0; k < n; k++) {
		const json_t *of = json_object_get(infos[t[k].file], t[k].name);
		const json_t *shape = json_object_get(of, "whole");
		if (of && !shape)
			continue;
		if (shape && json_array_size(shape) != (size_t)t->ndim)
			return malformed(d, &t[k], err);
		for (int i = 0; i < t->ndim; i++) {
			const json_t *number = shape ? json_array_get(shape, (size_t)i) : NULL;
			const json_int_t length =
			        shape ? json_integer_value(number) : (json_int_t)t[k].shape[i];
			if ((shape && !json_is_integer(number)) || length < 0 ||
			    (uint64_t)length < info->shape[i] ||
			    (say && (uint64_t)length != whole.shape[i]))
				return malformed(d, &t[k], err);
			whole.shape[i] = (uint64_t)length;
		}
		say++;
	}
	d->hull |= !say;
	*info = say ? whole : *info;
	return array_count(info) ? malformed(d, t, err) : 0;
}

/* The least shape that holds the boxes. */
static int hull(const struct dataset *d, const struct tensor *t, const struct tensor_box *boxes,
                int n, struct array_info *info, struct err *err)
{
	*info = (struct array_info){.dtype = t->dtype, .ndim = t->ndim};
	for (int k = 0; k < n; k++)
		for (int i = 0; i < t->ndim; i++) {
			const uint64_t end = boxes[k].first[i] + boxes[k].size[i];
			if (end < boxes[k].size[i])
				return malformed(d, t, err);
			if (end > info->shape[i])
				info->shape[i] = end;
		}
	return array_count(info) ? malformed(d, t, err) : 0;
}

/* Append the @n tensors at @t, which have one name, as parts of which the whole is not known. One
 * that the info of its file lacks is whole. */
static int list_parts(struct torch_spool *spool, const struct tensor *t, size_t n,
                      json_t *const *infos, const struct tensor_box *boxes, const uint64_t *whole,
                      struct err *err)
{
	for (size_t k = 0; k < n; k++) {
		struct tensor part = t[k];
		if (json_object_get(infos[t[k].file], t[k].name)) {
			part.first = boxes[k].first;
			part.whole = whole;
		}
		if (dataset_add_tensor(spool->dataset, &part, part.file, err))
			return -1;
	}
	return 0;
}

/* Join the @n tensors at @t, which have one name. */
static int join_one(struct torch_spool *spool, struct dataset *d, const struct tensor *t, size_t n,
                    json_t *const *infos, struct err *err)
{
	struct array_info info = {0};
	if (n > PIECES_MAX)
		return malformed(d, t, err);
	struct tensor_box *boxes = err_calloc(n, sizeof *boxes, "the pieces", err);
	int ret = boxes ? 0 : -1;
	for (size_t k = 0; ret == 0 && k < n; k++) {
		if (t[k].dtype != t->dtype || t[k].ndim != t->ndim)
			ret = err_set(
			        err, ERR_INPUT,
			        "%s: tensor '%.200s' has another type or number of axes than in "
			        "%s",
			        d->files[t[k].file].path, t->name, d->files[t->file].path);
		else
			ret = fill_box(d, &t[k], infos[t[k].file], &boxes[k], err);
	}
	if (ret == 0)
		ret = hull(d, t, boxes, (int)n, &info, err);
	const bool said = json_object_get(json_object_get(infos[t->file], t->name), "whole");
	if (ret == 0)
		ret = take_whole(d, t, n, infos, &info, err);
	const struct tensor whole = {.name = t->name,
	                             .dtype = t->dtype,
	                             .ndim = t->ndim,
	                             .shape = info.shape,
	                             .count = info.count,
	                             .bytes = array_bytes(&info)};
	if (ret == 0)
		ret = spool->source->parts
		              ? list_parts(spool, t, n, infos, boxes, said ? info.shape : NULL, err)
		              : pieces_join(spool, &whole, boxes, (int)n, err);
	free(boxes);
	return ret;
}

struct pieces {
	struct torch_spool spool;
	const struct tensor *v; /* of all files, sorted by name */
	size_t n;
	json_t **infos; /* [file] */
};

static int join_all(void *arg, struct err *err)
{
	struct pieces *p = arg;
	for (size_t i = 0, same; i < p->n; i += same) {
		same = 1;
		while (i + same < p->n && strcmp(p->v[i].name, p->v[i + same].name) == 0)
			same++;
		if (join_one(&p->spool, p->spool.dataset, &p->v[i], same, p->infos, err))
			return -1;
	}
	return torch_spool_end(&p->spool, err);
}

static int read_infos(struct pieces *p, int nfiles, struct err *err)
{
	const struct dataset_file *files = p->spool.dataset->files;
	for (int i = 0; i < nfiles; i++) {
		p->infos[i] = info_of(&files[i]);
		if (!p->infos[i] && files[i].metadata && strstr(files[i].metadata, INFO))
			return err_set(err, ERR_INPUT, "%s: its " INFO " is malformed",
			               files[i].path);
	}
	return 0;
}

int dcp_join_safetensors(struct dataset *d, const struct dataset_source *source, struct err *err)
{
	const int nfiles = d->nfiles;
	struct pieces p = {.n = d->ntensors};
	torch_spool_init(&p.spool, d, source);
	p.infos = err_calloc((size_t)nfiles + 1, sizeof(json_t *), "the pieces", err);
	if (!p.infos)
		return -1;
	dataset_arrange(d);
	struct tensor *v = d->tensors;
	p.v = v;
	d->tensors = NULL;
	d->ntensors = 0;
	d->format = &format_dcp;
	d->sharded = false;
	d->joined = true;
	int ret = read_infos(&p, nfiles, err);
	if (ret == 0)
		ret = torch_spool_aside(&p.spool, join_all, &p, err);
	for (int i = 0; i < nfiles; i++)
		json_decref(p.infos[i]);
	free(p.infos);
	free(v);
	return ret;
}
