/*
 * The links of a job as `check` measured them: for each ordered pair of ranks whether the link
 * works, its round trip and its bandwidth; and what the failures have in common.
 */
#ifndef COLLCTL_LINKS_LINK_MATRIX_H
#define COLLCTL_LINKS_LINK_MATRIX_H

#include "lib/base/buf.h"
#include "lib/job/failed_links.h"

/* The link from one rank to another. Of a link that fails the figures may be missing (0). */
struct link_cell {
	enum link_state state;
	bool by_sender; /* who says so */
	/* 0: not measured */
	double connect;       /* s, until the connection is established */
	double handshake;     /* s, from there until its ends are authenticated */
	double least, median; /* s, of round trips */
	double rate;          /* bytes per second */
};

/* Does it carry data, even if more slowly than the user demands? */
static inline bool link_carries(const struct link_cell *c)
{
	return c->state == LINK_WORKS || c->state == LINK_SLOW;
}

/* A link is slow if its bandwidth is less than 1/LINK_FACTOR of the median of all, or its round
 * trip more than LINK_FACTOR times. */
#define LINK_FACTOR 3

/* The medians of a rank's links, if most of them, and at least two, are slow; else 0. */
struct link_rank {
	double sends, receives; /* bytes per second */
	double round_trip;      /* s */
};

struct slow_link {
	double slowness; /* how many times slower than the median */
	int from, to;
};
/* Links that are slower than LINK_FACTOR times, the slowest first, without those whose slowness is
 * that of one of their ranks (struct link_rank). */
struct slow_links {
	struct slow_link *links;
	size_t n;
};

struct link_matrix {
	int size;
	struct link_cell *cells;   /* [size * size]: cells[from * size + to] */
	struct link_faults faults; /* why links fail; of many, only of some */
	/* Once link_matrix_end has run: */
	struct link_rank *ranks; /* [size] */
	/* The medians of all links that work; 0: none does, or not measured. */
	double connect, handshake, median, rate;
	int *home;     /* [size]: the lowest rank of each rank's host */
	bool *reaches; /* [size * size], by `home`: does a link from the one host to the other work?
	                */
	struct slow_links low_rate, high_latency;
};

static inline struct link_cell *link_cell(const struct link_matrix *m, int from, int to)
{
	return &m->cells[(size_t)from * (size_t)m->size + (size_t)to];
}

/* ERR_RESOURCE. The caller releases it in either case. */
int link_matrix_init(struct link_matrix *, int size, struct err *err);
void link_matrix_release(struct link_matrix *);

/* ---- what a rank reports ---- */

/* The figures of one link from this rank, in a report. */
struct link_figures {
	int to;
	double connect, handshake, least, median, rate; /* as in struct link_cell */
};
/* {u32 bytes of failures, failures as in LINKS, {u32 to, u64 ns * 4, u64 bytes/s} ...} */
void link_report_begin(struct buf *, struct view failures);
void link_report_add(struct buf *, const struct link_figures *);
/* Add the report of @rank. ERR_INTEGRITY. */
int link_matrix_take(struct link_matrix *, int rank, struct view report, struct err *err);

/* ---- the result ---- */

/* All reports have been taken: compute the medians. @home: as in struct link_matrix; NULL: each
 * rank has another host. ERR_RESOURCE. */
int link_matrix_end(struct link_matrix *, const int *home, struct err *err);

/* `from` has failed with two ranks or more, and works with one (`to`) or none (-1). */
enum link_finding_kind {
	LINKS_OF,   /* in both directions */
	LINKS_TO,   /* the others to it */
	LINKS_FROM, /* it to the others */
	/* Most of the links of `from` are slow: */
	RANK_SENDS_SLOWLY,
	RANK_RECEIVES_SLOWLY,
	RANK_FAR,
	/* One link or pair: */
	LINK_BOTH_WAYS, /* neither from -> to nor to -> from works */
	LINK_ONE_WAY,   /* only to -> from works */
	LINK_LOW_RATE,
	LINK_HIGH_LATENCY,
};
struct link_finding {
	enum link_finding_kind kind;
	int from, to;
	bool hosts; /* `from` and `to` stand for all ranks of their hosts, and for the links between
	             * hosts */
};
/* What is to be said about the links, the worst first: hosts and ranks that fail with all others,
 * pairs that fail besides, links that are much slower than the others, the slowest first. Fills at
 * most @cap; returns how many there are, or more than @cap. After link_matrix_end. */
size_t link_matrix_findings(const struct link_matrix *, struct link_finding *, size_t cap);

#endif
