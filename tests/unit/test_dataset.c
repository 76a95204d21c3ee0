/* Datasets: every format's opening, sharded sets and their indexes, choosing, comparing, reading.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/buf.h"
#include "lib/data/dataset/dataset.h"
#include "lib/data/files/sink.h"
#include "tests/unit/unit.h"

static char folder[] = "/tmp/test_dataset.XXXXXX";
static int first_free; /* descriptor: whatever is opened is closed again */

static int into_folder(void **state)
{
	first_free = dup(STDOUT_FILENO);
	close(first_free);
	return mkdtemp(folder) && !chdir(folder) ? 0 : -1;
}

static int out_of_folder(void **state)
{
	char command[64];
	int next = dup(STDOUT_FILENO);
	close(next);
	snprintf(command, sizeof command, "rm -rf %s", folder);
	return chdir("/") || system(command) || next != first_free;
}

static const struct array_hints no_hints;
static const struct dataset_source plain = {.hints = &no_hints};

/* ---- files ---- */

static void put(const char *path, const void *data, size_t len)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, len), len);
	close(fd);
}

static void put_text(const char *path, const char *text)
{
	put(path, text, strlen(text));
}

/* A .safetensors file of @json and @bytes of data that count up. */
static void put_st(const char *path, const char *json, size_t bytes)
{
	struct buf b;
	buf_init(&b, 64u << 20);
	buf_put_u64(&b, strlen(json));
	buf_put(&b, json, strlen(json));
	for (size_t i = 0; i < bytes; i++)
		buf_put_u8(&b, (uint8_t)i);
	assert_false(b.failed);
	put(path, b.data, b.len);
	buf_release(&b);
}

/* A .safetensors file with the one tensor @name, U8 of shape (2,). */
static void put_one(const char *path, const char *name)
{
	char json[256];
	snprintf(json, sizeof json,
	         "{\"%s\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", name);
	put_st(path, json, 2);
}

static void put_npy(const char *path, enum dtype dtype, uint64_t n)
{
	struct array_info info = {.format = &format_npy, .dtype = dtype, .ndim = 1, .shape = {n}};
	char buf[4096] = "";
	assert_int_equal(array_count(&info), 0);
	long head = info.format->header(&info, buf, sizeof buf);
	for (uint64_t i = 0; i < array_bytes(&info); i++)
		buf[(uint64_t)head + i] = (char)i;
	put(path, buf, (size_t)head + array_bytes(&info));
}

static void open_right(struct dataset *d, const char *path, const struct dataset_source *src)
{
	struct err err = {0};
	if (dataset_open(d, path, src, &err))
		fail_msg("%s", err.text);
}

static void assert_refused(const char *path, const struct dataset_source *src, int code,
                           const char *words)
{
	static const struct dataset closed;
	struct dataset d;
	struct err err = {0};
	assert_int_equal(dataset_open(&d, path, src, &err), -1);
	if (!strstr(err.text, words))
		fail_msg("%s: '%s' lacks '%s'", path, err.text, words);
	assert_int_equal(err.code, code);
	assert_memory_equal(&d, &closed, sizeof d);
}

static void assert_names(const struct dataset *d, const char *names)
{
	char text[1024] = "";
	for (size_t i = 0; i < d->ntensors; i++)
		snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? " " : "",
		         d->tensors[i].name);
	assert_string_equal(text, names);
}

/* ---- single arrays ---- */

static void test_arrays(void **state)
{
	struct dataset d;
	char shape[ARRAY_SHAPE_TEXT];
	put_npy("x.npy", DTYPE_F32, 12);
	open_right(&d, "x.npy", &plain);
	assert_ptr_equal(d.format, &format_npy);
	assert_false(d.sharded || d.selected);
	assert_int_equal(d.ntensors, 1);
	assert_int_equal(d.nfiles, 1);
	assert_string_equal(d.tensors[0].name, "");
	assert_string_equal(tensor_shape_text(&d.tensors[0], shape), "(12,)");
	assert_int_equal(d.tensors[0].offset, 128);
	assert_int_equal(dataset_bytes(&d), 48);
	assert_string_equal(d.files[0].name, "x.npy");
	assert_false(d.files[0].spooled);
	dataset_close(&d);

	const struct array_hints f32 = {.dtype = DTYPE_F32, .shape = "3,4"};
	const struct dataset_source described = {.hints = &f32};
	put("x.bin", "0123456789abcdef0123456789abcdef0123456789abcdef", 48);
	open_right(&d, "./x.bin", &described);
	assert_string_equal(tensor_shape_text(&d.tensors[0], shape), "(3, 4)");
	assert_string_equal(d.path, "./x.bin");
	assert_string_equal(d.files[0].name, "x.bin");
	dataset_close(&d);

	assert_refused("x.bin", &plain, ERR_USAGE, "x.bin: a raw file needs --dtype");
	assert_refused("x.npy", &described, ERR_INPUT,
	               "x.npy: shape (12,) differs from --shape (3, 4)");
	assert_refused("gone.npy", &plain, ERR_INPUT, "gone.npy: cannot open: No such file");
	assert_refused("gone.pt", &plain, ERR_INPUT, "gone.pt: cannot open: No such file");
	assert_refused("gone", &plain, ERR_INPUT, "gone: cannot open: No such file");
	put_text("x", "x");
	assert_refused("x", &plain, ERR_USAGE, "x: unknown format");
	assert_int_equal(mkdir("d.npy", 0700), 0);
	assert_refused("d.npy", &plain, ERR_INPUT, "d.npy: is a directory");
}

