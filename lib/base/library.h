/* Libraries that are opened at run time, by the commands that need them. */
#ifndef COLLCTL_BASE_LIBRARY_H
#define COLLCTL_BASE_LIBRARY_H

#include <stddef.h>

#include "lib/base/err.h"

struct library {
	const char *names[3]; /* the first that is found; NULL behind the last */
	const char *purpose;  /* "for .npz" */
	const char *package;  /* Debian's */
	const char *prefix;   /* of all functions: "zip_" */
	const struct library_function {
		const char *name; /* without the prefix */
		void *to;         /* the function pointer that is set */
	} * functions;
	size_t nfunctions;
};

/* Open it and set all its functions. -1: ERR_RESOURCE, with the package to install. It stays open.
 */
int library_open(const struct library *, struct err *err);

#endif
