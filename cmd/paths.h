/*
 * File names of the command line. {rank}, {size} and {host} are replaced; {{word}} stands for
 * {word}. In the names of inputs *, ? and [...] stand for what glob(7) says, once the others are
 * replaced.
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

/* The inputs that @names[n] stand for, patterns replaced by what they match in the order of its
 * bytes. A file whose name is the pattern itself comes first. ERR_INPUT: nothing matches. *p is to
 * be released on failure too. */
int paths_expand(struct paths *p, char *const *names, int n, int rank, int size, struct err *err);
void paths_release(struct paths *);

#endif
