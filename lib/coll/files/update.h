/*
 * --update: files of a broadcast of which all ranks have a copy are not sent. The root's list has
 * sizes, permissions and times; with --checksum, the root sends the digests of its files. Each rank
 * answers which files it lacks. What is left of the vector is what somebody lacks. Internal to
 * lib/coll; see collective.h.
 */
#ifndef COLLCTL_COLL_FILES_UPDATE_H
#define COLLCTL_COLL_FILES_UPDATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/buf.h"
#include "lib/base/err.h"

struct collective;

struct update {
	bool exchanging;
	uint8_t round;      /* on the coordinator: of the last part */
	struct buf answer;  /* on the coordinator: to that round */
	uint8_t *lacks;     /* a bit for each of the root's files; of this rank, then of any */
	struct buf digests; /* 16 bytes for each of the root's files */
	size_t nequal;      /* files that no rank lacks */
};

/* Once the outputs have names: find what all ranks have, leave it out of the vector, and keep these
 * files. Nothing without --update. */
int update_agree(struct collective *, struct err *err);
/* job_collect and job_answer of its rounds. */
bool update_exchanges(const struct collective *);
int update_take(struct collective *, int rank, struct view part, struct err *err);
void update_answer(struct collective *, struct buf *out);
void update_release(struct collective *);

#endif
