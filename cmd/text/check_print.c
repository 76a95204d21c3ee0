#include "cmd/text/check_print.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/text/report.h"
#include "cmd/text/terminal.h"
#include "lib/base/clock.h"
#include "lib/base/json.h"
#include "lib/base/text.h"
#include "lib/base/units.h"
#include "lib/job/ranks.h"

#define TABLE_RANKS  16 /* the most that a table of numbers has room for */
#define FINDINGS_MAX 64
#define LINES        10 /* findings of a kind that are printed */
#define SENTENCE     512

/* ---- words ---- */

static const char *host_of(const struct check_view *v, int rank)
{
	return v->host(v->ctx, link_rank(v->links, rank));
}

static const char *rank_text(const struct check_view *v, int rank, char *buf, size_t cap)
{
	char host[200];
	const char *name = host_of(v, rank);
	snprintf(buf, cap, "rank %d%s%s%s", link_rank(v->links, rank), *name ? " (" : "",
	         *name ? text_escape(host, sizeof host, name) : "", *name ? ")" : "");
	return buf;
}

/* Does the finding's @rank, the lowest of its host, stand for others there? */
static bool is_host(const struct check_view *v, const struct link_finding *f, int rank)
{
	for (int r = rank + 1; f->hosts && r < v->links->size; r++)
		if (v->links->home[r] == rank)
			return true;
	return false;
}

/* "host nodea (ranks 2-4)" or "rank 5 (nodeb)" */
static const char *node_text(const struct check_view *v, const struct link_finding *f, int rank,
                             char *buf, size_t cap)
{
	char host[100], ranks[48];
	struct rank_list list;
	if (!is_host(v, f, rank))
		return rank_text(v, rank, buf, cap);
	rank_list_init(&list, ranks, sizeof ranks);
	for (int r = rank; r < v->links->size; r++)
		if (v->links->home[r] == rank)
			rank_list_add(&list, link_rank(v->links, r));
	snprintf(buf, cap, "host %s (ranks %s)", text_escape(host, sizeof host, host_of(v, rank)),
	         rank_list_end(&list));
	return buf;
}

/* Why the link fails. */
static const char *why(const struct check_view *v, int from, int to)
{
	const struct link_fault *f = link_matrix_fault(v->links, from, to);
	return f ? f->why : link_state_words(link_cell(v->links, from, to)->state);
}

static void write_sentence(const struct check_view *v, const struct link_finding *f, char *text)
{
	char from[160], to[160] = "", x[32], median[32];
	const struct link_cell *c = f->to >= 0 ? link_cell(v->links, f->from, f->to) : NULL;
	const struct link_rank *k = &v->links->ranks[f->from];
	node_text(v, f, f->from, from, sizeof from);
	if (f->to >= 0)
		node_text(v, f, f->to, to, sizeof to);
	const bool host = is_host(v, f, f->from);
	const char *others = host ? "host" : "rank";
	switch (f->kind) {
	case LINKS_OF:
		snprintf(text, SENTENCE, "%s: all its links%s fail%s%s", from,
		         host ? " with other hosts" : "", *to ? ", except those with " : "", to);
		break;
	case LINKS_TO:
		snprintf(text, SENTENCE, "%s: %s%s reaches it", from, *to ? "only " : "no other ",
		         *to ? to : others);
		break;
	case LINKS_FROM:
		snprintf(text, SENTENCE, "%s: reaches %s%s", from, *to ? "only " : "no other ",
		         *to ? to : others);
		break;
	case LINK_BOTH_WAYS:
		snprintf(text, SENTENCE, "%s <-> %s: fails both ways: %s", from, to,
		         why(v, f->from, f->to));
		break;
	case LINK_ONE_WAY:
		snprintf(text, SENTENCE,
		         "%s -> %s: fails, the reverse direction works: "
		         "%s",
		         from, to, why(v, f->from, f->to));
		break;
	case RANK_SENDS_SLOWLY:
		snprintf(text, SENTENCE, "%s: sends at %s, median of all links %s", from,
		         bit_rate_text(k->sends, x), bit_rate_text(v->links->rate, median));
		break;
	case RANK_RECEIVES_SLOWLY:
		snprintf(text, SENTENCE, "%s: receives at %s, median of all links %s", from,
		         bit_rate_text(k->receives, x), bit_rate_text(v->links->rate, median));
		break;
	case RANK_FAR:
		snprintf(text, SENTENCE, "%s: round trips of %s, median of all links %s", from,
		         latency_text(k->round_trip, x), latency_text(v->links->median, median));
		break;
	case LINK_LOW_RATE:
		snprintf(text, SENTENCE, "%s -> %s: %s, median of all links %s", from, to,
		         bit_rate_text(c->rate, x), bit_rate_text(v->links->rate, median));
		break;
	case LINK_HIGH_LATENCY:
		snprintf(text, SENTENCE, "%s -> %s: round trip %s, median of all links %s", from,
		         to, latency_text(c->median, x), latency_text(v->links->median, median));
		break;
	}
}

