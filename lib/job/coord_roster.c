/* The plan, and ROSTER, which takes it to every rank. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/private.h"
#include "lib/job/coord_internal.h"
#include "lib/net/crypto.h"

/* {u32 size, then every rank's data address, then every rank's host; "": the same host as the rank
 * before; then the numbers of the ranks' hosts}. In ":port" the host is the address at which the
 * reader reaches the coordinator. */
static void encode_addresses(const struct coord *c, struct buf *b)
{
	buf_init(b, CTL_BODY_MAX);
	buf_put_u32(b, (uint32_t)c->conf.size);
	for (int r = 0; r < c->conf.size; r++)
		buf_put_str(b, c->members[r].intent.data_addr);
	for (int r = 0; r < c->conf.size; r++) {
		const char *host = c->members[r].presence.host;
		bool same = r && strcmp(host, c->members[r - 1].presence.host) == 0;
		buf_put_str(b, same ? "" : host);
	}
	for (int r = 0; r < c->conf.size; r++)
		buf_put_u16(b, (uint16_t)c->host[r]);
}

/* Send @m the plan with its details, and the addresses. */
static int send_roster(struct coord *c, struct member *m, const struct buf *addresses,
                       struct err *err)
{
	const struct job_callbacks *callbacks = c->conf.callbacks;
	struct plan plan = c->plan;
	struct buf b, details;
	buf_init_secret(&b, CTL_BODY_MAX);
	buf_init(&details, DETAILS_MAX);
	if (callbacks->details)
		callbacks->details(callbacks->ctx, m->rank, &details);
	if (details.len)
		plan.details = view_of(details.data, details.len);
	plan_encode(&plan, &b);
	buf_put(&b, addresses->data, addresses->len);
	bool lacking = b.nomem || details.nomem || addresses->nomem;
	bool fits = !b.failed && !details.failed && !addresses->failed;
	if (lacking)
		err_nomem(err, "a roster", CTL_BODY_MAX);
	else if (!fits)
		err_set(err, ERR_RESOURCE,
		        "the addresses of %d ranks and the data for rank %d do not fit a message",
		        c->conf.size, m->rank);
	else
		coord_send(m, MSG_ROSTER, &b);
	wipe(plan.key, sizeof plan.key);
	buf_release(&b);
	buf_release(&details);
	return fits ? 0 : -1;
}

/* Rank 0 itself is notified last. */
static void send_to_all_ranks(struct coord *c)
{
	struct buf addresses;
	encode_addresses(c, &addresses);
	for (int i = 1; i <= c->conf.size; i++) {
		struct err e = {0};
		int r = (c->self + i) % c->conf.size;
		if (send_roster(c, &c->members[r], &addresses, &e) == 0)
			continue;
		e.rank = c->self;
		coord_fail(c, &e, PHASE_JOIN);
		break;
	}
	buf_release(&addresses);
	wipe(c->plan.key, sizeof c->plan.key);
}

static void close_gate(struct coord *c)
{
	if (c->gate)
		snprintf(c->refusal, sizeof c->refusal, "%s", gate_last_refusal(c->gate));
	gate_close(c->gate);
	c->gate = NULL;
}

/* Is the member on this machine? */
static bool is_here(const struct member *m)
{
	struct addr here = {.len = sizeof here.sa};
	return !m->from.len ||
	       (getsockname(m->ctl.conn->fd, (struct sockaddr *)&here.sa, &here.len) == 0 &&
	        addr_same_host(&here, &m->from));
}

/* The processors that the ranks share if all are on one host, else 0. */
static uint32_t shared_cpus(const struct coord *c)
{
	cpu_set_t allowed;
	for (int r = 0; r < c->conf.size; r++)
		if (!is_here(&c->members[r]))
			return 0;
	return sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? (uint32_t)CPU_COUNT(&allowed)
	                                                           : 1;
}

/* Number the ranks' hosts. */
static int group_hosts(struct coord *c, struct err *err)
{
	size_t n = (size_t)c->conf.size;
	struct host_member *members = calloc(n, sizeof *members);
	c->host = calloc(n, sizeof *c->host);
	if (!members || !c->host) {
		free(members);
		return err_nomem(err, "the hosts of the ranks",
		                 n * (sizeof *members + sizeof *c->host));
	}
	for (int r = 0; r < c->conf.size; r++) {
		members[r].rank = r;
		memcpy(members[r].id, c->members[r].presence.host_id, HOST_ID);
	}
	c->plan.hosts = host_groups(members, c->conf.size, c->host);
	c->plan.host = c->plan.hosts < c->conf.size ? c->host : NULL;
	free(members);
	return 0;
}

static int make_plan(struct coord *c, struct err *err)
{
	const struct job_callbacks *callbacks = c->conf.callbacks;
	c->plan.memory = UINT64_MAX;
	c->plan.windows = c->plan.streams = 1;
	for (int r = 0; r < c->conf.size; r++) {
		const struct intent *in = c->intents[r];
		c->plan.total_inputs += in->ninputs;
		if (in->memory < c->plan.memory)
			c->plan.memory = in->memory;
	}
	c->plan.host_cpus = shared_cpus(c);
	if (group_hosts(c, err) < 0)
		return -1;
	if (callbacks->decide && callbacks->decide(callbacks->ctx, c->intents, &c->plan, err) < 0)
		return -1;
	if (crypto_random(c->plan.session, sizeof c->plan.session, err) < 0)
		return -1;
	return crypto_random_key(c->plan.key, sizeof c->plan.key, err);
}

void coord_send_rosters(struct coord *c)
{
	struct err e = {.rank = ERR_RANK_SELF};
	if (make_plan(c, &e) < 0) {
		if (e.rank == ERR_RANK_SELF)
			e.rank = c->self;
		coord_fail(c, &e, PHASE_JOIN);
		return;
	}
	/* Withdraw the record and close the listener first: a later command with the same job name
	 * must not reach this job. */
	c->conf.complete(c->conf.ctx);
	close_gate(c);
	loop_timer_stop(&c->join_timer);
	c->stage = STAGE_RUN;
	c->roster_at = clock_ns();
	loop_timer_set(c->conf.loop, &c->beat_timer, c->roster_at + coord_beat_interval(c));
	send_to_all_ranks(c);
}
