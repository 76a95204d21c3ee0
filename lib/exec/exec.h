/*
 * The executor: runs the schedules of one rank over its connections and files, and overlaps all
 * steps whose dependencies allow it. It never waits: exec_advance does the work that is possible,
 * and the caller waits for events of connections and of exec_fd.
 *
 * Terms. A vector has a type, an operation and an algorithm: for instance the tensors of one type
 * of a checkpoint or, with --each, of one file. All ranks list the same vectors. A window is a part
 * of a vector: window w of W has the same proportional slice of every block. The windows of all
 * vectors have consecutive numbers. A stream is a set of buffers, and a lane (one connection) to
 * and from every peer. There are K streams; window g runs on stream g mod K, and a stream runs its
 * windows one after the other. So windows of one vector and of several vectors overlap.
 *
 * Units: elements, unless a name says bytes. One thread uses an executor: the one whose loop
 * watches its connections. Only conf.io runs on the file threads.
 */
#ifndef COLLCTL_EXEC_EXEC_H
#define COLLCTL_EXEC_EXEC_H

#include "lib/base/err.h"
#include "lib/data/kernels/reduce.h"
#include "lib/exec/coded.h"
#include "lib/exec/fileio.h"
#include "lib/exec/memory_space.h"
#include "lib/exec/trace.h"
#include "lib/net/conn.h"
#include "lib/sched/sched.h"

struct exec_vector {
	const struct coll_algorithm *algorithm;
	struct coll_args args; /* of the whole vector. The arrays must outlive the executor */
	/* [args.size], ascending: the ranks that take part in this vector, which args numbers from
	 * 0. It must outlive the executor. NULL: ranks 0 to args.size - 1. A rank that
	 * does not take part has a vector of size 1 without elements, in as many windows. */
	const int *ranks;
	enum reduce_op op;
	enum dtype dtype; /* of the lanes and the buffers */
	bool ordered;     /* --order rank: accumulate floats in f64 */
	double divisor;   /* of an average */
	double trim;      /* of a trimmed mean: as in joint_cut; args.joint must be set */
	bool defer_final; /* conf.io.write, not the schedule, applies the operation's final
	                     function: dtype is wider than the file's type, and the result must be
	                     rounded only once */
	uint32_t windows; /* W >= 1 */
};

struct exec_conf {
	const struct exec_vector *vectors; /* must outlive the executor */
	int nvectors;                      /* >= 1 */
	int size;    /* peers are below this; 0: below args.size of the first vector */
	int streams; /* K >= 1 */
	/* Several executors may share the streams of a rank (team.h): this one runs the streams
	 * member, member + members, ... members 0: it runs all streams. */
	int members, member;
	struct fileio_ops io;
	bool threads;                    /* file threads */
	const struct memory_space *host; /* for buffers in host memory; NULL: memory_host */
	const struct memory_space *const *devices; /* [ndevices], for buffers in device memory */
	int ndevices;                              /* at least args.devices of every vector */
	/* The edges of all windows (exec_window_edges); only exec_new reads them. NULL: exec_new
	 * finds them. */
	const uint8_t *edges;
	/* The most bytes of a coded piece on lanes between hosts (coded.h); 0: they are not coded.
	 */
	size_t piece;
	bool timed; /* measure exec_times: a few readings of the clock per turn of a lane */
	struct trace *trace; /* with timed: record events here; NULL: none */
	/* Begin with this window: the ones before it are complete on all ranks (exec_complete). */
	uint64_t first;
	bool repeat; /* the lanes are not ended, for another run over them: of another executor, or
	                by exec_repeat, which needs one vector, W = K = 1, no file threads */
	/* Returns the connection to (@out) or from @peer for @stream, which the caller owns and
	 * which must outlive the executor. */
	struct conn *(*conn)(void *ctx, int peer, bool out, int stream);
	void *conn_ctx;
};

static inline int exec_ranks(const struct exec_conf *conf)
{
	return conf->size ? conf->size : conf->vectors[0].args.size;
}

struct exec;

/* Takes the connections' events (conn.on_ready). *conf is copied. NULL: ERR_RESOURCE. */
struct exec *exec_new(const struct exec_conf *conf, struct err *err);
void exec_free(struct exec *); /* also ends the file threads and cancels tasks; NULL: nothing */

/* Do the work that is possible, for at most a few milliseconds. 1: finished: every lane has ended
 * correctly, and every element is stored; 0: wait for an event of a connection or exec_fd;
 * EXEC_AGAIN: more work is possible: handle other events and call again; -1: error: ERR_PEER_LOST
 * or ERR_INTEGRITY of the peer err->rank, the error of conf.io, or ERR_RESOURCE. */
