/*
 * --update: what all ranks have is not sent in a broadcast of files. The root's list has sizes,
 * permissions and times; with --checksum, the root sends the digests of its files. Each rank
 * answers which files it lacks, and of which it has an old version. Of files of which all ranks
 * have one the root sends the digests of pieces, and each rank answers which pieces its old version
 * lacks. What is left of the vector is what somebody lacks; the other pieces are copied from the
 * old version. Internal to lib/coll; see collective.h.
 */
#ifndef COLLCTL_COLL_FILES_UPDATE_H
#define COLLCTL_COLL_FILES_UPDATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/buf.h"
#include "lib/base/err.h"

struct collective;

#define UPDATE_PIECE (1ull << 20) /* bytes; the last piece of a file may have fewer */

struct update {
	bool exchanging;
	uint8_t round; /* on the coordinator: of the last part, and its number among those alike */
	uint32_t number;
	struct buf answer; /* on the coordinator: to that round */
	/* Bits, the lowest first. Of this rank, and then of any rank: */
	uint8_t *lacks; /* [2 * files]: the file is not as the root's; there is no old version */
	uint8_t *lacks_piece;  /* [npieces] */
	struct buf digests;    /* of the root's files */
	struct buf of_pieces;  /* digests of the pieces, of all files with some */
	uint64_t *first_piece; /* [files + 1]: the number of each file's first piece */
	uint64_t npieces;
	/* What is sent: runs of the root's files, in order; those of file f are run[first_run[f]]
	 * to run[first_run[f + 1] - 1]. NULL: all files, whole. */
	struct update_run {
		uint64_t offset, bytes;
	} * run;
	size_t nruns, *first_run;
	size_t files;   /* while they are listed: the file */
	size_t nequal;  /* files that no rank lacks */
	uint64_t equal; /* bytes of pieces that no rank lacks, in other files */
};

/* Once the outputs have names: find what all ranks have, leave it out of the vector, and keep the
 * files that are equal. Nothing without --update. */
int update_agree(struct collective *, struct err *err);
/* Once the outputs are open: copy the pieces that are not sent from the old files. ERR_OUTPUT: an
 * old file has changed meanwhile. */
int update_copy(struct collective *, struct err *err);
/* job_collect and job_answer of its rounds. */
bool update_exchanges(const struct collective *);
int update_take(struct collective *, int rank, struct view part, struct err *err);
void update_answer(struct collective *, struct buf *out);
void update_release(struct collective *);

/* update_pieces.c. Read @n bytes of the file at @path, and compute their digest. */
int update_digest(int fd, const char *path, uint64_t at, uint64_t n, uint8_t *buf, uint8_t *digest,
                  struct err *err);
/* At the root: fill update.of_pieces; at a rank with outputs: update.lacks_piece; copy. In a thread
 * that job_run_in_thread has started; @collective: a struct collective. */
int update_digest_pieces(void *collective, struct err *err);
int update_find_pieces(void *collective, struct err *err);
int update_copy_pieces(void *collective, struct err *err);

static inline bool update_bit(const uint8_t *bits, uint64_t i)
{
	return bits[i / 8] >> i % 8 & 1;
}
static inline void update_set_bit(uint8_t *bits, uint64_t i)
{
	bits[i / 8] |= (uint8_t)(1 << i % 8);
}

#endif
