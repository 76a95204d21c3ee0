#include "lib/net/transport.h"

#define TRANSPORT(name) extern const struct transport transport_##name;
#include "lib/net/transport_rows.h"
#undef TRANSPORT

#define TRANSPORT(name) &transport_##name,
static const struct transport *const transports[] = {
#include "lib/net/transport_rows.h"
};
#undef TRANSPORT

/* There is always one, with or without TLS. */
const struct transport *transport_of(const struct transport_edge *edge)
{
	size_t i = 0;
	while (!transports[i]->usable(edge))
		i++;
	return transports[i];
}
