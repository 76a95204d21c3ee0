#include "lib/job/proto.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#define MAGIC      "CCTLCTL1"
#define DONE_UNITS 1000000 /* units of a fraction on the wire */

const char *msg_name(uint8_t type)
{
	static const char *const names[] = {
	        [MSG_WELCOME] = "WELCOME",     [MSG_INTENT] = "INTENT",   [MSG_ROSTER] = "ROSTER",
	        [MSG_ABORT] = "ABORT",         [MSG_BEAT] = "BEAT",       [MSG_REPORT] = "REPORT",
	        [MSG_VOTE] = "VOTE",           [MSG_VERDICT] = "VERDICT", [MSG_DONE] = "DONE",
	        [MSG_FINAL] = "FINAL",         [MSG_ASK] = "ASK",         [MSG_PAGE] = "PAGE",
	        [MSG_PRESENT] = "PRESENT",     [MSG_JOINED] = "JOINED",   [MSG_LINKS] = "LINKS",
	        [MSG_OTHER_JOB] = "OTHER_JOB", [MSG_ROUND] = "ROUND",     [MSG_ANSWER] = "ANSWER",
	        [MSG_PEERS] = "PEERS",         [MSG_PLACES] = "PLACES",   [MSG_CLOCK] = "CLOCK",
	};
	return type < sizeof names / sizeof *names && names[type] ? names[type] : "?";
}

const char *phase_name(enum phase p)
{
	static const char *const names[] = {"join", "connect", "run", "commit"};
	return (unsigned)p < 4 ? names[p] : "?";
}

const char *phase_words(enum phase p)
{
	static const char *const words[] = {"while joining", "while connecting",
	                                    "while data were moving", "during the commit"};
	return (unsigned)p < 4 ? words[p] : "";
}

void hello_encode(const struct hello *h, uint8_t o[GATE_OPENING])
{
	memset(o, 0, GATE_OPENING);
	memcpy(o, MAGIC, 8);
	put_u32(o + 8, h->version);
	put_u32(o + 12, h->rank);
	put_u32(o + 16, h->size);
	memcpy(o + 20, h->jobtag, sizeof h->jobtag);
	memcpy(o + 28, h->launch, sizeof h->launch);
}

int hello_decode(struct hello *h, const uint8_t o[GATE_OPENING])
{
	if (memcmp(o, MAGIC, 8) != 0)
		return -1;
	h->version = get_u32(o + 8);
	h->rank = get_u32(o + 12);
	h->size = get_u32(o + 16);
	memcpy(h->jobtag, o + 20, sizeof h->jobtag);
	memcpy(h->launch, o + 28, sizeof h->launch);
	return 0;
}

void intent_add(struct intent *in, const char *name, const char *value)
{
	size_t len = strlen(value);
	if (in->nfacts == FACTS_MAX) {
		in->crowded = true;
		return;
	}
	struct fact *f = &in->facts[in->nfacts++];
	snprintf(f->name, sizeof f->name, "%s", name);
	if (len < sizeof f->value)
		memcpy(f->value, value, len + 1);
	else
		snprintf(f->value, sizeof f->value, "%.*s... (%zu characters, XXH3 %016" PRIx64 ")",
		         FACT_VALUE - 80, value, len, XXH3_64bits(value, len));
}

static void put_details(struct buf *b, const struct view *details)
{
	buf_put_u32(b, (uint32_t)view_left(details));
	if (view_left(details))
		buf_put(b, details->p, view_left(details));
}

static struct view view_details(struct view *v)
{
	uint32_t len = view_u32(v);
	if (len > DETAILS_MAX)
		v->failed = true;
	const uint8_t *p = len && !v->failed ? view_bytes(v, len) : NULL;
	return p ? view_of(p, len) : (struct view){0};
}

void intent_encode(const struct intent *in, struct buf *b)
{
	buf_put_u8(b, (uint8_t)in->nfacts);
	for (int i = 0; i < in->nfacts; i++) {
		buf_put_str(b, in->facts[i].name);
		buf_put_str(b, in->facts[i].value);
	}
	buf_put_str(b, in->subject);
	buf_put_str(b, in->table);
	buf_put_u64(b, in->memory);
	buf_put_u32(b, in->ninputs);
	buf_put_u32(b, in->streams);
	buf_put_str(b, in->data_addr);
	put_details(b, &in->details);
}

