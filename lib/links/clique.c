/* Maximum cliques. See clique.h. */
#include "lib/links/clique.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- exact ---- */

struct search {
	uint64_t peers[CLIQUE_EXACT]; /* of each node, as bits */
	uint64_t best;
	int best_size;
};

static int lowest(uint64_t set)
{
	return __builtin_ctzll(set);
}

static int size_of(uint64_t set)
{
	return __builtin_popcountll(set);
}

/* Colour the nodes of @set so that nodes of one colour have no links: a clique has at most one of
 * each colour. Lists the nodes by colour, and the number of colours up to each. */
static int colour(const struct search *s, uint64_t set, int *node, int *colours)
{
	int n = 0;

	for (int used = 1; set; used++)
		for (uint64_t free = set; free;) {
			const int v = lowest(free);

			free &= ~s->peers[v] & ~(UINT64_C(1) << v);
			set &= ~(UINT64_C(1) << v);
			node[n] = v;
			colours[n++] = used;
		}
	return n;
}

/* Extend the clique @set of @size by nodes of @more, which all have links with it. At most
 * CLIQUE_EXACT calls deep. */
static void extend(struct search *s, uint64_t set, int size, uint64_t more)
{
	int node[CLIQUE_EXACT], colours[CLIQUE_EXACT];
	int n = colour(s, more, node, colours);

	if (size > s->best_size) {
		s->best = set;
		s->best_size = size;
	}
	while (n-- > 0 && size + colours[n] > s->best_size) {
		const uint64_t bit = UINT64_C(1) << node[n];

		extend(s, set | bit, size + 1, more & s->peers[node[n]]);
		more &= ~bit;
	}
}

static bool linked_both_ways(const bool *linked, int n, int i, int j)
{
	return linked[(size_t)i * (size_t)n + (size_t)j] &&
	       linked[(size_t)j * (size_t)n + (size_t)i];
}

static int find_exactly(const bool *linked, int n, bool *in)
{
	struct search s = {0};
	uint64_t all = 0;

	for (int i = 0; i < n; i++)
		for (int j = 0; j < n; j++)
			if (i != j && linked_both_ways(linked, n, i, j))
				s.peers[i] |= UINT64_C(1) << j;
	for (int i = 0; i < n; i++)
		all |= linked_both_ways(linked, n, i, i) ? UINT64_C(1) << i : 0;
	extend(&s, 0, 0, all);
	for (int i = 0; i < n; i++)
		in[i] = s.best >> i & 1;
	return size_of(s.best);
}

/* ---- quickly ---- */

/* A clique of node order[first], and then of each in the order that has links with all that are in
 * it. */
static int grow(const bool *linked, int n, int first, const int *order, bool *in)
{
	int size = 0;

	memset(in, 0, (size_t)n * sizeof *in);
	for (int i = -1; i < n; i++) {
		const int k = i < 0 ? first : i;
		bool fits = !in[order[k]] && linked_both_ways(linked, n, order[k], order[k]);

		for (int j = 0; j < n && fits; j++)
			fits = !in[j] || linked_both_ways(linked, n, order[k], j);
		in[order[k]] |= fits;
		size += fits;
	}
	return size;
}

struct degree {
	int links, node;
};

static int by_links(const void *pa, const void *pb)
{
	const struct degree *a = pa, *b = pb;

	return a->links != b->links ? b->links - a->links : a->node - b->node;
}

static int find_quickly(const bool *linked, int n, bool *in, struct err *err)
{
	struct degree *degree = err_calloc((size_t)n, sizeof *degree, "the hosts", err);
	int *order = err_calloc((size_t)n, sizeof *order, "the hosts", err);
	bool *found = err_calloc((size_t)n, sizeof *found, "the hosts", err);
	int best = degree && order && found ? 0 : -1;

	for (int i = 0; best == 0 && i < n; i++) {
		degree[i].node = i;
		for (int j = 0; j < n; j++)
			degree[i].links += linked_both_ways(linked, n, i, j);
	}
	if (best == 0)
		qsort(degree, (size_t)n, sizeof *degree, by_links);
	for (int i = 0; best == 0 && i < n; i++)
		order[i] = degree[i].node;
	for (int k = 0; best >= 0 && k < CLIQUE_EXACT; k++) {
		const int size = grow(linked, n, k, order, found);

		if (size <= best)
			continue;
		best = size;
		memcpy(in, found, (size_t)n * sizeof *in);
	}
	free(degree);
	free(order);
	free(found);
	return best;
}

int clique_find(const bool *linked, int n, bool *in, struct err *err)
{
	return n <= CLIQUE_EXACT ? find_exactly(linked, n, in) : find_quickly(linked, n, in, err);
}
