#include "lib/coll/agreement/file_list.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/path.h"
#include "lib/base/text.h"
#include "lib/coll/agreement/agree_wire.h"

#define MODE_BITS   0777u
#define MODE_SPARSE 0x4000u
#define MODE_LINKED 0x2000u
#define ENTRY_BYTES 14 /* of the shortest */
#define RANGE_BYTES 16

enum { NAMES_NONE, NAMES_FLAT, NAMES_TREE };
enum entries { FILES, FOLDERS, LINKS };

static void release_files(struct listed_file *files, int n)
{
	for (int i = 0; i < n; i++) {
		free(files[i].name);
		free(files[i].target);
		sparse_release(&files[i].data);
	}
	free(files);
}

void file_list_release(struct file_list *l)
{
	release_files(l->files, l->nfiles);
	release_files(l->folders, l->nfolders);
	release_files(l->links, l->nlinks);
	*l = (struct file_list){0};
}

static uint64_t memory_of(const struct listed_file *files, int n)
{
	uint64_t bytes = 0;
	for (int i = 0; i < n; i++)
		bytes += sizeof *files + strlen(files[i].name) +
		         (files[i].target ? strlen(files[i].target) : 0) +
		         files[i].data.n * sizeof *files[i].data.range;
	return bytes;
}

uint64_t file_list_memory(const struct file_list *l)
{
	return memory_of(l->files, l->nfiles) + memory_of(l->folders, l->nfolders) +
	       memory_of(l->links, l->nlinks);
}

/* ---- out ---- */

static void put_data(struct buf *b, const struct listed_file *f)
{
	if (f->linked) {
		buf_put_u32(b, (uint32_t)f->to);
		return;
	}
	buf_put_u64(b, f->bytes);
	if (!f->data.sparse)
		return;
	buf_put_u32(b, (uint32_t)f->data.n);
	for (size_t i = 0; i < f->data.n; i++) {
		buf_put_u64(b, f->data.range[i].offset);
		buf_put_u64(b, f->data.range[i].bytes);
	}
}

/* Names are sorted. A name is encoded as the length of the prefix that it shares with the previous
 * name, and the rest. */
static void put_files(struct buf *b, const struct listed_file *files, int n, enum entries kind)
{
	const char *before = "";
	for (int i = 0; i < n; i++) {
		const struct listed_file *f = &files[i];
		size_t same = 0;
		while (same < UINT16_MAX && before[same] && before[same] == f->name[same])
			same++;
		buf_put_u16(b, (uint16_t)same);
		buf_put_str(b, f->name + same);
		buf_put_u16(b, (uint16_t)((f->mode & (MODE_BITS | MODE_NONE)) |
		                          (f->data.sparse ? MODE_SPARSE : 0) |
		                          (f->linked ? MODE_LINKED : 0)));
		buf_put_u64(b, (uint64_t)f->mtime);
		if (kind == FILES)
			put_data(b, f);
		else if (kind == LINKS)
			buf_put_str(b, f->target);
		before = f->name;
	}
}

void file_list_put(struct buf *b, const struct file_list *l)
{
	buf_put_u8(b, l->format->number);
	buf_put_u8(b, l->tree ? NAMES_TREE : l->folder ? NAMES_FLAT : NAMES_NONE);
	buf_put_u32(b, (uint32_t)l->nfolders);
	put_files(b, l->folders, l->nfolders, FOLDERS);
	buf_put_u32(b, (uint32_t)l->nfiles);
	put_files(b, l->files, l->nfiles, FILES);
	buf_put_u32(b, (uint32_t)l->nlinks);
	put_files(b, l->links, l->nlinks, LINKS);
}

/* ---- in ---- */

static int check_name(const char *name, int names, enum entries kind, struct err *err)
{
	if (names != NAMES_TREE)
		return path_check_plain(name, ERR_DISAGREE, err);
	return kind == FOLDERS && !*name ? 0 : path_check_below(name, ERR_DISAGREE, err);
}

