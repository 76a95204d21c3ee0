/*
 * scatter --shard-dim: the root's tensors are cut along one axis as torch's Shard(D) cuts them, and
 * each rank writes its parts as one shard of a distributed checkpoint. The vector has the bytes of
 * rank 0's parts, then of rank 1's; those of a rank by the names of their tensors. All ranks get
 * the root's tensors as in consolidated.h. Internal to lib/coll; see collective.h.
 */
#ifndef COLLCTL_COLL_FILES_SHARDS_H
#define COLLCTL_COLL_FILES_SHARDS_H

#include "lib/data/dataset/dataset.h"

struct collective;

/* Rank @rank's part of @t, of @size ranks: a box of its elements, perhaps an empty one. A tensor
 * that lacks axis @axis is rank 0's. false: the rank has no part. Pure. */
bool shard_box(const struct tensor *t, int axis, int size, int rank, uint64_t *first,
               uint64_t *lengths);

/* At the root: the bytes of each rank's shard, rows[size]. ERR_INPUT: too many. */
int shards_rows(const struct collective *, uint64_t *rows, struct err *err);
/* Once the root's tensors are known: set the agreement's tensors to this rank's parts. */
int shards_adopt(struct collective *, struct err *err);
/* The path of this rank's shard in the folder @path. Malloced. ERR_USAGE: @path is no folder's. */
char *shards_path(const struct collective *, const char *path, struct err *err);
/* Add this rank's shard to the sink, in the folder @path. ERR_OUTPUT: the folder holds other files
 * that would be read as shards. */
int shards_name(struct collective *, const char *path, struct err *err);
/* At the root: read @n bytes of the vector from @pos on. Threads as for elements_read. */
int shards_read(const struct collective *, void *buf, uint64_t pos, uint64_t n, struct err *err);

#endif
