/*
 * A dataset: one input (IN of the command line). It has one file or several, and tensors by name:
 *
 *   .npy, raw                     one tensor, whose name is ""
 *   .safetensors                  one file, any number of tensors
 *   a sharded set                 the files of a *.safetensors.index.json, or of a folder
 *   .npz                          its members, without their ".npy"
 *   a folder of any files         no tensor
 *
 * Opening reads the headers, and checks every length in them before it is used. An open dataset has
 * open descriptors, and byte ranges in them that are read with pread. No file is mapped. Memory: a
 * few hundred bytes per tensor. One thread, except where a function is thread-safe.
 */
#ifndef COLLCTL_DATA_DATASET_DATASET_H
#define COLLCTL_DATA_DATASET_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "lib/base/err.h"
#include "lib/base/pool.h"
#include "lib/data/formats/array.h"

struct dataset;

struct tensor {
	const char *name; /* UTF-8 without NUL; owned by the dataset */
	enum dtype dtype;
	int ndim;
	const uint64_t *shape; /* [ndim]; owned by the dataset */
	uint64_t count;        /* elements */
	uint64_t bytes;        /* dtype_bits * count / 8 */
	int file;              /* index in dataset.files */
	uint64_t offset;       /* offset of its first byte in that file */
	bool swapped, fortran; /* as in struct array_info */
	/* Of a tensor that lies in several places: @npieces, which follow each other in C order and
	 * have all its bytes. Owned by the dataset. Then file and offset are those of the first. */
	const struct tensor_piece {
		int file;
		uint64_t offset, bytes;
	} * pieces;
	int npieces; /* 0: it lies in one place */
	bool copied; /* it is a view of other elements: its bytes are not in that place, but in a
	                copy */
	/* With dataset_source.parts, of a part of a tensor: its first index along each axis, and
	 * the shape of the whole, [ndim], owned by the dataset. first NULL: it is whole; whole
	 * NULL: not known. A part of 0 elements says only that the tensor exists. */
	const uint64_t *first, *whole;
};

/* Which names are chosen: those that match a pattern of include (ninclude 0: all) and no pattern of
 * exclude. Of tensors, a pattern matches a name by fnmatch, where '*' also matches '.' and '/', or
 * if it is the name; of the files of a folder, as path_matches says (lib/base/path_pattern.h). */
struct dataset_patterns {
	const char *const *include, *const *exclude;
	int ninclude, nexclude;
	bool none; /* no tensor or file need be left, and no pattern need match one */
	/* Called for each pattern of exclude that matches nothing and, of a folder with `none`, of
	 * include; @option: "--exclude", "--include". May be NULL. */
	void (*unused)(void *ctx, const struct dataset *, const char *option, const char *pattern);
	void *ctx;
};

struct dataset_file {
	int fd;          /* -1: it is open only while it is read (dataset_file_open) */
	char *path;      /* for messages */
	char *name;      /* its last component */
	uint64_t size;   /* bytes */
	struct stat was; /* its attributes when it was opened */
	/* With dataset_in_memory, its bytes from @head on; NULL: they are in the file. */
	const uint8_t *memory;
	uint64_t head;
	char *metadata; /* safetensors: __metadata__, as JSON text; NULL: none */
	bool spooled; /* fd is a spool (spool.h) with the file's bytes, because the file cannot seek
	               */
	bool unpacked; /* a spool with the members of an archive; the archive is another file of the
	                  dataset */
};

struct dataset {
	char *path; /* as the user named it, for messages */
	const struct format *format;
	bool sharded; /* a sharded set: its output is a folder with files of the same names */
	char *index;  /* sharded: the name of the index; NULL: none */
	char *index_metadata; /* its "metadata" as JSON text; NULL: none */
	bool joined;          /* its tensors are joined from pieces: its files are not copied one by
	                       * one */
	bool hull; /* joined from files that do not say the shapes of the tensors: they are those of
	              the pieces that are there */
	bool selected; /* its tensors are not all, or have other names than in the files */
	struct dataset_file *files;
	int nfiles;
	int nbeside; /* the last of them, in the folder, have no tensors (dataset_beside.h) */
	bool tree;   /* a folder of any files, sorted by name, with these folders, also sorted: */
	struct dataset_folder {
		char *name; /* relative to path; "": the folder itself */
		struct stat was;
	} * folders;
	int nfolders;
	/* With dataset_source.links: its symbolic links that stay in it (path_link_stays), sorted.
	 */
	bool keeps_links;
	struct dataset_link {
		char *name, *target;
		struct stat was;
	} * links;
	int nlinks;
	struct dataset_patterns names; /* of a tree: which are chosen; borrowed */
	/* Values of a torch file that are no tensors, in the file's order. Outputs lack them. */
	struct dataset_value {
		const char *name; /* as of a tensor */
		const char *json;
	} * values;
	size_t nvalues;
	struct tensor *tensors; /* sorted by the bytes of their names: the canonical order */
	size_t ntensors;
	struct pool pool; /* names, shapes, pieces and values */
};

/* Is @path "-" (stdin) or a FIFO? It can be read only once, and its reader waits for a writer. */
bool dataset_is_pipe(const char *path);

/* A descriptor to read the file, which the caller gives to dataset_file_close. Small files of a
 * folder (dataset.tree) are opened for it. -1: ERR_INPUT, also if the file is another or has
 * changed since the dataset was opened. Thread-safe. */
int dataset_file_open(const struct dataset_file *, struct err *err);
void dataset_file_close(const struct dataset_file *, int fd);

