/* Ranks that ask for the verdict, because their links broke after their votes: their new links
 * replace the old ones. And ranks that may ask: how long the others wait for them. */
#include <stdio.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/job/coordinator/coord_internal.h"
#include "lib/job/pair_keys.h"

#define PENDING 64 /* connections that have not proved to be a rank's */

void coord_take_inquiries(struct coord *c, int listen_fd, bool secure)
{
	c->inquiries.fd = listen_fd;
	c->inquiries.secure = secure;
}

/* ---- the connections ---- */

/* The rank of this identity; -1: it is none's. */
static int rank_of(const struct coord *c, const char *identity)
{
	struct inquiry q = {0};
	char want[TLS_IDENTITY_MAX + 1];
	if (sscanf(identity, "V1|%*32[0-9a-f]|%u", &q.rank) != 1 ||
	    q.rank >= (uint32_t)c->conf.size)
		return -1;
	memcpy(q.session, c->plan.session, sizeof q.session);
	inquiry_identity(&q, want, sizeof want);
	return strcmp(identity, want) == 0 ? (int)q.rank : -1;
}

static int find_key(void *ctx, const uint8_t *identity, size_t len, uint8_t key[TLS_KEY_BYTES])
{
	struct coord *c = ctx;
	struct err ignored = ERR_INIT;
	char text[TLS_IDENTITY_MAX + 1];
	snprintf(text, sizeof text, "%.*s", (int)len, (const char *)identity);
	const int rank = rank_of(c, text);
	return rank < 0 ? -1 : pair_keys_inquiry(c->inquiries.keys, rank, key, &ignored);
}

/* What the rank may have missed, and first a sign that it is heard. */
static void answer(struct member *m, bool has_verdict)
{
	struct coord *c = m->coord;
	const struct pace none = {.rank = -1, .moved = c->moved};
	struct buf b;
	uint8_t memory[64];
	buf_init_fixed(&b, memory, sizeof memory);
	pace_encode(&none, &b);
	coord_send(m, MSG_BEAT, &b);
	buf_release(&b);
	if (c->stage == STAGE_FAILED)
		coord_send_failure(c, m);
	if (coord_gave_verdict(c) && !has_verdict)
		coord_send_verdict(m);
	if (c->stage == STAGE_FINAL)
		coord_send_final(m);
	if (c->drain)
		ctl_end(&m->ctl);
}

/* @m has a new link. */
static void replace(struct member *m, struct conn *conn, bool has_verdict)
{
	struct coord *c = m->coord;
	struct err e = ERR_INIT;
	ctl_release(&m->ctl);
	if (!m->voted && c->stage == STAGE_RUN) { /* its vote was lost with the old link */
		const struct err lost = {.code = ERR_PEER_LOST, .text = "its vote did not arrive"};
		coord_member_lost(m, &lost);
		if (m->missing) {
			conn_free(conn);
			return;
		}
	}
	if (ctl_start(&m->ctl, conn, c->conf.loop, &e) < 0) { /* the rank tries again */
		ctl_release(&m->ctl);
		coord_on_lost(m, &e);
		return;
	}
	coord_came_back(m);
	c->upto.closed = 0;
	answer(m, has_verdict);
	coord_maybe_drained(c);
}

static void admit(void *ctx, struct conn *conn, const uint8_t opening[GATE_OPENING],
                  const struct addr *from)
{
	struct coord *c = ctx;
	struct inquiry q;
	const char *proved = gate_identity(c->inquiries.gate, conn);
	(void)from;
	if (inquiry_decode(&q, opening) < 0 || q.rank >= (uint32_t)c->conf.size ||
	    (int)q.rank == c->self || c->stage == STAGE_JOIN || c->members[q.rank].missing ||
	    memcmp(q.session, c->plan.session, sizeof q.session) != 0 ||
	    (proved && rank_of(c, proved) != (int)q.rank)) {
		conn_free(conn);
		return;
	}
	replace(&c->members[q.rank], conn, q.has_verdict);
}

