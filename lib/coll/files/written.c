#include "lib/coll/files/written.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/path.h"
#include "lib/coll/collective.h"
#include "lib/coll/request/paths.h"
#include "lib/data/files/outfile.h"
#include "lib/data/files/target.h"

/* ---- files that options name ---- */

static int refuse(const struct named_file *written, const char *what, const char *of,
                  struct err *err)
{
	return err_set(err, ERR_USAGE, "%s: %s is %s%s: give another name", written->option,
	               written->path, what, of);
}

int written_compare(const struct named_file *files, int n, struct err *err)
{
	bool any = false;
	for (int i = 0; i < n; i++)
		any |= files[i].written && files[i].path;
	if (!any) /* most commands: look up no name */
		return 0;
	struct target_id *ids =
	        err_calloc((size_t)n + 1, sizeof *ids, "the names of the files", err);
	int ret = ids ? 0 : -1;
	for (int i = 0; ret == 0 && i < n; i++)
		if (files[i].written && files[i].path && strcmp(files[i].path, "-") == 0)
			ret = err_set(err, ERR_USAGE, "%s: - is not a file: give the name of one",
			              files[i].option);
	for (int i = 0; ids && i < n; i++)
		if (files[i].path)
			target_id(&ids[i], files[i].path, true);
	for (int i = 0; ret == 0 && i < n; i++)
		for (int k = 0; ret == 0 && k < i; k++) {
			const bool last = files[i].written;
			if ((!last && !files[k].written) || !target_id_same(&ids[i], &ids[k]))
				continue;
			ret = refuse(&files[last ? i : k], "the file of ",
			             files[last ? k : i].option, err);
		}
	for (int i = 0; ids && i < n; i++)
		target_id_release(&ids[i]);
	free(ids);
	return ret;
}

#define FILES_MOST (15 + COLL_ALSO)

/* The files that this rank reads, but inputs, and those that it writes, but outputs. @tuning: the
 * old tuning file; else the new one. Returns their number. */
static int list_files(const struct coll_request *r, bool tuning, struct named_file *files)
{
	const struct job_settings *s = &r->settings;
	const struct named_file all[] = {
	        {"--tuning", tuning ? r->tuning : NULL, false},
	        {"--hostfile", s->hostfile, false},
	        {"--ticket-file", s->ticket_file, false},
	        {"--secret-file", s->secret_file, false},
	        {"--tls-cert", s->tls_cert, false},
	        {"--tls-key", s->tls_key, false},
	        {"--tls-ca", s->tls_ca, false},
	        {"--tls-crl", s->tls_crl, false},
	        {"--store-token-file", s->store_token_file, false},
	        {"--store-ca", s->store_ca, false},
	        {"--store-cert", s->store_cert, false},
	        {"--store-key", s->store_key, false},
	        {"--tuning-out", tuning ? NULL : r->tuning_out, true},
	        {"--hosts-out", r->check.hosts_out, true},
	        {"--momentum", r->momentum, true},
	};
	int n = 0;
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (all[i].path)
			files[n++] = all[i];
	for (int i = 0; i < COLL_ALSO; i++)
		if (r->also[i].path)
			files[n++] = (struct named_file){r->also[i].option, r->also[i].path, true};
	return n;
}

static bool takes_placeholders(const char *option)
{
	return strncmp(option, "--tls-", 6) == 0 || strcmp(option, "--momentum") == 0;
}

/* Replace the placeholders in names. @rank -1: it is unknown, and names that vary are left out. */
static int fill_names(struct named_file *files, int n, char *filled[], int rank, int size,
                      struct err *err)
{
	for (int i = 0; i < n; i++) {
		if (!takes_placeholders(files[i].option))
			continue;
		if (rank < 0 && paths_vary(files[i].path)) {
			files[i].path = NULL;
			continue;
		}
		files[i].path = filled[i] = paths_fill(files[i].path, rank, size, NULL, err);
		if (!filled[i])
			return -1;
	}
	return 0;
}

static void free_names(char *filled[])
{
	for (int i = 0; i < FILES_MOST; i++)
		free(filled[i]);
}

int written_check(const struct coll_request *r, struct err *err)
{
	int ret = 0;
	for (int tuning = 0; tuning < 2 && ret == 0; tuning++) {
		struct named_file files[FILES_MOST];
		char *filled[FILES_MOST] = {0};
		const int n = list_files(r, tuning, files);
		ret = fill_names(files, n, filled, -1, 1, err);
		if (ret == 0)
			ret = written_compare(files, n, err);
		free_names(filled);
	}
	return ret;
}