/* Any bytes at all, of whatever name. */
static void test_raw_file(void **state)
{
	struct dataset d;
	const struct array_hints hints = {.dtype = DTYPE_F32, .shape = "7"};
	const struct dataset_source bytes = {.hints = &hints, .raw_file = true};
	put_text("bytes.safetensors", "12345");
	open_right(&d, "bytes.safetensors", &bytes);
	assert_ptr_equal(d.format, &format_raw);
	assert_int_equal(d.tensors[0].dtype, DTYPE_U8);
	assert_int_equal(d.tensors[0].count, 5);
	dataset_close(&d);
	assert_refused(".", &bytes, ERR_INPUT, ".: is a directory");
}

/* ---- pipes ---- */

static int awaited;

static int await(void *ctx, int fd, struct err *err)
{
	(void)fd;
	awaited++;
	return ctx ? err_set(err, ERR_OTHER, "stopped") : 0;
}

static void put_pipe(const char *path, const char *from)
{
	char command[256];
	snprintf(command, sizeof command, "cat %s >%s &", from, path);
	assert_int_equal(system(command), 0);
}

static void test_pipes(void **state)
{
	struct dataset d;
	uint8_t byte;
	assert_int_equal(mkfifo("fifo", 0600), 0);
	assert_int_equal(mkfifo("fifo.safetensors", 0600), 0);
	put_npy("x.npy", DTYPE_U8, 5);
	put_one("x.safetensors", "a");

	put_pipe("fifo", "x.npy");
	open_right(&d, "fifo", &plain);
	assert_ptr_equal(d.format, &format_npy);
	assert_true(d.files[0].spooled);
	assert_string_equal(d.files[0].path, "fifo");
	assert_int_equal(dataset_pread(&d, 0, &byte, 1, d.tensors[0].offset + 4, NULL), 0);
	assert_int_equal(byte, 4);
	assert_int_equal(dataset_unchanged(&d, NULL), 0);
	dataset_close(&d);

	put_pipe("fifo.safetensors", "x.safetensors");
	open_right(&d, "fifo.safetensors", &plain);
	assert_ptr_equal(d.format, &format_safetensors);
	assert_names(&d, "a");
	dataset_close(&d);

	const struct array_hints u8 = {.dtype = DTYPE_U8};
	const struct dataset_source raw = {.hints = &u8};
	put("x.bin", "0123456", 7);
	put_pipe("fifo", "x.bin");
	open_right(&d, "fifo", &raw);
	assert_ptr_equal(d.format, &format_raw);
	assert_int_equal(d.tensors[0].count, 7);
	dataset_close(&d);
	put_pipe("fifo", "x.npy");
	assert_refused("fifo", &raw, ERR_INPUT,
	               "fifo: is a .npy file: name it .npy, or give --format npy or raw");
}

/* An archive of the tensors of a .safetensors file. */
static void put_archive(const char *path, const char *from)
{
	struct dataset d;
	struct err err = {0};
	struct place places[8];
	struct sink *s = sink_new(false, false, &err);
	open_right(&d, from, &plain);
	d.format = &format_npz;
	assert_int_equal(sink_add_like(s, path, NULL, &d, places, &err), 0);
	assert_int_equal(sink_open(s, &err), 0);
	assert_int_equal(sink_seal(s, &err), 0);
	assert_int_equal(sink_commit(s, &err), 0);
	sink_free(s);
	dataset_close(&d);
}

static int asides;

static int aside(void *ctx, int (*fn)(void *, struct err *), void *arg, struct err *err)
{
	asides++;
	return ctx ? err_set(err, ERR_OTHER, "stopped") : fn(arg, err);
}

