#include "lib/data/torch/zip_directory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/data/files/input.h"

#define END_BYTES       22
#define END64_BYTES     56
#define LOCATOR_BYTES   20
#define CENTRAL_BYTES   46
#define LOCAL_BYTES     30
#define COMMENT_MAX     65535
#define IN_ZIP64        UINT32_MAX /* a number that the zip64 field has */
#define EXTRA_ZIP64     1
#define METHOD_STORED   0
#define FLAG_ENCRYPTED  1u
#define SIGNATURE(a, b) ((uint32_t)('P' | 'K' << 8 | (a) << 16 | (b) << 24))

static int damaged(const char *path, const char *what, struct err *err)
{
	return err_set(err, ERR_INPUT, "%s: is a damaged zip archive: %s", path, what);
}

/* ---- the end of the archive: where the directory is ---- */

struct extent {
	uint64_t at, bytes, entries;
};

/* The last END record in the last @n bytes, whose comment ends with the file; NULL: there is none.
 */
static const uint8_t *find_end(const uint8_t *tail, size_t n)
{
	for (size_t i = n < END_BYTES ? 0 : n - END_BYTES + 1; i-- > 0;) {
		struct view v = view_of(tail + i, n - i);
		if (view_u32(&v) != SIGNATURE(5, 6))
			continue;
		view_bytes(&v, END_BYTES - 6);
		if (view_u16(&v) == view_left(&v))
			return tail + i;
	}
	return NULL;
}

/* The directory by the zip64 records before the END record at @end of the file. */
static int read_end64(int fd, const char *path, uint64_t base, uint64_t end, struct extent *d,
                      struct err *err)
{
	uint8_t bytes[END64_BYTES];
	if (end < LOCATOR_BYTES)
		return damaged(path, "it has no zip64 locator", err);
	if (input_pread(fd, path, bytes, LOCATOR_BYTES, base + end - LOCATOR_BYTES, err))
		return -1;
	struct view v = view_of(bytes, LOCATOR_BYTES);
	bool found = view_u32(&v) == SIGNATURE(6, 7);
	view_u32(&v);
	const uint64_t at = view_u64(&v);
	if (!found || at > end || end - at < END64_BYTES)
		return damaged(path, "it has no zip64 locator", err);
	if (input_pread(fd, path, bytes, END64_BYTES, base + at, err))
		return -1;
	v = view_of(bytes, END64_BYTES);
	found = view_u32(&v) == SIGNATURE(6, 6);
	view_bytes(&v, 28); /* its length, versions, disks, entries of this disk */
	d->entries = view_u64(&v);
	d->bytes = view_u64(&v);
	d->at = view_u64(&v);
	return found ? 0 : damaged(path, "it has no zip64 end", err);
}

static int find_directory(int fd, const char *path, uint64_t base, uint64_t size, struct extent *d,
                          struct err *err)
{
	const size_t n = size < END_BYTES + COMMENT_MAX ? (size_t)size : END_BYTES + COMMENT_MAX;
	uint8_t *tail = err_malloc(n + 1, "the end of an archive", err);
	if (!tail)
		return -1;
	int ret = input_pread(fd, path, tail, n, base + size - n, err);
	const uint8_t *end = ret ? NULL : find_end(tail, n);
	if (ret == 0 && !end)
		ret = damaged(path, "it has no directory at its end, as a file that was cut short",
		              err);
	if (ret == 0) {
		const uint64_t at = size - n + (uint64_t)(end - tail);
		struct view v = view_of(end, END_BYTES);
		view_bytes(&v, 10);
		d->entries = view_u16(&v);
		d->bytes = view_u32(&v);
		d->at = view_u32(&v);
		if (d->entries == UINT16_MAX || d->bytes == IN_ZIP64 || d->at == IN_ZIP64)
			ret = read_end64(fd, path, base, at, d, err);
		if (ret == 0 && (d->at > at || d->bytes > at - d->at))
			ret = damaged(path, "its directory does not end before its end", err);
	}
	free(tail);
	return ret;
}

/* ---- the directory ---- */

/* Take the numbers that are too large for the entry from its zip64 field. */
static bool read_extra(struct view extra, struct zip_entry *e, uint64_t *packed)
{
	while (view_left(&extra) >= 4) {
		const uint16_t id = view_u16(&extra), len = view_u16(&extra);
		const uint8_t *p = view_bytes(&extra, len);
		if (!p)
			return false;
		if (id != EXTRA_ZIP64)
			continue;
		struct view v = view_of(p, len);
		if (e->bytes == IN_ZIP64)
			e->bytes = view_u64(&v);
		if (*packed == IN_ZIP64)
			*packed = view_u64(&v);
		if (e->header == IN_ZIP64)
			e->header = view_u64(&v);
		return !v.failed;
	}
	return true;
}

