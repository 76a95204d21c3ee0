/* .npy headers: what is read, what is refused and in which words, and what is written. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/data/formats/array.h"
#include "tests/unit/unit.h"

#define MAX_FILE 12000

struct file {
	size_t len;    /* of the part that is here: the header */
	uint64_t size; /* of the whole file */
	char bytes[MAX_FILE];
};

/* A file of version @major with the header @text and @data bytes behind it. */
static void make(struct file *f, int major, const char *text, uint64_t data)
{
	size_t n = strlen(text), prefix = major == 1 ? 10 : 12;
	memset(f, 0, sizeof *f);
	memcpy(f->bytes, "\x93NUMPY", 6);
	f->bytes[6] = (char)major;
	f->bytes[8] = (char)(n & 0xff);
	f->bytes[9] = (char)(n >> 8);
	assert_true(prefix + n <= MAX_FILE);
	memcpy(f->bytes + prefix, text, n);
	f->len = prefix + n;
	f->size = f->len + data;
}

static int parse(const struct file *f, enum dtype hint, struct array_info *info, struct err *err)
{
	size_t need = 0;
	err_clear(err);
	return npy_parse(f->bytes, f->len, f->size, hint, info, &need, err);
}

/* ---- accepted ---- */

static const struct {
	const char *header;
	uint64_t data;
	enum dtype dtype;
	const char *shape;
} accepted[] = {
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }", 48, DTYPE_F32, "(3, 4)"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }   \n", 48, DTYPE_F32,
         "(3, 4)"},
        /* Any order of keys, either quote, any space, a last comma or none. */
        {"{'shape':(3,4),'fortran_order':False,'descr':'<f4'}", 48, DTYPE_F32, "(3, 4)"},
        {"{\"shape\": (3, 4), \"descr\": \"<f4\", 'fortran_order': False}", 48, DTYPE_F32,
         "(3, 4)"},
        {" \t{\n'shape'\t:\r( 3 , 4 , ) ,'descr' : '<f4','fortran_order': False\f} \n\n", 48,
         DTYPE_F32, "(3, 4)"},
        /* Shapes. */
        {"{'descr': '<f8', 'fortran_order': False, 'shape': ()}", 8, DTYPE_F64, "()"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': ( )}", 8, DTYPE_F64, "()"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (5,)}", 40, DTYPE_F64, "(5,)"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (5 , )}", 40, DTYPE_F64, "(5,)"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (0,)}", 0, DTYPE_F64, "(0,)"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296, 0)}", 0,
         DTYPE_F64, "(4294967296, 4294967296, 0)"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (3, 0, 7)}", 0, DTYPE_F64, "(3, 0, 7)"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (3L, 1L)}", 24, DTYPE_F64, "(3, 1)"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
         "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
         "1,"
         "2)}",
         16, DTYPE_F64,
         "(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, "
         "1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, "
         "1, "
         "1, 1, 1, 1, 2)"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (9223372036854775000,)}",
         9223372036854775000u, DTYPE_U8, "(9223372036854775000,)"},
        /* Types, byte orders. */
        {"{'descr': '|i1', 'fortran_order': False, 'shape': (2,)}", 2, DTYPE_I8, "(2,)"},
        {"{'descr': '<i2', 'fortran_order': False, 'shape': (2,)}", 4, DTYPE_I16, "(2,)"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (2,)}", 8, DTYPE_I32, "(2,)"},
        {"{'descr': '<i8', 'fortran_order': False, 'shape': (2,)}", 16, DTYPE_I64, "(2,)"},
        {"{'descr': '<u1', 'fortran_order': False, 'shape': (2,)}", 2, DTYPE_U8, "(2,)"},
        {"{'descr': '<u2', 'fortran_order': False, 'shape': (2,)}", 4, DTYPE_U16, "(2,)"},
        {"{'descr': '=u4', 'fortran_order': False, 'shape': (2,)}", 8, DTYPE_U32, "(2,)"},
        {"{'descr': 'u8', 'fortran_order': False, 'shape': (2,)}", 16, DTYPE_U64, "(2,)"},
        {"{'descr': '<f2', 'fortran_order': False, 'shape': (2,)}", 4, DTYPE_F16, "(2,)"},
        {"{'descr': '|f4', 'fortran_order': False, 'shape': (2,)}", 8, DTYPE_F32, "(2,)"},
        {"{'descr': '>u1', 'fortran_order': False, 'shape': (2,)}", 2, DTYPE_U8, "(2,)"},
        {"{'descr': '|b1', 'fortran_order': False, 'shape': (2,)}", 2, DTYPE_BOOL, "(2,)"},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (2,)}", 16, DTYPE_C64, "(2,)"},
        {"{'descr': '<c16', 'fortran_order': False, 'shape': (2,)}", 32, DTYPE_C128, "(2,)"},
        {"{'descr': '<f1', 'fortran_order': False, 'shape': (2,)}", 2, DTYPE_F8E5M2, "(2,)"},
        /* Fortran's order where it is the same order. */
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (3,)}", 12, DTYPE_F32, "(3,)"},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': ()}", 4, DTYPE_F32, "()"},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (1, 5, 1)}", 20, DTYPE_F32, "(1, 5, 1)"},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (4, 0, 5)}", 0, DTYPE_F32, "(4, 0, 5)"},
};

