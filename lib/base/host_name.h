/* The names of the ranks' hosts. They become parts of file names ({host}) and of messages. So a
 * rank sends and accepts only names that are harmless in both: [A-Za-z0-9][A-Za-z0-9._-]*.
 * Thread-safe. */
#ifndef COLLCTL_BASE_HOST_NAME_H
#define COLLCTL_BASE_HOST_NAME_H

#include <stdbool.h>

#include "lib/base/buf.h"
#include "lib/base/err.h"

#define HOST_NAME 65 /* bytes, with the NUL: Linux's own names have at most 64 */

/* Make a valid name from any text. Each other character becomes '_'. "host" is put in front of a
 * name that does not begin with a letter or a digit: "(none)" becomes "host_none_". What does not
 * fit is cut. */
void host_name_make(char name[HOST_NAME], const char *text);
/* The same from the name of this host. */
void host_name_own(char name[HOST_NAME]);

bool host_name_is_right(const char *name); /* is it such a name? */
/* Does @text have only the characters of such names and of numeric addresses? */
bool host_name_or_address(const char *text);

/* Decode a peer's name from a message; "": not known. ERR_DISAGREE with the text if it is not a
 * valid name. If the message is too short, sets v->failed and gives "". */
int host_name_get(struct view *v, char name[HOST_NAME], struct err *err);

#endif
