/* Seals the files of a sink, and renames all of them or none. See sink.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/base/offload.h"
#include "lib/data/files/sink_internal.h"
#include "lib/data/files/spool.h"

static int pack(struct sink_file *f, struct err *err)
{
	const struct archive *a = &f->archive;
	struct err why = ERR_INIT;
	if (a->pack(f->spool.fd, a->members, a->n, f->out.fd, &why))
		return err_set(err, why.code, "%s: %s", f->path, why.text);
	outfile_release(&f->spool);
	return outfile_measure(&f->out, err);
}

/* A single file needs no old file to restore: its rename happens or not. */
static int keep_old(struct sink *s, struct err *err)
{
	for (int i = 0; s->nfiles > 1 && i < s->nfiles; i++)
		if (sink_places(&s->files[i]) && outfile_keep(&s->files[i].out, err))
			return -1;
	return 0;
}

static int seal_symlink(struct sink_file *f, struct err *err)
{
	const struct sink_attributes *as = &f->attributes;
	return outfile_seal_symlink(&f->out, as->has_time ? &as->modified : NULL, err);
}

/* Make the symbolic link, or link the file to the earlier one, which has its bytes. */
static int seal_link(struct sink *s, struct sink_file *f, struct err *err)
{
	if (f->points_to)
		return seal_symlink(f, err);
	const struct sink_file *to = &s->files[f->to];
	const int old = sink_keeps(to) ? sink_open_old(s, f->to, NULL) : -1;
	if (sink_keeps(to) && old < 0)
		return err_errno(err, ERR_OUTPUT, "%s: cannot link it to %s", f->path, to->path);
	const int ret = outfile_seal_link(&f->out, old < 0 ? to->out.fd : old, err);
	if (old >= 0)
		close(old);
	return ret;
}

static int seal_staged(struct sink *s, struct sink_file *f, struct err *err)
{
	const void *data = staging_read(&s->staging, f->size, f->at, err);
	return data ? outfile_seal_staged(&f->out, data,
	                                  f->attributes.has_time ? &f->attributes.modified : NULL,
	                                  f->synced_alone, err)
	            : -1;
}

static int seal_file(struct sink *s, struct sink_file *f, struct err *err)
{
	if (sink_check_fresh(s, f, err))
		return -1;
	f->out.fresh = f->fresh && !s->force;
	if (sink_is_link(f))
		return seal_link(s, f, err);
	if (f->staged)
		return seal_staged(s, f, err);
	if (f->attributes.has_time && outfile_set_time(&f->out, f->attributes.modified, err))
		return -1;
	return outfile_seal(&f->out, err);
}

/* Sync the file systems of the staged files that are not synced alone. */
static int sync_staged(const struct sink *s, struct err *err)
{
	const struct outfile *last = NULL;
	for (int i = 0; i < s->nfiles; i++) {
		const struct sink_file *f = &s->files[i];
		if (!f->staged || f->dropped || f->synced_alone ||
		    (last && last->device == f->out.device))
			continue;
		last = &f->out;
		if (staging_sync(last->dirfd))
			return err_errno(err, ERR_OUTPUT, "%s: cannot sync to disk", f->path);
	}
	return 0;
}

int sink_seal(struct sink *s, struct err *err)
{
	for (int i = 0; i < s->nfiles; i++) {
		struct sink_file *f = &s->files[i];
		if (f->is_stdout && !s->capture && !stdout_is_read())
			return err_set(err, ERR_OUTPUT, "stdout: its reader has gone");
		if (offload_stopped(err) || (f->packed && !f->dropped && pack(f, err)) ||
		    (sink_places(f) && seal_file(s, f, err)))
			return -1;
	}
	staging_release(&s->staging);
	if (s->sync && sync_staged(s, err))
		return -1;
	return keep_old(s, err);
}

static int copy_to_stdout(struct sink_file *f, struct err *err)
{
	if (lseek(f->out.fd, 0, SEEK_SET) < 0)
		return err_errno(err, ERR_OUTPUT, "the spool of stdout");
	return spool_copy(f->out.fd, "the spool of stdout", STDOUT_FILENO, "stdout", ERR_OUTPUT,
	                  NULL, NULL, err);
}

/* Rename first: renames can be undone, output to stdout cannot. */
static int place_all(struct sink *s, struct err *err)
{
	for (int i = 0; i < s->nfiles; i++)
		if (sink_places(&s->files[i]) && outfile_place(&s->files[i].out, err))
			return -1;
	for (int i = 0; i < s->nfiles; i++)
		if (s->files[i].is_stdout && !s->capture && copy_to_stdout(&s->files[i], err))
			return -1;
	return 0;
}

/* Restore all old files. *@err has the cause; append the names of those that could not be restored.
 */
static void undo_all(struct sink *s, struct err *err)
{
	for (int i = s->nfiles; i-- > 0;) {
		struct err more = ERR_INIT;
		if (!s->files[i].out.committed || outfile_undo(&s->files[i].out, &more) == 0)
			continue;
		s->committed = true; /* so that sink_free keeps the folders */
		size_t len = strlen(err->text);
		snprintf(err->text + len, sizeof err->text - len, "; %s", more.text);
	}
}

/* Remove the part of a file that was left as it is, or that is a link. */
static void remove_part(const struct sink *s, struct sink_file *f)
{
	if (s->resume && sink_is_link(f) && !f->dropped)
		f->part = outfile_find_part(f->path, f->top, s->force);
	if (f->part >= 0)
		outfile_remove_part(f->path, f->top, s->force, f->part);
}

int sink_commit(struct sink *s, struct err *err)
{
	int ret = 0;
	if (place_all(s, err)) {
		undo_all(s, err);
		return -1;
	}
	s->committed = s->complete = true;
	/* Last first: a folder's first file owns its descriptor and syncs it. */
	for (int i = s->nfiles; i-- > 0;) {
		const struct sink_file *f = &s->files[i];
		if (sink_places(f) && outfile_settle(&s->files[i].out, err))
			ret = -1;
		remove_part(s, &s->files[i]);
	}
	for (int i = s->nfolders; i-- > 0;)
		if (sink_folder_finish(&s->folders[i], err))
			ret = -1;
	return ret;
}

enum sink_state sink_state(const struct sink *s)
{
	int files = 0, placed = 0;
	for (int i = 0; i < s->nfiles; i++) {
		files += s->files[i].is_stdout || sink_places(&s->files[i]);
		placed += s->files[i].out.committed;
	}
	if (!files)
		return SINK_NO_FILES;
	return s->complete ? SINK_ALL_NEW : placed ? SINK_MIXED : SINK_ALL_OLD;
}
