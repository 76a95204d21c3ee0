/*
 * gather and allgather --consolidate, and scatter --shard-dim (shards.h): the parts of tensors that
 * lie on the disks of all ranks become whole tensors at the ranks that write. Internal to lib/coll;
 * see collective.h.
 *
 *   consolidated_offer     list this rank's pieces; one vector of their bytes
 *   consolidated_exchange  the ranks' tables of pieces go to the coordinator, and from it to the
 *                          ranks that write (piece_table.h); each rank learns which of its pieces
 * it sends consolidated_name ...  the outputs, and the places of the vector's bytes in files
 */
#ifndef COLLCTL_COLL_FILES_CONSOLIDATED_H
#define COLLCTL_COLL_FILES_CONSOLIDATED_H

#include "lib/coll/agreement/piece_table.h"
#include "lib/coll/coll.h"
#include "lib/data/files/extents.h"

struct collective;

/* A piece in this rank's files. */
struct own_piece {
	int set; /* index of the input */
	const struct tensor *tensor;
	bool chosen, has_replica;
};

struct consolidated {
	struct own_piece *own; /* [nown], in the order of this rank's table */
	size_t nown;
	struct buf table; /* this rank's, encoded */

	/* the rounds */
	enum { ROUNDS_TABLES, ROUNDS_ANSWERS, ROUNDS_DIGESTS, ROUNDS_OVER } rounds;
	struct buf *parts; /* at the coordinator, [size]: tables, then digests */
	uint64_t limit;    /* bytes of memory for tables */
	uint64_t taken;    /* bytes of all parts */
	bool more;         /* a rank has more for this kind of rounds */
	struct buf *heads; /* at the coordinator, [size] */
	uint64_t *served;  /* [size]: bytes of its answer that a rank has got */
	uint32_t left;     /* rounds of answers */
	struct buf answer; /* elsewhere: what came */
	uint64_t *rows;    /* [size]: the bytes that each rank sends; --shard-dim: gets */

	struct piece_table all; /* at the coordinator and at the ranks that write */
	uint32_t *sent;         /* [all.pieces.n]: the chosen pieces, in the order of the vector */
	size_t nsent;
};

/* Begin, before anything of the other ranks comes. */
int consolidated_begin(struct collective *, struct err *err);
/* Make the vector of this rank's inputs, which are open. With --shard-dim: at the root. */
int consolidated_offer(struct collective *, struct err *err);
/* Once the terms are adopted: exchange tables; set the vector's rows, and at ranks that write the
 * tensors. ERR_INPUT, ERR_DISAGREE: as piece_table_settle; ERR_DISAGREE: --check-replicas. */
int consolidated_exchange(struct collective *, struct err *err);
/* job_collect and job_answer at the coordinator, until the exchange is over. */
bool consolidated_exchanges(const struct collective *);
int consolidated_take(struct collective *, int rank, struct view part, struct err *err);
void consolidated_answer(struct collective *, int rank, struct buf *out);
void consolidated_release(struct collective *);

/* ---- consolidated_files.c ---- */

/* Map the bytes that this rank sends to its inputs. */
int consolidated_map_input(const struct collective *, struct extents *in, struct err *err);
/* Add the output @path, once the tensors are known. */
int consolidated_name(struct collective *, const char *path, struct err *err);
/* Write @n bytes of the vector from @pos on to their places. Threads as for elements_write. */
int consolidated_store(const struct collective *, const uint8_t *buf, uint64_t pos, uint64_t n,
                       struct err *err);

#endif
