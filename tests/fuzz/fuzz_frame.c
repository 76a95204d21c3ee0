/*
 * What a peer may send. The first byte chooses who reads the rest: a plain connection, a control
 * link, one of the decoders of control messages, or who compares the tables that they carry.
 * Whatever is accepted must keep its promises; what a decoder takes and its encoder writes must be
 * taken again.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <xxhash.h>

#include "lib/base/buf.h"
#include "lib/base/text.h"
#include "lib/coll/tracing.h"
#include "lib/job/ctl.h"
#include "lib/job/failed_links.h"
#include "lib/job/proto.h"
#include "lib/job/tables.h"
#include "tests/fuzz/check.h"

#define SUMMED 16 /* of a frame's header (lib/net/PROTOCOL.md) */
#define HEADER (SUMMED + 4)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A connection whose peer has sent @data and closed. */
static struct conn *plain(const uint8_t *data, size_t size)
{
	struct err err = {0};
	int fd[2];
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd) == 0);
	/* The socket takes what fits, well over the fuzzer's longest input. */
	CHECK(size == 0 || send(fd[0], data, size, MSG_NOSIGNAL) > 0);
	close(fd[0]);
	struct conn *c = conn_tcp_new(fd[1], &err);
	CHECK(c);
	c->readable = c->writable = true;
	return c;
}

/* @quantum: the most that is asked for at a time. */
static void read_frames(const uint8_t *data, size_t size, size_t quantum)
{
	struct conn *c = plain(data, size);
	struct err err = {0};
	uint8_t buf[256];
	size_t total = 0;
	ssize_t got;
	while ((got = conn_read(c, buf, quantum, &err)) > 0) {
		CHECK((size_t)got <= quantum);
		total += (size_t)got;
	}
	CHECK(total <= size);
	CHECK(got == -1 || got == CONN_END);
	/* ERR_AUTH: the alert of a listener that wants TLS. */
	CHECK((got == -1) == (err.code == ERR_INTEGRITY || err.code == ERR_AUTH));
	conn_free(c);
}

/* Put the sums right that no fuzzer finds: of the headers, and of the payloads that are there. */
static void mend(uint8_t *p, size_t size)
{
	while (size >= HEADER) {
		uint32_t length = get_u32(p);
		size_t payload = length <= size - HEADER ? length : 0;
		if (payload)
			put_u64(p + 8, XXH3_64bits(p + HEADER, payload));
		put_u32(p + SUMMED, (uint32_t)XXH3_64bits(p, SUMMED));
		p += HEADER + payload;
		size -= HEADER + payload;
	}
}

static void read_mended(const uint8_t *data, size_t size, size_t quantum)
{
	uint8_t *copy = malloc(size + 1);
	CHECK(copy);
	memcpy(copy, data, size);
	mend(copy, size);
	read_frames(copy, size, quantum);
	free(copy);
}

struct listener {
	size_t messages;
	bool lost;
};

static void on_message(void *ctx, uint8_t type, struct view body)
{
	struct listener *l = ctx;
	(void)type;
	CHECK(view_left(&body) <= CTL_BODY_MAX);
	l->messages++;
}

static void on_lost(void *ctx, const struct err *err)
{
	struct listener *l = ctx;
	CHECK(!l->lost);
	CHECK(err->code == 0 || err->code == ERR_PEER_LOST || err->code == ERR_INTEGRITY);
	l->lost = true;
}

/* The control link over frames that are right: @data is what they carry. */
static void read_messages(const uint8_t *data, size_t size)
{
	struct err err = {0};
	struct loop loop;
	struct listener l = {0};
	struct ctl ctl = {.on_message = on_message, .on_lost = on_lost, .ctx = &l};
	int fd[2];
	CHECK(loop_init(&loop, &err) == 0);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd) == 0);
	struct conn *writer = conn_tcp_new(fd[0], &err), *reader = conn_tcp_new(fd[1], &err);
	CHECK(writer && reader);
	writer->writable = true;
	CHECK(ctl_start(&ctl, reader, &loop, &err) == 0);
	if (size)
		CHECK(conn_write(writer, data, size, &err) == (ssize_t)size);
	CHECK(conn_end(writer, &err) == 1);
	while (!l.lost)
		CHECK(loop_turn(&loop, INT64_MAX, &err) == 0);
	CHECK(l.messages <= size / 5);
	ctl_release(&ctl);
	conn_free(writer);
	loop_release(&loop);
}

static void decode_opening(const uint8_t *data, size_t size)
{
	uint8_t opening[GATE_OPENING] = {0}, again[GATE_OPENING];
	struct hello h;
	struct inquiry q;
	memcpy(opening, data, size < sizeof opening ? size : sizeof opening);
	if (inquiry_decode(&q, opening) == 0) {
		inquiry_encode(&q, again);
		CHECK(memcmp(opening, again, sizeof again) == 0);
	}
	if (hello_decode(&h, opening) < 0)
		return;
	hello_encode(&h, again);
	CHECK(memcmp(opening, again, 28) == 0); /* the rest is padding */
}

