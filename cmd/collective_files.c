/* The inputs and outputs of a collective: opening, naming, sealing, committing. See collective.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/collective.h"
#include "cmd/paths.h"
#include "lib/base/path.h"

/* ---- inputs ---- */

static int open_input(struct collective *c, const char *name, bool raw_file, struct err *err)
{
	const struct input_source from = {.cmd = c->cmd,
	                                  .o = c->o,
	                                  .raw_file = raw_file,
	                                  .trees = raw_file && c->kind == COLL_BROADCAST &&
	                                           !c->o->each,
	                                  .job = c->job};
	if (inputs_open(&c->inputs[c->ninputs], name, &from, err) < 0)
		return -1;
	c->ninputs++;
	return 0;
}

/* Can the collective work on such an input? */
static int check_input(const struct collective *c, const struct dataset *d, struct err *err)
{
	uint64_t sum;
	const struct tensor *t = d->tensors;
	if (!dataset_is_array(d) && !c->rules->sets)
		return err_set(err, ERR_USAGE,
		               "%s: %s takes arrays: only allreduce, reduce and broadcast take "
		               "files of named tensors",
		               d->path, c->cmd->name);
	if (!dataset_is_array(d) || c->rules->cut == CUT_ELEMENTS)
		return 0;
	if (t->ndim == 0)
		return err_set(err, ERR_INPUT,
		               "%s: shape () is a single element: %s needs an axis 0 to %s along",
		               d->path, c->cmd->name, c->rules->cut == CUT_ROWS ? "cut" : "join");
	if (c->counts && (rows_sum(c->counts, c->size, &sum) < 0 || sum != t->shape[0]))
		return err_set(err, ERR_USAGE, "%s: has %llu rows, but --counts add up to %llu",
		               d->path, (unsigned long long)t->shape[0], (unsigned long long)sum);
	return 0;
}

/* Inputs that are reduced with one another have to be alike. */
static int check_alike(const struct collective *c, const struct dataset *d, struct err *err)
{
	const struct dataset *first = &c->inputs[0];
	char shape[ARRAY_SHAPE_TEXT], first_shape[ARRAY_SHAPE_TEXT];
	if (d == first || c->o->each)
		return 0;
	if (!dataset_is_array(d) || !dataset_is_array(first))
		return dataset_same(d, first, err);
	const struct tensor *t = d->tensors, *with = first->tensors;
	if (t->dtype != with->dtype)
		return err_set(err, ERR_INPUT, "%s: dtype %s differs from %s of %s", d->path,
		               dtype_name(t->dtype), dtype_name(with->dtype), first->path);
	tensor_shape_text(t, shape);
	tensor_shape_text(with, first_shape);
	if (strcmp(shape, first_shape) != 0)
		return err_set(err, ERR_INPUT, "%s: shape %s differs from %s of %s", d->path, shape,
		               first_shape, first->path);
	return 0;
}

static int take_input(struct collective *c, const char *path, struct err *err)
{
	if (open_input(c, path, c->o->raw_file, err) < 0)
		return -1;
	struct dataset *d = &c->inputs[c->ninputs - 1];
	if (inputs_select(d, c->o, err) < 0 || check_input(c, d, err) < 0)
		return -1;
	return check_alike(c, d, err);
}

/* A set that is broadcast goes with its index, which is a file like any. */
static int take_index(struct collective *c, struct err *err)
{
	const struct dataset *d = &c->inputs[0];
	if (!d->sharded || !d->index || d->selected)
		return 0;
	char *path = path_beside(d->files[0].path, d->index, err);
	int ret = path ? open_input(c, path, true, err) : -1;
	free(path);
	return ret;
}

static int make_selected(struct collective *c, struct err *err);

/* Of a broadcast: are arrays moved, or bytes? */
static int shape_broadcast(struct collective *c, struct err *err)
{
	const struct dataset *d = &c->inputs[0];
	if (!c->o->raw_file && !c->o->each && dataset_is_array(d)) {
		c->shape = OF_ARRAYS;
		return 0;
	}
	c->shape = OF_BYTES;
	bool selected = false;
	for (int k = 0; k < c->ninputs; k++) {
		selected |= c->inputs[k].selected;
		if (c->o->each && c->inputs[k].sharded)
			return err_set(err, ERR_USAGE,
			               "%s: --each takes files, not sets: broadcast it alone",
			               c->inputs[k].path);
	}
	if (selected)
		return make_selected(c, err);
	return take_index(c, err);
}

