/*
 * File names of the command line. {rank}, {size} and {host} are replaced, and {{word}} becomes
 * {word}. Then glob(7) patterns in the names of inputs are expanded. One thread.
 */
#ifndef COLLCTL_COLL_REQUEST_PATHS_H
#define COLLCTL_COLL_REQUEST_PATHS_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/err.h"

/* ERR_USAGE: one of @paths[n] has an unknown {word}. */
int paths_check_all(char *const *paths, int n, struct err *err);
/* Replace the placeholders of @path. @host NULL: this host. Malloced; NULL: ERR_USAGE,
 * ERR_RESOURCE. */
char *paths_fill(const char *path, int rank, int size, const char *host, struct err *err);

/* The length of the beginning of @path that does not depend on another rank: up to and including
 * the '/' before the first component with {host}. Without {host}: all of it. */
size_t paths_before_host(const char *path);

/* Does @path differ between ranks or hosts, because of {rank} or {host}? */
bool paths_vary(const char *path);

struct paths {
	char **names;
	int n;
};

/* Fill *p with the names that @names[n] stand for: placeholders and patterns are expanded, and
 * matches of a pattern are sorted by bytes. The name of an existing file is not a pattern.
 * ERR_INPUT: a pattern matches nothing, or a FIFO; ERR_USAGE. The caller releases *p in either
 * case. */
int paths_expand(struct paths *p, char *const *names, int n, int rank, int size, struct err *err);
void paths_release(struct paths *);

#endif