TEST(test_accepted)
{
	static struct file f;
	struct array_info info;
	struct err err;
	char text[ARRAY_SHAPE_TEXT];
	for (int major = 1; major <= 3; major++)
		for (size_t i = 0; i < LENGTH(accepted); i++) {
			make(&f, major, accepted[i].header, accepted[i].data);
			if (parse(&f, DTYPE_NONE, &info, &err))
				fail_msg("%s: %s", accepted[i].header, err.text);
			assert_ptr_equal(info.format, &format_npy);
			assert_int_equal(info.dtype, accepted[i].dtype);
			assert_string_equal(array_shape_text(&info, text), accepted[i].shape);
			assert_int_equal(info.offset, f.len);
			assert_int_equal(array_bytes(&info), accepted[i].data);
			assert_false(info.swapped || info.fortran);
		}
}

/* Big-endian: of what has more than one byte; Fortran's order: where it is another one. */
TEST(test_layouts)
{
	static const struct {
		const char *descr, *order, *shape;
		uint64_t data;
		enum dtype dtype;
		bool swapped, fortran;
	} layouts[] = {
	        {">f4", "False", "(2, 3)", 24, DTYPE_F32, true, false},
	        {">i8", "True", "(2, 3)", 48, DTYPE_I64, true, true},
	        {">c8", "False", "(2,)", 16, DTYPE_C64, true, false},
	        {">c16", "False", "()", 16, DTYPE_C128, true, false},
	        {">f2", "False", "(0,)", 0, DTYPE_F16, true, false},
	        {">b1", "False", "(2,)", 2, DTYPE_BOOL, false, false},
	        {">i1", "True", "(2, 2)", 4, DTYPE_I8, false, true},
	        {"<f4", "True", "(2, 3)", 24, DTYPE_F32, false, true},
	        {"<f4", "True", "(2, 1, 3, 1)", 24, DTYPE_F32, false, true},
	        {"<f4", "True", "(1, 6, 1)", 24, DTYPE_F32, false, false},
	        {"<f4", "True", "(2, 0, 3)", 0, DTYPE_F32, false, false},
	};
	static struct file f;
	for (size_t i = 0; i < LENGTH(layouts); i++) {
		char text[128];
		struct array_info info;
		struct err err;
		snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }",
		         layouts[i].descr, layouts[i].order, layouts[i].shape);
		make(&f, 1, text, layouts[i].data);
		assert_int_equal(parse(&f, DTYPE_NONE, &info, &err), 0);
		assert_int_equal(info.dtype, layouts[i].dtype);
		assert_int_equal(info.swapped, layouts[i].swapped);
		assert_int_equal(info.fortran, layouts[i].fortran);
	}
}

/* ---- refused ---- */

