/*
 * Secrets: protect the memory of this process, wipe copies, and read small files that hold a secret
 * or a token. Thread-safe, except private_variable and private_set_variable, which change the
 * environment.
 */
#ifndef COLLCTL_BASE_PRIVATE_H
#define COLLCTL_BASE_PRIVATE_H

#include <stddef.h>
#include <sys/types.h>

#include "lib/base/err.h"

struct rlimit;

/* Make this process write no core dumps, and forbid other processes of its user to attach to it or
 * to read its memory. A process that has attached since the exec stays attached; an execve lifts
 * the protection. *before (may be NULL): the former limit on core dumps, for programs that it
 * starts. */
void private_process(struct rlimit *before);

/* Overwrite @p with zeros; the compiler does not remove this. @p may be NULL. */
void wipe(void *p, size_t len);
void wipe_text(char *text); /* up to its NUL */
void wipe_free(char *text); /* wipes and frees it */

/* As malloc and so on, for a library that handles secrets: memory is wiped before it is freed or
 * moved. */
void *private_malloc(size_t n);
void *private_calloc(size_t count, size_t size);
void *private_realloc(void *p, size_t n);
char *private_strdup(const char *text);
void private_free(void *p);

/* The value of the environment variable @name, malloced. Its bytes in the environment are wiped, so
 * that child processes inherit "". NULL: it is not set or "", or ERR_RESOURCE. */
char *private_variable(const char *name, struct err *err);

/* Set the variable without leaving other copies of its value. -1: errno gives the cause. */
int private_set_variable(const char *name, const char *value);

/* Read all of @path, at most @cap bytes. It must be a regular file of this user or root that others
 * cannot read or write. Returns the number of bytes; -1: ERR_AUTH. @pipes: the option for a pipe
 * that the error suggests. */
ssize_t private_file(const char *path, const char *pipes, void *buf, size_t cap, struct err *err);
/* The same for an open descriptor, which may be a pipe; closes it. */
ssize_t private_fd(int fd, const char *origin, void *buf, size_t cap, struct err *err);
/* The first line of such a file, NUL-terminated in @text. ERR_AUTH if it does not fit. */
int private_line(const char *path, const char *pipes, char *text, size_t cap, struct err *err);

#endif
