#include "lib/coll/files/host_room.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/coll/collective.h"

#define MOST 16 /* file systems of a rank; outputs seldom are on two */

/* What a rank's outputs need on one file system: an entry of its part of the round. */
struct room_entry {
	uint64_t device, bytes, left;
	uint32_t files;
	char first[256];
};
MESSAGE(room_entry, "ROUND", FIELD(U64, room_entry, device), FIELD(U64, room_entry, bytes),
        FIELD(U64, room_entry, left), FIELD(U32, room_entry, files, .least = 1),
        FIELD(TEXT, room_entry, first));

static int add(struct collective *c, int rank, const struct room_entry *e, struct err *err)
{
	struct host_room *h = &c->transfer.host_room;
	char *first = err_strdup(e->first, "the room for the outputs", err);
	const struct room_needs needs = {.host = c->agreed.host[rank],
	                                 .device = e->device,
	                                 .bytes = e->bytes,
	                                 .left = e->left,
	                                 .first = first,
	                                 .rank = rank,
	                                 .files = e->files};
	char **names = first ? err_grow(h->names, h->nnames, sizeof *names, "the room", err) : NULL;
	if (!names) {
		free(first);
		return -1;
	}
	h->names = names;
	names[h->nnames++] = first;
	return room_merge(&h->all, &needs, err);
}

/* Do they fit? The culprit is the lowest rank of those whose files do not. */
static int check(const struct host_room *h, struct err *err)
{
	for (size_t i = 0; i < h->all.n; i++) {
		const struct room one = {.on = &h->all.on[i], .n = 1};
		if (room_check(&one, err) < 0) {
			err->rank = h->all.on[i].rank;
			return -1;
		}
	}
	return 0;
}

int host_room_take(struct collective *c, int rank, struct view part, struct err *err)
{
	struct host_room *h = &c->transfer.host_room;
	struct room_entry e;
	for (int n = 0; view_left(&part); n++) {
		if (n == MOST)
			return malformed(err, "ROUND", "file systems");
		if (message_get(&room_entry_message, &e, &part, err) < 0 ||
		    add(c, rank, &e, err) < 0)
			return -1;
	}
	return ++h->taken == c->agreed.ncame ? check(h, err) : 0;
}

static void put(const struct room *room, struct buf *b)
{
	for (size_t i = 0; i < room->n && i < MOST; i++) {
		const struct room_needs *on = &room->on[i];
		struct room_entry e = {.device = on->device,
		                       .bytes = on->bytes,
		                       .left = on->left,
		                       .files = (uint32_t)on->files};
		snprintf(e.first, sizeof e.first, "%s", on->first);
		message_put(&room_entry_message, &e, b);
	}
}

static int exchange(struct collective *c, const struct room *room, struct err *err)
{
	struct buf b;
	buf_init(&b, JOB_ROUND_MAX);
	put(room, &b);
	return coll_await_round(c->life, &b, "the room for the outputs", NULL, err);
}

int host_room_check(struct collective *c, struct err *err)
{
	struct room room = {0};
	int ret = c->transfer.sink ? sink_room(c->transfer.sink, &room, err) : 0;
	if (ret == 0)
		ret = room_check(&room, err);
	if (ret == 0 && c->agreed.size > 1 && c->agreed.host && !update_wanted(c))
		ret = exchange(c, &room, err);
	room_release(&room);
	return ret;
}

void host_room_release(struct collective *c)
{
	struct host_room *h = &c->transfer.host_room;
	for (size_t i = 0; i < h->nnames; i++)
		free(h->names[i]);
	free(h->names);
	room_release(&h->all);
}
