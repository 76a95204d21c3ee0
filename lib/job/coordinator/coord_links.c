/* Failed links: the coordinator collects them from all ranks and names them in one error. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "lib/job/coordinator/coord_internal.h"

/* The address of the coordinator's rank: the local address of any control link. */
static const char *own_address(const struct coord *c, char *buf, size_t cap)
{
	struct addr here = {.len = sizeof here.sa};
	char text[ADDR_TEXT];
	for (int r = 0; r < c->conf.size; r++) {
		const struct ctl *ctl = &c->members[r].ctl;
		if (!ctl_open(ctl) ||
		    getsockname(ctl->conn->fd, (struct sockaddr *)&here.sa, &here.len) < 0)
			continue;
		snprintf(buf, cap, "%s", addr_text(&here, false, text));
		return buf;
	}
	return "?";
}

/* The rank's host, if there are several, and the address of its data listener. */
static const char *place(void *ctx, int rank, char *buf, size_t cap)
{
	const struct coord *c = ctx;
	struct err e = {.rank = rank};
	char at[ADDR_TEXT];
	int port;
	if (addr_split(c->members[rank].intent.data_addr, at, sizeof at, &port, NULL) < 0 || !at[0])
		own_address(c, at, sizeof at);
	coord_name_host(c, &e);
	bool named = e.host[0] && strcmp(e.host, at) != 0;
	snprintf(buf, cap, "%s%s%s", named ? e.host : "", named ? ", " : "", at);
	return buf;
}

void coord_fail_links(struct coord *c)
{
	struct err e = {.code = ERR_PEER_LOST, .rank = ERR_RANK_SELF};
	links_text(&c->links, place, c, e.text, sizeof e.text);
	coord_fail(c, &e, PHASE_CONNECT);
}
