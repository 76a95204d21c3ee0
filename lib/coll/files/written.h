/*
 * No file that a job writes may replace another that it writes or reads. Only an output may take
 * the place of an input, and a new tuning file that of the old one. Names are compared once links
 * are resolved; a file's hard links count as one.
 */
#ifndef COLLCTL_COLL_FILES_WRITTEN_H
#define COLLCTL_COLL_FILES_WRITTEN_H

#include "lib/coll/request/request.h"

struct collective;

/* A file that an option names. */
struct named_file {
	const char *option; /* "--trace" */
	const char *path;   /* NULL, "-": none */
	bool written;       /* else it is read */
};

/* ERR_USAGE if two of @files[n], one of them written, are the same. */
int written_compare(const struct named_file *files, int n, struct err *err);
/* The same of all files that the request names, but the inputs and outputs, and certificates whose
 * names have {rank}. */
int written_check(const struct coll_request *, struct err *err);
/* Once the outputs are open or checked: compare them with what this rank reads and, on the
 * coordinator's rank, request.also with the inputs and outputs of all ranks. */
int written_check_data(const struct collective *, struct err *err);

#endif
