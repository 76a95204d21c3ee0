/*
 * The facts of a request: the settings that must be the same on all ranks (struct setting.agree),
 * for every kind of job. Rank 0 compares them, and names the rank that differs.
 */
#ifndef COLLCTL_COLL_AGREEMENT_REQUEST_FACTS_H
#define COLLCTL_COLL_AGREEMENT_REQUEST_FACTS_H

#include "lib/coll/request/request.h"
#include "lib/job/proto.h"

/* Add the job's kind and all its settings that the ranks must agree on. */
int request_facts(const struct coll_request *, struct intent *, struct err *err);
/* Add one: "--op" with its value. */
int request_fact(const struct coll_request *, const struct setting *, struct intent *,
                 struct err *err);

#endif
