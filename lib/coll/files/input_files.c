/* The inputs of a collective: opens and checks them and maps their bytes. See collective.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "lib/base/path.h"
#include "lib/base/io.h"
#include "lib/base/text.h"
#include "lib/coll/agreement/agree_wire.h"
#include "lib/coll/collective.h"
#include "lib/coll/files/consolidated.h"
#include "lib/coll/request/paths.h"
#include "lib/data/dataset/dataset_beside.h"
#include "lib/data/files/target.h"
#include "lib/exec/budget.h"

/* ---- opening ---- */

static void note_skipped(void *ctx, const char *path, const char *why)
{
	const struct collective *c = ctx;
	coll_note(c->life, 0, "%s: %s: skipped", path, why);
}

/* All ranks that read have the same tensors: one says it. Of files each rank has its own. */
static void note_input(void *ctx, const char *text)
{
	const struct collective *c = ctx;
	const bool speaks = c->agreed.rank == 0 || request_root_offers(c->request) ||
	                    request_gathers_files(c->request);
	coll_note(c->life, speaks ? 0 : 1, "%s", text);
}

/* What a pipe holds is known only once it is read, and then it is gone. */
static int refuse_pipe(const char *name, struct err *err)
{
	const bool is_stdin = strcmp(name, "-") == 0;
	if (!dataset_is_pipe(name))
		return 0;
	return err_set(err, ERR_USAGE, "%s: --dry-run would consume it%s: name a file instead",
	               is_stdin ? "stdin" : name, is_stdin ? "" : " (it is a pipe)");
}

static struct input_source source_of(struct collective *c, bool raw_file)
{
	const struct coll_request *r = c->request;
	bool trees = raw_file && (r->kind == COLL_BROADCAST || r->kind == COLL_GATHER) && !r->each;
	return (struct input_source){.o = &r->files,
	                             .raw_file = raw_file,
	                             .heads_only = r->dry_run,
	                             .parts = r->consolidate,
	                             .links = r->links,
	                             .none = request_gathers_files(r),
	                             .memory = r->settings.memory,
	                             .job = c->life->job,
	                             .note = note_input,
	                             .skip = trees ? note_skipped : NULL,
	                             .ctx = c};
}

static int open_input(struct collective *c, const char *name, bool raw_file, struct err *err)
{
	const struct coll_request *r = c->request;
	const struct input_source from = source_of(c, raw_file);
	if (r->dry_run && refuse_pipe(name, err) < 0)
		return -1;
	if (inputs_open(&c->transfer.inputs[c->transfer.ninputs], name, &from, err) < 0)
		return -1;
	c->transfer.ninputs++;
	return 0;
}

/* --consolidate, --shard-dim: only checkpoints have pieces. */
static int check_checkpoint(const struct collective *c, const struct dataset *d, struct err *err)
{
	if (d->format == &format_safetensors || d->format->written)
		return 0;
	return err_set(
	        err, ERR_USAGE,
	        "%s: %s takes checkpoints: .safetensors files, files of torch.save, or folders "
	        "of them",
	        d->path, c->request->consolidate ? "--consolidate" : "--shard-dim");
}

/* Check that the collective accepts this input. */
static int check_input(const struct collective *c, const struct dataset *d, struct err *err)
{
	uint64_t sum;
	const struct tensor *t = d->tensors;
	if (request_moves_pieces(c->request))
		return check_checkpoint(c, d, err);
	if (d->tree)
		return 0;
	if (!dataset_is_array(d) && !coll_rules(c->request->kind)->sets)
		return err_set(err, ERR_USAGE,
		               "%s: %s takes arrays: only allreduce, reduce and broadcast take "
		               "files of named tensors",
		               d->path, c->request->command);
	if (!dataset_is_array(d) || coll_rules(c->request->kind)->cut == CUT_ELEMENTS)
		return 0;
	if (t->ndim == 0)
		return err_set(err, ERR_INPUT,
		               "%s: shape () is a single element: %s needs an axis 0 to %s along",
		               d->path, c->request->command,
		               coll_rules(c->request->kind)->cut == CUT_ROWS ? "cut" : "join");
	if (c->request->counts &&
	    (rows_sum(c->request->counts, c->request->ncounts, &sum) < 0 || sum != t->shape[0]))
		return err_set(err, ERR_USAGE, "%s: has %llu rows, but --counts add up to %llu",
		               d->path, (unsigned long long)t->shape[0], (unsigned long long)sum);
	return 0;
}

