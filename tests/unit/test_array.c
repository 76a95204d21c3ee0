/* Array files: formats by name and hint, raw files and their shapes. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/data/dataset/dataset.h"
#include "tests/unit/unit.h"

static char folder[] = "/tmp/test_array.XXXXXX";

static int into_folder(void **state)
{
	return mkdtemp(folder) && !chdir(folder) ? 0 : -1;
}

static int out_of_folder(void **state)
{
	return chdir("/") || rmdir(folder);
}

static void put(const char *path, size_t bytes)
{
	char *buf = calloc(1, bytes + 1);
	for (size_t i = 0; i < bytes; i++)
		buf[i] = (char)i;
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, buf, bytes), bytes);
	close(fd);
	free(buf);
}

static void assert_refused(const char *path, const struct array_hints *hints, int code,
                           const char *words)
{
	const struct dataset_source source = {.hints = hints};
	struct dataset d;
	struct err err = {0};
	assert_int_equal(dataset_open(&d, path, &source, &err), -1);
	if (!strstr(err.text, words))
		fail_msg("'%s' lacks '%s'", err.text, words);
	assert_int_equal(err.code, code);
}

static void assert_shape(const char *path, const struct array_hints *hints, const char *shape)
{
	const struct dataset_source source = {.hints = hints};
	struct dataset d;
	struct err err = {0};
	char text[ARRAY_SHAPE_TEXT];
	if (dataset_open(&d, path, &source, &err))
		fail_msg("%s", err.text);
	assert_string_equal(tensor_shape_text(&d.tensors[0], text), shape);
	dataset_close(&d);
}

TEST(test_formats)
{
	static const struct {
		const char *path;
		const struct format *format;
		const char *words;
	} rows[] = {
	        {"x.npy", &format_npy, NULL},
	        {"dir.d/X.NPY", &format_npy, NULL},
	        {"x.bin", &format_raw, NULL},
	        {"x.npy.raw", &format_raw, NULL},
	        {"x.safetensors", &format_safetensors, NULL},
	        {"m.safetensors.index.json", &format_safetensors, NULL},
	        {"x.npz", &format_npz, NULL},
	        {"gone/", &format_safetensors, NULL},
	        {"/tmp", &format_safetensors, NULL},
	        {"index.json", 0, "unknown format"},
	        {"x.pt", &format_torch, NULL},
	        {"x.pth", &format_torch, NULL},
	        {"x.ckpt", &format_torch, NULL},
	        {"x.gguf", 0, "quantised blocks"},
	        {"x", 0,
	         "expected .npy, .safetensors, .npz, .bin or .raw, .pt or .pth or .ckpt, a folder, "
	         "or --format"},
	        {".npy", 0, "unknown format"},
	        {"npy", 0, "unknown format"},
	        {"x.npy/y", 0, "unknown format"},
	};
	for (size_t i = 0; i < LENGTH(rows); i++) {
		const struct format *format = NULL;
		struct err err = {0};
		int r = format_of(rows[i].path, NULL, &format, &err);
		assert_int_equal(r, rows[i].words ? -1 : 0);
		assert_ptr_equal(format, rows[i].format);
		assert_int_equal(err.code, rows[i].words ? ERR_USAGE : 0);
		if (rows[i].words && !strstr(err.text, rows[i].words))
			fail_msg("'%s' lacks '%s'", err.text, rows[i].words);
		assert_int_equal(format_of(rows[i].path, &format_raw, &format, &err), 0);
		assert_ptr_equal(format, &format_raw);
	}
}

TEST(test_raw)
{
	struct array_hints f32 = {.dtype = DTYPE_F32}, none = {0};
	put("x.bin", 48);
	assert_shape("x.bin", &f32, "(12,)");
	assert_refused("x.bin", &none, ERR_USAGE, "x.bin: a raw file needs --dtype");
	static const struct {
		const char *shape, *read;
	} good[] = {
	        {"3,4", "(3, 4)"}, {"(3, 4)", "(3, 4)"}, {"(3,4)", "(3, 4)"},      {"12", "(12,)"},
	        {"12,", "(12,)"},  {"(12,)", "(12,)"},   {"1,12,1", "(1, 12, 1)"},
	};
	for (size_t i = 0; i < LENGTH(good); i++) {
		f32.shape = good[i].shape;
		assert_shape("x.bin", &f32, good[i].read);
	}
	static const char *const bad[] = {"",      "x",     "3,x", "-3",      "3,,4",
	                                  "(3, 4", "3, 4)", "3 4", "3x4",     "[3]",
	                                  "3.0",   "+12",   " 12", "(3, 4) ", ",12"};
	for (size_t i = 0; i < LENGTH(bad); i++) {
		f32.shape = bad[i];
		assert_refused("x.bin", &f32, ERR_USAGE, "expected one such as 3,4");
	}
	f32.shape = "18446744073709551616";
	assert_refused("x.bin", &f32, ERR_USAGE, "is too large");
	f32.shape = "4294967296,4294967296";
	assert_refused("x.bin", &f32, ERR_USAGE, "is too large");
	f32.shape = "3,5";
	assert_refused("x.bin", &f32, ERR_INPUT,
	               "x.bin: has 48 bytes of data: expected 60 for f32 of shape (3, 5)");
	put("x.bin", 4);
	f32.shape = "()";
	assert_shape("x.bin", &f32, "()");
	put("x.bin", 50);
	f32.shape = NULL;
	assert_refused("x.bin", &f32, ERR_INPUT, "expected a multiple of 4 for f32");
	put("x.bin", 0);
	assert_shape("x.bin", &f32, "(0,)");
	f32.shape = "4294967296,4294967296,0"; /* no elements */
	assert_shape("x.bin", &f32, "(4294967296, 4294967296, 0)");
	remove("x.bin");
}

