/* A folder that a sink creates for its files, unless it exists. Internal to the sink; see sink.h.
 */
#ifndef COLLCTL_DATA_FILES_SINK_FOLDER_H
#define COLLCTL_DATA_FILES_SINK_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/err.h"
#include "lib/data/files/sink.h"

struct sink_folder {
	char *path; /* owned by the sink */
	size_t top; /* as for beneath_open */
	struct sink_attributes attributes;
	int file; /* the first file that was added after the folder */
	bool made;
	bool left;   /* a job has created it that was ended (part_left_folder) */
	bool absent; /* sink_check has not found it: sink_open would create it */
};

/* These return 0, or -1: ERR_OUTPUT names the folder. Create it, or find that it exists. @resume:
 * as by sink_resume. */
int sink_folder_make(struct sink_folder *, bool sync, bool resume, struct err *err);
/* Find, in place of that, whether it exists or could be created. */
int sink_folder_check(struct sink_folder *, struct err *err);
/* Set the permissions and the time of a folder that was created, once its contents are complete. */
int sink_folder_finish(const struct sink_folder *, struct err *err);
/* Remove it, if it is empty. */
void sink_folder_remove(const struct sink_folder *);

#endif
