#include "lib/job/coordinator/advance.h"

void advance_init(struct advance *a, int64_t now)
{
	*a = (struct advance){.alone = -1, .since = now};
}

bool advance_counts(struct advance *a, int ranks, int rank, int64_t now, int64_t timeout)
{
	if (ranks == 0)
		return false;
	if (ranks > 1 || rank != a->alone)
		*a = (struct advance){.alone = ranks > 1 ? -1 : rank, .since = now};
	return (now - a->since) / ADVANCE_ALONE < timeout;
}
