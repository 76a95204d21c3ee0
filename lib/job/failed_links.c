#include "lib/job/failed_links.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/fields.h"
#include "lib/net/addr.h"

#define TAIL       24 /* bytes of ", and 4294967295 more" */
#define PLACE_TEXT 200

/* The index of the link from @from to @to, or where to insert it. */
static size_t place_of(const struct link_faults *f, int from, int to)
{
	size_t lo = 0, hi = f->n;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		const struct link_fault *l = &f->list[mid];
		if (l->from < from || (l->from == from && l->to < to))
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

const char *link_state_words(enum link_state state)
{
	static const char *const words[] = {
	        [LINK_WORKS] = "works",       [LINK_REFUSED] = "refused",
	        [LINK_NO_ROUTE] = "no route", [LINK_TIMED_OUT] = "timed out",
	        [LINK_WRONG] = "wrong bytes", [LINK_LARGE_LOST] = "large packets lost",
	        [LINK_BROKEN] = "broken",     [LINK_SLOW] = "too slow",
	        [LINK_TLS] = "TLS",
	};
	return words[state];
}

enum link_state link_state_of(const struct err *e)
{
	switch (e->system) {
	case ECONNREFUSED:
		return LINK_REFUSED;
	case EHOSTUNREACH:
	case ENETUNREACH:
	case EACCES: /* a firewall that rejects with "prohibited" */
	case EPERM:
		return LINK_NO_ROUTE;
	case ETIMEDOUT:
		return LINK_TIMED_OUT;
	default:
		return e->code == ERR_INTEGRITY ? LINK_WRONG : LINK_BROKEN;
	}
}

enum link_state link_state_of_handshake(const struct err *e, char why[LINK_WHY])
{
	/* Of another key the text goes on with advice about secrets. Those are right, because all
	 * ranks have joined. */
	const size_t len = e->code == ERR_AUTH ? strcspn(e->text, ":") : strlen(e->text);
	if (e->code != ERR_AUTH && e->code != ERR_INTEGRITY) {
		snprintf(why, LINK_WHY, "%.*s", LINK_WHY - 1, e->text);
		return link_state_of(e);
	}
	snprintf(why, LINK_WHY, "%s%.*s",
	         strstr(e->text, "TLS") ? "" : "TLS: ", (int)(len < 100 ? len : 100), e->text);
	return LINK_TLS;
}

static struct link_fault *find(const struct link_faults *f, int from, int to)
{
	size_t i = place_of(f, from, to);
	bool found = i < f->n && f->list[i].from == from && f->list[i].to == to;
	return found ? &f->list[i] : NULL;
}

const struct link_fault *links_find(const struct link_faults *f, int from, int to)
{
	return find(f, from, to);
}

bool link_replaces(enum link_state known, bool known_by_sender, enum link_state state,
                   bool by_sender)
{
	if (known == LINK_WORKS || state == LINK_SLOW)
		return known == LINK_WORKS;
	return known == LINK_SLOW || (by_sender && !known_by_sender);
}

int links_add(struct link_faults *f, int reporter, int from, int to, enum link_state state,
              const char *why, struct err *err)
{
	struct link_fault *l = find(f, from, to);
	bool by_sender = reporter == from;
	if (!f->list &&
	    !(f->list = err_calloc(LINKS_MAX, sizeof *f->list, "links that failed", err)))
		return -1;
	if (l && !link_replaces(l->state, l->by_sender, state, by_sender))
		return 0;
	if (!l && f->n == LINKS_MAX) {
		f->more++;
		return 0;
	}
	if (!l) {
		l = &f->list[place_of(f, from, to)];
		memmove(l + 1, l, (size_t)(f->list + f->n - l) * sizeof *l);
		f->n++;
	}
	*l = (struct link_fault){.from = from, .to = to, .state = state, .by_sender = by_sender};
	snprintf(l->why, sizeof l->why, "%s", why);
	return 0;
}

void links_release(struct link_faults *f)
{
	free(f->list);
	*f = (struct link_faults){0};
}

/* Did both directions fail with the same cause? */
static bool both_ways(const struct link_faults *f, const struct link_fault *l)
{
	const struct link_fault *back = find(f, l->to, l->from);
	return back && strcmp(back->why, l->why) == 0;
}

/* Has a link before @l in the list the same cause? Then @l has been written with it. */
static bool cause_written(const struct link_faults *f, const struct link_fault *l)
{
	for (const struct link_fault *k = f->list; k < l; k++)
		if (strcmp(k->why, l->why) == 0)
			return true;
	return false;
}

struct writer {
	char *text;
	size_t cap, len, written;
	const struct link_faults *faults;
	const char *(*host)(void *ctx, int rank, char *buf, size_t cap);
	void *ctx;
	bool full;
};

/* Write one link, with both directions if they failed with the same cause; first @why, if this is
 * the first link with that cause. */
static void write_link(struct writer *w, const struct link_fault *l, bool first)
{
	bool both = both_ways(w->faults, l);
	char piece[2 * PLACE_TEXT + LINK_WHY + 64], a[PLACE_TEXT], b[PLACE_TEXT];
	if (both && l->to < l->from) /* already written with the other direction */
		return;
	int n = snprintf(piece, sizeof piece, "%s%s%srank %d (%s) %s rank %d (%s)",
	                 !w->written ? ""
	                 : first     ? "; "
	                             : ", ",
	                 first ? l->why : "", first ? ": " : "", l->from,
	                 w->host(w->ctx, l->from, a, sizeof a), both ? "<->" : "->", l->to,
	                 w->host(w->ctx, l->to, b, sizeof b));
	if (w->full || w->len + (size_t)n + TAIL >= w->cap) {
		w->full = true;
		return;
	}
	memcpy(w->text + w->len, piece, (size_t)n + 1);
	w->len += (size_t)n;
	w->written += both ? 2 : 1;
}

void links_text(const struct link_faults *f,
                const char *(*host)(void *ctx, int rank, char *buf, size_t cap), void *ctx,
                char *text, size_t cap)
{
	size_t all = f->n + f->more;
	struct writer w = {text, cap, 0, 0, f, host, ctx, false};
	w.len = (size_t)snprintf(text, cap, "%zu link%s failed: ", all, all == 1 ? "" : "s");
	for (size_t i = 0; i < f->n; i++) {
		const struct link_fault *l = &f->list[i];
		if (cause_written(f, l))
			continue;
		bool first = true;
		for (size_t k = i; k < f->n; k++) {
			if (strcmp(f->list[k].why, l->why) != 0)
				continue;
			write_link(&w, &f->list[k], first);
			first = false;
		}
	}
	if (w.written < all)
		snprintf(text + w.len, cap - w.len, ", and %zu more", all - w.written);
}

/* clang-format off */
MESSAGE(link_fault, "LINKS",
	FIELD(RANK, link_fault, from),
	FIELD(RANK, link_fault, to),
	FIELD(U8, link_fault, state, .least = LINK_WORKS + 1, .most = LINK_STATES - 1),
	FIELD(TEXT, link_fault, why));
/* clang-format on */

void link_encode(int from, int to, enum link_state state, const char *why, struct buf *b)
{
	struct link_fault l = {.from = from, .to = to, .state = state};
	snprintf(l.why, sizeof l.why, "%s", why);
	message_put(&link_fault_message, &l, b);
}

int link_decode(struct link_fault *l, int reporter, int size, struct view *v, struct err *err)
{
	if (message_get(&link_fault_message, l, v, err) < 0)
		return -1;
	l->by_sender = l->from == reporter;
	const bool of_reporter = l->from < size && l->to < size && l->from != l->to &&
	                         (l->by_sender || l->to == reporter);
	return of_reporter ? 0 : malformed(err, "LINKS", "from, to");
}

int links_decode(struct link_faults *f, int reporter, int size, struct view v, struct err *err)
{
	while (view_left(&v)) {
		struct link_fault l;
		if (link_decode(&l, reporter, size, &v, err) < 0 ||
		    links_add(f, reporter, l.from, l.to, l.state, l.why, err) < 0)
			return -1;
	}
	return 0;
}
