/* gather --raw-file: copies a file or a folder of each rank to the root, or joins files into one.
 * See collective.h. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/path.h"
#include "lib/coll/collective.h"
#include "lib/coll/request/paths.h"

/* The root's terms have some bytes besides. */
#define GATHERED_MOST (DETAILS_MAX - 4096)

/* ---- a rank's offer ---- */

/* A file of each input. */
static int list_inputs(const struct collective *c, struct file_list *l, struct err *err)
{
	const struct transfer *t = &c->transfer;
	*l = (struct file_list){.format = &format_raw, .folder = true, .tree = true};
	if (!(l->files = err_calloc((size_t)t->ninputs + 1, sizeof *l->files, "the files", err)))
		return -1;
	for (int i = 0; i < t->ninputs; i++) {
		const struct dataset_file *f = &t->inputs[i].files[0];
		char *name = err_strdup(f->name, "a file name", err);
		if (!name)
			return -1;
		struct listed_file *of = &l->files[l->nfiles++];
		*of = files_describe(name, f->size, f->spooled ? NULL : &f->was);
		if (files_find_holes(l, of, f->fd, err) < 0)
			return -1;
	}
	return 0;
}

int gathered_begin(struct collective *c, struct err *err)
{
	struct transfer *t = &c->transfer;
	if (!t->inputs[0].tree)
		return list_inputs(c, &t->gives, err) < 0
		               ? -1
		               : vectors_of_inputs(&c->agreed, c->request, t->inputs, t->ninputs,
		                                   err);
	return files_list_tree(c, &t->gives, err) < 0
	               ? -1
	               : vectors_of_folder(&c->agreed, c->request, file_list_bytes(&t->gives, 0),
	                                   err);
}

struct rank_files gathered_offer(const struct collective *c)
{
	struct rank_files own = {.files = c->transfer.gives};
	host_name_own(own.host);
	return own;
}

int gathered_fits(const struct agreement *a, const struct rank_files *of, struct err *err)
{
	struct buf b;
	size_t files = 0;
	buf_init(&b, GATHERED_MOST);
	for (int r = 0; r < a->size; r++) {
		rank_files_put(&b, &of[r]);
		files += (size_t)of[r].files.nfiles;
	}
	const bool lacking = b.nomem, fits = !b.failed;
	buf_release(&b);
	if (lacking)
		return err_nomem(err, "the files of all ranks", GATHERED_MOST);
	if (fits)
		return 0;
	return err_set(err, ERR_RESOURCE,
	               "the names of the %zu files of all ranks do not fit a message of %u bytes: "
	               "let rank %d be the root, or gather fewer at a time (--include)",
	               files, GATHERED_MOST, a->rank);
}

int gathered_check(const struct agreement *a, struct err *err)
{
	for (int r = 0; r < a->size; r++)
		for (int i = 0; i < a->nvectors; i++)
			if (file_list_bytes(&a->rank_files[r].files, i) != a->vectors[i].rows[r])
				return err_rank(err, ERR_INTEGRITY, r,
				                "sent two sizes for one file");
	return 0;
}

int gathered_map_input(const struct collective *c, struct extents *in, struct err *err)
{
	const struct file_list *l = &c->transfer.gives;
	for (int f = 0; f < l->nfiles; f++)
		if (files_map_data(in, 0, f, &l->files[f], err) < 0)
			return -1;
	return 0;
}

/* ---- outputs ---- */

static bool any_folder(const struct agreement *a)
{
	bool any = false;
	for (int r = 0; r < a->size; r++)
		any |= rank_files_is_folder(&a->rank_files[r]);
	return any;
}

bool gathered_split(const struct collective *c, const char *path)
{
	return request_gathers_files(c->request) &&
	       (c->request->each || path_is_folder(path) || paths_vary(c->request->outputs[0]) ||
	        any_folder(&c->agreed));
}

struct rank_output {
	char *path;
	int rank;
};

static int by_path(const void *a, const void *b)
{
	const struct rank_output *x = a, *y = b;
	const int order = strcmp(x->path, y->path);
	return order ? order : x->rank - y->rank;
}

/* Folders of several ranks in one would be no rank's. */
static int check_folders(const struct collective *c, const char *name, struct err *err)
{
	const int size = c->agreed.size;
	struct rank_output *all = err_calloc((size_t)size, sizeof *all, "the outputs", err);
	int n = 0, ret = all ? 0 : -1;
	for (; ret == 0 && n < size; n++) {
		all[n] = (struct rank_output){
		        paths_fill(name, n, size, c->agreed.rank_files[n].host, err), n};
		ret = all[n].path ? 0 : -1;
	}
	if (ret == 0)
		qsort(all, (size_t)n, sizeof *all, by_path);
	for (int i = 1; ret == 0 && i < n; i++)
		if (strcmp(all[i].path, all[i - 1].path) == 0)
			ret = err_set(err, ERR_USAGE,
			              "%s: is the output of ranks %d and %d, whose folders are "
			              "not merged: put {rank} into -o",
			              all[i].path, all[i - 1].rank, all[i].rank);
	for (int i = 0; i < n; i++)
		free(all[i].path);
	free(all);
	return ret;
}

