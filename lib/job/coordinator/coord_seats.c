/* Which guest gets which rank, which rank is the root, and which ranks are missing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/job/coordinator/coord_internal.h"
#include "lib/job/ranks.h"

/* Ranks of one job are started within minutes of each other, also by hand: this is five times the
 * default of --join-timeout, which is how long ranks wait for each other. */
#define LEFT_OVER    (600 * NS_PER_SEC)
#define JOINED_EVERY (500 * NS_PER_MS) /* the shortest time between two JOINED messages */

static bool waits(const struct guest *g)
{
	return g->wants_rank && (g->own || ctl_open(&g->ctl));
}

/* ---- guests ---- */

static void leave(struct guest *g)
{
	loop_timer_stop(&g->patience);
	g->wants_rank = false;
	coord_seats_changed(g->coord);
	coord_maybe_drained(g->coord);
}

static void guest_lost(void *ctx, const struct err *err)
{
	(void)err;
	leave(ctx);
}

/* Its number is not known yet, so the message has its address. */
static void refuse_guest(struct guest *g, const struct err *why)
{
	struct err e = ERR_INIT;
	char from[ADDR_TEXT];
	err_set(&e, why->code, "a rank at %s: %s", addr_text(&g->from, true, from), why->text);
	coord_fail(g->coord, &e, PHASE_JOIN);
}

/* The guest may join again. */
static void drop(struct guest *g)
{
	ctl_release(&g->ctl);
	leave(g);
}

static void guest_lacking(void *ctx, const struct err *err)
{
	(void)err;
	drop(ctx);
}

static void patience_over(void *ctx)
{
	drop(ctx);
}

int coord_present_guests(const struct coord *c)
{
	int n = 0;
	for (const struct guest *g = c->seats.guests; g; g = g->next)
		n += waits(g) && g->present;
	return n;
}

/* Decode the presence of a PRESENT that has just arrived. */
static int read_presence(struct presence *p, struct view v, struct err *err)
{
	if (presence_decode(p, v, err) < 0)
		return -1;
	p->started = clock_ns() - p->age * NS_PER_SEC;
	return 0;
}

/* A guest that waits for a rank sends PRESENT, and ABORT if it fails. */
static void guest_message(void *ctx, uint8_t type, struct view body)
{
	struct guest *g = ctx;
	struct err e = {0};
	if (!g->wants_rank || type == MSG_ABORT)
		return;
	if (type != MSG_PRESENT || g->present ||
	    coord_present_guests(g->coord) >= COORD_PLACES(g->coord->conf.size)) {
		drop(g);
		return;
	}
	if (read_presence(&g->presence, body, &e) < 0) {
		if (e.code == ERR_DISAGREE)
			refuse_guest(g, &e);
		else
			drop(g);
		return;
	}
	g->present = true;
	loop_timer_stop(&g->patience);
	coord_seats_changed(g->coord);
}

static void free_guest(struct guest *g)
{
	loop_timer_stop(&g->patience);
	ctl_release(&g->ctl);
	free(g);
}

void coord_free_guests(struct coord *c)
{
	while (c->seats.guests) {
		struct guest *g = c->seats.guests;
		c->seats.guests = g->next;
		free_guest(g);
	}
}

void coord_end_guests(struct coord *c)
{
	for (struct guest *g = c->seats.guests; g; g = g->next)
		ctl_end(&g->ctl);
}

bool coord_has_open_guests(const struct coord *c)
{
	for (const struct guest *g = c->seats.guests; g; g = g->next)
		if (ctl_open(&g->ctl))
			return true;
	return false;
}

bool coord_guests_have_sent(const struct coord *c)
{
	for (const struct guest *g = c->seats.guests; g; g = g->next)
		if (ctl_open(&g->ctl) && !g->ctl.ended)
			return false;
	return true;
}

