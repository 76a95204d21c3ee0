/*
 * Threads of this process that are left behind, because a call in them does not return: of a driver
 * that hangs, for instance. They may hold locks for which exit() waits; _exit() does not wait.
 */
#ifndef COLLCTL_BASE_STUCK_H
#define COLLCTL_BASE_STUCK_H

#include <stdbool.h>

void stuck_add(void);
/* The call of one of them has returned. */
void stuck_remove(void);
bool stuck_any(void);

#endif
