/* The rows of transport.c, the best first: TRANSPORT(x) is transport_x. */
TRANSPORT(memory)
TRANSPORT(tls)
TRANSPORT(tcp)
