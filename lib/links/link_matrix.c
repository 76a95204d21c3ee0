#include "lib/links/link_matrix.h"

#include <math.h>
#include <stdlib.h>

#include "lib/base/clock.h"
#include "lib/base/sort.h"

#define RATE_MAX 1e15 /* bytes per second: more is no figure of a link */

int link_matrix_init(struct link_matrix *m, int size, struct err *err)
{
	size_t n = (size_t)size * (size_t)size;
	*m = (struct link_matrix){.size = size,
	                          .all = size,
	                          .cells = err_calloc(n, sizeof *m->cells, "the links", err)};
	return m->cells ? 0 : -1;
}

void link_matrix_release(struct link_matrix *m)
{
	free(m->cells);
	free(m->ranks);
	free(m->home);
	free(m->reaches);
	free(m->low_rate.links);
	free(m->high_latency.links);
	links_release(&m->faults);
	*m = (struct link_matrix){0};
}

/* ---- reports ---- */

void link_report_begin(struct buf *b, struct view failures)
{
	buf_put_u32(b, (uint32_t)view_left(&failures));
	buf_put(b, failures.p, view_left(&failures));
}

void link_report_add(struct buf *b, const struct link_figures *f)
{
	buf_put_u32(b, (uint32_t)f->to);
	buf_put_u64(b, (uint64_t)(f->connect * NS_PER_SEC));
	buf_put_u64(b, (uint64_t)(f->handshake * NS_PER_SEC));
	buf_put_u64(b, (uint64_t)(f->least * NS_PER_SEC));
	buf_put_u64(b, (uint64_t)(f->median * NS_PER_SEC));
	buf_put_u64(b, (uint64_t)(f->rate < RATE_MAX ? f->rate : RATE_MAX));
}

/* The cell of a link between numbers in the job. NULL: one of them takes no part, or it is none. */
static struct link_cell *cell_of(struct link_matrix *m, int from, int to)
{
	const int f = ranks_find(m->came, m->size, from), t = ranks_find(m->came, m->size, to);
	return f >= 0 && f < m->size && t >= 0 && t < m->size && f != t ? link_cell(m, f, t) : NULL;
}

static double take_figure(struct view *v, double most)
{
	double x = (double)view_u64(v);
	return x < most ? x : most;
}

static double take_time(struct view *v)
{
	return take_figure(v, 1e18) / NS_PER_SEC;
}

/* Every failure is in the cells; the reasons of some may find no room. */
static int take_failures(struct link_matrix *m, int rank, struct view v, struct err *err)
{
	while (view_left(&v)) {
		struct link_fault l;
		if (link_decode(&l, rank, m->all, &v, err) < 0)
			return -1;
		struct link_cell *c = cell_of(m, l.from, l.to);
		if (!c)
			return err_set(err, ERR_INTEGRITY, "a malformed report of links");
		if (links_add(&m->faults, rank, l.from, l.to, l.state, l.why, err) < 0)
			return -1;
		if (link_replaces(c->state, c->by_sender, l.state, l.by_sender)) {
			c->state = l.state;
			c->by_sender = l.by_sender;
		}
	}
	return 0;
}

static int take_figures(struct link_matrix *m, int rank, struct view v, struct err *err)
{
	while (view_left(&v)) {
		const uint32_t to = view_u32(&v);
		const double connect = take_time(&v);
		const double handshake = take_time(&v);
		const double least = take_time(&v);
		const double median = take_time(&v);
		const double rate = take_figure(&v, RATE_MAX);
		struct link_cell *c =
		        v.failed || to >= (uint32_t)m->all ? NULL : cell_of(m, rank, (int)to);
		if (!c)
			return err_set(err, ERR_INTEGRITY, "a malformed report of links");
		if (connect > 0) {
			c->connect = connect;
			c->handshake = handshake;
		}
		if (median > 0) {
			c->least = least;
			c->median = median;
		}
		if (rate > 0)
			c->rate = rate;
	}
	return 0;
}

int link_matrix_take(struct link_matrix *m, int rank, struct view v, struct err *err)
{
	const size_t n = view_u32(&v);
	const uint8_t *failures = view_bytes(&v, n);
	if (!failures)
		return err_set(err, ERR_INTEGRITY, "a malformed report of links");
	return take_failures(m, rank, view_of(failures, n), err) < 0
	               ? -1
	               : take_figures(m, rank, v, err);
}

const struct link_fault *link_matrix_fault(const struct link_matrix *m, int from, int to)
{
	return links_find(&m->faults, link_rank(m, from), link_rank(m, to));
}

/* ---- the result ---- */

enum figure { ROUND_TRIP, RATE, CONNECT, HANDSHAKE };

static double figure_of(const struct link_cell *c, enum figure f)
{
	return f == RATE        ? c->rate
	       : f == CONNECT   ? c->connect
	       : f == HANDSHAKE ? c->handshake
	                        : c->median;
}

