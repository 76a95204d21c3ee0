#include "lib/net/addr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

/* ---- text ---- */

static int parse_port(const char *s, int *port)
{
	int value = 0;

	if (!*s)
		return -1;
	for (; *s; s++) {
		if (*s < '0' || *s > '9')
			return -1;
		value = value * 10 + (*s - '0');
		if (value > 65535)
			return -1;
	}
	*port = value;
	return 0;
}

/* The characters of host names and numeric addresses; the resolver judges bytes above ASCII. */
static bool host_char(unsigned char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       c >= 0x80 || strchr("-._:%", c);
}

/* Is it an IPv6 address, perhaps with a zone ("fe80::1%eth0")? */
static bool is_ipv6(const char *s, size_t len)
{
	char buf[INET6_ADDRSTRLEN];
	struct in6_addr in6;
	const char *zone = memchr(s, '%', len);

	if (zone)
		len = (size_t)(zone - s);
	if (len >= sizeof buf)
		return false;
	memcpy(buf, s, len);
	buf[len] = '\0';
	return inet_pton(AF_INET6, buf, &in6) == 1;
}

/* The host of @text as [*host, *host + *len). Returns the text after it: ":PORT" or ""; NULL:
 * malformed. */
static const char *find_host(const char *text, const char **host, size_t *len)
{
	*host = text;
	if (text[0] == '[') {
		const char *end = strchr(text, ']');
		if (!end || !is_ipv6(text + 1, (size_t)(end - text - 1)))
			return NULL;
		*host = text + 1;
		*len = (size_t)(end - text - 1);
		return end + 1;
	}
	const char *colon = strchr(text, ':');
	if (colon && strchr(colon + 1, ':')) { /* two colons: an IPv6 address and no port */
		*len = strlen(text);
		return is_ipv6(text, *len) ? text + *len : NULL;
	}
	*len = colon ? (size_t)(colon - text) : strlen(text);
	return text + *len;
}

int addr_split(const char *text, char *host, size_t cap, int *port, struct err *err)
{
	const char *start;
	size_t len;

	*port = -1;
	if (!*text)
		return err_set(err, ERR_USAGE, "an empty address");
	const char *rest = find_host(text, &start, &len);
	if (!rest || (*rest && *rest != ':'))
		return err_set(err, ERR_USAGE, "%s: neither HOST[:PORT] nor [IPV6-ADDRESS][:PORT]",
		               text);
	if (len >= cap)
		return err_set(err, ERR_USAGE, "%.80s...: the host name is too long", text);
	for (size_t i = 0; i < len; i++)
		if (!host_char((unsigned char)start[i]))
			return err_set(err, ERR_USAGE, "%s: '%c' is not allowed in a host name",
			               text, start[i]);
	if (*rest && parse_port(rest + 1, port) < 0)
		return err_set(err, ERR_USAGE, "%s: the port is not a number from 0 to 65535",
		               text);
	memcpy(host, start, len);
	host[len] = '\0';
	return 0;
}

void addr_join(const char *host, int port, char *text, size_t cap)
{
	snprintf(text, cap, strchr(host, ':') ? "[%s]:%d" : "%s:%d", host, port);
}

/* @src as IPv4, if it is an IPv4 peer of a dual-stack socket (::ffff:192.0.2.7). */
static struct addr unmapped(const struct addr *src)
{
	struct addr a = *src;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&src->sa;

	if (src->sa.ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr))
		return a;
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = in6->sin6_port};
	memcpy(&in.sin_addr, &in6->sin6_addr.s6_addr[12], 4);
	memset(&a, 0, sizeof a);
	memcpy(&a.sa, &in, sizeof in);
	a.len = sizeof in;
	return a;
}

void addr_of_lanes(struct addr *a, int port, int rank)
{
	struct sockaddr_un *un = (struct sockaddr_un *)&a->sa;
	memset(a, 0, sizeof *a);
	un->sun_family = AF_UNIX;
	int n = snprintf(un->sun_path + 1, sizeof un->sun_path - 1, "collctl/%d/%d", port, rank);
	a->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

int addr_listen_lanes(const struct addr *a, struct err *err)
{
	char text[ADDR_TEXT];
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd >= 0 && bind(fd, (const struct sockaddr *)&a->sa, a->len) == 0 &&
	    listen(fd, SOMAXCONN) == 0)
		return fd;
	err_errno(err, ERR_RESOURCE, "the unix socket %s", addr_text(a, false, text));
	if (fd >= 0)
		close(fd);
	return -1;
}

