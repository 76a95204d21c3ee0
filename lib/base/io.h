/* Descriptors and files: interrupted calls, complete reads and writes, and the limit of
 * descriptors. Sizes are bytes. Thread-safe, except raise_file_limit. */
#ifndef COLLCTL_BASE_IO_H
#define COLLCTL_BASE_IO_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

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

/* Write all of @buf, in as many writes as needed. If @fd is non-blocking, waits until it takes
 * more. To a pipe, up to PIPE_BUF bytes are one write. -1: errno gives the cause. */
int write_all(int fd, const void *buf, size_t len);

/* Has stdout, a pipe or a socket, still a reader? true of anything else. */
bool stdout_is_read(void);

/* Write all of @buf at @pos of a file. -1: errno gives the cause. */
int pwrite_all(int fd, const void *buf, size_t len, uint64_t pos);
/* Read until @buf is full or the end of the file. Returns the number of bytes; -1: errno gives the
 * cause. */
ssize_t read_full(int fd, void *buf, size_t len);
/* The same at @pos of a file. */
ssize_t pread_full(int fd, void *buf, size_t len, uint64_t pos);

/* Of @len bytes at @pos, the number of those before @end. */
static inline size_t io_before(uint64_t pos, size_t len, uint64_t end)
{
	const uint64_t left = pos < end ? end - pos : 0;
	return len < left ? len : (size_t)left;
}

/* Are both of one file? */
static inline bool io_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Make an eventfd readable; make it unreadable. They do not block if the eventfd is non-blocking. A
 * repeated call has no further effect. */
void event_signal(int fd);
void event_clear(int fd);

/* Raise the limit of descriptors to the maximum that the system allows. @before (may be NULL): the
 * former limits. */
struct rlimit;
void raise_file_limit(struct rlimit *before);

/* Check that the process may open @n more descriptors, for @what. ERR_RESOURCE names the limit that
 * it needs. */
int need_descriptors(int n, const char *what, struct err *err);
/* What a caller adds to @n for short-lived descriptors: a file that is examined, a pending
 * connection. */
#define SPARE_DESCRIPTORS 8

#endif
