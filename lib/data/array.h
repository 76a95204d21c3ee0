/*
 * Arrays in files, .npy and raw: what the header and the command line say of them, and the header
 * of one that is written. Whoever opens the file and reads it is dataset.h.
 */
#ifndef COLLCTL_DATA_ARRAY_H
#define COLLCTL_DATA_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/data/dtype.h"

#define ARRAY_MAX_DIMS   64
#define ARRAY_SHAPE_TEXT 512
#define ARRAY_HEADER_MAX 10240 /* no header is longer, read or written */

enum array_format { ARRAY_FORMAT_AUTO, ARRAY_NPY, ARRAY_RAW, ARRAY_SAFETENSORS, ARRAY_NPZ };

struct array_info {
	enum array_format format;
	enum dtype dtype;
	int ndim;
	uint64_t shape[ARRAY_MAX_DIMS];
	uint64_t count;  /* elements: the product of the shape */
	uint64_t offset; /* bytes from the start of the file to the first element */
	bool swapped;    /* big-endian; what is written never is */
	bool fortran;    /* in Fortran's order, where that makes a difference */
};

/* What the command line says about inputs that can't say it themselves. */
struct array_hints {
	enum array_format format; /* --format, or AUTO: by extension */
	enum dtype dtype;  /* --dtype; needed for raw and what .npy has no name for; or NONE */
	const char *shape; /* --shape "3,4", or NULL: raw is one-dimensional */
};

/* "npy", "raw", "safetensors", "npz"; NULL: AUTO. */
enum array_format array_format_by_name(const char *name);
const char *array_format_name(enum array_format);

/* The format by hint, else by extension (.npy; .safetensors, .safetensors.index.json; .npz; .bin,
 * .raw), else ARRAY_SAFETENSORS for a folder. ERR_USAGE naming the formats if none says; .pt/.pth
 * and other known formats get an error that says what to do. */
int array_format_of(const char *path, enum array_format hint, enum array_format *out,
                    struct err *err);

/* Is it the name of a sharded set's index? */
bool array_is_index(const char *path);
/* Is it a folder, or a name that ends in '/'? */
bool array_is_folder(const char *path);

/* Read and check the header of the array of @format (npy or raw) in the @size bytes at @at of @fd;
 * info->offset counts from there. The error names @path. */
int array_describe(int fd, const char *path, uint64_t at, uint64_t size, enum array_format format,
                   const struct array_hints *hints, struct array_info *info, struct err *err);
/* What the file says must be what the command line says, where both say it: else ERR_INPUT. */
int array_check_hints(const char *path, const struct array_hints *hints,
                      const struct array_info *info, struct err *err);

/* Write the header of @info into @buf (@cap bytes) and return its length, which is what
 * info->offset is to be; raw: 0. For npy: the very bytes of numpy.save: version 1.0, sorted keys,
 * padded with spaces to a multiple of 64, newline last. -1: it does not fit, or the format has no
 * such type. */
long array_header(const struct array_info *info, char *buf, size_t cap);

/* "(3, 4)", "(5,)", "()", as Python writes it. Returns @buf. */
char *array_shape_text(const struct array_info *info, char buf[ARRAY_SHAPE_TEXT]);

/* Same dtype and shape? */
bool array_same(const struct array_info *a, const struct array_info *b);

/* Fill info->count from dtype and shape. -1: the bytes of the array, its zero dimensions left
 * aside, don't fit 63 bits. So products of dimensions need no further check. */
int array_count(struct array_info *info);
/* The array's bytes, without the header. */
uint64_t array_bytes(const struct array_info *info);
/* Is a file of @file_size bytes, offset included, what @info says? The error doesn't name it. */
int array_check_size(const struct array_info *info, uint64_t file_size, struct err *err);

/* ---- .npy (npy.c) ---- */

/* Parse the header in @buf, @len bytes from the start of a file of @file_size bytes; @hint: what
 * "|V2" and "<V2" (bf16) or "|V1" and "<V1" (f8e4m3, f8e5m2) are, whose names .npy loses; others
 * say nothing here. Fills *info (offset included). Returns 0; 1 if more of the file is needed
 * (*need bytes from its start); -1: an error without the file's name, in words. */
int npy_parse(const void *buf, size_t len, uint64_t file_size, enum dtype hint,
              struct array_info *info, size_t *need, struct err *err);
/* array_header for .npy. */
long npy_header(const struct array_info *info, char *buf, size_t cap);

#endif
