#include "cmd/text/where.h"

#include <stdio.h>
#include <string.h>

#include "cmd/text/report.h"
#include "lib/base/clock.h"
#include "lib/base/json.h"
#include "lib/base/units.h"

#define SMALL 0.02 /* of the total: the text leaves out smaller times */

/* The resources of the stages; those of the run are enum spent. */
enum {
	PROCESSOR = SPENT_KINDS, /* part of the others */
	JOIN_RANKS,
	CONNECT_LINKS,
	COMMIT_DISK,
	COMMIT_RANKS,
	COMMIT_NAMES,
	RESOURCES
};

static const struct {
	const char *stage, *name; /* in JSON */
	const char *text;         /* "encryption 31 ms" */
	const char *advice;
} resources[RESOURCES] = {
        [SPENT_READ] = {"run", "read", "reading inputs", "put the inputs on a faster disk"},
        [SPENT_WRITE] = {"run", "write", "writing the output", "put the output on a faster disk"},
        [SPENT_DEVICE] = {"run", "device", "waiting for the device", "compare with --device cpu"},
        [SPENT_RECV] = {"run", "receive", "waiting for data", NULL},
        [SPENT_SEND] = {"run", "send", "waiting to send", NULL},
        [SPENT_NETWORK] = {"run", "network", "system calls of the network",
                           "more --threads share them, if the host has processors to spare"},
        [SPENT_CIPHER] = {"run", "cipher", "encryption and checksums",
                          "more --threads share it, if the host has processors to spare; on a "
                          "trusted network --insecure leaves out the encryption"},
        [SPENT_ARITHMETIC] = {"run", "arithmetic", "arithmetic and copies",
                              "more --threads share it, if the host has processors to spare"},
        [SPENT_OTHER] = {"run", "other", "other work", NULL},
        [PROCESSOR] = {"run", "processor", "waiting for a processor",
                       "fewer ranks or --threads on its host"},
        [JOIN_RANKS] = {"join", "ranks", "joining", "start all ranks at the same time"},
        [CONNECT_LINKS] = {"connect", "links", "connecting",
                           "fewer --streams need fewer connections"},
        [COMMIT_DISK] = {"commit", "write", "completing the output",
                         "--no-sync does not wait for the disk"},
        [COMMIT_RANKS] = {"commit", "ranks", "waiting for the other ranks' outputs",
                          "--no-sync does not wait for the disks"},
        [COMMIT_NAMES] = {"commit", "rename", "renaming the output",
                          "--no-sync does not wait for the disk"},
};

static double run_seconds(const struct coll_result *r, int64_t ns)
{
	return (double)ns / r->spent.threads / NS_PER_SEC;
}

static void times_of(const struct coll_result *r, double out[RESOURCES])
{
	const struct coll_times *t = &r->times;

	for (int k = 0; k < SPENT_KINDS; k++)
		out[k] = run_seconds(r, r->spent.ns[k]);
	out[PROCESSOR] = run_seconds(r, r->spent.contended);
	out[JOIN_RANKS] = coll_seconds(t->start, t->join);
	out[CONNECT_LINKS] = coll_seconds(t->join, t->connect);
	out[COMMIT_DISK] = coll_seconds(t->run, t->seal);
	out[COMMIT_RANKS] = coll_seconds(t->seal, t->verdict);
	out[COMMIT_NAMES] = coll_seconds(t->verdict, t->commit);
}

static double sum(const double *times)
{
	double total = 0;

	for (int k = 0; k < RESOURCES; k++)
		total += k == PROCESSOR ? 0 : times[k];
	return total;
}

static int longest(const double *times)
{
	int most = 0;

	for (int k = 1; k < RESOURCES; k++)
		if (times[k] > times[most])
			most = k;
	return most;
}

/* What a user could shorten: ranks that start together, or a job of one rank, join in no time that
 * is worth a word. */
static int limit_of(const struct coll_result *r, const double *times)
{
	const double late = 0.2; /* seconds */
	double others[RESOURCES];

	memcpy(others, times, sizeof others);
	if (r->size == 1 || times[JOIN_RANKS] < late)
		others[JOIN_RANKS] = 0;
	return longest(others);
}

static bool waits_for_ranks(int k)
{
	return k == SPENT_RECV || k == SPENT_SEND;
}

/* The rank for which this one waited longest; -1: for none. */
static int slowest_peer(const struct coll_result *r)
{
	int most = -1;

	for (int p = 0; p < r->size; p++)
		if (r->spent.peers[p] > (most < 0 ? 0 : r->spent.peers[most]))
			most = p;
	return most;
}

