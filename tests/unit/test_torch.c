/* What torch.save writes: zip directories, pickles and views. tests/cli/torch.bats has real files.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/data/torch/strided.h"
#include "lib/data/torch/torch_values.h"
#include "lib/data/torch/zip_directory.h"
#include "tests/unit/unit.h"

/* ---- pickles ---- */

#define P2     "\x80\x02"
#define TENSOR "ctorch._utils\n_rebuild_tensor_v2\n"
#define STORAGE(elements)                                       \
	"((X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\0" \
	"0X\x03\0\0\0cpuK" elements "tQ"
#define HOOKS  \
	"\x89" \
	"}tR"

struct seen {
	int tensors, others;
	struct torch_tensor last;
	char name[64];
};

static int see_tensor(void *ctx, const char *name, const struct torch_tensor *t, struct err *err)
{
	struct seen *s = ctx;
	(void)err;
	s->tensors++;
	s->last = *t;
	snprintf(s->name, sizeof s->name, "%s", name);
	return 0;
}

static int see_other(void *ctx, const char *name, const struct pickle_value *v, struct err *err)
{
	struct seen *s = ctx;
	(void)name, (void)v, (void)err;
	s->others++;
	return 0;
}

static int visit(const char *bytes, size_t n, struct seen *s, struct err *err)
{
	const struct torch_visitor visitor = {.tensor = see_tensor, .other = see_other, .ctx = s};
	struct pickle p;
	/* In memory of its own length, so that a sanitizer sees what is read after it. */
	char *copy = malloc(n ? n : 1);
	assert_non_null(copy);
	memcpy(copy, bytes, n);
	*s = (struct seen){0};
	*err = ERR_INIT;
	int ret = pickle_read(&p, copy, n, torch_permits, err);
	if (ret == 0) {
		ret = torch_visit(p.root, n, &visitor, err);
		pickle_release(&p);
	}
	free(copy);
	return ret;
}

TEST(plain_values)
{
	static const char text[] = P2 "}(X\1\0\0\0aK\1X\1\0\0\0b](N\x88\x89M\1\2J\xff\xff\xff\xff"
	                              "G?\xf0\0\0\0\0\0\0\x8a\2\0\x80\x8a\x09\1\2\3\4\5\6\7\x08\x09"
	                              "U\1xC\1x\x8f(K\1\x90"
	                              "eK\5)u.";
	struct seen s;
	struct err err;
	if (visit(text, sizeof text - 1, &s, &err))
		fail_msg("%s", err.text);
	assert_int_equal(s.tensors, 0);
	assert_int_equal(s.others, 1 + 11);
}

TEST(a_tensor)
{
	static const char text[] =
	        P2 "}X\1\0\0\0w" TENSOR STORAGE("\x10") "K\1K\2K\3\x86K\x06K\1\x86" HOOKS "s.";
	struct seen s;
	struct err err;
	if (visit(text, sizeof text - 1, &s, &err))
		fail_msg("%s", err.text);
	assert_int_equal(s.tensors, 1);
	assert_string_equal(s.name, "w");
	assert_int_equal(s.last.dtype, DTYPE_F32);
	assert_int_equal(s.last.offset, 1);
	assert_int_equal(s.last.ndim, 2);
	assert_int_equal(s.last.shape[1], 3);
	assert_int_equal(s.last.stride[0], 6);
	assert_int_equal(s.last.storage_bytes, 64);
}