/* Read one entry, and move its name to *@names, which is before the entry in the same memory. */
static bool read_entry(struct view *v, struct zip_entry *e, char **names)
{
	const bool found = view_u32(v) == SIGNATURE(1, 2);
	view_u32(v); /* versions */
	const unsigned flags = view_u16(v), method = view_u16(v);
	view_bytes(v, 8); /* time, date, checksum */
	uint64_t packed = view_u32(v);
	e->bytes = view_u32(v);
	const uint16_t name = view_u16(v), extra = view_u16(v), comment = view_u16(v);
	view_bytes(v, 8); /* disk, attributes */
	e->header = view_u32(v);
	const uint8_t *name_at = view_bytes(v, name), *extra_at = view_bytes(v, extra);
	view_bytes(v, comment);
	if (!found || v->failed || memchr(name_at, '\0', name) ||
	    !read_extra(view_of(extra_at, extra), e, &packed))
		return false;
	e->stored = method == METHOD_STORED && !(flags & FLAG_ENCRYPTED) && packed == e->bytes;
	e->name = *names;
	memmove(*names, name_at, name);
	(*names)[name] = '\0';
	*names += name + 1;
	return true;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct zip_entry *)a)->name, ((const struct zip_entry *)b)->name);
}

static int parse(struct zip_directory *z, size_t len, const char *path, struct err *err)
{
	struct view v = view_of(z->names, len);
	char *names = z->names;
	for (size_t i = 0; i < z->n; i++)
		if (!read_entry(&v, &z->entries[i], &names))
			return damaged(path, "its directory is malformed", err);
	qsort(z->entries, z->n, sizeof *z->entries, by_name);
	for (size_t i = 1; i < z->n; i++)
		if (by_name(&z->entries[i - 1], &z->entries[i]) == 0)
			return err_set(err, ERR_INPUT, "%s: has two entries '%.200s'", path,
			               z->entries[i].name);
	return 0;
}

int zip_directory_read(struct zip_directory *z, int fd, const char *path, uint64_t at,
                       uint64_t size, struct err *err)
{
	struct extent d;
	*z = (struct zip_directory){.at = at};
	if (find_directory(fd, path, at, size, &d, err))
		return -1;
	if (d.bytes > ZIP_DIRECTORY_MAX)
		return err_set(err, ERR_INPUT,
		               "%s: its directory has %" PRIu64 " bytes: the limit is %u", path,
		               d.bytes, ZIP_DIRECTORY_MAX);
	if (d.entries > d.bytes / CENTRAL_BYTES)
		return damaged(path, "its directory is too short for its entries", err);
	z->n = (size_t)d.entries;
	z->begins = d.at;
	z->entries = err_calloc(z->n + 1, sizeof *z->entries, "the entries of an archive", err);
	z->names = err_malloc((size_t)d.bytes + 1, "the entries of an archive", err);
	if (!z->entries || !z->names ||
	    input_pread(fd, path, z->names, (size_t)d.bytes, at + d.at, err) ||
	    parse(z, (size_t)d.bytes, path, err)) {
		zip_directory_release(z);
		return -1;
	}
	return 0;
}

void zip_directory_release(struct zip_directory *z)
{
	free(z->entries);
	free(z->names);
	*z = (struct zip_directory){0};
}

const struct zip_entry *zip_directory_find(const struct zip_directory *z, const char *name)
{
	const struct zip_entry wanted = {.name = name};
	return z->n ? bsearch(&wanted, z->entries, z->n, sizeof wanted, by_name) : NULL;
}

int zip_entry_offset(const struct zip_directory *z, const struct zip_entry *e, int fd,
                     const char *path, uint64_t *offset, struct err *err)
{
	uint8_t header[LOCAL_BYTES];
	if (!e->stored)
		return err_set(
		        err, ERR_INPUT,
		        "%s: its entry '%.200s' is compressed or encrypted: torch.save writes "
		        "stored entries; save it again, or unpack and pack it by zip -0",
		        path, e->name);
	if (e->header > z->begins || z->begins - e->header < LOCAL_BYTES)
		return damaged(path, "an entry lies in its directory", err);
	if (input_pread(fd, path, header, sizeof header, z->at + e->header, err))
		return -1;
	struct view v = view_of(header, sizeof header);
	const bool found = view_u32(&v) == SIGNATURE(3, 4);
	view_bytes(&v, 22);
	const uint16_t name = view_u16(&v), extra = view_u16(&v);
	if (!found || name != strlen(e->name))
		return damaged(path, "an entry is not where its directory says", err);
	const uint64_t begins = e->header + LOCAL_BYTES + name + extra;
	*offset = z->at + begins;
	if (begins > z->begins || e->bytes > z->begins - begins)
		return err_set(err, ERR_INPUT,
		               "%s: its entry '%.200s' does not end before the directory", path,
		               e->name);
	return 0;
}
