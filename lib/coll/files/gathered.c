/* gather --raw-file: copies a file of each rank to the root, as separate files or joined into one.
 * See collective.h. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/path.h"
#include "lib/coll/collective.h"
#include "lib/coll/request/paths.h"

/* ---- a rank's offer ---- */

int gathered_offer(const struct collective *c, struct rank_files *out, struct err *err)
{
	const struct transfer *t = &c->transfer;
	*out = (struct rank_files){.files = {.format = &format_raw, .folder = true, .tree = true}};
	host_name_own(out->host);
	if (!(out->files.files = err_calloc((size_t)t->ninputs + 1, sizeof *out->files.files,
	                                    "the files", err)))
		return -1;
	for (int i = 0; i < t->ninputs; i++) {
		const struct dataset_file *f = &t->inputs[i].files[0];
		char *name = err_strdup(f->name, "a file name", err);
		if (!name)
			return -1;
		struct listed_file *of = &out->files.files[out->files.nfiles++];
		*of = files_describe(name, f->size, f->spooled ? NULL : &f->was);
		if (files_find_holes(&out->files, of, f->fd, err) < 0)
			return -1;
	}
	return 0;
}

int gathered_check(const struct agreement *a, struct err *err)
{
	for (int r = 0; r < a->size; r++)
		for (int i = 0; i < a->nvectors; i++)
			if (a->rank_files[r].files.files[i].bytes != a->vectors[i].rows[r])
				return err_rank(err, ERR_INTEGRITY, r,
				                "sent two sizes for one file");
	return 0;
}

/* ---- outputs ---- */

bool gathered_split(const struct collective *c, const char *path)
{
	return request_gathers_files(c->request) &&
	       (c->request->each || path_is_folder(path) || paths_vary(c->request->outputs[0]));
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
	bool folder; /* the files keep their names */
	bool host;   /* the host is the whole name */
};

static void split_release(struct split_path *p)
{
	free(p->top);
	free(p->rest);
	*p = (struct split_path){0};
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
	p->host = !p->folder && strcmp(path_name(name), "{host}") == 0;
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

/* Does only @rank know the whole name of output @i? A name that this rank's user has given to the
 * file, or to the same file of this rank, is not the other rank's choice. */
static bool names_it(const struct collective *c, const struct split_path *p, int rank, int i)
{
	const struct rank_files *own = &c->agreed.rank_files[c->agreed.rank],
	                        *theirs = &c->agreed.rank_files[rank];
	if (p->folder)
		return strcmp(theirs->files.files[i].name, own->files.files[i].name) != 0 &&
		       !is_given(c, theirs->files.files[i].name, rank, i);
	return p->host && strcmp(theirs->host, own->host) != 0;
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

int gathered_name(struct collective *c, const char *name, struct err *err)
{
	size_t n = (size_t)c->agreed.nvectors * (size_t)c->agreed.size;
	if (!(c->transfer.split = err_calloc(n, sizeof *c->transfer.split, "the outputs", err)))
		return -1;
	for (int r = 0; r < c->agreed.size; r++) {
		struct split_path path;
		int ret = split_init(&path, c, name, r, err);
		for (int i = 0; ret == 0 && i < c->agreed.nvectors; i++)
			ret = name_file(c, &path, r, i, err);
		split_release(&path);
		if (ret < 0)
			return -1;
	}
	return 0;
}

int gathered_map(struct collective *c, int vector, struct err *err)
{
	struct extents *out = &c->transfer.files[vector].out[0];
	const uint64_t *rows = c->agreed.vectors[vector].rows;
	for (int r = 0; r < c->agreed.size; r++)
		if (extents_add(out, 0, c->transfer.split[vector * c->agreed.size + r], 0, rows[r],
		                false, err) < 0)
			return -1;
	return 0;
}
