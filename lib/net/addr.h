/*
 * Addresses and listening sockets. Text forms: "host", "host:port", "[v6]:port", ":port".
 * Thread-safe: the functions use only their arguments.
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

/* The user's settings for where a rank accepts connections. Strings are NULL if not given. */
struct address_settings {
	const char *listen;    /* host[:port] */
	const char *advertise; /* host[:port] at which other ranks reach it */
	const char *iface;     /* accept at the address of this interface (name or CIDR) */
	int port_lo, port_hi;  /* accept at a port of this range, ends included; 0: any port */
};

/* Split "host[:port]" into @host[cap] and *port (-1: it has none). ERR_USAGE: malformed. */
int addr_split(const char *text, char *host, size_t cap, int *port, struct err *);
/* "host:port", or "[v6]:port" of an IPv6 address. */
void addr_join(const char *host, int port, char *text, size_t cap);
/* Resolve @host to its first address. May block. @passive: for listening; an empty host is then any
 * address of both families, for one dual-stack socket. A name that does not resolve is ERR_USAGE if
 * @passive; else ERR_RENDEZVOUS, because it may resolve later. */
int addr_resolve(struct addr *, const char *host, int port, bool passive, struct err *);
int addr_port(const struct addr *); /* of an IPv4 or IPv6 address */
void addr_set_port(struct addr *, int port);
/* "192.0.2.7:7766", "[2001:db8::7]:7766" or, without the port, "192.0.2.7", "2001:db8::7". IPv4
 * peers of a dual-stack socket are printed as IPv4. Returns @buf. */
char *addr_text(const struct addr *, bool with_port, char buf[ADDR_TEXT]);
bool addr_same_host(const struct addr *, const struct addr *); /* or are both local? */
bool addr_is_any(const struct addr *);                         /* 0.0.0.0 or [::] */
bool addr_is_local(const struct addr *);   /* loopback, or of an interface of this machine */
bool addr_name_is_local(const char *host); /* does it resolve to a local address? may block */

/* Open a listening TCP socket: non-blocking, close-on-exec, SO_REUSEADDR. If @lo > 0, it takes the
 * first free port of lo..hi; else the port of @addr (0: the kernel chooses). Stores the port in
 * @addr. Returns the descriptor, which the caller closes; -1: ERR_USAGE for an address of another
 * machine or a port that needs privileges, else ERR_RESOURCE; errno gives the cause. */
int addr_listen(struct addr *addr, int lo, int hi, int backlog, struct err *);
/* The address at which @rank, whose data listener has the port @port, accepts memory lanes
 * (conn_shared.h): an abstract unix address. It exists only in this network namespace, and as long
 * as its socket is open. */
void addr_of_lanes(struct addr *, int port, int rank);
/* Open a listening socket at such an address. Returns the descriptor; -1: ERR_RESOURCE. */
int addr_listen_lanes(const struct addr *, struct err *);
/* The address of the interface @spec, a name or a CIDR like 10.0.0.0/8. IPv4 is preferred to IPv6,
 * and IPv6 to link-local addresses. ERR_USAGE lists the active interfaces. */
int addr_of_iface(struct addr *, const char *spec, struct err *);
/* The addresses by which other machines may reach this one, without ports: those of active
 * interfaces except loopback and link-local ones, IPv4 first; at most @max. Returns their
 * number. */
int addr_list_own(char (*hosts)[ADDR_TEXT], int max);
/* Write the name of the interface that has the local address of the connected socket @fd to
 * @name[IF_NAMESIZE]. False: none has it. */
bool addr_iface_of(int fd, char *name);

#endif
