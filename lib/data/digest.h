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
 * order, from one thread at a time. What did not arrive in order is read back from the file: as
 * soon as its piece is complete (digest_settle), if it has a state, or at the end. Memory: some 50
 * bytes per tensor and per piece, and some 600 bytes for each piece that has arrived in part, at
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
/* Add @bytes at @pos, the offset from the first tensor's first byte. */
void digest_update(struct digest *, uint64_t pos, const void *buf, size_t bytes);
/* Read back bytes: @bytes at @pos as above, at most @cap of digest_settle or DIGEST_PIECE. */
typedef int digest_pread(void *ctx, void *buf, size_t bytes, uint64_t pos, struct err *);
/* The last bytes that were added, @bytes at @pos, are in the file: read back what has not arrived
 * in order of the pieces that they have completed. The system still has it in memory. Once all
 * bytes of a piece were added, none may be written without digest_update. @buf: @cap bytes for this
 * call. -1: the error of @pread_fn. */
int digest_settle(struct digest *, uint64_t pos, size_t bytes, void *buf, size_t cap,
                  digest_pread *pread_fn, void *ctx, struct err *err);
/* Bytes that were added may be added again, from any position on: the pieces that they do not
 * complete anew will be read back. */
void digest_go_back(struct digest *);
/* Compute the digests into @out[n], one per tensor, and read back what is missing. -1: the error of
 * @pread_fn, or ERR_RESOURCE. */
int digest_final(struct digest *, digest_pread *pread_fn, void *ctx, uint8_t (*out)[DIGEST_BYTES],
                 struct err *err);
void digest_free(struct digest *);

/* The digest of a dataset from those of its tensors, in the order of names. -1: out of memory. */
int digest_names(const char *const *names, const uint8_t (*digests)[DIGEST_BYTES], size_t n,
                 uint8_t out[DIGEST_BYTES]);

char *digest_text(const uint8_t d[DIGEST_BYTES], char text[DIGEST_TEXT]);

#endif
