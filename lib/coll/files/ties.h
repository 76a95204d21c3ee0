/*
 * --op ties:D: which differences of the inputs to the origin count: those whose magnitude is at
 * least the k-th largest of their tensor and input (kth.h). Internal to lib/coll; see origin.h.
 */
#ifndef COLLCTL_COLL_FILES_TIES_H
#define COLLCTL_COLL_FILES_TIES_H

#include "lib/base/err.h"

/* Fill origin.least; reads all inputs and the origin, most of them once. @collective: a struct
 * collective. In a thread that job_run_in_thread has started. */
int ties_prepare(void *collective, struct err *err);

#endif
