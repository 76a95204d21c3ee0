#include "lib/job/ranks.h"

#include <stdio.h>
#include <stdlib.h>

void rank_list_init(struct rank_list *l, char *buf, size_t cap)
{
	*l = (struct rank_list){.buf = buf, .cap = cap, .first = -1};
	buf[0] = '\0';
}

static void flush(struct rank_list *l)
{
	char text[40];
	if (l->first < 0)
		return;
	if (l->last > l->first + 1)
		snprintf(text, sizeof text, "%d-%d", l->first, l->last);
	else if (l->last > l->first)
		snprintf(text, sizeof text, "%d, %d", l->first, l->last);
	else
		snprintf(text, sizeof text, "%d", l->first);
	l->first = -1;
	if (l->len + 32 > l->cap) { /* keep room for the ellipsis */
		if (l->len && l->buf[l->len - 1] != '.')
			l->len += (size_t)snprintf(l->buf + l->len, l->cap - l->len, ", ...");
		return;
	}
	l->len += (size_t)snprintf(l->buf + l->len, l->cap - l->len, "%s%s", l->len ? ", " : "",
	                           text);
}

void rank_list_add(struct rank_list *l, int rank)
{
	if (l->first >= 0 && rank == l->last + 1) {
		l->last = rank;
		return;
	}
	flush(l);
	l->first = l->last = rank;
}

char *rank_list_end(struct rank_list *l)
{
	flush(l);
	return l->buf;
}

static int by_number(const void *a, const void *b)
{
	const int x = *(const int *)a, y = *(const int *)b;
	return (x > y) - (x < y);
}

int ranks_find(const int *ranks, int n, int rank)
{
	if (!ranks)
		return rank;
	const int *at = bsearch(&rank, ranks, (size_t)n, sizeof rank, by_number);
	return at ? (int)(at - ranks) : -1;
}

char *ranks_missing(const int *ranks, int n, int size, char *buf, size_t cap)
{
	struct rank_list list;
	int k = 0;
	rank_list_init(&list, buf, cap);
	for (int r = 0; ranks && r < size; r++)
		if (k < n && ranks[k] == r)
			k++;
		else
			rank_list_add(&list, r);
	return rank_list_end(&list);
}
