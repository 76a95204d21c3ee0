/* The outputs of a collective: names, opens, seals and commits them. See collective.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "lib/base/entry.h"
#include "lib/base/io.h"
#include "lib/base/path.h"
#include "lib/base/text.h"
#include "lib/coll/collective.h"
#include "lib/coll/files/consolidated.h"
#include "lib/coll/files/shards.h"
#include "lib/coll/request/paths.h"
#include "lib/data/dataset/dataset_output.h"
#include "lib/data/files/beneath.h"

/* ---- outputs ---- */

/* The places of the tensors from @tensor on. The tensors of an input are consecutive in
 * agreed.tensors. */
struct place *files_place(const struct collective *c, int copy, size_t tensor)
{
	return c->transfer.places + (size_t)copy * agreement_entries(&c->agreed) + tensor;
}

/* Add an output with the layout of input @k, whose first tensor is @tensor. */
static int name_like(struct collective *c, const char *path, int copy, int k, size_t tensor,
                     struct err *err)
{
	const struct coll_request *r = c->request;
	struct dataset_output out;
	int ret = dataset_output_of(&out, &c->transfer.inputs[k], r->output_dtype, err);
	if (ret == 0 && r->max_shard)
		ret = dataset_output_cut(&out, path, r->max_shard, err);
	if (ret == 0)
		ret = sink_add_like(c->transfer.sink, path, r->files.format, &out.like,
		                    files_place(c, copy, tensor), err);
	dataset_output_release(&out);
	return ret;
}

/* The folder of the output @path, for files beside the tensors. Malloced; NULL: ERR_USAGE: it is no
 * folder. */
static char *beside_folder(const char *path, struct err *err)
{
	const struct format *format;
	const bool folder = path_is_folder(path), index = !folder && path_is_index(path);
	if (strcmp(path, "-") == 0 ||
	    (!folder && !index && format_of(path, NULL, &format, NULL) == 0)) {
		err_set(err, ERR_USAGE, "%s: --with-files: name a folder for the output", path);
		return NULL;
	}
	return index ? path_folder(path, err) : err_strdup(path, "a path", err);
}

/* If the output is the input @in, do not write it. */
static void leave_file(const struct collective *c, int file, const struct dataset_file *in)
{
	sink_leave_own(c->transfer.sink, file, &in->was, in->fd);
}

/* Add the file beside the tensors number @f to @folder. */
static int name_one_beside(struct collective *c, const char *folder, int copy, int f,
                           struct err *err)
{
	const struct listed_file *l = &c->agreed.beside.files[f];
	const struct dataset *d = c->transfer.inputs;
	char *path = path_join(folder, l->name, err);
	const int file = path ? sink_add(c->transfer.sink, path, NULL, 0, l->bytes, err) : -1;
	free(path);
	if (file < 0)
		return -1;
	files_place(c, copy, c->agreed.ntensors + (size_t)f)->file = file;
	if (c->agreed.rank == 0)
		leave_file(c, file, &d->files[d->nfiles - d->nbeside + f]);
	else
		sink_set_top(c->transfer.sink, file, strlen(folder));
	return 0;
}

static int name_beside(struct collective *c, const char *path, int copy, struct err *err)
{
	char *folder = c->request->with_files ? beside_folder(path, err) : NULL;
	int ret = folder || !c->request->with_files ? 0 : -1;
	for (int f = 0; ret == 0 && f < c->agreed.beside.nfiles; f++)
		ret = name_one_beside(c, folder, copy, f, err);
	free(folder);
	return ret;
}

/* The format that --format gives, regardless of the extension. */
static const struct format *format_hint(const struct collective *c)
{
	return c->request->files.raw_file ? &format_raw : c->request->files.format;
}

static int name_array(struct collective *c, const char *path, int copy, int i, struct err *err)
{
	const struct format *hint = format_hint(c);
	return sink_add_array(c->transfer.sink, path, hint, &c->agreed.vectors[i].layout.out,
	                      files_place(c, copy, (size_t)i), err);
}

struct sink_attributes files_attributes(const struct collective *c, const struct listed_file *f)
{
	const int64_t second = 1000000000;
	int64_t ns = f->mtime % second;
	struct timespec modified = {.tv_sec = f->mtime / second - (ns < 0),
	                            .tv_nsec = ns + (ns < 0 ? second : 0)};
	const bool has = f->mode != MODE_NONE;
	return (struct sink_attributes){.has_mode = has && c->request->files.raw_file,
	                                .has_time =
	                                        has && (c->request->times || update_takes_old(c)),
	                                .mode = f->mode,
	                                .modified = modified};
}