/* "rank 1 (nodea) -> rank 3 (noded): timed out". Returns @text. The reasons come from other ranks:
 * they may have any bytes. */
static char *sentence(const struct check_view *v, const struct link_finding *f, char text[SENTENCE])
{
	char raw[SENTENCE];

	write_sentence(v, f, raw);
	return text_escape(text, SENTENCE, raw);
}

/* ---- text ---- */

static void print_findings(const struct check_view *v)
{
	struct link_finding list[FINDINGS_MAX];
	char text[SENTENCE];
	size_t n = link_matrix_findings(v->links, list, FINDINGS_MAX);
	int of_kind = 0;
	for (size_t i = 0; i < n && i < FINDINGS_MAX; i++) {
		of_kind = i && list[i].kind == list[i - 1].kind ? of_kind + 1 : 0;
		if (of_kind < LINES)
			printf("%s\n", sentence(v, &list[i], text));
		else if (of_kind == LINES)
			printf("... and more such links\n");
	}
	if (n)
		putchar('\n');
}

#define NUMBER 6 /* columns of the rank before a row */
#define CELL   9 /* columns of a figure */

static void print_cell(const struct link_cell *c, bool rate)
{
	static const char *const words[LINK_STATES] = {
	        [LINK_REFUSED] = "refused",   [LINK_NO_ROUTE] = "no route",
	        [LINK_TIMED_OUT] = "timeout", [LINK_WRONG] = "wrong",
	        [LINK_LARGE_LOST] = "large",  [LINK_BROKEN] = "broken",
	        [LINK_TLS] = "TLS",
	};
	const bool fails = words[c->state] || c->state == LINK_SLOW;
	const enum terminal_style style = fails ? TERMINAL_BAD : TERMINAL_PLAIN;
	const double x = rate ? 8 * c->rate / 1e6 : c->median * 1e6;
	fputs(terminal_begin(STDOUT_FILENO, style), stdout);
	if (words[c->state])
		printf("%*s", CELL, words[c->state]);
	else if (x <= 0)
		printf("%*s", CELL, "?");
	else
		printf(x < 99.95 ? "%*.1f" : "%*.0f", CELL, x);
	fputs(terminal_end(STDOUT_FILENO, style), stdout);
}

/* How many columns of a matrix fit beside each other, each so wide: all, unless stdout is a
 * terminal that is too narrow. */
static int fitting(int size, int width)
{
	const int room = terminal_width(STDOUT_FILENO), fit = (room - NUMBER) / width;
	return !room || fit >= size ? size : fit > 1 ? fit : 1;
}

