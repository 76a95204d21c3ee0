#include "lib/job/coordinator/compare_facts.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib/job/ranks.h"

/* The values that the ranks give for one fact, or their results. */
struct poll {
	int size;
	const struct intent *const *intents; /* the intents, for the fact @name; or NULL */
	const char *name;
	const struct vote *votes; /* the votes, if there are no intents */
};

/* The value of rank @r; p NULL: it gives none. */
static struct view value_of(const struct poll *p, int r)
{
	if (p->votes)
		return p->votes[r].has_digest ? view_of(p->votes[r].digest, VOTE_DIGEST)
		                              : (struct view){0};
	const struct intent *in = p->intents[r];
	for (int i = 0; in && i < in->nfacts; i++)
		if (strcmp(in->facts[i].name, p->name) == 0)
			return view_of(in->facts[i].value, strlen(in->facts[i].value));
	return (struct view){0};
}

/* Does rank @r have the table whose digest is its value? */
static bool has_table(const struct poll *p, int r)
{
	return p->votes ? p->votes[r].has_table : strcmp(p->intents[r]->table, p->name) == 0;
}

static bool same(struct view a, struct view b)
{
	size_t n = view_left(&a);
	return a.p && b.p && n == view_left(&b) && memcmp(a.p, b.p, n) == 0;
}

/* The value of most ranks; on a tie that of the lowest rank. */
static struct view common(const struct poll *p)
{
	struct view best = {0};
	int best_count = 0;
	for (int r = 0; r < p->size && 2 * best_count <= p->size; r++) {
		struct view v = value_of(p, r);
		int count = 0;
		if (!v.p || same(v, best))
			continue;
		for (int q = 0; q < p->size; q++)
			count += same(v, value_of(p, q));
		if (count > best_count) {
			best = v;
			best_count = count;
		}
	}
	return best;
}

/* "rank 3" or "ranks 0, 2-5" */
static void name_ranks(char *out, size_t cap, struct rank_list *list, int n)
{
	if (n)
		snprintf(out, cap, "rank%s %s", n > 1 ? "s" : "", rank_list_end(list));
}

/* Divide the ranks into the majority and the others. Returns the first of the others, which is
 * blamed, or -1 if there are none. */
static int divide(const struct poll *p, struct view most, struct disagreement *d)
{
	char with[128], against[128];
	struct rank_list agreeing, dissenting;
	int nagree = 0, nothers = 0, first = -1;
	*d = (struct disagreement){.with = -1};
	rank_list_init(&agreeing, with, sizeof with);
	rank_list_init(&dissenting, against, sizeof against);
	for (int r = 0; r < p->size; r++) {
		struct view v = value_of(p, r);
		if (!v.p)
			continue;
		if (same(v, most)) {
			rank_list_add(&agreeing, r);
			nagree++;
			if (d->with < 0 && has_table(p, r))
				d->with = r;
		} else if (first < 0) {
			first = r;
		} else {
			rank_list_add(&dissenting, r);
			nothers++;
		}
	}
	if (first >= 0 && !has_table(p, first))
		d->with = -1;
	name_ranks(d->most, sizeof d->most, &agreeing, nagree);
	name_ranks(d->others, sizeof d->others, &dissenting, nothers);
	d->single = nagree == 1;
	d->single_other = nothers == 1;
	return first;
}

__attribute__((format(printf, 2, 3))) static void append(struct err *e, const char *fmt, ...)
{
	size_t len = strlen(e->text);
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(e->text + len, sizeof e->text - len, fmt, ap);
	va_end(ap);
}

static void append_others(struct err *e, const struct disagreement *d)
{
	if (d->others[0])
		append(e, "; so do%s %s", d->single_other ? "es" : "", d->others);
}

static bool agree_on(const struct poll *p, struct disagreement *d)
{
	struct view most = common(p);
	int first = divide(p, most, d);
	if (first < 0)
		return true;
	struct view v = value_of(p, first);
	const char *subject = p->intents[first]->subject;
	d->err = (struct err){.code = ERR_DISAGREE, .rank = first};
	snprintf(d->head, sizeof d->head, "%.120s%s", subject, subject[0] ? ": " : "");
	d->err.subject = subject[0] ? (int)strlen(d->head) - 2 : 0;
	append(&d->err, "%s%s %.100s differs from %.100s on %s", d->head, p->name,
	       (const char *)v.p, (const char *)most.p, d->most);
	append_others(&d->err, d);
	return false;
}

static bool said_before(const struct intent *const *intents, int rank, const char *name)
{
	const struct poll p = {.intents = intents, .name = name};
	for (int r = 0; r < rank; r++)
		if (value_of(&p, r).p)
			return true;
	return false;
}

bool agree_on_facts(const struct intent *const *intents, int size, struct disagreement *d)
{
	for (int r = 0; r < size; r++)
		for (int i = 0; intents[r] && i < intents[r]->nfacts; i++) {
			const struct poll p = {size, intents, intents[r]->facts[i].name, NULL};
			if (!said_before(intents, r, p.name) && !agree_on(&p, d))
				return false;
		}
	return true;
}

bool agree_on_results(const struct vote *votes, int size, struct disagreement *d)
{
	const struct poll p = {.size = size, .votes = votes};
	int first = divide(&p, common(&p), d);
	if (first < 0)
		return true;
	d->of_results = true;
	d->err = (struct err){.code = ERR_INTEGRITY, .rank = first};
	snprintf(d->head, sizeof d->head, "its result differs from that of %s: ", d->most);
	append(&d->err, "%sthe digests are not the same", d->head);
	append_others(&d->err, d);
	return false;
}

void disagreement_name(const struct disagreement *d, const char *noun,
                       const struct table_difference *entry, struct err *err)
{
	*err = (struct err){.code = d->err.code, .rank = d->err.rank, .subject = d->err.subject};
	/* For results, the head of the message has already named the ranks of the majority. */
	const char *on = d->of_results ? "" : " on ", *whose = d->of_results ? "" : d->most;
	append(err, "%s", d->head);
	if (entry->kind == TABLE_DIFFERS) {
		append(err, "%s '%s' %s differs from %s%s%s", noun, entry->name, entry->value,
		       entry->other, on, whose);
		append_others(err, d);
		return;
	}
	if (entry->kind == TABLE_EXTRA)
		append(err, "has a %s '%s' that %s do%sn't have", noun, entry->name, d->most,
		       d->single ? "es" : "");
	else
		append(err, "%s '%s' is missing; %s ha%s it", noun, entry->name, d->most,
		       d->single ? "s" : "ve");
	if (d->others[0]) /* the others may lack different entries */
		append(err, "; %s differ%s too", d->others, d->single_other ? "s" : "");
}