static int turn(void *ctx, struct err *err)
{
	struct collective *c = ctx;
	for (int i = 0; i < c->ninputs; i++)
		if (dataset_to_c_order(&c->inputs[i], c->o->memory / 2, err) < 0)
			return -1;
	return 0;
}

/* Turn what lies in Fortran's order. */
static int turn_inputs(struct collective *c, struct err *err)
{
	for (int k = 0; k < c->ninputs; k++)
		for (size_t i = 0; i < c->inputs[k].ntensors; i++)
			if (c->inputs[k].tensors[i].fortran)
				return job_aside(c->job, turn, c, err);
	return 0;
}

static int take_inputs(struct collective *c, const struct paths *paths, struct err *err)
{
	size_t n = (size_t)paths->n;
	if (collective_check_inputs(c, paths->n, paths->names, err) < 0)
		return -1;
	c->inputs = calloc(n + 1, sizeof *c->inputs); /* one more for an index */
	if (!c->inputs)
		return err_nomem(err, "the inputs", n * sizeof *c->inputs);
	for (size_t i = 0; i < n; i++)
		if (take_input(c, paths->names[i], err) < 0)
			return -1;
	return 0;
}

int files_open_inputs(struct collective *c, char **names, int n, struct err *err)
{
	struct paths paths;
	c->shape = c->rules->cut == CUT_ELEMENTS ? OF_TENSORS : OF_ARRAYS;
	if (!collective_reads(c))
		return 0;
	int ret = paths_expand(&paths, names, n, c->rank, c->size, err);
	if (ret == 0)
		ret = take_inputs(c, &paths, err);
	paths_release(&paths);
	if (ret < 0)
		return -1;
	if (c->kind == COLL_BROADCAST && shape_broadcast(c, err) < 0)
		return -1;
	/* What is cut into rows, or joined, lies row after row. */
	if (c->shape == OF_ARRAYS && c->kind != COLL_BROADCAST && turn_inputs(c, err) < 0)
		return -1;
	return parts_of_inputs(c, err);
}

int files_settle_order(struct collective *c, struct err *err)
{
	if (c->shape != OF_TENSORS || c->keeps_order)
		return 0;
	for (size_t i = 0; i < c->nitems; i++)
		c->items[i].tensor.fortran = false;
	return turn_inputs(c, err);
}

/* ---- outputs ---- */

/* The items of a part or an input lie together in c->items: where the first one's places are. */
static struct place *places_of(const struct collective *c, int copy, size_t item)
{
	return c->places + (size_t)copy * c->nitems + item;
}

/* The outputs of tensors: like input @k, whose items begin at @item. */
static int name_like(struct collective *c, const char *path, int copy, int k, size_t item,
                     struct err *err)
{
	return sink_add_like(c->sink, path, array_format_by_name(c->o->format), &c->inputs[k],
	                     places_of(c, copy, item), err);
}

void files_describe_array(struct collective *c, int i)
{
	const struct array_info *out = &c->parts[i].layout.out;
	struct item *it = &c->items[i];
	it->tensor = (struct tensor){.name = "",
	                             .dtype = out->dtype,
	                             .ndim = out->ndim,
	                             .shape = out->shape,
	                             .count = out->count,
	                             .bytes = array_bytes(out),
	                             .fortran = out->fortran};
}

static int name_array(struct collective *c, const char *path, int copy, int i, struct err *err)
{
	enum array_format hint = c->o->raw_file ? ARRAY_RAW : array_format_by_name(c->o->format);
	files_describe_array(c, i);
	return sink_add_array(c->sink, path, hint, &c->parts[i].layout.out,
	                      places_of(c, copy, (size_t)i), err);
}

struct sink_attributes files_attributes(const struct collective *c, const struct told_file *f)
{
	const int64_t second = 1000000000;
	int64_t ns = f->mtime % second;
	struct timespec modified = {.tv_sec = f->mtime / second - (ns < 0),
	                            .tv_nsec = ns + (ns < 0 ? second : 0)};
	const bool has = f->mode != MODE_NONE;
	return (struct sink_attributes){.has_mode = has && c->o->raw_file,
	                                .has_time = has && c->o->times,
	                                .mode = f->mode,
	                                .modified = modified};
}