char *addr_text(const struct addr *addr, bool with_port, char buf[ADDR_TEXT])
{
	struct addr a = unmapped(addr);
	char host[ADDR_TEXT - 16];

	if (addr->sa.ss_family == AF_UNIX) {
		snprintf(buf, ADDR_TEXT, "@%s",
		         ((const struct sockaddr_un *)&addr->sa)->sun_path + 1);
		return buf;
	}
	if (getnameinfo((const struct sockaddr *)&a.sa, a.len, host, sizeof host, NULL, 0,
	                NI_NUMERICHOST) != 0)
		snprintf(host, sizeof host, "?");
	if (!with_port)
		snprintf(buf, ADDR_TEXT, "%s", host);
	else
		addr_join(host, addr_port(&a), buf, ADDR_TEXT);
	return buf;
}

/* ---- resolving ---- */

static int any_address(struct addr *a, int port)
{
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT};
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memset(a, 0, sizeof *a);
	if (fd >= 0) { /* a dual-stack socket accepts both families */
		close(fd);
		memcpy(&a->sa, &in6, sizeof in6);
		a->len = sizeof in6;
	} else { /* a kernel without IPv6 */
		memcpy(&a->sa, &in, sizeof in);
		a->len = sizeof in;
	}
	addr_set_port(a, port);
	return 0;
}

static int resolve_failed(const char *host, int rc, bool passive, struct err *err)
{
	if (rc == EAI_SYSTEM)
		return err_errno(err, ERR_RENDEZVOUS, "%s", host);
	if (rc == EAI_MEMORY)
		return err_nomem(err, "the resolver", 0);
	return err_set(err, passive ? ERR_USAGE : ERR_RENDEZVOUS, "%s: %s", host, gai_strerror(rc));
}

int addr_resolve(struct addr *a, const char *host, int port, bool passive, struct err *err)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list;

	if (!*host && passive)
		return any_address(a, port);
	if (!*host)
		return err_set(err, ERR_USAGE, ":%d: an address to connect to needs a host", port);
	/* Otherwise a port without a host would count as an IPv4 address: 7700 as 0.0.30.20. */
	if (host[strspn(host, "0123456789")] == '\0')
		return err_set(err, ERR_USAGE, "'%s' is not an address: expected HOST:PORT%s%s%s",
		               host, passive ? " or :" : "", passive ? host : "",
		               passive ? " for all interfaces" : "");
	int rc = getaddrinfo(host, NULL, &hints, &list);
	if (rc)
		return resolve_failed(host, rc, passive, err);
	memset(a, 0, sizeof *a);
	memcpy(&a->sa, list->ai_addr, list->ai_addrlen);
	a->len = list->ai_addrlen;
	freeaddrinfo(list);
	addr_set_port(a, port);
	return 0;
}

int addr_port(const struct addr *a)
{
	if (a->sa.ss_family == AF_INET6)
		return ntohs(((const struct sockaddr_in6 *)&a->sa)->sin6_port);
	return ntohs(((const struct sockaddr_in *)&a->sa)->sin_port);
}

void addr_set_port(struct addr *a, int port)
{
	if (a->sa.ss_family == AF_INET6)
		((struct sockaddr_in6 *)&a->sa)->sin6_port = htons((uint16_t)port);
	else
		((struct sockaddr_in *)&a->sa)->sin_port = htons((uint16_t)port);
}

/* ---- this machine's addresses ---- */

/* The bytes of the IP address. */
static const uint8_t *ip_bytes(const struct addr *a, size_t *len)
{
	if (a->sa.ss_family == AF_INET6) {
		*len = 16;
		return ((const struct sockaddr_in6 *)&a->sa)->sin6_addr.s6_addr;
	}
	*len = 4;
	return (const uint8_t *)&((const struct sockaddr_in *)&a->sa)->sin_addr;
}

static bool same_ip(const struct addr *x, const struct addr *y)
{
	size_t nx, ny;
	const uint8_t *bx = ip_bytes(x, &nx), *by = ip_bytes(y, &ny);

	return nx == ny && memcmp(bx, by, nx) == 0;
}

static bool is_loopback(const struct addr *a)
{
	if (a->sa.ss_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)&a->sa)->sin6_addr);
	size_t len;
	return ip_bytes(a, &len)[0] == 127;
}

/* The address of an interface entry, if it is an IP address. */
static bool iface_addr(const struct ifaddrs *i, struct addr *a)
{
	if (!i->ifa_addr)
		return false;
	int family = i->ifa_addr->sa_family;
	if (family != AF_INET && family != AF_INET6)
		return false;
	memset(a, 0, sizeof *a);
	a->len = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	memcpy(&a->sa, i->ifa_addr, a->len);
	return true;
}

