#include "lib/data/torch/dcp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/base/offload.h"
#include "lib/base/path.h"
#include "lib/data/files/input.h"
#include "lib/data/formats/format_internal.h"
#include "lib/data/torch/pieces.h"
#include "lib/data/torch/torch_archive.h"

#define METADATA     ".metadata"
#define METADATA_MAX (100u << 20)

bool dcp_is_folder(const char *folder)
{
	struct err ignored = ERR_INIT;
	char *path = path_join(folder, METADATA, &ignored);
	struct stat st;
	const bool is = path && stat(path, &st) == 0 && S_ISREG(st.st_mode);
	free(path);
	return is;
}

/* ---- the pickle ---- */

/* A piece that .metadata says is stored. */
struct stored {
	const struct pickle_value *name; /* PICKLE_TEXT: of its tensor */
	uint64_t first[ARRAY_MAX_DIMS];
	int ndim;
	int file; /* of the dataset */
	uint64_t offset, bytes;
};

struct checkpoint {
	struct torch_spool spool;
	char *bytes; /* of .metadata */
	struct pickle pickle;
	struct stored *stored; /* sorted by name and place */
	size_t nstored;
	struct err *err;
};

static struct dataset *dataset_of(const struct checkpoint *c)
{
	return c->spool.dataset;
}

static int malformed(const struct checkpoint *c, const char *what)
{
	return err_set(c->err, ERR_INPUT, "%s/%s: is malformed: %s", dataset_of(c)->path, METADATA,
	               what);
}

static bool permits(const struct pickle_global *g)
{
	static const char *const names[] = {
	        "Metadata",
	        "TensorStorageMetadata",
	        "BytesStorageMetadata",
	        "TensorProperties",
	        "_MEM_FORMAT_ENCODING",
	        "ChunkStorageMetadata",
	        "MetadataIndex",
	        "StorageMeta",
	        "_StorageInfo",
	        "MEM_FORMAT_ENCODING",
	};
	/* TensorProperties of torch 2.0 are those of its sharded tensors. */
	static const char *const modules[] = {"torch.distributed.checkpoint.",
	                                      "torch.distributed._shard."};
	bool inside = false;
	if (torch_permits(g))
		return true;
	if (g->module_len == 7 && memcmp(g->module, "pathlib", 7) == 0)
		return true;
	for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
		inside |= g->module_len >= strlen(modules[i]) &&
		          memcmp(g->module, modules[i], strlen(modules[i])) == 0;
	for (size_t i = 0; inside && i < sizeof names / sizeof *names; i++)
		if (strlen(names[i]) == g->name_len && memcmp(names[i], g->name, g->name_len) == 0)
			return true;
	return false;
}

static int read_metadata(struct checkpoint *c)
{
	struct dataset *d = dataset_of(c);
	char *path = path_join(d->path, METADATA, c->err);
	struct stat st;
	struct err why = ERR_INIT;
	int fd = path ? input_open(path, &st, c->err) : -1, ret = -1;
	const size_t n = fd < 0 ? 0 : (size_t)st.st_size;
	if (n > METADATA_MAX)
		err_set(c->err, ERR_INPUT, "%s: has %zu bytes: the limit is %u", path, n,
		        METADATA_MAX);
	else if (fd >= 0 && (c->bytes = err_malloc(n + 1, "the metadata of a checkpoint", c->err)))
		ret = input_pread(fd, path, c->bytes, n, 0, c->err);
	if (ret == 0 && pickle_read(&c->pickle, c->bytes, n, permits, &why))
		ret = err_set(c->err, why.code, "%s: %s", path, why.text);
	if (fd >= 0)
		close(fd);
	free(path);
	return ret;
}

/* The state of a record as a dict; NULL: it is none. */
static const struct pickle_value *state_of(const struct pickle_value *v, const char *class)
{
	return pickle_is_record(v, class) ? pickle_fields(v->record->state) : NULL;
}

/* ---- what is stored ---- */

