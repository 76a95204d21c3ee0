/* Converts column-major arrays to row-major ones in bounded memory. */
#ifndef COLLCTL_DATA_FORMATS_FORTRAN_H
#define COLLCTL_DATA_FORMATS_FORTRAN_H

#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

/* Read the array of @shape (@ndim dimensions of elements of @esize bytes) in Fortran order at
 * @in_at of @in, and write it in C order at @out_at of @out. Both files must be able to seek. Uses
 * at most about @memory bytes, and reads and writes the longest runs that these allow. ERR_INPUT or
 * ERR_RESOURCE (@out is a spool); the error names no file. */
int fortran_to_c(int in, uint64_t in_at, int out, uint64_t out_at, const uint64_t *shape, int ndim,
                 size_t esize, size_t memory, struct err *err);

#endif
