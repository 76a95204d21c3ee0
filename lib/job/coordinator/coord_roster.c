/* The plan, and ROSTER, which takes it to every rank. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/private.h"
#include "lib/crypto/crypto.h"
#include "lib/job/coordinator/coord_internal.h"
#include "lib/job/pair_keys.h"

#define PAGE 65536 /* bytes of places in one message */

/* The place of @rank for @reader. In an address ":port" the host is the address at which the reader
 * reaches the coordinator. */
static int put_place(const struct coord *c, int rank, int reader, struct buf *b, struct err *err)
{
	const struct member *m = &c->members[rank];
	struct rank_place p = {.rank = rank};
	if (pair_keys_get(c->pair_keys, rank, reader, p.key, err) < 0)
		return -1;
	memcpy(p.addr, m->intent.data_addr, sizeof p.addr);
	if (c->several_hosts)
		memcpy(p.host, m->presence.host, sizeof p.host);
	rank_place_encode(&p, b);
	wipe(p.key, sizeof p.key);
	return 0;
}

int coord_put_places(const struct coord *c, int reader, struct buf *b, struct err *err)
{
	for (int i = 0; c->conf.size <= PROTO_PLACES && i < c->conf.size; i++)
		if (put_place(c, i, reader, b, err) < 0)
			return -1;
	return 0;
}

/* Where @reader asks for the verdict if its link breaks, and its key for that. No address: nobody
 * answers there. */
static int put_inquiry(const struct coord *c, int reader, struct buf *b, struct err *err)
{
	struct rank_place p = {.rank = 0};
	if (pair_keys_inquiry(c->inquiries.keys, reader, p.key, err) < 0)
		return -1;
	if (c->self >= 0 && c->inquiries.fd >= 0) {
		p.rank = c->self;
		memcpy(p.addr, c->members[c->self].intent.data_addr, sizeof p.addr);
	}
	rank_place_encode(&p, b);
	wipe(p.key, sizeof p.key);
	return 0;
}

_Static_assert(DETAILS_MAX + HOST_GROUPS_MOST(JOB_MAX_SIZE) + JOB_MAX_SIZE / 8 +
                               (PROTO_PLACES + 1) * PLACE_MOST + 256 <
                       CTL_BODY_MAX,
               "a plan, its details and a roster are one message");

/* Send @m the plan with its details, @roster, and the places. */
static int send_roster(struct coord *c, struct member *m, const struct buf *roster, struct err *err)
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
	buf_put(&b, roster->data, roster->len);
	bool keyed =
	        put_inquiry(c, m->rank, &b, err) == 0 && coord_put_places(c, m->rank, &b, err) == 0;
	bool lacking = b.nomem || details.nomem || roster->nomem;
	bool fits = keyed && !b.failed && !details.failed && !roster->failed;
	if (keyed && lacking)
		err_nomem(err, "a roster", CTL_BODY_MAX);
	else if (keyed && !fits)
		err_set(err, ERR_RESOURCE,
		        "the data for rank %d of %d do not fit a message of %u bytes", m->rank,
		        c->conf.size, DETAILS_MAX);
	else if (fits)
		coord_send(m, MSG_ROSTER, &b);
	buf_release(&b);
	buf_release(&details);
	return fits ? 0 : -1;
}

/* Rank 0 itself is notified last. */
static void send_to_all_ranks(struct coord *c)
{
	const struct roster r = {.size = (uint32_t)c->conf.size,
	                         .came = (int *)c->plan.came,
	                         .ncame = c->plan.ncame,
	                         .host = (int *)c->plan.host};
	struct buf roster;
	buf_init(&roster, CTL_BODY_MAX);
	roster_encode(&r, &roster);
	for (int i = 1; i <= c->conf.size; i++) {
		struct err e = {0};
		int to = (c->self + i) % c->conf.size;
		if (c->members[to].missing)
			continue;
		if (send_roster(c, &c->members[to], &roster, &e) == 0)
			continue;
		e.rank = c->self;
		coord_fail(c, &e, PHASE_JOIN);
		break;
	}
	buf_release(&roster);
	if (c->conf.size <= PROTO_PLACES)
		coord_forget_keys(c);
}

void coord_forget_keys(struct coord *c)
{
	pair_keys_free(c->pair_keys);
	c->pair_keys = NULL;
}

