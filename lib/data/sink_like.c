/* Outputs by their format: which files, what stands at their beginning, and where the tensors go.
 */
#include <string.h>

#include "lib/data/sink.h"

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
