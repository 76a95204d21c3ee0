/*
 * A dataset: what one IN of the command line names. One file, or several, that hold tensors by
 * name:
 *
 *   .npy, raw                     one tensor, whose name is ""
 *   .safetensors                  one file, any number of tensors
 *   a sharded set                 the files of a *.safetensors.index.json, or of a folder
 *   .npz                          its members, without their ".npy"
 *   a folder of any files         no tensor
 *
 * Opening reads and checks the headers, every length in them before it is used; what is left are
 * descriptors and byte ranges, read with pread. A file is never mapped. Memory: some hundred bytes
 * a tensor.
 */
#ifndef COLLCTL_DATA_DATASET_H
#define COLLCTL_DATA_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "lib/base/err.h"
#include "lib/data/array.h"

struct tensor {
	const char *name; /* UTF-8 without NUL; the dataset's */
	enum dtype dtype;
	int ndim;
	const uint64_t *shape; /* [ndim]; the dataset's */
	uint64_t count;        /* elements */
	uint64_t bytes;        /* dtype_bits * count / 8 */
	int file;              /* in dataset.files */
	uint64_t offset;       /* of its first byte in that file */
	bool swapped, fortran; /* as in struct array_info */
};

struct dataset_file {
	int fd;
	char *path;      /* for messages */
	char *name;      /* its last component */
	uint64_t size;   /* bytes */
	struct stat was; /* when it was opened */
	char *metadata;  /* safetensors: __metadata__, as JSON text; NULL: none */
	bool spooled;    /* fd is a spool of ours, not the file */
	bool unpacked;   /* it has the members of an archive, which is another of the dataset's
	                  * files */
};

struct dataset {
	char *path; /* as the user named it, for messages */
	enum array_format format;
	bool sharded;         /* a set: the output is a folder, and file names are kept */
	char *index;          /* sharded: the index's name in its folder; NULL: there is none */
	char *index_metadata; /* its "metadata" as JSON text; NULL: none */
	bool selected;        /* dataset_select left some out */
	struct dataset_file *files;
	int nfiles;
	bool tree; /* a folder of any files; its folders, each before its contents: */
	struct dataset_folder {
		char *name; /* relative to path; "": the folder itself */
		struct stat was;
	} * folders;
	int nfolders;
	struct tensor *tensors; /* in the order of their names' bytes: the canonical order */
	size_t ntensors;
	void *arena; /* of names and shapes */
};

/* Where inputs come from that can't seek. */
struct dataset_source {
	const struct array_hints *hints;
	/* Called before each read of a pipe, to return once it will not block; -1 ends it. NULL:
	 * none. */
	int (*await)(void *ctx, int fd, struct err *err);
	/* Runs a long task, the unpacking of an archive. NULL: it runs in the caller's thread. */
	int (*aside)(void *ctx, int (*fn)(void *arg, struct err *), void *arg, struct err *err);
	void *ctx;
	bool raw_file; /* any bytes: one tensor of u8 */
	/* With raw_file: take folders with all their files and folders, and call this for each
	 * entry that is left out, which is neither. NULL: refuse folders. */
	void (*skip)(void *ctx, const char *path, bool symlink);
};

/* Open @path ("-": stdin; a pipe is spooled to an unnamed file). On failure there is nothing to
 * close. Errors: ERR_INPUT, naming the file (and the tensor), what was found and what was expected;
 * ERR_USAGE for raw without --dtype and names whose format is unknown; ERR_RESOURCE. */
int dataset_open(struct dataset *, const char *path, const struct dataset_source *, struct err *);
void dataset_close(struct dataset *);

/* Keep the tensors whose name some pattern of @include matches (n 0: all) and none of @exclude does
 * (fnmatch, in which '*' takes '.' and '/' too). ERR_USAGE: nothing is left, or it has no names. */
int dataset_select(struct dataset *, const char *const *include, int ninclude,
                   const char *const *exclude, int nexclude, struct err *err);

/* Is it one array, which needs no name? */
bool dataset_is_array(const struct dataset *);

/* Have both the same tensors, by name, type and shape? If not: ERR_INPUT, naming the first that
 * differs. */
int dataset_same(const struct dataset *a, const struct dataset *b, struct err *err);

/* Turn what lies in Fortran's order into C's, through a spool, with at most about @memory bytes;
 * afterwards no tensor is .fortran. */
int dataset_to_c_order(struct dataset *, size_t memory, struct err *err);

/* Read exactly @bytes at @pos of file @file, as they lie there. One that has become shorter is
 * ERR_INPUT. Thread-safe. */
int dataset_pread(const struct dataset *, int file, void *buf, size_t bytes, uint64_t pos,
                  struct err *err);
/* Reverse the bytes of each of @n elements of a type (complex: of each part). */
void dataset_swap(enum dtype dtype, void *buf, size_t n);

/* Check that the files have not changed since they were opened. ERR_INPUT: the size, the
 * modification time or, if that was put back, the ctime differs. Replacing, removing or linking a
 * file does not change the open one. Call it when everything is read, before this rank's outputs
 * get their names. */
int dataset_unchanged(const struct dataset *, struct err *err);

/* A tensor's type and shape as a struct array_info, offset and format left 0; -1: more than
 * ARRAY_MAX_DIMS dimensions. */
int tensor_info(const struct tensor *, struct array_info *info);
/* "(3, 4)" of a tensor, as Python writes it. Returns @buf. */
char *tensor_shape_text(const struct tensor *, char buf[ARRAY_SHAPE_TEXT]);

/* Bytes of all tensors. */
uint64_t dataset_bytes(const struct dataset *);

#endif