#define WITH_DESCR(d) "{'descr': " d ", 'fortran_order': False, 'shape': (2,)}"
#define WITH_SHAPE(s) "{'descr': '<f4', 'fortran_order': False, 'shape': " s "}"
#define WITH_ORDER(o) "{'descr': '<f4', 'fortran_order': " o ", 'shape': (2,)}"

static const struct {
	const char *header;
	uint64_t data;
	const char *words;
} refused[] = {
        /* The dict. */
        {"", 0, "the header ends where '{' is expected"},
        {"[]", 0, "'[' at byte 0, where '{' is expected"},
        {"{}", 0, "lacks the key 'descr'"},
        {"{'descr': '<f4', 'shape': (2,)}", 8, "lacks the key 'fortran_order'"},
        {"{'descr': '<f4', 'fortran_order': False}", 8, "lacks the key 'shape'"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}", 8, "the key 'x'"},
        {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 8,
         "'descr' twice"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)", 8,
         "ends where ',' or '}' is expected"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x", 8, "'x' at byte 56"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,),,}", 8, "a key is expected"},
        {"{,}", 0, "a key is expected"},
        {"{'descr' '<f4'}", 0, "':' is expected"},
        {"{descr: '<f4'}", 0, "'descr' at byte 1, where a key"},
        {"{'de\\x73cr': '<f4'}", 0, "closing quote"},
        {"{'descr\": '<f4'}", 0, "the key"},
        {"{'descr': '<f4', 'fortran_order': False 'shape': (2,)}", 8, "',' or '}' is expected"},
        {"\xef\xbb\xbf{}", 0, "'?' at byte 0"},
        /* descr */
        {WITH_DESCR("'|O'"), 16, "dtype '|O' (Python objects) is not supported"},
        {WITH_DESCR("'|S10'"), 20, "dtype '|S10' (byte strings)"},
        {WITH_DESCR("'<U4'"), 32, "dtype '<U4' (strings)"},
        {WITH_DESCR("'<M8[ns]'"), 16, "(datetime64)"},
        {WITH_DESCR("'<m8[s]'"), 16, "(timedelta64)"},
        {WITH_DESCR("'|V8'"), 16, "(raw records)"},
        {WITH_DESCR("'<f16'"), 32, "(longdouble)"},
        {WITH_DESCR("'<c32'"), 64, "(complex longdouble)"},
        {WITH_DESCR("[('a', '<f4')]"), 8, "records"},
        {WITH_DESCR("('<f4', (2,))"), 8, "records"},
        {WITH_DESCR("'|V2'"), 4, "give --dtype bf16"},
        {WITH_DESCR("'|V1'"), 2, "give --dtype f8e4m3 or f8e5m2"},
        {WITH_DESCR("'|f1x'"), 2, "is unknown"},
        {WITH_DESCR("'<b2'"), 4, "is unknown"},
        {WITH_DESCR("'<c4'"), 8, "is unknown"},
        {WITH_DESCR("'<f3'"), 6, "dtype '<f3' is unknown"},
        {WITH_DESCR("'<f44'"), 8, "dtype '<f44' is unknown"},
        {WITH_DESCR("'<<f4'"), 8, "is unknown"},
        {WITH_DESCR("''"), 8, "dtype '' is unknown"},
        {WITH_DESCR("'<'"), 8, "dtype '<' is unknown"},
        {WITH_DESCR("'float32'"), 8, "is unknown"},
        {WITH_DESCR("4"), 8, "'4' at byte 10, where a dtype"},
        {WITH_DESCR("None"), 8, "'None' at byte 10"},
        {WITH_DESCR("'<f4"), 8, "unknown"},
        {WITH_DESCR("'\x1b[31m'"), 8, "closing quote"},
        /* fortran_order */
        {WITH_ORDER("0"), 8, "'0' at byte 34, where True or False"},
        {WITH_ORDER("'False'"), 8, "True or False"},
        {WITH_ORDER("None"), 8, "True or False"},
        {WITH_ORDER("Falsehood"), 8, "'Falsehood'"},
        /* shape */
        {WITH_SHAPE("(3)"), 12, "the shape (3) is not a tuple: expected (3,)"},
        {WITH_SHAPE("[3]"), 12, "'[' at byte 50, where a shape"},
        {WITH_SHAPE("3"), 12, "'3' at byte 50"},
        {WITH_SHAPE("3,"), 12, "'3' at byte 50"},
        {WITH_SHAPE("(,)"), 4, "a dimension is expected"},
        {WITH_SHAPE("(3,,4)"), 48, "a dimension is expected"},
        {WITH_SHAPE("(3 4)"), 48, "',' or ')' is expected"},
        {WITH_SHAPE("(-1,)"), 4, "negative dimension"},
        {WITH_SHAPE("(True,)"), 4, "'True' at byte 51, where a dimension"},
        {WITH_SHAPE("(None,)"), 4, "a dimension"},
        {WITH_SHAPE("(3.0,)"), 12, "'3.0'"},
        {WITH_SHAPE("(0x3,)"), 12, "'0x3'"},
        {WITH_SHAPE("(1_0,)"), 40, "'1_0'"},
        {WITH_SHAPE("(03,)"), 12, "'03'"},
        {WITH_SHAPE("(+3,)"), 12, "'+'"},
        {WITH_SHAPE("(3l,)"), 12, "'3l'"},
        {WITH_SHAPE("(3LL,)"), 12, "'3LL'"},
        {WITH_SHAPE("(L,)"), 12, "'L'"},
        {WITH_SHAPE("('3',)"), 12, "a dimension"},
        {WITH_SHAPE("((3,),)"), 12, "a dimension"},
        {WITH_SHAPE("(3,"), 12, "'}' at byte 53, where a dimension"},
        {WITH_SHAPE("(18446744073709551616,)"), 0, "too large"},
        {WITH_SHAPE("(99999999999999999999999999,)"), 0, "too large"},
        {WITH_SHAPE("(4611686018427387904,)"), 0, "the shape is too large"},
        {WITH_SHAPE("(4294967296, 4294967296)"), 0, "the shape is too large"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (9223372036854775808,)}", 0,
         "the shape is too large"},
        {WITH_SHAPE("(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
                    "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)"),
         4, "more than 64 dimensions"},
        /* The data behind. */
        {WITH_SHAPE("(3, 4)"), 47, "has 47 bytes of data: expected 48 for f32 of shape (3, 4)"},
        {WITH_SHAPE("(3, 4)"), 49, "has 49 bytes of data: expected 48"},
        {WITH_SHAPE("(3, 4)"), 0, "has 0 bytes of data"},
        {WITH_SHAPE("(0,)"), 1, "has 1 bytes of data: expected 0"},
};

