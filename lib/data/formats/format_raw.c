/* Raw files: the elements of an array that the command line describes. */
#include <inttypes.h>

#include "lib/data/formats/array.h"
#include "lib/data/formats/foreign.h"
#include "lib/data/formats/format_internal.h"

static int describe(int fd, const char *path, uint64_t at, uint64_t size,
                    const struct array_hints *hints, struct array_info *info, struct err *err)
{
	struct err why = {0};
	(void)at;
	if (!hints->format && foreign_check(fd, path, size, err))
		return -1;
	*info = (struct array_info){.format = &format_raw, .dtype = hints->dtype};
	if (hints->dtype == DTYPE_NONE)
		return err_set(err, ERR_USAGE, "%s: a raw file needs --dtype", path);
	if (hints->shape) {
		if (array_parse_shape(hints->shape, info, err))
			return -1;
	} else {
		info->ndim = 1;
		info->shape[0] = size / dtype_size(hints->dtype);
		if (array_count(info))
			return err_set(err, ERR_INPUT, "%s: is too large", path);
		if (size % dtype_size(hints->dtype))
			return err_set(err, ERR_INPUT,
			               "%s: has %" PRIu64 " bytes: expected a multiple of %zu for "
			               "%s",
			               path, size, dtype_size(hints->dtype),
			               dtype_name(hints->dtype));
	}
	if (array_check_size(info, size, &why))
		return err_set(err, why.code, "%s: %s", path, why.text);
	return 0;
}

static long header(const struct array_info *info, char *buf, size_t cap)
{
	(void)info, (void)buf, (void)cap;
	return 0;
}

const struct format format_raw = {
        .name = "raw",
        .suffixes = {".bin", ".raw"},
        .number = 2,
        .describe = describe,
        .header = header,
        .open = format_open_array,
        .lay_out = format_lay_out_array,
};