/* The root's input that is file @f of its list, or NULL. */
static const struct dataset_file *told_input(const struct collective *c, int f)
{
	for (int k = 0; !c->made && k < c->ninputs; k++) {
		const struct dataset *d = &c->inputs[k];
		int n = d->nfiles - (d->nfiles && d->files[d->nfiles - 1].unpacked);
		if (f < n)
			return &d->files[f];
		f -= n;
	}
	return NULL;
}

/* If the root's output is its input, leave that file alone. */
static void leave_input(struct collective *c, int f, int file)
{
	const struct dataset_file *in = told_input(c, f);
	if (in && !in->spooled)
		sink_leave_own(c->sink, file, in->fd);
}

/* Add the root's folder with all its files and folders at @path. */
static int name_tree(struct collective *c, const char *path, struct err *err)
{
	const struct told *t = &c->told;
	for (int i = 0; i < t->nfolders; i++) {
		const struct sink_attributes as = files_attributes(c, &t->folders[i]);
		if (sink_add_folder_below(c->sink, path, t->folders[i].name, &as, err) < 0)
			return -1;
	}
	for (int f = 0; f < t->nfiles; f++) {
		const struct sink_attributes as = files_attributes(c, &t->files[f]);
		int file = sink_add_below(c->sink, path, t->files[f].name, t->files[f].bytes, &as,
		                          err);
		if (file < 0)
			return -1;
		places_of(c, 0, (size_t)f)->file = file;
		leave_input(c, f, file);
	}
	return 0;
}

/* File @f as it is, in the folder @path under @name or at @path. */
static int name_file(struct collective *c, const char *path, const char *name, int f,
                     struct err *err)
{
	const struct told *t = &c->told;
	const struct sink_attributes as = files_attributes(c, &t->files[f]);
	char *in = t->folder ? path_join(path, name, err) : strdup(path);
	if (!in)
		return err_nomem(err, "a path", strlen(path));
	enum array_format hint = c->o->raw_file ? ARRAY_RAW : array_format_by_name(c->o->format);
	int ret = t->folder ? 0 : sink_check_format(path, hint, t->format, err);
	if (ret == 0) {
		struct place *to = places_of(c, 0, (size_t)f);
		to->file = sink_add(c->sink, in, NULL, 0, t->files[f].bytes, err);
		ret = to->file < 0 ? -1 : 0;
	}
	if (ret == 0) {
		int file = places_of(c, 0, (size_t)f)->file;
		sink_set_attributes(c->sink, file, &as);
		leave_input(c, f, file);
	}
	free(in);
	return ret;
}

/* The index among the files of a set that is broadcast; NULL: it has none. */
static const char *told_index(const struct told *t)
{
	for (int f = 0; f < t->nfiles; f++)
		if (array_is_index(t->files[f].name))
			return t->files[f].name;
	return NULL;
}

/* The root's files: at @path, in the folder @path, or beside the index that it names. */
static int name_files(struct collective *c, const char *path, struct err *err)
{
	const struct told *t = &c->told;
	const char *told = told_index(t);
	const char *given = path;
	char *folder = NULL, *index = NULL;
	int ret = 0;
	if (t->tree)
		return name_tree(c, path, err);
	if (t->folder && !c->o->each)
		ret = sink_split_set(path, told, &folder, &index, err);
	if (ret == 0 && index && !told)
		ret = err_set(err, ERR_USAGE,
		              "%s: the root's set has no index: name a folder for the output",
		              path);
	if (folder)
		path = folder;
	if (ret == 0 && t->folder)
		ret = sink_add_folder(c->sink, path, err);
	for (int f = 0; ret == 0 && f < t->nfiles; f++)
		ret = name_file(c, path,
		                t->files[f].name == told && index ? index : t->files[f].name, f,
		                err);
	if (ret == 0 && folder)
		ret = sink_check_set(c->sink, given, folder, index, err);
	free(folder);
	free(index);
	return ret;
}

const char *files_name(const struct collective *c, int i)
{
	return path_name(c->inputs[i].path);
}

int files_check_name(const char *name, struct err *err)
{
	if (path_is_plain(name))
		return 0;
	return err_set(err, ERR_USAGE,
	               "%s: a hidden file can't go to the other ranks' folders: rename it", name);
}

/* A set's folder may have slashes behind it. */
char *files_in_folder(const char *folder, const char *path, struct err *err)
{
	size_t len = strlen(path);
	while (len && path[len - 1] == '/')
		len--;
	char *own = strndup(path, len), *in = NULL;
	const char *name = own ? path_name(own) : "";
	if (!own)
		err_nomem(err, "a path", len);
	else if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		err_set(err, ERR_USAGE,
		        "%s: with --each, name the folder itself: its output goes by its name",
		        path);
	else
		in = path_join(folder, name, err);
	free(own);
	return in;
}