static bool same_view(const struct view *a, const struct view *b)
{
	size_t n = view_left(a);
	return n == view_left(b) && (!n || memcmp(a->p, b->p, n) == 0);
}

static void decode_intent(const uint8_t *data, size_t size)
{
	static struct intent in, back;
	struct err err = {0};
	struct buf b;
	if (intent_decode(&in, view_of(data, size), &err) < 0) {
		CHECK(err.code == ERR_INTEGRITY);
		return;
	}
	CHECK(in.nfacts <= FACTS_MAX && view_left(&in.details) <= DETAILS_MAX);
	buf_init(&b, CTL_BODY_MAX);
	intent_encode(&in, &b);
	CHECK(intent_decode(&back, view_of(b.data, b.len), &err) == 0);
	CHECK(same_view(&in.details, &back.details));
	in.details = back.details = (struct view){0};
	CHECK(memcmp(&in, &back, sizeof in) == 0);
	buf_release(&b);
}

static void decode_plan(const uint8_t *data, size_t size)
{
	struct plan plan, back;
	struct err err = {0};
	struct buf b;
	struct view v = view_of(data, size);
	if (plan_decode(&plan, &v, &err) < 0) {
		CHECK(err.code == ERR_INTEGRITY);
		return;
	}
	CHECK(plan.windows && plan.streams && plan.streams <= 64);
	CHECK(view_left(&plan.details) <= DETAILS_MAX);
	buf_init(&b, CTL_BODY_MAX);
	plan_encode(&plan, &b);
	v = view_of(b.data, b.len);
	CHECK(plan_decode(&back, &v, &err) == 0 && view_left(&v) == 0);
	CHECK(strcmp(plan.algorithm, back.algorithm) == 0 && plan.windows == back.windows);
	CHECK(same_view(&plan.details, &back.details));
	buf_release(&b);
}

static void decode_err(const uint8_t *data, size_t size)
{
	struct err e, back;
	enum phase phase, phase_back;
	struct buf b;
	struct view v = view_of(data, size);
	if (err_decode(&e, &phase, &v) < 0)
		return;
	CHECK(e.code >= 0 && e.code <= UINT8_MAX && phase_name(phase)[0] != '?');
	buf_init(&b, CTL_BODY_MAX);
	err_encode(&e, phase, &b);
	v = view_of(b.data, b.len);
	CHECK(err_decode(&back, &phase_back, &v) == 0 && phase_back == phase);
	CHECK(back.code == e.code && back.rank == e.rank && strcmp(back.text, e.text) == 0);
	buf_release(&b);
}

static void decode_small(const uint8_t *data, size_t size)
{
	struct beat beat;
	struct pace pace;
	struct vote vote;
	struct view v = view_of(data, size);
	struct err err = {0};
	if (beat_decode(&beat, v, &err) == 0)
		CHECK(phase_name(beat.phase)[0] != '?');
	if (pace_decode(&pace, v, &err) == 0)
		CHECK(phase_name(pace.phase)[0] != '?' && pace.rank >= -1 &&
		      pace.rank < JOB_MAX_SIZE && pace.done <= PACE_DONE);
	if (vote_decode(&vote, v, &err) == 0)
		CHECK(vote.work.rank >= -1 && vote.work.rank < JOB_MAX_SIZE);
}

/* Two pages of tables: the first two bytes say how long the first is. */
static void compare_pages(const uint8_t *data, size_t size)
{
	size_t n = size < 2 ? 0 : (size_t)(data[0] | data[1] << 8);
	struct table_difference d;
	struct err err = {0};
	struct tables t;
	if (size < 2 || n > size - 2)
		return;
	struct view a = view_of(data + 2, n), b = view_of(data + 2 + n, size - 2 - n);
	tables_begin(&t, 0, 1);
	enum tables_state s = tables_take(&t, 0, 0, a, &d, &err);
	CHECK(s == TABLES_WAIT || (s == TABLES_BAD && err.code == ERR_INTEGRITY));
	if (s == TABLES_WAIT)
		s = tables_take(&t, 1, 0, b, &d, &err);
	if (s == TABLES_DIFFER) {
		CHECK(!same_view(&a, &b));
		CHECK(memchr(d.name, 0, sizeof d.name));
		CHECK(memchr(d.value, 0, sizeof d.value) && memchr(d.other, 0, sizeof d.other));
	} else if (s != TABLES_BAD) {
		CHECK(same_view(&a, &b) && s == (n ? TABLES_NEXT : TABLES_SAME));
	}
	tables_release(&t);
}

static const char *host_name(void *ctx, int rank, char *buf, size_t cap)
{
	(void)ctx;
	(void)rank;
	(void)buf;
	(void)cap;
	return "node";
}