static int malformed(struct err *err, const char *what)
{
	return err_set(err, ERR_INTEGRITY, "a malformed %s message", what);
}

/* The address of a data listener: "" or HOST:PORT, as an intent says. */
static bool is_data_addr(const char *text)
{
	char host[ADDR_TEXT];
	int port;
	return !text[0] || (addr_split(text, host, sizeof host, &port, NULL) == 0 && port >= 0);
}

int intent_decode(struct intent *in, struct view v, struct err *err)
{
	memset(in, 0, sizeof *in);
	in->nfacts = view_u8(&v);
	if (in->nfacts > FACTS_MAX) {
		in->nfacts = 0;
		return malformed(err, "INTENT");
	}
	for (int i = 0; i < in->nfacts; i++) {
		view_str(&v, in->facts[i].name, FACT_NAME);
		view_str(&v, in->facts[i].value, FACT_VALUE);
	}
	view_str(&v, in->subject, sizeof in->subject);
	view_str(&v, in->table, sizeof in->table);
	in->memory = view_u64(&v);
	in->ninputs = view_u32(&v);
	in->streams = view_u32(&v);
	view_str(&v, in->data_addr, sizeof in->data_addr);
	in->details = view_details(&v);
	bool sane = in->ninputs <= PROTO_MAX_INPUTS && in->streams <= PROTO_MAX_STREAMS &&
	            is_data_addr(in->data_addr);
	return v.failed || view_left(&v) || !sane ? malformed(err, "INTENT") : 0;
}

void presence_set(char *field, size_t cap, const char *text)
{
	size_t n = 0;
	for (; text[n] && n + 1 < cap; n++)
		field[n] = (unsigned char)text[n] < 0x20 || text[n] == 0x7f ? '?' : text[n];
	field[n] = '\0';
}

void presence_encode(const struct presence *p, struct buf *b)
{
	buf_put_str(b, p->host);
	buf_put_str(b, p->addr);
	buf_put(b, p->host_id, sizeof p->host_id);
	buf_put_str(b, p->input);
	buf_put_str(b, p->output);
	buf_put_u8(b, p->has_input);
	buf_put_u8(b, p->finds_root);
	buf_put_str(b, p->root);
	buf_put_u32(b, p->age);
}

int presence_decode(struct presence *p, struct view v, struct err *err)
{
	memset(p, 0, sizeof *p);
	if (host_name_get(&v, p->host, err) < 0)
		return -1;
	view_str(&v, p->addr, sizeof p->addr);
	const uint8_t *host_id = view_bytes(&v, sizeof p->host_id);
	if (host_id)
		memcpy(p->host_id, host_id, sizeof p->host_id);
	view_str(&v, p->input, sizeof p->input);
	view_str(&v, p->output, sizeof p->output);
	p->has_input = view_u8(&v);
	p->finds_root = view_u8(&v);
	if (host_name_get(&v, p->root, err) < 0)
		return -1;
	p->age = view_u32(&v);
	return v.failed || view_left(&v) ? malformed(err, "PRESENT") : 0;
}

int presence_compare(const struct presence *a, const struct presence *b)
{
	int d = strcmp(a->host, b->host);
	d = d ? d : strcmp(a->addr, b->addr);
	d = d ? d : strcmp(a->input, b->input);
	return d ? d : strcmp(a->output, b->output);
}

void welcome_encode(const struct welcome *w, struct buf *b)
{
	buf_put_u32(b, (uint32_t)w->rank);
	buf_put_u32(b, (uint32_t)w->coordinator);
	buf_put_u32(b, (uint32_t)w->root);
	buf_put_str(b, w->host);
}

int welcome_decode(struct welcome *w, struct view v, struct err *err)
{
	memset(w, 0, sizeof *w);
	w->rank = (int)view_u32(&v);
	w->coordinator = (int)view_u32(&v);
	w->root = (int)view_u32(&v);
	bool sane = w->rank >= 0 && w->rank < JOB_MAX_SIZE && w->coordinator >= -1 &&
	            w->coordinator < JOB_MAX_SIZE && w->root >= -1 && w->root < JOB_MAX_SIZE;
	if (!sane)
		return malformed(err, "WELCOME");
	if (host_name_get(&v, w->host, err) < 0)
		return -1;
	return v.failed || view_left(&v) ? malformed(err, "WELCOME") : 0;
}

