#include "lib/job/ranks.h"

#include <stdio.h>

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