const struct dataset_file *files_listed_input(const struct collective *c, int f)
{
	for (int k = 0; !c->transfer.selected && k < c->transfer.ninputs; k++) {
		const struct dataset *d = &c->transfer.inputs[k];
		int n = d->nfiles - (d->nfiles && d->files[d->nfiles - 1].unpacked);
		if (f < n)
			return &d->files[f];
		f -= n;
	}
	return NULL;
}

/* If the root's output is its input, do not write that file. */
static void leave_input(struct collective *c, int f, int file)
{
	const struct dataset_file *in = files_listed_input(c, f);
	if (in && !in->spooled)
		leave_file(c, file, in);
}

/* Does this rank's user choose the names of the files in the folder, and not the root's? */
static bool names_own(const struct collective *c)
{
	return c->agreed.rank == c->agreed.root;
}

/* The first name in @files[n] that is hidden directly in the folder, or NULL. */
static const char *find_hidden(const struct listed_file *files, int n)
{
	for (int i = 0; i < n; i++)
		if (files[i].name[0] == '.')
			return files[i].name;
	return NULL;
}

/* A tree may have hidden files, such as .git, in a folder that the user names for it. Elsewhere
 * they would be more than data: a shell runs .profile in the home folder. */
static int check_hidden(const struct file_list *t, int root, const char *path, struct err *err)
{
	char shown[256];
	const char *name = find_hidden(t->files, t->nfiles);
	if (!name)
		name = find_hidden(t->folders, t->nfolders);
	if (!name)
		name = find_hidden(t->links, t->nlinks);
	if (!name || beneath_is_own(path))
		return 0;
	return err_rank(err, ERR_DISAGREE, root,
	                "'%s' is hidden, and would be written directly into '%s': name another "
	                "folder in -o",
	                text_escape(shown, sizeof shown, name), path);
}

/* @name in the folder @rest; "" is that folder. */
static char *path_in(const char *rest, const char *name, struct err *err)
{
	return *name ? path_join(rest, name, err) : err_strdup(rest, "a path", err);
}

/* Add the folder, symbolic link or file @f. Returns the index of the link or file; of a folder 0.
 */
static int name_entry(struct collective *c, const struct listed_file *f, bool folder,
                      const char *top, const char *rest, struct err *err)
{
	struct sink *sink = c->transfer.sink;
	const struct sink_attributes as = files_attributes(c, f);
	char *name = path_in(rest, f->name, err);
	const int ret = !name       ? -1
	                : folder    ? sink_add_folder_below(sink, top, name, &as, err)
	                : f->target ? sink_add_symlink_below(sink, top, name, f->target, &as, err)
	                            : sink_add_below(sink, top, name, f->bytes, &as, err);
	free(name);
	return ret;
}

int files_name_tree(struct collective *c, const struct file_list *t, int rank, const char *top,
                    const char *rest, struct err *err)
{
	const int first = sink_files(c->transfer.sink);
	char *path = path_in(top, rest, err);
	int ret = path ? check_hidden(t, rank, path, err) : -1;
	if (ret == 0 && t->nlinks && !c->request->links)
		ret = err_rank(err, ERR_INTEGRITY, rank,
		               "symbolic links in its list of files, without --links");
	free(path);
	for (int i = 0; ret == 0 && i < t->nfolders; i++)
		ret = name_entry(c, &t->folders[i], true, top, rest, err);
	for (int f = 0; ret == 0 && f < t->nfiles; f++) {
		const int file = name_entry(c, &t->files[f], false, top, rest, err);
		if (file < 0)
			return -1;
		sink_set_data(c->transfer.sink, file, &t->files[f].data);
		if (t->files[f].linked)
			sink_link(c->transfer.sink, file, first + t->files[f].to);
		if (rank == c->agreed.rank)
			leave_input(c, f, file);
	}
	for (int i = 0; ret == 0 && i < t->nlinks; i++)
		ret = name_entry(c, &t->links[i], false, top, rest, err) < 0 ? -1 : 0;
	return ret < 0 ? -1 : first;
}