/* Remove the guests that have left. Must not be called from a guest's own link. */
static void forget_guests(struct coord *c)
{
	for (struct guest **p = &c->seats.guests; *p;) {
		struct guest *g = *p;
		if (ctl_open(&g->ctl) || waits(g)) {
			p = &g->next;
			continue;
		}
		*p = g->next;
		free_guest(g);
	}
}

/* The oldest guest that has a connection and that is turned away or, with @wants_rank, has not sent
 * PRESENT; *n: how many there are. The list is newest first. */
static struct guest *oldest(const struct coord *c, bool wants_rank, int *n)
{
	struct guest *last = NULL;
	*n = 0;
	for (struct guest *g = c->seats.guests; g; g = g->next)
		if (ctl_open(&g->ctl) && g->wants_rank == wants_rank &&
		    !(wants_rank && g->present)) {
			last = g;
			++*n;
		}
	return last;
}

bool coord_spare_guest(void *ctx)
{
	int n;
	struct guest *g = oldest(ctx, false, &n);
	if (!g)
		g = oldest(ctx, true, &n);
	if (g)
		drop(g);
	return g;
}

void coord_dismiss_guests(struct coord *c)
{
	for (struct guest *g = c->seats.guests; g; g = g->next) {
		/* Unread bytes at the close would reset the connection, and ABORT might be lost. */
		if (ctl_open(&g->ctl))
			ctl_look(&g->ctl);
		if (ctl_open(&g->ctl))
			drop(g);
	}
	forget_guests(c);
}

/* Before one more guest comes. */
static void make_room(struct coord *c)
{
	int n;
	struct guest *g = oldest(c, false, &n);
	if (n >= COORD_PLACES(c->conf.size))
		drop(g);
	g = oldest(c, true, &n);
	if (n >= COORD_PLACES(c->conf.size))
		drop(g);
	forget_guests(c);
}

struct guest *coord_add_guest(struct coord *c, struct conn *conn, const struct addr *from)
{
	make_room(c);
	struct guest *g = calloc(1, sizeof *g);
	struct err e = {0};
	if (!g) {
		conn_free(conn);
		return NULL;
	}
	g->coord = c;
	g->own = !conn;
	g->ctl.on_lost = guest_lost;
	g->ctl.on_lacking = guest_lacking;
	g->ctl.on_message = guest_message;
	g->ctl.ctx = g;
	g->arrival = ++c->seats.arrivals;
	g->next = c->seats.guests;
	c->seats.guests = g;
	if (from)
		g->from = *from;
	g->patience = (struct loop_timer){.fn = patience_over, .ctx = g};
	if (conn)
		loop_timer_set(c->conf.loop, &g->patience, clock_ns() + GATE_PATIENCE);
	if (conn && ctl_start(&g->ctl, conn, c->conf.loop, &e) < 0)
		ctl_release(&g->ctl);
	return g;
}

void coord_send_guests_failure(struct coord *c)
{
	struct buf b;
	uint8_t memory[ERR_MESSAGE];
	coord_err_message(&c->failure, c->failed_in, &b, memory);
	for (struct guest *g = c->seats.guests; g; g = g->next) {
		if (!waits(g))
			continue;
		g->wants_rank = false;
		c->seats.told_failure++;
		if (g->own)
			c->conf.deliver(c->conf.ctx, MSG_ABORT, view_of(b.data, b.len));
		ctl_send(&g->ctl, MSG_ABORT, &b);
		if (c->drain)
			ctl_end(&g->ctl);
	}
	buf_release(&b);
}

/* ---- hosts ---- */

/* The host of a rank that has joined. */
static const char *host_of(const struct coord *c, int rank)
{
	return c->members[rank].present ? c->members[rank].presence.host : "";
}

/* Are there ranks on different hosts? */
bool coord_several_hosts(const struct coord *c)
{
	const char *first = "";
	for (int r = 0; r < c->conf.size; r++) {
		const char *host = host_of(c, r);
		if (*host && *first && strcmp(host, first) != 0)
			return true;
		first = *host ? host : first;
	}
	return false;
}

