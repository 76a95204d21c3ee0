/*
 * The tuning file (--tuning FILE): what `bench` has measured, for `auto` to choose by.
 *
 *     {"version": 1,
 *      "rates": {"latency": 5e-05, "egress": 8.5e-10, ...},
 *      "measured": [{"collective": "allreduce", "size": 4, "secure": true, "bytes": 4096,
 *                    "times": {"circulant": 0.00021, "recursive_doubling": 0.00013}}, ...]}
 *
 * "rates" has the members of struct price_model by name, in seconds, seconds a byte and bytes;
 * those left out are the built-in ones. Both lists may be absent. "size" is the number of ranks,
 * "bytes" the vector's (coll_count() elements). Unknown keys, collectives and algorithms are
 * errors, which name the file and the key.
 */
#ifndef COLLCTL_CMD_TUNING_H
#define COLLCTL_CMD_TUNING_H

#include "lib/base/err.h"
#include "lib/exec/select.h"

/* The built-in rates, nothing measured. */
void tuning_init(struct select_tuning *t);
void tuning_release(struct select_tuning *t);

/* Read the file into *@t, which need not be initialised; release it in either case. ERR_INPUT. */
int tuning_read(struct select_tuning *t, const char *path, struct err *err);

/* Add a measurement; one of the same algorithm, size, connection and bytes is replaced. Seconds are
 * above 0. ERR_RESOURCE. */
int tuning_add(struct select_tuning *t, const struct select_measured *m, struct err *err);

/* Write the whole to @path: the old file stays until the new one is complete. ERR_OUTPUT. */
int tuning_write(const struct select_tuning *t, const char *path, struct err *err);

#endif