/* Decode a name, given the previous one in @name, and store it there. */
static int get_name(struct view *v, char name[PATH_MAX], struct err *err)
{
	size_t same = view_u16(v), n = view_u16(v);
	const uint8_t *rest = view_bytes(v, n);
	if (!rest || same > strlen(name) || n >= PATH_MAX - same || memchr(rest, '\0', n))
		return malformed(err, WIRE_BOTH, "name");
	memcpy(name + same, rest, n);
	name[same + n] = '\0';
	return 0;
}

/* Decode the data of a sparse file. *ranges: those of earlier files. */
static int get_ranges(struct view *v, struct listed_file *f, size_t *ranges, struct err *err)
{
	const size_t n = view_u32(v);
	uint64_t end = 0, sum = 0;
	if (v->failed || n > view_left(v) / RANGE_BYTES || n > FILE_LIST_RANGES_MAX - *ranges)
		return malformed(err, WIRE_BOTH, "holes");
	*ranges += n;
	f->data.sparse = true;
	if (!(f->data.range = err_calloc(n + 1, sizeof *f->data.range, "the holes", err)))
		return -1;
	for (f->data.n = 0; f->data.n < n; f->data.n++) {
		struct file_range *r = &f->data.range[f->data.n];
		*r = (struct file_range){view_u64(v), 0};
		r->bytes = view_u64(v);
		if (!r->bytes || r->offset > f->bytes || r->bytes > f->bytes - r->offset ||
		    (f->data.n && r->offset <= end))
			return malformed(err, WIRE_BOTH, "holes");
		end = r->offset + r->bytes;
		sum += r->bytes;
	}
	return sum < f->bytes ? 0 : malformed(err, WIRE_BOTH, "holes");
}

/* Decode what follows the time of @out[i]. */
static int get_data(struct view *v, struct listed_file *out, uint32_t i, unsigned flags, int names,
                    size_t *ranges, struct err *err)
{
	struct listed_file *f = &out[i];
	f->linked = flags & MODE_LINKED;
	if (!f->linked) {
		f->bytes = view_u64(v);
		return flags & MODE_SPARSE ? get_ranges(v, f, ranges, err) : 0;
	}
	const uint32_t to = view_u32(v);
	if (v->failed || (flags & MODE_SPARSE) || names != NAMES_TREE || to >= i || out[to].linked)
		return malformed(err, WIRE_BOTH, "link");
	f->to = (int)to;
	return 0;
}

static int get_target(struct view *v, struct listed_file *f, struct err *err)
{
	const size_t n = view_u16(v);
	const uint8_t *target = view_bytes(v, n);
	if (!target || n >= PATH_MAX || memchr(target, '\0', n))
		return malformed(err, WIRE_BOTH, "link");
	if (!(f->target = err_strndup((const char *)target, n, "a path", err)))
		return -1;
	return path_check_link(f->name, f->target, ERR_DISAGREE, err);
}

