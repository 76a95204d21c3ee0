/* What an output has besides its input's tensors, and how they are divided into files. */
#include "lib/data/dataset/dataset_beside.h"
#include "lib/data/dataset/dataset_output.h"
#include "lib/data/formats/format.h"
#include "tests/unit/unit.h"

/* Also of names that a peer chose: none leads outside, or would be read instead of the output. */
TEST(which_names_go_along)
{
	static const char *const go[] = {"config.json", "tokenizer.model", "a", "README.md"};
	static const char *const stay[] = {"",
	                                   ".",
	                                   "..",
	                                   ".profile",
	                                   "../a",
	                                   "a/b",
	                                   "/a",
	                                   "model.safetensors",
	                                   "x.SafeTensors",
	                                   "model.safetensors.index.json",
	                                   "pytorch_model.bin.index.json",
	                                   "pytorch_model.bin",
	                                   "a.pt",
	                                   "a.npz",
	                                   "a.gguf",
	                                   "tf_model.h5",
	                                   "model.ckpt.data-00000-of-00001",
	                                   "old.bin.bak",
	                                   "model.onnx_data",
	                                   "__0_0.distcp"};
	for (size_t i = 0; i < sizeof go / sizeof *go; i++)
		assert_true(dataset_beside_name(go[i]));
	for (size_t i = 0; i < sizeof stay / sizeof *stay; i++)
		assert_false(dataset_beside_name(stay[i]));
}

/* The tensors of 4, 0, 8, 100 and 4 bytes in files of at most @bytes: the file of each. */
static void check_cut(uint64_t bytes, int files, const int *file)
{
	static const uint64_t counts[] = {1, 0, 2, 25, 1};
	struct tensor tensors[5];
	const struct dataset in = {
	        .path = "in", .format = &format_safetensors, .tensors = tensors, .ntensors = 5};
	struct dataset_output out;
	struct err err = ERR_INIT;

	for (size_t i = 0; i < 5; i++)
		tensors[i] = (struct tensor){.name = "",
		                             .dtype = DTYPE_F64,
		                             .ndim = 1,
		                             .shape = &counts[i],
		                             .count = counts[i],
		                             .bytes = 8 * counts[i]};
	assert_int_equal(dataset_output_of(&out, &in, DTYPE_F32, &err), 0);
	assert_int_equal(dataset_output_cut(&out, "folder/", bytes, &err), 0);
	assert_int_equal(out.like.nfiles, files);
	for (size_t i = 0; i < 5; i++) {
		assert_int_equal(out.like.tensors[i].file, file[i]);
		assert_int_equal(out.like.tensors[i].bytes, 4 * counts[i]);
		assert_int_equal(tensors[i].bytes, 8 * counts[i]);
	}
	assert_int_equal(out.like.index != NULL, files > 1);
	dataset_output_release(&out);
}

TEST(tensors_are_cut_into_files)
{
	check_cut(1, 4, (const int[]){0, 1, 1, 2, 3});
	check_cut(11, 4, (const int[]){0, 0, 1, 2, 3});
	check_cut(12, 3, (const int[]){0, 0, 0, 1, 2});
	check_cut(104, 2, (const int[]){0, 0, 0, 1, 1});
	check_cut(116, 1, (const int[]){0, 0, 0, 0, 0});
	check_cut(UINT64_MAX, 1, (const int[]){0, 0, 0, 0, 0});
}

int main(void)
{
	return unit_run(NULL, NULL);
}
