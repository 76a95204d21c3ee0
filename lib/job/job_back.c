/* A lane broke: all ranks stop, and connect anew as the next session (coord_back.c). */
#include <string.h>

#include "lib/job/job_internal.h"

bool job_goes_back(const struct job *j)
{
	return j->back.state == BACK_ASKED;
}

int job_reconnects(const struct job *j)
{
	return j->back.times;
}

/* Run turns until @state has been left; waiting for other ranks is no stall. */
static int await(struct job *j, enum job_back_state state, struct err *err)
{
	int ret = 0;
	job_caller_watches(j, true);
	while (ret == 0 && j->back.state == state)
		ret = job_turn(j, err);
	job_caller_watches(j, false);
	return ret;
}

int job_lane_broke(struct job *j, struct err *err)
{
	if (job_goes_back(j))
		return 0;
	job_report(j, err, REPORT_LANE);
	err_clear(err);
	return await(j, BACK_NOT, err);
}

int job_await_moved(struct job *j, struct err *err)
{
	if (job_goes_back(j))
		return -1;
	j->back.state = BACK_MOVED;
	job_send(j, MSG_MOVED, NULL);
	if (await(j, BACK_MOVED, err) < 0)
		return -1;
	return job_goes_back(j) ? -1 : 0;
}

int job_go_back(struct job *j, bool can, uint64_t complete, uint64_t *window, struct err *err)
{
	const struct stopped s = {.can = can, .window = complete};
	uint8_t memory[16];
	struct buf b;
	const struct err *why = &j->back.why;
	const char *host = why->host;
	job_phase(j, PHASE_CONNECT);
	job_stop_links(j);
	buf_init_fixed(&b, memory, sizeof memory);
	stopped_encode(&s, &b);
	j->back.state = BACK_STOPPED;
	job_send(j, MSG_STOPPED, &b);
	buf_release(&b);
	if (await(j, BACK_STOPPED, err) < 0)
		return -1;
	*window = j->back.window;
	if (*window > complete) /* this rank stops believing it */
		return err_set(err, ERR_INTEGRITY,
		               "the coordinator sent all ranks to window %llu, and this one lacks "
		               "window %llu",
		               (unsigned long long)*window, (unsigned long long)complete);
	job_drop_links(j);
	job_log(j, 1,
	        "rank %d%s%s%s: %s: all ranks connect anew, and go back to window %llu (%d of at "
	        "most %d times)",
	        why->rank, *host ? " (" : "", host, *host ? ")" : "", why->text,
	        (unsigned long long)*window, j->back.times, JOB_RECONNECTS_MOST);
	return 0;
}

/* ---- messages ---- */

int job_take_moved(struct job *j, struct view v, struct err *err)
{
	(void)err;
	if (j->back.state != BACK_MOVED || view_left(&v))
		return -1;
	j->back.state = BACK_OVER;
	return 0;
}

int job_take_back(struct job *j, struct view v, struct err *err)
{
	struct err why;
	enum phase phase;
	(void)err;
	const bool may = j->back.state == BACK_NOT || j->back.state == BACK_MOVED;
	if (!may || !j->callbacks.goes_back || j->back.times == JOB_RECONNECTS_MOST ||
	    err_decode(&why, &phase, &v) < 0 || !why.code || why.rank >= j->size)
		return -1;
	j->back.times++;
	j->back.why = why;
	j->back.state = BACK_ASKED;
	return 0;
}

int job_take_again(struct job *j, struct view v, struct err *err)
{
	struct again again;
	if (j->back.state != BACK_STOPPED || again_decode(&again, &v, err) < 0)
		return -1;
	j->places.asked.len = 0;
	j->places.awaited = j->size <= PROTO_PLACES ? j->size : 0;
	if (job_read_places(j, v, err) < 0)
		return -1;
	if (j->places.awaited)
		return err_set(err, ERR_INTEGRITY, "a next session without all places");
	memcpy(j->back.session, again.session, sizeof j->back.session);
	j->back.window = again.window;
	j->back.state = BACK_NOT;
	return 0;
}