void coord_name_host(const struct coord *c, struct err *e)
{
	const char *host = NULL;
	if (e->host[0] || e->rank < 0 || e->rank >= c->conf.size)
		return;
	if (!c->members[e->rank].joined)
		host = c->conf.host_of ? c->conf.host_of(c->conf.ctx, e->rank) : NULL;
	else if (coord_several_hosts(c))
		host = host_of(c, e->rank);
	if (host && host_name_or_address(host))
		presence_set(e->host, sizeof e->host, host);
}

const char *coord_host(const struct coord *c, int rank)
{
	return c->several_hosts ? host_of(c, rank) : "";
}

const char *coord_self_text(const struct coord *c, char text[COORD_SELF_TEXT])
{
	const char *host = c->conf.present ? c->conf.present->host : "";
	if (c->self >= 0)
		snprintf(text, COORD_SELF_TEXT, "rank %d", c->self);
	else
		snprintf(text, COORD_SELF_TEXT, "the coordinator%s%s%s", *host ? " (" : "", host,
		         *host ? ")" : "");
	return text;
}

/* ---- the root ---- */

/* Is @name the name of @host, or its first part? */
static bool names_host(const char *name, const char *host)
{
	size_t n = strlen(name);
	return strncmp(name, host, n) == 0 && (host[n] == '\0' || host[n] == '.');
}

enum giving { ANY_INPUT, EXISTING_INPUT };

/* Find the ranks that @name, or (NULL) their input, makes the root: returns their number and lists
 * them. */
static int candidates(const struct coord *c, const char *name, enum giving input, int *root,
                      char *text, size_t cap)
{
	struct rank_list list;
	int n = 0;
	rank_list_init(&list, text, cap);
	for (int r = 0; r < c->conf.size; r++) {
		const struct presence *p = &c->members[r].presence;
		bool fits = name ? names_host(name, p->host)
		                 : p->input[0] && (input == ANY_INPUT || p->has_input);
		if (!fits)
			continue;
		rank_list_add(&list, r);
		*root = r;
		n++;
	}
	rank_list_end(&list);
	return n;
}

/* The root that @asker means; -1: *e says why there is none. */
static int find_root(const struct coord *c, const struct presence *asker, struct err *e)
{
	const char *host = asker->root[0] ? asker->root : NULL;
	char ranks[160];
	int root = -1, n = candidates(c, host, ANY_INPUT, &root, ranks, sizeof ranks);
	if (!host && n > 1) /* one command line for all ranks, and only one rank has the file */
		if (candidates(c, NULL, EXISTING_INPUT, &root, (char[160]){0}, 160) == 1)
			n = 1;
	if (n == 1)
		return root;
	if (host && n == 0)
		err_set(e, ERR_DISAGREE, "--root %s: no rank is on a host of this name", host);
	else if (host)
		err_set(e, ERR_DISAGREE,
		        "--root %s: ranks %s are on this host: give the number of the root", host,
		        ranks);
	else if (n == 0)
		err_set(e, ERR_DISAGREE,
		        "no rank gives an input: with --rank auto give it on the root, or give "
		        "--root HOST");
	else
		err_set(e, ERR_DISAGREE,
		        "ranks %s give an input: with --rank auto give it on the root only, or "
		        "give --root HOST",
		        ranks);
	return -1;
}

/* ---- ranks that are left over ---- */

/* "rank 3 on nodeb" */
static char *rank_on_host(const struct coord *c, int rank, char *buf, size_t cap)
{
	const char *host = host_of(c, rank);
	snprintf(buf, cap, "rank %d%s%s", rank, *host ? " on " : "", host);
	return buf;
}

static char *age_text(int64_t ns, char *buf, size_t cap)
{
	const int64_t minutes = ns / (60 * NS_PER_SEC);
	if (minutes < 120)
		snprintf(buf, cap, "%d min", (int)minutes);
	else
		snprintf(buf, cap, "%d h", (int)(minutes / 60));
	return buf;
}

