/*
 * What ranks of a collective tell each other where it may differ: the details of intents and plans
 * (lib/net/PROTOCOL.md). Whoever decodes checks bounds; what is malformed is ERR_INTEGRITY. Getters
 * consume what they read.
 *
 * Rows are elements of axis 0.
 */
#ifndef COLLCTL_JOB_DETAILS_H
#define COLLCTL_JOB_DETAILS_H

#include "lib/base/buf.h"
#include "lib/base/err.h"
#include "lib/data/array.h"

/* An array, and how it is cut along axis 0 for the @size ranks: @counts, or NULL: as evenly as can
 * be. */
void details_put_array(struct buf *, const struct array_info *info, const uint64_t *counts,
                       int size);
/* @info without an offset. @counts has room for @size; *even: it was not filled. */
int details_get_array(struct view *, int size, struct array_info *info, uint64_t *counts,
                      bool *even, struct err *err);

/* One number of rows for each rank. */
void details_put_rows(struct buf *, const uint64_t *rows, int size);
int details_get_rows(struct view *, int size, uint64_t *rows, struct err *err);

/* The sum of @n numbers in *sum; -1: over 63 bits. */
int rows_sum(const uint64_t *rows, int n, uint64_t *sum);

#define MODE_NONE 0x8000u

/* The files of a broadcast, or those that are gathered. */
struct told_file {
	char *name;
	uint64_t bytes; /* of a folder: 0 */
	unsigned mode;  /* permissions, or MODE_NONE: a pipe, which has neither these nor a time */
	int64_t mtime;  /* ns since 1970 */
};
struct told {
	enum array_format format;
	bool folder; /* they go to a folder under their names */
	bool tree;   /* their names are paths, with '/', in that folder */
	struct told_file *files;
	int nfiles;
	struct told_file *folders; /* of a tree, each before what is in it; "": the whole */
	int nfolders;
};
void told_release(struct told *);
void details_put_told(struct buf *, const struct told *);
/* Where names count (told.folder), each is a plain base name that hides no file, or of a tree a
 * path that stays below its folder; all differ. */
int details_get_told(struct view *, struct told *, struct err *err);

/* The files that a rank gives to be gathered, and its host. */
#define SOURCE_HOST 256
struct source {
	struct told files; /* base names */
	char host[SOURCE_HOST];
};
void source_release(struct source *);
void details_put_source(struct buf *, const struct source *);
/* @nfiles: how many there must be. */
int details_get_source(struct view *, struct source *, int nfiles, struct err *err);

/* Base names of files. As above. */
void details_put_name(struct buf *, const char *name);
int details_get_name(struct view *, char **name, struct err *err);

/* How a part runs. */
struct told_part {
	char algorithm[32];
	enum dtype wire;
	uint32_t windows; /* >= 1 */
};
void details_put_part(struct buf *, const struct told_part *);
int details_get_part(struct view *, struct told_part *, struct err *err);

/* A finite number >= 0. */
void details_put_weight(struct buf *, double);
int details_get_weight(struct view *, double *, struct err *err);

/* Is nothing left, and was all there? */
int details_end(const struct view *, struct err *err);

#endif
