/* Outputs of several tensors: .safetensors, sharded sets, .npz. */
#include <dlfcn.h>

#include "tests/unit/sink_world.h"

#define TENSORS 4

/* Of three shards: the first has a and d, the second b, the third, whose name sorts first, c.e. */
struct model {
	struct dataset d;
	struct tensor tensors[TENSORS];
	struct dataset_file files[3];
	struct place places[TENSORS];
};

static const uint64_t shapes[TENSORS][2] = {{3, 2}, {0, 5}, {2, 2}, {4, 1}};

static void make_model(struct model *m, const struct format *format, bool sharded)
{
	static const char *const tensor_names[TENSORS] = {"a", "b", "c.e", "d\303\251"};
	static const enum dtype dtypes[TENSORS] = {DTYPE_U8, DTYPE_F32, DTYPE_I64, DTYPE_F32};
	static const int files[TENSORS] = {0, 1, 2, 0};
	*m = (struct model){.d = {.format = format,
	                          .sharded = sharded,
	                          .nfiles = sharded ? 3 : 1,
	                          .ntensors = TENSORS}};
	m->d.tensors = m->tensors;
	m->d.files = m->files;
	m->files[0].name = (char *)"model-2.safetensors";
	m->files[1].name = (char *)"model-3.safetensors";
	m->files[2].name = (char *)"model-1.safetensors";
	for (int i = 0; i < TENSORS; i++) {
		uint64_t count = shapes[i][0] * shapes[i][1];
		m->tensors[i] = (struct tensor){.name = tensor_names[i],
		                                .dtype = dtypes[i],
		                                .ndim = 2,
		                                .shape = shapes[i],
		                                .count = count,
		                                .bytes = count * dtype_size(dtypes[i]),
		                                .file = sharded ? files[i] : 0};
	}
}

/* The bytes of tensor @i. */
static void fill(const struct model *m, int i, char *buf)
{
	memset(buf, 'A' + i, m->tensors[i].bytes);
}

/* Write the model to what was added to @s. */
static int write_model(struct sink *s, const struct model *m, struct err *err)
{
	char buf[64];
	if (sink_open(s, err))
		return -1;
	for (size_t i = 0; i < m->d.ntensors; i++) {
		const struct place *p = &m->places[i];
		fill(m, (int)i, buf);
		if (sink_pwrite(s, p->file, buf, m->tensors[i].bytes, p->offset, err))
			return -1;
	}
	return sink_seal(s, err) ? -1 : sink_commit(s, err);
}

/* Is what lies at @path the model? */
static void assert_model(const char *path, const struct model *m)
{
	struct dataset found;
	struct array_hints hints = {0};
	struct dataset_source source = {.hints = &hints};
	struct err err = {0};
	char buf[64], expected[64];
	if (dataset_open(&found, path, &source, &err) || dataset_same(&found, &m->d, &err))
		fail_msg("%s: %s", path, err.text);
	for (size_t i = 0; i < found.ntensors; i++) {
		const struct tensor *t = &found.tensors[i];
		fill(m, (int)i, expected);
		assert_int_equal(dataset_pread(&found, t->file, buf, t->bytes, t->offset, &err), 0);
		assert_memory_equal(buf, expected, t->bytes);
	}
	dataset_close(&found);
}

static void assert_model_written(const char *path, struct model *m)
{
	struct err err = {0};
	struct sink *s = new_sink(false);
	if (sink_add_like(s, path, NULL, &m->d, m->places, &err) || write_model(s, m, &err))
		fail_msg("%s: %s", path, err.text);
	sink_free(s);
}

TEST_WITH(test_safetensors, NULL, empty_folder)
{
	struct model m;
	char buf[4096];
	make_model(&m, &format_safetensors, false);
	m.files[0].metadata = (char *)"{\"format\":\"pt\"}";
	assert_model_written("x.safetensors", &m);
	assert_model("x.safetensors", &m);
	get("x.safetensors", buf, sizeof buf);
	assert_non_null(strstr(buf + 8, "\"__metadata__\":{\"format\":\"pt\"}"));
	/* Without tensors it is a file too. */
	m.d.ntensors = 0;
	assert_model_written("none.safetensors", &m);
	assert_model("none.safetensors", &m);
}

