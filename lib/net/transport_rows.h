/* The rows of transport.c, the best first: TRANSPORT(x) is transport_x. */
TRANSPORT(tls)
TRANSPORT(tcp)