/* Most jobs end without an inquiry, so the gate is opened when somebody connects. */
static void open_gate(void *ctx, uint32_t events)
{
	struct coord *c = ctx;
	struct inquiries *q = &c->inquiries;
	struct err ignored = ERR_INIT;
	struct gate_conf gate = {
	        .loop = c->conf.loop,
	        .fd = q->fd,
	        .borrowed = true,
	        .find = find_key,
	        .congestion = c->conf.settings->congestion,
	        .slots = PENDING + c->conf.size,
	        .per_source = c->conf.size + 32,
	        .admit = admit,
	        .ctx = c,
	};
	(void)events;
	loop_del(c->conf.loop, &q->watch);
	if (q->secure && !(q->tls = tls_new(&ignored)))
		return;
	gate.tls = q->tls;
	q->gate = gate_open(&gate, &ignored);
}

void coord_open_inquiries(struct coord *c)
{
	struct inquiries *q = &c->inquiries;
	struct err ignored = ERR_INIT;
	if (q->open || q->fd < 0 || !q->keys || c->conf.size == 1)
		return;
	q->watch = (struct loop_watch){.fd = q->fd, .fn = open_gate, .ctx = c};
	q->open = loop_add(c->conf.loop, &q->watch, EPOLLIN, &ignored) == 0;
}

void coord_close_inquiries(struct coord *c)
{
	struct inquiries *q = &c->inquiries;
	if (q->open && !q->gate)
		loop_del(c->conf.loop, &q->watch);
	gate_close(q->gate);
	tls_free(q->tls);
	pair_keys_free(q->keys);
	q->gate = NULL;
	q->tls = NULL;
	q->keys = NULL;
	q->open = false;
	for (int r = 0; r < c->conf.size; r++)
		coord_stop_probe(&c->members[r]);
}

/* ---- ranks that are away: their links broke, and they may ask ---- */

int64_t coord_verdict_kept(const struct coord *c)
{
	return 2 * c->conf.settings->timeout;
}

bool coord_leaves(struct member *m, int64_t since)
{
	struct coord *c = m->coord;
	if (c->inquiries.fd < 0 || c->inquiries.over || m->lost)
		return false;
	m->away_at = since;
	if (c->stage == STAGE_COMMIT)
		coord_set_timer(c, TIMER_AWAY, clock_ns()); /* which sets it again */
	coord_probe(m);
	return true;
}

void coord_came_back(struct member *m)
{
	m->away_at = 0;
	coord_stop_probe(m);
}

void coord_stays_away(struct member *m, const char *how)
{
	coord_came_back(m);
	if (m->coord->stage == STAGE_COMMIT)
		coord_lose_after_verdict(m, how);
	coord_maybe_drained(m->coord);
}

void coord_await_nobody(struct coord *c)
{
	c->inquiries.over = true;
	for (int r = 0; r < c->conf.size; r++)
		if (c->members[r].away_at)
			coord_stays_away(&c->members[r], "lost");
}

int64_t coord_away_until(const struct coord *c)
{
	int64_t last = 0;
	for (int r = 0; r < c->conf.size; r++)
		if (c->members[r].away_at > last)
			last = c->members[r].away_at;
	return last ? last + coord_verdict_kept(c) : 0;
}

void coord_look_for_away(void *ctx)
{
	struct coord *c = ctx;
	const int64_t now = clock_ns();
	int64_t next = COORD_NEVER;
	for (int r = 0; r < c->conf.size && c->stage == STAGE_COMMIT; r++) {
		struct member *m = &c->members[r];
		const int64_t until = m->away_at + coord_verdict_kept(c);
		char how[COORD_SILENT_TEXT];
		if (m->away_at && until <= now)
			coord_stays_away(m, coord_silent_text(m, now, how));
		else if (m->away_at && until < next)
			next = until;
	}
	if (c->stage == STAGE_COMMIT)
		coord_set_timer(c, TIMER_AWAY, next);
}
