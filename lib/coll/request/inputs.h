/* How to read the input files of a job or of a local command. */
#ifndef COLLCTL_COLL_REQUEST_INPUTS_H
#define COLLCTL_COLL_REQUEST_INPUTS_H

#include "lib/data/dataset/dataset.h"

struct job;

struct input_options {
	const struct format *format; /* NULL: from the extension */
	enum dtype dtype;            /* for raw files; DTYPE_NONE: not given */
	const char *shape;           /* for raw files, "3,4"; NULL: not given */
	const char **include;        /* patterns of tensor names */
	int ninclude;
	const char **exclude;
	int nexclude;
	const char **strip; /* prefixes of tensor names */
	int nstrip;
	bool raw_file;    /* treat files as bytes */
	bool takes_bytes; /* the command has raw_file: errors suggest it */
};

struct input_source {
	const struct input_options *o;
	bool raw_file;   /* treat this input as bytes */
	bool heads_only; /* as in dataset.h */
	bool pieces;     /* as in dataset.h */
	bool parts;      /* as in dataset.h */
	bool links;      /* as in dataset.h */
	bool none;       /* of a folder: no pattern of include need match a file */
	uint64_t memory; /* --memory */
	struct job *job; /* its loop runs while a pipe is awaited or an archive is unpacked; NULL:
	                    none */
	/* Called for a remark about an input. May be NULL. */
	void (*note)(void *ctx, const char *text);
	/* Called for each entry of a folder that is skipped. NULL: folders are refused. */
	void (*skip)(void *ctx, const char *path, const char *why);
	void *ctx;
};

/* ERR_USAGE: raw_file together with options that describe the contents. */
int inputs_check(const struct input_options *, struct err *err);
/* As dataset_open; if raw_file would help, the error suggests it. */
int inputs_open(struct dataset *, const char *path, const struct input_source *, struct err *err);
/* Apply include and exclude (dataset_select), then strip. A pattern of exclude that matches nothing
 * is a remark. */
int inputs_select(struct dataset *, const struct input_source *, struct err *err);

#endif