/* What is wrong with each is in the message. */
TEST(refused)
{
#define BAD(bytes, why)                      \
	{                                    \
		bytes, sizeof bytes - 1, why \
	}
	static const struct {
		const char *bytes;
		size_t n;
		const char *why;
	} cases[] = {
	        BAD("", "ends early"),
	        BAD(P2, "ends early"),
	        BAD(P2 "}", "ends early"),
	        BAD("\x80\x01}.", "protocol 1"),
	        BAD("\x80\x06}.", "protocol 6"),
	        BAD(P2 ".", "not one value"),
	        BAD(P2 "NN.", "not one value"),
	        BAD(P2 "(.", "not one value"),
	        BAD(P2 "}.N", "1 bytes follow"),
	        BAD(P2 "0.", "a value that is not there"),
	        BAD(P2 "t.", "a value that is not there"),
	        BAD(P2 "\x85.", "a value that is not there"),
	        BAD(P2 "(\x85.", "a value that is not there"),
	        BAD(P2 "](Na.", "values for what has none"),
	        BAD(P2 "}(Nu.", "a value that is not there"),
	        BAD(P2 "}(NNe.", "values for what has none"),
	        BAD(P2 "h\0.", "nothing was put"),
	        BAD(P2 "Nr\xff\xff\xff\x7f.", "out of bounds"),
	        BAD(P2 "X\xff\xff\xff\xffz.", "ends in a text"),
	        BAD(P2 "\x8d\xff\xff\xff\xff\xff\xff\xff\xffz.", "ends in a text"),
	        BAD(P2 "\x8b\xff\xff\xff\xff.", "ends in an integer"),
	        BAD(P2 "I01\n.", "opcode 0x49"),
	        BAD(P2 "cos\nsystem\n.", "'os.system'"),
	        BAD(P2 "cposix\nsystem\nX\1\0\0\0x\x85R.", "'posix.system'"),
	        BAD(P2 "X\2\0\0\0osX\6\0\0\0system\x93.", "'os.system'"),
	        BAD(P2 "ctorch\nShard\n.", "'torch.Shard'"),
	        BAD(P2 "N)R.", "a call of what is no global"),
	        BAD(P2 "NNb.", "a state of what has none"),
	        BAD(P2 "}(\x85NNu.", "a value that is not there"),
	        BAD(P2 "}(NNu.", "no text and no number"),
	        BAD(P2 "}(X\1\0\0\0\xffNu.", "no text and no number"),
	        BAD(P2 "]q\0h\0a.", "deeper or more often"),
	        BAD(P2 TENSOR STORAGE("\x10") "K\1K\4\x85K\4\x85" HOOKS ".", NULL),
	        BAD(P2 TENSOR STORAGE("\x10") "K\1K\4\x85K\4\x85\x89}}X\4\0\0\0conj\x88stR.",
	            "conjugates"),
	        BAD(P2 TENSOR STORAGE("\x10") "K\1K\4\x85K\4\x85\x89}}X\4\0\0\0conj\x89stR.", NULL),
	        BAD(P2 TENSOR STORAGE("\x10") "K\4K\4\x85K\4\x85" HOOKS ".", "leave its storage"),
	        BAD(P2 TENSOR STORAGE("\x10") "J\xff\xff\xff\xffK\4\x85K\4\x85" HOOKS ".",
	            "malformed"),
	        BAD(P2 TENSOR STORAGE("\x10") "K\0K\4\x85K\4K\1\x86" HOOKS ".", "malformed"),
	        BAD(P2 TENSOR STORAGE(
	                    "\x10") "K\0\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x85K\0\x85" HOOKS
	                            ".",
	            "too large"),
	        BAD(P2 TENSOR STORAGE(
	                    "\x10") "K\0K\4\x85\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x85" HOOKS
	                            ".",
	            "leave its storage"),
	};
	struct seen s;
	struct err err;
	for (size_t i = 0; i < LENGTH(cases); i++) {
		const int ret = visit(cases[i].bytes, cases[i].n, &s, &err);
		if (!cases[i].why) {
			assert_int_equal(ret, 0);
			continue;
		}
		if (ret == 0 || err.code != ERR_INPUT || !strstr(err.text, cases[i].why))
			fail_msg("case %zu: '%s': expected '%s'", i, err.text, cases[i].why);
	}
}

/* A list of two of the list before, 40 times: 2^40 values, if each is visited. */
TEST(laughs)
{
	char text[256] = P2 "]";
	size_t n = 3;
	struct seen s;
	struct err err;
	for (int i = 0; i < 40; i++, n += 6) {
		const char twice[] = {'q', (char)i, 'h', (char)i, '\x86', 0};
		memcpy(text + n, twice, 6);
		n--;
	}
	text[n++] = '.';
	assert_int_equal(visit(text, n, &s, &err), -1);
	assert_non_null(strstr(err.text, "deeper or more often"));
}

/* ---- views ---- */

