/* A list of ranks as text: "0, 2-5, 9". Ranks must be added in ascending order. "..." replaces the
 * ranks that do not fit into the caller's buffer. */
#ifndef COLLCTL_JOB_RANKS_H
#define COLLCTL_JOB_RANKS_H

#include <stddef.h>

struct rank_list {
	char *buf;
	size_t cap, len;
	int first, last; /* the last range, which is not yet written; first -1: none */
};

void rank_list_init(struct rank_list *, char *buf, size_t cap);
void rank_list_add(struct rank_list *, int rank);
char *rank_list_end(struct rank_list *); /* returns buf */

/* Find @rank in @ranks[n], which is ascending. Returns its index; -1: it is not among them. @ranks
 * NULL: all ranks; returns @rank. */
int ranks_find(const int *ranks, int n, int rank);
/* The rank with index @i among them. */
static inline int ranks_at(const int *ranks, int i)
{
	return ranks ? ranks[i] : i;
}
/* List the ranks below @size that are not in @ranks[n]. Returns @buf. */
char *ranks_missing(const int *ranks, int n, int size, char *buf, size_t cap);

#endif
