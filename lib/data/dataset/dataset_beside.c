#include "lib/data/dataset/dataset_beside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "lib/base/entry.h"
#include "lib/base/io.h"
#include "lib/base/path.h"
#include "lib/data/dataset/dataset_internal.h"
#include "lib/data/files/input.h"
#include "lib/data/formats/format.h"

#define INDEX ".index.json" /* of sets in any format */

/* What other programs keep weights in. */
static const char *const weights[] = {".h5",  ".msgpack", ".onnx",    ".onnx_data", ".onnx.data",
                                      ".ot",  ".tflite",  ".mlmodel", ".ggml",      ".nemo",
                                      ".pkl", ".pickle",  ".joblib",  ".pdparams"};

static bool ends_in(const char *name, const char *suffix)
{
	const size_t n = strlen(name), m = strlen(suffix);
	return n >= m && strcasecmp(name + n - m, suffix) == 0;
}

/* Is @suffix in the name, before its end or another suffix: model.ckpt.data-00000-of-00001? */
static bool has_suffix(const char *name, const char *suffix)
{
	const size_t n = strlen(suffix);
	for (const char *at = name; (at = strcasestr(at, suffix)); at += n)
		if (at > name && (!at[n] || at[n] == '.'))
			return true;
	return false;
}

bool dataset_beside_name(const char *name)
{
	if (!path_is_plain(name) || name[0] == '.' || ends_in(name, INDEX) || format_refusal(name))
		return false;
	for (size_t i = 0; i < formats_len; i++)
		for (int k = 0; formats[i]->suffixes[k]; k++)
			if (has_suffix(name, formats[i]->suffixes[k]))
				return false;
	for (size_t i = 0; i < sizeof weights / sizeof *weights; i++)
		if (ends_in(name, weights[i]))
			return false;
	return true;
}

static int is_entry(const struct dirent *e)
{
	return e->d_name[0] != '.';
}

/* Does the dataset read this file? */
static bool is_own(const struct dataset *d, const char *name)
{
	bool own = d->index && strcmp(d->index, name) == 0;
	for (int i = 0; i < d->nfiles && !own; i++)
		own = strcmp(d->files[i].name, name) == 0;
	return own;
}

static bool is_regular(const char *folder, const char *name, struct err *err)
{
	struct stat st;
	char *path = path_join(folder, name, err);
	const bool regular = path && stat(path, &st) == 0 && S_ISREG(st.st_mode);
	free(path);
	return regular;
}

static int list_entry(struct beside *b, const struct dataset *d, const char *name, struct err *err)
{
	char *copy;
	if (is_own(d, name))
		return 0;
	if (!(copy = err_strdup(name, "a file name", err)))
		return -1;
	if (dataset_beside_name(name) && is_regular(b->folder, name, err)) {
		b->names[b->n++] = copy;
		return 0;
	}
	if (b->nleft++)
		free(copy);
	else
		b->left = copy;
	return err->code ? -1 : 0;
}

int beside_list(struct beside *b, const struct dataset *d, struct err *err)
{
	struct dirent **list = NULL;
	*b = (struct beside){0};
	if (!path_is_folder(d->path) && !path_is_index(d->path))
		return err_set(err, ERR_USAGE,
		               "%s: --with-files: the input is one file: name its folder", d->path);
	b->folder = path_is_folder(d->path) ? err_strdup(d->path, "a path", err)
	                                    : path_folder(d->path, err);
	if (!b->folder)
		return -1;
	const int n = scandir(b->folder, &list, is_entry, entry_by_bytes);
	if (n < 0)
		return err_errno(err, ERR_INPUT, "%s: cannot list", b->folder);
	b->names = err_calloc((size_t)n + 1, sizeof *b->names, "the names in a folder", err);
	int ret = b->names ? 0 : -1;
	for (int i = 0; i < n; i++) {
		if (ret == 0)
			ret = list_entry(b, d, list[i]->d_name, err);
		free(list[i]);
	}
	free(list);
	return ret;
}

void beside_release(struct beside *b)
{
	for (int i = 0; i < b->n; i++)
		free(b->names[i]);
	free(b->names);
	free(b->folder);
	free(b->left);
	*b = (struct beside){0};
}

int dataset_add_beside(struct dataset *d, const struct beside *b, struct err *err)
{
	char what[512];
	snprintf(what, sizeof what, "the %d other files of %.400s", b->n, b->folder);
	if (need_descriptors(b->n + SPARE_DESCRIPTORS, what, err))
		return -1;
	for (int i = 0; i < b->n; i++) {
		struct stat st;
		char *path = path_join(b->folder, b->names[i], err);
		const int fd = path ? input_open(path, &st, err) : -1;
		const int file = fd < 0 ? -1 : dataset_add_file(d, fd, path, false, err);
		free(path);
		if (file < 0)
			return -1;
		d->nbeside++;
	}
	return 0;
}
