#include "lib/coll/files/deletes.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/fields.h"
#include "lib/base/io.h"
#include "lib/base/path_pattern.h"
#include "lib/coll/collective.h"
#include "lib/data/files/beneath.h"
#include "lib/data/files/target.h"

/* ---- the rounds ---- */

/* One for the folders; in the other all wait until all have walked theirs, because a rank that
 * connects does not wait long. */
#define ROUNDS 2

bool deletes_exchanges(const struct collective *c)
{
	return c->request->deletes && c->agreed.size > 1 &&
	       c->transfer.deletes.told < ROUNDS * c->agreed.ncame;
}

static int make_outputs(struct collective *c, struct err *err)
{
	struct deletes *d = &c->transfer.deletes;
	if (!d->outputs)
		d->outputs = err_calloc((size_t)c->agreed.size, sizeof *d->outputs,
		                        "the folders of the ranks", err);
	return d->outputs ? 0 : -1;
}

int deletes_take(struct collective *c, int rank, struct view part, struct err *err)
{
	struct deletes *d = &c->transfer.deletes;
	if (d->told >= c->agreed.ncame)
		return view_left(&part) ? malformed(err, "ROUND", "folders") : 0;
	if (make_outputs(c, err) < 0)
		return -1;
	d->outputs[rank] = view_u64(&part);
	const uint64_t input = view_u64(&part);
	if (part.failed || view_left(&part))
		return malformed(err, "ROUND", "folders");
	if (rank == c->agreed.root)
		d->input = input;
	return 0;
}

void deletes_answer(struct collective *c, struct buf *out)
{
	struct deletes *d = &c->transfer.deletes;
	if (d->told++ >= c->agreed.ncame)
		return;
	buf_put_u64(out, d->input);
	for (int r = 0; r < c->agreed.size; r++)
		buf_put_u64(out, d->outputs[r]);
}

static uint64_t identity_of(const char *path)
{
	const int fd = io_retry(open(path, O_PATH | O_DIRECTORY | O_CLOEXEC));
	const uint64_t id = fd < 0 ? 0 : target_identity(fd);
	if (fd >= 0)
		close(fd);
	return id;
}

static int exchange(struct collective *c, struct err *err)
{
	struct deletes *d = &c->transfer.deletes;
	struct view answer;
	struct buf b;
	if (make_outputs(c, err) < 0)
		return -1;
	buf_init(&b, JOB_ROUND_MAX);
	buf_put_u64(&b, d->own);
	buf_put_u64(&b, d->input);
	if (coll_await_round(c->life, &b, "the folders of the ranks", &answer, err) < 0)
		return -1;
	d->input = view_u64(&answer);
	for (int r = 0; r < c->agreed.size; r++)
		d->outputs[r] = view_u64(&answer);
	return answer.failed || view_left(&answer) ? malformed(err, "ANSWER", "folders") : 0;
}

/* ---- what is removed ---- */

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int list_names(struct collective *c, struct err *err)
{
	const struct file_list *l = &c->agreed.root_files;
	struct deletes *d = &c->transfer.deletes;
	const size_t n = (size_t)l->nfiles + (size_t)l->nfolders + (size_t)l->nlinks + 1;
	if (!(d->names = err_calloc(n, sizeof *d->names, "the names of the files", err)))
		return -1;
	for (int f = 0; f < l->nfiles; f++)
		d->names[d->nnames++] = l->files[f].name;
	for (int f = 0; f < l->nfolders; f++)
		d->names[d->nnames++] = l->folders[f].name;
	for (int f = 0; f < l->nlinks; f++)
		d->names[d->nnames++] = l->links[f].name;
	qsort(d->names, d->nnames, sizeof *d->names, by_name);
	return 0;
}

static bool is_listed(void *ctx, const char *path)
{
	const struct deletes *d = &((const struct collective *)ctx)->transfer.deletes;
	return bsearch(&path, d->names, d->nnames, sizeof *d->names, by_name) != NULL;
}

static bool is_shut(void *ctx, const char *path)
{
	const struct input_options *o = &((const struct collective *)ctx)->request->files;
	return path_matches_any(o->exclude, o->nexclude, path, true, NULL);
}

static bool is_protected(void *ctx, const char *path, bool folder)
{
	const struct input_options *o = &((const struct collective *)ctx)->request->files;
	return path_matches_any(o->exclude, o->nexclude, path, folder, NULL) ||
	       (o->ninclude && !path_matches_any(o->include, o->ninclude, path, folder, NULL));
}

/* Is the folder @id the root's input, or one that another rank writes and this rank does not? Ranks
 * of one folder write the same to it. */
static bool is_others(const struct collective *c, uint64_t id)
{
	const struct deletes *d = &c->transfer.deletes;
	for (int r = 0; id && id != d->own && d->outputs && r < c->agreed.size; r++)
		if (d->outputs[r] == id)
			return true;
	return false;
}