/* Every input has its own output in the folder @path. */
static int name_each(struct collective *c, const char *path, struct err *err)
{
	size_t item = 0;
	int n = c->shape == OF_TENSORS ? c->ninputs : c->nparts;
	for (int i = 0; i < n; i++) {
		char *in = c->names ? path_join(path, c->names[i], err)
		                    : files_in_folder(path, c->inputs[i].path, err);
		if (!in)
			return -1;
		int first = sink_files(c->sink);
		int ret = c->shape == OF_TENSORS ? name_like(c, in, 0, i, item, err)
		                                 : name_array(c, in, 0, i, err);
		free(in);
		if (ret < 0)
			return -1;
		claims_drop(c, first, i);
		item += c->shape == OF_TENSORS ? c->inputs[i].ntensors : 1;
	}
	return 0;
}

static int name_output(struct collective *c, const char *path, int copy, struct err *err)
{
	if (c->shape == OF_BYTES)
		return name_files(c, path, err);
	if (c->o->each)
		return sink_add_folder(c->sink, path, err) < 0 ? -1 : name_each(c, path, err);
	return c->shape == OF_TENSORS ? name_like(c, path, copy, 0, 0, err)
	                              : name_array(c, path, copy, 0, err);
}

static int check_outputs(const struct collective *c, struct err *err)
{
	int n = c->o->noutputs, inputs = c->told.nfiles || !c->ninputs ? 1 : c->ninputs;
	if (n == 1 || (n == inputs && !c->o->each))
		return 0;
	if (c->o->each)
		return err_set(err, ERR_USAGE, "-o is given %d times: with --each, give one folder",
		               n);
	if (inputs == 1)
		return err_set(err, ERR_USAGE, "-o is given %d times: give it once", n);
	return err_set(err, ERR_USAGE,
	               "-o is given %d times: give it once, or once for each of the %d inputs", n,
	               inputs);
}

static int make_sink(struct collective *c, struct err *err)
{
	c->copies = c->o->noutputs;
	c->sink = sink_new(!c->o->no_sync, c->o->force, err);
	return c->sink ? 0 : -1;
}

/* The output of input @k of a broadcast of some of the tensors: at @path, or in that folder. */
static int make_like(struct collective *c, const char *path, int k, struct err *err)
{
	const struct dataset *d = &c->inputs[k];
	struct place *places = calloc(d->ntensors + 1, sizeof *places);
	char *in = c->o->each ? files_in_folder(path, d->path, err) : strdup(path);
	int ret = in ? 0 : -1;
	if (!places || (!in && !c->o->each))
		ret = err_nomem(err, "the tensors' places", d->ntensors * sizeof *places);
	if (ret == 0 && d->format == ARRAY_NPZ)
		ret = err_set(err, ERR_USAGE,
		              "%s: an .npz is broadcast as it is: leave --include and --exclude "
		              "out",
		              d->path);
	if (ret == 0)
		ret = sink_add_like(c->sink, in, array_format_by_name(c->o->format), d, places,
		                    err);
	for (size_t i = 0; ret == 0 && i < d->ntensors; i++)
		c->made[c->nmade++] = (struct made){places[i], k, &d->tensors[i]};
	free(places);
	free(in);
	return ret;
}

/* A broadcast of some of the tensors: the root's outputs are laid out at once, for it is their
 * bytes that all get. */
static int make_selected(struct collective *c, struct err *err)
{
	size_t total = 0;
	for (int k = 0; k < c->ninputs; k++)
		total += c->inputs[k].ntensors;
	c->made = calloc(total + 1, sizeof *c->made);
	if (!c->made)
		return err_nomem(err, "the tensors' places", total * sizeof *c->made);
	c->output = paths_fill(c->o->outputs[0], c->rank, c->size, NULL, err);
	int ret = c->output ? check_outputs(c, err) : -1;
	if (ret == 0)
		ret = make_sink(c, err);
	if (ret == 0 && c->o->each)
		ret = sink_add_folder(c->sink, c->output, err);
	for (int k = 0; ret == 0 && k < c->ninputs; k++)
		ret = make_like(c, c->output, k, err);
	return ret;
}

