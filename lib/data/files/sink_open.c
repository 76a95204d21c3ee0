/*
 * Opening the outputs of a sink: what is at their paths, whether it may be replaced, whether there
 * is room. See sink.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/entry.h"
#include "lib/base/io.h"
#include "lib/base/path.h"
#include "lib/data/files/beneath.h"
#include "lib/data/files/names_taken.h"
#include "lib/data/files/outfile.h"
#include "lib/data/files/room.h"
#include "lib/data/files/sink_folder.h"
#include "lib/data/files/sink_internal.h"
#include "lib/data/files/staging.h"
#include "lib/data/files/target.h"

/* ---- descriptors ---- */

/* Does another rank make the link? */
static bool is_others_link(const struct sink_file *f)
{
	return sink_is_link(f) && f->dropped;
}

/* May a file replace a symbolic link, and a link a file? Where the user has chosen the name,
 * --force follows the link. */
static bool forces(const struct sink *s, const struct sink_file *f)
{
	return s->force && (!f->top || s->symlinks);
}

/* Is it a file of a copied tree that may be staged? Not one that has, or is, another's bytes, and
 * not one whose bytes stay if the job fails. */
static bool is_small(const struct sink *s, const struct sink_file *f)
{
	return f->top && f->size <= STAGED_MOST && !f->head_len && !s->resume && !f->linked &&
	       !sink_is_link(f) && !f->data && !sink_keeps(f);
}

bool sink_stages(const struct sink *s)
{
	int n = 0;
	uint64_t bytes = 0;
	for (int i = 0; i < s->nfiles; i++)
		if (is_small(s, &s->files[i])) {
			n++;
			bytes += s->files[i].size;
		}
	return n >= STAGED_FROM && staging_may_hold(bytes);
}

/* One per file that is neither staged nor a symbolic link, and one per folder; an archive has two
 * more for its members. */
int sink_descriptors(const struct sink *s)
{
	const bool staged = sink_stages(s);
	int n = 1 + 2 * staged; /* a folder's, before it is found to be open already; the staging,
	                           and a file that is made of it */

	for (int i = 0; i < s->nfiles; i++) {
		const struct sink_file *f = &s->files[i];
		const bool shares =
		        i && !f->dropped && path_share_folder(f->path, s->files[i - 1].path);
		if (staged && is_small(s, f))
			n += !shares && !f->dropped;
		else if (!sink_keeps(f) && !is_others_link(f))
			n += !f->points_to + !shares + 2 * f->packed - (f->part >= 0);
	}
	return n;
}

/* ---- what is there ---- */

/* Examine what is at @f's path. False: nothing, or it cannot be examined. */
static bool examine(const struct sink_file *f, struct stat *st)
{
	const int folder = beneath_open(f->path, f->top);
	const bool there =
	        folder >= 0 && fstatat(folder, path_name(f->path), st, AT_SYMLINK_NOFOLLOW) == 0;
	if (folder >= 0)
		close(folder);
	return there;
}

void sink_leave_own(struct sink *s, int file, const struct stat *is, int fd)
{
	struct sink_file *f = &s->files[file];
	struct stat there;
	/* sink_open and sink_check refuse a symbolic link in place of one of its folders. */
	f->own = !f->is_stdout && lstat(f->path, &there) == 0 && io_same_file(is, &there);
	f->own_fd = f->own ? fd : -1;
}

/* Open the folder of the file that the output would replace. *@name: that file's name there, which
 * the caller frees. */
static int open_folder_of(const struct sink *s, const struct sink_file *f, char **name,
                          struct err *err)
{
	struct target t;
	*name = NULL;
	if (f->is_stdout)
		return -1;
	if (f->top) {
		*name = err_strdup(path_name(f->path), "a name", err);
		const int fd = *name ? beneath_open(f->path, f->top) : -1;
		if (*name && fd < 0)
			err_errno(err, ERR_OUTPUT, "%s: cannot open its folder", f->path);
		return fd;
	}
	if (target_find(&t, f->path, s->force, err))
		return -1;
	*name = t.name;
	return t.dirfd;
}

int sink_open_old(const struct sink *s, int file, struct err *err)
{
	char *name;
	const int folder = open_folder_of(s, &s->files[file], &name, err);
	struct stat st;
	int fd = -1;
	if (folder >= 0) {
		fd = io_retry(openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
		if (fd < 0)
			err_errno(err, ERR_OUTPUT, "%s: cannot open", s->files[file].path);
		close(folder);
	}
	free(name);
	if (fd < 0 || (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)))
		return fd;
	close(fd);
	return -1;
}