/* How to open inputs, including those that cannot seek. */
struct dataset_source {
	const struct array_hints *hints;
	/* Called before each read of a pipe: waits until @fd is readable; -1 fails the opening. May
	 * be NULL. */
	int (*await)(void *ctx, int fd, struct err *err);
	/* Called to run a long task, unpacking an archive; returns the result of @fn. NULL: the
	 * task runs on the caller's thread. */
	int (*aside)(void *ctx, int (*fn)(void *arg, struct err *), void *arg, struct err *err);
	void *ctx;
	bool raw_file; /* treat the file as bytes: one tensor of u8 */
	/* The caller will read no elements: of an archive, only the headers of members are
	 * unpacked. */
	bool heads_only;
	/* A file with pieces of tensors may be opened alone, as if they were tensors: to show it.
	 */
	bool pieces;
	/* Pieces of tensors are not joined: each is a tensor of the dataset, with its place
	 * (tensor.first), and several have one name. Files that hold pieces may be missing. */
	bool parts;
	uint64_t memory; /* --memory: an archive may expand to this (npz.h) */
	/* With raw_file: a folder is read with all its files and folders; this is called for each
	 * other entry, which is skipped, with the reason: "is a symbolic link". NULL: folders are
	 * refused. */
	void (*skip)(void *ctx, const char *path, const char *why);
	/* With raw_file and a folder: symbolic links whose targets stay in the folder are not
	 * skipped. ERR_USAGE: the input is no folder. */
	bool links;
	/* With raw_file: which files of a folder to read, with the folders in which they are; NULL:
	 * all. ERR_USAGE: a pattern of include matches nothing, without `none`; the input is no
	 * folder. */
	const struct dataset_patterns *names;
};

/* Open @path ("-": stdin; a pipe is copied to a spool). On failure there is nothing to close.
 * ERR_INPUT names the file, the tensor, what was found and what was expected; ERR_USAGE: a raw file
 * without --dtype, or an unknown format. */
int dataset_open(struct dataset *, const char *path, const struct dataset_source *, struct err *);
void dataset_close(struct dataset *);

/* The elements of the array @d are at @data, in C order, and not in its file, which has only its
 * head and the right length. They may not change as long as the dataset is open. */
void dataset_in_memory(struct dataset *d, const void *data);

/* Keep only the tensors that the patterns choose. ERR_USAGE: a pattern of include matches nothing,
 * no tensor is left, or the tensors have no names. */
int dataset_select(struct dataset *, const struct dataset_patterns *, struct err *err);

/* Take each of the @n prefixes, in this order, from the names that begin with it and have more.
 * ERR_INPUT: two names become one; ERR_USAGE: the tensors have no names. */
int dataset_strip(struct dataset *, const char *const *prefixes, int n, struct err *err);

/* Is the dataset one array without a name? */
bool dataset_is_array(const struct dataset *);
/* Is the dataset an archive, whose members are in a spool? */
bool dataset_is_archive(const struct dataset *);

/* Do both have the same tensors, by names, types and shapes? 0; -1: ERR_INPUT names the first that
 * differs. */
int dataset_same(const struct dataset *a, const struct dataset *b, struct err *err);

/* Convert tensors in Fortran order to C order, in a spool, with at most about @memory bytes. Clears
 * tensor.fortran. ERR_INPUT, ERR_RESOURCE. */
int dataset_to_c_order(struct dataset *, size_t memory, struct err *err);

/* Read exactly @n bytes of the tensor from byte @at on, unchanged. As dataset_pread. */
int dataset_read(const struct dataset *, const struct tensor *t, void *buf, size_t n, uint64_t at,
                 struct err *err);
/* The same of whole elements, in the byte order of this machine. */
int dataset_read_native(const struct dataset *, const struct tensor *t, void *buf, size_t n,
                        uint64_t at, struct err *err);
/* Read exactly @bytes at @pos of file number @file, without a conversion. ERR_INPUT: the file has
 * become shorter. Thread-safe. */
int dataset_pread(const struct dataset *, int file, void *buf, size_t bytes, uint64_t pos,
                  struct err *err);
/* Reverse the bytes of each of @n elements (complex: of each part). */
void dataset_swap(enum dtype dtype, void *buf, size_t n);

/* Check that the files have not changed since they were opened. ERR_INPUT: the size, the
 * modification time or, if that was reset, the ctime differs. Replacing, removing or linking a file
 * does not change the open file; of a tree, whose files need not be open, ERR_INPUT says that one
 * was replaced or removed. Call it after the last read, and before this rank renames its
 * outputs. */
int dataset_unchanged(const struct dataset *, struct err *err);

/* Of a tree, after dataset_unchanged: do the folders still have the links and folders that were
 * found, and no other files? ERR_INPUT names one that has come, gone or been replaced. Temporary
 * files, and folders with nothing else, may come: they may be outputs of this job. */
int dataset_tree_unchanged(const struct dataset *, struct err *err);

/* Give a tensor that is to be written another type; sets its bytes. */
void tensor_set_dtype(struct tensor *, enum dtype);
/* A tensor's type and shape as a struct array_info, offset and format left 0; -1: more than
 * ARRAY_MAX_DIMS dimensions. */
int tensor_info(const struct tensor *, struct array_info *info);
/* "(3, 4)" of a tensor, as Python writes it. Returns @buf. */
char *tensor_shape_text(const struct tensor *, char buf[ARRAY_SHAPE_TEXT]);

/* Bytes of all tensors. */
uint64_t dataset_bytes(const struct dataset *);

#endif