/* Fill @out with @n entries. *count: the number of entries filled, also on failure. */
static int get_files(struct view *v, int names, enum entries kind, struct listed_file *out,
                     uint32_t n, int *count, struct err *err)
{
	char name[PATH_MAX] = "";
	uint64_t sum = 0, text = 0;
	size_t ranges = 0;
	for (uint32_t i = 0; i < n; i++) {
		struct listed_file *f = &out[i];
		if (get_name(v, name, err) < 0)
			return -1;
		text += strlen(name);
		if (check_name(name, names, kind, err) < 0)
			return -1;
		if (text > FILE_LIST_NAMES_MAX)
			return malformed(err, WIRE_BOTH, "names");
		f->name = err_strdup(name, "a file name", err);
		if (!f->name)
			return -1;
		++*count;
		const unsigned mode = view_u16(v);
		f->mode = mode & ~(kind == FILES ? MODE_SPARSE | MODE_LINKED : 0);
		f->mtime = (int64_t)view_u64(v);
		if (kind == FILES && get_data(v, out, i, mode, names, &ranges, err) < 0)
			return -1;
		if (kind == LINKS && get_target(v, f, err) < 0)
			return -1;
		if (v->failed || (f->mode > MODE_BITS && f->mode != MODE_NONE) ||
		    __builtin_add_overflow(sum, f->bytes, &sum) || sum > INT64_MAX)
			return malformed(err, WIRE_BOTH, "file");
	}
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int file_list_twice(const struct file_list *l, const char **twice, struct err *err)
{
	size_t n = 0;
	const char **names =
	        err_calloc((size_t)l->nfiles + (size_t)l->nfolders + (size_t)l->nlinks + 1,
	                   sizeof *names, "file names", err);
	*twice = NULL;
	if (!names)
		return -1;
	for (int i = 0; i < l->nfiles; i++)
		names[n++] = l->files[i].name;
	for (int i = 0; i < l->nfolders; i++)
		names[n++] = l->folders[i].name;
	for (int i = 0; i < l->nlinks; i++)
		names[n++] = l->links[i].name;
	qsort(names, n, sizeof *names, compare_names);
	for (size_t i = 1; i < n && !*twice; i++)
		if (strcmp(names[i - 1], names[i]) == 0)
			*twice = names[i];
	free(names);
	return 0;
}

static int all_differ(const struct file_list *l, struct err *err)
{
	const char *twice;
	if (file_list_twice(l, &twice, err) < 0)
		return -1;
	return twice ? malformed(err, WIRE_BOTH, "name") : 0;
}

/* Is one of the folders in which @name lies one of the @n links, which are sorted? */
static int check_folders(const char *name, const char *const *links, size_t n, struct err *err)
{
	char folder[PATH_MAX], shown[300];
	for (const char *p = name; (p = strchr(p, '/')); p++) {
		const char *key = folder;
		memcpy(folder, name, (size_t)(p - name));
		folder[p - name] = '\0';
		if (bsearch(&key, links, n, sizeof *links, compare_names))
			return err_set(err, ERR_DISAGREE,
			               "'%s' lies below a symbolic link of the same list",
			               text_escape(shown, sizeof shown, name));
	}
	return 0;
}

static int check_below_links(const struct listed_file *files, int nfiles, const char *const *links,
                             size_t n, struct err *err)
{
	for (int i = 0; i < nfiles; i++)
		if (check_folders(files[i].name, links, n, err) < 0)
			return -1;
	return 0;
}

/* No name may lead through a link. */
static int check_links(const struct file_list *l, struct err *err)
{
	const size_t n = (size_t)l->nlinks;
	const char **links = n ? err_calloc(n, sizeof *links, "file names", err) : NULL;
	if (!links)
		return n ? -1 : 0;
	for (size_t i = 0; i < n; i++)
		links[i] = l->links[i].name;
	qsort(links, n, sizeof *links, compare_names);
	int ret = check_below_links(l->files, l->nfiles, links, n, err);
	if (ret == 0)
		ret = check_below_links(l->folders, l->nfolders, links, n, err);
	if (ret == 0)
		ret = check_below_links(l->links, l->nlinks, links, n, err);
	free(links);
	return ret;
}

/* Decode a list and its length. */
static int get_list(struct view *v, int names, enum entries kind, struct listed_file **files,
                    int *count, struct err *err)
{
	uint32_t n = view_u32(v);
	if (v->failed || n > view_left(v) / ENTRY_BYTES)
		return malformed(err, WIRE_BOTH, "files");
	*files = err_calloc((size_t)n + 1, sizeof **files, "the root's files", err);
	if (!*files)
		return -1;
	return get_files(v, names, kind, *files, n, count, err);
}

int file_list_get(struct view *v, struct file_list *l, struct err *err)
{
	*l = (struct file_list){0};
	const struct format *format = format_by_number(view_u8(v));
	unsigned names = view_u8(v);
	if (v->failed || !format || names > NAMES_TREE)
		return malformed(err, WIRE_BOTH, "files");
	l->format = format;
	l->folder = names != NAMES_NONE;
	l->tree = names == NAMES_TREE;
	if (get_list(v, (int)names, FOLDERS, &l->folders, &l->nfolders, err) == 0 &&
	    get_list(v, (int)names, FILES, &l->files, &l->nfiles, err) == 0 &&
	    get_list(v, (int)names, LINKS, &l->links, &l->nlinks, err) == 0 &&
	    all_differ(l, err) == 0 && check_links(l, err) == 0) {
		if (l->tree ||
		    (!l->nfolders && !l->nlinks && l->nfiles > 0 && (l->folder || l->nfiles == 1)))
			return 0;
		malformed(err, WIRE_BOTH, "files");
	}
	file_list_release(l);
	return -1;
}

/* ---- gathered files ---- */

void rank_files_release(struct rank_files *s)
{
	file_list_release(&s->files);
}

void rank_files_put(struct buf *b, const struct rank_files *s)
{
	buf_put_str(b, s->host);
	file_list_put(b, &s->files);
}

/* Is it a folder, with its top, for one vector, or a file for each of @n? */
static int check_gathered(const struct file_list *l, int n, struct err *err)
{
	if (l->nfolders ? n != 1 || *l->folders[0].name : l->nfiles != n || l->nlinks)
		return malformed(err, WIRE_BOTH, "source");
	for (int i = 0; i < l->nfiles && !l->nfolders; i++)
		if (strchr(l->files[i].name, '/')) /* says why */
			return path_check_plain(l->files[i].name, ERR_DISAGREE, err);
	return 0;
}

int rank_files_get(struct view *v, struct rank_files *s, int n, struct err *err)
{
	*s = (struct rank_files){0};
	if (host_name_get(v, s->host, err) < 0)
		return -1;
	if (v->failed || !*s->host)
		return malformed(err, WIRE_BOTH, "source");
	if (file_list_get(v, &s->files, err) < 0)
		return -1;
	if (check_gathered(&s->files, n, err) == 0)
		return 0;
	rank_files_release(s);
	return -1;
}

/* ---- gather --update ---- */

uint64_t file_list_bytes(const struct file_list *l, int i)
{
	uint64_t n = 0;
	if (!l->nfolders)
		return l->files[i].equal ? 0 : l->files[i].bytes;
	for (int f = 0; f < l->nfiles; f++)
		n += listed_bytes(&l->files[f]);
	return n;
}

void file_list_put_equal(struct buf *b, const struct file_list *l, int n)
{
	const int nfiles = l->nfiles;
	for (int i = 0; i < n; i++)
		buf_put_u64(b, file_list_bytes(l, i));
	buf_put_u32(b, (uint32_t)nfiles);
	for (int f = 0; f < nfiles; f += 8) {
		uint8_t bits = 0;
		for (int k = 0; k < 8 && f + k < nfiles; k++)
			bits |= (uint8_t)(l->files[f + k].equal << k);
		buf_put_u8(b, bits);
	}
}

bool file_list_get_equal(struct view *v, struct file_list *l, int n)
{
	struct view bytes = *v;
	view_bytes(v, (size_t)n * sizeof(uint64_t));
	const uint32_t nfiles = view_u32(v);
	const uint8_t *bits = view_bytes(v, (nfiles + (size_t)7) / 8);
	if (!bits || nfiles != (uint32_t)l->nfiles)
		return false;
	for (uint32_t f = 0; f < nfiles; f++)
		l->files[f].equal = bits[f / 8] >> f % 8 & 1;
	for (int i = 0; i < n; i++)
		if (view_u64(&bytes) != file_list_bytes(l, i))
			return false;
	return true;
}