static void assert_refused(const struct file *f, const char *what, const char *words)
{
	struct array_info info;
	struct err err;
	if (parse(f, DTYPE_NONE, &info, &err) != -1)
		fail_msg("accepted: %s", what);
	assert_int_equal(err.code, ERR_INPUT);
	if (!strstr(err.text, words))
		fail_msg("%s: '%s' lacks '%s'", what, err.text, words);
	for (const char *p = err.text; *p; p++)
		assert_in_range(*p, ' ', '~');
}

TEST(test_refused)
{
	static struct file f;
	for (int major = 1; major <= 3; major++)
		for (size_t i = 0; i < LENGTH(refused); i++) {
			make(&f, major, refused[i].header, refused[i].data);
			assert_refused(&f, refused[i].header, refused[i].words);
		}
}

TEST(test_prefix)
{
	static struct file f;
	make(&f, 1, accepted[0].header, 48);
	f.bytes[0] = 'P';
	assert_refused(&f, "magic", "does not begin with \\x93NUMPY");
	make(&f, 4, accepted[0].header, 48);
	assert_refused(&f, "version 4.0", "version 4.0 is not supported");
	make(&f, 0, accepted[0].header, 48);
	assert_refused(&f, "version 0.0", "version 0.0");
	make(&f, 1, accepted[0].header, 48);
	f.bytes[7] = 1;
	assert_refused(&f, "version 1.1", "version 1.1");
	make(&f, 1, accepted[0].header, 0);
	f.size = f.len = 9;
	assert_refused(&f, "9 bytes", "9 bytes are too few");
	f.size = f.len = 0;
	assert_refused(&f, "empty", "0 bytes are too few");
	make(&f, 1, accepted[0].header, 0);
	f.size = f.len = 40;
	assert_refused(&f, "truncated", "ends inside its header");
	make(&f, 2, accepted[0].header, 0);
	f.size = f.len = 11;
	assert_refused(&f, "truncated", "ends inside its header");
	make(&f, 2, accepted[0].header, 48);
	f.bytes[11] = (char)0xff;
	assert_refused(&f, "4 GiB", "characters: the limit is 10000");
}

