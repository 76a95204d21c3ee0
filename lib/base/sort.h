#ifndef COLLCTL_BASE_SORT_H
#define COLLCTL_BASE_SORT_H

#include <stddef.h>

/* Sort @x[n] in ascending order. @x must have no NaN. */
void sort_doubles(double *x, size_t n);

#endif