/* The places of the files of make_selected. */
static void place_selected(struct collective *c)
{
	for (size_t f = 0; f < c->nitems; f++)
		c->places[f] = (struct place){.file = (int)f};
	claims_drop(c, 0, 0);
}

static int name_all(struct collective *c, struct err *err)
{
	if (check_outputs(c, err) < 0 || make_sink(c, err) < 0)
		return -1;
	for (int k = 0; k < c->copies; k++) {
		char *path = paths_fill(c->o->outputs[k], c->rank, c->size, NULL, err);
		int first = sink_files(c->sink), ret = -1;
		if (path)
			ret = gathered_split(c, path) ? gathered_name(c, c->o->outputs[k], err)
			                              : name_output(c, path, k, err);
		if (ret == 0 && (!c->o->each || c->shape == OF_BYTES))
			claims_drop(c, first, k);
		if (path && c->split) {
			free(path); /* show -o as given: {rank} has many values */
			path = strdup(c->o->outputs[k]);
		}
		if (c->output)
			free(path);
		else
			c->output = path;
		if (ret < 0)
			return -1;
	}
	return 0;
}

int files_name_outputs(struct collective *c, struct err *err)
{
	size_t n = (size_t)c->o->noutputs * c->nitems + 1;
	if (!collective_writes(c))
		return 0;
	c->places = calloc(n, sizeof *c->places);
	if (!c->places)
		return err_nomem(err, "the outputs", n * sizeof *c->places);
	if (c->made)
		place_selected(c);
	else if (name_all(c, err) < 0)
		return -1;
	return parts_map_outputs(c, err);
}

int files_open_outputs(struct collective *c, struct err *err)
{
	if (!c->sink || sink_open(c->sink, err) == 0)
		return 0;
	size_t len = strlen(err->text);
	if (c->split && err->code == ERR_USAGE)
		snprintf(err->text + len, sizeof err->text - len, ": put {rank} into -o");
	return -1;
}

/* ---- the end ---- */

struct reader {
	const struct collective *c;
	const struct part *part;
	uint8_t *to;
};

static int read_piece(void *ctx, const struct extent *e, uint64_t bytes, struct err *err)
{
	struct reader *r = ctx;
	if (sink_pread(r->c->sink, e->file, r->to, bytes, e->offset, err) < 0)
		return -1;
	r->to += bytes;
	return 0;
}

static int read_back(void *ctx, void *buf, size_t bytes, uint64_t pos, struct err *err)
{
	struct reader *r = ctx;
	r->to = buf;
	return extents_visit(&r->part->out[0], pos, bytes, read_piece, r, err);
}

static int finish_digests(struct collective *c, struct err *err)
{
	const char **names = calloc(c->nitems + 1, sizeof *names);
	uint8_t(*of_part)[DIGEST_BYTES] = calloc(c->nitems + 1, sizeof *of_part);
	int ret = names && of_part ? 0 : err_nomem(err, "the digests", c->nitems * sizeof *of_part);
	for (int i = 0; ret == 0 && i < c->nparts; i++) {
		struct part *p = &c->parts[i];
		struct reader r = {.c = c, .part = p};
		ret = digest_final(p->digest, read_back, &r, of_part, err);
		for (size_t k = 0; ret == 0 && k < p->nitems; k++)
			memcpy(c->digests[p->items[k]], of_part[k], DIGEST_BYTES);
	}
	for (size_t i = 0; ret == 0 && i < c->nitems; i++)
		names[i] = c->items[i].tensor.name;
	if (ret == 0 && digest_names(names, (const uint8_t(*)[DIGEST_BYTES])c->digests, c->nitems,
	                             c->digest) < 0)
		ret = err_nomem(err, "the digest", c->nitems);
	free(names);
	free(of_part);
	return ret;
}

int files_seal(struct collective *c, struct err *err)
{
	for (int i = 0; i < c->ninputs; i++)
		if (dataset_unchanged(&c->inputs[i], err) < 0)
			return -1;
	if (!c->sink)
		return 0;
	if (finish_digests(c, err) < 0)
		return -1;
	return sink_seal(c->sink, err);
}

int files_commit(struct collective *c, struct err *err)
{
	return c->sink ? sink_commit(c->sink, err) : 0;
}

void files_release(struct collective *c)
{
	for (int i = 0; i < c->ninputs; i++)
		dataset_close(&c->inputs[i]);
	sink_free(c->sink);
	free(c->inputs);
	free(c->output);
}
