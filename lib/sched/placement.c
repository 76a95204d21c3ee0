/*
 * Which ranks share a host. See placement.h.
 */
#include <stdlib.h>

#include "lib/sched/placement.h"

int hosts_count(const struct coll_args *a)
{
	int n = 0;

	for (int r = 0; a->host && r < a->size; r++)
		n = a->host[r] < n ? n : a->host[r] + 1;
	return n;
}

int hosts_or_ranks(const int *host, int size)
{
	return host ? hosts_count(&(struct coll_args){.size = size, .host = host}) : size;
}

bool hosts_shared(const struct coll_args *a)
{
	const int n = hosts_count(a);

	return n > 1 && n < a->size;
}

struct hosts_sizes hosts_sizes(const struct coll_args *a)
{
	struct hosts_sizes s = {0};
	int *ranks;

	if (!hosts_shared(a))
		return s;
	s.n = hosts_count(a);
	ranks = calloc((size_t)s.n, sizeof(*ranks));
	if (!ranks)
		return (struct hosts_sizes){.n = s.n, .least = 1, .most = a->size - s.n + 1};
	for (int r = 0; r < a->size; r++)
		ranks[a->host[r]]++;
	s.least = a->size;
	s.together = true;
	for (int r = 1; r < a->size; r++)
		s.together &= a->host[r] >= a->host[r - 1];
	for (int h = 0; h < s.n; h++) {
		s.least = ranks[h] < s.least ? ranks[h] : s.least;
		s.most = ranks[h] > s.most ? ranks[h] : s.most;
	}
	free(ranks);
	return s;
}
