#include "lib/coll/pipeline.h"

#include <math.h>

void pipeline_weigh(struct pipeline *p, const double seconds[PIPELINE_STAGES])
{
	double most = 0;

	for (int k = 0; k < PIPELINE_STAGES; k++)
		most = fmax(most, seconds[k]);
	for (int k = 0; k < PIPELINE_STAGES; k++) {
		const double weight = most > 0 ? round(seconds[k] / most * PIPELINE_HEAVIEST) : 1;
		p->part[k].weight = weight >= 1 ? (uint32_t)weight : 1;
	}
}

void pipeline_count(const struct pipeline *p, uint64_t *done, uint64_t *total)
{
	*done = *total = 0;
	for (int k = 0; k < PIPELINE_STAGES; k++) {
		const struct pipeline_part *part = &p->part[k];
		*done += (part->done < part->total ? part->done : part->total) * part->weight;
		*total += part->total * part->weight;
	}
}

double pipeline_done(const struct pipeline *p)
{
	uint64_t done, total;

	pipeline_count(p, &done, &total);
	return done < total ? (double)done / (double)total : 1;
}

void pipeline_complete(struct pipeline *p)
{
	for (int k = 0; k < PIPELINE_STAGES; k++)
		p->part[k].done = p->part[k].total;
}
