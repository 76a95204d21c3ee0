/* A folder of any files: finds all files and folders in it. Large files are opened when all are
 * known, and stay open; of small ones there may be more than descriptors. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/entry.h"
#include "lib/base/io.h"
#include "lib/base/path.h"
#include "lib/base/path_pattern.h"
#include "lib/data/dataset/dataset_internal.h"
#include "lib/data/files/outfile.h"
#include "lib/data/files/part.h"

#define FOLDER (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

#define SMALL (64u << 10) /* bytes */

struct tree {
	struct dataset *dataset;
	const struct dataset_source *source;
	bool *used; /* the patterns of include, then those of exclude, that match a name */
};

static int walk(struct tree *t, int fd, const char *name, struct err *err);

/* ---- which names are chosen ---- */

static bool is_excluded(const struct dataset *d, const char *name, bool folder, bool *used)
{
	const struct dataset_patterns *p = &d->names;
	return path_matches_any(p->exclude, p->nexclude, name, folder,
	                        used ? used + p->ninclude : NULL);
}

/* A folder that is not included may hold what is. */
static bool is_included(const struct dataset *d, const char *name, bool folder, bool *used)
{
	const struct dataset_patterns *p = &d->names;
	return !p->ninclude || path_matches_any(p->include, p->ninclude, name, folder, used);
}

static int check_used(const struct tree *t, struct err *err)
{
	const struct dataset_patterns *p = &t->dataset->names;
	for (int i = 0; i < p->ninclude; i++) {
		if (!t->used[i] && !p->none)
			return err_set(err, ERR_USAGE,
			               "%s: no file or folder matches --include '%s'",
			               t->dataset->path, p->include[i]);
		if (!t->used[i] && p->unused)
			p->unused(p->ctx, t->dataset, "--include", p->include[i]);
	}
	for (int i = 0; i < p->nexclude; i++)
		if (!t->used[p->ninclude + i] && p->unused)
			p->unused(p->ctx, t->dataset, "--exclude", p->exclude[i]);
	return 0;
}

/* ---- the walk ---- */

/* What jobs write, or have left, is no file of the user. */
static int is_entry(const struct dirent *e)
{
	return !entry_is_dots(e->d_name) && !part_is_name(e->d_name) && !outfile_is_temp(e->d_name);
}

static int open_error(const char *path, struct err *err)
{
	if (errno == EMFILE || errno == ENFILE)
		return err_errno(err, ERR_RESOURCE, "%s: cannot open: raise the limit (ulimit -n)",
		                 path);
	return err_errno(err, ERR_INPUT, "%s: cannot open", path);
}

static int add_folder(struct dataset *d, int fd, const char *name, struct err *err)
{
	struct dataset_folder *folders =
	        err_grow(d->folders, (size_t)d->nfolders, sizeof *folders, "the folders", err);
	struct stat st;
	if (!folders)
		return -1;
	d->folders = folders;
	char *copy = err_strdup(name, "a path", err);
	if (!copy)
		return -1;
	folders[d->nfolders] = (struct dataset_folder){.name = copy};
	if (fstat(fd, &st) == 0)
		folders[d->nfolders].was = st;
	d->nfolders++;
	return 0;
}

/* Add the file as @name of the tree. */
static int add_file(struct dataset *d, const char *path, const struct stat *was, const char *name,
                    struct err *err)
{
	int file = dataset_add_closed(d, path, was, err);
	char *copy = file < 0 ? NULL : err_strdup(name, "a path", err);
	if (!copy)
		return -1;
	free(d->files[file].name);
	d->files[file].name = copy;
	return 0;
}

static int add_link(struct dataset *d, const char *name, const char *target, const struct stat *st,
                    struct err *err)
{
	struct dataset_link *links =
	        err_grow(d->links, (size_t)d->nlinks, sizeof *links, "the symbolic links", err);
	if (!links)
		return -1;
	d->links = links;
	struct dataset_link *l = &links[d->nlinks++];
	*l = (struct dataset_link){.was = *st};
	l->name = err_strdup(name, "a path", err);
	l->target = l->name ? err_strdup(target, "a path", err) : NULL;
	return l->target ? 0 : -1;
}

/* Add the symbolic link @entry of the folder @parent, or skip it. */
static int take_link(struct tree *t, int parent, const char *entry, const char *path,
                     const char *name, const struct stat *st, struct err *err)
{
	char target[PATH_MAX], why[400];
	if (entry_read_link(parent, entry, target) < 0)
		return err_errno(err, ERR_INPUT, "%s: cannot read the symbolic link", path);
	if (path_link_stays(name, target))
		return add_link(t->dataset, name, target, st, err);
	snprintf(why, sizeof why,
	         "is a symbolic link to '%.300s', which may lead out of the folder", target);
	t->source->skip(t->source->ctx, path, why);
	return 0;
}

/* Why is an entry of a folder left out? NULL: it is not. */
static const char *reason_to_skip(const struct stat *st)
{
	if (S_ISDIR(st->st_mode) || S_ISREG(st->st_mode))
		return NULL;
	return S_ISLNK(st->st_mode) ? "is a symbolic link" : "is neither a file nor a folder";
}

