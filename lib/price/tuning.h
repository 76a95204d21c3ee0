/*
 * The tuning file (--tuning FILE): rates and measurements by `bench`, by which `auto` chooses. One
 * thread.
 *
 *     {"version": 1,
 *      "rates": {"latency": 5e-05, "egress": 8.5e-10, ...},
 *      "memory_rates": {...},
 *      "hosts": {"node1": {"egress": 8.5e-09, "ingress": 8.5e-09}, ...},
 *      "round_trips": {"node1": {"node2": 0.0005}, ...},
 *      "measured": [{"collective": "allreduce", "size": 4, "secure": true, "bytes": 4096,
 *                    "times": {"circulant": 0.00021, "recursive_doubling": 0.00013}}, ...]}
 *
 * "rates" has the members of struct price_model by name, in seconds, seconds per byte and bytes.
 * "memory_rates" has those of ranks that send through shared memory. "hosts" has the rates of the
 * hosts' ports, in seconds per byte, and "round_trips" those between two of these hosts, once for
 * each two, in seconds; `check` writes both. A missing member has the
 * built-in rate; both objects may be missing. In "measured", "size" is the number of ranks, "bytes"
 * the size of the vector (coll_count() elements); "memory": true is a measurement through shared
 * memory. `bench` writes the same rates of devices to both objects, and keeps the old ones if it
 * measures no device. Unknown keys, collectives and algorithms are errors, which name the file and
 * the key.
 */
#ifndef COLLCTL_PRICE_TUNING_H
#define COLLCTL_PRICE_TUNING_H

#include "lib/base/err.h"
#include "lib/price/select.h"

/* Set the built-in rates and no measurements. */
void tuning_init(struct select_tuning *t);
void tuning_release(struct select_tuning *t);

/* Read the file into *t, which need not be initialised. It may be a pipe, whose next bytes may take
 * ten seconds. The caller releases it in either case. ERR_INPUT. */
int tuning_read(struct select_tuning *t, const char *path, struct err *err);
/* The same for a file that `bench` or `check` will replace: @path may be NULL, need not exist, and
 * is not read if it is no regular file, which is never replaced. */
int tuning_read_old(struct select_tuning *t, const char *path, struct err *err);

/* Add a measurement. It replaces one of the same algorithm, size, connection and bytes. Seconds
 * must be positive. ERR_RESOURCE. */
int tuning_add(struct select_tuning *t, const struct select_measured *m, struct err *err);

/* Add a host's port. Then, once, tuning_settle_hosts; then round trips between these hosts; between
 * others, and if there are more than TUNED_HOSTS of them, they are ignored. Of hosts with the same
 * name, and of two round trips, the slower count. Seconds must be positive. ERR_RESOURCE. */
#define TUNED_HOSTS 1024
int tuning_add_host(struct select_tuning *t, const char *name, struct price_port port,
                    struct err *err);
int tuning_settle_hosts(struct select_tuning *t, struct err *err);
void tuning_add_trip(struct select_tuning *t, const char *a, const char *b, double round_trip);
/* Forget hosts and round trips. */
void tuning_clear_hosts(struct select_tuning *t);

/* Add what it knows of the hosts of a network, @names[n->n] ("" or NULL: not known), to it. */
void tuning_apply(const struct select_tuning *t, const char *const *names, struct network *);

/* Write *t to @path; an old file is replaced only when the new one is complete. ERR_OUTPUT. */
int tuning_write(const struct select_tuning *t, const char *path, struct err *err);

#endif
