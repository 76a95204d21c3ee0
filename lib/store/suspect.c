#include "lib/store/suspect.h"

#include "lib/base/clock.h"

#define TRIES      3
#define CLOSE_TIME (5 * NS_PER_SEC)

void suspect_meet(struct suspect *s, enum met met, int64_t now)
{
	switch (met) {
	case MET_NOTHING:
		return;
	case MET_LIFE:
		*s = (struct suspect){0};
		return;
	case MET_NOBODY:
	case MET_SILENCE:
		s->gone = true;
		return;
	case MET_STRANGER:
	case MET_CLOSE:
		s->gone = false;
		if (s->strangers + s->closes == 0)
			s->since = now;
		s->strangers += met == MET_STRANGER;
		s->closes += met == MET_CLOSE;
		return;
	}
}

bool suspect_is_stale(const struct suspect *s, int64_t now)
{
	return s->gone || s->strangers >= TRIES ||
	       (s->strangers + s->closes >= TRIES && now - s->since >= CLOSE_TIME);
}