/* Add a copy of the root's folder at @path. */
static int name_tree(struct collective *c, const char *path, struct err *err)
{
	const struct file_list *t = &c->agreed.root_files;
	const int first = files_name_tree(c, t, c->agreed.root, path, "", err);
	for (int f = 0; first >= 0 && f < t->nfiles; f++)
		files_place(c, 0, (size_t)f)->file = first + f;
	return first < 0 ? -1 : 0;
}

/* Add a copy of file @f as @name in the folder @path, or at @path. */
static int name_file(struct collective *c, const char *path, const char *name, int f,
                     struct err *err)
{
	const bool theirs = name == c->agreed.root_files.files[f].name && !names_own(c);
	const struct file_list *t = &c->agreed.root_files;
	const struct sink_attributes as = files_attributes(c, &t->files[f]);
	char *in = t->folder ? path_join(path, name, err) : err_strdup(path, "a path", err);
	if (!in)
		return -1;
	const struct format *hint = format_hint(c);
	int ret = t->folder ? 0 : sink_check_format(path, hint, t->format, err);
	if (ret == 0) {
		struct place *to = files_place(c, 0, (size_t)f);
		to->file = sink_add(c->transfer.sink, in, NULL, 0, t->files[f].bytes, err);
		ret = to->file < 0 ? -1 : 0;
	}
	if (ret == 0) {
		int file = files_place(c, 0, (size_t)f)->file;
		sink_set_attributes(c->transfer.sink, file, &as);
		sink_set_data(c->transfer.sink, file, &t->files[f].data);
		if (t->folder && theirs)
			sink_set_top(c->transfer.sink, file, strlen(path));
		leave_input(c, f, file);
	}
	free(in);
	return ret;
}

/* The name of the index in a broadcast set, or NULL. */
static const char *listed_index(const struct file_list *t)
{
	for (int f = 0; f < t->nfiles; f++)
		if (path_is_index(t->files[f].name))
			return t->files[f].name;
	return NULL;
}

/* Add the root's files: at @path, in the folder @path, or next to the index that @path names. */
static int name_files(struct collective *c, const char *path, struct err *err)
{
	const struct file_list *t = &c->agreed.root_files;
	const char *listed = listed_index(t);
	const char *given = path;
	char *folder = NULL, *index = NULL;
	int ret = 0;
	if (t->tree)
		return name_tree(c, path, err);
	if (t->folder && !c->request->each)
		ret = sink_split_set(path, listed, &folder, &index, err);
	if (ret == 0 && index && !listed)
		ret = err_set(err, ERR_USAGE,
		              "%s: the root's set has no index: name a folder for the output",
		              path);
	if (folder)
		path = folder;
	if (ret == 0 && t->folder)
		ret = sink_add_folder(c->transfer.sink, path, err);
	for (int f = 0; ret == 0 && f < t->nfiles; f++)
		ret = name_file(c, path,
		                t->files[f].name == listed && index ? index : t->files[f].name, f,
		                err);
	if (ret == 0 && folder)
		ret = sink_check_set(c->transfer.sink, given, folder, index, err);
	free(folder);
	free(index);
	return ret;
}

const char *files_name(const struct collective *c, int i)
{
	return path_name(c->transfer.inputs[i].path);
}

int files_check_name(const char *name, struct err *err)
{
	if (name[0] != '.')
		return path_check_plain(name, ERR_USAGE, err);
	return err_set(
	        err, ERR_USAGE,
	        "%s: a hidden file cannot be copied to the folders of other ranks: rename it",
	        name);
}

/* A set's folder may end in slashes. */
char *files_in_folder(const char *folder, const char *path, struct err *err)
{
	size_t len = strlen(path);
	while (len && path[len - 1] == '/')
		len--;
	char *own = err_strndup(path, len, "a path", err), *in = NULL;
	if (!own)
		return NULL;
	const char *name = path_name(own);
	if (!*name || entry_is_dots(name))
		err_set(err, ERR_USAGE,
		        "%s: with --each, give the folder by its name: the output has the same "
		        "name",
		        path);
	else
		in = path_join(folder, name, err);
	free(own);
	return in;
}

char *files_each_output(const char *folder, const struct dataset *d, struct err *err)
{
	char *in = files_in_folder(folder, d->path, err);
	const struct format *written = d->format->written;
	if (!in || !written)
		return in;
	const char *dot = strrchr(path_name(in), '.');
	bool cut = false;
	for (int i = 0; dot && !d->joined && d->format->suffixes[i]; i++)
		cut |= strcasecmp(dot, d->format->suffixes[i]) == 0;
	cut |= dot && !d->joined && strcmp(dot, ".bin") == 0;
	const int len = cut ? (int)(dot - in) : (int)strlen(in);
	char *out = err_asprintf("a path", err, "%.*s%s", len, in, written->suffixes[0]);
	free(in);
	return out;
}