bool addr_is_local(const struct addr *addr)
{
	struct addr a = unmapped(addr), b;
	struct ifaddrs *list;
	bool found = false;

	if (is_loopback(&a))
		return true;
	if (getifaddrs(&list) < 0)
		return false;
	for (struct ifaddrs *i = list; i && !found; i = i->ifa_next)
		found = iface_addr(i, &b) && same_ip(&a, &b);
	freeifaddrs(list);
	return found;
}

bool addr_iface_of(int fd, char *name)
{
	struct addr own = {.len = sizeof own.sa}, b;
	struct ifaddrs *list;
	bool found = false;

	if (getsockname(fd, (struct sockaddr *)&own.sa, &own.len) < 0 ||
	    (own.sa.ss_family != AF_INET && own.sa.ss_family != AF_INET6) || getifaddrs(&list) < 0)
		return false;
	const struct addr a = unmapped(&own);
	for (struct ifaddrs *i = list; i && !found; i = i->ifa_next) {
		found = iface_addr(i, &b) && same_ip(&a, &b);
		if (found)
			snprintf(name, IF_NAMESIZE, "%s", i->ifa_name);
	}
	freeifaddrs(list);
	return found;
}

bool addr_same_host(const struct addr *x, const struct addr *y)
{
	struct addr a = unmapped(x), b = unmapped(y);

	return same_ip(&a, &b) || (addr_is_local(&a) && addr_is_local(&b));
}

bool addr_name_is_local(const char *host)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list;
	bool found = false;

	if (getaddrinfo(host, NULL, &hints, &list) != 0)
		return false;
	for (struct addrinfo *i = list; i && !found; i = i->ai_next) {
		struct addr a = {.len = i->ai_addrlen};
		memcpy(&a.sa, i->ai_addr, i->ai_addrlen);
		found = addr_is_local(&a);
	}
	freeaddrinfo(list);
	return found;
}

/* ---- listening ---- */

/* Errors of one port that another port of the range may not have. */
static bool port_is_taken(int errnum)
{
	return errnum == EADDRINUSE || errnum == EACCES;
}

static int listen_code(int errnum)
{
	switch (errnum) {
	case EADDRNOTAVAIL:
	case EACCES:
	case EAFNOSUPPORT:
		return ERR_USAGE;
	default:
		return ERR_RESOURCE;
	}
}

