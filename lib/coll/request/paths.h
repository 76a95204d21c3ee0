/*
 * File names of the command line. {rank}, {size} and {host} are replaced; {{word}} becomes {word}.
 * Then glob(7) patterns in input names are expanded.
 */
#ifndef COLLCTL_COLL_REQUEST_PATHS_H
#define COLLCTL_COLL_REQUEST_PATHS_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/err.h"

/* ERR_USAGE if one of @paths[n] has an unknown {word}. */
int paths_check_all(char *const *paths, int n, struct err *err);
/* Replace the placeholders of @path. @host NULL: this host. Malloced; NULL: an error, as from
 * paths_check_all. */
char *paths_fill(const char *path, int rank, int size, const char *host, struct err *err);

/* The number of the first bytes of @path that the user alone chooses: up to and with the '/' before
 * the first component with {host}. Without {host}: all. */
size_t paths_before_host(const char *path);

/* Does @path differ between ranks or hosts? */
bool paths_vary(const char *path);

struct paths {
	char **names;
	int n;
};

/* Expand the inputs @names[n]; matches are sorted by bytes. The name of an existing file is not a
 * pattern. ERR_INPUT: a pattern matches nothing or a FIFO. Release *p also on failure. */
int paths_expand(struct paths *p, char *const *names, int n, int rank, int size, struct err *err);
void paths_release(struct paths *);

#endif