/* Write a .npy file of f32 with shape (1000,). */
static void put_npy(const char *path)
{
	struct array_info info = {
	        .format = &format_npy, .dtype = DTYPE_F32, .ndim = 1, .shape = {1000}};
	char buf[256];
	assert_int_equal(array_count(&info), 0);
	long n = info.format->header(&info, buf, sizeof buf);
	put(path, (size_t)n + array_bytes(&info));
	int fd = open(path, O_WRONLY);
	assert_int_equal(write(fd, buf, (size_t)n), n);
	close(fd);
}

TEST(test_npy)
{
	struct array_hints hints = {0};
	put_npy("x.npy");
	assert_shape("x.npy", &hints, "(1000,)");
	hints.dtype = DTYPE_F32;
	hints.shape = "1000";
	assert_shape("x.npy", &hints, "(1000,)");
	hints.shape = "10,100";
	assert_refused("x.npy", &hints, ERR_INPUT,
	               "x.npy: shape (1000,) differs from --shape (10, 100)");
	hints.dtype = DTYPE_BF16;
	assert_refused("x.npy", &hints, ERR_INPUT, "x.npy: dtype f32 differs from --dtype bf16");
	hints = (struct array_hints){0};
	put("bad.npy", 300);
	assert_refused("bad.npy", &hints, ERR_INPUT, "bad.npy: is not a .npy file");
	put("bad.npy", 3);
	assert_refused("bad.npy", &hints, ERR_INPUT, "bad.npy: 3 bytes are too few");
	remove("bad.npy");
	remove("x.npy");
}

/* A header longer than what is read at first. */
TEST(test_long_header)
{
	struct array_hints hints = {0};
	char text[9001];
	snprintf(text, sizeof text, "%-9000s",
	         "{'descr': '|u1', 'fortran_order': False, 'shape': (5,)}");
	int fd = open("long.npy", O_WRONLY | O_CREAT, 0600);
	assert_int_equal(write(fd, "\x93NUMPY\x01\x00\x28\x23", 10), 10);
	assert_int_equal(write(fd, text, 9000), 9000);
	assert_int_equal(write(fd, "12345", 5), 5);
	close(fd);
	assert_shape("long.npy", &hints, "(5,)");
	remove("long.npy");
}

TEST(test_not_a_file)
{
	struct array_hints hints = {0};
	assert_refused("gone.npy", &hints, ERR_INPUT, "gone.npy: cannot open: No such file");
	assert_int_equal(mkdir("d.npy", 0700), 0);
	assert_refused("d.npy", &hints, ERR_INPUT, "d.npy: is a directory");
	rmdir("d.npy");
	hints.format = &format_raw;
	hints.dtype = DTYPE_U8;
	assert_refused("/dev/zero", &hints, ERR_INPUT, "/dev/zero: is not a regular file");
}

TEST(test_same)
{
	struct array_info a = {.dtype = DTYPE_F32, .ndim = 2, .shape = {3, 4}}, b = a;
	assert_true(array_same(&a, &b));
	b.format = &format_npy;
	b.offset = 128;
	assert_true(array_same(&a, &b));
	b.shape[1] = 5;
	assert_false(array_same(&a, &b));
	b = a;
	b.ndim = 1;
	assert_false(array_same(&a, &b));
	b = a;
	b.dtype = DTYPE_I32;
	assert_false(array_same(&a, &b));
}

int main(void)
{
	return unit_run(into_folder, out_of_folder);
}
