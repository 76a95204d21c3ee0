/* .npz: archives that are packed and unpacked again, that numpy reads and wrote, and that lie. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/buf.h"
#include "lib/base/io.h"
#include "lib/data/dataset/dataset.h"
#include "lib/data/files/spool.h"
#include "lib/data/formats/npz.h"
#include "tests/unit/unit.h"

static char folder[] = "/tmp/test_npz.XXXXXX";

static int into_folder(void **state)
{
	signal(SIGXFSZ, SIG_IGN);
	return mkdtemp(folder) && !chdir(folder) ? 0 : -1;
}

static int out_of_folder(void **state)
{
	char command[64];
	snprintf(command, sizeof command, "rm -rf %s", folder);
	return chdir("/") || system(command);
}

/* ---- archives, byte by byte ---- */

struct entry {
	const char *name, *data;
	size_t len;
	bool deflated; /* by one block that is stored */
	/* What the entry says of itself, where that is not so. */
	uint32_t size_off, crc_off;
	uint16_t flags, method;
};

static uint32_t crc_of(const void *data, size_t len)
{
	const uint8_t *p = data;
	uint32_t crc = ~0u;
	for (size_t i = 0; i < len; i++) {
		crc ^= p[i];
		for (int k = 0; k < 8; k++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
	}
	return ~crc;
}

/* The fields that the local and the central header share, from flags to lengths. */
static void put_fields(struct buf *b, const struct entry *e)
{
	size_t packed = e->len + (e->deflated ? 5 : 0);
	buf_put_u16(b, e->flags);
	buf_put_u16(b, e->deflated ? 8 : e->method);
	buf_put_u32(b, 0x00210000);
	buf_put_u32(b, crc_of(e->data, e->len) + e->crc_off);
	buf_put_u32(b, (uint32_t)packed);
	buf_put_u32(b, (uint32_t)e->len + e->size_off);
	buf_put_u16(b, (uint16_t)strlen(e->name));
	buf_put_u16(b, 0);
}

static void put_local(struct buf *b, const struct entry *e)
{
	buf_put(b, "PK\3\4\24\0", 6);
	put_fields(b, e);
	buf_put(b, e->name, strlen(e->name));
	if (e->deflated) {
		buf_put_u8(b, 1);
		buf_put_u16(b, (uint16_t)e->len);
		buf_put_u16(b, (uint16_t)~e->len);
	}
	buf_put(b, e->data, e->len);
}

static void put_central(struct buf *b, const struct entry *e, size_t at)
{
	buf_put(b, "PK\1\2\24\0\24\0", 8);
	put_fields(b, e);
	buf_put(b, "\0\0\0\0\0\0\0\0\0", 10);
	buf_put_u32(b, (uint32_t)at);
	buf_put(b, e->name, strlen(e->name));
}

static void put_archive(const char *path, const struct entry *e, int n)
{
	struct buf b;
	size_t at[8];
	buf_init(&b, 1 << 20);
	for (int i = 0; i < n; i++) {
		at[i] = b.len;
		put_local(&b, &e[i]);
	}
	size_t central = b.len;
	for (int i = 0; i < n; i++)
		put_central(&b, &e[i], at[i]);
	size_t end = b.len;
	buf_put(&b, "PK\5\6\0\0\0\0", 8);
	buf_put_u16(&b, (uint16_t)n);
	buf_put_u16(&b, (uint16_t)n);
	buf_put_u32(&b, (uint32_t)(end - central));
	buf_put_u32(&b, (uint32_t)central);
	buf_put_u16(&b, 0);
	assert_false(b.failed);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_int_equal(write(fd, b.data, b.len), b.len);
	close(fd);
	buf_release(&b);
}

/* ---- unpacking ---- */

struct found {
	int spool;
	char text[4096]; /* "name=data " of each */
};

static int take(void *ctx, const char *name, uint64_t offset, uint64_t bytes, struct err *err)
{
	struct found *f = ctx;
	char data[256] = "";
	(void)err;
	assert_true(bytes < sizeof data);
	assert_int_equal(pread(f->spool, data, bytes, (off_t)offset), bytes);
	size_t n = strlen(f->text);
	snprintf(f->text + n, sizeof f->text - n, "%s=%s ", name, data);
	return strcmp(name, "stop") ? 0 : err_set(err, ERR_OTHER, "stopped");
}

static int unpack_with(const char *path, uint64_t memory, struct found *f, struct err *err)
{
	int fd = open(path, O_RDONLY);
	assert_true(fd >= 0);
	*f = (struct found){.spool = spool_open(NULL)};
	int ret = npz_unpack(fd, path, f->spool, false, memory, take, f, err);
	close(f->spool);
	close(fd);
	return ret;
}

static int unpack(const char *path, struct found *f, struct err *err)
{
	return unpack_with(path, UINT64_MAX, f, err);
}

static void assert_holds(const char *path, const char *text)
{
	struct found f;
	struct err err = {0};
	if (unpack(path, &f, &err))
		fail_msg("%s", err.text);
	assert_string_equal(f.text, text);
}

static void assert_refused(const char *path, int code, const char *words)
{
	struct found f;
	struct err err = {0};
	assert_int_equal(unpack(path, &f, &err), -1);
	if (!strstr(err.text, words))
		fail_msg("'%s' lacks '%s'", err.text, words);
	assert_int_equal(err.code, code);
}

TEST(test_unpack)
{
	const struct entry right[] = {
	        {"b.npy", "stored", 6, .method = 0},
	        {"a.npy", "deflated", 8, .deflated = true},
	        {"x.y.npy", "", 0, .method = 0},
	        {".npy", "no name", 7, .method = 0},
	        {"folder/c.npy", "deeper", 6, .method = 0},
	};
	put_archive("x.npz", right, 5);
	assert_holds("x.npz", "b=stored a=deflated x.y= =no name folder/c=deeper ");
	put_archive("x.npz", right, 0);
	assert_holds("x.npz", "");
	const struct entry stop[] = {{"stop.npy", "1", 1, .method = 0}};
	put_archive("x.npz", stop, 1);
	assert_refused("x.npz", ERR_OTHER, "stopped");
}

TEST(test_hostile)
{
	static const struct {
		struct entry e;
		const char *words;
	} rows[] = {
	        {{"a.txt", "1234", 4, .method = 0}, "x.npz: member 'a.txt' is not a .npy file"},
	        {{"npy", "1234", 4, .method = 0}, "member 'npy' is not a .npy file"},
	        {{"a.npy/", "", 0, .method = 0}, "member 'a.npy/' is not a .npy file"},
	        {{"a.NPY", "1234", 4, .method = 0}, "member 'a.NPY' is not a .npy file"},
	        {{"a.npy", "1234", 4, .flags = 1}, "x.npz: member 'a.npy' is encrypted"},
	        {{"a.npy", "1234", 4, .crc_off = 1}, "x.npz: member 'a.npy': CRC error"},
	        {{"a.npy", "1234", 4, .crc_off = 1, .deflated = true}, "member 'a.npy': CRC"},
	        {{"a.npy", "1234", 4, .method = 77}, "x.npz: member 'a.npy': "},
	        {{"a.npy", "1234", 4, .size_off = 1, .deflated = true},
	         "x.npz: member 'a.npy': holds fewer bytes than the 5 that it declares"},
	        {{"a.npy", "1234", 4, .size_off = (uint32_t)-1, .deflated = true},
	         "x.npz: member 'a.npy': holds more bytes than the 3 that it declares"},
	        {{"a.npy", "1234", 4, .size_off = (uint32_t)-4, .deflated = true},
	         "holds more bytes than the 0 that it declares"},
	        /* A bomb as it is declared is not believed. */
	        {{"a.npy", "1234", 4, .size_off = 0xf0000000, .deflated = true},
	         "holds fewer bytes than the 4026531844 that it declares"},
	        {{"a.npy", "1234", 4, .size_off = 4, .method = 0}, "x.npz: member 'a.npy': "},
	        {{"a.npy", "1234", 4, .size_off = (uint32_t)-2, .method = 0},
	         "x.npz: member 'a.npy': "},
	};
	for (size_t i = 0; i < LENGTH(rows); i++) {
		put_archive("x.npz", &rows[i].e, 1);
		assert_refused("x.npz", ERR_INPUT, rows[i].words);
	}
	const struct entry twice[] = {{"a.npy", "12", 2, .method = 0},
	                              {"b.npy", "34", 2, .method = 0},
	                              {"a.npy", "56", 2, .method = 0}};
	put_archive("x.npz", twice, 3);
	assert_refused("x.npz", ERR_INPUT, "x.npz: member 'a.npy' appears twice");
}

/* What the members declare is bounded, before anything is unpacked. */
TEST(test_expands)
{
	const struct entry big[] = {{"a.npy", "1234", 4, .method = 0},
	                            {"b.npy", "1234", 4, .size_off = 1 << 20, .deflated = true},
	                            {"c.npy", "1234", 4, .size_off = 1 << 20, .deflated = true}};
	static const uint64_t memories[] = {0, 1 << 20, (2 << 20) + 11};
	struct found f;
	struct stat st;
	char words[200];
	put_archive("x.npz", big, 3);
	assert_int_equal(stat("x.npz", &st), 0);
	assert_in_range(st.st_size * NPZ_EXPANDS, 1, 1 << 20);
	for (size_t i = 0; i < 3; i++) {
		struct err err = {0};
		assert_int_equal(unpack_with("x.npz", memories[i], &f, &err), -1);
		assert_int_equal(err.code, ERR_INPUT);
		snprintf(words, sizeof words,
		         "x.npz: unpacks to 2.0 MiB: more than 100 times its size and more than "
		         "--memory: the limit is %s",
		         memories[i] ? i == 1 ? "1.0 MiB" : "2.0 MiB" : "");
		if (!strstr(err.text, words))
			fail_msg("'%s' lacks '%s'", err.text, words);
		assert_string_equal(f.text, "");
	}
	/* Enough: then the first that lies is found. */
	struct err err = {0};
	assert_int_equal(unpack_with("x.npz", (2 << 20) + 12, &f, &err), -1);
	assert_non_null(strstr(err.text, "member 'b.npy': holds fewer bytes than the 1048580"));
	/* A hundred times its size is well, whatever --memory says. */
	const struct entry well = {"a.npy", "1234", 4, .method = 0};
	put_archive("x.npz", &well, 1);
	err_clear(&err);
	assert_int_equal(unpack_with("x.npz", 0, &f, &err), 0);
	assert_string_equal(f.text, "a=1234 ");
}

TEST(test_no_archive)
{
	struct stat st;
	const struct entry e = {"a.npy", "1234", 4, .method = 0};
	close(open("x.npz", O_WRONLY | O_CREAT | O_TRUNC, 0600));
	assert_refused("x.npz", ERR_INPUT, "x.npz: cannot open the archive: the file is empty");
	int fd = open("x.npz", O_WRONLY);
	assert_int_equal(write(fd, "this is no archive, whatever it says", 36), 36);
	close(fd);
	assert_refused("x.npz", ERR_INPUT, "x.npz: cannot open the archive: ");
	/* Cut anywhere, it is none; there is no other end in it. */
	put_archive("x.npz", &e, 1);
	assert_int_equal(stat("x.npz", &st), 0);
	for (off_t len = st.st_size - 1; len > 0; len--) {
		assert_int_equal(truncate("x.npz", len), 0);
		assert_refused("x.npz", ERR_INPUT, "x.npz: ");
	}
}

/* No room for what comes out. */
TEST(test_spool_full)
{
	struct rlimit old, small;
	char data[5000] = "";
	const struct entry e = {"a.npy", data, sizeof data, .deflated = true};
	put_archive("x.npz", &e, 1);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	small = old;
	small.rlim_cur = 4096;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_refused("x.npz", ERR_RESOURCE, "the spool of 'a.npy', 5000 bytes");
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
}

/* ---- packing ---- */

static int spool_of(const char *data)
{
	int fd = spool_open(NULL);
	assert_int_equal(write(fd, data, strlen(data)), strlen(data));
	return fd;
}

static const struct npz_member members[] = {
        {"b", 6, 3}, {"a", 0, 6}, {"\xc3\xbc", 3, 1}, {"empty", 2, 0}};

static size_t pack(const char *path, size_t n, char *out, size_t cap)
{
	struct err err = {0};
	int spool = spool_of("012345678");
	int fd = open(path, O_RDWR | O_CREAT, 0600);
	if (npz_pack(spool, members, n, fd, &err))
		fail_msg("%s", err.text);
	ssize_t len = pread(fd, out, cap, 0);
	assert_in_range(len, 1, cap - 1);
	close(fd);
	close(spool);
	return (size_t)len;
}

TEST(test_pack)
{
	char first[2048], again[2048];
	size_t len = pack("p.npz", 4, first, sizeof first);
	assert_holds("p.npz", "b=678 a=012345 \xc3\xbc=3 empty= ");
	/* What was there before and was longer is gone; the clock and its zone are not in it. */
	assert_int_equal(truncate("p.npz", 100000), 0);
	assert_int_equal(setenv("TZ", "Asia/Kolkata", 1), 0);
	tzset();
	assert_int_equal(pack("p.npz", 4, again, sizeof again), len);
	assert_memory_equal(first, again, len);
	assert_int_equal(setenv("TZ", "America/New_York", 1), 0);
	tzset();
	assert_int_equal(pack("q.npz", 4, again, sizeof again), len);
	assert_memory_equal(first, again, len);
	unsetenv("TZ");
	tzset();
	assert_int_equal(pack("q.npz", 0, again, sizeof again), 22);
	assert_holds("q.npz", "");
}

TEST(test_pack_fails)
{
	struct err err = {0};
	int spool = spool_of("012345678"), fd = open("p.npz", O_RDONLY);
	assert_int_equal(npz_pack(spool, members, 4, fd, &err), -1);
	assert_int_equal(err.code, ERR_OUTPUT);
	assert_non_null(strstr(err.text, "cannot write the archive: "));
	close(fd);
	err_clear(&err);
	assert_int_equal(ftruncate(spool, 4), 0);
	fd = open("r.npz", O_RDWR | O_CREAT, 0600);
	assert_int_equal(npz_pack(spool, members, 4, fd, &err), -1);
	assert_int_equal(err.code, ERR_OUTPUT);
	assert_non_null(strstr(err.text, "cannot read member 'b': "));
	close(fd);
	close(spool);
	const struct npz_member twice[] = {{"a", 0, 0}, {"a", 0, 0}};
	spool = spool_of("");
	fd = open("r.npz", O_RDWR);
	err_clear(&err);
	assert_int_equal(npz_pack(spool, twice, 2, fd, &err), -1);
	assert_non_null(strstr(err.text, "member 'a': "));
	close(fd);
	close(spool);
}

/* ---- numpy ---- */

static bool have_numpy(void)
{
	return system("/usr/bin/python3 -c 'import numpy' 2>/dev/null") == 0;
}

static void python(const char *script)
{
	FILE *f = popen("/usr/bin/python3 -", "w");
	assert_non_null(f);
	fprintf(f, "import numpy as np, zipfile\n%s", script);
	assert_int_equal(pclose(f), 0);
}

TEST(test_from_numpy)
{
	struct dataset d;
	struct err err = {0};
	char shape[ARRAY_SHAPE_TEXT];
	uint8_t bytes[3];
	if (!have_numpy()) {
		print_message("no numpy in /usr/bin/python3\n");
		skip();
	}
	python("a = dict(w=np.arange(6, dtype='f4').reshape(2, 3), b=np.int8([5, 6, 7]),\n"
	       "         zero=np.zeros((0, 2)), scalar=np.int64(9))\n"
	       "np.savez('n.npz', **a); np.savez_compressed('c.npz', **a)\n"
	       "np.savez('o.npz', x=np.array(['text']))\n");
	const struct array_hints none = {0};
	const struct dataset_source src = {.hints = &none};
	for (int compressed = 0; compressed < 2; compressed++) {
		if (dataset_open(&d, compressed ? "c.npz" : "n.npz", &src, &err))
			fail_msg("%s", err.text);
		assert_ptr_equal(d.format, &format_npz);
		assert_int_equal(d.ntensors, 4);
		assert_false(d.files[0].spooled); /* the archive as it is, and unpacked */
		assert_true(d.files[1].spooled && d.files[1].unpacked);
		const struct tensor *t = d.tensors; /* b, scalar, w, zero */
		assert_string_equal(t->name, "b");
		assert_int_equal(t->dtype, DTYPE_I8);
		assert_int_equal(dataset_pread(&d, 1, bytes, 3, t->offset, &err), 0);
		assert_memory_equal(bytes, "\5\6\7", 3);
		assert_string_equal(tensor_shape_text(&t[2], shape), "(2, 3)");
		assert_string_equal(tensor_shape_text(&t[3], shape), "(0, 2)");
		assert_string_equal(tensor_shape_text(&t[1], shape), "()");
		dataset_close(&d);
	}
	assert_int_equal(dataset_open(&d, "o.npz", &src, &err), -1);
	assert_non_null(strstr(err.text, "o.npz: member 'x.npy': dtype '<U4' (strings)"));
}

TEST(test_from_fortran)
{
	struct dataset d;
	struct err err = {0};
	char want[96], found[96];
	const struct array_hints none = {0};
	const struct dataset_source src = {.hints = &none};
	if (!have_numpy()) {
		print_message("no numpy in /usr/bin/python3\n");
		skip();
	}
	python("f = np.arange(24, dtype='>i4').reshape(2, 3, 4)\n"
	       "np.savez('f.npz', c=f, f=np.asfortranarray(f), g=np.asfortranarray(f[0]))\n");
	if (dataset_open(&d, "f.npz", &src, &err))
		fail_msg("%s", err.text);
	assert_true(d.tensors[1].fortran && d.tensors[2].fortran && !d.tensors[0].fortran);
	assert_int_equal(dataset_to_c_order(&d, 64, &err), 0);
	assert_int_equal(dataset_pread(&d, 1, want, 96, d.tensors[0].offset, &err), 0);
	assert_int_equal(dataset_pread(&d, 1, found, 96, d.tensors[1].offset, &err), 0);
	assert_memory_equal(want, found, 96);
	assert_int_equal(dataset_pread(&d, 1, found, 48, d.tensors[2].offset, &err), 0);
	assert_memory_equal(want, found, 48);
	for (int i = 0; i < 3; i++)
		assert_true(d.tensors[i].swapped && !d.tensors[i].fortran);
	dataset_close(&d);
}

TEST(test_to_numpy)
{
	char buf[256], zero[ARRAY_HEADER_MAX] = "";
	struct err err = {0};
	struct array_info info = {
	        .format = &format_npy, .dtype = DTYPE_U8, .ndim = 1, .shape = {100000}};
	if (!have_numpy()) {
		print_message("no numpy in /usr/bin/python3\n");
		skip();
	}
	assert_int_equal(array_count(&info), 0);
	long head = info.format->header(&info, buf, sizeof buf);
	int spool = spool_open(NULL), fd = open("t.npz", O_RDWR | O_CREAT, 0600);
	assert_int_equal(write(spool, buf, (size_t)head), head);
	for (uint64_t at = 0; at < 100000; at += 10000) {
		memset(zero, (int)(at / 10000), 10000);
		assert_int_equal(pwrite_all(spool, zero, 10000, (uint64_t)head + at), 0);
	}
	const struct npz_member m[] = {{"w.x", 0, (uint64_t)head + 100000},
	                               {"\xc3\xbc", 0, (uint64_t)head + 100000}};
	assert_int_equal(npz_pack(spool, m, 2, fd, &err), 0);
	close(fd);
	close(spool);
	python("z = np.load('t.npz')\n"
	       "assert sorted(z.files) == ['w.x', '\xc3\xbc'], z.files\n"
	       "for k in z.files: assert (z[k] == np.repeat(np.arange(10), 10000)).all()\n"
	       "for i in zipfile.ZipFile('t.npz').infolist():\n"
	       "    assert i.date_time == (1980, 1, 1, 0, 0, 0), i.date_time\n"
	       "    assert i.compress_type == 0\n");
}

/* A member and an archive of more than 4 GiB: 64-bit records. */
TEST(test_large)
{
	struct err err = {0};
	struct array_info info = {
	        .format = &format_npy, .dtype = DTYPE_U8, .ndim = 1, .shape = {(4ull << 30) + 5}};
	char buf[256];
	if (!getenv("COLLCTL_LONG") || !have_numpy()) {
		print_message("a member of 4 GiB: COLLCTL_LONG and numpy\n");
		skip();
	}
	assert_int_equal(array_count(&info), 0);
	long head = info.format->header(&info, buf, sizeof buf);
	int spool = spool_open(NULL), fd = open("l.npz", O_RDWR | O_CREAT, 0600);
	assert_int_equal(pwrite(spool, buf, (size_t)head, 0), head);
	assert_int_equal(ftruncate(spool, head + (4ll << 30) + 5), 0);
	assert_int_equal(pwrite(spool, "x", 1, head + (4ll << 30)), 1);
	const struct npz_member m[] = {{"a", 0, (uint64_t)head + (4ull << 30) + 5}, {"b", 0, 10}};
	if (npz_pack(spool, m, 2, fd, &err))
		fail_msg("%s", err.text);
	close(fd);
	close(spool);
	python("z = zipfile.ZipFile('l.npz')\n"
	       "assert z.getinfo('a.npy').file_size == 4 * 2**30 + 5 + 128\n"
	       "assert z.read('b.npy')[:6] == b'\\x93NUMPY'\n");
	const struct array_hints none = {0};
	const struct dataset_source src = {.hints = &none};
	struct dataset d;
	assert_int_equal(dataset_open(&d, "l.npz", &src, &err), -1);
	assert_non_null(strstr(err.text, "l.npz: member 'b.npy': "));
	unlink("l.npz");
}

int main(void)
{
	return unit_run(into_folder, out_of_folder);
}
