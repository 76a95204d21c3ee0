/*
 * Digests of results. A tensor's: XXH3-128 over its type and shape as in "f32 (3, 4)\n" ("f32 (3,
 * 4) F\n" in Fortran's order), and then the XXH3-128 hashes (canonical, 16 bytes each) of the 1 MiB
 * pieces of its bytes in order. That of a dataset with names: XXH3-128 over each tensor's name, a
 * NUL and its digest, in the order of names; so it doesn't depend on how tensors lie in files. That
 * of a dataset of one tensor without a name is the tensor's. The same in the commit's vote, `info`
 * and `verify`. Text: 32 hex digits.
 *
 * A struct digest takes the bytes of several tensors that lie one after another in a virtual array,
 * in the order in which windows are written: several runs (one a block), each ascending. A piece
 * that didn't come whole and in order within one run is read back from the file at the end. Memory:
 * some hundred bytes a run, some 40 a tensor and a piece.
 */
#ifndef COLLCTL_DATA_DIGEST_H
#define COLLCTL_DATA_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/data/dataset.h"

#define DIGEST_PIECE (1u << 20)
#define DIGEST_BYTES 16
#define DIGEST_TEXT  33

struct digest;

/* A digest of each of @tensors (n pointers, needed for this call alone), whose bytes follow one
 * another. @starts: nruns ascending byte offsets (starts[0] = 0) at which the runs begin; each run
 * ends where the next begins. NULL on lack of memory. */
struct digest *digest_new(const struct tensor *const *tensors, size_t n, const uint64_t *starts,
                          size_t nruns);
/* @pos: byte offset from the first tensor's first byte; it continues where the run's last call
 * ended (or the piece is read back). Calls for different runs may be concurrent. */
void digest_update(struct digest *, uint64_t pos, const void *buf, size_t bytes);
/* @pread_fn reads back what is needed, at most a piece at a time; @pos as above. Fills @out[n], a
 * digest for each tensor. */
int digest_final(struct digest *,
                 int (*pread_fn)(void *ctx, void *buf, size_t bytes, uint64_t pos, struct err *),
                 void *ctx, uint8_t (*out)[DIGEST_BYTES], struct err *err);
void digest_free(struct digest *);

/* The digest of a dataset from those of its tensors, in the order of names. -1: out of memory. */
int digest_names(const char *const *names, const uint8_t (*digests)[DIGEST_BYTES], size_t n,
                 uint8_t out[DIGEST_BYTES]);

char *digest_text(const uint8_t d[DIGEST_BYTES], char text[DIGEST_TEXT]);

#endif
