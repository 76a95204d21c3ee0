/*
 * --update: what all ranks have is not sent in a broadcast of files. The root's list has sizes,
 * permissions and times; with --checksum, the root sends the digests of its files. Each rank
 * answers which files it lacks, and of which it has an old version. Of files of which all ranks
 * have one the root sends the digests of pieces, and each rank answers which pieces its old version
 * lacks. What is left of the vector is what somebody lacks; the other pieces are copied from the
 * old version.
 *
 * With --resume, a rank also has the pieces that its part (part.h) has. They are in their place;
 * the others are copied into it from the old version, or sent. Without --update, only the parts
 * count.
 *
 * With --delta OLD, OLD being the root's old version, the ranks also find which pieces of their old
 * versions differ from OLD's. The root codes the pieces that somebody lacks (coding.h), as
 * differences to OLD's where one that lacks the piece has OLD's. The vector is the stream of coded
 * pieces: for each its length, u32, and its bytes. It is stored in a spool, and decoded before the
 * outputs are sealed; each piece must have the digest that the root has sent. Ranks that lack
 * pieces of OLD get a second stream, a vector among them and the root, with the pieces that are
 * differences in the first stream, coded by themselves.
 *
 * Without --delta, pieces are coded in the same way, by themselves, if the network is so slow that
 * this takes less time than it saves (update_compress.c).
 *
 * Internal to lib/coll; see collective.h.
 */
#ifndef COLLCTL_COLL_FILES_UPDATE_H
#define COLLCTL_COLL_FILES_UPDATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "lib/base/buf.h"
#include "lib/base/err.h"
#include "lib/data/coding/coding.h"
#include "lib/data/digest_cache.h"
#include "lib/data/files/beneath.h"

struct coll_pieces;
struct collective;
struct dataset_file;
struct file_list;
struct listed_file;

#define UPDATE_PIECE (1ull << 20) /* bytes; the last piece of a file may have fewer */

/* Bytes of the root's file number @file from @at on, and their base: bytes of the old version. */
struct update_move {
	uint64_t file, at, bytes;
	uint64_t from;  /* UPDATE_NOWHERE: they have none */
	unsigned width; /* of elements; 0: not known */
};
#define UPDATE_NOWHERE    UINT64_MAX
#define UPDATE_MOVE_BYTES 32 /* of a move in a message */
/* In the order of files and bytes, and disjoint. */
struct update_moves {
	struct update_move *list;
	size_t n;
};

enum update_stream { UPDATE_TO_ALL, UPDATE_WHOLE, UPDATE_STREAMS };

struct update {
	bool over; /* there are no more rounds */
	/* On the coordinator, of a round: the ranks' parts so far; what they have, as bytes of the
	 * parts; the answer. */
	int parts;
	uint64_t *said; /* [size]; 0: no part yet */
	struct buf answer;
	/* Bits, the lowest first. Of this rank, and then of any rank: */
	uint8_t *lacks; /* [2 * files + 1]: the file is not as the root's; there is no old version;
	                   at the end: it cannot decode what is compressed */
	uint64_t rate;  /* bytes/s of the slowest port between hosts; 0: not known */
	uint8_t *lacks_piece; /* [npieces] */
	/* With --delta, two for each piece: a rank that lacks it does not have OLD's; one that
	 * lacks it has OLD's. Then one for each rank: it lacks pieces, and OLD's, which exist. */
	uint8_t *bases;
	/* With --delta, of this rank alone: [npieces] */
	uint8_t *own_lacks, *own_base;
	uint8_t *in_part;          /* [npieces]: this rank's part has the piece */
	struct digest_cache cache; /* open while the ranks compare */
	uint64_t cached;           /* bytes whose digests were in it */
	/* For progress: bytes that were compared or coded before data move; bytes of parts that
	 * were found in their place at the end. */
	_Atomic uint64_t compared, checked;
	struct stat *seen; /* [files]: this rank's files, as compared, if they are equal */
	/* Digests, DIGEST_BYTES each. Of OLD's pieces zeros are: OLD has no such piece; of this
	 * rank's likewise. */
	uint8_t *of_files;                 /* [files]: of the root's */
	uint8_t *of_pieces, *of_old, *own; /* [npieces]: of the root's, OLD's, this rank's */
	uint64_t *first_piece;             /* [files + 1]: the number of each file's first piece */
	uint64_t npieces;
	/* What is sent: runs of the root's files, in order; those of file f are run[first_run[f]]
	 * to run[first_run[f + 1] - 1]. NULL: all files, whole. */
	struct update_run {
		uint64_t offset, bytes;
	} * run;
	size_t nruns, *first_run;
	size_t nequal;  /* files that no rank lacks */
	uint64_t equal; /* bytes of pieces that no rank lacks, in other files */
	bool codes;     /* pieces are coded, if there are any */
	/* request.delta. The base of a file that has moves consists of these, and of zeros; that of
	 * another file is the old version, at the same offsets. elements, at the root: the tensors
	 * and their widths. */
	struct update_moves moves, elements;
	bool coded;                           /* the vectors are streams of coded pieces */
	int spool[UPDATE_STREAMS];            /* of them; -1: none yet */
	uint64_t coded_bytes[UPDATE_STREAMS]; /* of the streams */
	uint64_t plain_bytes;                 /* of the pieces in the first */
	uint64_t coded_as[CODINGS]; /* the pieces in the first, once this rank has coded or
	                               decoded them */
	int *without_old;           /* [nwithout]: the ranks that lack pieces of OLD, ascending */
	int nwithout;
};

