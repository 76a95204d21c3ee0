/* Outputs by their format: which files, what stands at their beginning, and where the tensors go.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/data/safetensors.h"
#include "lib/data/sink_internal.h"

static const struct {
	const char *option, *ending;
} formats[] = {
        [ARRAY_NPY] = {"npy", ".npy"},
        [ARRAY_RAW] = {"raw", ".bin or .raw"},
        [ARRAY_SAFETENSORS] = {"safetensors", ".safetensors"},
        [ARRAY_NPZ] = {"npz", ".npz"},
};

/* The output has the input's format, which another rank may have told. */
int sink_check_format(const char *path, enum array_format hint, enum array_format want,
                      struct err *err)
{
	enum array_format format = hint;
	if (hint == ARRAY_FORMAT_AUTO && strcmp(path, "-") == 0)
		return 0;
	if (array_format_of(path, hint, &format, err) < 0)
		return -1;
	if (format == want)
		return 0;
	if (hint != ARRAY_FORMAT_AUTO)
		return err_set(err, ERR_USAGE, "%s: the output has the input's format: --format %s",
		               path, formats[want].option);
	return err_set(err, ERR_USAGE, "%s: the output has the input's format: end its name in %s",
	               path, formats[want].ending);
}

/* ---- single arrays ---- */

int sink_add_array(struct sink *s, const char *path, enum array_format hint,
                   const struct array_info *info, struct place *place, struct err *err)
{
	char head[ARRAY_HEADER_MAX];
	if (sink_check_format(path, hint, info->format, err) < 0)
		return -1;
	long len = array_header(info, head, sizeof head);
	if (len < 0)
		return err_set(err, ERR_OUTPUT, "%s: the header of this shape is too long", path);
	place->offset = (uint64_t)len;
	place->file = sink_add(s, path, head, (size_t)len, (uint64_t)len + array_bytes(info), err);
	return place->file < 0 ? -1 : 0;
}

int sink_tensor_info(const struct tensor *t, enum array_format format, struct array_info *info,
                     struct err *err)
{
	if (tensor_info(t, info))
		return err_set(err, ERR_INPUT, "tensor '%s': has %d dimensions: at most %d fit",
		               t->name, t->ndim, ARRAY_MAX_DIMS);
	info->format = format;
	info->swapped = false;
	info->fortran = t->fortran;
	return 0;
}

static int add_tensor(struct sink *s, const char *path, enum array_format hint,
                      const struct dataset *like, struct place *place, struct err *err)
{
	struct array_info info;
	if (like->ntensors != 1)
		return err_set(err, ERR_USAGE, "%s: holds one array, not %zu", path,
		               like->ntensors);
	if (sink_tensor_info(&like->tensors[0], like->format, &info, err))
		return -1;
	return sink_add_array(s, path, hint, &info, place, err);
}

/* ---- .safetensors ---- */

int sink_add_safetensors(struct sink *s, const char *path, const struct dataset *like,
                         const struct tensor **of, size_t n, const char *metadata,
                         struct place *places, struct err *err)
{
	char *head = NULL;
	size_t head_len;
	uint64_t size;
	int file = -1;
	struct err why = {.rank = ERR_RANK_SELF};
	uint64_t *offsets = calloc(n + 1, sizeof *offsets);
	if (!offsets)
		return err_nomem(err, "the tensors of an output", n * sizeof *offsets);
	if (safetensors_lay_out(of, n, metadata, &head, &head_len, offsets, &size, &why))
		err_set(err, why.code, "%s: %s", path, why.text);
	else
		file = sink_add(s, path, head, head_len, size, err);
	for (size_t i = 0; file >= 0 && i < n; i++)
		places[of[i] - like->tensors] = (struct place){file, offsets[i]};
	free(head);
	free(offsets);
	return file < 0 ? -1 : 0;
}

/* By file, in which they keep their order. */
static int by_file(const void *a, const void *b)
{
	const struct tensor *const *x = a, *const *y = b;
	if ((*x)->file != (*y)->file)
		return (*x)->file < (*y)->file ? -1 : 1;
	return *x < *y ? -1 : *x > *y;
}

const struct tensor **sink_by_file(const struct dataset *like, struct err *err)
{
	const struct tensor **of = calloc(like->ntensors + 1, sizeof *of);
	if (!of) {
		err_nomem(err, "the tensors of an output", like->ntensors * sizeof *of);
		return NULL;
	}
	for (size_t i = 0; i < like->ntensors; i++)
		of[i] = &like->tensors[i];
	qsort(of, like->ntensors, sizeof *of, by_file);
	return of;
}

static int one_file(struct sink *s, const char *path, const struct dataset *like,
                    struct place *places, struct err *err)
{
	const struct tensor **of = sink_by_file(like, err);
	const char *metadata = like->nfiles ? like->files[0].metadata : NULL;
	int ret =
	        of ? sink_add_safetensors(s, path, like, of, like->ntensors, metadata, places, err)
	           : -1;
	free(of);
	return ret;
}

/* ---- any ---- */

int sink_add_like(struct sink *s, const char *path, enum array_format hint,
                  const struct dataset *like, struct place *places, struct err *err)
{
	if (like->sharded)
		return sink_add_set(s, path, like, places, err);
	if (like->format == ARRAY_NPY || like->format == ARRAY_RAW)
		return add_tensor(s, path, hint, like, places, err);
	if (array_is_folder(path) || array_is_index(path))
		return err_set(err, ERR_USAGE,
		               "%s: is the name of a sharded set: the input is one file: end the "
		               "output's name in %s",
		               path, formats[like->format].ending);
	if (sink_check_format(path, hint, like->format, err) < 0)
		return -1;
	return like->format == ARRAY_NPZ ? sink_add_npz(s, path, like, places, err)
	                                 : one_file(s, path, like, places, err);
}