static int by_text(const struct pickle_value *a, const struct pickle_value *b)
{
	const uint32_t n = a->n < b->n ? a->n : b->n;
	const int d = n ? memcmp(a->text, b->text, n) : 0;
	return d ? d : (a->n > b->n) - (a->n < b->n);
}

static int by_place(const void *a, const void *b)
{
	const struct stored *x = a, *y = b;
	const int d = by_text(x->name, y->name);
	if (d)
		return d;
	if (x->ndim != y->ndim)
		return x->ndim < y->ndim ? -1 : 1;
	for (int i = 0; i < x->ndim; i++)
		if (x->first[i] != y->first[i])
			return x->first[i] < y->first[i] ? -1 : 1;
	return 0;
}

#define FILE_MISSING (-2)

/* May the file be missing, and is it? */
static bool is_missing(const struct checkpoint *c, const char *path)
{
	return c->spool.source->parts && access(path, F_OK) < 0 && errno == ENOENT;
}

/* The file @name of the folder, opened once: its index in the dataset; or FILE_MISSING. */
static int find_file(struct checkpoint *c, const struct pickle_value *name)
{
	struct dataset *d = dataset_of(c);
	struct stat st;
	if (!name || name->kind != PICKLE_TEXT || !torch_is_text(name->text, name->n))
		return malformed(c, "a file without a name");
	for (int i = d->nfiles - 1; i >= 0; i--)
		if (strlen(d->files[i].name) == name->n &&
		    memcmp(d->files[i].name, name->text, name->n) == 0)
			return i;
	char *text = err_strndup(name->text, name->n, "a path", c->err);
	int file = -1;
	struct err why = ERR_INIT;
	if (text && path_check_plain(text, ERR_INPUT, &why) < 0)
		err_set(c->err, why.code, "%s/%s: %s", d->path, METADATA, why.text);
	else if (text) {
		char *path = path_join(d->path, text, c->err);
		const bool missing = path && is_missing(c, path);
		int fd = path && !missing ? input_open(path, &st, c->err) : -1;
		if (fd >= 0)
			file = dataset_add_file(d, fd, path, false, c->err);
		else if (missing)
			file = FILE_MISSING;
		free(path);
	}
	free(text);
	return file;
}

static int read_stored(struct checkpoint *c, const struct pickle_value *key,
                       const struct pickle_value *value, struct stored *s)
{
	const struct pickle_value *index = state_of(key, "MetadataIndex");
	const struct pickle_value *info = state_of(value, "_StorageInfo");
	if (!index || !info)
		return malformed(c, "an entry of storage_data is unknown");
	s->name = pickle_get(index, "fqn");
	const struct pickle_value *first = pickle_get(index, "offset");
	if (!s->name || s->name->kind != PICKLE_TEXT ||
	    !pickle_number(pickle_get(info, "offset"), &s->offset) ||
	    !pickle_number(pickle_get(info, "length"), &s->bytes))
		return malformed(c, "an entry of storage_data lacks its place");
	s->ndim = 0;
	if (first && first->kind != PICKLE_NONE && !torch_numbers(first, s->first, &s->ndim))
		return malformed(c, "an entry of storage_data lacks its place");
	const struct pickle_value *transforms = pickle_get(info, "transform_descriptors");
	if (transforms && transforms->kind != PICKLE_NONE)
		return malformed(c, "its pieces are compressed or changed, which is not read");
	s->file = find_file(c, pickle_get(info, "relative_path"));
	if (s->file < 0)
		return s->file == FILE_MISSING ? 0 : -1;
	const struct dataset_file *f = &dataset_of(c)->files[s->file];
	if (s->offset > f->size || s->bytes > f->size - s->offset)
		return err_set(c->err, ERR_INPUT, "%s: ends before a piece that %s says is in it",
		               f->path, METADATA);
	return 0;
}