/* Add the missing parent folders of the user's @path to the sink, and @path too if it is a folder
 * (@itself). */
static int add_folders(struct collective *c, const char *path, bool itself, struct err *err)
{
	struct stat st;
	const char *end = itself ? path + strlen(path) : path_name(path);
	for (const char *p = path; p < end;) {
		p += strspn(p, "/");
		p += strcspn(p, "/");
		if (p > end || (!*p && !itself))
			break;
		char *part = err_strndup(path, (size_t)(p - path), "a path", err);
		if (!part)
			return -1;
		int ret = stat(part, &st) < 0 ? sink_add_folder(c->transfer.sink, part, err) : 0;
		free(part);
		if (ret < 0)
			return -1;
	}
	return 0;
}

/* The same of @path in the folder @top; a rank has chosen the names in it. */
static int add_folders_below(struct collective *c, const char *top, const char *path,
                             struct err *err)
{
	static const struct sink_attributes none;
	for (const char *p = path + strcspn(path, "/"); *p; p += strcspn(p, "/")) {
		char *part = err_strndup(path, (size_t)(p - path), "a path", err);
		int ret =
		        part ? sink_add_folder_below(c->transfer.sink, top, part, &none, err) : -1;
		free(part);
		if (ret < 0)
			return -1;
		p += strspn(p, "/");
	}
	return 0;
}

/* A rank's output: the user's folder @top, and the path in it from the first component with {host}
 * on; "": none has it. */
struct split_path {
	char *top, *rest;
	bool folder; /* files keep their names in it */
	bool host;   /* the host is the whole last name */
};

static void split_release(struct split_path *p)
{
	free(p->top);
	free(p->rest);
	*p = (struct split_path){0};
}

static bool ends_in_host(const char *name)
{
	static const char host[] = "{host}";
	const size_t n = path_trim(name, strlen(name)), len = sizeof host - 1;
	return n >= len && memcmp(name + n - len, host, len) == 0 &&
	       (n == len || name[n - len - 1] == '/');
}

static int split_init(struct split_path *p, const struct collective *c, const char *name, int rank,
                      struct err *err)
{
	const struct rank_files *s = &c->agreed.rank_files[rank];
	const size_t own = paths_before_host(name);
	char *head = err_strndup(name, own, "a path", err);
	*p = (struct split_path){0};
	p->top = head ? paths_fill(*head || !name[own] ? head : ".", rank, c->agreed.size, s->host,
	                           err)
	              : NULL;
	p->rest = p->top ? paths_fill(name + own, rank, c->agreed.size, s->host, err) : NULL;
	free(head);
	if (!p->rest) {
		split_release(p);
		return -1;
	}
	const bool slash = name[0] && name[strlen(name) - 1] == '/';
	p->folder = c->request->each || (*p->rest ? slash : path_is_folder(p->top));
	p->host = ends_in_host(name);
	return 0;
}

/* Is @name the base name of this user's input @i on @rank, such as "app.{rank}.log"? */
static bool is_given(const struct collective *c, const char *name, int rank, int i)
{
	const struct coll_request *r = c->request;
	struct err ignored = ERR_INIT;
	char *path = r->ninputs == c->agreed.nvectors
	                     ? paths_fill(r->inputs[i], rank, c->agreed.size,
	                                  c->agreed.rank_files[rank].host, &ignored)
	                     : NULL;
	const bool given = path && strcmp(path_name(path), name) == 0;
	free(path);
	return given;
}

/* Is the last name of the output another host's? */
static bool is_others(const struct collective *c, const struct split_path *p, int rank)
{
	const struct rank_files *all = c->agreed.rank_files;
	return p->host && strcmp(all[rank].host, all[c->agreed.rank].host) != 0;
}

/* Does only @rank know the whole name of output @i? A name that this rank's user has given to the
 * file, or to the same file of this rank, is not the other rank's choice. */
static bool names_it(const struct collective *c, const struct split_path *p, int rank, int i)
{
	const struct rank_files *own = &c->agreed.rank_files[c->agreed.rank],
	                        *theirs = &c->agreed.rank_files[rank];
	if (p->folder)
		return (rank_files_is_folder(own) ||
		        strcmp(theirs->files.files[i].name, own->files.files[i].name) != 0) &&
		       !is_given(c, theirs->files.files[i].name, rank, i);
	return is_others(c, p, rank);
}

