/*
 * .npz: a zip archive of .npy files, through libzip, which is opened at run time (dlopen) by the
 * commands that meet one.
 */
#ifndef COLLCTL_DATA_NPZ_H
#define COLLCTL_DATA_NPZ_H

#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

/* Unpack the archive @fd (of @path, for messages) into @spool, member after member in the archive's
 * order, and call @member for each, with its name without ".npy" and where its bytes are. Refuses
 * members that are encrypted, that stand there twice or are no .npy, and sizes that lie. ERR_INPUT
 * naming the member; ERR_RESOURCE. */
int npz_unpack(int fd, const char *path, int spool,
               int (*member)(void *ctx, const char *name, uint64_t offset, uint64_t bytes,
                             struct err *err),
               void *ctx, struct err *err);

struct npz_member {
	const char *name;       /* without ".npy" */
	uint64_t offset, bytes; /* of the .npy file in the spool */
};
/* Write the archive of @members, in their order, stored as numpy.savez does, from @spool to @fd
 * from its beginning; the bytes depend on the members alone. ERR_OUTPUT without a name. */
int npz_pack(int spool, const struct npz_member *members, size_t n, int fd, struct err *err);

#endif
