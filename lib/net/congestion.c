#include "lib/net/congestion.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/io.h"

#define LONGEST 15 /* bytes of a name; the kernel cuts a longer one */
#define SYSCTLS "/proc/sys/net/ipv4/"

static int set(int fd, const char *name)
{
	return setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name));
}

/* The names in a file of /proc, separated by blanks. Returns @text. */
static const char *names_in(const char *path, char *text, size_t cap)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	const ssize_t len = fd < 0 ? 0 : read_full(fd, text, cap - 1);
	if (fd >= 0)
		close(fd);
	text[len > 0 ? len : 0] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return *text ? text : "not known";
}

int congestion_check(const char *name, struct err *err)
{
	char text[256];
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_errno(err, ERR_RESOURCE, "socket");
	errno = ENOENT;
	const int ret = strlen(name) > LONGEST ? -1 : set(fd, name);
	const int errnum = errno;
	close(fd);
	if (ret == 0)
		return 0;
	if (errnum == EPERM)
		return err_set(
		        err, ERR_USAGE,
		        "--congestion: this kernel allows '%s' only to root; others may use: %s",
		        name,
		        names_in(SYSCTLS "tcp_allowed_congestion_control", text, sizeof text));
	return err_set(err, ERR_USAGE,
	               "--congestion: this kernel has no congestion control '%.40s'; it has: %s "
	               "(root can load others: modprobe tcp_NAME)",
	               name,
	               names_in(SYSCTLS "tcp_available_congestion_control", text, sizeof text));
}

void congestion_set(int fd, const char *name)
{
	(void)set(fd, name);
}

void congestion_unpace(int fd, const struct addr *peer)
{
	struct addr here = {.len = sizeof here.sa};
	if (peer->sa.ss_family != AF_UNIX &&
	    getsockname(fd, (struct sockaddr *)&here.sa, &here.len) == 0 &&
	    addr_same_host(&here, peer))
		(void)set(fd, "reno");
}
