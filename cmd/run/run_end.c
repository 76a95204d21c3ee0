/* How `run` ends its ranks: by stages (enum ending), each of which has a deadline. */
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "cmd/run/run_internal.h"
#include "cmd/text/report.h"
#include "lib/base/clock.h"
#include "lib/base/text.h"

#define GRACE_NS (5 * NS_PER_SEC) /* for the others to end by themselves after a failure */
#define TERM_NS  (2 * NS_PER_SEC) /* from SIGTERM to SIGKILL, for ranks that write no files */
#define CUT_NS   (2 * NS_PER_SEC) /* for a SIGKILL to reach another host */
#define SAY_NS   (1 * NS_PER_SEC) /* who ends within that time needs no message */

/* ---- messages ---- */

/* Neither a message nor its reader may keep run from its end. */
static bool may_print(const struct run *r)
{
	struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
	return r->o->verbose >= 0 && poll(&p, 1, 0) == 1 && (p.revents & POLLOUT);
}

/* The ranks that have not ended: "ranks 0 (a), 3 (b) and 5 others". */
static const char *list_live(const struct run *r, char *text, size_t cap)
{
	char host[4 * ADDR_TEXT];
	int listed = 0;
	size_t n = (size_t)snprintf(text, cap, "rank%s", r->live == 1 ? "" : "s");
	for (int i = 0; i < r->size && n + sizeof host + 40 < cap && listed < 8; i++) {
		const struct rank *rank = &r->ranks[i];
		if (!rank->pid)
			continue;
		n += (size_t)snprintf(text + n, cap - n, "%s %d", listed++ ? "," : "", i);
		if (rank->host)
			n += (size_t)snprintf(text + n, cap - n, " (%s)",
			                      text_escape(host, sizeof host, rank->host));
	}
	if (r->live > listed)
		snprintf(text + n, cap - n, " and %d other%s", r->live - listed,
		         r->live - listed == 1 ? "" : "s");
	return text;
}

static void say_waiting(struct run *r)
{
	char ranks[800];
	r->say_at = 0;
	if (may_print(r))
		report_note("waiting for %s to end%s; %s signal kills %s",
		            list_live(r, ranks, sizeof ranks),
		            r->writes ? " and to remove temporary files" : "",
		            r->signal ? "another" : "a", r->live == 1 ? "it" : "them");
}

static void say_killed(const struct run *r)
{
	char ranks[800];
	if (r->writes && may_print(r))
		report_note("killed %s: temporary files may stay beside the outputs "
		            "(.NAME.collctl-*)",
		            list_live(r, ranks, sizeof ranks));
}

/* ---- stages ---- */

static void signal_ranks(const struct run *r, int sig, bool from_terminal)
{
	for (int i = 0; i < r->size; i++) {
		const struct rank *rank = &r->ranks[i];
		if (!rank->pid)
			continue;
		if (rank->host)
			ssh_signal(rank, sig);
		else if (rank->own_group)
			kill(-rank->pid, sig);
		else if (!from_terminal) /* the terminal has already signalled our own group */
			kill(rank->pid, sig);
	}
}

static void cut_off(const struct run *r)
{
	for (int i = 0; i < r->size; i++)
		if (r->ranks[i].pid)
			kill(-r->ranks[i].pid, SIGKILL);
}

static int64_t time_for(const struct run *r, enum ending stage)
{
	switch (stage) {
	case ENDING_BY_THEMSELVES:
		return GRACE_NS;
	case ENDING_BY_TERM: /* a rank waits for its disk, then removes its temporary files */
		return r->writes ? r->silence : TERM_NS;
	case ENDING_BY_KILL:
		return r->hosts.nhosts ? CUT_NS : INT64_MAX;
	default:
		return INT64_MAX;
	}
}

void end_ranks(struct run *r, enum ending stage)
{
	const int64_t now = clock_ns(), ns = time_for(r, stage);
	if (r->ending == NOT_ENDING)
		r->say_at = now + SAY_NS;
	r->ending = stage;
	r->deadline = ns == INT64_MAX ? INT64_MAX : now + ns;
	if (stage == ENDING_BY_TERM) {
		signal_ranks(r, SIGTERM, false);
		signal_ranks(r, SIGCONT, false); /* one that is stopped */
	} else if (stage == ENDING_BY_KILL) {
		say_killed(r);
		signal_ranks(r, SIGKILL, false);
	} else if (stage == ENDING_BY_CUT) {
		cut_off(r);
	}
	if (stage >= ENDING_BY_KILL)
		r->say_at = 0;
}

void end_by_signal(struct run *r, int sig, bool from_terminal)
{
	if (r->signal) {
		if (r->ending < ENDING_BY_KILL)
			end_ranks(r, ENDING_BY_KILL);
		return;
	}
	r->signal = sig;
	signal_ranks(r, sig, from_terminal);
	if (r->ending < ENDING_BY_TERM)
		end_ranks(r, ENDING_BY_THEMSELVES);
}

int end_wait(const struct run *r)
{
	if (r->ending == NOT_ENDING || (r->deadline == INT64_MAX && !r->say_at))
		return -1;
	return clock_ms_until(r->say_at && r->say_at < r->deadline ? r->say_at : r->deadline);
}

void end_keep_time(struct run *r)
{
	if (r->ending == NOT_ENDING)
		return;
	const int64_t now = clock_ns();
	if (r->say_at && now >= r->say_at)
		say_waiting(r);
	if (now >= r->deadline)
		end_ranks(r, r->ending + 1);
}