/* The columns from @first to before @end. */
static void print_part(const struct check_view *v, bool rate, int first, int end)
{
	printf("%*s", NUMBER, "");
	for (int to = first; to < end; to++)
		printf("%*d", CELL, link_rank(v->links, to));
	putchar('\n');
	for (int from = 0; from < v->links->size; from++) {
		printf("%*d", NUMBER, link_rank(v->links, from));
		for (int to = first; to < end; to++)
			if (to == from)
				printf("%*s", CELL, "-");
			else
				print_cell(link_cell(v->links, from, to), rate);
		putchar('\n');
	}
}

static void print_table(const struct check_view *v, bool rate)
{
	const int size = v->links->size, part = fitting(size, CELL);
	printf("%s; row: from, column: to\n",
	       rate ? "bandwidth in Mbit/s" : "median round trip in us");
	for (int first = 0; first < size; first += part)
		print_part(v, rate, first, first + part < size ? first + part : size);
}

/* A character for a link: how its bandwidth compares with the median. */
static const char *shade(const struct link_matrix *m, const struct link_cell *c)
{
	const double share = m->rate > 0 ? c->rate / m->rate : 0;
	if (!link_carries(c))
		return "x";
	return c->rate <= 0               ? "?"
	       : share >= 0.8             ? "█"
	       : share >= 0.5             ? "▓"
	       : share * LINK_FACTOR >= 1 ? "▒"
	                                  : "░";
}

static void print_shade(const struct link_matrix *m, int from, int to)
{
	const char *text = to == from ? " " : shade(m, link_cell(m, from, to));
	const enum terminal_style style = *text == 'x' ? TERMINAL_BAD : TERMINAL_PLAIN;
	printf("%s%s%s", terminal_begin(STDOUT_FILENO, style), text,
	       terminal_end(STDOUT_FILENO, style));
}

static void print_shades_part(const struct link_matrix *m, int first, int end)
{
	printf("%*s", NUMBER, "");
	for (int to = first; to < end; to++) {
		const int rank = link_rank(m, to);
		putchar(rank % 10 ? ' ' : '0' + rank / 10 % 10);
	}
	putchar('\n');
	for (int from = 0; from < m->size; from++) {
		printf("%*d ", NUMBER - 1, link_rank(m, from));
		for (int to = first; to < end; to++)
			print_shade(m, from, to);
		putchar('\n');
	}
}

static void print_shades(const struct check_view *v)
{
	const int size = v->links->size, fit = fitting(size, 1);
	const int part = fit < size && fit > 10 ? fit / 10 * 10 : fit;
	puts("bandwidth; row: from, column: to; █ 80% of the median or more, ▓ 50%, ▒ a third, "
	     "░ less, x fails");
	for (int first = 0; first < size; first += part)
		print_shades_part(v->links, first, first + part < size ? first + part : size);
}

static void print_hosts(const struct check_view *v)
{
	char host[200];
	const char *last = "";
	for (int r = 0; r < v->links->size; r++) {
		const char *name = host_of(v, r);
		if (*name && strcmp(name, last) != 0)
			printf("%s%d %s", *last ? ", " : "ranks from: ", link_rank(v->links, r),
			       text_escape(host, sizeof host, name));
		if (*name)
			last = name;
	}
	if (*last)
		putchar('\n');
}

/* "left out: noded: ssh: connect to host noded port 22: Connection refused" */
static void print_absent(const struct check_view *v)
{
	int len;
	for (const char *at = v->absent, *line; (line = text_line(&at, &len));)
		printf("left out: %.*s\n", len, line);
}

/* "did not join: ranks 1, 3" */
static void print_missing(const struct link_matrix *m)
{
	char list[256];
	if (m->came)
		printf("did not join: rank%s %s\n", m->all - m->size == 1 ? "" : "s",
		       ranks_missing(m->came, m->size, m->all, list, sizeof list));
}