/* How many times slower than the median of all links; 0: not measured. */
static double slowness(const struct link_matrix *m, const struct link_cell *c, enum figure f)
{
	if (figure_of(c, f) <= 0)
		return 0;
	return f == RATE ? m->rate / c->rate : c->median / m->median;
}

/* The median of @n of the cells from @first on, each @step after the last; @x has room for them. */
static double median_of(const struct link_cell *first, size_t n, size_t step, enum figure f,
                        double *x)
{
	size_t have = 0;
	for (size_t i = 0; i < n; i++)
		if (figure_of(&first[i * step], f) > 0)
			x[have++] = figure_of(&first[i * step], f);
	sort_doubles(x, have);
	return have ? x[have / 2] : 0;
}

/* The same of the links from, or with @to to, @rank, if most of them are slow; else 0. */
static double slow_median(const struct link_matrix *m, int rank, enum figure f, bool to, double *x)
{
	const size_t size = (size_t)m->size;
	const struct link_cell *first = to ? &m->cells[rank] : link_cell(m, rank, 0);
	const size_t step = to ? size : 1;
	int slow = 0, all = 0;
	for (size_t i = 0; i < size; i++) {
		const double s = slowness(m, &first[i * step], f);
		all += s > 0;
		slow += s > LINK_FACTOR;
	}
	return slow >= 2 && 2 * slow > all ? median_of(first, size, step, f, x) : 0;
}

/* Does a link from the one host to the other work? Both by their lowest ranks. */
static bool *reach(const struct link_matrix *m, int from, int to)
{
	return &m->reaches[(size_t)from * (size_t)m->size + (size_t)to];
}

static void join_hosts(struct link_matrix *m, const int *home)
{
	for (int r = 0; r < m->size; r++)
		m->home[r] = home ? home[r] : r;
	for (int r = 0; r < m->size; r++)
		for (int s = 0; s < m->size; s++)
			if (r != s && link_carries(link_cell(m, r, s)))
				*reach(m, m->home[r], m->home[s]) = true;
}

/* The slowness of a link; 0 if a finding about one of its ranks covers it. */
static double own_slowness(const struct link_matrix *m, int from, int to, enum figure f)
{
	const struct link_rank *sender = &m->ranks[from], *receiver = &m->ranks[to];
	if (f == RATE ? sender->sends > 0 || receiver->receives > 0
	              : sender->round_trip > 0 || receiver->round_trip > 0)
		return 0;
	return slowness(m, link_cell(m, from, to), f);
}

/* The slowest first; equal ones in the order of their ranks. */
static int by_slowness(const void *a, const void *b)
{
	const struct slow_link *k = a, *l = b;
	if (k->slowness > l->slowness || k->slowness < l->slowness)
		return k->slowness > l->slowness ? -1 : 1;
	return k->from != l->from ? k->from - l->from : k->to - l->to;
}

static int list_slow(const struct link_matrix *m, enum figure figure, struct slow_links *slow,
                     struct err *err)
{
	size_t n = 0;
	for (int from = 0; from < m->size; from++)
		for (int to = 0; to < m->size; to++)
			n += own_slowness(m, from, to, figure) > LINK_FACTOR;
	*slow = (struct slow_links){.links = calloc(n ? n : 1, sizeof *slow->links)};
	if (!slow->links)
		return err_nomem(err, "the slow links", n * sizeof *slow->links);
	for (int from = 0; from < m->size; from++)
		for (int to = 0; to < m->size; to++) {
			const double s = own_slowness(m, from, to, figure);
			if (s > LINK_FACTOR)
				slow->links[slow->n++] = (struct slow_link){s, from, to};
		}
	qsort(slow->links, slow->n, sizeof *slow->links, by_slowness);
	return 0;
}

int link_matrix_end(struct link_matrix *m, const int *home, struct err *err)
{
	const size_t size = (size_t)m->size, cells = size * size;
	double *x = err_realloc(NULL, cells, sizeof *x, "the links", err);
	m->ranks = err_calloc(size, sizeof *m->ranks, "the links", err);
	m->home = err_calloc(size, sizeof *m->home, "the links", err);
	m->reaches = err_calloc(cells, sizeof *m->reaches, "the links", err);
	if (!x || !m->ranks || !m->home || !m->reaches) {
		free(x);
		return -1;
	}
	join_hosts(m, home);
	m->connect = median_of(m->cells, cells, 1, CONNECT, x);
	m->handshake = median_of(m->cells, cells, 1, HANDSHAKE, x);
	m->median = median_of(m->cells, cells, 1, ROUND_TRIP, x);
	m->rate = median_of(m->cells, cells, 1, RATE, x);
	for (int r = 0; r < m->size; r++)
		m->ranks[r] =
		        (struct link_rank){.sends = slow_median(m, r, RATE, false, x),
		                           .receives = slow_median(m, r, RATE, true, x),
		                           .round_trip = slow_median(m, r, ROUND_TRIP, false, x)};
	free(x);
	return list_slow(m, RATE, &m->low_rate, err) < 0 ||
	                       list_slow(m, ROUND_TRIP, &m->high_latency, err) < 0
	               ? -1
	               : 0;
}

