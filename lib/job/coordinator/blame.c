#include "lib/job/coordinator/blame.h"

static int weight(const struct evidence *e)
{
	static const int weights[] = {
	        [EVIDENCE_NONE] = 0, [EVIDENCE_REPORT] = 1,   [EVIDENCE_SILENCE] = 2,
	        [EVIDENCE_LOST] = 4, [EVIDENCE_OWN_WORD] = 5,
	};
	if (e->kind == EVIDENCE_REPORT && e->err.code == ERR_INTEGRITY)
		return 3;
	return weights[e->kind];
}

const struct evidence *blame(const struct evidence *known, const struct evidence *next)
{
	bool both_stalled = known->kind == EVIDENCE_REPORT && known->err.code == ERR_STALLED &&
	                    next->kind == EVIDENCE_REPORT && next->err.code == ERR_STALLED;
	if (both_stalled && next->unanswered != known->unanswered)
		return next->unanswered ? next : known;
	if (both_stalled)
		return next->still_ms > known->still_ms ? next : known;
	return weight(next) > weight(known) ? next : known;
}
