/*
 * Files of torch.save (torch_archive.h). Tensors in C order are read where they lie; others, and
 * those of a big-endian machine, are copied to a spool first.
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

/* ---- values ---- */

static int add_tensor(void *ctx, const char *name, const struct torch_tensor *t,
                      const struct strided *of, struct err *err)
{
	struct torch_spool *s = ctx;
	struct tensor tensor = {.name = *name ? name : "tensor",
	                        .dtype = t->dtype,
	                        .ndim = t->ndim,
	                        .shape = t->shape,
	                        .count = t->count,
	                        .bytes = t->count * dtype_size(t->dtype)};
	int file = 0;
	if (t->piece && s->source->parts) {
		tensor.first = t->first;
		tensor.whole = t->whole;
	}
	if (torch_spool_place(s, of, tensor.bytes, &file, &tensor.offset, err))
		return -1;
	return dataset_add_tensor(s->dataset, &tensor, file, err);
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
	const struct torch_spool *s = ctx;
	struct buf b;
	buf_init(&b, SIZE_MAX);
	put_value(&b, v);
	int ret = b.failed ? err_nomem(err, "a value", b.len)
	                   : dataset_add_value(s->dataset, name, (const char *)b.data, b.len, err);
	buf_release(&b);
	return ret;
}

/* ---- the file ---- */

struct loading {
	struct torch_spool spool;
	const struct torch_archive *archive;
};

static int load(void *arg, struct err *err)
{
	struct loading *l = arg;
	const struct torch_archive_visitor visitor = {.pieces = l->spool.source->pieces ||
	                                                        l->spool.source->parts,
	                                              .tensor = add_tensor,
	                                              .other = add_value,
	                                              .ctx = &l->spool};
	const struct dataset *d = l->spool.dataset;
	if (torch_archive_visit(l->archive, &visitor, err))
		return -1;
	if (!d->ntensors)
		return err_set(err, ERR_INPUT, "%s: holds no tensor", d->path);
	return torch_spool_end(&l->spool, err);
}

static int open_file(struct dataset *d, const struct dataset_source *source,
                     const struct array_hints *hints, struct err *err)
{
	const struct dataset_file *f = &d->files[0];
	struct torch_archive a;
	struct loading l = {.archive = &a};
	(void)hints;
	torch_spool_init(&l.spool, d, source);
	if (foreign_check_torch(f->fd, f->path, f->size, err) ||
	    torch_archive_open(&a, f->fd, f->path, 0, f->size, err))
		return -1;
	int ret = torch_spool_aside(&l.spool, load, &l, err);
	torch_archive_release(&a);
	return ret;
}

const struct format format_torch = {
        .name = "torch",
        .suffixes = {".pt", ".pth", ".ckpt"},
        .number = 5,
        .written = &format_safetensors,
        .open = open_file,
        .open_set = fsdp_open,
};
