/*
 * NUMA nodes of this machine: the processors that are near a part of the memory, or a device.
 */
#ifndef COLLCTL_BASE_NUMA_H
#define COLLCTL_BASE_NUMA_H

#include <sched.h>
#include <stdbool.h>

/* Read a list as Linux writes it: "0-3,8,10-11". False: @text is none, or is empty. */
bool numa_parse(const char *text, cpu_set_t *out);

/* Let the thread's new memory be on @node, as long as that has any, until numa_prefer_none. False:
 * it is where it would be, because there is no such node, or the user has chosen nodes (numactl).
 */
bool numa_prefer(int node);
void numa_prefer_none(void);

/* The processors of @node. False: there is no such node, or it has none. */
bool numa_processors(int node, cpu_set_t *out);

#endif
