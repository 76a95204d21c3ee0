/*
 * From inputs to parts: which tensors lie in which vector, in what order, and where their bytes are
 * in the files. See collective.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd/collective.h"
#include "lib/base/path.h"

const char *item_text(const struct collective *c, const struct item *it, int k, char *buf,
                      size_t cap)
{
	const struct dataset *d = &c->inputs[c->o->each ? it->input : k];
	if (*it->tensor.name)
		snprintf(buf, cap, "%s: tensor '%s'", d->path, it->tensor.name);
	else
		snprintf(buf, cap, "%s", d->path);
	return buf;
}

/* ---- what can be reduced ---- */

/* Why @op is not for the type of @it; 0 if it is. */
static int check_item(const struct collective *c, const struct item *it, struct err *err)
{
	enum dtype d = it->tensor.dtype;
	char text[512];
	const char *exclude = *it->tensor.name ? ", or leave it out with --exclude" : "";
	item_text(c, it, 0, text, sizeof text);
	if (!dtype_has_arithmetic(d))
		return err_set(err, ERR_INPUT, "%s: %s has no arithmetic here: broadcast it%s",
		               text, dtype_name(d), exclude);
	if (!coll_reduces(c->kind) || reduce_op_defined(c->op, d))
		return 0;
	if (c->op == REDUCE_AVG && dtype_is_integer(d))
		return c->o->integers ? 0
		                      : err_set(err, ERR_USAGE,
		                                "%s: --op avg is not defined on %s: give "
		                                "--integers first, equal or round%s",
		                                text, dtype_name(d), exclude);
	return err_set(err, ERR_USAGE, "%s: --op %s is not defined on %s%s", text,
	               reduce_op_name(c->op), dtype_name(d), exclude);
}

/* The rest of a part whose type is known: which collective serves it. */
static void serve(const struct collective *c, struct part *p)
{
	bool whole = c->op == REDUCE_AVG && dtype_is_integer(p->dtype) && coll_reduces(c->kind);
	p->kind = c->kind;
	p->op = c->op;
	p->root = c->root;
	p->nin = c->o->each || c->shape == OF_BYTES ? 1 : c->ninputs;
	p->equal = p->stores_block = false;
	if (!whole || strcmp(c->o->integers, "round") == 0)
		return;
	p->equal = strcmp(c->o->integers, "equal") == 0;
	/* To be compared, all has to come, also where a block is stored. */
	p->stores_block = p->equal && c->rules->cut == CUT_ROWS;
	p->kind = c->rules->cut == CUT_ROWS && !p->equal ? COLL_SCATTER : COLL_BROADCAST;
	p->op = REDUCE_SUM;
	p->root = 0;
}

/* ---- parts ---- */

int parts_of_arrays(struct collective *c, int n, struct err *err)
{
	c->shape = OF_ARRAYS;
	c->parts = calloc((size_t)n, sizeof *c->parts);
	c->items = calloc((size_t)n, sizeof *c->items);
	if (!c->parts || !c->items)
		return err_nomem(err, "the arrays", (size_t)n * sizeof *c->parts);
	c->nparts = n;
	c->nitems = (size_t)n;
	for (int i = 0; i < n; i++) {
		struct part *p = &c->parts[i];
		c->items[i] = (struct item){.input = i, .part = i, .tensor.name = ""};
		p->items = calloc(1, sizeof *p->items);
		if (!p->items)
			return err_nomem(err, "the arrays", sizeof *p->items);
		p->items[0] = (uint32_t)i;
		p->nitems = 1;
	}
	return 0;
}

/* A part for every input or, where several are reduced locally, for all. */
static int arrays_of_inputs(struct collective *c, struct err *err)
{
	if (parts_of_arrays(c, c->o->each ? c->ninputs : 1, err) < 0)
		return -1;
	for (int i = 0; i < c->nparts; i++) {
		struct part *p = &c->parts[i];
		const struct tensor *t = &c->inputs[i].tensors[0];
		struct item *it = &c->items[i];
		if (tensor_info(t, &p->info) < 0)
			return err_set(err, ERR_INPUT, "%s: has %d dimensions, too many",
			               c->inputs[i].path, t->ndim);
		p->info.format = c->inputs[i].format;
		p->info.fortran = t->fortran;
		p->dtype = t->dtype;
		it->tensor = *t;
		if (check_item(c, it, err) < 0)
			return -1;
		serve(c, p);
	}
	return 0;
}