/* Add the output for file @i of @rank. Returns its index in the sink, or -1. */
static int add_file(struct collective *c, const struct split_path *p, int rank, int i,
                    struct err *err)
{
	const struct listed_file *f = &c->agreed.rank_files[rank].files.files[i];
	const struct sink_attributes as = files_attributes(c, f);
	if (!*p->rest && !p->folder) {
		if (add_folders(c, p->top, false, err) < 0)
			return -1;
		int file = sink_add(c->transfer.sink, p->top, NULL, 0, f->bytes, err);
		if (file < 0)
			return -1;
		sink_set_attributes(c->transfer.sink, file, &as);
		sink_set_data(c->transfer.sink, file, &f->data);
		return file;
	}
	/* Not hidden: a peer's .profile is none of the user's. */
	if (p->folder && names_it(c, p, rank, i) &&
	    path_check_plain(f->name, ERR_DISAGREE, err) < 0)
		return -1;
	char *in =
	        p->folder ? path_join(p->rest, f->name, err) : err_strdup(p->rest, "a path", err);
	if (!in)
		return -1;
	int file =
	        add_folders(c, p->top, true, err) < 0 || add_folders_below(c, p->top, in, err) < 0
	                ? -1
	                : sink_add_below(c->transfer.sink, p->top, in, f->bytes, &as, err);
	if (file >= 0)
		sink_set_data(c->transfer.sink, file, &f->data);
	free(in);
	return file;
}

static int name_file(struct collective *c, const struct split_path *p, int rank, int i,
                     struct err *err)
{
	struct err why = ERR_INIT;
	int file = add_file(c, p, rank, i, &why);
	if (file < 0 && why.code == ERR_DISAGREE)
		return err_rank(err, why.code, rank, "%s", why.text);
	if (file < 0)
		return err_pass(err, &why);
	if (names_it(c, p, rank, i))
		sink_expect_none(c->transfer.sink, file, rank);
	c->transfer.split[i * c->agreed.size + rank] = file;
	return 0;
}

/* Add @rank's folder, with all that is in it. */
static int name_folder(struct collective *c, struct split_path *p, int rank, struct err *err)
{
	const struct file_list *t = &c->agreed.rank_files[rank].files;
	p->top[path_trim(p->top, strlen(p->top))] = '\0';
	p->rest[path_trim(p->rest, strlen(p->rest))] = '\0';
	if (add_folders(c, p->top, *p->rest, err) < 0 ||
	    (*p->rest && add_folders_below(c, p->top, p->rest, err) < 0))
		return -1;
	const int first = files_name_tree(c, t, rank, p->top, p->rest, err);
	if (first < 0)
		return -1;
	for (int f = first; f < sink_files(c->transfer.sink) && is_others(c, p, rank); f++)
		sink_expect_none(c->transfer.sink, f, rank);
	c->transfer.split[rank] = first;
	return 0;
}

static int name_files(struct collective *c, const struct split_path *p, int rank, struct err *err)
{
	for (int i = 0; i < c->agreed.nvectors; i++)
		if (name_file(c, p, rank, i, err) < 0)
			return -1;
	return 0;
}

int gathered_name(struct collective *c, const char *name, struct err *err)
{
	size_t n = (size_t)c->agreed.nvectors * (size_t)c->agreed.size;
	if (any_folder(&c->agreed) && check_folders(c, name, err) < 0)
		return -1;
	if (!(c->transfer.split = err_calloc(n, sizeof *c->transfer.split, "the outputs", err)))
		return -1;
	for (int r = 0; r < c->agreed.size; r++) {
		struct split_path path;
		int ret = split_init(&path, c, name, r, err);
		if (ret == 0)
			ret = rank_files_is_folder(&c->agreed.rank_files[r])
			              ? name_folder(c, &path, r, err)
			              : name_files(c, &path, r, err);
		split_release(&path);
		if (ret < 0)
			return -1;
	}
	return 0;
}

int gathered_file(const struct collective *c, int rank, int f)
{
	const int *split = c->transfer.split;
	return rank_files_is_folder(&c->agreed.rank_files[rank]) ? split[rank] + f
	                                                         : split[f * c->agreed.size + rank];
}

int gathered_map(struct collective *c, int vector, struct err *err)
{
	struct extents *out = &c->transfer.files[vector].out[0];
	const uint64_t *rows = c->agreed.vectors[vector].rows;
	for (int r = 0; r < c->agreed.size; r++) {
		const struct rank_files *of = &c->agreed.rank_files[r];
		if (!rank_files_is_folder(of) &&
		    extents_add(out, 0, gathered_file(c, r, vector), 0, rows[r], false, err) < 0)
			return -1;
		for (int f = 0; rank_files_is_folder(of) && f < of->files.nfiles; f++)
			if (files_map_data(out, 0, gathered_file(c, r, f), &of->files.files[f],
			                   err) < 0)
				return -1;
	}
	return 0;
}
