/* The limit of ranks, which jobs, messages and files share. */
#ifndef COLLCTL_BASE_LIMITS_H
#define COLLCTL_BASE_LIMITS_H

#define JOB_MAX_SIZE 65536 /* ranks */

#endif
