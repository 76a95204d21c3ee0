/*
 * Counts the stuck threads of this process: threads that were abandoned in a call that does not
 * return, for instance of a driver that hangs. They may hold locks for which exit() waits; _exit()
 * does not wait. Thread-safe.
 */
#ifndef COLLCTL_BASE_STUCK_H
#define COLLCTL_BASE_STUCK_H

#include <stdbool.h>

void stuck_add(void);
/* The call of a stuck thread has returned. */
void stuck_remove(void);
bool stuck_any(void);

#endif
