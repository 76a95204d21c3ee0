/* Without --insecure: TLS over TCP. */
#include <unistd.h>

#include "lib/net/transport.h"

extern const struct transport transport_tls;

static bool usable(const struct transport_edge *e)
{
	return e->tls;
}

static struct conn *dial(const struct transport_edge *e, struct err *err)
{
	int fd = conn_sock_dial(e->to, e->congestion, err);
	struct conn *c = fd < 0 ? NULL : tls_dial(e->tls, fd, e->identity, e->key, e->buffer, err);
	if (!c && fd >= 0)
		close(fd);
	return c;
}

static struct conn *take(const struct transport_edge *e, int fd, struct err *err)
{
	return tls_accept(e->tls, fd, e->find, e->ctx, e->buffer, err);
}

static const char *refuse(uint8_t first)
{
	return first == TLS_HANDSHAKE
	               ? NULL
	               : "it does not use TLS: give --insecure to every rank or to none";
}

const struct transport transport_tls = {
        .usable = usable,
        .dial = dial,
        .accept = take,
        .refuse = refuse,
        .identity = tls_identity,
};
