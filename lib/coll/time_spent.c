#include "lib/coll/time_spent.h"

#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/json.h"

static const struct {
	const char *stage, *name;
} resources[TIME_RESOURCES] = {
        [SPENT_READ] = {"run", "read"},
        [SPENT_WRITE] = {"run", "write"},
        [SPENT_DEVICE] = {"run", "device"},
        [SPENT_RECV] = {"run", "receive"},
        [SPENT_SEND] = {"run", "send"},
        [SPENT_NETWORK] = {"run", "network"},
        [SPENT_CIPHER] = {"run", "cipher"},
        [SPENT_ARITHMETIC] = {"run", "arithmetic"},
        [SPENT_OTHER] = {"run", "other"},
        [TIME_PROCESSOR] = {"run", "processor"},
        [TIME_JOIN_RANKS] = {"join", "ranks"},
        [TIME_CONNECT_FILES] = {"connect", "files"},
        [TIME_CONNECT_LINKS] = {"connect", "links"},
        [TIME_COMMIT_DISK] = {"commit", "write"},
        [TIME_COMMIT_RANKS] = {"commit", "ranks"},
        [TIME_COMMIT_NAMES] = {"commit", "rename"},
};

static double run_seconds(const struct coll_result *r, int64_t ns)
{
	return (double)ns / r->spent.threads / NS_PER_SEC;
}

void time_spent(const struct coll_result *r, double out[TIME_RESOURCES])
{
	const struct coll_times *t = &r->times;

	for (int k = 0; k < SPENT_KINDS; k++)
		out[k] = run_seconds(r, r->spent.ns[k]);
	out[TIME_PROCESSOR] = run_seconds(r, r->spent.contended);
	out[TIME_JOIN_RANKS] = coll_seconds(t->start, t->join);
	out[TIME_CONNECT_FILES] = coll_seconds(t->join, t->prepare);
	out[TIME_CONNECT_LINKS] = coll_seconds(t->prepare ? t->prepare : t->join, t->connect);
	out[TIME_COMMIT_DISK] = coll_seconds(t->run, t->seal);
	out[TIME_COMMIT_RANKS] = coll_seconds(t->seal, t->verdict);
	out[TIME_COMMIT_NAMES] = coll_seconds(t->verdict, t->commit);
}

double time_sum(const double *times)
{
	double total = 0;

	for (int k = 0; k < TIME_RESOURCES; k++)
		total += k == TIME_PROCESSOR ? 0 : times[k];
	return total;
}

static int longest(const double *times)
{
	int most = 0;

	for (int k = 1; k < TIME_RESOURCES; k++)
		if (times[k] > times[most])
			most = k;
	return most;
}

int time_limit(const struct coll_result *r, const double *times)
{
	const double late = 0.2; /* seconds */
	double others[TIME_RESOURCES];

	memcpy(others, times, sizeof others);
	if (r->size == 1 || times[TIME_JOIN_RANKS] < late)
		others[TIME_JOIN_RANKS] = 0;
	return longest(others);
}

bool time_is_others(int k)
{
	return k == SPENT_RECV || k == SPENT_SEND;
}

int time_slowest_peer(const struct coll_result *r)
{
	int most = -1;

	for (int p = 0; p < r->size; p++)
		if (r->spent.peers[p] > (most < 0 ? 0 : r->spent.peers[most]))
			most = p;
	return most;
}

double time_share(uint64_t part, uint64_t whole)
{
	return part < whole ? (double)part / (double)whole : whole ? 1 : 0;
}

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

	if (w->rank < 0 || w->on > TIME_PROCESSOR)
		return json_null();
	return json_pack("{s:i, s:s, s:o}", "rank", w->rank, "resource", resources[w->on].name,
	                 "share", json_measured(time_share(w->most, w->total)));
}

json_t *time_json(const struct coll_result *r)
{
	double times[TIME_RESOURCES];
	json_t *list = json_array();

	time_spent(r, times);
	for (int k = 0; k < TIME_RESOURCES; k++)
		json_array_append_new(
		        list, json_pack("{s:s, s:s, s:o}", "stage", resources[k].stage, "resource",
		                        resources[k].name, "seconds", json_measured(times[k])));
	const int most = time_limit(r, times),
	          peer = time_is_others(most) ? time_slowest_peer(r) : -1;
	return json_pack(
	        "{s:o, s:o, s:o, s:o, s:i, s:{s:s, s:s, s:o, s:o}, s:o}", "spent", list, "peers",
	        peers_json(r), "reading", json_measured(run_seconds(r, r->spent.reading)),
	        "writing", json_measured(run_seconds(r, r->spent.writing)), "threads",
	        r->spent.threads, "limit", "stage", resources[most].stage, "resource",
	        resources[most].name, "share", json_measured(times[most] / time_sum(times)), "rank",
	        peer >= 0 ? json_integer(peer) : json_null(), "busiest", busiest_json(r));
}