bool coord_send_places(struct member *m, struct view peers)
{
	const struct coord *c = m->coord;
	const size_t most = 2 * 4 * (size_t)c->conf.size; /* it sends to each rank, and receives */
	struct err e = ERR_INIT;
	struct buf b;
	if (!c->pair_keys || m->has_peers || m->voted || view_left(&peers) > most)
		return false;
	m->has_peers = true;
	buf_init_secret(&b, PAGE + PLACE_MOST);
	while (view_left(&peers) && !b.failed) {
		uint32_t rank = view_u32(&peers);
		peers.failed |= rank >= (uint32_t)c->conf.size;
		if (peers.failed || put_place(c, (int)rank, m->rank, &b, &e) < 0)
			break;
		if (b.len < PAGE && view_left(&peers))
			continue;
		coord_send(m, MSG_PLACES, &b);
		b.len = 0;
	}
	if (b.nomem)
		err_nomem(&e, "the addresses of ranks", PAGE);
	if (e.code)
		coord_lacking(m, &e);
	buf_release(&b);
	return !peers.failed;
}

void coord_close_door(struct coord *c)
{
	if (!c->gate)
		return;
	c->conf.complete(c->conf.ctx);
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

const struct conn *coord_link(const struct coord *c, int rank)
{
	return rank >= 0 && rank < c->conf.size ? c->members[rank].ctl.conn : NULL;
}

const struct conn *coord_far_link(const struct coord *c)
{
	for (int r = 0; r < c->conf.size; r++)
		if (c->members[r].ctl.conn && !is_here(&c->members[r]))
			return c->members[r].ctl.conn;
	return NULL;
}

/* The processors that the ranks share if all are on one host, else 0. */
static uint32_t shared_cpus(const struct coord *c)
{
	cpu_set_t allowed;
	for (int r = 0; r < c->conf.size; r++)
		if (!c->members[r].missing && !is_here(&c->members[r]))
			return 0;
	return sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? (uint32_t)CPU_COUNT(&allowed)
	                                                           : 1;
}

/* List the ranks that take part, and number their hosts. */
static int group_hosts(struct coord *c, struct err *err)
{
	size_t n = (size_t)c->conf.size;
	struct host_member *members = err_calloc(n, sizeof *members, "the hosts of the ranks", err);
	int k = 0, *host = err_calloc(n, sizeof *host, "the hosts of the ranks", err);
	c->came = err_calloc(n, sizeof *c->came, "the ranks of the job", err);
	if (!members || !host || !c->came) {
		free(members);
		free(host);
		return -1;
	}
	for (int r = 0; r < c->conf.size; r++) {
		if (c->members[r].missing)
			continue;
		c->came[k] = r;
		members[k].rank = k;
		memcpy(members[k++].id, c->members[r].presence.host_id, HOST_ID);
	}
	c->host = host;
	c->plan.hosts = host_groups(members, k, host);
	c->plan.ncame = k;
	c->plan.came = k < c->conf.size ? c->came : NULL;
	free(members);
	if (c->plan.came && host_groups_spread(&c->host, c->came, k, c->conf.size, err) < 0)
		return -1;
	c->plan.host = c->plan.came || c->plan.hosts < k ? c->host : NULL;
	return 0;
}

static int make_plan(struct coord *c, struct err *err)
{
	const struct job_callbacks *callbacks = c->conf.callbacks;
	c->plan.memory = UINT64_MAX;
	c->plan.windows = c->plan.streams = 1;
	for (int r = 0; r < c->conf.size; r++) {
		const struct intent *in = c->intents[r];
		if (!in)
			continue;
		c->plan.total_inputs += in->ninputs;
		if (in->memory < c->plan.memory)
			c->plan.memory = in->memory;
	}
	c->plan.host_cpus = shared_cpus(c);
	c->several_hosts = coord_several_hosts(c);
	if (group_hosts(c, err) < 0)
		return -1;
	if (callbacks->decide && callbacks->decide(callbacks->ctx, c->intents, &c->plan, err) < 0)
		return -1;
	if (crypto_random(c->plan.session, sizeof c->plan.session, err) < 0)
		return -1;
	c->pair_keys = pair_keys_new(err);
	c->inquiries.keys = pair_keys_new(err);
	return c->pair_keys && c->inquiries.keys ? 0 : -1;
}

void coord_send_rosters(struct coord *c)
{
	struct err e = ERR_INIT;
	coord_close_inquiries(c); /* of the session before this one */
	if (make_plan(c, &e) < 0) {
		if (e.rank == ERR_RANK_SELF)
			e.rank = c->self;
		coord_fail(c, &e, PHASE_JOIN);
		return;
	}
	/* Withdraw the record and close the listener first: a later command with the same job name
	 * must not reach this job. But if ranks are missing, or may be later, they get an answer
	 * until the verdict, before which the record must prove that this is the only round. */
	if (!c->seats.nmissing && !coord_may_lose(c))
		coord_close_door(c);
	coord_dismiss_guests(c);
	if (c->stage == STAGE_FAILED) /* by what a guest has said last */
		return;
	coord_enter(c, STAGE_RUN);
	c->roster_at = clock_ns();
	advance_init(&c->advance, c->roster_at);
	coord_set_timer(c, TIMER_BEAT, c->roster_at + coord_beat_interval(c));
	send_to_all_ranks(c);
}
