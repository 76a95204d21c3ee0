/*
 * torch.save since 1.6: a zip archive NAME/ of stored entries: data.pkl, which has the tensors'
 * names, shapes and strides, data/KEY, which has a storage's elements, and byteorder. Tensors in C
 * order are read where they lie; others are copied to a spool first.
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
#include "lib/data/torch/strided.h"
#include "lib/data/torch/torch_values.h"
#include "lib/data/torch/zip_directory.h"

#define PICKLE_MAX   (100u << 20)          /* bytes of data.pkl */
#define VIEW_BYTES   (16u << 20)           /* memory to copy views */
#define VIEWS_EXPAND 100                   /* views may have this many times the file's size */
#define ENTRY_NAME   512                   /* of an entry, with its NUL */
#define METADATA     "{\"format\":\"pt\"}" /* as torch's writers of .safetensors say */

/* A tensor that is not in C order, and its place in the spool. */
struct view_of_storage {
	struct torch_tensor tensor;
	uint64_t at, out_at; /* bytes: its first element in the file; in the spool */
};

struct loading {
	struct dataset *dataset;
	const struct dataset_source *source;
	struct zip_directory zip;
	char folder[ENTRY_NAME]; /* NAME */
	bool swapped;
	int spool;           /* the file of the dataset; -1: none */
	uint64_t spool_size; /* bytes */
	VEC(struct view_of_storage) views;
};

static const struct dataset_file *file_of(const struct loading *l)
{
	return &l->dataset->files[0];
}

/* ---- entries ---- */

static const struct zip_entry *entry(const struct loading *l, const char *name)
{
	char path[ENTRY_NAME + 64];
	snprintf(path, sizeof path, "%s/%s", l->folder, name);
	return zip_directory_find(&l->zip, path);
}

/* The folder of the entry FOLDER/data.pkl, which an archive of torch.save has once. */
static int find_folder(struct loading *l, struct err *err)
{
	static const char pickle[] = "/data.pkl";
	const size_t m = sizeof pickle - 1;
	int n = 0;
	for (size_t i = 0; i < l->zip.n; i++) {
		const char *name = l->zip.entries[i].name, *slash = strchr(name, '/');
		if (!slash || strcmp(slash, pickle) != 0 || strlen(name) >= sizeof l->folder)
			continue;
		memcpy(l->folder, name, strlen(name) - m);
		l->folder[strlen(name) - m] = '\0';
		n++;
	}
	if (n == 1)
		return 0;
	return err_set(err, ERR_INPUT,
	               "%s: is a zip archive without the entry NAME/data.pkl: "
	               "expected one as torch.save writes it",
	               file_of(l)->path);
}

/* Read the entry, malloced, with a NUL after it. */
static char *read_entry(const struct loading *l, const struct zip_entry *e, size_t most,
                        struct err *err)
{
	const struct dataset_file *f = file_of(l);
	uint64_t at;
	if (e->bytes > most) {
		err_set(err, ERR_INPUT, "%s: its entry '%.200s' has %llu bytes: the limit is %zu",
		        f->path, e->name, (unsigned long long)e->bytes, most);
		return NULL;
	}
	if (zip_entry_offset(&l->zip, e, f->fd, f->path, &at, err))
		return NULL;
	char *bytes = err_malloc((size_t)e->bytes + 1, "an entry of an archive", err);
	if (!bytes)
		return NULL;
	if (input_pread(f->fd, f->path, bytes, (size_t)e->bytes, at, err)) {
		free(bytes);
		return NULL;
	}
	bytes[e->bytes] = '\0';
	return bytes;
}

static int read_byte_order(struct loading *l, struct err *err)
{
	const struct zip_entry *e = entry(l, "byteorder");
	char *text = e ? read_entry(l, e, 64, err) : NULL;
	if (!e) /* versions before 2.1: always little */
		return 0;
	if (!text)
		return -1;
	l->swapped = strcmp(text, "big") == 0;
	const bool known = l->swapped || strcmp(text, "little") == 0;
	free(text);
	return known ? 0
	             : err_set(err, ERR_INPUT, "%s: its byte order is neither little nor big",
	                       file_of(l)->path);
}

/* ---- tensors ---- */

