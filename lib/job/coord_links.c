/* Links that failed: the coordinator collects them from all ranks and names them in one error. */
#include <stdio.h>
#include <sys/socket.h>

#include "lib/job/coord_internal.h"

/* Where rank 0 is reached: at the local address of any control link. */
static const char *own_address(const struct coord *c, char *buf, size_t cap)
{
	struct addr here = {.len = sizeof here.sa};
	char text[ADDR_TEXT];
	for (int r = 1; r < c->conf.size; r++) {
		const struct ctl *ctl = &c->members[r].ctl;
		if (!ctl_open(ctl) ||
		    getsockname(ctl->conn->fd, (struct sockaddr *)&here.sa, &here.len) < 0)
			continue;
		snprintf(buf, cap, "%s", addr_text(&here, false, text));
		return buf;
	}
	return "?";
}

/* The address at which the rank's data listener is, without its port. */
static const char *address(void *ctx, int rank, char *buf, size_t cap)
{
	const struct coord *c = ctx;
	int port;
	struct err ignored = {0};
	if (addr_split(c->members[rank].intent.data_addr, buf, cap, &port, &ignored) < 0 || !buf[0])
		return own_address(c, buf, cap);
	return buf;
}

void coord_fail_links(struct coord *c)
{
	struct err e = {.code = ERR_PEER_LOST, .rank = ERR_RANK_SELF};
	links_text(&c->links, address, c, e.text, sizeof e.text);
	coord_fail(c, &e, PHASE_CONNECT);
}