/* Do the ranks of a broadcast compare files or their parts? Do the ranks, also of a gather, compare
 * the old files? */
bool update_wanted(const struct collective *);
bool update_takes_old(const struct collective *);
/* Is the old file of the output @file a copy of @want? @digest: of @want, with --checksum; @last:
 * as for sink_stat_old; @buf: UPDATE_PIECE bytes. *st: its attributes, if it is. */
bool update_is_copy(struct collective *, const struct listed_file *want, int file,
                    const uint8_t *digest, struct beneath *last, struct stat *st, uint8_t *buf);
/* Is the output @file, which was left as it was, still the file with the attributes @was? @last: as
 * for sink_stat_old. ERR_INPUT. */
int update_check_left(const struct sink *, int file, struct beneath *last, const struct stat *was,
                      struct err *err);
/* An answer of the coordinator is damaged. Returns -1. */
int update_malformed_answer(const struct collective *, struct err *err);
/* Once the outputs have names: find what all ranks have, leave it out of the vector, and keep the
 * files that are equal. Nothing without --update. */
int update_agree(struct collective *, struct err *err);
/* Before the outputs are sealed: decode the pieces, copy those that are not sent from the old
 * files, and look at the files that are kept. ERR_INPUT: one has changed meanwhile. May take long.
 */
int update_finish(struct collective *, struct err *err);
/* job_collect and job_answer of its rounds. */
bool update_exchanges(const struct collective *);
int update_take(struct collective *, int rank, struct view part, struct err *err);
void update_answer(struct collective *, struct buf *out);
/* At the end of a job that has succeeded, with or without --update. */
struct coll_pieces update_count_pieces(const struct collective *);
void update_release(struct collective *);

/* update_digests.c. The digest of @buf[n]. */
void update_hash(const void *buf, uint64_t n, uint8_t *digest);
/* Read @n bytes of the file at @path, and compute their digest. */
int update_digest(int fd, const char *path, uint64_t at, uint64_t n, uint8_t *buf, uint8_t *digest,
                  struct err *err);
/* Set that the file at @path has changed since the ranks compared it: ERR_INPUT. Returns -1. */
int update_changed(const char *path, struct err *err);
/* The file at @path, which the ranks have compared, cannot be opened again because of @why: set
 * @why if it is ERR_RESOURCE; else that the file has changed. Returns -1. */
int update_not_opened(const char *path, const struct err *why, struct err *err);
/* A file whose digests the ranks compare. */
struct update_source {
	int fd;           /* -1: none */
	const char *path; /* for messages */
	struct digest_key key;
};
struct update_source update_source_of(const struct update *, int fd, const char *path);
/* As update_digest, but reads nothing if the digest is in the cache: then @buf stays as it is. */
int update_digest_once(struct update *, const struct update_source *, uint64_t at, uint64_t n,
                       uint8_t *buf, uint8_t *digest, struct err *err);
/* The digest of its first @bytes, unless it has fewer, likewise. @buf: UPDATE_PIECE bytes. */
int update_digest_file(struct update *, const struct update_source *, uint64_t bytes, uint8_t *buf,
                       uint8_t *digest, struct err *err);
/* The same of the input @in. @path: its name in messages. */
int update_digest_input(struct update *, const struct dataset_file *in, const char *path,
                        uint8_t *buf, uint8_t *digest, struct err *err);