/* A rank's own numbers, and those that another rank has sent. */
static double share(uint64_t part, uint64_t whole)
{
	return part < whole ? (double)part / (double)whole : whole ? 1 : 0;
}

static int ranks_on_host_of(const struct coll_result *r, int rank)
{
	int n = 0;

	for (int p = 0; p < r->size; p++)
		n += !r->host || r->host[p] == r->host[rank];
	return n;
}

/* What the user could change about resource @k of @rank; "": nothing is known. */
static const char *advice_on(int k, int rank, const struct coll_result *r,
                             const struct coll_request *q)
{
	const bool given =
	        (k >= COMMIT_DISK && q->no_sync) || (k == SPENT_CIPHER && q->settings.insecure);

	if (k == PROCESSOR && r->spent.threads == 1 && ranks_on_host_of(r, rank) == 1)
		return "other programs use the processors of its host";
	return given || !resources[k].advice ? "" : resources[k].advice;
}

/* Did a rank work for most of the time, so that others waited for it and not for the network? */
static bool has_busiest(const struct coll_result *r)
{
	const struct workload *w = &r->busiest;
	return w->rank >= 0 && w->on <= PROCESSOR && !waits_for_ranks(w->on) &&
	       share(w->busy, w->total) >= 0.5;
}

/* ---- JSON ---- */

static json_t *peers_json(const struct coll_result *r)
{
	json_t *list = json_array();

	for (int p = 0; p < r->size; p++)
		if (r->spent.peers[p] > 0)
			json_array_append_new(
			        list, json_pack("{s:i, s:o}", "rank", p, "seconds",
			                        json_measured(run_seconds(r, r->spent.peers[p]))));
	return list;
}

static json_t *busiest_json(const struct coll_result *r)
{
	const struct workload *w = &r->busiest;

	if (w->rank < 0 || w->on > PROCESSOR)
		return json_null();
	return json_pack("{s:i, s:s, s:o}", "rank", w->rank, "resource", resources[w->on].name,
	                 "share", json_measured(share(w->most, w->total)));
}

json_t *where_json(const struct coll_result *r)
{
	double times[RESOURCES];
	json_t *list = json_array();

	times_of(r, times);
	for (int k = 0; k < RESOURCES; k++)
		json_array_append_new(
		        list, json_pack("{s:s, s:s, s:o}", "stage", resources[k].stage, "resource",
		                        resources[k].name, "seconds", json_measured(times[k])));
	const int most = limit_of(r, times), peer = waits_for_ranks(most) ? slowest_peer(r) : -1;
	return json_pack(
	        "{s:o, s:o, s:o, s:o, s:i, s:{s:s, s:s, s:o, s:o}, s:o}", "spent", list, "peers",
	        peers_json(r), "reading", json_measured(run_seconds(r, r->spent.reading)),
	        "writing", json_measured(run_seconds(r, r->spent.writing)), "threads",
	        r->spent.threads, "limit", "stage", resources[most].stage, "resource",
	        resources[most].name, "share", json_measured(times[most] / sum(times)), "rank",
	        peer >= 0 ? json_integer(peer) : json_null(), "busiest", busiest_json(r));
}

/* ---- text ---- */

static void print_times(const struct coll_result *r, const double *times)
{
	char text[768], duration[UNITS_TEXT];
	size_t at = 0;
	const double total = sum(times);

	for (bool shown[RESOURCES] = {false}; at + 96 < sizeof text;) {
		int next = -1;
		for (int k = 0; k < RESOURCES; k++)
			if (!shown[k] && k != PROCESSOR && times[k] >= SMALL * total &&
			    (next < 0 || times[k] > times[next]))
				next = k;
		if (next < 0)
			break;
		shown[next] = true;
		at += (size_t)snprintf(text + at, sizeof text - at, "%s%s %s", at ? ", " : "",
		                       resources[next].text, duration_text(times[next], duration));
	}
	if (times[PROCESSOR] >= SMALL * total)
		report_note("rank %d: time: %s; of this %s waiting for a processor", r->rank, text,
		            duration_text(times[PROCESSOR], duration));
	else
		report_note("rank %d: time: %s", r->rank, text);
}

