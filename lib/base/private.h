/*
 * Secrets: a process whose memory others cannot read, copies that are wiped, and small files that
 * hold a secret or a token.
 */
#ifndef COLLCTL_BASE_PRIVATE_H
#define COLLCTL_BASE_PRIVATE_H

#include <stddef.h>
#include <sys/types.h>

#include "lib/base/err.h"

struct rlimit;

/* From now on this process writes no core dump, and no other process of its user may begin to read
 * its memory. One that has begun, since the exec, still can: execve makes a process traceable
 * again. *before (may be NULL): the former limit on core dumps, for programs that it starts. */
void private_process(struct rlimit *before);

/* Overwrite @p; the compiler cannot remove it. NULL is allowed. */
void wipe(void *p, size_t len);
void wipe_text(char *text); /* up to its NUL */
void wipe_free(char *text); /* wiped and freed */

/* A heap for a library that handles secrets: memory is wiped before it is freed or moved. */
void *private_malloc(size_t n);
void *private_calloc(size_t count, size_t size);
void *private_realloc(void *p, size_t n);
char *private_strdup(const char *text);
void private_free(void *p);

/* The value of the variable @name, malloced; "" counts as none. Its bytes in the environment are
 * wiped, so that child processes inherit "". NULL: not set, or an error. */
char *private_variable(const char *name, struct err *err);

/* Set the variable without leaving other copies of its value. -1: errno. */
int private_set_variable(const char *name, const char *value);

/* Read all of @path, at most @cap bytes: a regular file that belongs to this user or root and that
 * others cannot read or write. Returns the number of bytes; -1: ERR_AUTH. @pipes: for the error,
 * what to use in place of a pipe. */
ssize_t private_file(const char *path, const char *pipes, void *buf, size_t cap, struct err *err);
/* The same for an open descriptor, which may be a pipe; closes it. */
ssize_t private_fd(int fd, const char *origin, void *buf, size_t cap, struct err *err);
/* The first line of such a file, NUL-terminated in @text. ERR_AUTH if it does not fit. */
int private_line(const char *path, const char *pipes, char *text, size_t cap, struct err *err);

#endif
