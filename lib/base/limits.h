/* Limits of a job, of the wire and of the files that describe jobs. */
#ifndef COLLCTL_BASE_LIMITS_H
#define COLLCTL_BASE_LIMITS_H

#define JOB_MAX_SIZE 65536 /* ranks */

#endif
