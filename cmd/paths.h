/*
 * File names of the command line. {rank}, {size} and {host} are replaced; {{word}} gives {word}.
 * Then the patterns of glob(7) in the names of inputs are expanded.
 */
#ifndef COLLCTL_CMD_PATHS_H
#define COLLCTL_CMD_PATHS_H

#include <stdbool.h>

#include "lib/base/err.h"

/* ERR_USAGE where one of @paths[n] has another {word}. */
int paths_check_all(char *const *paths, int n, struct err *err);
/* @path for @rank on @host (NULL: this one). Malloced; NULL: an error, as of paths_check_all. */
char *paths_fill(const char *path, int rank, int size, const char *host, struct err *err);

/* Does @path give ranks on different hosts different names? */
bool paths_vary(const char *path);

struct paths {
	char **names;
	int n;
};

/* The inputs @names[n] with patterns expanded, the matches of each sorted by bytes. A name that
 * exists as it is, is no pattern. ERR_INPUT: a pattern matches nothing. Release *p on failure too.
 */
int paths_expand(struct paths *p, char *const *names, int n, int rank, int size, struct err *err);
void paths_release(struct paths *);

#endif