#define EXEC_AGAIN 2
int exec_advance(struct exec *, struct err *err);
/* The number of the first window that is not complete in this executor's streams: all that come
 * before it have their steps done, so their elements are stored. When the executor has finished:
 * the number of windows. May be called at any time after exec_new, also after a failure. */
uint64_t exec_complete(const struct exec *);
/* Restart a finished executor, with the same schedule, buffers and lanes. Requires conf.repeat.
 * conf.io.read is called again, and may leave the buffer unchanged. */
void exec_repeat(struct exec *);
/* Take the events of the connections again: before a run, if several executors use them in turn. */
void exec_watch_lanes(struct exec *);
/* An eventfd that is readable when a file job has progressed; -1: there are no file threads. Before
 * exec_advance the caller makes it unreadable (event_clear). */
int exec_fd(const struct exec *);

/* What the steps move, for progress: between files and buffers, and between ranks (EXEC_WIRE: sent
 * and received). */
enum exec_moves { EXEC_READ, EXEC_WIRE, EXEC_WRITE, EXEC_MOVES };
struct exec_stats {
	uint64_t bytes_sent, bytes_received; /* payload */
	uint64_t moved[EXEC_MOVES];          /* bytes */
	uint64_t total[EXEC_MOVES]; /* what `moved` will be at the end; the error is at most a few
	                               elements per window */
	uint64_t messages;          /* number of SEND steps that were sent */
	struct coded_count coded;   /* with conf.piece, of what was sent and received */
};
void exec_stats(const struct exec *, struct exec_stats *);
/* Add what @s counts to *sum, but for the totals. */
void exec_stats_add(struct exec_stats *sum, const struct exec_stats *s);

/* What the threads that run streams spend their time on. While a thread sleeps, it waits for
 * whatever makes the next progress. */
enum spent {
	SPENT_READ,    /* waiting for elements of the inputs; without file threads, reading them */
	SPENT_WRITE,   /* the same for the output */
	SPENT_DEVICE,  /* waiting for a device */
	SPENT_RECV,    /* waiting for data of peers */
	SPENT_SEND,    /* waiting until connections accept data */
	SPENT_NETWORK, /* system calls that send and receive */
	SPENT_CIPHER,  /* encryption and decryption; without TLS, checksums */
	SPENT_ARITHMETIC, /* reductions, conversions and copies */
	SPENT_OTHER,
	SPENT_KINDS
};
struct exec_times {
	int threads;              /* number of threads that run streams; 0: not timed */
	int64_t ns[SPENT_KINDS];  /* their sum is the time of all these threads */
	int64_t reading, writing; /* ns in which the file threads transferred data */
	int64_t contended; /* ns in which a thread was ready and had no processor; included in ns */
	int64_t *peers;    /* [exec_ranks], owned by the caller: ns of RECV and SEND by peer */
};
/* Add the times of a finished executor to *sum. Requires conf.timed. */
void exec_times(const struct exec *, struct exec_times *sum);

/* Write up to @cap peers for which the executor waits to @peers: their data are due, or they do not
 * accept data. Returns their number. */
int exec_waits_for(const struct exec *, int *peers, int cap);
/* Write to @text[cap] the device and the step for which the executor waits; "": none. */
void exec_waits_for_device(const struct exec *, char *text, size_t cap);

/* Add the edges of a rank's schedule to @used[args->size]: for each peer, EXEC_OUT if the rank
 * sends to it, EXEC_IN if it receives from it. Several schedules can share a mesh of all their
 * edges. ERR_RESOURCE. */
#define EXEC_OUT 1
#define EXEC_IN  2
int exec_edges(const struct coll_algorithm *, const struct coll_args *, uint8_t *used,
               struct err *err);

/* The same for all windows of all vectors of @conf. A window may use edges that the whole vector
 * does not use, because its blocks are rounded. */
int exec_window_edges(const struct exec_conf *conf, uint8_t *used, struct err *err);

/* Compute what the schedules of @conf's windows will send and receive: bytes_sent, bytes_received
 * and messages; the other members are 0. */
int exec_foresee(const struct exec_conf *conf, struct exec_stats *, struct err *err);

/* Compute *bytes, the size of the buffers if the whole vector is one window (W = K = 1), without
 * devices. */
int exec_footprint(const struct coll_algorithm *, const struct coll_args *, enum reduce_op,
                   enum dtype, bool ordered, uint64_t *bytes, struct err *err);

#endif