int files_check_alike(const struct dataset *d, const struct dataset *first, struct err *err)
{
	char shape[ARRAY_SHAPE_TEXT], first_shape[ARRAY_SHAPE_TEXT];
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

/* Inputs that are reduced locally must have the same tensors. */
static int check_alike(const struct collective *c, const struct dataset *d, struct err *err)
{
	const struct dataset *first = &c->transfer.inputs[0];
	if (d == first || c->request->each || c->request->consolidate)
		return 0;
	return files_check_alike(d, first, err);
}

/* Outputs of a file with other values than tensors lack these, unless they are copies of it. */
static void note_values(struct collective *c, const struct dataset *d)
{
	char text[512];
	if (!d->nvalues || (c->request->kind == COLL_BROADCAST && !d->selected))
		return;
	snprintf(text, sizeof text, "%.300s: %zu %s left out ('collctl info' lists what)", d->path,
	         d->nvalues,
	         d->nvalues == 1 ? "value that is no tensor is" : "values that are no tensors are");
	note_input(c, text);
}

/* If the input is an array in memory, read it there. */
static void find_memory(const struct coll_request *r, const char *path, struct dataset *d)
{
	for (int i = 0; i < r->narrays; i++)
		if (strcmp(r->arrays[i].path, path) == 0)
			dataset_in_memory(d, r->arrays[i].data);
}

static int take_input(struct collective *c, const char *path, struct err *err)
{
	const struct input_source from = source_of(c, c->request->files.raw_file);
	if (open_input(c, path, c->request->files.raw_file, err) < 0)
		return -1;
	struct dataset *d = &c->transfer.inputs[c->transfer.ninputs - 1];
	find_memory(c->request, path, d);
	if (inputs_select(d, &from, err) < 0 || check_input(c, d, err) < 0)
		return -1;
	note_values(c, d);
	return check_alike(c, d, err);
}

/* "config.json and 2 others" */
static void note_left(struct collective *c, const char *folder, const char *first, int n,
                      const char *how)
{
	char text[768], shown[300], others[32] = "";
	if (!n)
		return;
	if (n > 1)
		snprintf(others, sizeof others, " and %d other%s", n - 1, n > 2 ? "s" : "");
	snprintf(text, sizeof text, "%.300s: %s%s %s left out%s", folder,
	         text_escape(shown, sizeof shown, first), others, n > 1 ? "are" : "is", how);
	note_input(c, text);
}

/* Does this rank's first input have the files that go along with the tensors? */
static bool gives_files(const struct collective *c)
{
	return coll_rules(c->request->kind)->sets && c->transfer.ninputs &&
	       c->agreed.rank == (request_root_offers(c->request) ? c->agreed.root : 0);
}

static int open_beside(struct collective *c, struct dataset *d, struct err *err)
{
	struct beside b;
	int ret = beside_list(&b, d, err);
	if (ret == 0 && c->request->with_files) {
		note_left(c, b.folder, b.left, b.nleft, "");
		ret = dataset_add_beside(d, &b, err);
	} else if (ret == 0 && b.n) {
		note_left(c, b.folder, b.names[0], b.n, ": --with-files copies them");
	}
	beside_release(&b);
	return ret;
}

/* The files beside the first input's tensors. */
static int take_beside(struct collective *c, struct err *err)
{
	struct dataset *d = c->transfer.inputs;
	if (!gives_files(c) || c->request->files.raw_file || c->request->each ||
	    (!c->request->with_files && !d->sharded))
		return 0;
	return open_beside(c, d, err);
}

/* A broadcast of a set includes its index, as one more file. */
static int take_index(struct collective *c, struct err *err)
{
	const struct dataset *d = &c->transfer.inputs[0];
	if (!d->sharded || !d->index || d->selected)
		return 0;
	char *path = path_beside(d->files[0].path, d->index, err);
	int ret = path ? open_input(c, path, true, err) : -1;
	free(path);
	return ret;
}

static int not_files(const struct collective *c, const struct dataset *d, const char *why,
                     struct err *err)
{
	return err_set(err, ERR_USAGE, "%s: %s compares whole files, and this one %s", d->path,
	               request_compares(c->request), why);
}

/* Choose whether a broadcast moves arrays or bytes. @open: the inputs were open, with their index.
 */
static int choose_content(struct collective *c, bool open, struct err *err)
{
	const struct dataset *d = &c->transfer.inputs[0];
	if (!c->request->files.raw_file && !c->request->each && dataset_is_array(d)) {
		c->agreed.content = CONTENT_ARRAYS;
		return update_wanted(c)
		               ? not_files(c, d, "is broadcast as an array: give --raw-file", err)
		               : 0;
	}
	c->agreed.content = CONTENT_BYTES;
	bool selected = false;
	for (int k = 0; k < c->transfer.ninputs; k++) {
		selected |= c->transfer.inputs[k].selected;
		if (c->request->each &&
		    (c->transfer.inputs[k].sharded || c->transfer.inputs[k].joined))
			return err_set(err, ERR_USAGE,
			               "%s: --each takes files, not sets: broadcast the set "
			               "without --each",
			               c->transfer.inputs[k].path);
	}
	if (selected && update_wanted(c))
		return not_files(c, d, "is not copied byte for byte: select all tensors", err);
	if (selected)
		return files_select_outputs(c, err);
	if (d->joined && !c->request->files.raw_file)
		return err_set(err, ERR_USAGE,
		               "%s: its tensors are put together from several files: broadcast "
		               "--raw-file copies them",
		               d->path);
	return open ? 0 : take_index(c, err);
}

/* The @k-th of what this rank reads: the inputs, and what belongs to --origin; NULL: that is all.
 */
static struct dataset *read_by_this_rank(struct collective *c, int k)
{
	struct inspection *others[] = {&c->transfer.origin.file, &c->transfer.outer.file};
	if (k < c->transfer.ninputs)
		return &c->transfer.inputs[k];
	k -= c->transfer.ninputs;
	for (size_t i = 0; i < 2; i++)
		if (others[i]->open && k-- == 0)
			return &others[i]->data;
	return NULL;
}

static int turn(void *ctx, struct err *err)
{
	struct collective *c = ctx;
	struct dataset *d;
	for (int k = 0; (d = read_by_this_rank(c, k)); k++)
		if (dataset_to_c_order(d, budget_turning(c->request->settings.memory), err) < 0)
			return -1;
	return 0;
}

/* Convert the inputs from Fortran order to C order. A dry run reads no elements: it only notes the
 * new order. */
static int turn_inputs(struct collective *c, struct err *err)
{
	struct dataset *d;
	for (int k = 0; (d = read_by_this_rank(c, k)); k++)
		for (size_t i = 0; i < d->ntensors; i++) {
			if (d->tensors[i].fortran && !c->request->dry_run)
				return job_run_in_thread(c->life->job, turn, c, err);
			d->tensors[i].fortran = false;
		}
	return 0;
}

static int take_inputs(struct collective *c, const struct paths *paths, struct err *err)
{
	size_t n = (size_t)paths->n;
	if (request_check_inputs(c->request, paths->n, paths->names, err) < 0 ||
	    request_check_weights(c->request, paths->n, err) < 0)
		return -1;
	/* one more for an index */
	if (!(c->transfer.inputs =
	              err_calloc(n + 1, sizeof *c->transfer.inputs, "the inputs", err)))
		return -1;
	for (size_t i = 0; i < n; i++)
		if (take_input(c, paths->names[i], err) < 0)
			return -1;
	return 0;
}

/* As target_identity. */
static uint64_t identity_of(const struct dataset_file *f)
{
	struct err ignored = ERR_INIT;
	const int fd = dataset_file_open(f, &ignored);
	const uint64_t id = fd < 0 ? 0 : target_identity(fd);
	dataset_file_close(f, fd);
	return id;
}

uint64_t files_identity(const struct collective *c)
{
	const struct transfer *t = &c->transfer;
	XXH64_hash_t hash = 0;
	/* The root's inputs alone count, or (exchange) no result has them, or one of the replicas
	 * counts. */
	if (request_root_offers(c->request) || c->request->kind == COLL_EXCHANGE ||
	    c->request->consolidate)
		return 0;
	for (int k = 0; k < t->ninputs; k++)
		for (int i = 0; i < t->inputs[k].nfiles; i++) {
			const struct dataset_file *f = &t->inputs[k].files[i];
			if (f->unpacked)
				continue;
			if (f->spooled)
				return 0;
			/* Its file system matters once: that takes long to find. */
			const uint64_t id = hash ? (uint64_t)f->was.st_ino : identity_of(f);
			if (!id)
				return 0;
			hash = XXH3_64bits_withSeed(&id, sizeof id, hash) | 1;
		}
	return hash;
}

/* ---- vectors ---- */

struct listed_file files_describe(char *copy, uint64_t bytes, const struct stat *st)
{
	if (!st)
		return (struct listed_file){.name = copy, .bytes = bytes, .mode = MODE_NONE};
	return (struct listed_file){
	        .name = copy,
	        .bytes = bytes,
	        .mode = st->st_mode & (S_IRWXU | S_IRWXG | S_IRWXO),
	        .mtime = st->st_mtim.tv_sec * INT64_C(1000000000) + st->st_mtim.tv_nsec,
	};
}

int files_find_holes(struct file_list *l, struct listed_file *f, int fd, struct err *err)
{
	if (fd < 0)
		return 0;
	if (sparse_find(&f->data, fd, f->bytes, FILE_LIST_RANGES_MAX - l->nranges, err) < 0)
		return -1;
	l->nranges += f->data.n;
	return 0;
}

/* Add a file to the list. @fd: where to find its holes; -1: it has none. */
static int list_file(struct file_list *l, const char *name, uint64_t bytes, const struct stat *st,
                     int fd, struct err *err)
{
	if (l->folder && !l->tree && files_check_name(name, err) < 0)
		return -1;
	/* Each rank names a single file itself. */
	char *copy = err_strdup(l->folder ? name : "file", "a file name", err);
	if (!copy)
		return -1;
	struct listed_file *f = &l->files[l->nfiles++];
	*f = files_describe(copy, bytes, st);
	return files_find_holes(l, f, fd, err);
}

static int by_inode(const void *a, const void *b)
{
	const struct dataset_file *const *x = a, *const *y = b;
	const struct stat *s = &(*x)->was, *t = &(*y)->was;
	if (s->st_dev != t->st_dev)
		return s->st_dev < t->st_dev ? -1 : 1;
	if (s->st_ino != t->st_ino)
		return s->st_ino < t->st_ino ? -1 : 1;
	return (*x > *y) - (*x < *y);
}

/* Files of the folder @d that are one file are sent once, as the first of them. */
static int find_links(struct file_list *l, const struct dataset *d, struct err *err)
{
	const struct dataset_file **files =
	        err_calloc((size_t)d->nfiles + 1, sizeof *files, "the hard links", err);
	int n = 0;
	if (!files)
		return -1;
	for (int i = 0; i < d->nfiles; i++)
		if (d->files[i].was.st_nlink > 1)
			files[n++] = &d->files[i];
	qsort(files, (size_t)n, sizeof *files, by_inode);
	for (int i = 1, first = 0; i < n; i++) {
		const struct stat *s = &files[first]->was, *t = &files[i]->was;
		struct listed_file *f = &l->files[files[i] - d->files];
		if (!io_same_file(s, t)) {
			first = i;
			continue;
		}
		sparse_release(&f->data);
		f->bytes = 0;
		f->linked = true;
		f->to = (int)(files[first] - d->files);
	}
	free(files);
	return 0;
}

static int list_folders(struct file_list *l, const struct dataset *d, struct err *err)
{
	if (!(l->folders =
	              err_calloc((size_t)d->nfolders + 1, sizeof *l->folders, "the folders", err)))
		return -1;
	for (int i = 0; i < d->nfolders; i++) {
		char *copy = err_strdup(d->folders[i].name, "a folder", err);
		if (!copy)
			return -1;
		l->folders[l->nfolders++] = files_describe(copy, 0, &d->folders[i].was);
	}
	return 0;
}

static int list_symlinks(struct file_list *l, const struct dataset *d, struct err *err)
{
	if (!(l->links = err_calloc((size_t)d->nlinks + 1, sizeof *l->links, "the symbolic links",
	                            err)))
		return -1;
	for (int i = 0; i < d->nlinks; i++) {
		const struct dataset_link *from = &d->links[i];
		struct listed_file *to = &l->links[l->nlinks++];
		*to = files_describe(err_strdup(from->name, "a path", err), 0, &from->was);
		to->target = to->name ? err_strdup(from->target, "a path", err) : NULL;
		if (!to->target)
			return -1;
	}
	return 0;
}

static int list_tree(struct file_list *l, const struct dataset *d, struct err *err)
{
	return list_folders(l, d, err) < 0 ? -1 : list_symlinks(l, d, err);
}

/* With --include or --exclude the root writes new files: their headers are in the sink. */
static int list_selected(const struct collective *c, struct file_list *l, struct err *err)
{
	int n = sink_files(c->transfer.sink);
	for (int f = 0; f < n; f++) {
		const char *name = path_name(sink_path(c->transfer.sink, f));
		if (list_file(l, name, sink_size(c->transfer.sink, f), NULL, -1, err) < 0)
			return -1;
	}
	return 0;
}

static int list_files(const struct collective *c, struct file_list *l, struct err *err)
{
	for (int k = 0; k < c->transfer.ninputs; k++) {
		const struct dataset *d = &c->transfer.inputs[k];
		for (int i = 0; i < d->nfiles; i++) {
			const struct dataset_file *f = &d->files[i];
			if (!f->unpacked &&
			    list_file(l, f->name, f->size, f->spooled ? NULL : &f->was,
			              c->request->files.raw_file && !c->request->resume ? f->fd
			                                                                : -1,
			              err) < 0)
				return -1;
		}
		if (d->tree && find_links(l, d, err) < 0)
			return -1;
	}
	return 0;
}

/* Number @i of the files, then the folders, then the links. */
static const struct listed_file *listed_entry(const struct file_list *l, int i)
{
	if (i < l->nfiles)
		return &l->files[i];
	i -= l->nfiles;
	return i < l->nfolders ? &l->folders[i] : &l->links[i - l->nfolders];
}

/* Other ranks take no names that are longer. */
static int check_lengths(const struct file_list *l, const char *folder, struct err *err)
{
	size_t all = 0;
	for (int i = 0; i < l->nfiles + l->nfolders + l->nlinks; i++) {
		const struct listed_file *f = listed_entry(l, i);
		const char *name = f->name;
		const size_t n = strlen(name);
		if (n > FILE_LIST_NAME_MAX)
			return err_set(err, ERR_INPUT,
			               "%s: %.100s...%s has a path of %zu bytes in this folder: "
			               "expected at most %d",
			               folder, name, path_name(name), n, FILE_LIST_NAME_MAX);
		all += n + (f->target ? strlen(f->target) : 0);
	}
	if (all <= FILE_LIST_NAMES_MAX)
		return 0;
	return err_set(err, ERR_INPUT,
	               "%s: the names of its files have %zu bytes together: expected at most %u: "
	               "send its folders one by one",
	               folder, all, FILE_LIST_NAMES_MAX);
}

/* Files in one folder must have different names. */
static int check_names(const struct file_list *l, struct err *err)
{
	const char *twice;
	if (file_list_twice(l, &twice, err) < 0)
		return -1;
	if (!twice || !l->folder)
		return 0;
	return err_set(err, ERR_USAGE, "%s: is given as output twice: two inputs have this name",
	               twice);
}

int files_list_tree(const struct collective *c, struct file_list *l, struct err *err)
{
	const struct dataset *d = &c->transfer.inputs[0];
	*l = (struct file_list){.format = &format_raw, .folder = true, .tree = true};
	if (!(l->files = err_calloc((size_t)d->nfiles + 1, sizeof *l->files, "the files", err)))
		return -1;
	return list_tree(l, d, err) < 0 || list_files(c, l, err) < 0
	               ? -1
	               : check_lengths(l, d->path, err);
}

/* Make the vector of a broadcast's files. */
static int vectors_of_bytes(struct collective *c, struct err *err)
{
	const struct transfer *t = &c->transfer;
	const struct dataset *d = &t->inputs[0];
	struct file_list *l = &c->agreed.root_files;
	size_t n = t->sink ? (size_t)sink_files(t->sink) : 0;
	for (int k = 0; k < t->ninputs; k++)
		n += (size_t)t->inputs[k].nfiles + 1;
	*l = (struct file_list){.format = t->selected && d->format->written ? d->format->written
	                                                                    : d->format,
	                        .folder = c->request->each || d->sharded || d->tree,
	                        .tree = d->tree};
	if (!(l->files = err_calloc(n, sizeof *l->files, "the files", err)))
		return -1;
	if ((d->tree && list_tree(l, d, err) < 0) ||
	    (t->selected ? list_selected : list_files)(c, l, err) < 0 || check_names(l, err) < 0 ||
	    check_lengths(l, d->path, err) < 0)
		return -1;
	return vectors_of_files(&c->agreed, c->request, err);
}

/* At rank 0: the vector of the files beside the tensors. */
static int vector_of_beside(struct collective *c, struct err *err)
{
	const struct dataset *d = c->transfer.inputs;
	struct file_list *l = &c->agreed.beside;
	*l = (struct file_list){.format = &format_raw, .folder = true};
	if (!d->nbeside)
		return 0;
	if (!(l->files = err_calloc((size_t)d->nbeside, sizeof *l->files, "the files", err)))
		return -1;
	for (int i = d->nfiles - d->nbeside; i < d->nfiles; i++)
		if (list_file(l, d->files[i].name, d->files[i].size, &d->files[i].was, -1, err) < 0)
			return -1;
	return vectors_add_beside(&c->agreed, err);
}

static int make_vectors(struct collective *c, struct err *err)
{
	const struct transfer *t = &c->transfer;
	if (c->agreed.content == CONTENT_BYTES)
		return vectors_of_bytes(c, err);
	if (request_gathers_files(c->request))
		return gathered_begin(c, err);
	if (vectors_of_inputs(&c->agreed, c->request, t->inputs, t->ninputs, err) < 0)
		return -1;
	return vector_of_beside(c, err);
}

static int open_inputs(struct collective *c, struct err *err)
{
	struct paths paths;
	int ret = paths_expand(&paths, c->request->inputs, c->request->ninputs, c->agreed.rank,
	                       c->agreed.size, err);
	if (ret == 0)
		ret = take_inputs(c, &paths, err);
	paths_release(&paths);
	return ret < 0 || take_beside(c, err) < 0 || origin_open(c, err) < 0 ||
	                       outer_open(c, err) < 0
	               ? -1
	               : 0;
}

int files_open_inputs(struct collective *c, struct err *err)
{
	c->agreed.content = coll_rules(c->request->kind)->cut == CUT_ELEMENTS ? CONTENT_TENSORS
	                                                                      : CONTENT_ARRAYS;
	if (!agreement_reads(&c->agreed, c->request))
		return request_moves_pieces(c->request) ? consolidated_begin(c, err) : 0;
	const bool open = c->transfer.inputs; /* if the job is formed anew (task.h) */
	if (!open && open_inputs(c, err) < 0)
		return -1;
	if (c->request->kind == COLL_BROADCAST && choose_content(c, open, err) < 0)
		return -1;
	if (request_moves_pieces(c->request))
		return consolidated_offer(c, err);
	/* Dividing or joining arrays by rows needs C order. */
	if (c->agreed.content == CONTENT_ARRAYS && c->request->kind != COLL_BROADCAST &&
	    turn_inputs(c, err) < 0)
		return -1;
	return make_vectors(c, err);
}

void files_close_inputs(struct collective *c)
{
	for (int i = 0; i < c->transfer.ninputs; i++)
		dataset_close(&c->transfer.inputs[i]);
	free(c->transfer.inputs);
}

int files_settle_order(struct collective *c, struct err *err)
{
	if (c->agreed.content != CONTENT_TENSORS || c->agreed.keeps_order)
		return 0;
	return turn_inputs(c, err);
}

/* ---- places of the bytes ---- */

int files_map_tensor(struct extents *in, int set, const struct tensor *t, bool swapped,
                     struct err *err)
{
	if (!t->npieces)
		return extents_add(in, set, t->file, t->offset, t->bytes, swapped, err);
	for (int i = 0; i < t->npieces; i++)
		if (extents_add(in, set, t->pieces[i].file, t->pieces[i].offset, t->pieces[i].bytes,
		                swapped, err) < 0)
			return -1;
	return 0;
}

static int map_tensors(const struct collective *c, const struct vector *v, int input,
                       struct extents *in, struct err *err)
{
	for (size_t i = 0; i < v->ntensors; i++) {
		const struct vector_tensor *of = &c->agreed.tensors[v->tensors[i]];
		int set = c->request->each ? of->input : input;
		const struct tensor *t = &c->transfer.inputs[set].tensors[of->index];
		if (files_map_tensor(in, set, t, t->swapped, err) < 0)
			return -1;
	}
	return 0;
}

static int by_place(const void *a, const void *b)
{
	const struct selected_tensor *s = a, *t = b;
	if (s->to.file != t->to.file)
		return s->to.file < t->to.file ? -1 : 1;
	return (s->to.offset > t->to.offset) - (s->to.offset < t->to.offset);
}

/* Map the input of a broadcast of selected tensors: for each new file its header, which the sink
 * has, and the tensors that follow it. */
static int map_selected(const struct collective *c, struct extents *in, struct err *err)
{
	const struct transfer *t = &c->transfer;
	const struct selected_tensor *s = t->selected, *end = s + t->nselected;
	qsort(t->selected, t->nselected, sizeof *t->selected, by_place);
	for (int f = 0; f < sink_files(t->sink); f++) {
		bool any = s < end && s->to.file == f;
		uint64_t head = any ? s->to.offset : sink_size(t->sink, f);
		if (extents_add(in, t->ninputs, f, 0, head, false, err) < 0)
			return -1;
		for (; s < end && s->to.file == f; s++)
			if (files_map_tensor(in, s->set, s->tensor, false, err) < 0)
				return -1;
	}
	return 0;
}

struct mapping {
	struct extents *e;
	int set, file;
};

static int map_range(void *ctx, uint64_t offset, uint64_t bytes, struct err *err)
{
	const struct mapping *m = ctx;
	return extents_add(m->e, m->set, m->file, offset, bytes, false, err);
}

int files_map_data(struct extents *e, int set, int file, const struct listed_file *f,
                   struct err *err)
{
	struct mapping m = {e, set, file};
	return f->equal ? 0 : sparse_visit(&f->data, 0, f->bytes, map_range, &m, err);
}

int files_map_listed(const struct collective *c, struct extents *e, int set, int file,
                     size_t listed, uint64_t offset, struct err *err)
{
	const struct update *u = &c->transfer.update;
	const struct listed_file *f = listed < (size_t)c->agreed.root_files.nfiles
	                                      ? &c->agreed.root_files.files[listed]
	                                      : NULL;
	if (u->coded) /* what is sent is no part of a file */
		return 0;
	if (!u->run && f && f->data.sparse)
		return files_map_data(e, set, file, f, err);
	if (!u->run)
		return extents_add(e, set, file, offset, c->agreed.tensors[listed].tensor.bytes,
		                   false, err);
	for (size_t i = u->first_run[listed]; i < u->first_run[listed + 1]; i++)
		if (extents_add(e, set, file, offset + u->run[i].offset, u->run[i].bytes, false,
		                err) < 0)
			return -1;
	return 0;
}

static int map_files(const struct collective *c, struct extents *in, struct err *err)
{
	size_t listed = 0;
	for (int k = 0; k < c->transfer.ninputs; k++) {
		const struct dataset *d = &c->transfer.inputs[k];
		for (int f = 0; f < d->nfiles; f++)
			if (!d->files[f].unpacked &&
			    files_map_listed(c, in, k, f, listed++, 0, err) < 0)
				return -1;
	}
	return 0;
}

/* The files beside the tensors of rank 0's first input. */
static int map_beside(const struct collective *c, struct extents *in, struct err *err)
{
	const struct dataset *d = c->transfer.inputs;
	for (int f = d->nfiles - d->nbeside; c->agreed.rank == 0 && f < d->nfiles; f++)
		if (extents_add(in, 0, f, 0, d->files[f].size, false, err) < 0)
			return -1;
	return 0;
}

static int map_vector(struct collective *c, int i, struct err *err)
{
	const struct vector *v = &c->agreed.vectors[i];
	struct vector_files *f = &c->transfer.files[i];
	int ret = 0;
	if (!(f->in = err_calloc((size_t)v->ninputs + 1, sizeof *f->in, "the inputs", err)))
		return -1;
	if (c->agreed.content == CONTENT_PIECES)
		return consolidated_map_input(c, &f->in[0], err);
	if (c->agreed.content == CONTENT_BYTES)
		return (c->transfer.selected ? map_selected : map_files)(c, &f->in[0], err);
	if (c->transfer.gives.nfolders)
		return gathered_map_input(c, &f->in[0], err);
	if (agreement_is_beside(&c->agreed, i))
		return map_beside(c, &f->in[0], err);
	for (int k = 0; k < v->ninputs && ret == 0; k++)
		ret = map_tensors(c, v, k, &f->in[k], err);
	return ret;
}

int files_map_inputs(struct collective *c, struct err *err)
{
	for (int i = 0; c->transfer.ninputs && i < c->agreed.nvectors; i++)
		if (map_vector(c, i, err) < 0)
			return -1;
	return 0;
}
