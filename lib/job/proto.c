#include "lib/job/proto.h"

#include "lib/base/hex.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "lib/base/fields.h"

#define MAGIC "CCTLCTL1"

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
	        [MSG_MOVED] = "MOVED",         [MSG_BACK] = "BACK",       [MSG_STOPPED] = "STOPPED",
	        [MSG_AGAIN] = "AGAIN",         [MSG_ANEW] = "ANEW",
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

#define INQUIRY_MAGIC "CCTLVRD1"

void inquiry_encode(const struct inquiry *q, uint8_t o[GATE_OPENING])
{
	memset(o, 0, GATE_OPENING);
	memcpy(o, INQUIRY_MAGIC, 8);
	memcpy(o + 8, q->session, sizeof q->session);
	put_u32(o + 24, q->rank);
	o[28] = q->has_verdict;
}

int inquiry_decode(struct inquiry *q, const uint8_t o[GATE_OPENING])
{
	uint8_t whole[GATE_OPENING];
	memcpy(q->session, o + 8, sizeof q->session);
	q->rank = get_u32(o + 24);
	q->has_verdict = o[28];
	inquiry_encode(q, whole);
	return memcmp(whole, o, GATE_OPENING) == 0 ? 0 : -1;
}

int inquiry_identity(const struct inquiry *q, char *text, size_t cap)
{
	char session[2 * MESH_SESSION_BYTES + 1];
	return snprintf(text, cap, "V1|%s|%u", hex_text(q->session, sizeof q->session, session),
	                q->rank);
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

void presence_set(char *field, size_t cap, const char *text)
{
	size_t n = 0;
	for (; text[n] && n + 1 < cap; n++)
		field[n] = (unsigned char)text[n] < 0x20 || text[n] == 0x7f ? '?' : text[n];
	field[n] = '\0';
}

int presence_compare(const struct presence *a, const struct presence *b)
{
	int d = strcmp(a->host, b->host);
	d = d ? d : strcmp(a->addr, b->addr);
	d = d ? d : strcmp(a->input, b->input);
	return d ? d : strcmp(a->output, b->output);
}

char *joined_missing(const struct joined *j, char *buf, size_t cap)
{
	unsigned missing = j->size - j->here;
	snprintf(buf, cap,
	         "%u of %u ranks have joined before the end of --join-timeout: %s; %u %s missing",
	         j->here, j->size, j->names, missing, missing == 1 ? "is" : "are");
	return buf;
}

void table_put(struct buf *page, const char *name, const char *value)
{
	buf_put_str(page, name);
	buf_put_str(page, value);
}

/* ---- tables ---- */

/* The table of a struct, and its encoder. */
#define ENCODER(thing, name, ...)                                 \
	MESSAGE(thing, name, __VA_ARGS__);                        \
	void thing##_encode(const struct thing *t, struct buf *b) \
	{                                                         \
		message_put(&thing##_message, t, b);              \
	}
/* The same with the decoder, of a whole message and of a part, after which others follow. */
#define WHOLE(thing, ...)                                                   \
	ENCODER(thing, __VA_ARGS__)                                         \
	int thing##_decode(struct thing *t, struct view v, struct err *err) \
	{                                                                   \
		return message_get_all(&thing##_message, t, v, err);        \
	}
#define PART(thing, ...)                                                     \
	ENCODER(thing, __VA_ARGS__)                                          \
	int thing##_decode(struct thing *t, struct view *v, struct err *err) \
	{                                                                    \
		return message_get(&thing##_message, t, v, err);             \
	}

/* The address of a data listener: "" or HOST:PORT, as an intent says. */
static bool is_data_addr(const void *text)
{
	char host[ADDR_TEXT];
	int port;
	return !*(const char *)text ||
	       (addr_split(text, host, sizeof host, &port, NULL) == 0 && port >= 0);
}

/* clang-format off */
MESSAGE(fact, "fact",
	FIELD(TEXT, fact, name),
	FIELD(TEXT, fact, value));

WHOLE(intent, "INTENT",
	FIELD(U8, intent, nfacts, .most = FACTS_MAX),
	FIELD(LIST, intent, facts, .part = &fact_message),
	FIELD(TEXT, intent, subject),
	FIELD(TEXT, intent, table),
	FIELD(U64, intent, memory),
	FIELD(U32, intent, ninputs, .most = PROTO_MAX_INPUTS),
	FIELD(U32, intent, streams, .most = PROTO_MAX_STREAMS),
	FIELD(TEXT, intent, data_addr, .fits = is_data_addr),
	FIELD(SPAN, intent, details, .most = DETAILS_MAX))

WHOLE(presence, "PRESENT",
	FIELD(HOST, presence, host),
	FIELD(TEXT, presence, addr),
	FIELD(BYTES, presence, host_id),
	FIELD(TEXT, presence, input),
	FIELD(TEXT, presence, output),
	FIELD(BOOL, presence, has_input),
	FIELD(BOOL, presence, finds_root),
	FIELD(HOST, presence, root),
	FIELD(U32, presence, age))

WHOLE(welcome, "WELCOME",
	FIELD(RANK, welcome, rank),
	FIELD(RANK_OR_NONE, welcome, coordinator),
	FIELD(RANK_OR_NONE, welcome, root),
	FIELD(HOST, welcome, host))

WHOLE(joined, "JOINED",
	FIELD(U32, joined, here, .most = JOB_MAX_SIZE),
	FIELD(U32, joined, size, .most = JOB_MAX_SIZE),
	FIELD(BOOL, joined, by_host),
	FIELD(TEXT, joined, names))

WHOLE(workload, "VERDICT",
	FIELD(RANK_OR_NONE, workload, rank),
	FIELD(U8, workload, on),
	FIELD(U64, workload, most),
	FIELD(U64, workload, busy),
	FIELD(U64, workload, total))

WHOLE(vote, "VOTE",
	FIELD(BOOL, vote, has_digest),
	FIELD(BYTES, vote, digest),
	FIELD(BOOL, vote, has_table),
	FIELD(PART, vote, work, .part = &workload_message))

WHOLE(beat, "BEAT",
	FIELD(U8, beat, phase, .most = PHASE_COMMIT),
	FIELD(U64, beat, moved),
	FIELD(U64, beat, total),
	FIELD(U64, beat, acknowledged))

WHOLE(pace, "BEAT",
	FIELD(RANK_OR_NONE, pace, rank),
	FIELD(U8, pace, phase, .most = PHASE_COMMIT),
	FIELD(U32, pace, done, .most = PACE_DONE),
	FIELD(U64, pace, moved))

PART(plan, "ROSTER",
	FIELD(TEXT, plan, algorithm),
	FIELD(U8, plan, dtype),
	FIELD(U32, plan, windows, .least = 1),
	FIELD(U32, plan, streams, .least = 1, .most = PROTO_MAX_STREAMS),
	FIELD(U64, plan, total_inputs),
	FIELD(U64, plan, memory),
	FIELD(BOOL, plan, trace),
	FIELD(U32, plan, host_cpus),
	FIELD(BYTES, plan, session),
	FIELD(SPAN, plan, details, .most = DETAILS_MAX))

PART(rank_place, "PLACES",
	FIELD(RANK, rank_place, rank),
	FIELD(TEXT, rank_place, addr, .fits = is_data_addr),
	FIELD(HOST, rank_place, host),
	FIELD(BYTES, rank_place, key))

WHOLE(stopped, "STOPPED",
	FIELD(BOOL, stopped, can),
	FIELD(U64, stopped, window))

PART(again, "AGAIN",
	FIELD(BYTES, again, session),
	FIELD(U64, again, window))
/* clang-format on */

/* ---- what is in no table: the machines of the ranks, and errors of other versions ---- */

/* One bit for each rank, the lowest first: it takes part. */
static void put_came(struct buf *b, const struct roster *r)
{
	uint8_t bits = 0;
	buf_put_u8(b, r->came != NULL);
	for (int rank = 0, k = 0; r->came && rank < (int)r->size; rank++) {
		const bool comes = k < r->ncame && r->came[k] == rank;
		k += comes;
		bits |= (uint8_t)(comes << rank % 8);
		if (rank % 8 == 7 || rank == (int)r->size - 1) {
			buf_put_u8(b, bits);
			bits = 0;
		}
	}
}

void roster_encode(const struct roster *r, struct buf *b)
{
	buf_put_u32(b, r->size);
	put_came(b, r);
	if (!r->came) {
		host_groups_put(b, r->host, (int)r->size);
		return;
	}
	int *host = host_groups_of(r->host, r->came, r->ncame, NULL);
	if (host)
		host_groups_put(b, host, r->ncame);
	else
		b->failed = b->nomem = true;
	free(host);
}

static int get_came(struct roster *r, struct view *v, struct err *err)
{
	const unsigned some = view_u8(v);
	const size_t size = r->size, n = (size + 7) / 8;
	const uint8_t *bits = some ? view_bytes(v, n) : NULL;
	r->ncame = (int)size;
	if (v->failed || some > 1 || (some && size % 8 && bits[n - 1] >> size % 8))
		return malformed(err, "ROSTER", "came");
	if (!some)
		return 0;
	if (!(r->came = err_calloc(size, sizeof *r->came, "the ranks of the job", err)))
		return -1;
	r->ncame = 0;
	for (int rank = 0; rank < (int)size; rank++)
		if (bits[rank / 8] >> rank % 8 & 1)
			r->came[r->ncame++] = rank;
	return r->ncame && r->ncame < (int)size ? 0 : malformed(err, "ROSTER", "came");
}

static int get_roster(struct roster *r, struct view *v, struct err *err)
{
	if (v->failed || !r->size || r->size > JOB_MAX_SIZE)
		return malformed(err, "ROSTER", "size");
	if (get_came(r, v, err) < 0)
		return -1;
	r->hosts = host_groups_get(v, r->ncame, &r->host, err);
	if (r->hosts < 0)
		return -1;
	return r->came ? host_groups_spread(&r->host, r->came, r->ncame, (int)r->size, err) : 0;
}

int roster_decode(struct roster *r, struct view *v, struct err *err)
{
	*r = (struct roster){.size = view_u32(v)};
	const int ret = get_roster(r, v, err);
	if (ret < 0)
		roster_release(r);
	return ret;
}

void roster_release(struct roster *r)
{
	free(r->came);
	free(r->host);
	*r = (struct roster){0};
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