static int listen_at(const struct addr *a, int backlog)
{
	int one = 1, zero = 0;
	int fd = socket(a->sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	/* A port that the kernel chooses is free; with SO_REUSEADDR it could be one that another
	 * socket has bound and does not listen on yet. */
	if (addr_port(a))
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (a->sa.ss_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
	if (bind(fd, (const struct sockaddr *)&a->sa, a->len) == 0 && listen(fd, backlog) == 0)
		return fd;
	int errnum = errno;
	close(fd);
	errno = errnum;
	return -1;
}

/* errno is kept for callers that handle a taken port themselves. */
static int listen_failed(const struct addr *a, int lo, int hi, int errnum, struct err *err)
{
	char text[ADDR_TEXT];

	addr_text(a, lo == hi, text);
	if (lo < hi && port_is_taken(errnum))
		err_set(err, ERR_RESOURCE, "%s: no free port from %d to %d", text, lo, hi);
	errno = errnum;
	if (lo == hi || !port_is_taken(errnum))
		err_errno(err, listen_code(errnum), "cannot listen on %s", text);
	return -1;
}

int addr_listen(struct addr *a, int lo, int hi, int backlog, struct err *err)
{
	int fd;

	if (lo > 0 && !addr_port(a)) {
		int port = lo;
		do {
			addr_set_port(a, port);
			fd = listen_at(a, backlog);
		} while (fd < 0 && port_is_taken(errno) && port++ < hi);
	} else {
		lo = hi = 0;
		fd = listen_at(a, backlog);
	}
	if (fd < 0)
		return listen_failed(a, lo, hi, errno, err);
	a->len = sizeof a->sa;
	if (getsockname(fd, (struct sockaddr *)&a->sa, &a->len) < 0) {
		err_errno(err, ERR_RESOURCE, "getsockname");
		close(fd);
		return -1;
	}
	return fd;
}

/* ---- interfaces ---- */

struct cidr {
	struct addr net;
	int bits;
};

/* "10.0.0.0/8", or a plain address, which is a network of one address. */
static bool parse_cidr(const char *spec, struct cidr *c)
{
	char text[INET6_ADDRSTRLEN];
	const char *slash = strchr(spec, '/');
	size_t len = slash ? (size_t)(slash - spec) : strlen(spec);
	struct sockaddr_in *in = (struct sockaddr_in *)&c->net.sa;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&c->net.sa;

	memset(c, 0, sizeof *c);
	if (len >= sizeof text)
		return false;
	memcpy(text, spec, len);
	text[len] = '\0';
	if (inet_pton(AF_INET, text, &in->sin_addr) == 1) {
		in->sin_family = AF_INET;
		c->bits = 32;
	} else if (inet_pton(AF_INET6, text, &in6->sin6_addr) == 1) {
		in6->sin6_family = AF_INET6;
		c->bits = 128;
	} else {
		return false;
	}
	int bits;
	if (!slash)
		return true;
	if (parse_port(slash + 1, &bits) < 0 || bits > c->bits)
		return false;
	c->bits = bits;
	return true;
}

static bool in_cidr(const struct cidr *c, const struct addr *a)
{
	size_t n, m;
	const uint8_t *x = ip_bytes(&c->net, &n), *y = ip_bytes(a, &m);
	size_t whole = (size_t)c->bits / 8;
	unsigned rest = (unsigned)c->bits % 8;

	if (n != m || memcmp(x, y, whole) != 0)
		return false;
	return rest == 0 || ((x[whole] ^ y[whole]) >> (8 - rest)) == 0;
}

/* The order in which an interface's addresses are preferred: IPv4 first, link-local last. */
static int preference(const struct addr *a)
{
	if (a->sa.ss_family == AF_INET)
		return 3;
	const struct in6_addr *in6 = &((const struct sockaddr_in6 *)&a->sa)->sin6_addr;
	return IN6_IS_ADDR_LINKLOCAL(in6) ? 1 : 2;
}

static int no_iface(const char *spec, const struct ifaddrs *list, struct err *err)
{
	char names[256] = "";
	size_t at = 0;
	const char *last = "";

	for (const struct ifaddrs *i = list; i; i = i->ifa_next) {
		struct addr a;
		if (!iface_addr(i, &a) || strcmp(i->ifa_name, last) == 0 ||
		    at + strlen(i->ifa_name) + 3 > sizeof names)
			continue;
		last = i->ifa_name;
		at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", at ? ", " : "", last);
	}
	return err_set(err, ERR_USAGE,
	               "%s: no active interface has this name or address; the active ones are: %s",
	               spec, at ? names : "none");
}

int addr_list_own(char (*hosts)[ADDR_TEXT], int max)
{
	struct ifaddrs *list;
	struct addr a;
	int n = 0;
	if (getifaddrs(&list) < 0)
		return 0;
	for (int wanted = 3; wanted >= 2; wanted--)
		for (struct ifaddrs *i = list; i && n < max; i = i->ifa_next)
			if (iface_addr(i, &a) && (i->ifa_flags & IFF_UP) &&
			    !(i->ifa_flags & IFF_LOOPBACK) && preference(&a) == wanted)
				addr_text(&a, false, hosts[n++]);
	freeifaddrs(list);
	return n;
}

int addr_of_iface(struct addr *out, const char *spec, struct err *err)
{
	struct ifaddrs *list;
	struct cidr cidr;
	struct addr a;
	bool by_net = parse_cidr(spec, &cidr);
	int best = 0;

	if (!by_net && strchr(spec, '/'))
		return err_set(err, ERR_USAGE, "%s: not a network such as 10.0.0.0/8", spec);
	if (getifaddrs(&list) < 0)
		return err_errno(err, ERR_RESOURCE, "the list of interfaces");
	for (struct ifaddrs *i = list; i; i = i->ifa_next) {
		if (!iface_addr(i, &a) || !(i->ifa_flags & IFF_UP))
			continue;
		if (by_net ? !in_cidr(&cidr, &a) : strcmp(i->ifa_name, spec) != 0)
			continue;
		if (preference(&a) > best) {
			best = preference(&a);
			*out = a;
		}
	}
	int ret = best ? 0 : no_iface(spec, list, err);
	freeifaddrs(list);
	return ret;
}

bool addr_is_any(const struct addr *a)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)&a->sa;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&a->sa;
	if (a->sa.ss_family == AF_INET)
		return v4->sin_addr.s_addr == htonl(INADDR_ANY);
	return a->sa.ss_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr);
}
