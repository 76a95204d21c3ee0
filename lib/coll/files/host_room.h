/*
 * In a dry run: would the outputs of all ranks of a host fit on its file systems? Each rank's own
 * are checked alone before, and alone with --update, of which nobody knows beforehand what is
 * written. Internal to lib/coll; see collective.h.
 */
#ifndef COLLCTL_COLL_FILES_HOST_ROOM_H
#define COLLCTL_COLL_FILES_HOST_ROOM_H

#include "lib/base/fields.h"
#include "lib/data/files/room.h"

struct collective;

struct host_room {
	struct room all; /* on the coordinator */
	char **names;    /* [nnames], malloced: those in @all, and others */
	size_t nnames;
	int taken; /* ranks */
};

/* Once files_check_outputs has found no error: add up what the ranks need. ERR_OUTPUT: outputs do
 * not fit. */
int host_room_check(struct collective *, struct err *err);
/* job_collect of its round; the answer is empty. */
int host_room_take(struct collective *, int rank, struct view part, struct err *err);
void host_room_release(struct collective *);

#endif
