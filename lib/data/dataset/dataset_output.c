#include "lib/data/dataset/dataset_output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/path.h"
#include "lib/data/formats/format.h"

#define STEM "model"

int dataset_output_of(struct dataset_output *out, const struct dataset *in, enum dtype dtype,
                      struct err *err)
{
	*out = (struct dataset_output){.like = *in};
	out->tensors =
	        err_calloc(in->ntensors + 1, sizeof *out->tensors, "the tensors of an output", err);
	if (!out->tensors)
		return -1;
	for (size_t i = 0; i < in->ntensors; i++) {
		out->tensors[i] = in->tensors[i];
		tensor_set_dtype(&out->tensors[i], dtype_converted(in->tensors[i].dtype, dtype));
	}
	out->like.tensors = out->tensors;
	return 0;
}

void dataset_output_release(struct dataset_output *out)
{
	free(out->tensors);
	free(out->files);
	free(out->names);
	free(out->index);
	*out = (struct dataset_output){0};
}

/* Set the tensors' files. Returns the number of files. */
static int cut(struct dataset_output *out, uint64_t most)
{
	uint64_t bytes = 0;
	int files = 1;
	for (size_t i = 0; i < out->like.ntensors; i++) {
		struct tensor *t = &out->tensors[i];
		if (bytes && (bytes > most || t->bytes > most - bytes)) {
			bytes = 0;
			files++;
		}
		bytes += t->bytes;
		t->file = files - 1;
	}
	return files;
}

/* Name @n files by @stem[len], @indexed: as shards of a set. */
static int name_files(struct dataset_output *out, int n, const char *stem, int len, bool indexed,
                      struct err *err)
{
	const char *suffix = format_safetensors.suffixes[0];
	const size_t room = (size_t)len + strlen(suffix) + sizeof "-2147483647-of-2147483647";
	out->names = err_calloc((size_t)n, room, "the names of an output", err);
	out->files = err_calloc((size_t)n, sizeof *out->files, "the files of an output", err);
	if (!out->names || !out->files)
		return -1;
	for (int i = 0; i < n; i++) {
		char *name = out->names + (size_t)i * room;
		if (indexed)
			snprintf(name, room, "%.*s-%05d-of-%05d%s", len, stem, i + 1, n, suffix);
		else
			snprintf(name, room, "%.*s%s", len, stem, suffix);
		out->files[i] = (struct dataset_file){
		        .fd = -1,
		        .name = name,
		        .metadata = out->like.nfiles ? out->like.files[0].metadata : NULL};
	}
	out->like.files = out->files;
	out->like.nfiles = n;
	return 0;
}

static int check(const struct dataset_output *out, const char *path, struct err *err)
{
	const struct format *f = out->like.format, *named;
	if (f->written)
		f = f->written;
	if (f != &format_safetensors)
		return err_set(err, ERR_USAGE,
		               "%s: --max-shard-size makes sets of .safetensors files, and this "
		               "input's output is %s: remove the option",
		               out->like.path, f->name);
	if (strcmp(path, "-") == 0 || (!path_is_folder(path) && !path_is_index(path) &&
	                               format_of(path, NULL, &named, NULL) == 0))
		return err_set(err, ERR_USAGE,
		               "%s: --max-shard-size makes a set of files: name a folder for the "
		               "output",
		               path);
	return 0;
}

int dataset_output_cut(struct dataset_output *out, const char *path, uint64_t bytes,
                       struct err *err)
{
	const char *suffix = format_safetensors.index, *stem = STEM;
	const bool by_index = !path_is_folder(path) && path_is_index(path);
	size_t len = strlen(STEM);
	if (check(out, path, err))
		return -1;
	if (by_index) {
		stem = path_name(path);
		len = strlen(stem) - strlen(suffix);
	}
	const int n = cut(out, bytes);
	const bool indexed = by_index || n > 1;
	if (name_files(out, n, stem, (int)len, indexed, err))
		return -1;
	if (indexed &&
	    !(out->index = err_asprintf("a path", err, "%.*s%s", (int)len, stem, suffix)))
		return -1;
	out->like.format = &format_safetensors;
	out->like.sharded = true;
	out->like.index = out->index;
	return 0;
}
