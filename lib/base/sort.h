#ifndef COLLCTL_BASE_SORT_H
#define COLLCTL_BASE_SORT_H

#include <stddef.h>

/* Sort @x[n] in ascending order. @x must have no NaN. */
void sort_doubles(double *x, size_t n);

/* As qsort, for lists that are usually in order: this costs one comparison for each item. */
void sort_list(void *x, size_t n, size_t size, int (*compare)(const void *, const void *));

#endif