/* Add @entry of the folder @parent as @name of the tree. */
static int take(struct tree *t, int parent, const char *entry, const char *name, struct err *err)
{
	struct stat st;
	char *path = path_join(t->dataset->path, name, err);
	int ret = -1;
	if (!path)
		return -1;
	if (fstatat(parent, entry, &st, AT_SYMLINK_NOFOLLOW)) {
		err_errno(err, ERR_INPUT, "%s: cannot examine", path);
	} else if (is_excluded(t->dataset, name, S_ISDIR(st.st_mode), t->used) ||
	           (!is_included(t->dataset, name, S_ISDIR(st.st_mode), t->used) &&
	            !S_ISDIR(st.st_mode))) {
		ret = 0;
	} else if (S_ISLNK(st.st_mode) && t->dataset->keeps_links) {
		ret = take_link(t, parent, entry, path, name, &st, err);
	} else if (reason_to_skip(&st)) {
		t->source->skip(t->source->ctx, path, reason_to_skip(&st));
		ret = 0;
	} else if (S_ISDIR(st.st_mode)) {
		const int fd = io_retry(openat(parent, entry, FOLDER | O_NOFOLLOW));
		ret = fd < 0 ? open_error(path, err) : walk(t, fd, name, err);
	} else {
		ret = faccessat(parent, entry, R_OK, AT_EACCESS)
		              ? open_error(path, err)
		              : add_file(t->dataset, path, &st, name, err);
	}
	free(path);
	return ret;
}

/* Forget the last folder if it is not included, and holds nothing that is: before it there were
 * @nfolders, and @others files and links. */
static void drop_hollow(struct dataset *d, int nfolders, int others)
{
	struct dataset_folder *f = &d->folders[nfolders];
	if (d->nfolders != nfolders + 1 || d->nfiles + d->nlinks != others || !*f->name ||
	    is_included(d, f->name, true, NULL))
		return;
	free(f->name);
	d->nfolders--;
}

/* Add the folder @fd and its contents. Takes ownership of @fd. */
static int walk(struct tree *t, int fd, const char *name, struct err *err)
{
	const int nfolders = t->dataset->nfolders;
	const int others = t->dataset->nfiles + t->dataset->nlinks;
	struct dirent **list = NULL;
	int ret = add_folder(t->dataset, fd, name, err), n = 0;
	if (ret == 0 && (n = scandirat(fd, ".", &list, is_entry, entry_by_bytes)) < 0)
		ret = err_errno(err, ERR_INPUT, "%s/%s: cannot list", t->dataset->path, name);
	for (int i = 0; i < n; i++) {
		char *entry = ret == 0 ? path_join(name, list[i]->d_name, err) : NULL;
		ret = entry ? take(t, fd, list[i]->d_name, entry, err) : -1;
		free(entry);
		free(list[i]);
	}
	free(list);
	close(fd);
	if (ret == 0)
		drop_hollow(t->dataset, nfolders, others);
	return ret;
}

static bool is_small(const struct dataset_file *f)
{
	return f->size <= SMALL;
}

static int open_large(struct dataset *d, struct err *err)
{
	char what[512];
	int files = 0;
	for (int i = 0; i < d->nfiles; i++)
		files += !is_small(&d->files[i]);
	snprintf(what, sizeof what, "the %d files of %.400s", files, d->path);
	if (need_descriptors(files + SPARE_DESCRIPTORS, what, err))
		return -1;
	for (int i = 0; i < d->nfiles; i++) {
		struct dataset_file *f = &d->files[i];
		if (!is_small(f) && (f->fd = dataset_file_open(f, err)) < 0)
			return -1;
	}
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct dataset_file *)a)->name,
	              ((const struct dataset_file *)b)->name);
}

static int by_folder_name(const void *a, const void *b)
{
	return strcmp(((const struct dataset_folder *)a)->name,
	              ((const struct dataset_folder *)b)->name);
}

static int by_link_name(const void *a, const void *b)
{
	return strcmp(((const struct dataset_link *)a)->name,
	              ((const struct dataset_link *)b)->name);
}

int dataset_open_tree(struct dataset *d, const struct dataset_source *source, struct err *err)
{
	struct tree t = {d, source, NULL};
	int fd = io_retry(open(d->path, FOLDER));
	d->tree = true;
	d->keeps_links = source->links;
	if (source->names)
		d->names = *source->names;
	if (fd < 0)
		return open_error(d->path, err);
	t.used = err_calloc((size_t)d->names.ninclude + (size_t)d->names.nexclude + 1,
	                    sizeof *t.used, "the patterns", err);
	if (!t.used) {
		close(fd);
		return -1;
	}
	int ret = walk(&t, fd, "", err);
	if (ret == 0)
		ret = check_used(&t, err);
	if (ret == 0)
		ret = open_large(d, err);
	free(t.used);
	if (ret < 0)
		return -1;
	if (d->nfiles > 1)
		qsort(d->files, (size_t)d->nfiles, sizeof *d->files, by_name);
	if (d->nfolders > 1)
		qsort(d->folders, (size_t)d->nfolders, sizeof *d->folders, by_folder_name);
	if (d->nlinks > 1)
		qsort(d->links, (size_t)d->nlinks, sizeof *d->links, by_link_name);
	return 0;
}

