/*
 * The executor: runs the schedules of one rank over its connections and files, and overlaps all
 * steps that the schedules allow. Its only threads are the file threads. It never waits:
 * exec_advance does the work that is possible now, and the caller waits for events (connections,
 * exec_fd).
 *
 * A job has one or several vectors, each with a type, an operation and an algorithm (the tensors of
 * each type of a checkpoint; with --each, each file). All ranks list the same vectors. A vector
 * larger than the memory is processed in W windows: window w is the same proportional slice of
 * every block. The windows of all vectors are numbered consecutively, and window g uses stream g
 * mod K. A stream is a set of buffers and a lane to and from every peer. It runs its windows one
 * after the other. So vectors overlap like windows, on one mesh.
 *
 * Units: elements, unless a name says bytes. Not thread-safe.
 */
#ifndef COLLCTL_EXEC_EXEC_H
#define COLLCTL_EXEC_EXEC_H

#include "lib/base/err.h"
#include "lib/data/kernels/reduce.h"
#include "lib/exec/fileio.h"
#include "lib/exec/memory_space.h"
#include "lib/exec/trace.h"
#include "lib/net/conn.h"
#include "lib/sched/sched.h"

struct exec_vector {
	const struct coll_algorithm *algorithm;
	struct coll_args args; /* off: of the whole vector; must outlive the executor. Rank and
	                        * size are the same in all vectors */
	enum reduce_op op;
	enum dtype dtype; /* of the wire and the buffers */
	bool ordered;     /* --order rank: sum floats in f64 */
	double divisor;   /* of avg */
	bool defer_final; /* the writer of the result applies the operation's final function even if
	                     the schedule would do so: dtype is wider than the file's type, and the
	                     result must be rounded only once */
	uint32_t windows; /* W >= 1 */
};

struct exec_conf {
	const struct exec_vector *vectors; /* must outlive the executor */
	int nvectors;                      /* >= 1 */
	int streams;                       /* K >= 1 */
	/* Several executors may run the streams of a rank, each on a thread (team.h): this one runs
	 * streams member, member + members, ... members 0: it runs all. */
	int members, member;
	struct fileio_ops io;
	bool threads; /* file threads */
	const struct memory_space
	        *host; /* of the windows' buffers in host memory; NULL: memory_host
	                */
	const struct memory_space *const *devices; /* [ndevices], of those in device memory */
	int ndevices;                              /* at least args.devices of every vector */
	/* From exec_window_edges; only exec_new reads it. NULL: exec_new finds the edges. */
	const uint8_t *edges;
	bool timed;          /* exec_times: costs a few readings of the clock per turn of a lane */
	struct trace *trace; /* with timed: what the executor does and when; NULL: not recorded */
	bool repeat; /* allow exec_repeat, over lanes that stay open; one vector, W = K = 1, no file
	                threads */
	/* The connection to (out) or from @peer for @stream. The caller owns it. */
	struct conn *(*conn)(void *ctx, int peer, bool out, int stream);
	void *conn_ctx;
};

struct exec;

struct exec *exec_new(const struct exec_conf *conf, struct err *err);
void exec_free(struct exec *);

/* Do the work that is possible now, for at most some milliseconds. 1: finished (every lane has
 * ended correctly, every element is stored); 0: wait for a connection or exec_fd; EXEC_AGAIN: more
 * work is possible, call again after handling other events; -1: error, with err->rank the peer that
 * caused it, if any. */
#define EXEC_AGAIN 2
int exec_advance(struct exec *, struct err *err);
/* Start again with the same schedule, buffers and lanes. Requires conf.repeat and a finished
 * executor. Reads the inputs again; conf.io.read may leave the buffer unchanged. */
void exec_repeat(struct exec *);
/* Before a run: take the events of the connections, if executors run over them in turn. */
void exec_watch_lanes(struct exec *);
/* Readable when a file job has progressed; -1: never. The caller empties it before exec_advance. */
int exec_fd(const struct exec *);

struct exec_stats {
	uint64_t bytes_sent, bytes_received; /* payload */
	uint64_t bytes_moved;                /* sent, received, read and written: progress */
	uint64_t bytes_total;                /* bytes_moved at the end, to within a few elements
	                                      * per window */
	uint64_t messages;                   /* steps sent */
};
void exec_stats(const struct exec *, struct exec_stats *);

/* What the threads that run streams spend their time on. A thread that slept waited for what made
 * the next progress. */
enum spent {
	SPENT_READ,    /* waiting for elements of the inputs (or, without file threads, reading) */
	SPENT_WRITE,   /* the same of the output */
	SPENT_DEVICE,  /* waiting for a device */
	SPENT_RECV,    /* waiting for data of peers */
	SPENT_SEND,    /* waiting until connections take data */
	SPENT_NETWORK, /* system calls that send and receive */
	SPENT_CIPHER,  /* encryption; without TLS, checksums */
	SPENT_ARITHMETIC, /* reductions, conversions and copies */
	SPENT_OTHER,
	SPENT_KINDS
};
struct exec_times {
	int threads;              /* 0: not timed */
	int64_t ns[SPENT_KINDS];  /* their sum: the time of all threads */
	int64_t reading, writing; /* ns of transfers of files, by the file threads meanwhile */
	int64_t contended; /* ns in which a thread was ready and had no processor; part of ns */
	int64_t *peers;    /* [size], the caller's: ns of RECV and SEND, by peer */
};
/* Add the times of a finished executor. Requires conf.timed. */
void exec_times(const struct exec *, struct exec_times *sum);

/* The peers that the executor waits for: their data are due, or they do not accept data. Fills at
 * most @cap and returns their number. */
int exec_waits_for(const struct exec *, int *peers, int cap);
/* The device and the step for which the executor waits, in words; "": it waits for none. */
void exec_waits_for_device(const struct exec *, char *text, size_t cap);

/* Add the edges that a rank's schedule uses to @used[args->size]: for each peer, whether the rank
 * sends to it and receives from it. So several schedules can share a mesh. */
#define EXEC_OUT 1
#define EXEC_IN  2
int exec_edges(const struct coll_algorithm *, const struct coll_args *, uint8_t *used,
               struct err *err);

/* The same for all windows of all vectors of @conf: because of rounding, the blocks of a window may
 * use edges that the whole vector does not use. */
int exec_window_edges(const struct exec_conf *conf, uint8_t *used, struct err *err);

/* What the schedules of @conf's windows send and receive: bytes_sent, bytes_received and messages.
 * The other members are 0. */
int exec_foresee(const struct exec_conf *conf, struct exec_stats *, struct err *err);

/* The buffer bytes of the whole vector as one window (W = 1, K = 1), without devices. */
int exec_footprint(const struct coll_algorithm *, const struct coll_args *, enum reduce_op,
                   enum dtype, bool ordered, uint64_t *bytes, struct err *err);

#endif
