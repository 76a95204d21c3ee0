/*
 * Arrays in .npy and raw files: their descriptions in headers and on the command line. dataset.h
 * opens and reads the files. Thread-safe.
 */
#ifndef COLLCTL_DATA_FORMATS_ARRAY_H
#define COLLCTL_DATA_FORMATS_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/data/dtype.h"
#include "lib/data/formats/format.h"

#define ARRAY_MAX_DIMS   64
#define ARRAY_SHAPE_TEXT 512
#define ARRAY_HEADER_MAX 10240 /* the longest header, read or written */

struct array_info {
	const struct format *format;
	enum dtype dtype;
	int ndim;
	uint64_t shape[ARRAY_MAX_DIMS];
	uint64_t count;  /* elements: the product of the shape */
	uint64_t offset; /* bytes from the start of the file to the first element */
	bool swapped;    /* big-endian; outputs are never big-endian */
	bool fortran;    /* in Fortran order, where this differs from C order */
};

/* What the command line says about an input. */
struct array_hints {
	const struct format *format; /* --format, or NULL: by extension */
	enum dtype dtype;  /* --dtype, or NONE; needed for raw files and for types without a .npy
	                      name */
	const char *shape; /* --shape "3,4"; NULL: a raw file is one-dimensional */
};

/* Parse "3,4", "(3, 4)", "3", "(3,)" or "()" into shape, ndim and count. */
int array_parse_shape(const char *text, struct array_info *info, struct err *err);
/* ERR_INPUT: the file @path, described by @info, contradicts the command line. */
int array_check_hints(const char *path, const struct array_hints *hints,
                      const struct array_info *info, struct err *err);

/* "(3, 4)", "(5,)", "()", as Python writes it. Returns @buf. */
char *array_shape_text(const struct array_info *info, char buf[ARRAY_SHAPE_TEXT]);
char *array_axes_text(const uint64_t *shape, int ndim, char buf[ARRAY_SHAPE_TEXT]);

/* Same dtype and shape? */
bool array_same(const struct array_info *a, const struct array_info *b);

/* Set info->count from the shape. -1: the number of bytes exceeds 63 bits. So after success no
 * product of dimensions overflows, unless the array has no elements. */
int array_count(struct array_info *info);
/* The array's bytes, without the header. */
uint64_t array_bytes(const struct array_info *info);
/* Check that @file_size is the size of a file with the array at its offset. The error does not name
 * the file. */
int array_check_size(const struct array_info *info, uint64_t file_size, struct err *err);

/* ---- .npy (npy.c) ---- */

/* Parse the header in @buf, the first @len bytes of a file of @file_size bytes, into *info. @hint:
 * the type of "|V2" and "<V2" (bf16) and of "|V1" and "<V1" (f8e4m3, f8e5m2), whose names .npy does
 * not store; ignored for other types. 0; 1: it needs the first *need bytes of the file; -1:
 * ERR_INPUT, without the name of the file. Source: numpy, numpy/lib/format.py. */
int npy_parse(const void *buf, size_t len, uint64_t file_size, enum dtype hint,
              struct array_info *info, size_t *need, struct err *err);
/* format.header: the same bytes as numpy.save: version 1.0, sorted keys, padded with spaces to a
 * multiple of 64 bytes, a newline at the end. */
long npy_header(const struct array_info *info, char *buf, size_t cap);

#endif