static const char index_of_model[] = "{\n"
                                     "  \"metadata\": {\n"
                                     "    \"by\": \"us\",\n"
                                     "    \"total_size\": 54\n"
                                     "  },\n"
                                     "  \"weight_map\": {\n"
                                     "    \"a\": \"model-2.safetensors\",\n"
                                     "    \"b\": \"model-3.safetensors\",\n"
                                     "    \"c.e\": \"model-1.safetensors\",\n"
                                     "    \"d\\u00E9\": \"model-2.safetensors\"\n"
                                     "  }\n"
                                     "}\n";

TEST_WITH(test_sharded, NULL, empty_folder)
{
	struct model m;
	make_model(&m, &format_safetensors, true);
	m.d.index = (char *)"model.safetensors.index.json";
	m.d.index_metadata = (char *)"{\"total_size\":7,\"by\":\"us\"}";
	assert_model_written("set", &m);
	assert_model("set", &m);
	assert_int_equal(names("set"), 4);
	assert_content("set/model.safetensors.index.json", index_of_model);
	/* Over itself, */
	assert_model_written("set/", &m);
	assert_model("set", &m);
	assert_int_equal(names("set"), 4);
	/* under another name, */
	assert_model_written("two/x.safetensors.index.json", &m);
	assert_content("two/x.safetensors.index.json", index_of_model);
	assert_int_equal(names("two"), 4);
	/* without an index, */
	m.d.index = NULL;
	assert_model_written("three", &m);
	assert_model("three", &m);
	assert_int_equal(names("three"), 3);
	/* in the folder where we are, */
	assert_model_written("x.safetensors.index.json", &m);
	assert_content("x.safetensors.index.json", index_of_model);
	/* and less of it. */
	m.d.ntensors = 2;
	m.d.index = (char *)"model.safetensors.index.json";
	m.d.index_metadata = NULL;
	assert_model_written("four", &m);
	assert_model("four", &m);
	assert_int_equal(names("four"), 3);
	assert_content("four/model.safetensors.index.json", "{\n"
	                                                    "  \"metadata\": {\n"
	                                                    "    \"total_size\": 6\n"
	                                                    "  },\n"
	                                                    "  \"weight_map\": {\n"
	                                                    "    \"a\": \"model-2.safetensors\",\n"
	                                                    "    \"b\": \"model-3.safetensors\"\n"
	                                                    "  }\n"
	                                                    "}\n");
}

static bool have_libzip(void)
{
	void *lib = dlopen("libzip.so.4", RTLD_NOW);
	lib = lib ? lib : dlopen("libzip.so.5", RTLD_NOW);
	if (lib)
		dlclose(lib);
	else
		print_message("skipped: there is no libzip\n");
	return lib;
}

TEST_WITH(test_npz, NULL, empty_folder)
{
	struct model m;
	struct err err = {0};
	if (!have_libzip())
		return;
	make_model(&m, &format_npz, false);
	put("x.npz", "old", 0640);
	assert_model_written("x.npz", &m);
	assert_model("x.npz", &m);
	assert_int_equal(mode_of("x.npz"), 0640);
	assert_int_equal(names("."), 1);
	/* The same bytes again, and on stdout. */
	char first[8192], second[8192];
	size_t n = get("x.npz", first, sizeof first);
	int fd = open("out", O_WRONLY | O_CREAT, 0600);
	struct sink *s = new_sink(true);
	assert_int_equal(sink_add_like(s, "-", NULL, &m.d, m.places, &err), 0);
	assert_int_equal(sink_open(s, &err), 0);
	for (int i = 0; i < TENSORS; i++) {
		char buf[64], back[64];
		const struct place *p = &m.places[i];
		uint64_t bytes = m.tensors[i].bytes;
		fill(&m, i, buf);
		assert_int_equal(sink_pwrite(s, p->file, buf, bytes, p->offset, &err), 0);
		assert_int_equal(sink_pread(s, p->file, back, bytes, p->offset, &err), 0);
		assert_memory_equal(buf, back, bytes);
	}
	assert_int_equal(sink_seal(s, &err), 0);
	assert_int_equal(with_stdout_at(fd, s, &err), 0);
	sink_free(s);
	close(fd);
	assert_int_equal(get("out", second, sizeof second), n);
	assert_memory_equal(first, second, n);
	/* Without members. */
	m.d.ntensors = 0;
	assert_model_written("none.npz", &m);
	assert_int_equal(get("none.npz", first, sizeof first), 22);
}

