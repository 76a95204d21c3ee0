/*
 * gather --update: files of which the root has a copy, as it would be written, are not sent. With
 * --checksum each rank first sends the digests of its files. The root compares the lists of all
 * ranks with its outputs, and tells all ranks which files are left out and how many bytes remain.
 * Internal to lib/coll; see collective.h.
 */
#ifndef COLLCTL_COLL_FILES_GATHER_UPDATE_H
#define COLLCTL_COLL_FILES_GATHER_UPDATE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "lib/base/buf.h"
#include "lib/base/err.h"

struct collective;

struct gather_update {
	enum { GATHER_DIGESTS, GATHER_EQUAL, GATHER_OVER } round;
	/* On the coordinator, of a round: what the ranks have said, and how many got the answer. */
	struct buf said;
	int told;
	uint8_t *digests; /* of this rank's files or, at the root, of those of all ranks in order */
	/* At the root: the outputs that are left, and what they were when they were compared. */
	struct gather_kept {
		int file; /* in the sink */
		struct stat was;
	} * kept;
	size_t nkept;
	uint64_t kept_bytes;
};

/* Once the outputs are named: set listed_file.equal of this rank's files and, at the root, of those
 * of all ranks, and lay out the vectors anew. Nothing without --update. ERR_USAGE: the files are
 * joined. */
int gather_update_agree(struct collective *, struct err *err);
/* Before the outputs are sealed: are the files that are left still what they were? ERR_INPUT. */
int gather_update_check(const struct collective *, struct err *err);
/* job_collect and job_answer of its rounds. */
bool gather_update_exchanges(const struct collective *);
int gather_update_take(struct collective *, int rank, struct view part, struct err *err);
void gather_update_answer(struct collective *, int rank, struct buf *out);
void gather_update_release(struct collective *);

#endif
