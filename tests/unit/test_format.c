/* The table of formats, with a toy (tests/toys/lib/data/formats/format_vec.c) as one more row. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/data/dataset/dataset.h"
#include "lib/data/files/sink.h"
#include "tests/unit/unit.h"

TEST(rows_are_whole)
{
	char choices[256] = "";
	bool taken[128] = {false};
	for (size_t i = 0; i < formats_len; i++) {
		const struct format *f = formats[i];
		const struct format *found;
		char path[64];
		assert_ptr_equal(format_by_name(f->name), f);
		assert_ptr_equal(format_by_number(f->number), f);
		assert_true(f->number >= 1 && f->number <= 127 && !taken[f->number]);
		taken[f->number] = true;
		assert_true(f->suffixes[0] || f->open_set);
		for (int k = 0; f->suffixes[k]; k++) {
			snprintf(path, sizeof path, "x%s", f->suffixes[k]);
			assert_int_equal(format_of(path, NULL, &found, NULL), 0);
			assert_ptr_equal(found, f);
		}
		assert_true(f->open && !f->lay_out == !!f->written);
		assert_int_equal(!f->describe, !f->header);
		assert_true(!f->index || f->open_set);
		snprintf(choices + strlen(choices), sizeof choices - strlen(choices), "|%s",
		         f->name);
	}
	assert_string_equal(choices, format_choices);
	assert_null(format_by_number(0));
	assert_null(format_by_name("auto"));
}

static void write_array(const char *path, const struct array_info *info, const void *data)
{
	struct err err = {0};
	struct place place;
	struct sink *s = sink_new(false, false, &err);
	assert_non_null(s);
	if (sink_add_array(s, path, NULL, info, &place, &err) < 0 || sink_open(s, &err) < 0 ||
	    sink_pwrite(s, place.file, data, array_bytes(info), place.offset, &err) < 0 ||
	    sink_seal(s, &err) < 0 || sink_commit(s, &err) < 0)
		fail_msg("%s", err.text);
	sink_free(s);
}

TEST(a_toy_is_written_and_read)
{
	const float data[] = {1, 2, 3};
	const struct array_hints hints = {0};
	const struct dataset_source source = {.hints = &hints};
	struct array_info info = {
	        .format = format_by_name("vec"), .dtype = DTYPE_F32, .ndim = 1, .shape = {3}};
	struct dataset d;
	struct err err = {0};
	float got[3];
	assert_non_null(info.format);
	array_count(&info);
	write_array("x.vec", &info, data);
	if (dataset_open(&d, "x.vec", &source, &err) < 0)
		fail_msg("%s", err.text);
	assert_ptr_equal(d.format, info.format);
	assert_true(dataset_is_array(&d));
	assert_int_equal(d.ntensors, 1);
	assert_int_equal(d.tensors[0].dtype, DTYPE_F32);
	assert_int_equal(d.tensors[0].count, 3);
	assert_int_equal(
	        dataset_pread(&d, d.tensors[0].file, got, sizeof got, d.tensors[0].offset, &err),
	        0);
	assert_memory_equal(got, data, sizeof got);
	dataset_close(&d);
}

static int in_a_folder(void **state)
{
	static char folder[] = "/tmp/test_format.XXXXXX";
	*state = folder;
	return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int remove_folder(void **state)
{
	unlink("x.vec");
	return chdir("/") == 0 && rmdir(*state) == 0 ? 0 : -1;
}

int main(void)
{
	return unit_run(in_a_folder, remove_folder);
}
