/* Column-major arrays turned into row-major ones, in bounded memory. */
#ifndef COLLCTL_DATA_FORTRAN_H
#define COLLCTL_DATA_FORTRAN_H

#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

/* Read the array of @shape (@ndim dimensions of elements of @esize bytes) that lies in Fortran's
 * order at @in_at of @in, and write it in C's order at @out_at of @out, both files that can seek.
 * Takes at most about @memory bytes, and elements are read and written in runs as long as that
 * allows. ERR_INPUT or ERR_RESOURCE (the file that is written is a spool), without a name. */
int fortran_to_c(int in, uint64_t in_at, int out, uint64_t out_at, const uint64_t *shape, int ndim,
                 size_t esize, size_t memory, struct err *err);

#endif