/* *at: where the storage of @t begins in the file. */
static int find_storage(const struct loading *l, const struct torch_tensor *t, const char *name,
                        uint64_t *at, struct err *err)
{
	const struct dataset_file *f = file_of(l);
	char key[64];
	snprintf(key, sizeof key, "data/%.*s", (int)(t->storage_len < 50 ? t->storage_len : 50),
	         t->storage);
	const struct zip_entry *e = entry(l, key);
	if (!e)
		return err_set(err, ERR_INPUT,
		               "%s: tensor '%.200s': the archive has no entry '%.60s'", f->path,
		               name, key);
	if (e->bytes < t->storage_bytes)
		return err_set(
		        err, ERR_INPUT,
		        "%s: tensor '%.200s': the entry '%.60s' has %llu bytes: expected %llu",
		        f->path, name, key, (unsigned long long)e->bytes,
		        (unsigned long long)t->storage_bytes);
	return zip_entry_offset(&l->zip, e, f->fd, f->path, at, err);
}

static struct strided strided_of(const struct torch_tensor *t, uint64_t at)
{
	return (struct strided){t->ndim, t->shape, t->stride, dtype_size(t->dtype), at};
}

/* The tensor @t will have C order in the spool: *offset. */
static int add_view(struct loading *l, const struct torch_tensor *t, uint64_t at, uint64_t *offset,
                    struct err *err)
{
	struct view_of_storage *v = vec_push(&l->views);
	if (!v)
		return err_nomem(err, "the views of a file", sizeof *v);
	const uint64_t bytes = t->count * dtype_size(t->dtype);
	*v = (struct view_of_storage){*t, at, l->spool_size};
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

static int add_tensor(void *ctx, const char *name, const struct torch_tensor *t, struct err *err)
{
	struct loading *l = ctx;
	uint64_t storage, offset;
	int file = 0;
	if (find_storage(l, t, name, &storage, err))
		return -1;
	offset = storage + t->offset * dtype_size(t->dtype);
	const struct strided s = strided_of(t, offset);
	if (t->count && !strided_is_c_order(&s) && !l->source->heads_only) {
		if (open_spool(l, err) || add_view(l, t, s.at, &offset, err))
			return -1;
		file = l->spool;
	}
	const struct tensor tensor = {.name = *name ? name : "tensor",
	                              .dtype = t->dtype,
	                              .ndim = t->ndim,
	                              .shape = t->shape,
	                              .count = t->count,
	                              .bytes = t->count * dtype_size(t->dtype),
	                              .offset = offset,
	                              .swapped = l->swapped};
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
		const struct strided s = strided_of(&v->tensor, v->at);
		struct err why = ERR_INIT;
		if (strided_to_c(&s, in->fd, out->fd, v->out_at, VIEW_BYTES, &why))
			return err_set(err, why.code, "%s: a view cannot be copied: %s", in->path,
			               why.text);
	}
	return 0;
}

/* ---- the file ---- */

static int visit_pickle(struct loading *l, struct err *err)
{
	const struct zip_entry *e = entry(l, "data.pkl");
	const struct torch_visitor visitor = {.tensor = add_tensor, .other = add_value, .ctx = l};
	struct pickle pickle;
	struct err why = ERR_INIT;
	char *bytes = read_entry(l, e, PICKLE_MAX, err);
	if (!bytes)
		return -1;
	int ret = pickle_read(&pickle, bytes, (size_t)e->bytes, NULL, torch_permits, &why);
	if (ret == 0) {
		ret = torch_visit(pickle.root, (size_t)e->bytes, &visitor, &why);
		pickle_release(&pickle);
	}
	free(bytes);
	if (ret == 0)
		return 0;
	const char *path = file_of(l)->path;
	return strncmp(why.text, path, strlen(path)) == 0
	               ? err_pass(err, &why)
	               : err_set(err, why.code, "%s: %s", path, why.text);
}

static int load(struct loading *l, struct err *err)
{
	struct dataset *d = l->dataset;
	if (find_folder(l, err))
		return -1;
	if (entry(l, "constants.pkl"))
		return err_set(err, ERR_INPUT,
		               "%s: is a TorchScript program, which is not read: save its tensors "
		               "by torch.save(module.state_dict(), ...)",
		               d->path);
	d->files[0].metadata = err_strdup(METADATA, "metadata", err);
	if (!d->files[0].metadata || read_byte_order(l, err) || visit_pickle(l, err))
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
	(void)hints;
	if (foreign_check_torch(f->fd, f->path, f->size, err) ||
	    zip_directory_read(&l.zip, f->fd, f->path, f->size, err))
		return -1;
	int ret = load(&l, err);
	zip_directory_release(&l.zip);
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
