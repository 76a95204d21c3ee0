/* Ranks that share memory, inside a host: a memory lane. */
#include <unistd.h>

#include "lib/net/conn_shared.h"
#include "lib/net/transport.h"

extern const struct transport transport_memory;

static bool usable(const struct transport_edge *e)
{
	return e->arena || e->maps;
}

static struct conn *dial(const struct transport_edge *e, struct err *err)
{
	int fd = conn_sock_dial(e->to, NULL, err);
	struct conn *c = NULL;
	if (fd >= 0)
		c = conn_shared_dial(fd, e->identity, e->key, e->arena, e->buffer, err);
	if (!c && fd >= 0)
		close(fd);
	return c;
}

static struct conn *take(const struct transport_edge *e, int fd, struct err *err)
{
	return conn_shared_accept(fd, e->find, e->ctx, e->maps, err);
}

static const char *refuse(uint8_t first)
{
	return first == CONN_SHARED_FIRST ? NULL : "it does not dial a memory lane";
}

const struct transport transport_memory = {
        .usable = usable,
        .dial = dial,
        .accept = take,
        .refuse = refuse,
        .identity = conn_shared_identity,
};
