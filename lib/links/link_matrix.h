/*
 * The links of a job as `check` has measured them: for each ordered pair of ranks whether the link
 * works, its round trip and its bandwidth; and what the failures have in common. One thread, on the
 * coordinator.
 */
#ifndef COLLCTL_LINKS_LINK_MATRIX_H
#define COLLCTL_LINKS_LINK_MATRIX_H

#include "lib/base/buf.h"
#include "lib/job/failed_links.h"
#include "lib/job/ranks.h"

/* Ranks are those that take part, counted without gaps, except where a function says otherwise:
 * link_rank gives their numbers in the job. */

/* The link from one rank to another. Figures are 0 if they were not measured. */
struct link_cell {
	enum link_state state;
	bool by_sender;       /* the state was reported by the sender */
	double connect;       /* s, until TCP is connected */
	double handshake;     /* s, from then until the ends are authenticated */
	double least, median; /* s, of round trips */
	double rate;          /* bytes per second */
};

/* Does it carry data, even if more slowly than the user demands? */
static inline bool link_carries(const struct link_cell *c)
{
	return c->state == LINK_WORKS || c->state == LINK_SLOW;
}

/* A link is slow if its bandwidth is less than 1/LINK_FACTOR of the median of all links, or its
 * round trip is more than LINK_FACTOR times the median. */
#define LINK_FACTOR 3

/* The medians of a rank's links. Each is 0 unless most of these links, and at least two, are
 * slow. */
struct link_rank {
	double sends, receives; /* bytes per second */
	double round_trip;      /* s */
};

struct slow_link {
	double slowness; /* how many times slower than the median */
	int from, to;
};
/* The slow links, the slowest first, except those that a slow rank explains (struct link_rank). */
struct slow_links {
	struct slow_link *links;
	size_t n;
};

struct link_matrix {
	int size, all;           /* ranks that take part; of the job */
	const int *came;         /* [size], ascending: the numbers in the job, of the caller; NULL:
	                            0 to size - 1 */
	struct link_cell *cells; /* [size * size]: cells[from * size + to] */
	struct link_faults faults; /* why links fail, by numbers in the job; if they are many, not
	                              of all */
	/* Once link_matrix_end has run: */
	struct link_rank *ranks; /* [size] */
	/* The medians of all links that work; 0: none does, or not measured. */
	double connect, handshake, median, rate;
	int *home;     /* [size]: the lowest rank of each rank's host */
	bool *reaches; /* [size * size], indexed by home: does a link from one host to another work?
	                */
	struct slow_links low_rate, high_latency;
};

static inline struct link_cell *link_cell(const struct link_matrix *m, int from, int to)
{
	return &m->cells[(size_t)from * (size_t)m->size + (size_t)to];
}

/* The number in the job. */
static inline int link_rank(const struct link_matrix *m, int rank)
{
	return ranks_at(m->came, rank);
}

/* For @size ranks, all of the job. ERR_RESOURCE. The caller releases it in either case, and may set
 * `came` and `all` before the first report. */
int link_matrix_init(struct link_matrix *, int size, struct err *err);
void link_matrix_release(struct link_matrix *);

/* ---- what a rank reports ---- */

/* The figures of one link from this rank, in a report. */
struct link_figures {
	int to;                                         /* its number in the job */
	double connect, handshake, least, median, rate; /* as in struct link_cell */
};
/* A report is {u32 bytes of failures, failures as in LINKS, then for each link {u32 to, u64 ns * 4,
 * u64 bytes/s}}. @failures: job_failed_links. */
void link_report_begin(struct buf *, struct view failures);
void link_report_add(struct buf *, const struct link_figures *);
/* Add the report of the rank with the number @rank in the job. ERR_INTEGRITY. */
int link_matrix_take(struct link_matrix *, int rank, struct view report, struct err *err);

/* Why the link fails, as far as it is known; NULL: it is not. */
const struct link_fault *link_matrix_fault(const struct link_matrix *, int from, int to);

/* ---- the result ---- */

/* After all reports: compute the medians. @home: as in struct link_matrix; NULL: each rank has its
 * own host. ERR_RESOURCE. */
int link_matrix_end(struct link_matrix *, const int *home, struct err *err);

enum link_finding_kind {
	/* The links of rank `from` with two or more other ranks fail. They work with rank `to`; to
	 * -1: with none. */
	LINKS_OF,   /* in both directions */
	LINKS_TO,   /* from the others to it */
	LINKS_FROM, /* from it to the others */
	/* Most links of rank `from` are slow: */
	RANK_SENDS_SLOWLY,
	RANK_RECEIVES_SLOWLY,
	RANK_FAR, /* long round trips */
	/* One link or pair of links: */
	LINK_BOTH_WAYS, /* neither from -> to nor to -> from works */
	LINK_ONE_WAY,   /* from -> to fails, to -> from works */
	LINK_LOW_RATE,
	LINK_HIGH_LATENCY,
};
struct link_finding {
	enum link_finding_kind kind;
	int from, to;
	bool hosts; /* `from` and `to` stand for their hosts: for all links between these */
};
/* After link_matrix_end: the findings about the links, the worst first: hosts and ranks whose links
 * with all others fail; other pairs that fail; slow links, the slowest first. Writes at most @cap.
 * Returns their number; if this is more than @cap, it may be too low. */
size_t link_matrix_findings(const struct link_matrix *, struct link_finding *, size_t cap);

#endif
