/* Statistics of an array whose pieces are added in any order, for `info --stats` and for --stats of
 * a collective. A struct stats is used by one thread at a time. */
#ifndef COLLCTL_DATA_KERNELS_STATS_H
#define COLLCTL_DATA_KERNELS_STATS_H

#include <stddef.h>
#include <stdint.h>

#include "lib/data/dtype.h"

struct stats {
	uint64_t count;      /* elements */
	uint64_t nans, infs; /* a complex number counts once, as NaN if either part is NaN */
	/* Of the finite elements; min > max: there are none, or the type is complex. Exact for
	 * every type (64-bit integers: on x86 and aarch64). */
	long double min, max;
	double sum; /* of the finite elements; in f64, summed by pieces; 0 for complex */
};

void stats_init(struct stats *);
/* Add @n elements at @src, little-endian. For a type without arithmetic, only count them. */
void stats_add(struct stats *, enum dtype dtype, const void *src, size_t n);
void stats_merge(struct stats *into, const struct stats *from);

#endif
