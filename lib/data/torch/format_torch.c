/*
 * Files of torch.save (torch_archive.h). Tensors in C order are read where they lie; others, and
 * those of a big-endian machine, are copied to a spool first.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/buf.h"
#include "lib/base/vec.h"
#include "lib/data/files/input.h"
#include "lib/data/files/spool.h"
#include "lib/data/formats/foreign.h"
#include "lib/data/formats/format_internal.h"
#include "lib/data/torch/pieces.h"
#include "lib/data/torch/torch_archive.h"

#define VIEWS_EXPAND 100         /* views may have this many times the file's size */
#define VIEW_BYTES   (16u << 20) /* memory to copy views */

/* A tensor that is not in C order, and its place in the spool. */
struct view_of_storage {
	struct torch_tensor tensor;
	struct strided of; /* shape and stride: the tensor's */
	uint64_t out_at;   /* bytes */
};

struct loading {
	struct dataset *dataset;
	const struct dataset_source *source;
	int spool;           /* the file of the dataset; -1: none */
	uint64_t spool_size; /* bytes */
	VEC(struct view_of_storage) views;
};

static const struct dataset_file *file_of(const struct loading *l)
{
	return &l->dataset->files[0];
}

/* ---- tensors ---- */

/* The tensor @t will have C order in the spool: *offset. */
static int add_view(struct loading *l, const struct torch_tensor *t, const struct strided *of,
                    uint64_t *offset, struct err *err)
{
	struct view_of_storage *v = vec_push(&l->views);
	if (!v)
		return err_nomem(err, "the views of a file", sizeof *v);
	const uint64_t bytes = t->count * dtype_size(t->dtype);
	*v = (struct view_of_storage){*t, *of, l->spool_size};
	*offset = l->spool_size;
	/* A stride of 0 repeats elements at no cost to the file. */
	if (__builtin_add_overflow(l->spool_size, bytes, &l->spool_size) ||
	    (l->spool_size / VIEWS_EXPAND > file_of(l)->size && l->spool_size > l->source->memory))
		return err_set(
		        err, ERR_INPUT,
		        "%s: its views have more than %d times the file's size and more than "
		        "--memory: save them by .contiguous(), or give more --memory",
		        file_of(l)->path, VIEWS_EXPAND);
	return 0;
}

static int open_spool(struct loading *l, struct err *err)
{
	if (l->spool >= 0)
		return 0;
	const int fd = spool_open(err);
	l->spool = fd < 0 ? -1 : dataset_add_file(l->dataset, fd, file_of(l)->path, true, err);
	if (l->spool < 0)
		return -1;
	l->dataset->files[l->spool].unpacked = true;
	return 0;
}

static int add_tensor(void *ctx, const char *name, const struct torch_tensor *t,
                      const struct strided *of, struct err *err)
{
	struct loading *l = ctx;
	uint64_t offset = of->at;
	int file = 0;
	const bool in_place = strided_is_c_order(of) && !of->swapped;
	if (t->count && !in_place && !l->source->heads_only) {
		if (open_spool(l, err) || add_view(l, t, of, &offset, err))
			return -1;
		file = l->spool;
	}
	const struct tensor tensor = {.name = *name ? name : "tensor",
	                              .dtype = t->dtype,
	                              .ndim = t->ndim,
	                              .shape = t->shape,
	                              .count = t->count,
	                              .bytes = t->count * dtype_size(t->dtype),
	                              .offset = offset};
	return dataset_add_tensor(l->dataset, &tensor, file, err);
}

/* A number or a text; of others what they are. */
static void put_value(struct buf *b, const struct pickle_value *v)
{
	char number[40];
	const struct pickle_global *g;
	switch (v->kind) {
	case PICKLE_BOOL:
		buf_put_text(b, v->number ? "true" : "false");
		return;
	case PICKLE_INT:
		snprintf(number, sizeof number, "%" PRId64, v->number);
		buf_put_text(b, number);
		return;
	case PICKLE_FLOAT:
		snprintf(number, sizeof number, isfinite(v->real) ? "%.17g" : "\"%g\"", v->real);
		buf_put_text(b, number);
		return;
	case PICKLE_TEXT:
		if (torch_is_text(v->text, v->n))
			buf_put_json(b, v->text, v->n);
		else
			buf_put_text(b, "\"a text\"");
		return;
	case PICKLE_NONE:
		buf_put_text(b, "null");
		return;
	case PICKLE_GLOBAL:
	case PICKLE_RECORD:
		g = (v->kind == PICKLE_GLOBAL ? v : v->record->callable)->global;
		snprintf(number, sizeof number, "\"%.*s\"",
		         (int)(g->name_len < 30 ? g->name_len : 30), g->name);
		buf_put_text(b, number);
		return;
	default:
		buf_put_text(b, v->kind == PICKLE_BYTES   ? "\"bytes\""
		                : v->kind == PICKLE_LARGE ? "\"a large integer\""
		                                          : "\"a set\"");
	}
}

static int add_value(void *ctx, const char *name, const struct pickle_value *v, struct err *err)
{
	struct loading *l = ctx;
	struct buf b;
	buf_init(&b, SIZE_MAX);
	put_value(&b, v);
	int ret = b.failed ? err_nomem(err, "a value", b.len)
	                   : dataset_add_value(l->dataset, name, (const char *)b.data, b.len, err);
	buf_release(&b);
	return ret;
}

static int copy_views(void *arg, struct err *err)
{
	const struct loading *l = arg;
	const struct dataset_file *in = file_of(l), *out = &l->dataset->files[l->spool];
	for (size_t i = 0; i < l->views.n; i++) {
		const struct view_of_storage *v = &l->views.v[i];
		struct strided of = v->of;
		struct err why = ERR_INIT;
		of.shape = v->tensor.shape;
		of.stride = v->tensor.stride;
		if (strided_to_c(&of, in->fd, out->fd, v->out_at, VIEW_BYTES, &why))
			return err_set(err, why.code, "%s: a view cannot be copied: %s", in->path,
			               why.text);
	}
	return 0;
}

/* ---- the file ---- */

static int load(struct loading *l, const struct torch_archive *a, struct err *err)
{
	struct dataset *d = l->dataset;
	const struct torch_archive_visitor visitor = {add_tensor, add_value, l};
	d->files[0].metadata = err_strdup(TORCH_METADATA, "metadata", err);
	if (!d->files[0].metadata || torch_archive_visit(a, &visitor, err))
		return -1;
	if (!d->ntensors)
		return err_set(err, ERR_INPUT, "%s: holds no tensor", d->path);
	if (l->views.n && (l->source->aside ? l->source->aside(l->source->ctx, copy_views, l, err)
	                                    : copy_views(l, err)))
		return -1;
	if (l->spool >= 0)
		d->files[l->spool].size = l->spool_size;
	return 0;
}

static int open_file(struct dataset *d, const struct dataset_source *source,
                     const struct array_hints *hints, struct err *err)
{
	struct loading l = {.dataset = d, .source = source, .spool = -1};
	const struct dataset_file *f = &d->files[0];
	struct torch_archive a;
	(void)hints;
	int ret = foreign_check_torch(f->fd, f->path, f->size, err);
	if (ret == 0)
		ret = torch_archive_open(&a, f->fd, f->path, 0, f->size, err);
	if (ret == 0) {
		ret = load(&l, &a, err);
		torch_archive_release(&a);
	}
	free(l.views.v);
	return ret;
}

const struct format format_torch = {
        .name = "torch",
        .suffixes = {".pt", ".pth", ".ckpt"},
        .number = 5,
        .written = &format_safetensors,
        .open = open_file,
};