/* Items in canonical order: of each input with --each, else of the first, as which the others are.
 */
static int list_tensors(struct collective *c, struct err *err)
{
	int n = c->o->each ? c->ninputs : 1;
	size_t total = 0;
	for (int k = 0; k < n; k++)
		total += c->inputs[k].ntensors;
	c->items = calloc(total + 1, sizeof *c->items);
	if (!c->items)
		return err_nomem(err, "the tensors", (total + 1) * sizeof *c->items);
	for (int k = 0; k < n; k++)
		for (size_t i = 0; i < c->inputs[k].ntensors; i++) {
			struct item *it = &c->items[c->nitems++];
			*it = (struct item){
			        .tensor = c->inputs[k].tensors[i], .input = k, .index = i};
			if (check_item(c, it, err) < 0)
				return -1;
		}
	return 0;
}

/* A part for each type that occurs, in the types' order. */
static int group_by_type(struct collective *c, struct err *err)
{
	size_t count[DTYPES] = {0};
	int part_of[DTYPES];
	/* Files may hold no tensor at all: a job has one part at least, here of no element. */
	enum dtype of_none = c->op == REDUCE_AVG ? DTYPE_F32 : DTYPE_U8;
	for (size_t i = 0; i < c->nitems; i++)
		count[c->items[i].tensor.dtype]++;
	c->parts = calloc(DTYPES, sizeof *c->parts);
	if (!c->parts)
		return err_nomem(err, "the parts", DTYPES * sizeof *c->parts);
	for (int d = 0; d < DTYPES; d++) {
		if (!count[d] && (c->nitems || d != (int)of_none))
			continue;
		struct part *p = &c->parts[c->nparts];
		part_of[d] = c->nparts++;
		p->dtype = (enum dtype)d;
		p->items = calloc(count[d] + 1, sizeof *p->items);
		if (!p->items)
			return err_nomem(err, "the parts", count[d] * sizeof *p->items);
		serve(c, p);
	}
	for (size_t i = 0; i < c->nitems; i++) {
		struct item *it = &c->items[i];
		struct part *p = &c->parts[it->part = part_of[it->tensor.dtype]];
		it->at = p->info.count * dtype_size(p->dtype);
		if (__builtin_add_overflow(p->info.count, it->tensor.count, &p->info.count))
			return err_set(err, ERR_INPUT, "the inputs have too many elements");
		p->items[p->nitems++] = (uint32_t)i;
	}
	return 0;
}

static int describe_vectors(struct collective *c, struct err *err)
{
	for (int i = 0; i < c->nparts; i++) {
		struct array_info *info = &c->parts[i].info;
		*info = (struct array_info){.format = ARRAY_RAW,
		                            .dtype = c->parts[i].dtype,
		                            .ndim = 1,
		                            .shape = {info->count}};
		if (array_count(info) < 0)
			return err_set(err, ERR_INPUT, "the inputs have too many elements");
	}
	return 0;
}

/* ---- bytes ---- */

struct told_file files_describe(char *copy, uint64_t bytes, const struct stat *st)
{
	if (!st)
		return (struct told_file){.name = copy, .bytes = bytes, .mode = MODE_NONE};
	return (struct told_file){
	        .name = copy,
	        .bytes = bytes,
	        .mode = st->st_mode & (S_IRWXU | S_IRWXG | S_IRWXO),
	        .mtime = st->st_mtim.tv_sec * INT64_C(1000000000) + st->st_mtim.tv_nsec,
	};
}

static int tell_file(struct told *t, const char *name, uint64_t bytes, const struct stat *st,
                     struct err *err)
{
	if (t->folder && !t->tree && files_check_name(name, err) < 0)
		return -1;
	/* A single file goes by the name that each rank gives it. */
	char *copy = strdup(t->folder ? name : "file");
	if (!copy)
		return err_nomem(err, "a file name", strlen(name));
	t->files[t->nfiles++] = files_describe(copy, bytes, st);
	return 0;
}