struct findings {
	const struct link_matrix *m;
	/* Hosts are compared first: each is represented by its lowest rank, and one link that works
	 * is enough. Then ranks, of which only the failures count that no host explains. */
	bool hosts;
	struct link_finding *list;
	size_t cap, n;
};

static void find(struct findings *f, enum link_finding_kind kind, int from, int to)
{
	if (f->n < f->cap)
		f->list[f->n] = (struct link_finding){kind, from, to, f->hosts};
	f->n++;
}

/* With hosts: does it represent one? */
static bool counts(const struct findings *f, int rank)
{
	return !f->hosts || f->m->home[rank] == rank;
}

static bool host_reaches(const struct link_matrix *m, int from, int to)
{
	return from == to || *reach(m, from, to);
}

static bool works(const struct findings *f, int from, int to)
{
	return f->hosts ? host_reaches(f->m, from, to) : link_carries(link_cell(f->m, from, to));
}

/* Is the failure of from -> to one of their hosts? */
static bool fails_by_host(const struct findings *f, int from, int to)
{
	return !f->hosts && !host_reaches(f->m, f->m->home[from], f->m->home[to]);
}

/* Do two others or more not reach @rank (@to), or it them, and does no link of that direction work?
 */
static bool alone(const struct findings *f, int rank, bool to)
{
	int fails = 0;
	for (int r = 0; r < f->m->size; r++) {
		const int from = to ? r : rank, target = to ? rank : r;
		if (r == rank || !counts(f, r))
			continue;
		if (works(f, from, target))
			return false;
		fails += !fails_by_host(f, from, target);
	}
	return fails >= 2;
}

/* The same, but one link may work: that with *@only; -1: none does. Ranks that are alone do not
 * count. */
static bool cut_off(const struct findings *f, int rank, bool to, int *only)
{
	int working = 0, fails = 0;
	*only = -1;
	if (alone(f, rank, to))
		return true;
	for (int r = 0; r < f->m->size; r++) {
		const int from = to ? r : rank, target = to ? rank : r;
		if (r == rank || !counts(f, r))
			continue;
		if (works(f, from, target)) {
			*only = r;
			working++;
		} else if (!fails_by_host(f, from, target)) {
			fails += !alone(f, r, !to);
		}
	}
	return working == 1 && fails >= 2;
}

/* Does a finding about their hosts or one of its ranks cover the failure of from -> to? */
static bool explained(const struct findings *f, int from, int to)
{
	int only;
	return fails_by_host(f, from, to) || cut_off(f, to, true, &only) ||
	       cut_off(f, from, false, &only);
}

static void find_ranks(struct findings *f)
{
	for (int r = 0; r < f->m->size; r++) {
		int source, target;
		if (!counts(f, r))
			continue;
		bool to = cut_off(f, r, true, &source), from = cut_off(f, r, false, &target);
		if (to && from && source == target) {
			find(f, LINKS_OF, r, target);
			continue;
		}
		if (to)
			find(f, LINKS_TO, r, source);
		if (from)
			find(f, LINKS_FROM, r, target);
	}
}

static void find_pair(struct findings *f, int from, int to)
{
	if (works(f, from, to) || explained(f, from, to))
		return;
	if (works(f, to, from))
		find(f, LINK_ONE_WAY, from, to);
	else if (from < to || explained(f, to, from))
		find(f, LINK_BOTH_WAYS, from, to);
}

static void find_pairs(struct findings *f)
{
	for (int r = 0; r < f->m->size; r++)
		for (int s = 0; s < f->m->size; s++)
			if (r != s && counts(f, r) && counts(f, s))
				find_pair(f, r, s);
}

static void find_slow_ranks(const struct link_matrix *m, struct findings *f)
{
	for (int r = 0; r < m->size; r++) {
		if (m->ranks[r].sends > 0)
			find(f, RANK_SENDS_SLOWLY, r, -1);
		if (m->ranks[r].receives > 0)
			find(f, RANK_RECEIVES_SLOWLY, r, -1);
		if (m->ranks[r].round_trip > 0)
			find(f, RANK_FAR, r, -1);
	}
}

static void find_slow(struct findings *f, enum link_finding_kind kind,
                      const struct slow_links *slow)
{
	for (size_t i = 0; i < slow->n; i++)
		find(f, kind, slow->links[i].from, slow->links[i].to);
}

size_t link_matrix_findings(const struct link_matrix *m, struct link_finding *list, size_t cap)
{
	struct findings f = {.m = m, .list = list, .cap = cap};
	for (int hosts = 1; hosts >= 0; hosts--) {
		f.hosts = hosts;
		find_ranks(&f);
	}
	for (int hosts = 1; hosts >= 0; hosts--) {
		f.hosts = hosts;
		find_pairs(&f);
	}
	find_slow_ranks(m, &f);
	find_slow(&f, LINK_LOW_RATE, &m->low_rate);
	find_slow(&f, LINK_HIGH_LATENCY, &m->high_latency);
	return f.n;
}
