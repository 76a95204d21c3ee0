/*
 * The facts of a request, for every kind of job: the settings that must be the same on all ranks
 * (struct setting.agree). Rank 0 compares them, and names the rank that differs. One thread.
 */
#ifndef COLLCTL_COLL_AGREEMENT_REQUEST_FACTS_H
#define COLLCTL_COLL_AGREEMENT_REQUEST_FACTS_H

#include "lib/coll/request/request.h"
#include "lib/job/proto.h"

/* Add the job's kind and all these settings to the intent. ERR_RESOURCE. */
int request_facts(const struct coll_request *, struct intent *, struct err *err);
/* Add one setting: "--op" and its value. */
int request_fact(const struct coll_request *, const struct setting *, struct intent *,
                 struct err *err);

#endif
