/* What jobs that were ended have left below a folder: parts (part.h) and temporary files
 * (outfile.h). One thread. */
#ifndef COLLCTL_DATA_FILES_LEFTOVERS_H
#define COLLCTL_DATA_FILES_LEFTOVERS_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"

enum leftover_fate {
	LEFTOVER_REMOVED, /* in a dry run: it would be */
	LEFTOVER_USED,    /* a job uses it */
	LEFTOVER_KEPT,    /* the old version of an output, from a job that was ended while it
	                     renamed its outputs: the user decides */
	LEFTOVER_FAILED,  /* it cannot be examined or removed; perhaps a folder */
};

struct leftover {
	const char *path;
	enum leftover_fate fate;
	uint64_t bytes;
	const char *why; /* LEFTOVER_FAILED */
};

struct leftovers {
	int64_t age; /* ns since the last write: younger files stay */
	bool dry_run;
	void (*tell)(void *ctx, const struct leftover *);
	void *ctx;
};

/* Does a job give such a name to a part, a temporary file, or the old version of an output? */
bool leftovers_is_name(const char *name);

/* Remove what was left below @folder: regular files and symbolic links, by their names, of this
 * user (root: of any), that no job uses. No symbolic link is followed below @folder. Calls @tell
 * for each, in the order of names. ERR_INPUT: @folder cannot be opened. ERR_RESOURCE. */
int leftovers_remove(const struct leftovers *, const char *folder, struct err *err);

#endif
