/*
 * Internal to the executor: exec.c (creation and the main loop), vector_ops.c (vectors and the
 * schedules of their windows), window.c (a stream's window: its buffers and file jobs), lane.c
 * (sending and receiving), local.c (tasks: arithmetic and copies). All on the executor's thread.
 */
#ifndef COLLCTL_EXEC_EXEC_INTERNAL_H
#define COLLCTL_EXEC_EXEC_INTERNAL_H

#include <xxhash.h>

#include "lib/exec/budget.h"
#include "lib/exec/exec.h"
#include "lib/exec/memory_space.h"

#define QUANTUM     (256u << 10) /* bytes of one turn of a lane; the scratch stays in L2 */
#define TRAILER     16           /* u64 byte count, u64 XXH3-64 of the lane's bytes (TLS) */
#define ELEMENT_MAX 16           /* bytes of the largest element, and its alignment */

/* A vector and values that its steps need, computed once. */
struct vector_ops {
	const struct exec_vector *conf;
	uint64_t first; /* the number of its first window, among those of all vectors */
	struct coll_layout layout;
	enum dtype dtype, acc;
	size_t esize, acc_esize;
	int cut; /* of a trimmed mean: as in struct joint */
};

/* The collective that a window runs. */
struct window {
	const struct coll_algorithm *algorithm; /* NULL: none yet */
	struct coll_args args;
	const int *ranks;         /* as in struct exec_vector */
	uint64_t *off, *recv_off; /* args.off and args.recv_off, [size + 1] */
};

/* A lane: one connection of a stream, to or from one peer, and the steps of the current window that
 * use it, in order. The head step is the first that is not finished. */
struct lane {
	struct exec *exec;
	struct stream *stream;
	bool queued; /* in exec.ready */
	struct conn *conn;
	struct conn *coded; /* that is conn, over the caller's connection; NULL: it is not coded */
	int peer;
	bool out;
	uint32_t *steps;
	uint32_t nsteps, head;
	uint64_t bytes; /* bytes of the head step that the connection has accepted or delivered */
	/* Of a sender that lends (conn.h): the first step that the peer may not have consumed, and
	 * the offset in the connection's bytes at which it begins. */
	uint32_t tail;
	uint64_t tail_at;
	int64_t began;      /* with a trace: clock_ns() of the head step's first byte */
	uint32_t number;    /* with a trace: the head step's index among the lane's messages */
	uint64_t total;     /* bytes in all windows */
	XXH3_state_t *hash; /* NULL: the connection has its own checksum */
	uint8_t carry[ELEMENT_MAX]; /* ncarry bytes of an element that has not fully arrived and is
	                               to be added */
	size_t ncarry;
	uint8_t ahead; /* if has_ahead: the first byte of the stream, read before its step */
	bool has_ahead;
	bool starved; /* the last turn ended because the connection had no data */
	/* the end of the lane */
	uint8_t trailer[TRAILER];
	size_t trailer_done;
	bool trailer_made, ended;
};

/* A local or file step whose task is running. */
struct pending {
	struct stream *stream;
	uint64_t to; /* the step's progress once the task is complete */
	void (*then)(struct stream *s, uint32_t i);
	const char *device; /* that runs the task */
	bool busy;
};

/* The clock of an executor's thread (conf.timed). */
struct stopwatch {
	int64_t ns[SPENT_KINDS];
	int64_t lap;       /* clock_ns() up to which all time is counted, in ns or idle */
	bool asleep;       /* the thread has slept since lap */
	int64_t idle;      /* ns of sleep whose cause is not known yet */
	int64_t idle_from; /* clock_ns() at which this sleep began */
	int64_t contended; /* as in exec_times; negative while it is measured */
	bool started;
	int64_t *peers; /* [size] */
	/* Consecutive pieces of one local step make one event of the trace; end 0: none. */
	struct trace_event local;
};

/* A stream's memory in host memory or on a device. */
struct stream_memory {
	uint8_t *p;
	size_t size;
};

/* Which part of the executor runs a step. */
struct owner {
	enum { OWNER_LOCAL, OWNER_FILE, OWNER_LANE } kind;
	uint32_t index; /* of the file job, or of the lane */
};

