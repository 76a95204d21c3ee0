/* The speed of network interfaces, from sysfs. See iface.h. */
#include "lib/net/iface.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/net/addr.h"

#define MBIT 125000 /* bytes per second; sysfs has Mbit/s */
#define MOST (INT64_MAX / MBIT)

/* Read a file of the interface. False: there is none. */
static bool read_entry(const char *net, const char *name, const char *entry, char *text, size_t cap)
{
	char path[512];
	const int n = snprintf(path, sizeof path, "%s/%s/%s", net, name, entry);
	const int fd = n < (int)sizeof path ? open(path, O_RDONLY | O_CLOEXEC) : -1;

	if (fd < 0)
		return false;
	const ssize_t len = read_full(fd, text, cap - 1);
	close(fd);
	text[len > 0 ? len : 0] = '\0';
	return len > 0;
}

/* Has the interface a device, or is it made of some that have? */
static bool is_real(const char *net, const char *name)
{
	char path[512], text[512];

	snprintf(path, sizeof path, "%s/%s/device", net, name);
	if (access(path, F_OK) == 0)
		return true;
	return read_entry(net, name, "uevent", text, sizeof text) &&
	       (strstr(text, "DEVTYPE=bond\n") || strstr(text, "DEVTYPE=vlan\n"));
}

uint64_t iface_speed(const char *net, const char *name)
{
	char text[32], *end;

	if (!*name || strchr(name, '/') || !is_real(net, name) ||
	    !read_entry(net, name, "speed", text, sizeof text))
		return 0;
	errno = 0;
	const long long mbits = strtoll(text, &end, 10); /* -1: not known */
	return errno || (*end && *end != '\n') || mbits <= 0 || mbits > MOST
	               ? 0
	               : (uint64_t)mbits * MBIT;
}

uint64_t iface_speed_of(int fd)
{
	char name[IF_NAMESIZE];

	return addr_iface_of(fd, name) ? iface_speed("/sys/class/net", name) : 0;
}