char *joined_missing(const struct joined *j, char *buf, size_t cap)
{
	unsigned missing = j->size - j->here;
	snprintf(buf, cap,
	         "%u of %u ranks have joined before the end of --join-timeout: %s; %u %s missing",
	         j->here, j->size, j->names, missing, missing == 1 ? "is" : "are");
	return buf;
}

void joined_encode(const struct joined *j, struct buf *b)
{
	buf_put_u32(b, j->here);
	buf_put_u32(b, j->size);
	buf_put_u8(b, j->by_host);
	buf_put_str(b, j->names);
}

int joined_decode(struct joined *j, struct view v, struct err *err)
{
	memset(j, 0, sizeof *j);
	j->here = view_u32(&v);
	j->size = view_u32(&v);
	j->by_host = view_u8(&v);
	view_str(&v, j->names, sizeof j->names);
	bool sane = j->here <= j->size && j->size <= JOB_MAX_SIZE;
	return v.failed || view_left(&v) || !sane ? malformed(err, "JOINED") : 0;
}

void table_put(struct buf *page, const char *name, const char *value)
{
	buf_put_str(page, name);
	buf_put_str(page, value);
}

void workload_encode(const struct workload *w, struct buf *b)
{
	buf_put_u32(b, (uint32_t)w->rank);
	buf_put_u8(b, w->on);
	buf_put_u64(b, w->most);
	buf_put_u64(b, w->busy);
	buf_put_u64(b, w->total);
}

int workload_decode(struct workload *w, struct view *v, int size, struct err *err)
{
	w->rank = (int)view_u32(v);
	w->on = view_u8(v);
	w->most = view_u64(v);
	w->busy = view_u64(v);
	w->total = view_u64(v);
	return v->failed || w->rank < -1 || w->rank >= size ? malformed(err, "VOTE or VERDICT") : 0;
}

void vote_encode(const struct vote *vote, struct buf *b)
{
	buf_put_u8(b, vote->has_digest);
	buf_put(b, vote->digest, VOTE_DIGEST);
	buf_put_u8(b, vote->has_table);
	workload_encode(&vote->work, b);
}

int vote_decode(struct vote *vote, struct view v, struct err *err)
{
	vote->has_digest = view_u8(&v);
	const uint8_t *digest = view_bytes(&v, VOTE_DIGEST);
	vote->has_table = view_u8(&v);
	if (workload_decode(&vote->work, &v, JOB_MAX_SIZE, err) < 0)
		return -1;
	if (!digest || v.failed || view_left(&v))
		return malformed(err, "VOTE");
	memcpy(vote->digest, digest, VOTE_DIGEST);
	return 0;
}

void beat_encode(const struct beat *beat, struct buf *b)
{
	buf_put_u8(b, (uint8_t)beat->phase);
	buf_put_u64(b, beat->moved);
	buf_put_u64(b, beat->total);
	buf_put_u64(b, beat->acknowledged);
}

int beat_decode(struct beat *beat, struct view v, struct err *err)
{
	beat->phase = (enum phase)view_u8(&v);
	beat->moved = view_u64(&v);
	beat->total = view_u64(&v);
	beat->acknowledged = view_u64(&v);
	bool sane = beat->phase <= PHASE_COMMIT;
	return v.failed || view_left(&v) || !sane ? malformed(err, "BEAT") : 0;
}

void pace_encode(const struct pace *p, struct buf *b)
{
	buf_put_u32(b, (uint32_t)p->rank);
	buf_put_u8(b, (uint8_t)p->phase);
	buf_put_u32(b, (uint32_t)(p->done * DONE_UNITS));
	buf_put_u64(b, p->moved);
}

int pace_decode(struct pace *p, struct view v, struct err *err)
{
	p->rank = (int)view_u32(&v);
	p->phase = (enum phase)view_u8(&v);
	uint32_t done = view_u32(&v);
	p->done = (double)done / DONE_UNITS;
	p->moved = view_u64(&v);
	bool sane = p->rank >= -1 && p->rank < JOB_MAX_SIZE && p->phase <= PHASE_COMMIT &&
	            done <= DONE_UNITS;
	return v.failed || view_left(&v) || !sane ? malformed(err, "BEAT") : 0;
}