int sink_stat_old(const struct sink *s, int file, struct beneath *last, struct stat *st,
                  struct err *err)
{
	const struct sink_file *f = &s->files[file];
	char *name = NULL;
	const int folder = f->top && !f->is_stdout ? beneath_at(last, f->path, f->top)
	                                           : open_folder_of(s, f, &name, err);
	const bool there = folder >= 0 && fstatat(folder, name ? name : path_name(f->path), st,
	                                          AT_SYMLINK_NOFOLLOW) == 0;
	if (!there && !f->is_stdout)
		err_errno(err, ERR_OUTPUT, "%s: cannot examine", f->path);
	if (name && folder >= 0)
		close(folder);
	free(name);
	return there && S_ISREG(st->st_mode) ? 0 : -1;
}

void sink_resume(struct sink *s)
{
	s->resume = true;
}

/* Is the file written to a part? Not if it has holes: nothing would be written over what the part
 * has there. */
static bool has_part(const struct sink *s, const struct sink_file *f)
{
	return s->resume && !f->is_stdout && !f->dropped && !f->packed && !sink_is_link(f) &&
	       !f->data;
}

int sink_open_part(struct sink *s, int file)
{
	struct sink_file *f = &s->files[file];
	if (has_part(s, f) && f->part < 0)
		f->part = outfile_find_part(f->path, f->top, s->force);
	return f->part;
}

int sink_without_part(const struct sink *s, const char **path, const char **why)
{
	int n = 0;
	for (int i = s->nfiles; i-- > 0;)
		if (s->files[i].no_part) {
			*path = s->files[i].path;
			*why = s->files[i].no_part;
			n++;
		}
	return n;
}

void sink_keep(struct sink *s, int file)
{
	s->files[file].equal = true;
}

void sink_drop(struct sink *s, int file)
{
	s->files[file].dropped = true;
}

/* ---- opening ---- */

static int same_path(const char *path, const char *other, struct err *err)
{
	if (strcmp(path, other) == 0)
		return err_set(err, ERR_USAGE, "%s: is given as output twice", path);
	return err_set(err, ERR_USAGE, "%s: is given as output twice, also as %s", path, other);
}

/* Another rank writes either all files of a copied tree or none. Only that rank creates the
 * folders, because it knows when their contents are complete. */
static bool is_made_elsewhere(const struct sink *s, const struct sink_folder *f)
{
	return f->attributes.has_mode && f->file < s->nfiles && s->files[f->file].dropped;
}

/* Share the folder's descriptor with earlier files, and refuse two files at one path. */
static int compare_with_earlier(struct sink *s, int file, struct err *err)
{
	struct sink_file *f = &s->files[file];
	struct stat folder;
	if (fstat(f->out.dirfd, &folder))
		return 0;
	struct name_key key = {folder.st_dev, folder.st_ino, f->dropped, ""};
	const int first = names_taken_by(&s->taken, key, file);
	if (first != file && !f->out.shared)
		outfile_share_folder(&f->out, &s->files[first].out);
	key.name = f->out.name;
	const int same = names_taken_by(&s->taken, key, file);
	return same == file ? 0 : same_path(f->path, s->files[same].path, err);
}

/* Two names for each file: its folder's, and its own. */
static int forget_names(struct sink *s, struct err *err)
{
	return names_taken_init(&s->taken, 2 * (size_t)s->nfiles, err);
}

/* The folder of files that another rank names; once for consecutive files. */
static int check_top(const struct sink *s, int file, struct err *err)
{
	const struct sink_file *f = &s->files[file], *e = file ? f - 1 : NULL;
	if (!f->top || (e && e->top == f->top && memcmp(e->path, f->path, f->top) == 0))
		return 0;
	char *top = err_strndup(f->path, f->top, "a path", err);
	int ret = top ? target_check_folder(top, err) : -1;
	free(top);
	return ret;
}

int sink_check_fresh(const struct sink *s, const struct sink_file *f, struct err *err)
{
	struct stat st;
	if (!f->fresh || s->force || !examine(f, &st) ||
	    !(S_ISREG(st.st_mode) || (f->points_to && S_ISLNK(st.st_mode))))
		return 0;
	return err_set(err, ERR_OUTPUT,
	               "%s: the file exists, and rank %d has chosen the name '%s': give --force "
	               "to replace it, or give the output another name in -o",
	               f->path, f->named_by, path_name(f->path));
}

