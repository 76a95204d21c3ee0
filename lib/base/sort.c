#include "lib/base/sort.h"

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
