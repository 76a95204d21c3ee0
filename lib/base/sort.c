#include "lib/base/sort.h"

#include <stdint.h>
#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

void sort_doubles(double *x, size_t n)
{
	qsort(x, n, sizeof *x, by_value);
}

void sort_list(void *x, size_t n, size_t size, int (*compare)(const void *, const void *))
{
	const uint8_t *p = x;
	size_t i = 1;

	while (i < n && compare(p + (i - 1) * size, p + i * size) <= 0)
		i++;
	if (i < n)
		qsort(x, n, size, compare);
}