struct stream {
	struct exec *exec;
	uint64_t number; /* the current window, numbered among those of all vectors */
	int64_t began;   /* with a trace: clock_ns() of the current window's start */
	bool done;       /* all its windows are done */
	const struct vector_ops *vector; /* the current window's */
	struct window window;
	struct sched *sched;
	bool copies;               /* sends are not lent (COLL_COPIES) */
	struct fileio_map in, out; /* where the window's blocks are in the files */
	uint64_t *progress;        /* per step: elements that are done */
	uint32_t left;             /* number of steps that are not finished */
	struct pending *pending;   /* per step */
	uint8_t **bufs;
	struct stream_memory *memory; /* [1 + ndevices]: the buffers, by sched_buf.place */
	struct stream_memory stage;   /* in host memory: for file data of buffers on devices */
	size_t *stage_at; /* per buffer: where the stage has its data; SIZE_MAX: nowhere */
	struct lane *lanes;
	uint32_t *lane_steps; /* the steps of the lanes, lane by lane */
	struct owner *owner;  /* per step */
	/* The steps that wait for step i: waiting[first_waiting[i] .. first_waiting[i+1]). */
	uint32_t *first_waiting, *waiting;
	/* Local and file steps that may be able to continue: a ring without duplicates. */
	uint32_t *todo, todo_head, todo_len;
	bool *in_todo;
	struct fileio_job *jobs; /* one per READ or WRITE step */
	uint32_t *job_steps, njobs;
	uint32_t *open_jobs, nopen; /* not finished */
};

struct exec {
	struct exec_conf conf;
	const struct memory_space **spaces; /* [1 + ndevices]: by place */
	struct err why;                     /* a task failed */
	struct vector_ops *vectors;
	uint64_t windows; /* of all vectors */
	struct fileio io;
	bool io_ready;
	struct stream *streams; /* [nstreams]: those that this executor runs */
	int nstreams;
	int *lane_out, *lane_in; /* peer -> index of its lane in every stream, or -1 */
	int nlanes;
	int open_lanes;      /* of all streams: lanes that have not ended */
	int open_streams;    /* streams that are not done */
	bool silent;         /* a connection has no descriptor that reports events */
	struct lane **ready; /* lanes that may be able to continue: a ring without duplicates */
	uint32_t ready_head, ready_len, ready_cap;
	unsigned moves;                  /* io.moves at the last check of the jobs */
	uint8_t *scratch;                /* [QUANTUM + ELEMENT_MAX] */
	uint64_t moves_once[EXEC_MOVES]; /* stats.total of one run */
	uint64_t begun;                  /* number of windows that have begun, of all streams */
	struct exec_stats stats;
	struct coder *coder; /* of coded lanes; NULL: there are none */
	struct stopwatch watch;
};

/* The number of stream @s among all streams of the rank. */
static inline int stream_number(const struct exec *x, const struct stream *s)
{
	int k = (int)(s - x->streams);
	return x->conf.members ? x->conf.member + k * x->conf.members : k;
}

static inline enum dtype buf_dtype(const struct stream *s, uint32_t buf)
{
	return s->sched->bufs[buf].type == SCHED_ACC ? s->vector->acc : s->vector->dtype;
}

static inline size_t buf_esize(const struct stream *s, uint32_t buf)
{
	return s->sched->bufs[buf].type == SCHED_ACC ? s->vector->acc_esize : s->vector->esize;
}

static inline uint8_t *at(const struct stream *s, struct sched_span span)
{
	return s->bufs[span.buf] + span.off * buf_esize(s, span.buf);
}

static inline unsigned buf_place(const struct stream *s, uint32_t buf)
{
	return s->sched->bufs[buf].place;
}

/* The buffer of a READ or WRITE step. */
static inline struct sched_span file_span(const struct sched_step *step)
{
	return step->op == SCHED_WRITE ? step->src : step->dst;
}

/* Is the buffer of file job @k in device memory? Then its data are copied through the stage. */
static inline bool is_far(const struct stream *s, uint32_t k)
{
	return buf_place(s, file_span(&s->sched->steps[s->job_steps[k]]).buf) != 0;
}

/* How many elements of step @i may be done, by its dependencies. */
static inline uint64_t exec_limit(const struct stream *s, uint32_t i)
{
	return sched_limit(s->sched, i, s->progress);
}