/* A symbolic link does not replace a file, nor a file a link, without --force. */
static int check_kind(const struct sink *s, const struct sink_file *f, struct err *err)
{
	struct stat st;
	if (!s->symlinks || s->force || !f->top || f->dropped || !examine(f, &st) ||
	    !(f->points_to ? S_ISREG(st.st_mode) : S_ISLNK(st.st_mode)))
		return 0;
	return err_set(
	        err, ERR_OUTPUT,
	        "%s: is a %s: expected a %s or none: remove it, or give --force to replace it",
	        f->path, f->points_to ? "file" : "symbolic link",
	        f->points_to ? "symbolic link" : "file");
}

/* Is there a symbolic link with this target? */
static bool has_target(const struct sink_file *f)
{
	char target[PATH_MAX];
	const int folder = beneath_open(f->path, f->top);
	const bool same = folder >= 0 && entry_read_link(folder, path_name(f->path), target) == 0 &&
	                  strcmp(target, f->points_to) == 0;
	if (folder >= 0)
		close(folder);
	return same;
}

/* Is the link there already? A hard link is, if the file that is there is the one to link to, and
 * that one is left. */
static bool has_link(struct sink *s, const struct sink_file *f)
{
	if (f->points_to)
		return has_target(f);
	const int fd = sink_keeps(&s->files[f->to]) ? sink_open_old(s, f->to, NULL) : -1;
	struct stat st, there;
	const bool same =
	        fd >= 0 && fstat(fd, &st) == 0 && examine(f, &there) && io_same_file(&st, &there);
	if (fd >= 0)
		close(fd);
	return same;
}

static int open_link(struct sink *s, int file, struct err *err)
{
	struct sink_file *f = &s->files[file];
	if (outfile_open_link(&f->out, f->path, f->top, f->points_to, s->sync, forces(s, f), err))
		return -1;
	return compare_with_earlier(s, file, err);
}

/* Give each small file a place in the staging, if there are many. */
static int stage(struct sink *s, struct err *err)
{
	const struct sink_file *first = NULL;
	const bool any = sink_stages(s);
	for (int i = 0; any && i < s->nfiles; i++) {
		struct sink_file *f = &s->files[i];
		if (!is_small(s, f))
			continue;
		f->staged = true;
		f->at = staging_add(&s->staging, f->size);
		first = first ? first : f;
	}
	return first ? staging_open(&s->staging, first->path, first->top, err) : 0;
}

static int open_staged(struct sink *s, int file, struct err *err)
{
	struct sink_file *f = &s->files[file], *e = file ? f - 1 : NULL;
	const bool beside = e && e->top == f->top && e->out.path && !e->dropped &&
	                    path_share_folder(e->path, f->path);
	if (outfile_open_staged(&f->out, f->path, f->top, f->size, s->sync, forces(s, f),
	                        beside ? &e->out : NULL, err))
		return -1;
	f->synced_alone =
	        beside && e->staged ? e->synced_alone : s->sync && !staging_can_sync(f->out.dirfd);
	return 0;
}

/* Create the file, or open its part. */
static int create(const struct sink *s, struct sink_file *f, struct err *err)
{
	const int part = f->part;
	const bool sync = s->sync && !f->dropped;
	const uint64_t size = f->data || s->deferred ? 0 : f->size;
	f->part = -1;
	if (has_part(s, f))
		return outfile_open_part(&f->out, f->path, f->top, f->size, sync, forces(s, f),
		                         part, &f->no_part, err);
	if (f->top && f->dropped
	            ? outfile_open_aside(&f->out, f->path, f->path, f->top, size, err)
	            : outfile_open_below(&f->out, f->path, f->top, size, sync, forces(s, f), err))
		return -1;
	return f->data && !s->deferred ? outfile_make_sparse(&f->out, f->size, f->data, err) : 0;
}

/* Can an array of @want take elements of @dtype: bytes any, and u16 floats that C lacks? */
static bool stands_for(enum dtype want, enum dtype dtype)
{
	return want == DTYPE_NONE || want == dtype || want == DTYPE_U8 ||
	       (want == DTYPE_U16 && dtype_is_float(dtype) && dtype_size(dtype) == 2);
}

