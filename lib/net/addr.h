/*
 * Addresses and listening sockets. Text forms: "host", "host:port", "[v6]:port", ":port".
 */
#ifndef COLLCTL_NET_ADDR_H
#define COLLCTL_NET_ADDR_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "lib/base/err.h"

#define ADDR_TEXT 128

struct addr {
	struct sockaddr_storage sa;
	socklen_t len;
};

/* Split "host[:port]" (port -1: none). ERR_USAGE. */
int addr_split(const char *text, char *host, size_t cap, int *port, struct err *);
/* Resolve to the first address; @passive: for listening (empty host: any address). */
int addr_resolve(struct addr *, const char *host, int port, bool passive, struct err *);
int addr_port(const struct addr *);
void addr_set_port(struct addr *, int port);
/* "192.0.2.7:7766" or, without the port, "192.0.2.7". Returns @buf. */
char *addr_text(const struct addr *, bool with_port, char buf[ADDR_TEXT]);
bool addr_same_host(const struct addr *, const struct addr *); /* both local counts as same */

/* A listening TCP socket, non-blocking, close-on-exec, SO_REUSEADDR. Port 0: the kernel's choice;
 * if @lo > 0: the first free port of lo..hi. @addr is updated with the port. */
int addr_listen(struct addr *addr, int lo, int hi, int backlog, struct err *);
/* An address of the interface @spec (name, or CIDR like 10.0.0.0/8). ERR_USAGE. */
int addr_of_iface(struct addr *, const char *spec, struct err *);

#endif
