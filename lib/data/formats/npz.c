#include "lib/data/formats/npz.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zip.h>

#include "lib/base/io.h"
#include "lib/base/library.h"
#include "lib/base/offload.h"
#include "lib/base/units.h"
#include "lib/data/files/input.h"
#include "lib/data/files/spool.h"
#include "lib/data/formats/array.h"

#define SUFFIX ".npy"
#define CHUNK  (256u << 10)

/* ---- libzip ---- */

#define ZIP_FUNCTIONS(X)              \
	X(libzip_version)             \
	X(source_function)            \
	X(source_function_create)     \
	X(source_free)                \
	X(source_make_command_bitmap) \
	X(source_seek_compute_offset) \
	X(error_init)                 \
	X(error_set)                  \
	X(error_strerror)             \
	X(error_to_data)              \
	X(error_fini)                 \
	X(error_code_zip)             \
	X(get_error)                  \
	X(file_get_error)             \
	X(open_from_source)           \
	X(discard)                    \
	X(close)                      \
	X(strerror)                   \
	X(get_num_entries)            \
	X(stat_index)                 \
	X(name_locate)                \
	X(fopen_index)                \
	X(fread)                      \
	X(fclose)                     \
	X(file_strerror)              \
	X(file_add)                   \
	X(set_file_compression)       \
	X(file_set_dostime)

/* The members have libzip's own types, so that calls are checked by the compiler. */
#define X(name) __typeof__(zip_##name) *name;
static struct {
	ZIP_FUNCTIONS(X)
} zip;
#undef X

#define X(name) {#name, &zip.name, LIBRARY_LINKED(zip_##name)},
LIBRARY(libzip, "npz", "for .npz", "libzip4", "zip_", ZIP_FUNCTIONS(X), NULL, "libzip.so.4",
        "libzip.so.5");
#undef X

const char *npz_library(void)
{
	return library_open(&libzip, NULL) < 0 ? NULL : zip.libzip_version();
}

/* ---- a source for libzip that reads a range of a file ---- */

struct range {
	int fd;
	uint64_t at, bytes; /* in the file */
	uint64_t pos;       /* position of the next read in the range */
	zip_error_t error;
	struct err why;
};

static zip_int64_t range_read(struct range *r, void *buf, zip_uint64_t len)
{
	uint64_t n = r->bytes - r->pos < len ? r->bytes - r->pos : len;
	if (offload_stopped(&r->why) ||
	    input_pread(r->fd, "the archive's bytes", buf, (size_t)n, r->at + r->pos, &r->why)) {
		zip.error_set(&r->error, ZIP_ER_READ, errno);
		return -1;
	}
	r->pos += n;
	return (zip_int64_t)n;
}

static zip_int64_t range_call(void *ctx, void *data, zip_uint64_t len, zip_source_cmd_t cmd)
{
	struct range *r = ctx;
	zip_int64_t to;
	switch (cmd) {
	case ZIP_SOURCE_OPEN:
		r->pos = 0;
		return 0;
	case ZIP_SOURCE_READ:
		return range_read(r, data, len);
	case ZIP_SOURCE_SEEK:
		to = zip.source_seek_compute_offset(r->pos, r->bytes, data, len, &r->error);
		if (to < 0)
			return -1;
		r->pos = (uint64_t)to;
		return 0;
	case ZIP_SOURCE_TELL:
		return (zip_int64_t)r->pos;
	case ZIP_SOURCE_STAT:
		*(zip_stat_t *)data = (zip_stat_t){.valid = ZIP_STAT_SIZE, .size = r->bytes};
		return sizeof(zip_stat_t);
	case ZIP_SOURCE_ERROR:
		return zip.error_to_data(&r->error, data, len);
	case ZIP_SOURCE_CLOSE:
	case ZIP_SOURCE_FREE:
		return 0;
	case ZIP_SOURCE_SUPPORTS:
		return zip.source_make_command_bitmap(
		        ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_SEEK, ZIP_SOURCE_TELL,
		        ZIP_SOURCE_STAT, ZIP_SOURCE_ERROR, ZIP_SOURCE_CLOSE, ZIP_SOURCE_FREE, -1);
	default:
		zip.error_set(&r->error, ZIP_ER_OPNOTSUPP, 0);
		return -1;
	}
}

static void range_init(struct range *r, int fd, uint64_t at, uint64_t bytes)
{
	*r = (struct range){.fd = fd, .at = at, .bytes = bytes};
	zip.error_init(&r->error);
}

