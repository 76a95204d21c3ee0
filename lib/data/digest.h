/*
 * The digest of a result: XXH3-128 over the array's description, its dtype and shape as in
 * "f32 (3, 4)\n", and then the XXH3-128 hashes (canonical, 16 bytes each) of the 1 MiB pieces of
 * the array's bytes in file order. The same in the commit's vote, `info` and `verify`. Text: 32 hex
 * digits.
 *
 * The bytes arrive in the order in which windows are written: several runs (one a block), each
 * ascending. A piece that didn't come whole and in order within one run is read back from the file
 * at the end. Memory: some hundred bytes a run and 17 bytes a MiB.
 */
#ifndef COLLCTL_DATA_DIGEST_H
#define COLLCTL_DATA_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/data/array.h"

#define DIGEST_PIECE (1u << 20)
#define DIGEST_BYTES 16
#define DIGEST_TEXT  33

struct digest;

/* A digest of the array @info. @starts: nruns ascending byte offsets (relative to the array's
 * first byte; starts[0] = 0) at which the runs begin; each run ends where the next begins. NULL on
 * lack of memory. */
struct digest *digest_new(const struct array_info *info, const uint64_t *starts, size_t nruns);
/* @pos: byte offset from the array's first byte; it continues where the run's last call ended (or
 * the piece is read back). Calls for different runs may be concurrent. */
void digest_update(struct digest *, uint64_t pos, const void *buf, size_t bytes);
/* @pread_fn reads back what is needed, at most a piece at a time; @pos as above. Fills @out. */
int digest_final(struct digest *,
                 int (*pread_fn)(void *ctx, void *buf, size_t bytes, uint64_t pos, struct err *),
                 void *ctx, uint8_t out[DIGEST_BYTES], struct err *err);
void digest_free(struct digest *);
char *digest_text(const uint8_t d[DIGEST_BYTES], char text[DIGEST_TEXT]);

#endif