int written_probe(const struct coll_request *r, struct err *err)
{
	struct named_file files[FILES_MOST];
	const int n = list_files(r, false, files);
	int ret = 0;
	for (int i = 0; i < n && ret == 0; i++) {
		struct outfile f;
		bool exists;
		if (!files[i].written)
			continue;
		ret = outfile_probe(&f, files[i].path, 0, NULL, true, &exists, err);
		if (ret == 0)
			outfile_release(&f);
	}
	return ret;
}

/* ---- this rank's outputs and inputs ---- */

static bool is_output(const struct sink *sink, const struct target_id *file, const char **path)
{
	bool same = false;
	for (int i = 0; sink && i < sink_files(sink) && !same; i++) {
		struct target_id id;
		sink_id(sink, i, &id);
		same = target_id_same(&id, file);
		*path = sink_path(sink, i);
		target_id_release(&id);
	}
	return same;
}

/* The outputs must not replace what this rank reads besides inputs. */
static int check_outputs(const struct collective *c, struct err *err)
{
	struct named_file files[FILES_MOST];
	char *filled[FILES_MOST] = {0};
	const int n = list_files(c->request, true, files);
	int ret = fill_names(files, n, filled, c->agreed.rank, c->agreed.size, err);
	for (int i = 0; ret == 0 && i < n; i++) {
		struct target_id id = {.known = false};
		const char *path = NULL;
		if (!files[i].written && files[i].path)
			target_id(&id, files[i].path, true);
		if (is_output(c->transfer.sink, &id, &path))
			ret = err_set(err, ERR_USAGE,
			              "%s: is the file of %s: give the output another name", path,
			              files[i].option);
		target_id_release(&id);
	}
	free_names(filled);
	return ret;
}

static bool is_index(const struct dataset *d, const struct target_id *file)
{
	struct err ignored = ERR_INIT;
	struct target_id id = {.known = false};
	char *path =
	        d->index && d->nfiles ? path_beside(d->files[0].path, d->index, &ignored) : NULL;
	if (path)
		target_id(&id, path, true);
	const bool same = target_id_same(&id, file);
	target_id_release(&id);
	free(path);
	return same;
}

/* Does @d, which is open, have @file? */
static bool has_file(const struct dataset *d, const struct target_id *file)
{
	for (int f = 0; f < d->nfiles; f++)
		if (!d->files[f].spooled && target_is_file(file, &d->files[f].was))
			return true;
	return is_index(d, file);
}

/* Is @file one of this rank's inputs, which are open? */
static bool is_open_input(const struct collective *c, const struct target_id *file)
{
	bool is = false;
	for (int k = 0; file->exists && k < c->transfer.ninputs && !is; k++)
		is = has_file(&c->transfer.inputs[k], file);
	return is;
}

/* ---- the names of other ranks ---- */

/* Is the output @path @file? Few outputs end alike or are links, so few are looked up. */
static bool is_at(const struct target_id *file, const char *path)
{
	char text[1];
	struct target_id id;
	if (strcmp(path_name(path), file->name) != 0 && readlink(path, text, sizeof text) < 0)
		return false;
	target_id(&id, path, true);
	const bool same = target_id_same(&id, file);
	target_id_release(&id);
	return same;
}

static bool is_input_name(const struct target_id *file, const char *path)
{
	struct stat st;
	return file->exists && stat(path, &st) == 0 && target_is_file(file, &st);
}

/* Is @file the old version of --delta, or a file of it? */
static bool is_old(const struct collective *c, const struct target_id *file)
{
	const char *old = c->request->delta;
	const struct file_list *l = &c->agreed.root_files;
	struct err ignored = ERR_INIT;
	if (!old || !file->exists)
		return false;
	bool is = is_input_name(file, old);
	for (int f = 0; (l->folder || l->tree) && f < l->nfiles && !is; f++) {
		char *path = path_join(old, l->files[f].name, &ignored);
		is = path && is_at(file, path);
		free(path);
	}
	return is;
}

/* --each, and files that are gathered: the outputs in the folder @folder have the names of the
 * inputs. */
static bool is_in(const struct target_id *file, const char *folder, const struct paths *inputs)
{
	struct err ignored = ERR_INIT;
	bool same = false;
	for (int i = 0; i < inputs->n && !same; i++) {
		char *path = files_in_folder(folder, inputs->names[i], &ignored);
		same = path && is_at(file, path);
		free(path);
	}
	return same;
}

/* Output @i of another rank is the folder @folder, and has the files that this rank's has. */
static bool is_below(const struct collective *c, const struct target_id *file, int i,
                     const char *folder)
{
	const struct sink *sink = c->transfer.sink;
	struct err ignored = ERR_INIT;
	char *own =
	        paths_fill(c->request->outputs[i], c->agreed.rank, c->agreed.size, NULL, &ignored);
	const size_t len = own ? strlen(own) : 0;
	bool same = false;
	for (int f = 0; own && sink && f < sink_files(sink) && !same; f++) {
		const char *path = sink_path(sink, f);
		if (strncmp(path, own, len) != 0 || strcmp(path_name(path), file->name) != 0)
			continue;
		char *theirs = path_join(folder, path + len + strspn(path + len, "/"), &ignored);
		same = theirs && is_at(file, theirs);
		free(theirs);
	}
	free(own);
	return same;
}