/* Wherever an archive comes from, whoever opens it decides where it is unpacked. */
static void test_archives_aside(void **state)
{
	static const struct array_hints hints;
	struct dataset_source source = {.hints = &hints, .aside = aside};
	struct dataset d;
	struct err err = {0};
	put_one("x.safetensors", "a");
	put_archive("x.npz", "x.safetensors");
	assert_int_equal(mkfifo("pipe.npz", 0600), 0);
	for (int pipe = 0; pipe < 2; pipe++) {
		if (pipe)
			put_pipe("pipe.npz", "x.npz");
		open_right(&d, pipe ? "pipe.npz" : "x.npz", &source);
		assert_ptr_equal(d.format, &format_npz);
		assert_names(&d, "a");
		assert_int_equal(asides, pipe + 1);
		dataset_close(&d);
	}
	source.ctx = &source;
	assert_int_equal(dataset_open(&d, "x.npz", &source, &err), -1);
	assert_string_equal(err.text, "stopped");
}

static void test_stdin(void **state)
{
	struct dataset d;
	const struct array_hints st = {.format = &format_safetensors};
	const struct dataset_source src = {.hints = &st, .await = await};
	int saved = dup(STDIN_FILENO), file = open("x.safetensors", O_RDONLY);
	assert_true(dup2(file, STDIN_FILENO) >= 0);
	awaited = 0;
	open_right(&d, "-", &src);
	assert_true(awaited > 0);
	assert_names(&d, "a");
	assert_string_equal(d.path, "stdin");
	dataset_close(&d);

	const struct dataset_source stopped = {.hints = &st, .await = await, .ctx = &d};
	assert_refused("-", &stopped, ERR_OTHER, "stopped");
	assert_refused("-", &plain, ERR_INPUT, "stdin: 0 bytes are too few for a .npy file");
	assert_true(dup2(saved, STDIN_FILENO) >= 0);
	close(saved);
	close(file);
}

/* ---- .safetensors ---- */

static void test_safetensors(void **state)
{
	struct dataset d;
	put_st("x.safetensors",
	       "{\"__metadata__\":{\"k\":\"v\"},"
	       "\"b\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
	       "\"a.b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[4,7]},"
	       "\"a\":{\"dtype\":\"BF16\",\"shape\":[1,2],\"data_offsets\":[7,11]},"
	       "\"B\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[11,11]}}",
	       11);
	open_right(&d, "x.safetensors", &plain);
	assert_false(d.sharded);
	assert_names(&d, "B a a.b b");
	assert_string_equal(d.files[0].metadata, "{\"k\":\"v\"}");
	assert_int_equal(dataset_bytes(&d), 11);
	uint8_t byte;
	assert_int_equal(dataset_pread(&d, 0, &byte, 1, d.tensors[2].offset, NULL), 0);
	assert_int_equal(byte, 4);
	dataset_close(&d);

	const struct array_hints f32 = {.dtype = DTYPE_F32}, shape = {.shape = "3"};
	assert_refused("x.safetensors", &(struct dataset_source){.hints = &f32}, ERR_USAGE,
	               "x.safetensors: its tensors have types: remove --dtype");
	assert_refused("x.safetensors", &(struct dataset_source){.hints = &shape}, ERR_USAGE,
	               "x.safetensors: its tensors have shapes: remove --shape");
	put_st("bad.safetensors",
	       "{\"a.b\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,16]}}", 16);
	assert_refused("bad.safetensors", &plain, ERR_INPUT,
	               "bad.safetensors: tensor 'a.b': data_offsets [0, 16] hold 16 bytes: "
	               "expected 12 for f32 of shape (3,)");
	put_text("bad.safetensors", "1234567");
	assert_refused("bad.safetensors", &plain, ERR_INPUT,
	               "bad.safetensors: 7 bytes are too few for a .safetensors file");
	put("bad.safetensors", "\0\0\0\0\1\0\0\0{}", 10);
	assert_refused("bad.safetensors", &plain, ERR_INPUT, "the limit is 100000000");
	put("bad.safetensors", "\3\0\0\0\0\0\0\0{}", 10);
	assert_refused("bad.safetensors", &plain, ERR_INPUT, "the file ends inside its header");
	put_text("bad.safetensors", "");
	assert_refused("bad.safetensors", &plain, ERR_INPUT, "0 bytes are too few");
}

static void test_empty(void **state)
{
	struct dataset d;
	put_st("empty.safetensors", "{}", 0);
	open_right(&d, "empty.safetensors", &plain);
	assert_int_equal(d.ntensors, 0);
	assert_int_equal(dataset_bytes(&d), 0);
	assert_int_equal(dataset_same(&d, &d, NULL), 0);
	dataset_close(&d);
}

#define MANY 10000