void coord_look_at_ages(const struct coord *c)
{
	char first[160], last[96], list[96], age[32], text[480];
	int oldest = -1, newest = -1, n = 0;
	struct rank_list old;
	for (int r = 0; r < c->conf.size; r++) {
		const int64_t started = c->members[r].presence.started;
		if (!started)
			continue;
		if (oldest < 0 || started < c->members[oldest].presence.started)
			oldest = r;
		if (newest < 0 || started > c->members[newest].presence.started)
			newest = r;
	}
	rank_list_init(&old, list, sizeof list);
	const int64_t limit = newest < 0 ? 0 : c->members[newest].presence.started - LEFT_OVER;
	for (int r = 0; r < c->conf.size; r++)
		if (c->members[r].presence.started && c->members[r].presence.started < limit) {
			rank_list_add(&old, r);
			n++;
		}
	rank_list_end(&old);
	if (!n || !c->conf.warn)
		return;
	if (n > 1)
		snprintf(first, sizeof first, "ranks %s were started up to", list);
	else
		snprintf(first, sizeof first, "%.70s was started",
		         rank_on_host(c, oldest, last, sizeof last));
	snprintf(
	        text, sizeof text,
	        "%s %s before %s: if %s left over from an earlier job of the same name, the result "
	        "is wrong; give each job its own --job (-j)",
	        first,
	        age_text(limit + LEFT_OVER - c->members[oldest].presence.started, age, sizeof age),
	        rank_on_host(c, newest, last, sizeof last), n > 1 ? "they are" : "it is");
	c->conf.warn(c->conf.ctx, text);
}

/* ---- seats ---- */

static void welcome(struct member *m, int root)
{
	const struct coord *c = m->coord;
	struct welcome w = {.rank = m->rank, .coordinator = c->self, .root = root};
	struct buf b;
	uint8_t memory[sizeof w + 64];
	if (c->conf.present)
		memcpy(w.host, c->conf.present->host, sizeof w.host);
	buf_init_fixed(&b, memory, sizeof memory);
	welcome_encode(&w, &b);
	coord_send(m, MSG_WELCOME, &b);
	buf_release(&b);
}

/* The rank has its link, unless @started < 0: *why. */
static void seat(struct member *m, const struct addr *from, int started, const struct err *why)
{
	struct coord *c = m->coord;
	m->from = *from;
	c->seats.njoined += !m->joined;
	m->joined = true;
	if (started < 0) {
		ctl_release(&m->ctl);
		coord_member_lost(m, why);
		return;
	}
	welcome(m, -1);
	if (c->stage == STAGE_FAILED) {
		coord_send_failure(c, m);
		if (c->drain)
			ctl_end(&m->ctl);
		coord_maybe_drained(c);
	}
	coord_seats_changed(c);
}

void coord_seat(struct coord *c, int rank, struct conn *conn, const struct addr *from)
{
	struct member *m = &c->members[rank];
	struct err e = {0};
	ctl_release(&m->ctl); /* it has left, but its link may not have ended */
	seat(m, from, ctl_start(&m->ctl, conn, c->conf.loop, &e), &e);
}

int coord_take_presence(struct member *m, struct view v, struct err *err)
{
	if (read_presence(&m->presence, v, err) < 0)
		return -1;
	m->present = true;
	coord_seats_changed(m->coord);
	return 0;
}

/* Equal ranks keep the order in which they joined. */
static int by_presence(const void *a, const void *b)
{
	const struct guest *g = *(struct guest *const *)a, *h = *(struct guest *const *)b;
	int d = presence_compare(&g->presence, &h->presence);
	return d ? d : (g->arrival > h->arrival) - (g->arrival < h->arrival);
}