/* ---- has it changed? ---- */

static const struct dataset_file *find_file(const struct dataset *d, const char *name)
{
	const struct dataset_file key = {.name = (char *)name};
	return d->nfiles ? bsearch(&key, d->files, (size_t)d->nfiles, sizeof key, by_name) : NULL;
}

static const struct dataset_folder *find_folder(const struct dataset *d, const char *name)
{
	const struct dataset_folder key = {.name = (char *)name};
	return bsearch(&key, d->folders, (size_t)d->nfolders, sizeof key, by_folder_name);
}

static const struct dataset_link *find_link(const struct dataset *d, const char *name)
{
	const struct dataset_link key = {.name = (char *)name};
	return d->nlinks ? bsearch(&key, d->links, (size_t)d->nlinks, sizeof key, by_link_name)
	                 : NULL;
}

/* Is the entry, which is @name of the tree, of no interest? */
static bool is_skipped(const struct dataset *d, int fd, const char *entry, const char *name,
                       const struct stat *st)
{
	char target[PATH_MAX];
	if (!S_ISLNK(st->st_mode) || !d->keeps_links)
		return reason_to_skip(st) != NULL;
	return entry_read_link(fd, entry, target) < 0 || !path_link_stays(name, target);
}

/* Does the folder @entry of @fd hold a file, or a link that counts, which is not temporary? */
static bool holds_files(const struct dataset *d, int fd, const char *entry)
{
	struct dirent **list = NULL;
	struct stat st;
	bool any = false;
	const int in = io_retry(openat(fd, entry, FOLDER | O_NOFOLLOW));
	const int n = in < 0 ? 0 : scandirat(in, ".", &list, is_entry, NULL);
	for (int i = 0; i < n; i++) {
		any |= fstatat(in, list[i]->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		       (S_ISREG(st.st_mode) || (d->keeps_links && S_ISLNK(st.st_mode)));
		free(list[i]);
	}
	free(list);
	if (in >= 0)
		close(in);
	return any;
}

/* Has @entry of the folder @fd, which is @name of the tree, appeared? A listed file that is gone,
 * or is another, is found by its name. */
static int look_at(const struct dataset *d, int fd, const char *entry, const char *name,
                   struct err *err)
{
	struct stat st;
	if (find_file(d, name))
		return 0;
	if (fstatat(fd, entry, &st, AT_SYMLINK_NOFOLLOW) || is_skipped(d, fd, entry, name, &st))
		return 0;
	const bool folder = S_ISDIR(st.st_mode);
	if (is_excluded(d, name, folder, NULL) || !is_included(d, name, folder, NULL))
		return 0;
	if (folder ? find_folder(d, name) || !holds_files(d, fd, entry)
	           : S_ISLNK(st.st_mode) && find_link(d, name))
		return 0;
	char *path = path_join(d->path, name, err);
	if (path)
		err_set(err, ERR_INPUT, "%s: has appeared while the folder was read", path);
	free(path);
	return -1;
}

static int look_into(const struct dataset *d, const struct dataset_folder *f, struct err *err)
{
	char *path = path_join(d->path, f->name, err);
	struct dirent **list = NULL;
	const int fd = path ? io_retry(open(path, FOLDER)) : -1;
	const int n = fd < 0 ? -1 : scandirat(fd, ".", &list, is_entry, entry_by_bytes);
	int ret = path ? 0 : -1;
	if (path && n < 0)
		ret = err_errno(err, ERR_INPUT, "%s: has changed while the folder was read", path);
	for (int i = 0; i < n; i++) {
		char *name = ret == 0 ? path_join(f->name, list[i]->d_name, err) : NULL;
		ret = name ? look_at(d, fd, list[i]->d_name, name, err) : -1;
		free(name);
		free(list[i]);
	}
	free(list);
	if (fd >= 0)
		close(fd);
	free(path);
	return ret;
}

static int look_at_link(const struct dataset *d, const struct dataset_link *l, struct err *err)
{
	char target[PATH_MAX], *path = path_join(d->path, l->name, err);
	const bool read = path && entry_read_link(AT_FDCWD, path, target) == 0;
	int ret = path ? 0 : -1;
	if (path && !read && errno != EINVAL)
		ret = err_errno(err, ERR_INPUT, "%s: was removed while the folder was read", path);
	else if (path && (!read || strcmp(target, l->target) != 0))
		ret = err_set(err, ERR_INPUT, "%s: was replaced while the folder was read", path);
	free(path);
	return ret;
}

int dataset_tree_unchanged(const struct dataset *d, struct err *err)
{
	for (int i = 0; i < d->nlinks; i++)
		if (look_at_link(d, &d->links[i], err) < 0)
			return -1;
	for (int i = 0; i < d->nfolders; i++)
		if (look_into(d, &d->folders[i], err) < 0)
			return -1;
	return 0;
}
