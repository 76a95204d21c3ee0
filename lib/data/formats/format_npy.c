/* .npy: an array with a header (npy.c). */
#include "lib/data/files/input.h"
#include "lib/data/formats/array.h"
#include "lib/data/formats/format_internal.h"

#define FIRST_READ 128 /* nearly every header fits */

static int describe(int fd, const char *path, uint64_t at, uint64_t size,
                    const struct array_hints *hints, struct array_info *info, struct err *err)
{
	/* The parser never asks for more: it refuses longer headers. */
	char buf[ARRAY_HEADER_MAX];
	struct err why = {0};
	size_t len = size < FIRST_READ ? (size_t)size : FIRST_READ, need;
	int r;
	do {
		if (input_pread(fd, path, buf, len, at, err))
			return -1;
		r = npy_parse(buf, len, size, hints->dtype, info, &need, &why);
		len = need;
	} while (r > 0);
	return r ? err_set(err, why.code, "%s: %s", path, why.text) : 0;
}

const struct format format_npy = {
        .name = "npy",
        .suffixes = {".npy"},
        .number = 1,
        .describe = describe,
        .header = npy_header,
        .open = format_open_array,
        .lay_out = format_lay_out_array,
};
