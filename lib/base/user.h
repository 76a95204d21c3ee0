/* Users, as this process sees them: a user namespace may hide some. */
#ifndef COLLCTL_BASE_USER_H
#define COLLCTL_BASE_USER_H

#include <stdbool.h>
#include <sys/types.h>

/* Does @uid name one user? The kernel shows all whom this user namespace does not map as 65534. */
bool user_is_known(uid_t uid);
/* Is @uid this process's user? False if that is not known. */
bool user_is_self(uid_t uid);
/* May this process treat the file of @owner as its own (CAP_FOWNER)? */
bool user_may_own(uid_t owner);

#endif
