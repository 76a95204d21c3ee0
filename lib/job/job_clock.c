/* The offset between a rank's clock and the coordinator's. See job.h. */
#include <stdlib.h>

#include "lib/base/clock.h"
#include "lib/job/job_internal.h"

#define EXCHANGES 8

void clock_offset_take(struct clock_offset *best, int64_t sent, int64_t theirs, int64_t came)
{
	const int64_t half = (came - sent) / 2;
	if (best->error >= 0 && half >= best->error)
		return;
	best->at = came;
	best->offset = theirs - (sent + half);
	best->error = half;
}

int64_t clock_offset_apply(const struct clock_offset *first, const struct clock_offset *last,
                           int64_t t)
{
	const int64_t span = last->at - first->at, drift = last->offset - first->offset;
	if (llabs(drift) <= first->error + last->error || span <= 0)
		return t + (first->error < last->error ? first : last)->offset;
	if (t <= first->at || t >= last->at)
		return t + (t <= first->at ? first : last)->offset;
	return t + first->offset +
	       (int64_t)((double)drift * (double)(t - first->at) / (double)span);
}

int job_clock(struct job *j, struct clock_offset *best, struct err *err)
{
	*best = (struct clock_offset){.at = clock_ns(), .error = -1};
	if (j->rank == j->coordinator) {
		best->error = 0;
		return 0;
	}
	for (int i = 0; i < EXCHANGES; i++) {
		const int64_t sent = clock_ns();
		if (job_ask(j, ASKS_CLOCK, MSG_CLOCK, NULL, err) < 0)
			return -1;
		clock_offset_take(best, sent, j->said.clock_theirs, j->said.clock_came);
		/* Ranks of one host have one clock, unless a time namespace shifts it. */
		if (job_shares_host(j, j->coordinator) && best->offset <= best->error &&
		    best->offset >= -best->error) {
			best->offset = best->error = 0;
			break;
		}
	}
	return 0;
}
