/* The rows of transport.c: TRANSPORT(x) is transport_x. The first usable row is taken. */
TRANSPORT(memory)
TRANSPORT(tls)
TRANSPORT(tcp)