static void test_many_tensors(void **state)
{
	struct buf b;
	struct dataset d;
	char text[128];
	buf_init(&b, 64u << 20);
	for (int i = 0; i < MANY; i++) {
		int n = snprintf(text, sizeof text,
		                 "%s\"layer.%d\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":"
		                 "[%d,%d]}",
		                 i ? "," : "{", i, 4 * i, 4 * i + 4);
		buf_put(&b, text, (size_t)n);
	}
	buf_put(&b, "}", 2);
	put_st("many.safetensors", (char *)b.data, 4 * MANY);
	open_right(&d, "many.safetensors", &plain);
	assert_int_equal(d.ntensors, MANY);
	for (size_t i = 0; i < d.ntensors; i++) {
		const struct tensor *t = &d.tensors[i];
		size_t number = strtoul(t->name + strlen("layer."), NULL, 10);
		assert_int_equal(t->offset, 8 + b.len - 1 + 4 * number);
		assert_int_equal(t->shape[0], 2);
	}
	for (size_t i = 1; i < d.ntensors; i++)
		assert_true(strcmp(d.tensors[i - 1].name, d.tensors[i].name) < 0);
	dataset_close(&d);
	buf_release(&b);
}

/* ---- sharded sets ---- */

static void put_set(const char *dir, const char *index, const char *json)
{
	char path[256];
	mkdir(dir, 0700);
	snprintf(path, sizeof path, "%s/s1.safetensors", dir);
	put_one(path, "b");
	snprintf(path, sizeof path, "%s/s2.safetensors", dir);
	put_one(path, "a");
	if (index) {
		snprintf(path, sizeof path, "%s/%s", dir, index);
		put_text(path, json);
	}
}

#define INDEX "model.safetensors.index.json"
#define RIGHT "{\"weight_map\":{\"a\":\"s2.safetensors\",\"b\":\"s1.safetensors\"}}"

static void assert_set(const char *path, const char *index)
{
	struct dataset d;
	open_right(&d, path, &plain);
	assert_true(d.sharded);
	assert_ptr_equal(d.format, &format_safetensors);
	assert_names(&d, "a b");
	assert_int_equal(d.nfiles, 2);
	assert_string_equal(d.files[0].name, "s1.safetensors");
	assert_string_equal(d.files[1].name, "s2.safetensors");
	assert_int_equal(d.tensors[0].file, 1);
	assert_int_equal(d.tensors[1].file, 0);
	if (index)
		assert_string_equal(d.index, index);
	else
		assert_null(d.index);
	dataset_close(&d);
}

static void test_sets(void **state)
{
	struct dataset d;
	put_set("set", INDEX,
	        "{\"extra\":[1, -0.5e+3, true,false , null,[ ],{ "
	        "},{\"a\\\"\":\"\\u00fc\"}],\"metadata\":{\"total_size\":4,\"x\":{\"y\":null}},"
	        "\"weight_map\":{\"b\":\"s1.safetensors\",\"a\":\"s2.safetensors\"}}");
	assert_set("set", INDEX);
	assert_set("set/", INDEX);
	assert_set("set/" INDEX, INDEX);
	open_right(&d, "set", &plain);
	assert_string_equal(d.index_metadata, "{\"total_size\":4,\"x\":{\"y\":null}}");
	assert_string_equal(d.files[0].path, "set/s1.safetensors");
	dataset_close(&d);
	open_right(&d, "set/", &plain);
	assert_string_equal(d.files[0].path, "set/s1.safetensors");
	dataset_close(&d);

	/* From within the folder, by the bare name of the index. */
	assert_int_equal(chdir("set"), 0);
	assert_set(INDEX, INDEX);
	assert_set(".", INDEX);
	assert_int_equal(chdir(".."), 0);

	put_set("other", "adapter.safetensors.index.json", RIGHT);
	assert_set("other", "adapter.safetensors.index.json");
	put_text("other/more.safetensors.index.json", RIGHT);
	assert_refused("other", &plain, ERR_INPUT,
	               "other: holds 2 indexes, adapter.safetensors.index.json and "
	               "more.safetensors.index.json among them: name one");
	put_text("other/" INDEX, RIGHT);
	assert_set("other", INDEX);

	put_set("bare", NULL, NULL);
	put_text("bare/.hidden.safetensors", "");
	put_text("bare/config.json", "{}");
	assert_set("bare", NULL);
	put_one("bare/s3.safetensors", "b");
	assert_refused("bare", &plain, ERR_INPUT,
	               "bare: tensor 'b' is in both s1.safetensors and s3.safetensors");

	assert_int_equal(mkdir("nothing", 0700), 0);
	assert_refused("nothing", &plain, ERR_INPUT,
	               "nothing: holds no checkpoint: expected model.safetensors.index.json, "
	               "another .safetensors.index.json, .safetensors files or "
	               "pytorch_model.bin.index.json");
	assert_refused("gone/", &plain, ERR_INPUT, "gone/: cannot list: No such file");
	assert_refused("gone/" INDEX, &plain, ERR_INPUT, "gone/" INDEX ": cannot open");
}

