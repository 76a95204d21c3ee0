/*
 * Digests of results, which the vote before the commit, `info` and `verify` use. As text a digest
 * has 32 hex digits.
 * - Of a tensor: XXH3-128 over its type and shape, "f32 (3, 4)\n" ("f32 (3, 4) F\n" in Fortran
 *   order), followed by the XXH3-128 hashes (canonical, 16 bytes each) of the 1 MiB pieces of its
 *   bytes, in order.
 * - Of a dataset with names: XXH3-128 over each tensor's name, a NUL and its digest, in the order
 *   of names. So it does not depend on how tensors are distributed over files.
 * - Of a dataset of one tensor without a name: the tensor's.
 *
 * A struct digest takes the bytes of consecutive tensors of a virtual array (extents.h), in any
 * order. A piece whose bytes did not arrive in order is read back from the file at the end. Memory:
 * 40 bytes per tensor and per piece, and some 600 bytes for each piece that has arrived in part, at
 * most 2.5 MB.
 */
#ifndef COLLCTL_DATA_DIGEST_H
#define COLLCTL_DATA_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/data/dataset/dataset.h"

#define DIGEST_PIECE (1u << 20)
#define DIGEST_BYTES 16
#define DIGEST_TEXT  33

struct digest;

/* Begin the digests of @tensors[n], whose bytes are consecutive; the array is used only in this
 * call. NULL: no memory. */
struct digest *digest_new(const struct tensor *const *tensors, size_t n);
/* Add @bytes at @pos, the offset from the first tensor's first byte. A piece that they neither
 * begin nor continue will be read back. */
void digest_update(struct digest *, uint64_t pos, const void *buf, size_t bytes);
/* Bytes that were added may be added again, from any position on: the pieces that they do not
 * complete anew will be read back. */
void digest_go_back(struct digest *);
/* Compute the digests into @out[n], one per tensor. @pread_fn reads back bytes, at most
 * DIGEST_PIECE at a time; @pos as above. -1: its error, or ERR_RESOURCE. */
int digest_final(struct digest *,
                 int (*pread_fn)(void *ctx, void *buf, size_t bytes, uint64_t pos, struct err *),
                 void *ctx, uint8_t (*out)[DIGEST_BYTES], struct err *err);
void digest_free(struct digest *);

/* The digest of a dataset from those of its tensors, in the order of names. -1: out of memory. */
int digest_names(const char *const *names, const uint8_t (*digests)[DIGEST_BYTES], size_t n,
                 uint8_t out[DIGEST_BYTES]);

char *digest_text(const uint8_t d[DIGEST_BYTES], char text[DIGEST_TEXT]);

#endif
