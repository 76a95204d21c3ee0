/*
 * The largest set of hosts that all reach each other: a maximum clique. Pure functions; any thread.
 */
#ifndef COLLCTL_LINKS_CLIQUE_H
#define COLLCTL_LINKS_CLIQUE_H

#include <stdbool.h>

#include "lib/base/err.h"

#define CLIQUE_EXACT 64 /* up to so many hosts the set is the largest */

/* Find a set of the @n nodes in which each has a link with each, itself included, linked[i * n + j]
 * and linked[j * n + i], and write it to @in[n]. Returns its size, or -1: ERR_RESOURCE. Up to
 * CLIQUE_EXACT nodes there is no larger one (branch and bound with the bound of a greedy
 * colouring). Above, the sets that a greedy search from each of the CLIQUE_EXACT nodes with most
 * links finds are compared, each in time n^2.
 *
 * Source: Tomita, Seki, An efficient branch-and-bound algorithm for finding a maximum clique, DMTCS
 * 2003. */
int clique_find(const bool *linked, int n, bool *in, struct err *err);

#endif
