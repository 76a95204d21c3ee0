/* Time: monotonic only, so that a clock jump changes nothing. Unit: nanoseconds. */
#ifndef COLLCTL_BASE_CLOCK_H
#define COLLCTL_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_MS  1000000LL
#define NS_PER_SEC 1000000000LL

static inline int64_t clock_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * NS_PER_SEC + ts.tv_nsec;
}

#endif
