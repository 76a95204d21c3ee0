/* Descriptors: writing to the end, and how many there may be. */
#ifndef COLLCTL_BASE_IO_H
#define COLLCTL_BASE_IO_H

#include <stddef.h>
#include <stdint.h>

/* Write all of @buf, however the kernel cuts it, also where somebody made it non-blocking; a pipe
 * takes a line of up to PIPE_BUF bytes in one piece. -1: errno says why. */
int write_all(int fd, const void *buf, size_t len);

/* Write all of @buf at @pos of a file. -1: errno says why. */
int pwrite_all(int fd, const void *buf, size_t len, uint64_t pos);

/* Let the process have as many descriptors as the system allows, if it does. @before (may be NULL):
 * the limits until then. */
struct rlimit;
void raise_file_limit(struct rlimit *before);

#endif