/* update_pieces.c. A piece of the root's file @f: number @i of all, @n bytes from byte @at on. */
struct update_piece {
	int f;
	uint64_t i, at, n;
};
struct update_piece update_piece_of(const struct collective *, int f, uint64_t i);
/* The part of the sink's file @file was compared before it was opened for writing. Does it still
 * have the piece? ERR_INPUT; @buf: room for a piece. */
int update_check_in_place(struct collective *, int file, const struct update_piece *, uint8_t *buf,
                          struct err *err);
typedef int update_visit(void *ctx, const struct update_piece *, struct err *err);
/* Call @fn for each piece of file @f. */
int update_each_piece(const struct collective *, int f, update_visit *fn, void *ctx,
                      struct err *err);
/* At the root: fill update.of_pieces; at a rank with outputs: update.own and lacks_piece; copy. In
 * a thread that job_run_in_thread has started; @collective: a struct collective. */
int update_digest_pieces(void *collective, struct err *err);
int update_find_pieces(void *collective, struct err *err);
int update_copy_pieces(void *collective, struct err *err);

/* update_compress.c. Has this rank libzstd, if it lacks files, and room for a spool? */
bool update_can_decode(const struct collective *);
/* Once the ranks have exchanged update.lacks: the root decides whether pieces are compressed. It
 * sets update.codes, in such a thread. */
bool update_may_compress(const struct collective *);
int update_try_coding(void *collective, struct err *err);

/* update_coded.c. Read and write coded pieces, in the spool; open it, unless it is open. */
int update_read_coded(const struct update *, enum update_stream, void *buf, uint64_t pos,
                      uint64_t n, struct err *err);
int update_write_coded(const struct update *, enum update_stream, const void *buf, uint64_t pos,
                       uint64_t n, struct err *err);
int update_open_spool(struct update *, enum update_stream, struct err *err);
/* At the root: is OLD a file, or a folder, as the input? */
int update_check_old(const struct collective *, struct err *err);
/* The file of OLD for the root's file number @f: OLD, or in the folder OLD. -1: there is none;
 * @err, which may be NULL: ERR_RESOURCE if that cannot be known. */
int update_open_old(const struct collective *, int f, struct err *err);
/* At the root: find the moves, and fill update.of_old. In such a thread. */
int update_digest_old(void *collective, struct err *err);

/* update_moves.c. At the root: fill update.moves and elements, by the headers of the files. */
int update_find_moves(struct collective *, struct err *err);
/* Does a rank take so many? Encode them, UPDATE_MOVE_BYTES each; decode @n. ERR_INTEGRITY: they do
 * not fit the root's @files; the caller frees the list in either case. */
bool update_takes_moves(const struct collective *, uint64_t n);
void update_put_moves(const struct update_moves *, uint8_t *to);
int update_get_moves(struct update_moves *, const struct file_list *files, const uint8_t *from,
                     size_t n, struct err *err);
bool update_has_moves(const struct update *, int f);
/* Read the base of a piece from the old version @fd, and compute its digest. */
int update_read_base(const struct update *, int fd, const char *path, const struct update_piece *,
                     uint8_t *buf, uint8_t *digest, struct err *err);
/* The width of most elements of the piece, from its beginning on; 0: not known. */
unsigned update_width(const struct update *, const struct update_piece *);

/* update_group.c. Fill update.bases with this rank's bits, and own_base. In such a thread. */
int update_find_bases(void *collective, struct err *err);
/* Does the rank lack pieces of OLD? Once the ranks have exchanged update.bases. */
bool update_lacks_old(const struct collective *, int rank);
/* List the ranks without OLD; add the vector among them and the root, if the second stream has
 * bytes. */
int update_add_group(struct collective *, struct err *err);

/* update_coding.c. At the root: fill the spools, and set coded_bytes. In such a thread. */
int update_encode(void *collective, struct err *err);
/* Write the pieces of the spool to the outputs. Nothing unless they are coded. ERR_INTEGRITY: the
 * stream is damaged; ERR_INPUT: an old file has changed. In such a thread. */
int update_decode(struct collective *, struct err *err);

static inline bool update_bit(const uint8_t *bits, uint64_t i)
{
	return bits[i / 8] >> i % 8 & 1;
}
static inline void update_set_bit(uint8_t *bits, uint64_t i)
{
	bits[i / 8] |= (uint8_t)(1 << i % 8);
}

#endif
