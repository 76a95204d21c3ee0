/* The names of the ranks' hosts. They become parts of file names ({host}) and of messages, so a
 * rank sends, and accepts from its peers, only names that are harmless as both:
 * [A-Za-z0-9][A-Za-z0-9._-]*. */
#ifndef COLLCTL_BASE_HOST_NAME_H
#define COLLCTL_BASE_HOST_NAME_H

#include <stdbool.h>

#include "lib/base/buf.h"
#include "lib/base/err.h"

#define HOST_NAME 65 /* bytes, with the NUL: Linux's own names have at most 64 */

/* Make a name of any text: another character becomes '_', the end of a long text is left out, and
 * what then does not begin with a letter or a digit gets "host" before it: "(none)" becomes
 * "host_none_". */
void host_name_make(char name[HOST_NAME], const char *text);
/* The same of this host's name. */
void host_name_own(char name[HOST_NAME]);

bool host_name_is_right(const char *name);
/* Is it made of the characters of such names and of numeric addresses? */
bool host_name_or_address(const char *text);

/* Take a peer's name from a message; "": not known. ERR_DISAGREE, with the name, if it is none. A
 * message that is too short sets v->failed and gives "". */
int host_name_get(struct view *v, char name[HOST_NAME], struct err *err);

#endif