/* @code, or ERR_RESOURCE if memory ran out, which libzip sometimes reports only by errno. */
static int code_of(zip_error_t *error, int code)
{
	return zip.error_code_zip(error) == ZIP_ER_MEMORY || errno == ENOMEM ? ERR_RESOURCE : code;
}

static zip_t *open_archive(zip_source_callback call, void *ctx, int flags, int code,
                           const char *path, struct err *err)
{
	zip_error_t error;
	zip_t *za = NULL;
	zip.error_init(&error);
	errno = 0;
	zip_source_t *source = zip.source_function_create(call, ctx, &error);
	if (source)
		za = zip.open_from_source(source, flags, &error);
	if (!za) {
		if (source)
			zip.source_free(source);
		code = code_of(&error, code);
		err_set(err, code, "%s: cannot open the archive: %s", path,
		        code == ERR_RESOURCE ? "out of memory" : zip.error_strerror(&error));
	}
	zip.error_fini(&error);
	return za;
}

/* ---- unpacking ---- */

struct unpack {
	zip_t *za;
	const char *path;
	int spool;
	bool heads_only;
	uint64_t most; /* bytes that the members may have together */
	uint64_t end;  /* end of the spool */
	char *buf;     /* [CHUNK] */
	int (*member)(void *ctx, const char *name, uint64_t offset, uint64_t bytes,
	              struct err *err);
	void *ctx;
};

static int tell_member(const struct unpack *u, const zip_stat_t *st, struct err *err)
{
	char *name = err_strndup(st->name, strlen(st->name) - strlen(SUFFIX), "a name", err);
	int ret = name ? u->member(u->ctx, name, u->end, st->size, err) : -1;
	free(name);
	return ret;
}

/* Copy the member to the spool and check that it has its declared length; its header decides before
 * the rest is unpacked. Reads up to the end of the member, because libzip compares the checksum
 * there. */
static int copy_out(const struct unpack *u, const zip_stat_t *st, zip_file_t *file, struct err *err)
{
	uint64_t done = 0;
	bool told = false;
	for (;;) {
		if (offload_stopped(err))
			return -1;
		errno = 0;
		zip_int64_t n = zip.fread(file, u->buf, CHUNK);
		if (n < 0)
			return err_set(err, code_of(zip.file_get_error(file), ERR_INPUT),
			               "%s: member '%.200s': %s", u->path, st->name,
			               zip.file_strerror(file));
		if ((uint64_t)n > st->size - done || (n == 0 && done < st->size))
			return err_set(err, ERR_INPUT,
			               "%s: member '%.200s': holds %s bytes than the %" PRIu64
			               " that it declares",
			               u->path, st->name, n ? "more" : "fewer", st->size);
		if (n == 0)
			return told ? 0 : tell_member(u, st, err);
		if (pwrite_all(u->spool, u->buf, (size_t)n, u->end + done))
			return err_errno(err, ERR_RESOURCE,
			                 "%s: the spool of '%.200s', %" PRIu64 " bytes",
			                 spool_folder(), st->name, st->size);
		done += (uint64_t)n;
		if (told || done < ARRAY_HEADER_MAX)
			continue;
		if (tell_member(u, st, err) < 0)
			return -1;
		told = true;
		if (u->heads_only)
			return 0;
	}
}

static int unpack_member(const struct unpack *u, zip_uint64_t i, const zip_stat_t *st,
                         struct err *err)
{
	errno = 0;
	zip_file_t *file = zip.fopen_index(u->za, i, 0);
	if (!file)
		return err_set(err, code_of(zip.get_error(u->za), ERR_INPUT),
		               "%s: member '%.200s': %s", u->path, st->name, zip.strerror(u->za));
	int ret = copy_out(u, st, file, err);
	zip.fclose(file);
	return ret;
}

/* Would a program that unpacks the archive into a folder write @name elsewhere? */
static bool leaves(const char *name)
{
	bool up = *name == '/';
	for (const char *p = name; *p; p += strcspn(p, "/")) {
		p += strspn(p, "/");
		up |= strcspn(p, "/") == 2 && memcmp(p, "..", 2) == 0;
	}
	return up;
}