static int open_stdout(struct sink *s, struct sink_file *f, struct err *err)
{
	struct sink_capture *const c = s->capture;
	if (!c)
		return outfile_spool(&f->out, "stdout", f->size, err);
	const uint64_t bytes = f->size - f->head_len;
	if (c->bytes != UINT64_MAX && c->bytes != bytes)
		return err_set(err, ERR_OUTPUT,
		               "the array for the output has %" PRIu64
		               " bytes, but the result has %" PRIu64,
		               c->bytes, bytes);
	if (!stands_for(c->want, c->dtype))
		return err_set(err, ERR_OUTPUT,
		               "the array for the output has elements of %s, but the result has %s",
		               dtype_name(c->want), dtype_name(c->dtype));
	c->fd = memfd_create("collctl-array", MFD_CLOEXEC);
	const int fd = c->fd < 0 ? -1 : fcntl(c->fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return err_errno(err, ERR_RESOURCE, "memory for an output");
	return outfile_take_memory(&f->out, fd, "the array for the output", f->head_len, c->memory,
	                           f->size, err);
}

static int open_target(struct sink *s, int file, struct err *err)
{
	struct sink_file *f = &s->files[file];
	if (f->is_stdout)
		return open_stdout(s, f, err);
	f->equal = sink_is_link(f) && has_link(s, f);
	if (f->equal)
		return 0;
	if (sink_check_fresh(s, f, err) || check_kind(s, f, err))
		return -1;
	if (sink_is_link(f))
		return open_link(s, file, err);
	if (f->staged && f->dropped)
		return 0;
	if (f->staged ? open_staged(s, file, err) : create(s, f, err))
		return -1;
	if (f->top && f->dropped)
		return 0;
	if (f->attributes.has_mode && outfile_set_mode(&f->out, f->attributes.mode, err))
		return -1;
	return compare_with_earlier(s, file, err);
}

/* Put the spool of an archive's members in the archive's folder, which needs space for the archive
 * anyway. */
static int open_members(struct sink *s, struct sink_file *f, struct err *err)
{
	const struct archive *a = &f->archive;
	if (f->is_stdout ? outfile_spool(&f->spool, "stdout", a->bytes, err)
	                 : outfile_open(&f->spool, f->path, a->bytes, false, s->force, err))
		return -1;
	for (size_t i = 0; i < a->n; i++)
		if (outfile_pwrite(&f->spool, a->heads[i].data, a->heads[i].len,
		                   a->members[i].offset, err))
			return -1;
	return outfile_reserve(&f->out, a->bytes, err);
}

/* If descriptors run out, mention how many files there are. */
static int lacking(const struct sink *s, struct err *err)
{
	size_t len = strlen(err->text);
	if (err->code == ERR_RESOURCE && s->nfiles > 1)
		snprintf(err->text + len, sizeof err->text - len, "; the output has %d files",
		         s->nfiles);
	return -1;
}

/* The bytes that a file needs on its file system, besides those that its part has already. An
 * archive's members are there too until they are packed. */
static uint64_t needs(const struct sink_file *f)
{
	const int part = f->out.part ? f->out.fd : f->part;
	const uint64_t size = f->data ? sparse_bytes(f->data, f->size) : f->size;
	struct stat st;
	uint64_t has = part >= 0 && fstat(part, &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
	if (has > size)
		has = size;
	return f->packed ? 2 * f->archive.bytes : size - has;
}

/* What a staged file takes, in blocks. */
static uint64_t blocks(const struct sink_file *f)
{
	const uint64_t block = 4096; /* bytes, of most file systems */
	return (f->size + block - 1) / block * block;
}

/* Staged files of one folder. */
struct staged {
	uint64_t files, bytes;
};

/* Add @file to those of its folder, and these to @room if it is the last of them. */
static int add_staged(const struct sink *s, int file, struct staged *of, struct room *room,
                      struct err *err)
{
	const struct sink_file *f = &s->files[file], *next = f + 1;
	of->files++;
	of->bytes += blocks(f);
	if (file + 1 < s->nfiles && next->staged && !next->dropped &&
	    next->out.dirfd == f->out.dirfd)
		return 0;
	const struct staged all = *of;
	*of = (struct staged){0};
	return room_add(room, f->out.dirfd, f->path, all.files, all.bytes, err);
}

/* Is there room for what no file system has allocated? The files of the staging come in addition to
 * it. */
static int check_room(const struct sink *s, struct err *err)
{
	struct room room = {0};
	struct staged staged = {0};
	int ret = 0;
	if (s->staging.spool.unallocated)
		ret = room_add(&room, s->staging.spool.fd, s->staging.spool.path, 1,
		               s->staging.bytes, err);
	for (int i = 0; ret == 0 && i < s->nfiles; i++) {
		const struct sink_file *f = &s->files[i];
		if (f->staged && !f->dropped)
			ret = add_staged(s, i, &staged, &room, err);
		else if (!sink_keeps(f) && f->out.unallocated)
			ret = room_add(&room, f->out.fd, f->path, 1, needs(f), err);
	}
	if (ret == 0)
		ret = room_check(&room, err);
	room_release(&room);
	return ret;
}

int sink_open(struct sink *s, struct err *err)
{
	if (forget_names(s, err))
		return -1;
	for (int i = 0; i < s->nfolders; i++)
		if (!is_made_elsewhere(s, &s->folders[i]) &&
		    sink_folder_make(&s->folders[i], s->sync, s->resume, err))
			return -1;
	if (stage(s, err))
		return -1;
	for (int i = 0; i < s->nfiles; i++) {
		struct sink_file *f = &s->files[i];
		if (sink_keeps(f) || is_others_link(f))
			continue;
		if (check_top(s, i, err) || open_target(s, i, err) ||
		    (f->head_len && !s->deferred &&
		     outfile_pwrite(&f->out, f->head, f->head_len, 0, err)) ||
		    (f->packed && open_members(s, f, err)))
			return lacking(s, err);
	}
	return s->deferred ? 0 : check_room(s, err);
}

int sink_fill(struct sink *s, struct err *err)
{
	for (int i = 0; i < s->nfiles; i++) {
		struct sink_file *f = &s->files[i];
		if (!sink_is_link(f) &&
		    ((f->data ? outfile_make_sparse(&f->out, f->size, f->data, err)
		              : outfile_allocate(&f->out, f->size, err)) ||
		     outfile_pwrite(&f->out, f->head, f->head_len, 0, err)))
			return -1;
	}
	return check_room(s, err);
}

/* ---- checking ---- */

/* Does @path lie in a folder that sink_open would create? */
static bool is_in_absent(const struct sink *s, const char *path)
{
	struct err ignored = ERR_INIT;
	char *folder = path_folder(path, &ignored);
	bool absent = false;
	if (folder)
		folder[path_trim(folder, strlen(folder))] = '\0';
	for (int i = 0; folder && i < s->nfolders; i++)
		absent |= s->folders[i].absent && strcmp(s->folders[i].path, folder) == 0;
	free(folder);
	return absent;
}

static int check_folder(const struct sink *s, struct sink_folder *f, struct err *err)
{
	f->absent = is_in_absent(s, f->path);
	return f->absent ? 0 : sink_folder_check(f, err);
}

/* Refuse two files of one name in a folder that does not exist yet. */
static int compare_names(struct sink *s, int file, struct err *err)
{
	const char *path = s->files[file].path;
	const struct name_key key = {.name = path};
	return names_taken_by(&s->taken, key, file) == file ? 0 : same_path(path, path, err);
}

static int check_file(struct sink *s, int file, struct err *err)
{
	struct sink_file *f = &s->files[file];
	if (sink_keeps(f) || f->is_stdout || (f->top && f->dropped))
		return 0;
	if (is_in_absent(s, f->path))
		return compare_names(s, file, err);
	if (check_top(s, file, err))
		return -1;
	f->equal = sink_is_link(f) && has_link(s, f);
	if (f->equal)
		return 0;
	if (sink_check_fresh(s, f, err) || check_kind(s, f, err))
		return -1;
	if (outfile_probe(&f->out, f->path, f->top, f->points_to, forces(s, f), &f->exists, err))
		return -1;
	return compare_with_earlier(s, file, err);
}

int sink_check(struct sink *s, struct err *err)
{
	if (forget_names(s, err))
		return -1;
	for (int i = 0; i < s->nfolders; i++)
		if (!is_made_elsewhere(s, &s->folders[i]) && check_folder(s, &s->folders[i], err))
			return -1;
	for (int i = 0; i < s->nfiles; i++)
		if (check_file(s, i, err))
			return lacking(s, err);
	return 0;
}

int sink_room(const struct sink *s, struct room *room, struct err *err)
{
	const bool staged = sink_stages(s);
	int ret = 0;
	for (int i = 0; ret == 0 && i < s->nfiles; i++) {
		const struct sink_file *f = &s->files[i];
		if (sink_keeps(f) || f->is_stdout)
			continue;
		const uint64_t bytes = staged && is_small(s, f) ? f->size + blocks(f) : needs(f);
		ret = f->out.dirfd >= 0 && f->out.path
		              ? room_add(room, f->out.dirfd, f->path, 1, bytes, err)
		              : room_add_absent(room, f->path, bytes, err);
	}
	return ret;
}