/* A header as long as allowed, and one more. */
TEST(test_longest_header)
{
	static struct file f;
	static char text[10002];
	struct array_info info;
	struct err err;
	memset(text, ' ', sizeof text - 1);
	memcpy(text, accepted[0].header, strlen(accepted[0].header));
	make(&f, 1, text, 48);
	assert_refused(&f, "10001 characters", "has 10001 characters: the limit is 10000");
	text[10000] = '\0';
	make(&f, 1, text, 48);
	assert_int_equal(parse(&f, DTYPE_NONE, &info, &err), 0);
	assert_true(info.offset <= ARRAY_HEADER_MAX);
}

TEST(test_nameless)
{
	static struct file f;
	struct array_info info;
	struct err err;
	make(&f, 1, WITH_DESCR("'|V2'"), 4);
	assert_int_equal(parse(&f, DTYPE_BF16, &info, &err), 0);
	assert_int_equal(info.dtype, DTYPE_BF16);
	make(&f, 1, WITH_DESCR("'<V2'"), 4);
	assert_int_equal(parse(&f, DTYPE_BF16, &info, &err), 0);
	assert_int_equal(info.dtype, DTYPE_BF16);
	make(&f, 1, WITH_DESCR("'>V2'"), 4);
	assert_int_equal(parse(&f, DTYPE_BF16, &info, &err), -1);
	for (int t = DTYPE_F8E4M3; t <= DTYPE_F8E5M2; t++) {
		make(&f, 1, WITH_DESCR("'<V1'"), 2);
		assert_int_equal(parse(&f, (enum dtype)t, &info, &err), 0);
		assert_int_equal(info.dtype, t);
		make(&f, 1, WITH_DESCR("'|V1'"), 2);
		assert_int_equal(parse(&f, (enum dtype)t, &info, &err), 0);
		assert_int_equal(info.dtype, t);
		make(&f, 1, WITH_DESCR("'>V1'"), 2);
		assert_int_equal(parse(&f, (enum dtype)t, &info, &err), -1);
		make(&f, 1, WITH_DESCR("'|V2'"), 4);
		assert_int_equal(parse(&f, (enum dtype)t, &info, &err), -1);
	}
	make(&f, 1, WITH_DESCR("'|V1'"), 2);
	assert_int_equal(parse(&f, DTYPE_BF16, &info, &err), -1);
	make(&f, 1, WITH_DESCR("'|V2'"), 4);
	assert_int_equal(parse(&f, DTYPE_F32, &info, &err), -1);
	make(&f, 1, WITH_DESCR("'|V4'"), 8);
	assert_int_equal(parse(&f, DTYPE_BF16, &info, &err), -1);
}

/* Given only a part, the parser says how much more it needs, and ends with the same. */
TEST(test_in_parts)
{
	static struct file f;
	for (int major = 1; major <= 2; major++) {
		make(&f, major, accepted[0].header, 48);
		for (size_t first = 0; first <= f.len; first++) {
			struct array_info info;
			struct err err = {0};
			size_t len = first, need = 0;
			int r, rounds = 0;
			while ((r = npy_parse(f.bytes, len, f.size, DTYPE_NONE, &info, &need,
			                      &err)) == 1) {
				assert_true(need > len && need <= f.len);
				len = need;
				assert_true(++rounds <= 3);
			}
			assert_int_equal(r, 0);
			assert_int_equal(info.count, 12);
		}
	}
}

