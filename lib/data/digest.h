/*
 * Digests of results. The digest of a tensor is XXH3-128 over its type and shape, "f32 (3, 4)\n"
 * ("f32 (3, 4) F\n" in Fortran order), followed by the XXH3-128 hashes (canonical, 16 bytes each)
 * of the 1 MiB pieces of its bytes in order. The digest of a dataset with names is XXH3-128 over
 * each tensor's name, a NUL and its digest, in the order of names; so it does not depend on the
 * distribution of tensors over files. The digest of a dataset of one tensor without a name is the
 * tensor's. The vote before the commit, `info` and `verify` use the same digests. Text: 32 hex
 * digits.
 *
 * A struct digest takes the bytes of consecutive tensors of a virtual array in the order in which
 * windows are written: several runs (one per block), each ascending. A piece that did not arrive
 * completely and in order within one run is read back from the file at the end. Memory: some
 * hundred bytes per run, some 40 per tensor and per piece.
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

/* Create digests of @tensors (n pointers, used only in this call), whose bytes are consecutive.
 * @starts: nruns ascending byte offsets (starts[0] = 0) at which the runs begin; each run ends
 * where the next begins. NULL on lack of memory. */
struct digest *digest_new(const struct tensor *const *tensors, size_t n, const uint64_t *starts,
                          size_t nruns);
/* @pos: byte offset from the first tensor's first byte. If it does not continue where the run's
 * previous call ended, the piece is read back. Calls for different runs may be concurrent. */
void digest_update(struct digest *, uint64_t pos, const void *buf, size_t bytes);
/* @pread_fn reads back bytes, at most a piece at a time; @pos as above. Fills @out[n], one digest
 * per tensor. */
int digest_final(struct digest *,
                 int (*pread_fn)(void *ctx, void *buf, size_t bytes, uint64_t pos, struct err *),
                 void *ctx, uint8_t (*out)[DIGEST_BYTES], struct err *err);
void digest_free(struct digest *);

/* The digest of a dataset from those of its tensors, in the order of names. -1: out of memory. */
int digest_names(const char *const *names, const uint8_t (*digests)[DIGEST_BYTES], size_t n,
                 uint8_t out[DIGEST_BYTES]);

char *digest_text(const uint8_t d[DIGEST_BYTES], char text[DIGEST_TEXT]);

#endif