/* Check that the member is an array that can be unpacked. */
static int check_member(const struct unpack *u, zip_uint64_t i, zip_stat_t *st, struct err *err)
{
	const zip_uint64_t need = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_ENCRYPTION_METHOD;
	errno = 0;
	if (zip.stat_index(u->za, i, 0, st) || (st->valid & need) != need)
		return err_set(err, code_of(zip.get_error(u->za), ERR_INPUT),
		               "%s: member %" PRIu64 " is damaged: %s", u->path, (uint64_t)i,
		               zip.strerror(u->za));
	size_t n = strlen(st->name);
	if (n < strlen(SUFFIX) || strcmp(st->name + n - strlen(SUFFIX), SUFFIX) != 0)
		return err_set(err, ERR_INPUT, "%s: member '%.200s' is not a .npy file", u->path,
		               st->name);
	if (leaves(st->name))
		return err_set(err, ERR_INPUT,
		               "%s: member '%.200s' leaves the archive: expected a relative path, "
		               "without '..'",
		               u->path, st->name);
	if (st->encryption_method != ZIP_EM_NONE)
		return err_set(err, ERR_INPUT, "%s: member '%.200s' is encrypted", u->path,
		               st->name);
	if (zip.name_locate(u->za, st->name, 0) != (zip_int64_t)i)
		return err_set(err, errno == ENOMEM ? ERR_RESOURCE : ERR_INPUT,
		               "%s: member '%.200s' appears twice", u->path, st->name);
	if (st->size > INT64_MAX - u->end)
		return err_set(err, ERR_INPUT, "%s: member '%.200s' is too large", u->path,
		               st->name);
	return 0;
}

/* Check all members and the bytes that they have together. */
static int check_all(struct unpack *u, zip_int64_t n, struct err *err)
{
	zip_stat_t st;
	char expanded[UNITS_TEXT], most[UNITS_TEXT];
	for (zip_int64_t i = 0; i < n; i++) {
		if (check_member(u, (zip_uint64_t)i, &st, err))
			return -1;
		u->end += st.size;
	}
	if (u->end > u->most)
		return err_set(err, ERR_INPUT,
		               "%s: unpacks to %s: more than %d times its size and more than "
		               "--memory: the limit is %s; if that is right, give more --memory",
		               u->path, size_text(u->end, expanded), NPZ_EXPANDS,
		               size_text(u->most, most));
	u->end = 0;
	return 0;
}

static int unpack_all(struct unpack *u, struct err *err)
{
	zip_int64_t n = zip.get_num_entries(u->za, 0);
	zip_stat_t st;
	if (check_all(u, n, err))
		return -1;
	for (zip_int64_t i = 0; i < n; i++) {
		if (check_member(u, (zip_uint64_t)i, &st, err) ||
		    unpack_member(u, (zip_uint64_t)i, &st, err))
			return -1;
		u->end += st.size;
	}
	if (u->heads_only && io_retry(ftruncate(u->spool, (off_t)u->end)))
		return err_errno(err, ERR_RESOURCE, "%s: the spool", spool_folder());
	return 0;
}

int npz_unpack(int fd, const char *path, int spool, bool heads_only, uint64_t memory,
               int (*member)(void *ctx, const char *name, uint64_t offset, uint64_t bytes,
                             struct err *err),
               void *ctx, struct err *err)
{
	struct unpack u = {.path = path,
	                   .spool = spool,
	                   .heads_only = heads_only,
	                   .member = member,
	                   .ctx = ctx};
	struct range archive;
	struct stat st;
	if (library_open(&libzip, err))
		return -1;
	if (fstat(fd, &st))
		return err_errno(err, ERR_INPUT, "%s: cannot examine", path);
	if (st.st_size == 0) /* libzip would open it as an archive without members */
		return err_set(err, ERR_INPUT, "%s: cannot open the archive: the file is empty",
		               path);
	range_init(&archive, fd, 0, (uint64_t)st.st_size);
	if (__builtin_mul_overflow((uint64_t)st.st_size, (uint64_t)NPZ_EXPANDS, &u.most))
		u.most = UINT64_MAX;
	if (u.most < memory)
		u.most = memory;
	if (!(u.buf = err_malloc(CHUNK, "unpacking", err)))
		return -1;
	u.za = open_archive(range_call, &archive, ZIP_RDONLY, ERR_INPUT, path, err);
	int ret = u.za ? unpack_all(&u, err) : -1;
	if (u.za)
		zip.discard(u.za);
	free(u.buf);
	return ret;
}

/* ---- packing ---- */

/* A source for libzip that writes a file. */
struct output {
	int fd;
	uint64_t pos, end;
	zip_error_t error;
};

static zip_int64_t failed_write(struct output *o)
{
	zip.error_set(&o->error, ZIP_ER_WRITE, errno);
	return -1;
}

static zip_int64_t output_write(struct output *o, const void *data, zip_uint64_t len)
{
	if (pwrite_all(o->fd, data, (size_t)len, o->pos))
		return failed_write(o);
	o->pos += len;
	if (o->end < o->pos)
		o->end = o->pos;
	return (zip_int64_t)len;
}

