/*
 * What others must not read: a process whose memory is its own, copies that are wiped, and small
 * files that hold a secret or a token.
 */
#ifndef COLLCTL_BASE_PRIVATE_H
#define COLLCTL_BASE_PRIVATE_H

#include <stddef.h>
#include <sys/types.h>

#include "lib/base/err.h"

struct rlimit;

/* From now on this process leaves no core, and no other process of its user may read its memory.
 * *before (may be NULL): the limit on cores until then, for programs that are started. */
void private_process(struct rlimit *before);

/* Overwrite, whatever the compiler thinks of it. NULL is allowed. */
void wipe(void *p, size_t len);
void wipe_text(char *text); /* up to its NUL */
void wipe_free(char *text); /* wiped and freed */

/* A heap for a library that handles secrets: what is freed, or moved, is wiped. */
void *private_malloc(size_t n);
void *private_calloc(size_t count, size_t size);
void *private_realloc(void *p, size_t n);
char *private_strdup(const char *text);
void private_free(void *p);

/* The value of the variable @name, malloced; "" counts as none. Its bytes in the environment are
 * wiped and it is "" there, so that nothing that is started later inherits it. NULL: there is none,
 * or an error. */
char *private_variable(const char *name, struct err *err);

/* Set it, with no copy but the one in the environment. -1: errno. */
int private_set_variable(const char *name, const char *value);

/* Read all of @path, a regular file that its owner alone may read, who is this user or root; at
 * most @cap bytes. Returns how many, -1: ERR_AUTH. @pipes: how a pipe is given instead. */
ssize_t private_file(const char *path, const char *pipes, void *buf, size_t cap, struct err *err);
/* The same of an open descriptor, a pipe too, which it closes. */
ssize_t private_fd(int fd, const char *origin, void *buf, size_t cap, struct err *err);
/* The first line of such a file, NUL-terminated in @text. ERR_AUTH where it does not fit. */
int private_line(const char *path, const char *pipes, char *text, size_t cap, struct err *err);

#endif
