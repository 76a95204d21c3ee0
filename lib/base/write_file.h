/* Small files as a whole: a secret, a certificate. */
#ifndef COLLCTL_BASE_WRITE_FILE_H
#define COLLCTL_BASE_WRITE_FILE_H

#include <stdbool.h>

#include "lib/base/err.h"

struct write_how {
	bool secret;  /* mode 0600, whatever the umask; else 0666 less the umask */
	bool replace; /* an existing file, in one step; else it is an error */
};

/* Write @text to the file @path, and sync it. A symbolic link is not followed, but
 * replaced itself. ERR_OUTPUT names the file, which is as it was. */
int write_file(const char *path, const char *text, struct write_how how, struct err *err);

#endif