static zip_int64_t output_call(void *ctx, void *data, zip_uint64_t len, zip_source_cmd_t cmd)
{
	struct output *o = ctx;
	zip_int64_t to;
	switch (cmd) {
	case ZIP_SOURCE_STAT: /* reports that no old archive exists */
		zip.error_set(&o->error, ZIP_ER_READ, ENOENT);
		return -1;
	case ZIP_SOURCE_WRITE:
		return output_write(o, data, len);
	case ZIP_SOURCE_SEEK_WRITE:
		to = zip.source_seek_compute_offset(o->pos, o->end, data, len, &o->error);
		if (to < 0)
			return -1;
		o->pos = (uint64_t)to;
		return 0;
	case ZIP_SOURCE_TELL_WRITE:
		return (zip_int64_t)o->pos;
	case ZIP_SOURCE_COMMIT_WRITE:
		return io_retry(ftruncate(o->fd, (off_t)o->end)) ? failed_write(o) : 0;
	case ZIP_SOURCE_ERROR:
		return zip.error_to_data(&o->error, data, len);
	case ZIP_SOURCE_OPEN: /* opens the old archive for reading; ZIP_TRUNCATE ignores it */
	case ZIP_SOURCE_CLOSE:
	case ZIP_SOURCE_BEGIN_WRITE:
	case ZIP_SOURCE_ROLLBACK_WRITE:
	case ZIP_SOURCE_FREE:
		return 0;
	case ZIP_SOURCE_SUPPORTS: /* includes reading, which libzip requires but does not use */
		return ZIP_SOURCE_SUPPORTS_WRITABLE;
	default:
		zip.error_set(&o->error, ZIP_ER_OPNOTSUPP, 0);
		return -1;
	}
}

/* Uncompressed, with the date that numpy gives its members. */
static int add_member(zip_t *za, struct range *r, const char *name)
{
	char *full;
	if (asprintf(&full, "%s" SUFFIX, name) < 0)
		return -1;
	zip_source_t *source = zip.source_function(za, range_call, r);
	zip_int64_t i = source ? zip.file_add(za, full, source, ZIP_FL_ENC_UTF_8) : -1;
	free(full);
	if (i < 0) {
		if (source)
			zip.source_free(source);
		return -1;
	}
	const zip_uint16_t new_year_1980 = 1 << 5 | 1;
	return zip.set_file_compression(za, (zip_uint64_t)i, ZIP_CM_STORE, 0) < 0 ||
	                       zip.file_set_dostime(za, (zip_uint64_t)i, 0, new_year_1980, 0) < 0
	               ? -1
	               : 0;
}

static int pack(zip_t *za, struct range *ranges, int spool, const struct npz_member *members,
                size_t n, struct err *err)
{
	for (size_t i = 0; i < n; i++) {
		range_init(&ranges[i], spool, members[i].offset, members[i].bytes);
		errno = 0;
		if (add_member(za, &ranges[i], members[i].name))
			return err_set(err, code_of(zip.get_error(za), ERR_OUTPUT),
			               "member '%.200s': %s", members[i].name, zip.strerror(za));
	}
	errno = 0;
	if (zip.close(za) == 0)
		return 0;
	for (size_t i = 0; i < n; i++)
		if (ranges[i].why.code)
			return err_set(err, ERR_OUTPUT, "cannot read member '%.200s': %s",
			               members[i].name, ranges[i].why.text);
	return err_set(err, code_of(zip.get_error(za), ERR_OUTPUT), "cannot write the archive: %s",
	               zip.strerror(za));
}

/* libzip does not write an archive without members: such an archive is only the end record. */
static int pack_nothing(int fd, struct err *err)
{
	static const char end[22] = "PK\x05\x06";
	if (pwrite_all(fd, end, sizeof end, 0) || io_retry(ftruncate(fd, sizeof end)))
		return err_errno(err, ERR_OUTPUT, "cannot write the archive");
	return 0;
}

int npz_pack(int spool, const struct npz_member *members, size_t n, int fd, struct err *err)
{
	struct output out = {.fd = fd};
	if (n == 0)
		return pack_nothing(fd, err);
	if (library_open(&libzip, err))
		return -1;
	zip.error_init(&out.error);
	struct range *ranges = err_calloc(n, sizeof *ranges, "an archive's members", err);
	if (!ranges)
		return -1;
	zip_t *za = open_archive(output_call, &out, ZIP_CREATE, ERR_OUTPUT, "the output", err);
	int ret = za ? pack(za, ranges, spool, members, n, err) : -1;
	if (za && ret)
		zip.discard(za);
	free(ranges);
	return ret;
}