static int read_storage(struct checkpoint *c, const struct pickle_value *storage)
{
	if (!storage || storage->kind != PICKLE_DICT)
		return malformed(c, "it has no storage_data");
	c->stored = err_calloc(storage->n / 2 + 1, sizeof *c->stored, "the pieces", c->err);
	if (!c->stored)
		return -1;
	for (uint32_t i = 0; i + 1 < storage->n; i += 2)
		if (read_stored(c, storage->items[i], storage->items[i + 1],
		                &c->stored[c->nstored++]))
			return -1;
	qsort(c->stored, c->nstored, sizeof *c->stored, by_place);
	for (size_t i = 1; i < c->nstored; i++)
		if (by_place(&c->stored[i - 1], &c->stored[i]) == 0)
			return malformed(c, "a piece is stored twice");
	return 0;
}

/* ---- tensors ---- */

/* One piece: the only tensor of its archive. */
struct piece {
	struct checkpoint *checkpoint;
	const struct tensor *whole;
	struct tensor_box *box;
	int tensors;
};

static int take_piece(void *ctx, const char *name, const struct torch_tensor *t,
                      const struct strided *of, struct err *err)
{
	struct piece *p = ctx;
	struct torch_spool *s = &p->checkpoint->spool;
	(void)name;
	if (p->tensors++ || t->dtype != p->whole->dtype || t->ndim != p->whole->ndim ||
	    memcmp(t->shape, p->box->size, (size_t)t->ndim * sizeof *t->shape) != 0)
		return err_set(err, ERR_INPUT, "%s: a piece of tensor '%.200s' is not as %s says",
		               s->dataset->files[p->box->file].path, p->whole->name, METADATA);
	return torch_spool_place(s, of, t->count * dtype_size(t->dtype), &p->box->file,
	                         &p->box->offset, err);
}

/* Fill the box of the chunk, a ChunkStorageMetadata. 1: its file is missing. */
static int find_piece(struct checkpoint *c, const struct pickle_value *name,
                      const struct tensor *whole, const struct pickle_value *chunk,
                      struct tensor_box *box)
{
	const struct pickle_value *state = state_of(chunk, "ChunkStorageMetadata");
	struct stored wanted = {.name = name};
	int ndim;
	if (!state || !torch_numbers(pickle_get(state, "offsets"), wanted.first, &wanted.ndim) ||
	    !torch_numbers(pickle_get(state, "sizes"), box->size, &ndim) || ndim != whole->ndim ||
	    wanted.ndim != ndim)
		return malformed(c, "a piece of a tensor has no place in it");
	memcpy(box->first, wanted.first, sizeof box->first);
	const struct stored *s =
	        c->nstored ? bsearch(&wanted, c->stored, c->nstored, sizeof wanted, by_place)
	                   : NULL;
	if (!s)
		return err_set(c->err, ERR_INPUT,
		               "%s/%s: a piece of tensor '%.200s' is stored nowhere",
		               dataset_of(c)->path, METADATA, whole->name);
	if (s->file == FILE_MISSING)
		return 1;
	const struct dataset_file *f = &dataset_of(c)->files[s->file];
	struct piece p = {.checkpoint = c, .whole = whole, .box = box};
	const struct torch_archive_visitor visitor = {.tensor = take_piece, .ctx = &p};
	struct torch_archive a;
	box->file = s->file;
	if (torch_archive_open(&a, f->fd, f->path, s->offset, s->bytes, c->err))
		return -1;
	int ret = torch_archive_visit(&a, &visitor, c->err);
	torch_archive_release(&a);
	if (ret == 0 && !p.tensors)
		ret = err_set(c->err, ERR_INPUT, "%s: a piece of tensor '%.200s' holds no tensor",
		              dataset_of(c)->files[s->file].path, whole->name);
	return ret;
}

/* The dtype in the properties: the first of their state, a tuple. */
static enum dtype dtype_of(const struct pickle_value *properties)
{
	const struct pickle_value *state =
	        properties && properties->kind == PICKLE_RECORD ? properties->record->state : NULL;
	const struct pickle_value *v = NULL;
	if (state && state->kind == PICKLE_TUPLE && state->n)
		v = state->items[0];
	else if (state)
		v = pickle_get(state, "dtype");
	return v && v->kind == PICKLE_GLOBAL ? torch_dtype(v->global->name, v->global->name_len)
	                                     : DTYPE_NONE;
}

