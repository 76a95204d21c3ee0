/*
 * Comparing two versions of some elements, and dividing elements into byte planes: byte 0 of all
 * elements, then byte 1 of all, and so on.
 *
 * Units: elements of @width bytes, 1, 2, 4 or 8, at any address. Arrays do not overlap. Pure
 * functions; any thread.
 */
#ifndef COLLCTL_DATA_KERNELS_PLANES_H
#define COLLCTL_DATA_KERNELS_PLANES_H

#include <stddef.h>
#include <stdint.h>

/* differ[i] = 1 if the bytes of element i of @a and @b differ, else 0. */
void planes_compare(unsigned width, uint8_t *differ, const void *a, const void *b, size_t n);
/* planes[k * n + i] = byte k of element i of @a, or of @a XOR @b if @b is not NULL. */
void planes_split(unsigned width, uint8_t *planes, const void *a, const void *b, size_t n);
/* The inverse: the elements @a of @planes. */
void planes_join(unsigned width, void *a, const uint8_t *planes, const void *b, size_t n);

#endif