static void test_wrong_indexes(void **state)
{
	static const struct {
		const char *json, *words;
	} rows[] = {
	        {"", "is not an index: it does not begin with '{'"},
	        {"{", "the index is not valid JSON: it ends at byte 1: expected a string"},
	        {"[]", "is not an index"},
	        {"{}", "lacks the key 'weight_map'"},
	        {"{\"weight_map\":[]}", "weight_map is not an object"},
	        {"{\"weight_map\":{}}", "weight_map is empty"},
	        {"{\"weight_map\":{\"a\":\"s2.safetensors\",\"a\":\"s2.safetensors\"}}",
	         "weight_map: tensor 'a' appears twice"},
	        {"{\"weight_map\":{},\"weight_map\":{}}", "has the key 'weight_map' twice"},
	        {"{\"metadata\":{},\"metadata\":{}}", "has the key 'metadata' twice"},
	        {"{\"x\":tru}", "expected a value"},
	        {"{\"x\":-}", "expected a digit"},
	        {"{\"x\":1.}", "expected a digit"},
	        {"{\"x\":[1,{\"a\":}]}", "expected a value"},
	        {"{\"x\":[1}", "expected ',' or the end"},
	        {"{\"weight_map\":{\"a\":1}}", "the file of tensor 'a' is not a string"},
	        {"{\"weight_map\":{\"a\":\"\"}}", "the file '' of tensor 'a' is not a plain name"},
	        {"{\"weight_map\":{\"a\":\".\"}}", "the file '.' of tensor 'a'"},
	        {"{\"weight_map\":{\"a\":\"..\"}}", "the file '..' of tensor 'a'"},
	        {"{\"weight_map\":{\"a\":\".s2.safetensors\"}}", "is not a plain name"},
	        {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", "'/etc/passwd' of tensor 'a' is no"},
	        {"{\"weight_map\":{\"a\":\"../wrong/s2.safetensors\"}}", "is not a plain name"},
	        {"{\"weight_map\":{\"a\":\"x/s2.safetensors\"}}", "is not a plain name"},
	        {"{\"weight_map\":{\"a\":\"s2.safetensors\",\"b\":\"gone.safetensors\"}}",
	         "wrong/gone.safetensors: cannot open: No such file"},
	        {"{\"weight_map\":{\"a\":\"s2.safetensors\",\"b\":\"s2.safetensors\"}}",
	         "weight_map has tensor 'b' in s2.safetensors, which lacks it"},
	        {"{\"weight_map\":{\"a\":\"s1.safetensors\",\"b\":\"s2.safetensors\"}}",
	         "weight_map has tensor 'b' in s2.safetensors: found in s1.safetensors"},
	        {"{\"weight_map\":{\"c\":\"s1.safetensors\"}}",
	         "weight_map lacks the tensor 'b' of s1.safetensors"},
	        {"{\"metadata\":1,\"weight_map\":{\"a\":\"s2.safetensors\"}}",
	         "metadata is not an object"},
	        {"{\"weight_map\":{\"a\":\"" INDEX "\"}}", "wrong/" INDEX ": "},
	};
	for (size_t i = 0; i < LENGTH(rows); i++) {
		put_set("wrong", INDEX, rows[i].json);
		assert_refused("wrong", &plain, ERR_INPUT, rows[i].words);
		assert_refused("wrong/" INDEX, &plain, ERR_INPUT, "wrong/");
	}
}

/* The file of an index is not to be read past what an index may be. */
static void test_large_index(void **state)
{
	put_set("large", INDEX, RIGHT);
	assert_int_equal(truncate("large/" INDEX, 100000001), 0);
	assert_refused("large", &plain, ERR_INPUT,
	               "large/" INDEX ": has 100000001 bytes: the limit is 100000000");
}

static void test_too_many_files(void **state)
{
	struct rlimit old, few;
	put_set("few", INDEX, RIGHT);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	int next = open("few", O_RDONLY);
	close(next);
	few = old;
	few.rlim_cur = (rlim_t)next + 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	assert_refused("few/" INDEX, &plain, ERR_RESOURCE,
	               "too few descriptors: with the 2 files of few/" INDEX " at least ");
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
}

/* ---- choosing and comparing ---- */

static void select_right(struct dataset *d, const char *include, const char *exclude)
{
	struct err err = {0};
	const struct dataset_patterns p = {.include = &include,
	                                   .exclude = &exclude,
	                                   .ninclude = include != NULL,
	                                   .nexclude = exclude != NULL};
	if (dataset_select(d, &p, &err))
		fail_msg("%s", err.text);
}

static void refuse_selection(struct dataset *d, const char *const *include, int n,
                             const char *exclude, const char *words)
{
	struct err err = {0};
	const struct dataset_patterns p = {.include = include,
	                                   .exclude = &exclude,
	                                   .ninclude = n,
	                                   .nexclude = exclude != NULL};
	assert_int_equal(dataset_select(d, &p, &err), -1);
	assert_int_equal(err.code, ERR_USAGE);
	assert_string_equal(err.text, words);
}

static void take_unused(void *ctx, const struct dataset *d, const char *option, const char *pattern)
{
	char *names = ctx;
	assert_string_equal(option, "--exclude");
	assert_string_equal(d->path, "x.safetensors");
	strcat(strcat(names, pattern), " ");
}

static void test_select(void **state)
{
	struct dataset d;
	const char *two[] = {"h.0.*", "head"}, *one_wrong[] = {"h*", "hed"}, *none[] = {"x*"};
	const char *exclude[] = {"nothing", "h.0.b", "*.z"};
	char unused[64] = "";
	put_st("x.safetensors",
	       "{\"h.0.w\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]},"
	       "\"h.0.b\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[1,2]},"
	       "\"h/1/w\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[2,3]},"
	       "\"head\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[3,4]},"
	       "\"w[0]\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[4,5]}}",
	       5);
	open_right(&d, "x.safetensors", &plain);
	select_right(&d, NULL, NULL);
	select_right(&d, "*", NULL);
	assert_false(d.selected);
	assert_names(&d, "h.0.b h.0.w h/1/w head w[0]");
	select_right(&d, "h*w", NULL); /* a '*' takes '.' and '/' */
	assert_true(d.selected);
	assert_names(&d, "h.0.w h/1/w");
	assert_int_equal(dataset_bytes(&d), 2);
	select_right(&d, NULL, "h.?.w");
	assert_names(&d, "h/1/w");
	refuse_selection(&d, two, 1, NULL,
	                 "x.safetensors: no tensor matches --include 'h.0.*': the nearest names: "
	                 "'h/1/w'");
	refuse_selection(&d, NULL, 0, "*w",
	                 "x.safetensors: --include and --exclude leave none of its 1 tensors");
	dataset_close(&d);

	open_right(&d, "x.safetensors", &plain);
	refuse_selection(&d, one_wrong, 2, NULL,
	                 "x.safetensors: no tensor matches --include 'hed': the nearest names: "
	                 "'head', 'h.0.b', 'h.0.w'");
	refuse_selection(&d, none, 1, NULL,
	                 "x.safetensors: no tensor matches --include 'x*': the nearest names: "
	                 "'h.0.b', 'h.0.w', 'h/1/w'");
	assert_names(&d, "h.0.b h.0.w h/1/w head w[0]");
	const struct dataset_patterns p = {.include = two,
	                                   .exclude = exclude,
	                                   .ninclude = 2,
	                                   .nexclude = 3,
	                                   .unused = take_unused,
	                                   .ctx = unused};
	assert_int_equal(dataset_select(&d, &p, NULL), 0);
	assert_names(&d, "h.0.w head");
	assert_string_equal(unused, "nothing *.z ");
	dataset_close(&d);
	open_right(&d, "x.safetensors", &plain);
	select_right(&d, "w[0]", NULL); /* the name itself, though the pattern is w0 */
	assert_names(&d, "w[0]");
	dataset_close(&d);

	put_npy("x.npy", DTYPE_F32, 2);
	open_right(&d, "x.npy", &plain);
	refuse_selection(&d, two, 1, NULL,
	                 "x.npy: is a single array without a name: --include and --exclude choose "
	                 "tensors by name");
	dataset_close(&d);
}

static void assert_differ(const char *a, const char *b, const char *words)
{
	struct dataset x, y;
	struct err err = {0};
	open_right(&x, a, &plain);
	open_right(&y, b, &plain);
	assert_int_equal(dataset_same(&x, &y, &err), words ? -1 : 0);
	if (words) {
		assert_int_equal(err.code, ERR_INPUT);
		assert_string_equal(err.text, words);
	}
	dataset_close(&x);
	dataset_close(&y);
}

static void test_same(void **state)
{
	put_one("a.safetensors", "a");
	put_one("same.safetensors", "a");
	put_one("b.safetensors", "b");
	put_st("f.safetensors", "{\"a\":{\"dtype\":\"BOOL\",\"shape\":[2],\"data_offsets\":[0,2]}}",
	       2);
	put_st("s.safetensors", "{\"a\":{\"dtype\":\"U8\",\"shape\":[2,1],\"data_offsets\":[0,2]}}",
	       2);
	assert_differ("a.safetensors", "same.safetensors", NULL);
	assert_differ("a.safetensors", "b.safetensors",
	              "b.safetensors: lacks the tensor 'a' of a.safetensors");
	assert_differ("b.safetensors", "a.safetensors",
	              "b.safetensors: lacks the tensor 'a' of a.safetensors");
	assert_differ("a.safetensors", "empty.safetensors",
	              "empty.safetensors: lacks the tensor 'a' of a.safetensors");
	assert_differ("empty.safetensors", "a.safetensors",
	              "empty.safetensors: lacks the tensor 'a' of a.safetensors");
	assert_differ("a.safetensors", "f.safetensors",
	              "f.safetensors: tensor 'a': dtype bool differs from u8 of a.safetensors");
	assert_differ("a.safetensors", "s.safetensors",
	              "s.safetensors: tensor 'a': shape (2, 1) differs from (2,) of a.safetensors");
	put_npy("x.npy", DTYPE_F32, 2);
	put_npy("y.npy", DTYPE_F32, 3);
	put_npy("z.npy", DTYPE_I32, 2);
	assert_differ("x.npy", "x.npy", NULL);
	assert_differ("x.npy", "y.npy", "y.npy: shape (3,) differs from (2,) of x.npy");
	assert_differ("x.npy", "z.npy", "z.npy: dtype i32 differs from f32 of x.npy");
}

/* ---- reading ---- */

/* Until the clock of the file system has moved on since the dataset's file was changed. */
static void await_tick(const struct dataset *d)
{
	const struct timespec was = d->files[0].was.st_ctim;
	struct timespec now;
	do
		clock_gettime(CLOCK_REALTIME_COARSE, &now);
	while (now.tv_sec == was.tv_sec && now.tv_nsec <= was.tv_nsec);
}

static void test_changes(void **state)
{
	struct dataset d;
	struct err err = {0};
	char buf[8];
	const struct timespec old[2] = {{1, 0}, {1, 0}};
	put_one("c.safetensors", "a");
	open_right(&d, "c.safetensors", &plain);
	assert_int_equal(dataset_unchanged(&d, &err), 0);
	assert_int_equal(dataset_pread(&d, 0, buf, 2, d.tensors[0].offset, &err), 0);
	assert_int_equal(utimensat(AT_FDCWD, "c.safetensors", old, 0), 0);
	assert_int_equal(dataset_unchanged(&d, &err), -1);
	assert_string_equal(
	        err.text,
	        "c.safetensors: was changed while it was read: it has been written since");
	assert_int_equal(truncate("c.safetensors", 9), 0);
	err_clear(&err);
	assert_int_equal(dataset_pread(&d, 0, buf, 2, d.tensors[0].offset, &err), -1);
	assert_int_equal(err.code, ERR_INPUT);
	assert_non_null(strstr(err.text, "c.safetensors: became shorter while it was read"));
	err_clear(&err);
	assert_int_equal(dataset_unchanged(&d, &err), -1);
	assert_non_null(strstr(err.text, "its size is 9 bytes, not "));
	dataset_close(&d);
	/* Written in place, with the modification time put back. */
	err_clear(&err);
	put_one("c.safetensors", "a");
	open_right(&d, "c.safetensors", &plain);
	await_tick(&d);
	int fd = open("c.safetensors", O_WRONLY);
	assert_int_equal(pwrite(fd, "x", 1, (off_t)d.tensors[0].offset), 1);
	const struct timespec back[2] = {d.files[0].was.st_atim, d.files[0].was.st_mtim};
	assert_int_equal(futimens(fd, back), 0);
	close(fd);
	assert_int_equal(dataset_unchanged(&d, &err), -1);
	assert_non_null(
	        strstr(err.text, "c.safetensors: was changed while it was read: its ctime"));
	dataset_close(&d);
	/* It gets a second name, as outputs that are kept do. */
	put_one("c.safetensors", "a");
	open_right(&d, "c.safetensors", &plain);
	await_tick(&d);
	assert_int_equal(link("c.safetensors", "second"), 0);
	assert_int_equal(dataset_unchanged(&d, NULL), 0);
	assert_int_equal(unlink("second"), 0);
	dataset_close(&d);
	/* One that is replaced stays what it was to those who have it open. */
	put_one("c.safetensors", "a");
	put_one("c2.safetensors", "b");
	open_right(&d, "c.safetensors", &plain);
	assert_int_equal(rename("c2.safetensors", "c.safetensors"), 0);
	assert_int_equal(dataset_unchanged(&d, NULL), 0);
	dataset_close(&d);
}

/* A .npy file of @info and its bytes. */
static void put_array(const char *path, struct array_info *info, const char *bytes)
{
	char buf[4096] = "";
	info->format = &format_npy;
	assert_int_equal(array_count(info), 0);
	long head = info->format->header(info, buf, sizeof buf);
	assert_true(head > 0);
	memcpy(buf + head, bytes, array_bytes(info));
	put(path, buf, (size_t)head + array_bytes(info));
}

static void test_to_c_order(void **state)
{
	struct dataset d;
	struct err err = {0};
	char bytes[13] = "";
	struct array_info info = {.dtype = DTYPE_I16, .ndim = 2, .shape = {2, 3}, .fortran = true};
	put_array("f.npy", &info, "001001110212");
	open_right(&d, "f.npy", &plain);
	assert_true(d.tensors[0].fortran);
	assert_int_equal(dataset_to_c_order(&d, 1 << 20, &err), 0);
	assert_false(d.tensors[0].fortran);
	assert_true(d.files[0].spooled);
	assert_string_equal(d.files[0].path, "f.npy");
	assert_int_equal(dataset_pread(&d, 0, bytes, 12, d.tensors[0].offset, &err), 0);
	assert_memory_equal(bytes, "000102101112", 12);
	assert_int_equal(dataset_to_c_order(&d, 1 << 20, &err), 0);
	assert_int_equal(dataset_unchanged(&d, &err), 0);
	dataset_close(&d);
}

/* Types whose name .npy does not store. */
static void test_lost_types(void **state)
{
	struct dataset d;
	struct array_info info = {.dtype = DTYPE_BF16, .ndim = 1, .shape = {2}};
	const struct array_hints bf16 = {.dtype = DTYPE_BF16}, f8 = {.dtype = DTYPE_F8E4M3};
	put_array("bf16.npy", &info, "1234");
	assert_refused("bf16.npy", &plain, ERR_INPUT, "give --dtype bf16");
	open_right(&d, "bf16.npy", &(struct dataset_source){.hints = &bf16});
	assert_int_equal(d.tensors[0].dtype, DTYPE_BF16);
	dataset_close(&d);
	info.dtype = DTYPE_F8E4M3;
	put_array("f8.npy", &info, "12");
	open_right(&d, "f8.npy", &(struct dataset_source){.hints = &f8});
	assert_int_equal(d.tensors[0].dtype, DTYPE_F8E4M3);
	dataset_close(&d);
}

static void test_swap(void **state)
{
	static const struct {
		enum dtype dtype;
		const char *swapped;
	} rows[] = {
	        {DTYPE_U8, "0123456789abcdef"},   {DTYPE_BOOL, "0123456789abcdef"},
	        {DTYPE_F16, "1032547698badcfe"},  {DTYPE_I32, "32107654ba98fedc"},
	        {DTYPE_F64, "76543210fedcba98"},  {DTYPE_C64, "32107654ba98fedc"},
	        {DTYPE_C128, "76543210fedcba98"},
	};
	for (size_t i = 0; i < LENGTH(rows); i++) {
		char buf[18] = " 0123456789abcdef";
		dataset_swap(rows[i].dtype, buf + 1, 16 / dtype_size(rows[i].dtype));
		assert_string_equal(buf + 1, rows[i].swapped);
	}
}

static void test_info(void **state)
{
	uint64_t shape[ARRAY_MAX_DIMS + 1] = {3, 4};
	struct tensor t = {
	        .dtype = DTYPE_F32, .ndim = 2, .shape = shape, .count = 12, .fortran = true};
	struct array_info info;
	assert_int_equal(tensor_info(&t, &info), 0);
	assert_int_equal(info.ndim, 2);
	assert_int_equal(info.shape[1], 4);
	assert_int_equal(info.count, 12);
	assert_true(info.fortran);
	assert_int_equal(array_bytes(&info), 48);
	t.ndim = ARRAY_MAX_DIMS + 1;
	assert_int_equal(tensor_info(&t, &info), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_arrays),         cmocka_unit_test(test_raw_file),
	        cmocka_unit_test(test_pipes),          cmocka_unit_test(test_stdin),
	        cmocka_unit_test(test_archives_aside), cmocka_unit_test(test_stdin),
	        cmocka_unit_test(test_safetensors),    cmocka_unit_test(test_empty),
	        cmocka_unit_test(test_many_tensors),   cmocka_unit_test(test_sets),
	        cmocka_unit_test(test_wrong_indexes),  cmocka_unit_test(test_large_index),
	        cmocka_unit_test(test_too_many_files), cmocka_unit_test(test_select),
	        cmocka_unit_test(test_same),           cmocka_unit_test(test_changes),
	        cmocka_unit_test(test_to_c_order),     cmocka_unit_test(test_lost_types),
	        cmocka_unit_test(test_swap),           cmocka_unit_test(test_info),
	};
	return cmocka_run_group_tests(tests, into_folder, out_of_folder);
}