/* Move the guest to its seat. */
static void seat_guest(struct coord *c, struct guest *g, int rank)
{
	struct member *m = &c->members[rank];
	struct err e = {0};
	g->wants_rank = false;
	loop_timer_stop(&g->patience);
	m->presence = g->presence;
	m->present = true;
	ctl_release(&m->ctl);
	int started = g->own ? 0 : ctl_take(&m->ctl, &g->ctl, c->conf.loop, &e);
	seat(m, &g->from, started, &e);
}

/* The @places guests that joined first, sorted. NULL: no memory. */
static struct guest **sort_guests(const struct coord *c, int waiting, int places)
{
	struct guest **sorted = calloc((size_t)places, sizeof(struct guest *));
	int n = 0, skip = waiting - places; /* the list is newest first */
	for (struct guest *g = c->seats.guests; sorted && g; g = g->next)
		if (waits(g) && g->present && skip-- <= 0)
			sorted[n++] = g;
	if (sorted)
		qsort(sorted, (size_t)n, sizeof(struct guest *), by_presence);
	return sorted;
}

/* Once all ranks have joined, those with --rank auto get the free numbers, in the order of host,
 * address and input. */
static void seat_guests(struct coord *c)
{
	int places = c->conf.size - c->seats.njoined;
	if (c->seats.arrivals < (uint64_t)places && !c->seats.grace_over)
		return;
	const int waiting = coord_present_guests(c);
	if (waiting < places && coord_may_begin(c, waiting))
		places = waiting;
	if (places <= 0 || waiting < places)
		return;
	struct guest **sorted = sort_guests(c, waiting, places);
	if (!sorted) {
		struct err e = {0};
		err_nomem(&e, "the ranks of the job", (size_t)places * sizeof(struct guest *));
		e.rank = c->self;
		coord_fail(c, &e, PHASE_JOIN);
		return;
	}
	/* The WELCOMEs name the coordinator's rank, so it is set first. */
	for (int i = 0, rank = 0; i < places; i++, rank++) {
		while (c->members[rank].joined)
			rank++;
		sorted[i]->rank = rank;
		if (sorted[i]->own)
			c->self = rank;
	}
	for (int i = 0; i < places && c->stage == STAGE_JOIN; i++)
		seat_guest(c, sorted[i], sorted[i]->rank);
	free(sorted);
}

static bool all_are_here(struct coord *c)
{
	return c->seats.njoined >= c->conf.size &&
	       coord_all_have(c, &c->upto.present, offsetof(struct member, present));
}

/* All ranks have joined, or as many as are enough: send each what was not known before. */
static void complete(struct coord *c)
{
	struct err e = ERR_INIT;
	const struct presence *last = NULL;
	int root = -1;
	if (!all_are_here(c) && !coord_may_begin(c, 0))
		return;
	c->seats.complete = true;
	coord_close_round(c);
	for (int r = 0; r < c->conf.size; r++) {
		struct member *m = &c->members[r];
		const struct presence *p = &m->presence;
		if (m->missing || (!p->finds_root && c->conf.rank >= 0))
			continue;
		if (p->finds_root && (!last || strcmp(last->root, p->root) != 0)) {
			root = c->conf.root = find_root(c, p, &e);
			last = p;
		}
		if (e.code) {
			e.rank = r;
			coord_fail(c, &e, PHASE_JOIN);
			return;
		}
		welcome(m, p->finds_root ? root : -1);
	}
}

void coord_settle_seats(struct coord *c)
{
	if (c->stage != STAGE_JOIN || c->seats.closed)
		return;
	seat_guests(c);
	if (c->stage == STAGE_JOIN && !c->seats.complete)
		complete(c);
}

void coord_look_at_seats(void *ctx)
{
	struct coord *c = ctx;
	coord_settle_seats(c);
	if (c->seats.closed) /* it may be all that the intents waited for */
		coord_maybe_complete(c);
}

/* ---- presence ---- */

