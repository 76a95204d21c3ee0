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

/* Where a rank accepts connections, as the user gives it. Strings are NULL if not given. */
struct address_settings {
	const char *listen;    /* host[:port] */
	const char *advertise; /* host[:port], by which others reach it */
	const char *iface;     /* name or network: accept at its address */
	int port_lo, port_hi;  /* accept at one of these ports; 0: any */
};

/* Split "host[:port]" (port -1: none). ERR_USAGE. */
int addr_split(const char *text, char *host, size_t cap, int *port, struct err *);
/* "host:port", or "[v6]:port" of an IPv6 address. */
void addr_join(const char *host, int port, char *text, size_t cap);
/* Resolve to the first address; @passive: for listening (empty host: any address of both families,
 * by one dual-stack socket). A name that does not resolve: ERR_USAGE if @passive, else
 * ERR_RENDEZVOUS, for it may resolve later. */
int addr_resolve(struct addr *, const char *host, int port, bool passive, struct err *);
int addr_port(const struct addr *);
void addr_set_port(struct addr *, int port);
/* "192.0.2.7:7766", "[2001:db8::7]:7766" or, without the port, "192.0.2.7", "2001:db8::7". IPv4
 * peers of a dual-stack socket are printed as IPv4. Returns @buf. */
char *addr_text(const struct addr *, bool with_port, char buf[ADDR_TEXT]);
bool addr_same_host(const struct addr *, const struct addr *); /* both local counts as same */
bool addr_is_any(const struct addr *);                         /* 0.0.0.0 or [::] */
bool addr_is_local(const struct addr *);   /* loopback, or an interface of this machine has it */
bool addr_name_is_local(const char *host); /* resolves to a local address; may ask the resolver */

/* A listening TCP socket, non-blocking, close-on-exec, SO_REUSEADDR. Port 0: the kernel chooses;
 * if @lo > 0: the first free port of lo..hi. @addr is updated with the port. ERR_USAGE for an
 * address of another machine or a port that needs privileges, else ERR_RESOURCE; errno gives the
 * cause. */
int addr_listen(struct addr *addr, int lo, int hi, int backlog, struct err *);
/* The address of the memory lanes of @rank, whose data listener has the port @port: an abstract
 * unix address, which exists in one network namespace and goes with its socket. */
void addr_of_lanes(struct addr *, int port, int rank);
/* A listening socket at such an address. ERR_RESOURCE. */
int addr_listen_lanes(const struct addr *, struct err *);
/* An address of the interface @spec (name, or CIDR like 10.0.0.0/8): IPv4 before IPv6 before
 * link-local. ERR_USAGE, with the names of the active interfaces. */
int addr_of_iface(struct addr *, const char *spec, struct err *);

#endif
