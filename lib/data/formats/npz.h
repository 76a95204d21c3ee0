/*
 * .npz: a zip archive of .npy files, by libzip, which is opened at run time (dlopen) by commands
 * that need it. One thread. Source: numpy.savez; APPNOTE.TXT of PKWARE.
 */
#ifndef COLLCTL_DATA_FORMATS_NPZ_H
#define COLLCTL_DATA_FORMATS_NPZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

/* The version of libzip; NULL: not available. */
const char *npz_library(void);

/* An archive may expand to this many times its size, or to --memory, whichever is larger. */
#define NPZ_EXPANDS 100

/* Unpack the archive @fd (@path: for messages) to @spool, in the archive's order. Calls @member for
 * each member, once its header is in @spool, with its name without ".npy" and the range of its
 * bytes in @spool. @heads_only: writes only the beginning of each member, enough for its header.
 *
 * ERR_INPUT names a member that is encrypted, appears twice, is not a .npy file or has a wrong
 * size. An archive that would expand to more than NPZ_EXPANDS times its size and to more than
 * @memory bytes is refused before anything is unpacked. ERR_RESOURCE. */
int npz_unpack(int fd, const char *path, int spool, bool heads_only, uint64_t memory,
               int (*member)(void *ctx, const char *name, uint64_t offset, uint64_t bytes,
                             struct err *err),
               void *ctx, struct err *err);

struct npz_member {
	const char *name;       /* without ".npy" */
	uint64_t offset, bytes; /* of the .npy file in the spool */
};
/* Write the archive of @members from @spool to the beginning of @fd, in their order and
 * uncompressed like numpy.savez. The bytes depend only on the members. ERR_OUTPUT; the error names
 * no file. */
int npz_pack(int spool, const struct npz_member *members, size_t n, int fd, struct err *err);

#endif
