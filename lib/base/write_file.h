/* Writes small files as a whole: a secret, a certificate. */
#ifndef COLLCTL_BASE_WRITE_FILE_H
#define COLLCTL_BASE_WRITE_FILE_H

#include <stdbool.h>

#include "lib/base/err.h"

struct write_how {
	bool secret;  /* mode 0600, whatever the umask; else 0666 less the umask */
	bool replace; /* atomically replace an existing file; else it is an error */
};

/* Write @text to the file @path, and sync it. If @path is a symbolic link, the link itself is
 * replaced. ERR_OUTPUT names the file, which then is unchanged. */
int write_file(const char *path, const char *text, struct write_how how, struct err *err);

#endif
