#include "cmd/text/where.h"

#include <stdio.h>
#include <string.h>

#include "cmd/text/report.h"
#include "lib/base/clock.h"
#include "lib/base/units.h"
#include "lib/coll/time_spent.h"

#define SMALL 0.02 /* of the total: the text leaves out smaller times */

static const struct {
	const char *text; /* "encryption 31 ms" */
	const char *advice;
} resources[TIME_RESOURCES] = {
        [SPENT_READ] = {"reading inputs", "put the inputs on a faster disk"},
        [SPENT_WRITE] = {"writing the output", "put the output on a faster disk"},
        [SPENT_DEVICE] = {"waiting for the device", "compare with --device cpu"},
        [SPENT_RECV] = {"waiting for data", NULL},
        [SPENT_SEND] = {"waiting to send", NULL},
        [SPENT_NETWORK] = {"system calls of the network",
                           "more --threads share them, if the host has processors to spare"},
        [SPENT_CIPHER] = {"encryption and checksums",
                          "more --threads share it, if the host has processors to spare; on a "
                          "trusted network --insecure leaves out the encryption"},
        [SPENT_ARITHMETIC] = {"arithmetic and copies",
                              "more --threads share it, if the host has processors to spare"},
        [SPENT_OTHER] = {"other work", NULL},
        [TIME_PROCESSOR] = {"waiting for a processor", "fewer ranks or --threads on its host"},
        [TIME_JOIN_RANKS] = {"joining", "start all ranks at the same time"},
        [TIME_CONNECT_FILES] = {"comparing files and opening outputs", NULL},
        [TIME_CONNECT_LINKS] = {"connecting", "fewer --streams need fewer connections"},
        [TIME_COMMIT_DISK] = {"completing the output", "--no-sync does not wait for the disk"},
        [TIME_COMMIT_RANKS] = {"waiting for the other ranks' outputs",
                               "--no-sync does not wait for the disks"},
        [TIME_COMMIT_NAMES] = {"renaming the output", "--no-sync does not wait for the disk"},
};

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
	const bool given = (k >= TIME_COMMIT_DISK && q->no_sync) ||
	                   (k == SPENT_CIPHER && q->settings.insecure);

	if (k == TIME_PROCESSOR && r->spent.threads == 1 && ranks_on_host_of(r, rank) == 1)
		return "other programs use the processors of its host";
	return given || !resources[k].advice ? "" : resources[k].advice;
}

/* Did a rank work for most of the time, so that others waited for it and not for the network? */
static bool has_busiest(const struct coll_result *r)
{
	const struct workload *w = &r->busiest;
	return w->rank >= 0 && w->on <= TIME_PROCESSOR && !time_is_others(w->on) &&
	       time_share(w->busy, w->total) >= 0.5;
}

static void print_times(const struct coll_result *r, const double *times)
{
	char text[768], duration[UNITS_TEXT];
	size_t at = 0;
	const double total = time_sum(times);

	for (bool shown[TIME_RESOURCES] = {false}; at + 96 < sizeof text;) {
		int next = -1;
		for (int k = 0; k < TIME_RESOURCES; k++)
			if (!shown[k] && k != TIME_PROCESSOR && times[k] >= SMALL * total &&
			    (next < 0 || times[k] > times[next]))
				next = k;
		if (next < 0)
			break;
		shown[next] = true;
		at += (size_t)snprintf(text + at, sizeof text - at, "%s%s %s", at ? ", " : "",
		                       resources[next].text, duration_text(times[next], duration));
	}
	if (times[TIME_PROCESSOR] >= SMALL * total)
		report_note("rank %d: time: %s; of this %s waiting for a processor", r->rank, text,
		            duration_text(times[TIME_PROCESSOR], duration));
	else
		report_note("rank %d: time: %s", r->rank, text);
}

/* Ranks wait for each other: say for which, and why it is slow. */
static void print_wait(const struct coll_result *r, const struct coll_request *q, int waited,
                       double part)
{
	const struct workload *w = &r->busiest;
	const char *advice = has_busiest(r) ? advice_on(w->on, w->rank, r, q) : "";
	const int peer = time_slowest_peer(r);
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
	const bool other = has_busiest(r), busy = !other && times[TIME_PROCESSOR] > took / 3;
	const int rank = other ? r->busiest.rank : r->rank;
	int on = other ? (int)r->busiest.on : busy ? TIME_PROCESSOR : 0;
	char assumed[256], rate[UNITS_TEXT];

	for (int k = 1; !busy && !other && k < SPENT_KINDS; k++)
		on = times[k] > times[on] ? k : on;
	if (on == TIME_PROCESSOR)
		snprintf(buf, cap,
		         "the processors of rank %d were busy with other ranks or programs", rank);
	else if (on <= SPENT_DEVICE)
		snprintf(buf, cap, "rank %d spent most of it %s, which predictions leave out", rank,
		         resources[on].text);
	else if (!time_is_others(on))
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
	double times[TIME_RESOURCES];

	time_spent(r, times);
	print_times(r, times);
	const int most = time_limit(r, times);
	const double part = times[most] / time_sum(times);
	const char *advice = advice_on(most, r->rank, r, q);
	if (time_is_others(most))
		print_wait(r, q, most, part);
	else
		report_note("rank %d: limit: %s, %.0f %% of the time%s%s", r->rank,
		            resources[most].text, 100 * part, *advice ? ": " : "", advice);
	print_missed(r, q, times);
}
