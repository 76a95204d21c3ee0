/* Statistics of an array that comes in pieces, in any order: what `info --stats` prints and what
 * --stats of a collective looks for. */
#ifndef COLLCTL_DATA_STATS_H
#define COLLCTL_DATA_STATS_H

#include <stddef.h>
#include <stdint.h>

#include "lib/data/dtype.h"

struct stats {
	uint64_t count;      /* elements */
	uint64_t nans, infs; /* a complex number counts once, as NaN if either part is one */
	/* Of the finite elements; min > max: there are none, or they have no order (complex). Exact
	 * for every type (x86: the 64-bit integers too). */
	long double min, max;
	double sum; /* of the finite elements; in f64, summed by pieces; 0 of complex ones */
};

void stats_init(struct stats *);
/* Add @n elements at @src, little-endian. A type without arithmetic counts elements alone. */
void stats_add(struct stats *, enum dtype dtype, const void *src, size_t n);
void stats_merge(struct stats *into, const struct stats *from);

#endif
