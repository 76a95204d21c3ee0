/*
 * With --min-ranks: a rank is lost after ROSTER and before VERDICT, and enough are left. The others
 * form the job anew, without it:
 *
 *     ANEW     every rank gives up what it does, leaves its connections as they are, and sends
 *              INTENT again
 *     ROSTER   once all have: another plan, another session, and other keys
 *
 * So the job is where it was before ROSTER, with a closed round. A rank that was left out never
 * comes back; so this happens at most as often as the job can miss a rank.
 */
#include <stdlib.h>

#include "lib/base/clock.h"
#include "lib/job/coordinator/coord_internal.h"

/* What @m has said since ROSTER, and its INTENT, count no more. */
static void forget_member(struct member *m)
{
	struct coord *c = m->coord;
	m->has_intent = m->voted = m->moved = m->broke = m->stopped = false;
	m->in_round = m->has_links = m->has_peers = false;
	m->clocks = 0;
	m->counted = 0;
	m->beat = (struct beat){0};
	m->intent = (struct intent){0};
	free(m->details);
	m->details = NULL;
	c->votes[m->rank] = (struct vote){0};
}

static void forget_plan(struct coord *c)
{
	free(c->came);
	free(c->host);
	c->came = c->host = NULL;
	c->plan = (struct plan){0};
	coord_forget_keys(c);
}

void coord_form_anew(struct coord *c, const struct err *why, enum phase phase)
{
	struct buf b;
	uint8_t memory[ERR_MESSAGE];
	for (int r = 0; r < c->conf.size; r++)
		forget_member(&c->members[r]);
	forget_plan(c);
	links_release(&c->links);
	c->upto = (struct upto){0};
	c->evidence = (struct evidence){0};
	c->back.on = false;
	c->moved = 0;
	c->anew = true;
	c->conf.join_deadline = clock_ns() + c->conf.settings->join_timeout;
	coord_enter(c, STAGE_JOIN);
	coord_set_timer(c, TIMER_JOIN, c->conf.join_deadline);
	coord_err_message(why, phase, &b, memory);
	coord_send_all(c, MSG_ANEW, &b);
	buf_release(&b);
}

bool coord_is_stale(const struct member *m, uint8_t type)
{
	return m->coord->anew && m->coord->stage == STAGE_JOIN && !m->has_intent &&
	       type != MSG_INTENT && type != MSG_ABORT && type < MSG_TYPES;
}
