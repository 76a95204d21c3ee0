/* The files that ranks tell of: the root of a broadcast, and who gives some to a gather. See
 * details.h. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/path.h"
#include "lib/job/details.h"

#define MODE_BITS   0777u
#define ENTRY_BYTES 14          /* of the shortest */
#define NAMES_MAX   (16u << 20) /* bytes of all names */

enum { NAMES_NONE, NAMES_FLAT, NAMES_TREE };

static int malformed(struct err *err)
{
	return err_set(err, ERR_INTEGRITY, "malformed details");
}

static void release_files(struct told_file *files, int n)
{
	for (int i = 0; i < n; i++)
		free(files[i].name);
	free(files);
}

void told_release(struct told *t)
{
	release_files(t->files, t->nfiles);
	release_files(t->folders, t->nfolders);
	*t = (struct told){0};
}

/* ---- out ---- */

/* Names are sorted. Each is encoded as the length of the prefix that it shares with the name before
 * it, and the rest. */
static void put_files(struct buf *b, const struct told_file *files, int n, bool folders)
{
	const char *before = "";
	for (int i = 0; i < n; i++) {
		const struct told_file *f = &files[i];
		size_t same = 0;
		while (same < UINT16_MAX && before[same] && before[same] == f->name[same])
			same++;
		buf_put_u16(b, (uint16_t)same);
		buf_put_str(b, f->name + same);
		buf_put_u16(b, (uint16_t)(f->mode & (MODE_BITS | MODE_NONE)));
		buf_put_u64(b, (uint64_t)f->mtime);
		if (!folders)
			buf_put_u64(b, f->bytes);
		before = f->name;
	}
}

void details_put_told(struct buf *b, const struct told *t)
{
	buf_put_u8(b, (uint8_t)t->format);
	buf_put_u8(b, t->tree ? NAMES_TREE : t->folder ? NAMES_FLAT : NAMES_NONE);
	buf_put_u32(b, (uint32_t)t->nfolders);
	put_files(b, t->folders, t->nfolders, true);
	buf_put_u32(b, (uint32_t)t->nfiles);
	put_files(b, t->files, t->nfiles, false);
}

/* ---- in ---- */

static bool name_is_right(const char *name, int names, bool folder)
{
	if (names == NAMES_TREE)
		return path_is_below(name) || (folder && !*name);
	return path_is_plain(name);
}

/* A name that begins as *@name does, which it replaces. */
static int get_name(struct view *v, char name[PATH_MAX], struct err *err)
{
	size_t same = view_u16(v), n = view_u16(v);
	const uint8_t *rest = view_bytes(v, n);
	if (!rest || same > strlen(name) || n >= PATH_MAX - same || memchr(rest, '\0', n))
		return malformed(err);
	memcpy(name + same, rest, n);
	name[same + n] = '\0';
	return 0;
}

/* Fill @out with @n entries; *count: how many there are so far, also on failure. */
static int get_files(struct view *v, int names, bool folders, struct told_file *out, uint32_t n,
                     int *count, struct err *err)
{
	char name[PATH_MAX] = "";
	uint64_t sum = 0, text = 0;
	for (uint32_t i = 0; i < n; i++) {
		struct told_file *f = &out[i];
		if (get_name(v, name, err) < 0)
			return -1;
		text += strlen(name);
		if (!name_is_right(name, names, folders) || text > NAMES_MAX)
			return malformed(err);
		f->name = strdup(name);
		if (!f->name)
			return err_nomem(err, "a file name", strlen(name));
		++*count;
		f->mode = view_u16(v);
		f->mtime = (int64_t)view_u64(v);
		f->bytes = folders ? 0 : view_u64(v);
		if (v->failed || (f->mode > MODE_BITS && f->mode != MODE_NONE) ||
		    __builtin_add_overflow(sum, f->bytes, &sum) || sum > INT64_MAX)
			return malformed(err);
	}
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int all_differ(const struct told *t, struct err *err)
{
	size_t n = 0;
	const char **names = calloc((size_t)t->nfiles + (size_t)t->nfolders + 1, sizeof *names);
	bool twice = false;
	if (!names)
		return err_nomem(err, "file names", (size_t)t->nfiles * sizeof *names);
	for (int i = 0; i < t->nfiles; i++)
		names[n++] = t->files[i].name;
	for (int i = 0; i < t->nfolders; i++)
		names[n++] = t->folders[i].name;
	qsort(names, n, sizeof *names, compare_names);
	for (size_t i = 1; i < n; i++)
		twice |= strcmp(names[i - 1], names[i]) == 0;
	free(names);
	return twice ? malformed(err) : 0;
}

/* A list, and how long it is. */
static int get_list(struct view *v, int names, bool folders, struct told_file **files, int *count,
                    struct err *err)
{
	uint32_t n = view_u32(v);
	if (v->failed || n > view_left(v) / ENTRY_BYTES)
		return malformed(err);
	*files = calloc((size_t)n + 1, sizeof **files);
	if (!*files)
		return err_nomem(err, "the root's files", n * sizeof **files);
	return get_files(v, names, folders, *files, n, count, err);
}

int details_get_told(struct view *v, struct told *t, struct err *err)
{
	*t = (struct told){0};
	unsigned format = view_u8(v), names = view_u8(v);
	if (v->failed || format == ARRAY_FORMAT_AUTO || format > ARRAY_NPZ || names > NAMES_TREE)
		return malformed(err);
	t->format = (enum array_format)format;
	t->folder = names != NAMES_NONE;
	t->tree = names == NAMES_TREE;
	if (get_list(v, (int)names, true, &t->folders, &t->nfolders, err) == 0 &&
	    get_list(v, (int)names, false, &t->files, &t->nfiles, err) == 0 &&
	    all_differ(t, err) == 0) {
		if (t->tree || (!t->nfolders && t->nfiles > 0 && (t->folder || t->nfiles == 1)))
			return 0;
		malformed(err);
	}
	told_release(t);
	return -1;
}

/* ---- what is gathered ---- */

void source_release(struct source *s)
{
	told_release(&s->files);
}

void details_put_source(struct buf *b, const struct source *s)
{
	buf_put_str(b, s->host);
	details_put_told(b, &s->files);
}

int details_get_source(struct view *v, struct source *s, int nfiles, struct err *err)
{
	*s = (struct source){0};
	view_str(v, s->host, sizeof s->host);
	if (v->failed || (*s->host && !path_is_below(s->host)) || strchr(s->host, '/'))
		return malformed(err);
	if (details_get_told(v, &s->files, err) < 0)
		return -1;
	bool right = s->files.nfiles == nfiles && s->files.nfolders == 0;
	for (int i = 0; i < s->files.nfiles; i++)
		right &= !strchr(s->files.files[i].name, '/');
	if (right)
		return 0;
	source_release(s);
	return malformed(err);
}
