/*
 * --delete: after the verdict each rank removes from its output folder what the root's list does
 * not have. The ranks first tell each other which folders they write and read, because a rank whose
 * folder holds another's, or lies in it, removes nothing. Internal to lib/coll; see collective.h.
 */
#ifndef COLLCTL_COLL_FILES_DELETES_H
#define COLLCTL_COLL_FILES_DELETES_H

#include "lib/base/buf.h"
#include "lib/data/files/extra.h"

struct collective;

struct deletes {
	struct extras extras;
	const char **names; /* [nnames]: of the root's list, sorted */
	size_t nnames;
	uint64_t own;      /* target_identity of this rank's folder; 0: none */
	uint64_t input;    /* of the root's input */
	uint64_t *outputs; /* [size]: of the ranks' folders */
	int told;          /* on the coordinator: answers of the rounds */
};

/* Once the outputs are named: find what is to be removed. ERR_USAGE: the input is no folder, or has
 * no files and --force is not given; the output is ".", "..", "/" or the home folder.
 * ERR_OUTPUT. */
int deletes_find(struct collective *, struct err *err);
/* Are the rounds not over? Then job_collect and job_answer are: */
bool deletes_exchanges(const struct collective *);
int deletes_take(struct collective *, int rank, struct view part, struct err *err);
void deletes_answer(struct collective *, struct buf *out);
/* After the commit. ERR_OUTPUT: some could not be removed. */
int deletes_remove(struct collective *, struct err *err);
/* Tell the user which. On the job's thread. */
void deletes_note(const struct collective *);
void deletes_release(struct collective *);

#endif