/* The header ends at the end of the memory: nothing behind it is read (for the sanitizer). */
TEST(test_exact_memory)
{
	static struct file f;
	for (size_t i = 0; i < LENGTH(refused); i++) {
		struct array_info info;
		struct err err = {0};
		size_t need;
		make(&f, 1, refused[i].header, refused[i].data);
		char *copy = malloc(f.len);
		memcpy(copy, f.bytes, f.len);
		assert_int_equal(npy_parse(copy, f.len, f.size, DTYPE_NONE, &info, &need, &err),
		                 -1);
		free(copy);
	}
}

/* ---- written ---- */

static bool order_matters(const struct array_info *info)
{
	int longer = 0;
	for (int i = 0; i < info->ndim; i++)
		longer += info->shape[i] > 1;
	return longer > 1 && info->count;
}

TEST(test_round_trip)
{
	static struct file f;
	for (size_t i = 0; i < LENGTH(accepted); i++)
		for (int t = 1; t < DTYPES; t++) {
			struct array_info info, back;
			struct err err;
			make(&f, 1, accepted[i].header, accepted[i].data);
			assert_int_equal(parse(&f, DTYPE_NONE, &info, &err), 0);
			info.dtype = (enum dtype)t;
			info.fortran = order_matters(&info);
			if (!dtype_has_arithmetic(info.dtype) || array_count(&info))
				continue;
			long n = info.format->header(&info, f.bytes, sizeof f.bytes);
			assert_true(n > 0 && n % 64 == 0);
			assert_int_equal(f.bytes[n - 1], '\n');
			f.len = (size_t)n;
			f.size = f.len + array_bytes(&info);
			assert_int_equal(parse(&f, info.dtype, &back, &err), 0);
			assert_true(array_same(&info, &back));
			assert_int_equal(back.fortran, info.fortran);
			assert_int_equal(back.offset, n);
			assert_int_equal(info.format->header(&info, f.bytes, (size_t)n), n);
			assert_int_equal(info.format->header(&info, f.bytes, (size_t)n - 1), -1);
		}
}

/* The bytes of numpy.save, of ml_dtypes' types too. */
TEST(test_as_numpy)
{
	static const struct {
		enum dtype dtype;
		bool fortran;
		const char *text;
	} saved[] = {
	        {DTYPE_F32, false, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }"},
	        {DTYPE_F32, true, "{'descr': '<f4', 'fortran_order': True, 'shape': (3, 4), }"},
	        {DTYPE_BOOL, false, "{'descr': '|b1', 'fortran_order': False, 'shape': (3, 4), }"},
	        {DTYPE_C64, true, "{'descr': '<c8', 'fortran_order': True, 'shape': (3, 4), }"},
	        {DTYPE_C128, false, "{'descr': '<c16', 'fortran_order': False, 'shape': (3, 4), }"},
	        {DTYPE_BF16, false, "{'descr': '<V2', 'fortran_order': False, 'shape': (3, 4), }"},
	        {DTYPE_F8E4M3, false,
	         "{'descr': '<V1', 'fortran_order': False, 'shape': (3, 4), }"},
	};
	for (size_t i = 0; i < LENGTH(saved); i++) {
		struct array_info info = {.format = &format_npy,
		                          .dtype = saved[i].dtype,
		                          .ndim = 2,
		                          .shape = {3, 4},
		                          .count = 12,
		                          .fortran = saved[i].fortran};
		char buf[256], expected[129];
		memcpy(expected, "\x93NUMPY\x01\x00\x76\x00", 10);
		snprintf(expected + 10, sizeof expected - 10, "%-117s\n", saved[i].text);
		assert_int_equal(info.format->header(&info, buf, sizeof buf), 128);
		assert_memory_equal(buf, expected, 128);
	}
	struct array_info inner = {.format = &format_npy, .dtype = DTYPE_I128};
	char buf[256];
	assert_int_equal(inner.format->header(&inner, buf, sizeof buf), -1);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
