#include "lib/data/files/sink.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/path.h"
#include "lib/data/files/input.h"
#include "lib/data/files/names_taken.h"
#include "lib/data/files/outfile.h"
#include "lib/data/files/sink_folder.h"
#include "lib/data/files/sink_internal.h"
#include "lib/data/files/staging.h"
#include "lib/data/files/target.h"

struct sink *sink_new(bool sync, bool force, struct err *err)
{
	struct sink *s = err_calloc(1, sizeof *s, "the outputs", err);
	if (!s)
		return NULL;
	s->sync = sync;
	s->force = force;
	return s;
}

/* Releases files in reverse order, because a later file may share an earlier one's descriptor. */
void sink_free(struct sink *s)
{
	if (!s)
		return;
	for (int i = s->nfiles; i-- > 0;) {
		struct sink_file *f = &s->files[i];
		outfile_release(&f->out);
		outfile_release(&f->spool);
		archive_release(&f->archive);
		if (f->part >= 0)
			close(f->part);
		free(f->head);
		free(f->path);
	}
	for (int i = s->nfolders; i-- > 0;) {
		if (s->folders[i].made && !s->committed)
			sink_folder_remove(&s->folders[i]);
		free(s->folders[i].path);
	}
	staging_release(&s->staging);
	names_taken_release(&s->taken);
	free(s->folders);
	free(s->files);
	free(s);
}

int sink_files(const struct sink *s)
{
	return s->nfiles;
}

uint64_t sink_size(const struct sink *s, int file)
{
	return s->files[file].packed ? 0 : s->files[file].size;
}

const char *sink_path(const struct sink *s, int file)
{
	return s->files[file].path;
}

void sink_id(const struct sink *s, int file, struct target_id *id)
{
	const struct outfile *f = &s->files[file].out;
	*id = (struct target_id){.known = false};
	if (f->path && f->dirfd >= 0)
		target_id_at(id, f->dirfd, f->name);
}

void sink_capture(struct sink *s, struct sink_capture *capture)
{
	s->capture = capture;
}

void sink_set_dtype(struct sink *s, int file, enum dtype dtype)
{
	if (s->capture && s->files[file].is_stdout)
		s->capture->dtype = dtype;
}

/* ---- adding ---- */

static int add(struct sink *s, const char *path, const void *head, size_t head_len, uint64_t size,
               bool is_stdout, struct err *err)
{
	struct sink_file *files =
	        err_grow(s->files, (size_t)s->nfiles, sizeof *files, "the outputs", err);
	if (!files)
		return -1;
	s->files = files;
	struct sink_file *f = &s->files[s->nfiles];
	*f = (struct sink_file){.is_stdout = is_stdout,
	                        .own_fd = -1,
	                        .part = -1,
	                        .to = -1,
	                        .head_len = head_len,
	                        .size = size};
	f->path = err_strdup(path, "a path", err);
	f->head = err_malloc(head_len + 1, "the head of an output", err);
	if (!f->path || !f->head) {
		free(f->path);
		free(f->head);
		return -1;
	}
	memcpy(f->head, head ? head : "", head_len);
	return s->nfiles++;
}

int sink_add(struct sink *s, const char *path, const void *head, size_t head_len, uint64_t size,
             struct err *err)
{
	bool is_stdout = strcmp(path, "-") == 0;
	for (int i = 0; is_stdout && i < s->nfiles; i++)
		if (s->files[i].is_stdout)
			return err_set(err, ERR_USAGE, "stdout: is given as output twice");
	if (!is_stdout && outfile_check_kind(path, err) < 0)
		return -1;
	return add(s, path, head, head_len, size, is_stdout, err);
}

int sink_add_archive(struct sink *s, const char *path, struct archive *a, struct err *err)
{
	int file = sink_add(s, path, NULL, 0, 0, err);
	if (file < 0) {
		archive_release(a);
		return -1;
	}
	s->files[file].archive = *a;
	s->files[file].packed = true;
	*a = (struct archive){0};
	return file;
}

static int add_folder(struct sink *s, char *path, size_t top, const struct sink_attributes *as,
                      struct err *err)
{
	struct sink_folder *folders = path ? err_grow(s->folders, (size_t)s->nfolders,
	                                              sizeof *folders, "the folders", err)
	                                   : NULL;
	if (!folders) {
		free(path);
		return -1;
	}
	s->folders = folders;
	folders[s->nfolders++] = (struct sink_folder){
	        .path = path, .top = top, .attributes = *as, .file = s->nfiles};
	return 0;
}

int sink_add_folder(struct sink *s, const char *path, struct err *err)
{
	static const struct sink_attributes none;
	if (strcmp(path, "-") == 0)
		return err_set(err, ERR_USAGE,
		               "-: several files cannot be written to stdout: name a folder for "
		               "the output");
	return add_folder(s, err_strndup(path, path_trim(path, strlen(path)), "a path", err), 0,
	                  &none, err);
}

int sink_add_folder_below(struct sink *s, const char *top, const char *name,
                          const struct sink_attributes *as, struct err *err)
{
	if (!*name) {
		if (sink_add_folder(s, top, err) < 0)
			return -1;
		s->folders[s->nfolders - 1].attributes = *as;
		return 0;
	}
	return add_folder(s, path_join(top, name, err), strlen(top), as, err);
}

int sink_add_below(struct sink *s, const char *top, const char *name, uint64_t size,
                   const struct sink_attributes *as, struct err *err)
{
	char *path = path_join(top, name, err);
	int file = path ? add(s, path, NULL, 0, size, false, err) : -1;
	if (file >= 0) {
		s->files[file].top = strlen(top);
		s->files[file].attributes = *as;
	}
	free(path);
	return file;
}

