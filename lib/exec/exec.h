/*
 * The executor: runs the schedules of one rank over its connections and files, everything that may
 * overlap overlapped. It owns no thread but the file threads and never waits: exec_advance does
 * what can be done now, and the caller waits for events (connections, exec_fd).
 *
 * A job has one or several parts: vectors of a type, an operation and an algorithm of their own
 * (the tensors of each type of a checkpoint; with --each, each file), which all ranks list alike.
 * A vector larger than the memory goes through in W windows: window w is the same proportional
 * slice of every block. The windows of all parts are numbered through, and window g takes stream g
 * mod K. A stream is a set of buffers and a lane to and from every peer, and runs its windows one
 * after the other; so parts overlap as windows do, on one mesh.
 *
 * Units: elements, unless a name says bytes. Not thread-safe.
 */
#ifndef COLLCTL_EXEC_EXEC_H
#define COLLCTL_EXEC_EXEC_H

#include "algorithms/sched.h"
#include "lib/base/err.h"
#include "lib/data/reduce.h"
#include "lib/exec/fileio.h"
#include "lib/net/conn.h"

struct exec_part {
	const struct coll_algorithm *algorithm;
	struct coll_args args; /* off: of the whole vector; must live as long as the executor. The
	                        * same rank and size in all parts */
	enum reduce_op op;
	enum dtype dtype; /* of the wire and the buffers */
	bool ordered;     /* --order rank: floats are summed in f64 */
	double divisor;   /* of avg */
	bool late; /* the operation's last function is left to whoever stores the result, also
	            * where the schedule would apply it: dtype is wider than the file's, and
	            * it is to be rounded once */
	uint32_t windows; /* W >= 1 */
};

struct exec_conf {
	const struct exec_part *parts; /* must live as long as the executor */
	int nparts;                    /* >= 1 */
	int streams;                   /* K >= 1 */
	struct fileio_ops io;
	bool threads; /* file threads */
	/* exec_window_edges, looked at by exec_new alone; NULL: it finds them. */
	const uint8_t *edges;
	bool repeat; /* run again and again (exec_repeat) over lanes that stay open; one part,
	              * W = K = 1, no file threads */
	/* The connection to (out) or from @peer for @stream. Stays the caller's. */
	struct conn *(*conn)(void *ctx, int peer, bool out, int stream);
	void *conn_ctx;
};

struct exec;

struct exec *exec_new(const struct exec_conf *conf, struct err *err);
void exec_free(struct exec *);

/* Do what can be done now, at most some milliseconds of work. 1: finished (every lane has ended as
 * agreed, every element is stored); 0: wait for a connection or exec_fd; EXEC_AGAIN: there is more,
 * call again after a look at the other events; -1: error, with err->rank the peer where one is to
 * blame. */
#define EXEC_AGAIN 2
int exec_advance(struct exec *, struct err *err);
/* Of an executor that repeats and has finished: begin anew, with the same schedule, buffers and
 * lanes. The inputs are read once more; conf.io.read may leave the buffer as it is. */
void exec_repeat(struct exec *);
/* Readable when the files have moved; -1: never. The caller reads it dry before advancing. */
int exec_fd(const struct exec *);

struct exec_stats {
	uint64_t bytes_sent, bytes_received; /* payload */
	uint64_t bytes_moved;                /* sent, received, read and written: progress */
	uint64_t bytes_total;                /* what bytes_moved will be at the end, about: to a
	                                      * few elements a window */
	uint64_t messages;                   /* steps sent */
};
void exec_stats(const struct exec *, struct exec_stats *);
/* The peers that it waits for: those whose data is due, or that don't take what is sent. Fills at
 * most @cap, returns how many. */
int exec_waits_for(const struct exec *, int *peers, int cap);

/* Add the edges that a rank's schedule uses to @used[args->size], by peer: it sends to it, receives
 * from it. So that several schedules may share a mesh. */
#define EXEC_OUT 1
#define EXEC_IN  2
int exec_edges(const struct coll_algorithm *, const struct coll_args *, uint8_t *used,
               struct err *err);

/* The same over all windows of all parts of @conf: rounding cuts a window's blocks elsewhere than
 * the whole's, so it may have edges that the whole has not. */
int exec_window_edges(const struct exec_conf *conf, uint8_t *used, struct err *err);

/* Bytes of buffers that a window of the whole vector would take (W = 1, K = 1), and whether the
 * schedule applies the operation's last function itself. */
int exec_footprint(const struct coll_algorithm *, const struct coll_args *, enum reduce_op,
                   enum dtype, bool ordered, uint64_t *bytes, struct err *err);

#endif