static int tell_folders(struct told *t, const struct dataset *d, struct err *err)
{
	t->folders = calloc((size_t)d->nfolders + 1, sizeof *t->folders);
	if (!t->folders)
		return err_nomem(err, "the folders", (size_t)d->nfolders * sizeof *t->folders);
	for (int i = 0; i < d->nfolders; i++) {
		char *copy = strdup(d->folders[i].name);
		if (!copy)
			return err_nomem(err, "a folder", strlen(d->folders[i].name));
		t->folders[t->nfolders++] = files_describe(copy, 0, &d->folders[i].was);
	}
	return 0;
}

/* With --include or --exclude the root's files are made anew: their heads are in the sink. */
static int tell_selected(struct collective *c, struct err *err)
{
	int n = sink_files(c->sink);
	for (int f = 0; f < n; f++) {
		const char *name = path_name(sink_path(c->sink, f));
		if (tell_file(&c->told, name, sink_size(c->sink, f), NULL, err) < 0)
			return -1;
	}
	return 0;
}

static int tell_files(struct collective *c, struct err *err)
{
	for (int k = 0; k < c->ninputs; k++) {
		const struct dataset *d = &c->inputs[k];
		for (int i = 0; i < d->nfiles; i++) {
			const struct dataset_file *f = &d->files[i];
			if (!f->unpacked && tell_file(&c->told, f->name, f->size,
			                              f->spooled ? NULL : &f->was, err) < 0)
				return -1;
		}
	}
	return 0;
}

/* What the root of a broadcast has to tell of its files. */
static int bytes_of_inputs(struct collective *c, struct err *err)
{
	const struct dataset *d = &c->inputs[0];
	size_t n = 0;
	for (int k = 0; k < c->ninputs; k++)
		n += (size_t)c->inputs[k].nfiles + 1;
	c->told = (struct told){.format = d->format,
	                        .folder = c->o->each || d->sharded || d->tree,
	                        .tree = d->tree};
	c->told.files = calloc(n, sizeof *c->told.files);
	if (!c->told.files)
		return err_nomem(err, "the files", n * sizeof *c->told.files);
	if ((d->tree && tell_folders(&c->told, d, err) < 0) ||
	    (c->made ? tell_selected : tell_files)(c, err) < 0)
		return -1;
	return parts_of_told(c, err);
}

int parts_of_told(struct collective *c, struct err *err)
{
	const struct told *t = &c->told;
	size_t n = (size_t)t->nfiles;
	uint64_t at = 0;
	c->shape = OF_BYTES;
	c->parts = calloc(1, sizeof *c->parts);
	c->items = calloc(n + 1, sizeof *c->items);
	struct part *p = c->parts;
	if (p)
		p->items = calloc(n + 1, sizeof *p->items);
	if (!p || !c->items || !p->items)
		return err_nomem(err, "the files", (n + 1) * sizeof *c->items);
	for (size_t f = 0; f < n; f++) {
		struct item *it = &c->items[f];
		*it = (struct item){.at = at, .index = f};
		it->tensor = (struct tensor){.name = n > 1 ? t->files[f].name : "",
		                             .dtype = DTYPE_U8,
		                             .ndim = 1,
		                             .count = t->files[f].bytes,
		                             .bytes = t->files[f].bytes};
		it->tensor.shape = &it->tensor.count;
		p->items[p->nitems++] = (uint32_t)f;
		at += t->files[f].bytes;
	}
	c->nparts = 1;
	c->nitems = n;
	p->dtype = DTYPE_U8;
	p->info.count = at;
	serve(c, p);
	return describe_vectors(c, err);
}

/* ---- all ---- */

int parts_of_inputs(struct collective *c, struct err *err)
{
	if (c->shape == OF_BYTES)
		return bytes_of_inputs(c, err);
	if (c->shape == OF_ARRAYS)
		return arrays_of_inputs(c, err);
	if (list_tensors(c, err) < 0 || group_by_type(c, err) < 0)
		return -1;
	return describe_vectors(c, err);
}

