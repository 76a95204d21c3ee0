/*
 * .npz: a zip archive of .npy files, through libzip, which is opened at run time (dlopen) by the
 * commands that need it.
 */
#ifndef COLLCTL_DATA_FORMATS_NPZ_H
#define COLLCTL_DATA_FORMATS_NPZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

/* The version of libzip; NULL: not available. */
const char *npz_library(void);

/* An archive may have this many times its size when it is unpacked, or what --memory says. */
#define NPZ_EXPANDS 100

/* Unpack the archive @fd (@path: for messages) into @spool in the archive's order, and call @member
 * for each member with its name without ".npy" and the place of its bytes, as soon as its header is
 * there. Refuses members that are encrypted, appear twice, are not .npy files or have wrong sizes,
 * and, before it unpacks anything, archives that expand to more than NPZ_EXPANDS times their size
 * and more than @memory bytes. ERR_INPUT names the member; ERR_RESOURCE. @heads_only: the spool
 * gets only the beginning of each member, enough for its header. */
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