static bool is_host(const char *name)
{
	return !*name || host_name_is_right(name);
}

/* Malformed, or with a host that has no name, which the error tells. */
static bool is_refusal(const struct err *err)
{
	return err->code == ERR_INTEGRITY ||
	       (err->code == ERR_DISAGREE && strchr(err->text, '\'') && text_is_clean(err->text));
}

static void decode_roster(const uint8_t *data, size_t size)
{
	struct view v = view_of(data, size);
	struct roster r;
	struct rank_place p;
	struct err err = {0};
	if (roster_decode(&r, &v, &err) < 0) {
		CHECK(err.code == ERR_INTEGRITY && !r.host);
		return;
	}
	CHECK(r.size && r.size <= JOB_MAX_SIZE);
	CHECK(r.ncame > 0 && (r.came ? r.ncame < (int)r.size : r.ncame == (int)r.size));
	CHECK(r.hosts > 0 && r.hosts <= r.ncame);
	CHECK(r.came ? r.host != NULL : r.host ? r.hosts < r.ncame : r.hosts == r.ncame);
	for (int i = 0, k = 0; r.host && i < (int)r.size; i++) {
		const bool comes = !r.came || (k < r.ncame && r.came[k] == i);
		k += comes;
		CHECK(comes ? r.host[i] >= 0 && r.host[i] < r.hosts : r.host[i] == -1);
	}
	while (view_left(&v) && rank_place_decode(&p, &v, &err) == 0) {
		CHECK(p.rank >= 0 && p.rank < JOB_MAX_SIZE);
		CHECK(memchr(p.addr, 0, sizeof p.addr) && is_host(p.host));
	}
	CHECK(err.code == 0 || is_refusal(&err));
	roster_release(&r);
}

/* What the two ends of a join say before the roster, and LINKS. */
static void decode_join(const uint8_t *data, size_t size)
{
	struct view v = view_of(data, size);
	struct presence p;
	struct welcome w;
	struct joined j;
	struct link_faults links = {0};
	struct err err = {0};
	char text[sizeof err.text];
	if (presence_decode(&p, v, &err) == 0)
		CHECK(is_host(p.host) && is_host(p.root) && memchr(p.addr, 0, sizeof p.addr));
	else
		CHECK(is_refusal(&err));
	err_clear(&err);
	if (welcome_decode(&w, v, &err) == 0)
		CHECK(w.rank >= 0 && w.coordinator >= -1 && is_host(w.host));
	else
		CHECK(is_refusal(&err));
	err_clear(&err);
	if (joined_decode(&j, v, &err) == 0)
		CHECK(j.here <= JOB_MAX_SIZE && j.size <= JOB_MAX_SIZE);
	err_clear(&err);
	if (links_decode(&links, 1, 16, v, &err) < 0)
		CHECK(err.code == ERR_INTEGRITY);
	links_text(&links, host_name, NULL, text, sizeof text);
	CHECK(links.n <= LINKS_MAX && memchr(text, 0, sizeof text));
	links_release(&links);
}

/* A part of a trace, of a job of 5 ranks. */
static void decode_trace(const uint8_t *data, size_t size)
{
	struct trace_part p;
	struct trace_event e;
	struct err err = {0};
	if (trace_part_decode(&p, view_of(data, size), &err) < 0) {
		CHECK(err.code == ERR_INTEGRITY);
		return;
	}
	CHECK(view_left(&p.events) % TRACE_EVENT_BYTES == 0);
	while (view_left(&p.events) && trace_event_get(&e, &p.events, 5) == 0) {
		struct buf b;
		CHECK(e.kind < TRACE_KINDS && e.peer >= -1 && e.peer < 5 && e.start >= 0 &&
		      e.end >= e.start);
		buf_init(&b, TRACE_EVENT_BYTES);
		trace_event_put(&b, &e);
		CHECK(b.len == TRACE_EVENT_BYTES &&
		      memcmp(b.data, p.events.p - TRACE_EVENT_BYTES, b.len) == 0);
		buf_release(&b);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	uint8_t mode = data[0];
	data++;
	size--;
	switch (mode % 12) {
	case 0:
		(mode & 64 ? read_frames : read_mended)(data, size, 1u + mode);
		break;
	case 1:
		read_messages(data, size);
		break;
	case 2:
		decode_opening(data, size);
		break;
	case 3:
		decode_intent(data, size);
		break;
	case 4:
		decode_plan(data, size);
		break;
	case 7:
		decode_small(data, size);
		break;
	case 8:
		compare_pages(data, size);
		break;
	case 9:
		decode_roster(data, size);
		break;
	case 10:
		decode_join(data, size);
		break;
	case 11:
		decode_trace(data, size);
		break;
	default:
		decode_err(data, size);
		break;
	}
	return 0;
}
