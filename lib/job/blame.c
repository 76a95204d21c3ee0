#include "lib/job/blame.h"

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
	return weight(next) > weight(known) ? next : known;
}