int sink_add_symlink_below(struct sink *s, const char *top, const char *name, const char *target,
                           const struct sink_attributes *as, struct err *err)
{
	const int file = sink_add_below(s, top, name, 0, as, err);
	if (file >= 0)
		s->files[file].points_to = target;
	return file;
}

void sink_replace_symlinks(struct sink *s)
{
	s->symlinks = true;
}

const char *sink_points_to(const struct sink *s, int file)
{
	return s->files[file].points_to;
}

void sink_set_attributes(struct sink *s, int file, const struct sink_attributes *as)
{
	s->files[file].attributes = *as;
}

void sink_set_data(struct sink *s, int file, const struct sparse *data)
{
	s->files[file].data = data->sparse ? data : NULL;
}

void sink_link(struct sink *s, int file, int to)
{
	s->files[file].to = to;
	s->files[to].linked = true;
}

void sink_set_top(struct sink *s, int file, size_t top)
{
	s->files[file].top = top;
}

void sink_expect_none(struct sink *s, int file, int by)
{
	s->files[file].fresh = true;
	s->files[file].named_by = by;
}

/* ---- writing and reading ---- */

bool sink_is_packed(const struct sink *s, int file)
{
	return s->files[file].packed;
}

enum sink_fate sink_fate(const struct sink *s, int file)
{
	const struct sink_file *f = &s->files[file];
	if (f->equal)
		return SINK_EQUAL;
	if (f->own)
		return SINK_KEEP;
	if (f->is_stdout)
		return SINK_STDOUT;
	if (f->dropped)
		return SINK_LEAVE;
	return f->exists ? SINK_REPLACE : SINK_CREATE;
}

static struct outfile *content(const struct sink *s, int file)
{
	struct sink_file *f = &s->files[file];
	return f->packed ? &f->spool : &f->out;
}

struct writing {
	struct outfile *out;
	const char *buf;
	uint64_t pos; /* of buf, in the file */
};

static int write_range(void *ctx, uint64_t offset, uint64_t bytes, struct err *err)
{
	const struct writing *w = ctx;
	return outfile_pwrite(w->out, w->buf + (offset - w->pos), bytes, offset, err);
}

int sink_pwrite(struct sink *s, int file, const void *buf, size_t bytes, uint64_t pos,
                struct err *err)
{
	const struct sink_file *f = &s->files[file];
	struct writing w = {content(s, file), buf, pos};
	if (sink_keeps(f) || s->awaits) /* it has these bytes, or will have them */
		return 0;
	if (f->staged ? staging_pwrite(&s->staging, buf, bytes, f->at + pos, err)
	    : f->data ? sparse_visit(f->data, pos, bytes, write_range, &w, err)
	              : outfile_pwrite(w.out, buf, bytes, pos, err))
		return -1;
	atomic_fetch_add_explicit(&s->written, bytes, memory_order_relaxed);
	return 0;
}

static int read_own(const struct sink *s, int file, void *buf, size_t bytes, uint64_t pos,
                    struct err *err)
{
	const struct sink_file *f = &s->files[file];
	const int fd = f->own_fd < 0 ? sink_open_old(s, file, NULL) : f->own_fd;
	const int ret = fd < 0 ? err_errno(err, ERR_INPUT, "%s: cannot open", f->path)
	                       : input_pread(fd, f->path, buf, bytes, pos, err);
	if (fd >= 0 && fd != f->own_fd)
		close(fd);
	return ret;
}

int sink_pread(struct sink *s, int file, void *buf, size_t bytes, uint64_t pos, struct err *err)
{
	const struct sink_file *f = &s->files[file];
	if (f->own)
		return read_own(s, file, buf, bytes, pos, err);
	if (f->staged)
		return staging_pread(&s->staging, buf, bytes, f->at + pos, err);
	return outfile_pread(content(s, file), buf, bytes, pos, err);
}

void sink_set_index(struct sink *s, int file)
{
	s->files[file].is_index = true;
}

void sink_strays(const struct sink *s,
                 void (*tell)(void *ctx, const char *folder, const char *first, int n), void *ctx)
{
	struct err ignored = ERR_INIT;
	char first[256];

	for (int i = 0; i < s->nfiles; i++) {
		const struct sink_file *f = &s->files[i];
		char *folder =
		        f->is_index && sink_places(f) ? path_folder(f->path, &ignored) : NULL;
		int n = folder ? sink_set_strays(s, folder, first, sizeof first) : 0;
		if (n)
			tell(ctx, folder, first, n);
		free(folder);
	}
}

struct sink_progress sink_progress(const struct sink *s)
{
	struct sink_progress sum = {.written = atomic_load(&s->written)};

	for (int i = 0; i < s->nfiles; i++) {
		const struct writeback *w = &s->files[i].out.back;
		sum.stored += atomic_load(&w->stored);
		sum.waited += atomic_load(&w->waited);
		sum.waited_ns += atomic_load(&w->waited_ns);
	}
	return sum;
}

bool sink_writes(const struct sink *s)
{
	for (int i = 0; i < s->nfiles && !s->awaits; i++)
		if (!s->files[i].dropped && !sink_keeps(&s->files[i]))
			return true;
	return false;
}

bool sink_syncs(const struct sink *s)
{
	for (int i = 0; s->sync && i < s->nfiles; i++)
		if (sink_places(&s->files[i]))
			return true;
	return false;
}