void plan_encode(const struct plan *p, struct buf *b)
{
	buf_put_str(b, p->algorithm);
	buf_put_u8(b, p->dtype);
	buf_put_u32(b, p->windows);
	buf_put_u32(b, p->streams);
	buf_put_u64(b, p->total_inputs);
	buf_put_u64(b, p->memory);
	buf_put_u8(b, p->trace);
	buf_put_u32(b, p->host_cpus);
	buf_put(b, p->session, sizeof p->session);
	put_details(b, &p->details);
}

int plan_decode(struct plan *p, struct view *v, struct err *err)
{
	memset(p, 0, sizeof *p);
	view_str(v, p->algorithm, sizeof p->algorithm);
	p->dtype = view_u8(v);
	p->windows = view_u32(v);
	p->streams = view_u32(v);
	p->total_inputs = view_u64(v);
	p->memory = view_u64(v);
	p->trace = view_u8(v);
	p->host_cpus = view_u32(v);
	const uint8_t *session = view_bytes(v, sizeof p->session);
	p->details = view_details(v);
	if (v->failed || !session || !p->windows || !p->streams || p->streams > PROTO_MAX_STREAMS)
		return malformed(err, "ROSTER");
	memcpy(p->session, session, sizeof p->session);
	return 0;
}

void roster_encode(const struct roster *r, struct buf *b)
{
	buf_put_u32(b, r->size);
	host_groups_put(b, r->host, (int)r->size);
}

int roster_decode(struct roster *r, struct view *v, struct err *err)
{
	*r = (struct roster){.size = view_u32(v)};
	if (v->failed || !r->size || r->size > JOB_MAX_SIZE)
		return malformed(err, "ROSTER");
	r->hosts = host_groups_get(v, (int)r->size, &r->host, err);
	return r->hosts < 0 ? -1 : 0;
}

void roster_release(struct roster *r)
{
	free(r->host);
	*r = (struct roster){0};
}

void rank_place_put(struct buf *b, uint32_t rank, const char *addr, const char *host,
                    const uint8_t key[TLS_KEY_BYTES])
{
	buf_put_u32(b, rank);
	buf_put_str(b, addr);
	buf_put_str(b, host);
	buf_put(b, key, TLS_KEY_BYTES);
}

int rank_place_get(struct rank_place *p, struct view *v, uint32_t size, struct err *err)
{
	p->rank = view_u32(v);
	view_str(v, p->addr, sizeof p->addr);
	if (host_name_get(v, p->host, err) < 0)
		return -1;
	const uint8_t *key = view_bytes(v, sizeof p->key);
	if (v->failed || !key || p->rank >= size || !is_data_addr(p->addr))
		return malformed(err, "PLACES");
	memcpy(p->key, key, sizeof p->key);
	return 0;
}

void err_encode(const struct err *e, enum phase phase, struct buf *b)
{
	buf_put_u16(b, (uint16_t)e->code);
	buf_put_u32(b, (uint32_t)e->rank);
	buf_put_u8(b, (uint8_t)phase);
	buf_put_str(b, e->text);
	buf_put_str(b, e->host);
	buf_put_u16(b, (uint16_t)e->subject);
}

/* A text that was escaped has become longer. */
static bool is_subject(const char *text, unsigned n)
{
	return n < strlen(text) && (text[n] == ':' || text[n] == ' ');
}

int err_decode(struct err *e, enum phase *phase, struct view *v)
{
	memset(e, 0, sizeof *e);
	e->code = view_u16(v);
	e->rank = (int)view_u32(v);
	*phase = (enum phase)view_u8(v);
	view_str(v, e->text, sizeof e->text);
	if (view_left(v)) /* other versions send no host, and no subject */
		view_str(v, e->host, sizeof e->host);
	if (!host_name_or_address(e->host)) /* the failure counts, whatever it says of its host */
		e->host[0] = '\0';
	const unsigned subject = view_left(v) ? view_u16(v) : 0;
	e->subject = is_subject(e->text, subject) ? (int)subject : err_option(e->text);
	bool sane = e->code <= UINT8_MAX && e->rank >= ERR_RANK_SELF && e->rank < JOB_MAX_SIZE &&
	            *phase <= PHASE_COMMIT;
	return v->failed || !sane ? -1 : 0;
}
