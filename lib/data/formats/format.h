/*
 * File formats. Each is a struct format, in format_NAME.c, and has a row in format_rows.h. Other
 * code uses these structs, and does not name formats. One thread, as dataset.h and sink.h.
 */
#ifndef COLLCTL_DATA_FORMATS_FORMAT_H
#define COLLCTL_DATA_FORMATS_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/data/dtype.h"

struct array_hints;
struct array_info;
struct dataset;
struct dataset_source;
struct place;
struct sink;

struct format {
	const char *name;        /* the name in --format and --json */
	const char *suffixes[4]; /* of file names, in lower case; NULL-terminated */
	const char *index; /* the suffix of a set's index, for the format whose sets folders are;
	                      NULL: no sets */
	uint8_t number;    /* in messages between ranks: 1 to 127, never reused */

	/* For single arrays without names; NULL: the format has tensors with names. describe: read
	 * and check the header of the array in the @size bytes at @at of @fd; info->offset is
	 * relative to @at; errors name @path. header: write the header of @info to @buf[cap], and
	 * return its length, which is the offset of the elements; -1: it does not fit, or the
	 * format lacks the type. */
	int (*describe)(int fd, const char *path, uint64_t at, uint64_t size,
	                const struct array_hints *hints, struct array_info *info, struct err *err);
	long (*header)(const struct array_info *info, char *buf, size_t cap);

	/* For tensors with names: does the format lack a name for this type, so that --dtype is
	 * needed? NULL: it has names for all types. */
	bool (*loses)(enum dtype dtype);

	/* Add the tensors of dataset.files[0], which is the only file. */
	int (*open)(struct dataset *, const struct dataset_source *, const struct array_hints *,
	            struct err *);
	/* Add the files and tensors of the set whose index or folder is dataset.path. */
	int (*open_set)(struct dataset *, const struct dataset_source *, struct err *);
	/* Add the files of an output to the sink, with everything but the elements of @like's
	 * tensors, and set the places of the elements. Called by sink_add_like, which has checked
	 * @path. */
	int (*lay_out)(struct sink *, const char *path, const struct dataset *like,
	               struct place *places, struct err *);
	/* For a format that is only read: outputs of its datasets have this one. NULL: their own.
	 */
	const struct format *written;
};

extern const struct format format_npy, format_raw, format_safetensors, format_npz, format_torch,
        format_dcp;

extern const struct format *const formats[];
extern const size_t formats_len;
extern const char format_choices[]; /* "|npy|...": each name after a bar */

const struct format *format_by_name(const char *name);  /* NULL: none, or @name is NULL */
const struct format *format_by_number(unsigned number); /* or NULL */

/* Why files of this name are never read; NULL: they may be. */
const char *format_refusal(const char *path);
/* The format of @path: @hint if not NULL, else by suffix, else for a folder the format of sets.
 * ERR_USAGE lists the formats if it is unknown, or says what to do (format_refusal). */
int format_of(const char *path, const struct format *hint, const struct format **out,
              struct err *err);
/* ".bin or .raw". Returns @buf. */
#define FORMAT_ENDINGS 64
char *format_endings(const struct format *, char buf[FORMAT_ENDINGS]);

static inline bool format_is_array(const struct format *f)
{
	return f && f->describe;
}

/* Is @path the name of a set's index? */
bool path_is_index(const char *path);
/* Is @path a folder, or does it end in '/'? */
bool path_is_folder(const char *path);

#endif