/* Ranks wait for each other: say for which, and why it is slow. */
static void print_wait(const struct coll_result *r, const struct coll_request *q, int waited,
                       double part)
{
	const struct workload *w = &r->busiest;
	const char *advice = has_busiest(r) ? advice_on(w->on, w->rank, r, q) : "";
	const int peer = slowest_peer(r);
	char head[160], mostly[40] = "";

	if (peer >= 0)
		snprintf(mostly, sizeof mostly, ", mostly for rank %d", peer);
	snprintf(head, sizeof head, "rank %d: limit: %s%s, %.0f %% of the time", r->rank,
	         resources[waited].text, mostly, 100 * part);
	if (has_busiest(r))
		report_note("%s; rank %d worked longest, mostly %s%s%s", head, w->rank,
		            resources[w->on].text, *advice ? ": " : "", advice);
	else
		report_note("%s, and no rank worked most of the time: the network is the limit; "
		            "'collctl check' measures its links",
		            head);
}

/* ---- predictions ---- */

#define MISSED       2    /* -v mentions a prediction that is further off */
#define MISSED_LEAST 0.01 /* s, unless the difference is less: ranks begin some ms apart */

/* What the prediction assumes of the links. */
static char *assumed_text(const struct coll_result *r, const struct coll_request *q, char *buf,
                          size_t cap)
{
	char rate[UNITS_TEXT];

	if (r->link.from)
		snprintf(buf, cap, "%s by %s", bit_rate_text((double)r->link.up, rate),
		         network_from_name(r->link.from));
	else if (q->tuning)
		snprintf(buf, cap, "the rates of %s", q->tuning);
	else
		snprintf(buf, cap, "%s by the built-in rates",
		         bit_rate_text(1 / price_default.egress, rate));
	return buf;
}

/* Why the run took longer than predicted. */
static void late_text(const struct coll_result *r, const struct coll_request *q,
                      const double *times, double took, char *buf, size_t cap)
{
	const struct exec_stats *s = &r->stats;
	const uint64_t moved =
	        s->bytes_sent > s->bytes_received ? s->bytes_sent : s->bytes_received;
	const bool other = has_busiest(r), busy = !other && times[PROCESSOR] > took / 3;
	const int rank = other ? r->busiest.rank : r->rank;
	int on = other ? (int)r->busiest.on : busy ? PROCESSOR : 0;
	char assumed[256], rate[UNITS_TEXT];

	for (int k = 1; !busy && !other && k < SPENT_KINDS; k++)
		on = times[k] > times[on] ? k : on;
	if (on == PROCESSOR)
		snprintf(buf, cap,
		         "the processors of rank %d were busy with other ranks or programs", rank);
	else if (on <= SPENT_DEVICE)
		snprintf(buf, cap, "rank %d spent most of it %s, which predictions leave out", rank,
		         resources[on].text);
	else if (!waits_for_ranks(on))
		snprintf(buf, cap,
		         "rank %d spent most of it with %s: its processor is slower than assumed; "
		         "'collctl bench --tuning-out FILE' measures it",
		         rank, resources[on].text);
	else if (r->hosts > 1)
		snprintf(buf, cap,
		         "the links are slower than assumed: %s of this rank's data, assumed: %s; "
		         "'collctl check --tuning-out FILE' measures them",
		         bit_rate_text((double)moved / took, rate),
		         assumed_text(r, q, assumed, sizeof assumed));
	else
		snprintf(buf, cap, "the ranks waited for each other");
}

/* On the rank that has planned: the prediction, if it has missed, and why. */
static void print_missed(const struct coll_result *r, const struct coll_request *q,
                         const double *times)
{
	const double took = coll_seconds(r->times.connect, r->times.run), p = r->predicted;
	char why[640], run[UNITS_TEXT], predicted[UNITS_TEXT], assumed[256];

	if (p <= 0 || (took < p * MISSED && p < took * MISSED) ||
	    (took < p + MISSED_LEAST && p < took + MISSED_LEAST))
		return;
	if (took > p)
		late_text(r, q, times, took, why, sizeof why);
	else if (request_compares(q))
		snprintf(why, sizeof why, "ranks had some of the data");
	else
		snprintf(why, sizeof why, "the links are faster than assumed: %s",
		         assumed_text(r, q, assumed, sizeof assumed));
	report_note("rank %d: the data moved for %s, but %s was predicted: %s", r->rank,
	            duration_text(took, run), duration_text(p, predicted), why);
}

void where_print(const struct coll_result *r, const struct coll_request *q)
{
	double times[RESOURCES];

	times_of(r, times);
	print_times(r, times);
	const int most = limit_of(r, times);
	const double part = times[most] / sum(times);
	const char *advice = advice_on(most, r->rank, r, q);
	if (waits_for_ranks(most))
		print_wait(r, q, most, part);
	else
		report_note("rank %d: limit: %s, %.0f %% of the time%s%s", r->rank,
		            resources[most].text, 100 * part, *advice ? ": " : "", advice);
	print_missed(r, q, times);
}
