/*
 * Checks that no file that a job writes replaces another file that it writes or reads. Two
 * exceptions: an output may replace an input, and a new tuning file the old one. Symbolic links are
 * resolved before the comparison; hard links to one file are the same file.
 */
#ifndef COLLCTL_COLL_FILES_WRITTEN_H
#define COLLCTL_COLL_FILES_WRITTEN_H

#include "lib/coll/request/request.h"

struct collective;

struct named_file {
	const char *option; /* the option that names it, "--trace" */
	const char *path;   /* NULL: no file; "-": stdin, if it is read */
	bool written;       /* it is written; else it is read */
};

/* ERR_USAGE: two of @files[n], of which at least one is written, are the same file, or one that is
 * written is "-". */
int written_compare(const struct named_file *files, int n, struct err *err);
/* The same for all files that the request names, except inputs, outputs, and certificates with
 * placeholders in their names. */
int written_check(const struct coll_request *, struct err *err);
/* Check, on the rank that writes them, that the files that the request names may be written, before
 * it measures what they will have: ERR_OUTPUT. They are not created. */
int written_probe(const struct coll_request *, struct err *err);
/* Once the outputs are open or checked: compare them with the files that this rank reads and, on
 * the coordinator, compare request.also with the inputs and outputs of all ranks, --origin and
 * --delta. ERR_USAGE. */
int written_check_data(const struct collective *, struct err *err);

#endif