/* No room for the members or the archive: known before any data come. */
TEST_WITH(test_npz_no_room, NULL, empty_folder)
{
	struct model m;
	make_model(&m, &format_npz, false);
	for (int k = 0; k < 2; k++) {
		struct err err = {0};
		struct sink *s = new_sink(false);
		fail_calls(FALLOCATE, k, ENOSPC, 1);
		assert_int_equal(sink_add_like(s, "x.npz", NULL, &m.d, m.places, &err), 0);
		int ret = sink_open(s, &err);
		if (fault.hits)
			assert_err(ret, &err, ERR_OUTPUT, "x.npz: cannot allocate the file");
		else
			print_message("skipped: this file system is not preallocated\n");
		sink_free(s);
		assert_int_equal(names("."), 0);
	}
}

/* The index comes last, and none of the set is left where it fails. */
TEST_WITH(test_sharded_fails, NULL, empty_folder)
{
	struct model m;
	make_model(&m, &format_safetensors, true);
	m.d.index = (char *)"model.safetensors.index.json";
	for (int k = 0; k < 4; k++) {
		struct err err = {0};
		struct sink *s = new_sink(false);
		fail_calls(RENAMEAT, k, EIO, 1);
		assert_int_equal(sink_add_like(s, "set", NULL, &m.d, m.places, &err), 0);
		assert_int_equal(sink_files(s), 4);
		assert_string_equal(sink_path(s, 3), "set/model.safetensors.index.json");
		int ret = write_model(s, &m, &err);
		assert_err(ret, &err, ERR_OUTPUT, "cannot rename");
		sink_free(s);
		assert_int_equal(names("."), 0);
	}
}

TEST_WITH(test_refused_names, NULL, empty_folder)
{
	static const struct {
		const char *path;
		const struct format *format;
		bool sharded;
		const char *words;
	} cases[] = {
	        {"dir", &format_safetensors, false, "end the output's name in .safetensors"},
	        {"new/", &format_safetensors, false, "end the output's name in .safetensors"},
	        {"x.safetensors.index.json", &format_safetensors, false,
	         "end the output's name in .safetensors"},
	        {"x.npy", &format_safetensors, false, "end its name in .safetensors"},
	        {"x.safetensors", &format_npz, false, "end its name in .npz"},
	        {"-", &format_safetensors, true, "name a folder"},
	        {"x.safetensors", &format_safetensors, true, "name a folder"},
	        {"x.npz", &format_safetensors, true, "name a folder"},
	};
	assert_int_equal(mkdir("dir", 0755), 0);
	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct model m;
		struct err err = {0};
		struct sink *s = new_sink(false);
		make_model(&m, cases[i].format, cases[i].sharded);
		int ret = sink_add_like(s, cases[i].path, NULL, &m.d, m.places, &err);
		assert_err(ret, &err, ERR_USAGE, cases[i].words);
		sink_free(s);
	}
	/* Names of files that would lead elsewhere. */
	static const char *const bad[] = {"", ".", "..", "../x", "/x", "a/b", ".hidden"};
	for (size_t i = 0; i < LENGTH(bad); i++) {
		struct model m;
		struct err err = {0};
		struct sink *s = new_sink(false);
		make_model(&m, &format_safetensors, true);
		m.files[1].name = (char *)bad[i];
		int ret = sink_add_like(s, "set", NULL, &m.d, m.places, &err);
		assert_err(ret, &err, ERR_INPUT, "is not a plain name");
		sink_free(s);
	}
	assert_int_equal(names("."), 1);
}

int main(void)
{
	return unit_run(into_folder, out_of_folder);
}
