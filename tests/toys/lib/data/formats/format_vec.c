/*
 * A toy: .vec, a line "vec DTYPE COUNT" and the elements of a one-dimensional array.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/data/files/input.h"
#include "lib/data/formats/format_internal.h"

#define LINE 64

extern const struct format format_vec;

static int describe(int fd, const char *path, uint64_t at, uint64_t size,
                    const struct array_hints *hints, struct array_info *info, struct err *err)
{
	char line[LINE + 1] = "", dtype[LINE];
	struct err why = {0};
	int len = 0;
	(void)hints;
	if (input_pread(fd, path, line, size < LINE ? (size_t)size : LINE, at, err) < 0)
		return -1;
	*info = (struct array_info){.format = &format_vec, .ndim = 1};
	if (sscanf(line, "vec %15s %" SCNu64 "%n", dtype, &info->shape[0], &len) != 2 ||
	    line[len] != '\n' || (info->dtype = dtype_by_name(dtype)) == DTYPE_NONE)
		return err_set(err, ERR_INPUT, "%s: does not begin with 'vec DTYPE COUNT'", path);
	info->offset = (uint64_t)len + 1;
	if (array_count(info) < 0 || array_check_size(info, size, &why) < 0)
		return err_set(err, ERR_INPUT, "%s: %s", path, why.text);
	return 0;
}

static long header(const struct array_info *info, char *buf, size_t cap)
{
	const int n =
	        snprintf(buf, cap, "vec %s %" PRIu64 "\n", dtype_name(info->dtype), info->count);
	return n < 0 || (size_t)n >= cap || info->ndim != 1 ? -1 : n;
}

const struct format format_vec = {
        .name = "vec",
        .suffixes = {".vec"},
        .number = 127,
        .describe = describe,
        .header = header,
        .open = format_open_array,
        .lay_out = format_lay_out_array,
};