/* Queue the lane, or the local or file step, for its next turn. */
void exec_wake_lane(struct lane *l);
void exec_wake_step(struct stream *s, uint32_t i);
/* Step @i has reached @done: wake the steps that wait for it. */
void exec_progress(struct stream *s, uint32_t i, uint64_t done);

/* lane.c: exec_run_lane runs one turn, of at most QUANTUM bytes. 1: progress; 0: none; -1:
 * error. */
int exec_lane_init(struct exec *x, struct stream *s, int lane, int peer, bool out, struct err *err);
/* Take the events of the connection (exec_watch_lanes). */
void exec_lane_watch(struct lane *l);
/* The lane's stream begins a window, of elements of another type perhaps. */
void exec_lane_begin(struct lane *l);
void exec_lane_release(struct lane *l);
int exec_run_lane(struct exec *x, struct stream *s, struct lane *l, struct err *err);

/* stopwatch.c. Without conf.timed, none of these does anything. */
int exec_watch_init(struct exec *x, struct err *err);
/* The thread begins a turn; it has worked on @kind since the last call; it ends a turn, and
 * sleeps if @sleeps; it has finished. */
void exec_watch_wake(struct exec *x);
void exec_spend(struct exec *x, enum spent kind);
void exec_watch_pause(struct exec *x, bool sleeps);
void exec_watch_end(struct exec *x);
/* The same as exec_spend, for a call of @c. */
void exec_spend_conn(struct exec *x, struct conn *c);
/* @kind (of @peer; -1: none) has made progress: if the thread has slept, it has waited for that. */
void exec_waited(struct exec *x, enum spent kind, int peer);
/* Record events in the trace, if there is one. */
void exec_trace_step(struct exec *x, struct lane *l, uint32_t step);
/* @n elements of a local step were done since @from. */
void exec_trace_local(struct exec *x, const struct stream *s, uint32_t step, uint64_t n,
                      int64_t from);
void exec_trace_window(struct exec *x, const struct stream *s);

/* local.c: store or reduce elements [pos, pos + n) of a receiving @step, which have arrived at
 * @wire. */
int exec_arrived(const struct stream *s, const struct sched_step *step, uint64_t pos,
                 const uint8_t *wire, uint64_t n, struct err *err);
/* Copy @n bytes from or to the memory @place for file step @i, which has no running task; its
 * progress is then @to. True: the task is complete. False: pending.busy is set, and @then is called
 * on completion; or the executor has failed. */
bool exec_copy(struct stream *s, uint32_t i, unsigned place, void *dst, const void *src, uint64_t n,
               uint64_t to, void (*then)(struct stream *s, uint32_t i));
/* Record the first failure of a task; the next turn returns it. */
void exec_fail(struct exec *x, const struct err *why);
/* Run local step @i up to its limit. */
void exec_run_local(struct stream *s, uint32_t i);

/* vector_ops.c: initialise the vectors of x->conf; compute stats.total, once the first windows have
 * begun. */
int exec_init_parts(struct exec *x, struct err *err);
int exec_count_moves(struct exec *x, struct err *err);

/* A struct window is set to window @k of vector @p by window_set. True: its schedule differs from
 * that of the previous window. */
int window_init(struct window *, int size, struct err *err);
void window_release(struct window *); /* also if window_init failed or @w is zeroed */
bool window_set(struct window *, const struct exec_vector *p, uint32_t k);
struct sched *window_sched(const struct window *, struct err *err); /* NULL: error */

/* The start of window @k of @windows in a block of @len elements. */
static inline uint64_t exec_share(uint64_t len, uint32_t k, uint32_t windows)
{
	return (uint64_t)((unsigned __int128)len * k / windows);
}

/* window.c: allocate, before any task runs, what all windows of @s from @number on need: a device
 * may wait for all tasks, also those that never end, when memory is allocated or released. */
int exec_reserve(struct exec *x, struct stream *s, uint64_t number, struct err *err);
/* Start window @number on @s, or mark @s done; restart the window; raise the limit of a
 * file job; collect the progress of the file threads. */
int exec_start_window(struct exec *x, struct stream *s, uint64_t number, struct err *err);
void exec_restart_window(struct exec *x, struct stream *s);
void exec_raise_file(struct exec *x, struct stream *s, uint32_t job);
void exec_take_files(struct stream *s);

#endif
