/* gather --raw-file: copies a file of each rank to the root, as separate files or joined into one.
 * See collective.h. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/collective.h"
#include "cmd/paths.h"
#include "lib/base/path.h"

/* ---- what a rank sends ---- */

static int list_files(const struct collective *c, struct source *s, struct err *err)
{
	s->files = (struct told){.format = ARRAY_RAW, .folder = true, .tree = true};
	s->files.files = calloc((size_t)c->ninputs + 1, sizeof *s->files.files);
	if (!s->files.files)
		return err_nomem(err, "the files", (size_t)c->ninputs * sizeof *s->files.files);
	for (int i = 0; i < c->ninputs; i++) {
		const struct dataset_file *f = &c->inputs[i].files[0];
		char *name = strdup(f->name);
		if (!name)
			return err_nomem(err, "a file name", strlen(f->name));
		s->files.files[s->files.nfiles++] =
		        files_describe(name, f->size, f->spooled ? NULL : &f->was);
	}
	return 0;
}

int gathered_tell(struct collective *c, struct buf *b, struct err *err)
{
	struct source s = {0};
	if (gethostname(s.host, sizeof s.host - 1) < 0)
		s.host[0] = '\0';
	int ret = list_files(c, &s, err);
	if (ret == 0)
		details_put_source(b, &s);
	source_release(&s);
	return ret;
}

/* ---- on its way to the root ---- */

int gathered_note(struct collective *c, int rank, struct view *v, struct err *err)
{
	const uint8_t *from = v->p;
	struct source s;
	if (!c->sources_told)
		c->sources_told = calloc((size_t)c->size, sizeof *c->sources_told);
	if (!c->sources_told)
		return err_nomem(err, "the ranks' files",
		                 (size_t)c->size * sizeof *c->sources_told);
	if (details_get_source(v, &s, c->nparts, err) < 0)
		return -1;
	source_release(&s);
	c->sources_told[rank] = view_of(from, (size_t)(v->p - from));
	return 0;
}

void gathered_put(const struct collective *c, struct buf *b)
{
	for (int r = 0; r < c->size; r++)
		buf_put(b, c->sources_told[r].p, view_left(&c->sources_told[r]));
}

int gathered_hear(struct collective *c, struct view *v, struct err *err)
{
	c->sources = calloc((size_t)c->size, sizeof *c->sources);
	if (!c->sources)
		return err_nomem(err, "the ranks' files", (size_t)c->size * sizeof *c->sources);
	for (int r = 0; r < c->size; r++) {
		const struct told *t = &c->sources[r].files;
		if (details_get_source(v, &c->sources[r], c->nparts, err) < 0)
			return -1;
		for (int i = 0; i < c->nparts; i++)
			if (t->files[i].bytes != c->parts[i].rows[r])
				return err_rank(err, ERR_INTEGRITY, r,
				                "sent two sizes for one file");
	}
	return 0;
}

/* ---- outputs ---- */

bool gathered_split(const struct collective *c, const char *path)
{
	return collective_collects(c) &&
	       (c->o->each || array_is_folder(path) || paths_vary(c->o->outputs[0]));
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
		int ret = stat(part, &st) < 0 ? sink_add_folder(c->sink, part, err) : 0;
		free(part);
		if (ret < 0)
			return -1;
	}
	return 0;
}

/* Add the output for file @f of a rank at @path. Returns its index in the sink, or -1. */
static int name_file(struct collective *c, const char *path, const struct told_file *f,
                     struct err *err)
{
	const struct sink_attributes as = files_attributes(c, f);
	bool folder = c->o->each || array_is_folder(path);
	if (add_folders(c, path, folder, err) < 0)
		return -1;
	if (folder)
		return sink_add_below(c->sink, path, f->name, f->bytes, &as, err);
	int file = sink_add(c->sink, path, NULL, 0, f->bytes, err);
	if (file >= 0)
		sink_set_attributes(c->sink, file, &as);
	return file;
}

int gathered_name(struct collective *c, const char *name, struct err *err)
{
	size_t n = (size_t)c->nparts * (size_t)c->size;
	c->split = calloc(n, sizeof *c->split);
	if (!c->split)
		return err_nomem(err, "the outputs", n * sizeof *c->split);
	for (int r = 0; r < c->size; r++) {
		const struct source *s = &c->sources[r];
		char *path = paths_fill(name, r, c->size, s->host, err);
		int ret = path ? 0 : -1;
		for (int i = 0; ret == 0 && i < c->nparts; i++) {
			int file = name_file(c, path, &s->files.files[i], err);
			c->split[i * c->size + r] = file;
			ret = file < 0 ? -1 : 0;
		}
		free(path);
		if (ret < 0)
			return -1;
	}
	for (int i = 0; i < c->nparts; i++)
		files_describe_array(c, i);
	return 0;
}

int gathered_map(const struct collective *c, struct part *p, int part, struct err *err)
{
	for (int r = 0; r < c->size; r++)
		if (extents_add(&p->out[0], 0, c->split[part * c->size + r], 0, p->rows[r], false,
		                err) < 0)
			return -1;
	return 0;
}

void gathered_release(struct collective *c)
{
	for (int r = 0; c->sources && r < c->size; r++)
		source_release(&c->sources[r]);
	free(c->sources);
	free(c->sources_told);
	free(c->split);
}