/* "connect: median 60 us, longest 1.2 ms: rank 1 (nodea) -> rank 3 (noded)" */
static void print_times(const struct check_view *v, bool handshake)
{
	const struct link_matrix *m = v->links;
	const double median = handshake ? m->handshake : m->connect;
	char text[32], most[32], from[160], to[160];
	double longest = 0;
	int worst = 0;
	for (int i = 0; i < m->size * m->size; i++) {
		const double x = handshake ? m->cells[i].handshake : m->cells[i].connect;
		worst = x > longest ? i : worst;
		longest = x > longest ? x : longest;
	}
	if (median > 0)
		printf("%s: median %s, longest %s: %s -> %s\n",
		       handshake ? "TLS handshake" : "connect", latency_text(median, text),
		       latency_text(longest, most),
		       rank_text(v, worst / m->size, from, sizeof from),
		       rank_text(v, worst % m->size, to, sizeof to));
}

void check_print_text(const struct check_view *v)
{
	const struct link_matrix *m = v->links;
	char rate[32], latency[32], of[32] = "";
	if (m->came)
		snprintf(of, sizeof of, "%d of ", m->size);
	printf("# %s%d rank%s, %s, each link measured for %.3g s\n", of, m->all,
	       m->all == 1 ? "" : "s", v->insecure ? "plain TCP" : "TLS",
	       (double)v->time / NS_PER_SEC);
	print_hosts(v);
	print_absent(v);
	print_missing(m);
	if (m->rate > 0 && m->median > 0)
		printf("median of all links: %s, round trip %s\n", bit_rate_text(m->rate, rate),
		       latency_text(m->median, latency));
	print_times(v, false);
	print_times(v, true);
	putchar('\n');
	print_findings(v);
	if (m->size > TABLE_RANKS) {
		print_shades(v);
	} else if (m->size > 1) {
		print_table(v, true);
		putchar('\n');
		print_table(v, false);
	}
	fflush(stdout);
}

/* ---- JSON ---- */

static json_t *measured_or_null(double x)
{
	return x > 0 ? json_measured(x) : json_null();
}

static json_t *link_json(const struct check_view *v, int from, int to)
{
	const struct link_cell *c = link_cell(v->links, from, to);
	return json_pack("{s:i, s:i, s:s, s:o, s:o, s:o, s:{s:o, s:o}, s:o}", "from",
	                 link_rank(v->links, from), "to", link_rank(v->links, to), "state",
	                 link_state_words(c->state), "why",
	                 c->state == LINK_WORKS ? json_null() : json_path(why(v, from, to)),
	                 "connect", measured_or_null(c->connect), "handshake",
	                 measured_or_null(c->handshake), "round_trip", "min",
	                 measured_or_null(c->least), "median", measured_or_null(c->median),
	                 "bandwidth", measured_or_null(c->rate));
}

static json_t *findings_json(const struct check_view *v)
{
	struct link_finding list[FINDINGS_MAX];
	char text[SENTENCE];
	json_t *all = json_array();
	size_t n = link_matrix_findings(v->links, list, FINDINGS_MAX);
	for (size_t i = 0; i < n && i < FINDINGS_MAX; i++)
		json_array_append_new(all, json_string(sentence(v, &list[i], text)));
	return all;
}

static json_t *absent_json(const struct check_view *v)
{
	json_t *all = json_array();
	int len;
	for (const char *at = v->absent, *line; (line = text_line(&at, &len));)
		json_array_append_new(all, json_stringn(line, (size_t)len));
	return all;
}

json_t *check_json(const struct check_view *v)
{
	const struct link_matrix *m = v->links;
	json_t *links = json_array();
	for (int from = 0; from < m->size; from++)
		for (int to = 0; to < m->size; to++)
			if (from != to)
				json_array_append_new(links, link_json(v, from, to));
	return json_pack("{s:{s:o, s:o, s:o, s:o}, s:o, s:o, s:o}", "median", "connect",
	                 measured_or_null(m->connect), "handshake", measured_or_null(m->handshake),
	                 "round_trip", measured_or_null(m->median), "bandwidth",
	                 measured_or_null(m->rate), "links", links, "findings", findings_json(v),
	                 "absent", absent_json(v));
}
