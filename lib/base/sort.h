/* Sorting. */
#ifndef COLLCTL_BASE_SORT_H
#define COLLCTL_BASE_SORT_H

#include <stddef.h>

/* In ascending order. @x has no NaN. */
void sort_doubles(double *x, size_t n);

#endif