static bool may_enter(void *ctx, int fd)
{
	const struct collective *c = ctx;
	const uint64_t id = target_identity(fd);
	return id && id != c->transfer.deletes.input && !is_others(c, id);
}

/* Is this rank's folder @path below one that another rank writes? */
static bool is_below_others(const struct collective *c, const char *path)
{
	uint64_t id = 0, below;
	int fd = io_retry(open(path, O_PATH | O_DIRECTORY | O_CLOEXEC));
	bool is = false;
	do {
		below = id;
		id = fd < 0 ? 0 : target_identity(fd);
		is = is || is_others(c, id);
		const int up =
		        id && id != below
		                ? io_retry(openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC))
		                : -1;
		if (fd >= 0)
			close(fd);
		fd = up;
	} while (fd >= 0 && !is);
	if (fd >= 0)
		close(fd);
	return is;
}

static int check(const struct collective *c, const char *path, struct err *err)
{
	const struct file_list *l = &c->agreed.root_files;
	if (!l->tree)
		return err_rank(err, ERR_USAGE, c->agreed.root,
		                "--delete: the input is a file: name a folder, or remove it");
	if (!l->nfiles && !l->nlinks && !c->request->force)
		return err_rank(err, ERR_USAGE, c->agreed.root,
		                "--delete: the input has no files, so all of the copies would be "
		                "deleted: check its name, or give --force");
	if (!beneath_is_own(path))
		return err_set(err, ERR_USAGE,
		               "%s: --delete does not delete in '.', '..', '/' or the home folder: "
		               "name the folder",
		               path);
	return target_check_folder(path, err);
}

static bool writes(const struct collective *c)
{
	return !(c->agreed.dropped && c->agreed.nclaims && c->agreed.dropped[0]);
}

struct finding {
	struct collective *c;
	bool ended;
};

static int find(void *ctx, struct err *err)
{
	struct finding *f = ctx;
	const struct extra_rules rules = {is_listed, is_protected,         is_shut,
	                                  may_enter, f->c->request->links, f->c};
	return extras_find(&f->c->transfer.deletes.extras, f->c->transfer.output, &rules, &f->ended,
	                   err);
}

static int find_extras(struct collective *c, const char *path, struct err *err)
{
	struct finding finding = {c, is_below_others(c, path)};
	if (!writes(c))
		return 0;
	if (!finding.ended && job_run_in_thread(c->life->job, find, &finding, err) < 0)
		return -1;
	if (finding.ended)
		coll_note(c->life, 0,
		          "%s: nothing is deleted: it is or holds the root's folder, or overlaps "
		          "another rank's output",
		          path);
	return 0;
}

static int await_all(struct collective *c, struct err *err)
{
	struct buf none;
	buf_init(&none, 0);
	return coll_await_round(c->life, &none, "a round", NULL, err);
}

int deletes_find(struct collective *c, struct err *err)
{
	struct deletes *d = &c->transfer.deletes;
	const char *path = c->transfer.output;
	const bool alone = c->agreed.size == 1;
	if (!c->request->deletes)
		return 0;
	if (check(c, path, err) < 0)
		return -1;
	d->own = identity_of(path);
	if (collective_is_root(c))
		d->input = identity_of(c->transfer.inputs[0].path);
	if ((!alone && exchange(c, err) < 0) || list_names(c, err) < 0 ||
	    find_extras(c, path, err) < 0)
		return -1;
	return alone ? 0 : await_all(c, err);
}

/* ---- the end ---- */

int deletes_remove(struct collective *c, struct err *err)
{
	struct extras *x = &c->transfer.deletes.extras;
	if (!c->request->deletes)
		return 0;
	extras_remove(x);
	if (!x->failed)
		return 0;
	return err_set(err, ERR_OUTPUT, "%s/%s: cannot delete: %s; %zu of %zu were not deleted",
	               c->transfer.output, x->failures[0].path, strerror(x->failures[0].error),
	               x->failed, x->n);
}

void deletes_note(const struct collective *c)
{
	const struct extras *x = &c->transfer.deletes.extras;
	const size_t most = sizeof x->failures / sizeof *x->failures;
	for (size_t i = 0; i < x->failed && i < most; i++)
		coll_note(c->life, 0, "%s: %s: cannot delete: %s", c->transfer.output,
		          x->failures[i].path, strerror(x->failures[i].error));
	if (x->failed > most)
		coll_note(c->life, 0, "%s: %zu others could not be deleted", c->transfer.output,
		          x->failed - most);
}

void deletes_release(struct collective *c)
{
	struct deletes *d = &c->transfer.deletes;
	extras_release(&d->extras);
	free(d->names);
	free(d->outputs);
}