/* Add one output per input in the folder @path. */
static int name_each(struct collective *c, const char *path, struct err *err)
{
	const struct agreement *a = &c->agreed;
	const struct dataset *inputs = c->transfer.inputs;
	bool tensors = a->content == CONTENT_TENSORS;
	int n = tensors ? c->transfer.ninputs : a->nvectors;
	size_t tensor = 0;
	for (int i = 0; i < n; i++) {
		char *in = a->names ? path_join(path, a->names[i], err)
		                    : files_each_output(path, &inputs[i], err);
		if (!in)
			return -1;
		int first = sink_files(c->transfer.sink);
		int ret = tensors ? name_like(c, in, 0, i, tensor, err)
		                  : name_array(c, in, 0, i, err);
		free(in);
		if (ret < 0)
			return -1;
		if (a->names) /* the root's */
			sink_set_top(c->transfer.sink, first, strlen(path));
		outputs_drop(c, first, i);
		tensor += tensors ? inputs[i].ntensors : 1;
	}
	return 0;
}

static int name_output(struct collective *c, const char *path, int copy, struct err *err)
{
	if (c->agreed.content == CONTENT_PIECES)
		return (c->request->have_shard_dim ? shards_name : consolidated_name)(c, path, err);
	if (c->agreed.content == CONTENT_BYTES)
		return name_files(c, path, err);
	if (!c->request->each && c->agreed.content == CONTENT_TENSORS)
		return name_like(c, path, copy, 0, 0, err) < 0 ? -1
		                                               : name_beside(c, path, copy, err);
	if (!c->request->each)
		return name_array(c, path, copy, 0, err);
	if (sink_add_folder(c->transfer.sink, path, err) < 0)
		return -1;
	return name_each(c, path, err);
}

static int check_outputs(const struct collective *c, struct err *err)
{
	bool one = c->agreed.root_files.nfiles || !c->transfer.ninputs || c->consolidated;
	int n = c->request->noutputs, inputs = one ? 1 : c->transfer.ninputs;
	if (n == 1 || (n == inputs && !c->request->each))
		return 0;
	if (c->request->each)
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
	c->transfer.copies = c->request->noutputs;
	c->transfer.sink = sink_new(!c->request->no_sync, c->request->force, err);
	if (!c->transfer.sink)
		return -1;
	sink_capture(c->transfer.sink, c->request->capture);
	if (c->request->resume)
		sink_resume(c->transfer.sink);
	if (c->request->links)
		sink_replace_symlinks(c->transfer.sink);
	return 0;
}

/* Broadcast of selected tensors: lay out the output of input @k at @path or in that folder. */
static int make_like(struct collective *c, const char *path, int k, struct err *err)
{
	const struct dataset *d = &c->transfer.inputs[k];
	struct place *places =
	        err_calloc(d->ntensors + 1, sizeof *places, "the tensors' places", err);
	char *in = c->request->each ? files_each_output(path, d, err)
	                            : err_strdup(path, "a path", err);
	int ret = places && in ? 0 : -1;
	if (ret == 0 && dataset_is_archive(d) && !d->format->written)
		ret = err_set(err, ERR_USAGE,
		              "%s: broadcast copies an .npz file byte for byte: remove --include "
		              "and --exclude",
		              d->path);
	if (ret == 0)
		ret = sink_add_like(c->transfer.sink, in, c->request->files.format, d, places, err);
	for (size_t i = 0; ret == 0 && i < d->ntensors; i++)
		c->transfer.selected[c->transfer.nselected++] =
		        (struct selected_tensor){places[i], k, &d->tensors[i]};
	free(places);
	free(in);
	return ret;
}

