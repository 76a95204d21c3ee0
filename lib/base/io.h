/* Descriptors: calls that are interrupted, writing to the end, and how many there may be. */
#ifndef COLLCTL_BASE_IO_H
#define COLLCTL_BASE_IO_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

/* Repeat @call while it fails with EINTR: after SIGCONT, under a debugger, on a network file
 * system. Not for close: Linux has closed the descriptor when it returns EINTR. */
#define io_retry(call)                                \
	__extension__({                               \
		__typeof__(call) ret_;                \
		do                                    \
			ret_ = (call);                \
		while (ret_ == -1 && errno == EINTR); \
		ret_;                                 \
	})

/* Write all of @buf, however the kernel cuts it, also where somebody made it non-blocking; a pipe
 * takes a line of up to PIPE_BUF bytes in one piece. -1: errno says why. */
int write_all(int fd, const void *buf, size_t len);

/* Write all of @buf at @pos of a file. -1: errno says why. */
int pwrite_all(int fd, const void *buf, size_t len, uint64_t pos);

/* Let the process have as many descriptors as the system allows, if it does. @before (may be NULL):
 * the limits until then. */
struct rlimit;
void raise_file_limit(struct rlimit *before);

/* Check that the process may open @n more descriptors, for @what. -1: ERR_RESOURCE, with the total
 * that it needs. */
int need_descriptors(int n, const char *what, struct err *err);

#endif
