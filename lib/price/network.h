/*
 * The network of a job, as far as it is known before data move: the rates of each host's port, and
 * how far away the hosts are. Rank 0 fills it from what the ranks offer (network_add) and from the
 * tuning file (tuning_apply), completes it (network_settle), and plans by it.
 *
 * The rates of interfaces and those that users give are the same every time. A round trip is
 * measured, so it counts in classes (network_class): noise does not change the choice of an
 * algorithm, and with it the bits of sums. One thread.
 */
#ifndef COLLCTL_PRICE_NETWORK_H
#define COLLCTL_PRICE_NETWORK_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/price/price.h"
#include "lib/sched/coll_args.h"

/* The part of an interface's rate that data get; the rest is headers. */
#define NETWORK_PAYLOAD 0.94

/* Where the rates of a host are from; a later source replaces an earlier one. */
enum network_from {
	NETWORK_UNKNOWN,
	NETWORK_INTERFACE, /* the speed of the interface */
	NETWORK_TUNING,    /* measured: a tuning file */
	NETWORK_TOLD,      /* --link-rate */
	NETWORK_SOURCES
};
const char *network_from_name(enum network_from); /* "interface", ...; NULL: not known */

/* What a rank knows of the port of its host, in bytes per second. */
struct network_found {
	uint64_t up, down; /* 0: not known */
	unsigned from;     /* enum network_from */
	uint64_t limit;    /* --limit-rate; 0: none */
	uint64_t socket;   /* bytes that one TCP connection can have on its way (socket_buffer.h) */
};

struct network_host {
	struct network_found found;
	double round_trip; /* s, to the planning rank; 0: not known */
};

struct network {
	int n;      /* hosts */
	bool tuned; /* there is a tuning file: interfaces and measured round trips do not count */
	struct network_host *host; /* [n] */
	struct price_port *port;   /* [n], from network_settle on */
	uint64_t socket;           /* the least network_found.socket of all ranks; 0: not known */
	/* From network_settle on: */
	bool known;                /* a rate, a limit or a round trip is known */
	bool limited;              /* there is a limit */
	bool uneven;               /* ports have different rates */
	struct price_port slowest; /* of all */
	double round_trip; /* s: the longest, by its class; or as a tuning file has it, if the
	                      caller sets it before; 0: not known, or near */
};

/* For @n hosts, of which nothing is known. @tuned: as in the struct. ERR_RESOURCE. The caller
 * releases it in either case. */
int network_init(struct network *, int n, bool tuned, struct err *err);
void network_release(struct network *);

/* Add what a rank of host @h has found. Of ranks that disagree, the better source counts, and then
 * the lower rate. */
void network_add(struct network *, int h, const struct network_found *);
/* Host @h is @round_trip seconds away; the shortest counts. */
void network_add_round_trip(struct network *, int h, double round_trip);

/* Complete the ports. A host of which nothing is known has the rates of the slowest known one, or
 * else those of @base. */
void network_settle(struct network *, const struct price_model *base);

/* The round trip that counts for a measured one: 0 below 0.5 ms, where the rates of the model
 * count; 4^k ms from half of it to below twice of it. */
double network_class(double round_trip);

/* After network_settle: the bytes/s of the slowest port; 0: the rate of no port is known, or all
 * ranks are on one host. */
double network_rate(const struct network *);

/* After network_settle: the bytes on the way that fill the fastest link, its rate times the longest
 * round trip, which counts by its class; a port whose rate is not known counts by its price. 0: the
 * hosts are near. */
uint64_t network_bdp(const struct network *);

/* The shares of the vector, FILL_ALL in all, that the ranks own in a direct exchange by the rates
 * of their hosts (fill.h), into @share[args->size]; for a broadcast, from args->root. The first
 * rank of a host owns the host's share; if contributions must be added in rank order, or all at
 * once, its ranks own equal parts of it. @n NULL: all hosts are equal. ERR_RESOURCE. */
int network_shares(const struct network *n, enum coll_kind kind, const struct coll_args *args,
                   uint32_t *share, struct err *err);

/* @m with what is known. It borrows the ports. */
struct price_model network_model(const struct network *, const struct price_model *m);

#endif