static void add_host(char *names, size_t cap, const char *host)
{
	size_t len = strlen(names);
	const char *at = strstr(names, host);
	size_t n = strlen(host);
	for (; at; at = strstr(at + 1, host)) /* name each host once */
		if ((at == names || at[-1] == ' ') && (at[n] == ',' || at[n] == '\0'))
			return;
	if (len + n + 8 < cap)
		snprintf(names + len, cap - len, "%s%s", len ? ", " : "", host);
	else if (len < 4 || strcmp(names + len - 3, "...") != 0)
		snprintf(names + len, cap - len, ", ...");
}

void coord_who_joined(const struct coord *c, struct joined *j)
{
	struct rank_list list;
	*j = (struct joined){.size = (uint32_t)c->conf.size, .by_host = c->conf.rank < 0};
	for (const struct guest *g = c->seats.guests; g; g = g->next)
		if (waits(g)) {
			j->here++;
			j->by_host = true;
		}
	for (int r = 0; r < c->conf.size; r++)
		j->here += c->members[r].joined;
	if (j->here > j->size) /* more ranks have joined than the job has */
		j->here = j->size;
	if (j->by_host) {
		for (int r = 0; r < c->conf.size; r++)
			if (c->members[r].present && c->members[r].presence.host[0])
				add_host(j->names, sizeof j->names, c->members[r].presence.host);
		for (const struct guest *g = c->seats.guests; g; g = g->next)
			if (waits(g) && g->present && g->presence.host[0])
				add_host(j->names, sizeof j->names, g->presence.host);
		return;
	}
	rank_list_init(&list, j->names, sizeof j->names);
	for (int r = 0; r < c->conf.size; r++)
		if (!c->members[r].joined)
			rank_list_add(&list, r);
	rank_list_end(&list);
}

void coord_tell_joined(void *ctx)
{
	struct coord *c = ctx;
	struct joined now;
	struct buf b;
	uint8_t memory[1024];
	if (c->stage != STAGE_JOIN)
		return;
	coord_who_joined(c, &now);
	if (now.here == c->seats.joined.here && strcmp(now.names, c->seats.joined.names) == 0)
		return;
	c->seats.joined = now;
	buf_init_fixed(&b, memory, sizeof memory);
	joined_encode(&now, &b);
	for (int r = 0; r < c->conf.size; r++)
		if (c->members[r].joined)
			coord_send(&c->members[r], MSG_JOINED, &b);
	for (struct guest *g = c->seats.guests; g; g = g->next) {
		if (waits(g) && g->own)
			c->conf.deliver(c->conf.ctx, MSG_JOINED, view_of(b.data, b.len));
		else if (waits(g))
			ctl_send(&g->ctl, MSG_JOINED, &b);
	}
	buf_release(&b);
}

void coord_unseat(struct member *m)
{
	struct coord *c = m->coord;
	c->seats.njoined -= m->joined;
	free(m->details);
	m->details = NULL;
	m->intent = (struct intent){0};
	m->joined = m->present = m->has_intent = m->lost = false;
	c->upto.present = c->upto.has_intent = 0;
	c->seats.complete = c->seats.closed = false;
	coord_seats_changed(c);
}

void coord_seats_changed(struct coord *c)
{
	if (c->stage != STAGE_JOIN)
		return;
	coord_set_timer(c, TIMER_SEATS, clock_ns());
	if (!coord_timer_runs(c, TIMER_JOINED))
		coord_set_timer(c, TIMER_JOINED, clock_ns() + JOINED_EVERY);
}

int coord_init_seats(struct coord *c)
{
	c->self = c->conf.rank;
	if (c->self >= 0) {
		struct member *m = &c->members[c->self];
		m->joined = m->present = true;
		c->seats.njoined = 1;
		if (c->conf.present)
			m->presence = *c->conf.present;
	} else {
		struct guest *g = coord_add_guest(c, NULL, NULL);
		if (!g)
			return -1;
		g->wants_rank = g->present = true;
		g->presence = *c->conf.present;
	}
	coord_seats_changed(c);
	return 0;
}