/* Add copies of the files beside the tensors of input 0 to the folder of the output @path. */
static int make_beside(struct collective *c, const char *path, struct err *err)
{
	struct transfer *t = &c->transfer;
	const struct dataset *d = t->inputs;
	char *folder = beside_folder(path, err);
	t->beside = err_calloc((size_t)d->nbeside + 1, sizeof *t->beside, "the files", err);
	int ret = folder && t->beside ? 0 : -1;
	for (int i = 0; ret == 0 && i < d->nbeside; i++) {
		const int from = d->nfiles - d->nbeside + i;
		char *name = path_join(folder, d->files[from].name, err);
		const int file =
		        name ? sink_add(t->sink, name, NULL, 0, d->files[from].size, err) : -1;
		t->beside[i] = (struct tensor){.file = from, .bytes = d->files[from].size};
		t->selected[t->nselected++] =
		        (struct selected_tensor){{.file = file}, 0, &t->beside[i]};
		free(name);
		ret = file < 0 ? -1 : 0;
	}
	free(folder);
	return ret;
}

int files_select_outputs(struct collective *c, struct err *err)
{
	size_t total = 0;
	for (int k = 0; k < c->transfer.ninputs; k++)
		total += c->transfer.inputs[k].ntensors + (size_t)c->transfer.inputs[k].nbeside;
	if (!(c->transfer.selected = err_calloc(total + 1, sizeof *c->transfer.selected,
	                                        "the tensors' places", err)))
		return -1;
	c->transfer.output =
	        paths_fill(c->request->outputs[0], c->agreed.rank, c->agreed.size, NULL, err);
	int ret = c->transfer.output ? check_outputs(c, err) : -1;
	if (ret == 0)
		ret = make_sink(c, err);
	if (ret == 0 && c->request->each)
		ret = sink_add_folder(c->transfer.sink, c->transfer.output, err);
	for (int k = 0; ret == 0 && k < c->transfer.ninputs; k++)
		ret = make_like(c, c->transfer.output, k, err);
	if (ret == 0 && c->request->with_files)
		ret = make_beside(c, c->transfer.output, err);
	return ret;
}

/* Set the places of the files that files_select_outputs laid out. */
static void place_selected(struct collective *c)
{
	for (size_t f = 0; f < c->agreed.ntensors; f++)
		c->transfer.places[f] = (struct place){.file = (int)f};
	outputs_drop(c, 0, 0);
}

/* Add the output that has name @k. *shown: its name in the report. */
static int name_copy(struct collective *c, int k, char **shown, struct err *err)
{
	const char *given = c->request->outputs[k];
	char *path = paths_fill(given, c->agreed.rank, c->agreed.size, NULL, err);
	int first = sink_files(c->transfer.sink);
	*shown = path;
	if (!path)
		return -1;
	int ret = gathered_split(c, path) ? gathered_name(c, given, err)
	                                  : name_output(c, path, k, err);
	if (ret == 0 && (!c->request->each || c->agreed.content == CONTENT_BYTES))
		outputs_drop(c, first, k);
	if (c->transfer.split) {
		free(path); /* as given, with placeholders, because {rank} has many values */
		*shown = strdup(given);
	}
	return ret;
}

static int name_all(struct collective *c, struct err *err)
{
	if (check_outputs(c, err) < 0 || make_sink(c, err) < 0)
		return -1;
	for (int k = 0; k < c->transfer.copies; k++) {
		char *shown;
		int ret = name_copy(c, k, &shown, err);
		if (k == 0)
			c->transfer.output = shown;
		else
			free(shown);
		if (ret < 0)
			return -1;
	}
	return 0;
}

/* Map the bytes of a vector to one of the outputs. */
static int map_copy(const struct collective *c, const struct vector *v, int copy,
                    struct extents *out, struct err *err)
{
	for (size_t i = 0; i < v->ntensors; i++) {
		const struct place *to = files_place(c, copy, v->tensors[i]);
		if (files_map_listed(c, out, 0, to->file, v->tensors[i], to->offset, err) < 0)
			return -1;
	}
	return 0;
}

int files_map_outputs(struct collective *c, struct err *err)
{
	struct transfer *t = &c->transfer;
	for (int i = 0; t->sink && i < c->agreed.nvectors; i++) {
		struct vector_files *f = &t->files[i];
		int ret = 0;
		if (!(f->out = err_calloc((size_t)t->copies + 1, sizeof *f->out, "the outputs",
		                          err)))
			return -1;
		if (t->split)
			ret = gathered_map(c, i, err);
		for (int k = 0; ret == 0 && !t->split && k < t->copies; k++)
			ret = map_copy(c, &c->agreed.vectors[i], k, &f->out[k], err);
		if (ret < 0)
			return -1;
	}
	return 0;
}

