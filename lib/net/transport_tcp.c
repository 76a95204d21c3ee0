/* --insecure: plain TCP in checksummed frames. */
#include <unistd.h>

#include "lib/net/transport.h"

extern const struct transport transport_tcp;

static bool usable(const struct transport_edge *e)
{
	return !e->tls;
}

static struct conn *dial(const struct transport_edge *e, struct err *err)
{
	int fd = conn_sock_dial(e->to, e->congestion, err);
	struct conn *c = fd < 0 ? NULL : conn_tcp_new(fd, err);
	if (!c && fd >= 0)
		close(fd);
	return c;
}

static struct conn *take(const struct transport_edge *e, int fd, struct err *err)
{
	(void)e;
	return conn_tcp_new(fd, err);
}

static const char *refuse(uint8_t first)
{
	return first != TLS_HANDSHAKE ? NULL
	                              : "it uses TLS, but this rank has --insecure: give it to "
	                                "every rank or to none";
}

const struct transport transport_tcp = {
        .usable = usable,
        .dial = dial,
        .accept = take,
        .refuse = refuse,
};
