/* gather --raw-file: copies a file of each rank to the root, as separate files or joined into one.
 * See collective.h. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/path.h"
#include "lib/coll/collective.h"
#include "lib/coll/paths.h"

/* ---- a rank's offer ---- */

int gathered_offer(const struct collective *c, struct rank_files *out, struct err *err)
{
	const struct transfer *t = &c->transfer;
	*out = (struct rank_files){.files = {.format = &format_raw, .folder = true, .tree = true}};
	if (gethostname(out->host, sizeof out->host - 1) < 0)
		out->host[0] = '\0';
	out->files.files = calloc((size_t)t->ninputs + 1, sizeof *out->files.files);
	if (!out->files.files)
		return err_nomem(err, "the files", (size_t)t->ninputs * sizeof *out->files.files);
	for (int i = 0; i < t->ninputs; i++) {
		const struct dataset_file *f = &t->inputs[i].files[0];
		char *name = strdup(f->name);
		if (!name)
			return err_nomem(err, "a file name", strlen(f->name));
		out->files.files[out->files.nfiles++] =
		        files_describe(name, f->size, f->spooled ? NULL : &f->was);
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

/* Add the missing parent folders of @path to the sink, and @path too if it is a folder (@itself).
 */
static int add_folders(struct collective *c, const char *path, bool itself, struct err *err)
{
	struct stat st;
	const char *end = itself ? path + strlen(path) : path_name(path);
	for (const char *p = path; p < end;) {
		p += strspn(p, "/");
		p += strcspn(p, "/");
		if (p > end || (!*p && !itself))
			break;
		char *part = strndup(path, (size_t)(p - path));
		if (!part)
			return err_nomem(err, "a path", strlen(path));
		int ret = stat(part, &st) < 0 ? sink_add_folder(c->transfer.sink, part, err) : 0;
		free(part);
		if (ret < 0)
			return -1;
	}
	return 0;
}

/* Add the output for file @f of a rank at @path. Returns its index in the sink, or -1. */
static int name_file(struct collective *c, const char *path, const struct listed_file *f,
                     struct err *err)
{
	const struct sink_attributes as = files_attributes(c, f);
	bool folder = c->request->each || path_is_folder(path);
	if (add_folders(c, path, folder, err) < 0)
		return -1;
	if (folder)
		return sink_add_below(c->transfer.sink, path, f->name, f->bytes, &as, err);
	int file = sink_add(c->transfer.sink, path, NULL, 0, f->bytes, err);
	if (file >= 0)
		sink_set_attributes(c->transfer.sink, file, &as);
	return file;
}

int gathered_name(struct collective *c, const char *name, struct err *err)
{
	size_t n = (size_t)c->agreed.nvectors * (size_t)c->agreed.size;
	c->transfer.split = calloc(n, sizeof *c->transfer.split);
	if (!c->transfer.split)
		return err_nomem(err, "the outputs", n * sizeof *c->transfer.split);
	for (int r = 0; r < c->agreed.size; r++) {
		const struct rank_files *s = &c->agreed.rank_files[r];
		char *path = paths_fill(name, r, c->agreed.size, s->host, err);
		int ret = path ? 0 : -1;
		for (int i = 0; ret == 0 && i < c->agreed.nvectors; i++) {
			int file = name_file(c, path, &s->files.files[i], err);
			c->transfer.split[i * c->agreed.size + r] = file;
			ret = file < 0 ? -1 : 0;
		}
		free(path);
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
