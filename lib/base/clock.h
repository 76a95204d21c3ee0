/* Time: CLOCK_MONOTONIC, which does not jump when the system's clock is set. Unit: nanoseconds.
 * Thread-safe. */
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

/* Since 1970, by the system's clock: only to compare it with the times of files, and for a person
 * to read. No deadline may depend on it. */
static inline int64_t clock_wall_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * NS_PER_SEC + ts.tv_nsec;
}

/* Milliseconds until @deadline (clock_ns()), as a timeout of poll(): at most an hour; 0 once it has
 * passed. Rounded up: a timeout of 0 in the last millisecond would make the caller spin. */
static inline int clock_ms_until(int64_t deadline)
{
	const int64_t left = deadline - clock_ns();
	if (left > 3600 * NS_PER_SEC)
		return 3600 * 1000;
	return left > 0 ? (int)((left + NS_PER_MS - 1) / NS_PER_MS) : 0;
}

#endif
