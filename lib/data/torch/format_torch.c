/*
 * Files of torch.save (torch_archive.h), and sets of them with an index, as transformers writes
 * them. Tensors in C order are read where they lie; others, and those of a big-endian machine, are
 * copied to a spool first.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/data/formats/foreign.h"
#include "lib/data/formats/format_internal.h"
#include "lib/data/torch/fsdp.h"
#include "lib/data/torch/torch_archive.h"
#include "lib/data/torch/torch_spool.h"

struct loading {
	struct torch_spool spool;
	int file;          /* of the dataset: the one that is read */
	const char *index; /* of a set */
};

/* ---- values ---- */

static int add_tensor(void *ctx, const char *name, const struct torch_tensor *t,
                      const struct strided *of, struct err *err)
{
	struct loading *l = ctx;
	struct tensor tensor = {.name = *name ? name : "tensor",
	                        .dtype = t->dtype,
	                        .ndim = t->ndim,
	                        .shape = t->shape,
	                        .count = t->count,
	                        .bytes = t->count * dtype_size(t->dtype)};
	tensor.copied = torch_spool_copies(of, tensor.bytes);
	if (t->piece && l->spool.source->parts) {
		tensor.first = t->first;
		tensor.whole = t->whole;
	}
	int file = l->file;
	if (torch_spool_place(&l->spool, of, tensor.bytes, &file, &tensor.offset, err))
		return -1;
	return dataset_add_tensor(l->spool.dataset, &tensor, file, err);
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
	const struct loading *l = ctx;
	struct buf b;
	buf_init(&b, SIZE_MAX);
	put_value(&b, v);
	int ret = b.failed ? err_nomem(err, "a value", b.len)
	                   : dataset_add_value(l->spool.dataset, name, (const char *)b.data, b.len,
	                                       err);
	buf_release(&b);
	return ret;
}

/* ---- files ---- */

/* Add the tensors and values of file @file. */
static int add_archive(void *ctx, int file, struct err *err)
{
	struct loading *l = ctx;
	const struct dataset_file *f = &l->spool.dataset->files[file];
	const struct torch_archive_visitor visitor = {.pieces = l->spool.source->pieces ||
	                                                        l->spool.source->parts,
	                                              .tensor = add_tensor,
	                                              .other = add_value,
	                                              .ctx = l};
	struct torch_archive a;
	l->file = file;
	if (foreign_check_torch(f->fd, f->path, f->size, err) ||
	    torch_archive_open(&a, f->fd, f->path, 0, f->size, err))
		return -1;
	const int ret = torch_archive_visit(&a, &visitor, err);
	torch_archive_release(&a);
	return ret;
}

static int end(struct loading *l, struct err *err)
{
	const struct dataset *d = l->spool.dataset;
	if (!d->ntensors)
		return err_set(err, ERR_INPUT, "%s: holds no tensor", d->path);
	return torch_spool_end(&l->spool, err);
}

static int load_file(void *arg, struct err *err)
{
	return add_archive(arg, 0, err) ? -1 : end(arg, err);
}

static int open_file(struct dataset *d, const struct dataset_source *source,
                     const struct array_hints *hints, struct err *err)
{
	struct loading l = {.file = 0};
	(void)hints;
	torch_spool_init(&l.spool, d, source);
	return torch_spool_aside(&l.spool, load_file, &l, err);
}

/* ---- sets ---- */

static int load_set(void *arg, struct err *err)
{
	struct loading *l = arg;
	return dataset_open_index_of(l->spool.dataset, l->index, add_archive, l, err) ? -1
	                                                                              : end(l, err);
}

static int open_set(struct dataset *d, const struct dataset_source *source, struct err *err)
{
	const bool folder = path_is_folder(d->path);
	struct loading l = {.index = d->path};
	char *path = NULL;
	if (folder && fsdp_is_folder(d->path))
		return fsdp_open(d, source, err);
	if (folder && dataset_torch_index(d->path, &path, err))
		return -1;
	if (folder && !path)
		return fsdp_open(d, source, err); /* says what the folder lacks */
	if (folder)
		l.index = path;
	d->format = &format_torch;
	d->joined = true;
	torch_spool_init(&l.spool, d, source);
	const int ret = torch_spool_aside(&l.spool, load_set, &l, err);
	free(path);
	return ret;
}

const struct format format_torch = {
        .name = "torch",
        .suffixes = {".pt", ".pth", ".ckpt"},
        .index = ".bin.index.json",
        .number = 5,
        .written = &format_safetensors,
        .open = open_file,
        .open_set = open_set,
};