/* A rank that writes nothing has no sink: the output of a set, in the folder @folder, has the
 * names of the set's files. */
static bool is_in_set(const struct collective *c, const struct target_id *file, const char *folder)
{
	struct err ignored = ERR_INIT;
	bool same = false;
	for (int k = 0; k < c->transfer.ninputs && !same; k++) {
		const struct dataset *d = &c->transfer.inputs[k];
		bool named = d->index && strcmp(d->index, file->name) == 0;
		for (int f = 0; f < d->nfiles && !named; f++)
			named = strcmp(path_name(d->files[f].path), file->name) == 0;
		if (!named)
			continue;
		char *top = c->request->each ? files_in_folder(folder, d->path, &ignored)
		                             : strdup(folder);
		char *path = top ? path_join(top, file->name, &ignored) : NULL;
		same = path && is_at(file, path);
		free(path);
		free(top);
	}
	return same;
}

/* May the output @path of another rank, with these inputs, be the folder that has @file? */
static bool is_in_folder(const struct collective *c, const struct target_id *file, int i,
                         const char *path, const struct paths *inputs)
{
	const bool keeps = c->request->each || request_gathers_files(c->request);
	return (keeps && is_in(file, path, inputs)) || is_below(c, file, i, path) ||
	       ((c->request->each || path_is_folder(path)) && is_in_set(c, file, path));
}

/* Is @file what the option's @name means on rank @rank? */
static bool is_named(const struct collective *c, const struct target_id *file, const char *name,
                     int rank)
{
	struct err ignored = ERR_INIT;
	char *path = name ? paths_fill(name, rank, c->agreed.size, NULL, &ignored) : NULL;
	const bool is = path && is_at(file, path);
	free(path);
	return is;
}

/* What @file is to rank @rank. NULL: neither an input nor an output. */
static const char *find_name(const struct collective *c, const struct target_id *file, int rank)
{
	const struct coll_request *r = c->request;
	const int size = c->agreed.size;
	struct err ignored = ERR_INIT;
	struct paths inputs;
	const char *what = NULL;
	(void)paths_expand(&inputs, r->inputs, r->ninputs, rank, size, &ignored);
	for (int i = 0; i < inputs.n && !what; i++)
		what = is_input_name(file, inputs.names[i]) ? "an input" : NULL;
	for (int i = 0; i < r->noutputs && !what; i++) {
		char *path = paths_fill(r->outputs[i], rank, size, NULL, &ignored);
		if (path && (is_at(file, path) || is_in_folder(c, file, i, path, &inputs)))
			what = "an output";
		free(path);
	}
	paths_release(&inputs);
	if (!what && is_named(c, file, r->origin, rank))
		what = "the file of --origin";
	if (!what && is_named(c, file, r->momentum, rank))
		what = "the file of --momentum";
	return what;
}

static bool any_varies(const struct coll_request *r)
{
	bool varies =
	        (r->origin && paths_vary(r->origin)) || (r->momentum && paths_vary(r->momentum));
	for (int i = 0; i < r->ninputs; i++)
		varies |= paths_vary(r->inputs[i]);
	for (int i = 0; i < r->noutputs; i++)
		varies |= paths_vary(r->outputs[i]);
	return varies;
}

static int check_also(const struct collective *c, const struct named_file *also, struct err *err)
{
	const struct coll_request *r = c->request;
	const int size = any_varies(r) ? c->agreed.size : 1;
	struct target_id id;
	const char *what = NULL, *path;
	target_id(&id, also->path, true);
	if (is_output(c->transfer.sink, &id, &path))
		what = "an output";
	else if (is_open_input(c, &id))
		what = "an input";
	else if (id.exists && has_file(&c->transfer.origin.file.data, &id))
		what = "a file of --origin";
	else if (is_old(c, &id))
		what = "a file of --delta";
	for (int k = 0; id.known && k < size && !what; k++)
		what = find_name(c, &id, k);
	target_id_release(&id);
	return what ? refuse(also, what, "", err) : 0;
}

int written_check_data(const struct collective *c, struct err *err)
{
	const struct coll_request *r = c->request;
	if (check_outputs(c, err) < 0)
		return -1;
	for (int i = 0; i < COLL_ALSO && c->life->plan.trace; i++)
		if (r->also[i].path && c->agreed.rank == job_coordinator(c->life->job) &&
		    check_also(c, &(struct named_file){r->also[i].option, r->also[i].path, true},
		               err) < 0)
			return -1;
	return 0;
}