static int add_tensor(struct checkpoint *c, const struct pickle_value *key, const char *name,
                      const struct pickle_value *state)
{
	const struct pickle_value *chunks = pickle_get(state, "chunks");
	struct array_info info = {.dtype = dtype_of(pickle_get(state, "properties"))};
	if (!dtype_size(info.dtype) ||
	    !torch_numbers(pickle_get(state, "size"), info.shape, &info.ndim) ||
	    array_count(&info) || !chunks || chunks->kind != PICKLE_LIST || chunks->n > PIECES_MAX)
		return malformed(c, "a tensor's type, size or pieces are unknown");
	const struct tensor whole = {.name = name,
	                             .dtype = info.dtype,
	                             .ndim = info.ndim,
	                             .shape = info.shape,
	                             .count = info.count,
	                             .bytes = array_bytes(&info)};
	struct tensor_box *boxes = err_calloc(chunks->n + 1, sizeof *boxes, "the pieces", c->err);
	int ret = boxes ? 0 : -1, n = 0;
	for (uint32_t i = 0; ret >= 0 && i < chunks->n; i++) {
		ret = offload_stopped(c->err) < 0
		              ? -1
		              : find_piece(c, key, &whole, chunks->items[i], &boxes[n]);
		n += ret == 0;
	}
	if (ret >= 0)
		ret = pieces_join(&c->spool, &whole, boxes, n, c->err);
	free(boxes);
	return ret;
}

static int add_entry(struct checkpoint *c, const struct pickle_value *key,
                     const struct pickle_value *value)
{
	const struct pickle_value *state = state_of(value, "TensorStorageMetadata");
	if (key->kind != PICKLE_TEXT || !torch_is_text(key->text, key->n))
		return malformed(c, "a tensor's name is no text");
	char *name = err_strndup(key->text, key->n, "a name", c->err);
	static const char pickled[] = "\"a pickled value\"";
	int ret = !name   ? -1
	          : state ? add_tensor(c, key, name, state)
	                  : dataset_add_value(dataset_of(c), name, pickled, sizeof pickled - 1,
	                                      c->err);
	free(name);
	return ret;
}

static int join_all(void *arg, struct err *err)
{
	struct checkpoint *c = arg;
	c->err = err;
	const struct pickle_value *state = state_of(c->pickle.root, "Metadata");
	if (!state)
		return malformed(c, "it is no Metadata of torch.distributed.checkpoint");
	const struct pickle_value *tensors = pickle_get(state, "state_dict_metadata");
	if (!tensors || tensors->kind != PICKLE_DICT)
		return malformed(c, "it has no state_dict_metadata");
	if (read_storage(c, pickle_get(state, "storage_data")))
		return -1;
	for (uint32_t i = 0; i + 1 < tensors->n; i += 2)
		if (add_entry(c, tensors->items[i], tensors->items[i + 1]))
			return -1;
	if (!dataset_of(c)->ntensors)
		return err_set(c->err, ERR_INPUT, "%s: holds no tensor", dataset_of(c)->path);
	return torch_spool_end(&c->spool, c->err);
}

int dcp_open(struct dataset *d, const struct dataset_source *source, struct err *err)
{
	struct checkpoint c = {.err = err};
	torch_spool_init(&c.spool, d, source);
	d->format = &format_dcp;
	d->joined = true;
	int ret = read_metadata(&c);
	if (ret == 0)
		ret = torch_spool_aside(&c.spool, join_all, &c, err);
	pickle_release(&c.pickle);
	free(c.bytes);
	free(c.stored);
	return ret;
}

static int open_file(struct dataset *d, const struct dataset_source *source,
                     const struct array_hints *hints, struct err *err)
{
	(void)source, (void)hints;
	return err_set(err, ERR_USAGE, "%s: is a file: a distributed checkpoint is a folder",
	               d->path);
}

const struct format format_dcp = {
        .name = "dcp",
        .number = 6,
        .written = &format_safetensors,
        .open = open_file,
        .open_set = dcp_open,
};