void parts_release(struct collective *c)
{
	for (int i = 0; i < c->nparts; i++) {
		struct part *p = &c->parts[i];
		for (int k = 0; p->in && k < p->nin; k++)
			extents_release(&p->in[k]);
		for (int k = 0; p->out && k < c->copies; k++)
			extents_release(&p->out[k]);
		free(p->in);
		free(p->out);
		free(p->items);
		free(p->stats);
		digest_free(p->digest);
		terms_layout_release(&p->layout);
		free(p->rows);
		free(p->from);
		free(p->cuts);
		free(p->all_rows);
	}
	for (int i = 0; c->names && i < c->nparts; i++)
		free(c->names[i]);
	free(c->names);
	told_release(&c->told);
	free(c->parts);
	free(c->items);
	free(c->places);
	free(c->made);
}

/* ---- where the bytes are ---- */

static int map_tensors(const struct collective *c, struct part *p, int k, struct err *err)
{
	for (size_t i = 0; i < p->nitems; i++) {
		const struct item *it = &c->items[p->items[i]];
		int set = c->o->each ? it->input : k;
		const struct tensor *t = &c->inputs[set].tensors[it->index];
		if (extents_add(&p->in[k], set, t->file, t->offset, t->bytes, t->swapped, err) < 0)
			return -1;
	}
	return 0;
}

static int by_place(const void *a, const void *b)
{
	const struct place *x = &((const struct made *)a)->to, *y = &((const struct made *)b)->to;
	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	return (x->offset > y->offset) - (x->offset < y->offset);
}

/* The input of files that are made anew: of each its head, which the sink has, and the tensors that
 * lie behind it. */
static int map_selected(const struct collective *c, struct extents *in, struct err *err)
{
	size_t i = 0;
	qsort(c->made, c->nmade, sizeof *c->made, by_place);
	for (int f = 0; f < sink_files(c->sink); f++) {
		bool any = i < c->nmade && c->made[i].to.file == f;
		uint64_t head = any ? c->made[i].to.offset : sink_size(c->sink, f);
		if (extents_add(in, c->ninputs, f, 0, head, false, err) < 0)
			return -1;
		for (; i < c->nmade && c->made[i].to.file == f; i++) {
			const struct made *m = &c->made[i];
			if (extents_add(in, m->set, m->tensor->file, m->tensor->offset,
			                m->tensor->bytes, false, err) < 0)
				return -1;
		}
	}
	return 0;
}

static int map_files(const struct collective *c, struct extents *in, struct err *err)
{
	for (int k = 0; k < c->ninputs; k++) {
		const struct dataset *d = &c->inputs[k];
		for (int f = 0; f < d->nfiles; f++)
			if (!d->files[f].unpacked &&
			    extents_add(in, k, f, 0, d->files[f].size, false, err) < 0)
				return -1;
	}
	return 0;
}

int parts_map_inputs(struct collective *c, struct err *err)
{
	for (int i = 0; c->ninputs && i < c->nparts; i++) {
		struct part *p = &c->parts[i];
		p->in = calloc((size_t)p->nin + 1, sizeof *p->in);
		if (!p->in)
			return err_nomem(err, "the inputs", (size_t)p->nin * sizeof *p->in);
		int ret = 0;
		if (c->shape == OF_BYTES)
			ret = (c->made ? map_selected : map_files)(c, &p->in[0], err);
		for (int k = 0; c->shape != OF_BYTES && k < p->nin && ret == 0; k++)
			ret = map_tensors(c, p, k, err);
		if (ret < 0)
			return -1;
	}
	return 0;
}

int parts_map_outputs(struct collective *c, struct err *err)
{
	for (int i = 0; c->sink && i < c->nparts; i++) {
		struct part *p = &c->parts[i];
		p->out = calloc((size_t)c->copies + 1, sizeof *p->out);
		if (!p->out)
			return err_nomem(err, "the outputs", (size_t)c->copies * sizeof *p->out);
		if (c->split && gathered_map(c, p, i, err) < 0)
			return -1;
		for (int k = 0; !c->split && k < c->copies; k++)
			for (size_t j = 0; j < p->nitems; j++) {
				uint32_t n = p->items[j];
				const struct place *to = &c->places[(size_t)k * c->nitems + n];
				if (extents_add(&p->out[k], 0, to->file, to->offset,
				                c->items[n].tensor.bytes, false, err) < 0)
					return -1;
			}
	}
	return 0;
}