/* Refuse an output in the folder @in of the input @d. */
static int check_not_in(const struct sink *s, const struct dataset *d, const struct stat *in,
                        struct err *err)
{
	struct stat folder;
	for (int f = 0; f < sink_files(s); f++) {
		char *path = path_folder(sink_path(s, f), err);
		const bool same = path && stat(path, &folder) == 0 && io_same_file(in, &folder);
		free(path);
		if (!path)
			return -1;
		if (same)
			return err_set(err, ERR_USAGE,
			               "%s: would be read as a part of its input, %s: name another "
			               "folder",
			               sink_path(s, f), d->path);
	}
	return 0;
}

/* Refuse an output in the folder of a distributed checkpoint that is an input: it would be read
 * with it from then on. */
static int check_beside_pieces(const struct transfer *t, struct err *err)
{
	struct stat in;
	for (int k = 0; t->sink && k < t->ninputs; k++) {
		const struct dataset *d = &t->inputs[k];
		if (d->format == &format_dcp && stat(d->path, &in) == 0 &&
		    check_not_in(t->sink, d, &in, err) < 0)
			return -1;
	}
	return 0;
}

int files_name_outputs(struct collective *c, struct err *err)
{
	size_t n = (size_t)c->request->noutputs * agreement_entries(&c->agreed) + 1;
	if (!agreement_writes(&c->agreed, c->request))
		return 0;
	if (!(c->transfer.places = err_calloc(n, sizeof *c->transfer.places, "the outputs", err)))
		return -1;
	if (c->transfer.selected)
		place_selected(c);
	else if (name_all(c, err) < 0 || outer_name(c, err) < 0 ||
	         check_beside_pieces(&c->transfer, err) < 0)
		return -1;
	return 0;
}

static int open_or_check(struct collective *c, int (*fn)(struct sink *, struct err *),
                         struct err *err)
{
	if (!c->transfer.sink || fn(c->transfer.sink, err) == 0)
		return 0;
	size_t len = strlen(err->text);
	if (c->transfer.split && err->code == ERR_USAGE)
		snprintf(err->text + len, sizeof err->text - len, ": put {rank} into -o");
	return -1;
}

/* A part that cannot be used is no error. */
static void note_parts(const struct collective *c)
{
	const char *path = NULL, *why = NULL;
	const int n = c->transfer.sink ? sink_without_part(c->transfer.sink, &path, &why) : 0;
	char others[64] = "";
	if (n > 1)
		snprintf(others, sizeof others, " and %d other file%s", n - 1, n == 2 ? "" : "s");
	if (n)
		coll_note(c->life, 0, "%s%s: cannot be resumed: the part cannot be used: %s", path,
		          others, why);
}

int files_open_outputs(struct collective *c, struct err *err)
{
	if (open_or_check(c, sink_open, err) < 0)
		return -1;
	note_parts(c);
	return 0;
}

int files_check_outputs(struct collective *c, struct err *err)
{
	return open_or_check(c, sink_check, err);
}

/* ---- the end ---- */

static int check_inputs(const struct collective *c, struct err *err)
{
	for (int i = 0; i < c->transfer.ninputs; i++) {
		const struct dataset *d = &c->transfer.inputs[i];
		if (dataset_unchanged(d, err) < 0 ||
		    (d->tree && dataset_tree_unchanged(d, err) < 0))
			return -1;
	}
	return 0;
}

int files_seal(struct collective *c, struct err *err)
{
	if (check_inputs(c, err) < 0)
		return -1;
	if ((c->transfer.origin.file.open &&
	     dataset_unchanged(&c->transfer.origin.file.data, err) < 0) ||
	    (c->transfer.outer.file.open &&
	     dataset_unchanged(&c->transfer.outer.file.data, err) < 0))
		return -1;
	if (!c->transfer.sink)
		return 0;
	if (output_digests_finish(c, err) < 0 || update_finish(c, err) < 0 ||
	    gather_update_check(c, err) < 0)
		return -1;
	return sink_seal(c->transfer.sink, err);
}

int files_commit(struct collective *c, struct err *err)
{
	return c->transfer.sink ? sink_commit(c->transfer.sink, err) : 0;
}

void files_release(struct collective *c)
{
	struct transfer *t = &c->transfer;
	sink_free(t->sink);
	free(t->input_names);
	free(t->selected);
	free(t->beside);
	free(t->output);
	free(t->places);
	free(t->split);
	file_list_release(&t->gives);
}
