/* Explains the choice of an algorithm: --explain, and the remarks of `plan --compare`. */
#ifndef COLLCTL_CMD_TEXT_EXPLAIN_H
#define COLLCTL_CMD_TEXT_EXPLAIN_H

#include "lib/price/select.h"

/* The remark on an algorithm: that it was chosen and why, or why it is excluded; else "". */
void price_remark(const struct selection *, const struct select_price *, char *text, size_t cap);
/* --explain: print the algorithms with their prices, the choice and its reason, the reasons to
 * exclude others, and how to print the schedules, on stderr. */
void explain_selection(const struct select_args *, const struct selection *);

#endif
