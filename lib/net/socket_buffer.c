/* See socket_buffer.h. */
#include "lib/net/socket_buffer.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "lib/base/io.h"

/* The largest size of three: "4096\t16384\t4194304". 0: not known. */
static uint64_t largest(const char *sysctls, const char *name)
{
	char path[256], text[64];
	uint64_t most;

	snprintf(path, sizeof path, "%s/%s", sysctls, name);
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	const ssize_t len = read_full(fd, text, sizeof text - 1);
	close(fd);
	text[len > 0 ? len : 0] = '\0';
	return sscanf(text, "%*u %*u %10" SCNu64, &most) == 1 ? most : 0;
}

uint64_t socket_buffer_most(const char *sysctls)
{
	const uint64_t out = largest(sysctls, "tcp_wmem"), in = largest(sysctls, "tcp_rmem");

	return (out < in ? out : in) / 2;
}
