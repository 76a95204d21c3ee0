/* The names that the outputs of a job take, by the identity of their folders: finds two outputs at
 * one path, and outputs in one folder, in constant time for each. Not thread-safe. */
#ifndef COLLCTL_DATA_FILES_NAMES_TAKEN_H
#define COLLCTL_DATA_FILES_NAMES_TAKEN_H

#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

/* Empty when zeroed. */
struct names_taken {
	struct name_taken *slot; /* [mask + 1] */
	size_t mask;
};

/* A name in a folder; "": the folder. Folders of different @group are different. */
struct name_key {
	uint64_t device, inode;
	unsigned group;
	const char *name;
};

/* Make *t empty, with room for @most names. */
int names_taken_init(struct names_taken *t, size_t most, struct err *err);
/* The file that has taken the name; @file, which takes it, if none has. The name must stay. */
int names_taken_by(struct names_taken *t, struct name_key key, int file);
void names_taken_release(struct names_taken *t);

#endif