static int memory_file(const void *bytes, size_t n)
{
	int fd = memfd_create("test", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(write_all(fd, bytes, n), 0);
	return fd;
}

static void view_is_copied(unsigned seed)
{
	enum { STORAGE_MOST = 4096 };
	static uint32_t storage[STORAGE_MOST], want[1 << 16], got[1 << 16];
	const struct {
		size_t memory;
	} of[] = {{16}, {64}, {300}, {1 << 20}};
	uint64_t shape[4], stride[4], count = 1, index[4] = {0};
	struct strided s = {.shape = shape, .stride = stride, .dtype = DTYPE_F32};
	struct err err = ERR_INIT;
	srand(seed);
	s.ndim = rand() % 5;
	s.at = 4 * (uint64_t)(rand() % 8);
	uint64_t last = s.at / 4;
	for (int i = 0; i < s.ndim; i++) {
		shape[i] = (uint64_t)(rand() % 6) + (rand() % 8 != 0);
		stride[i] = (uint64_t)(rand() % (rand() % 3 ? 8 : 120));
		count *= shape[i];
		last += shape[i] ? (shape[i] - 1) * stride[i] : 0;
	}
	assert_true(last < STORAGE_MOST);
	for (uint32_t i = 0; i < STORAGE_MOST; i++)
		storage[i] = i;
	for (uint64_t k = 0; k < count; k++) {
		uint64_t at = s.at / 4;
		for (int i = 0; i < s.ndim; i++)
			at += index[i] * stride[i];
		want[k] = storage[at];
		for (int i = s.ndim - 1; i >= 0 && ++index[i] == shape[i]; i--)
			index[i] = 0;
	}
	int in = memory_file(storage, 4 * (count ? last + 1 : 0));
	for (size_t m = 0; m < LENGTH(of); m++) {
		int out = memory_file("", 0);
		if (strided_to_c(&s, in, out, 12, of[m].memory, &err))
			fail_msg("seed %u: %s", seed, err.text);
		assert_int_equal(pread_full(out, got, sizeof got, 12), 4 * count);
		if (memcmp(got, want, 4 * count) != 0)
			fail_msg("seed %u: memory %zu: other elements", seed, of[m].memory);
		close(out);
	}
	close(in);
}

TEST(views)
{
	for (unsigned seed = 1; seed <= 2000; seed++)
		view_is_copied(seed);
}

TEST(c_order)
{
	const uint64_t shape[] = {2, 1, 3}, dense[] = {3, 7, 1}, turned[] = {1, 1, 2},
	               none[] = {0, 4};
	assert_true(strided_is_c_order(&(struct strided){3, shape, dense, DTYPE_F32, false, 0}));
	assert_false(strided_is_c_order(&(struct strided){3, shape, turned, DTYPE_F32, false, 0}));
	assert_true(strided_is_c_order(&(struct strided){2, none, turned, DTYPE_F32, false, 0}));
	assert_true(strided_is_c_order(&(struct strided){0, NULL, NULL, DTYPE_F32, false, 0}));
}

/* ---- archives ---- */

#define LOCAL(name) "PK\3\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0\3\0\0\0\3\0\0\0\1\0\0\0" name
#define CENTRAL(name)                                                                              \
	"PK\1\2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\3\0\0\0\3\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0" \
	"\0" name

static int read_directory(const char *bytes, size_t n, struct zip_directory *z, struct err *err)
{
	int fd = memory_file(bytes, n);
	*err = ERR_INIT;
	int ret = zip_directory_read(z, fd, "x.pt", 0, n, err);
	close(fd);
	return ret;
}

/* An archive with one entry "a" of three bytes, whose numbers a case changes. */
TEST(archives)
{
	static const char whole[] =
	        LOCAL("a") "abc" CENTRAL("a") "PK\5\6\0\0\0\0\1\0\1\0\x2f\0\0\0\x22\0\0\0\0\0";
	enum { BYTES = sizeof whole - 1, CENTRAL_AT = 34, END_AT = 34 + 47 };
	static const struct {
		int at, value;
		const char *why;
	} cases[] = {
	        {-1, 0, NULL},
	        {END_AT, 'X', "cut short"},
	        {END_AT + 10, 2, "too short for its entries"},
	        {END_AT + 12, 0xff, "does not end before"},
	        {END_AT + 16, 0xff, "does not end before"},
	        {END_AT + 20, 1, "cut short"},
	        {CENTRAL_AT, 'X', "malformed"},
	        {CENTRAL_AT + 28, 0xff, "malformed"},
	        {CENTRAL_AT + 46, 0, "malformed"},
	        {CENTRAL_AT + 10, 8, "compressed"},
	        {CENTRAL_AT + 8, 1, "compressed"},
	        {CENTRAL_AT + 24, 4, "compressed"},
	        {CENTRAL_AT + 42, 5, "lies in its directory"},
	        {0, 'X', "not where"},
	        {26, 2, "not where"},
	        {28, 4, "does not end before the directory"},
	};
	for (size_t i = 0; i < LENGTH(cases); i++) {
		char bytes[BYTES];
		struct zip_directory z;
		struct err err;
		uint64_t offset;
		memcpy(bytes, whole, BYTES);
		if (cases[i].at >= 0)
			bytes[cases[i].at] = (char)cases[i].value;
		int ret = read_directory(bytes, BYTES, &z, &err);
		if (ret == 0) {
			int fd = memory_file(bytes, BYTES);
			const struct zip_entry *e = zip_directory_find(&z, "a");
			assert_non_null(e);
			assert_null(zip_directory_find(&z, "b"));
			ret = zip_entry_offset(&z, e, fd, "x.pt", &offset, &err);
			close(fd);
			zip_directory_release(&z);
		}
		if (!cases[i].why) {
			assert_int_equal(ret, 0);
			assert_int_equal(offset, 31);
		} else if (ret == 0 || err.code != ERR_INPUT || !strstr(err.text, cases[i].why)) {
			fail_msg("case %zu: '%s': expected '%s'", i, err.text, cases[i].why);
		}
	}
}

int main(void)
{
	return unit_run(NULL, NULL);
}
