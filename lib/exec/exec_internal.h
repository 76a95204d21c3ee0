/*
 * The executor's inside, shared by its files: exec.c (its life and its rounds), window.c (a
 * window's schedule, buffers and file jobs), lane.c (sending and receiving), local.c (arithmetic
 * and copies).
 */
#ifndef COLLCTL_EXEC_EXEC_INTERNAL_H
#define COLLCTL_EXEC_EXEC_INTERNAL_H

#include <xxhash.h>

#include "lib/exec/exec.h"

#define QUANTUM (256u << 10) /* bytes of one turn of a lane; the scratch stays in L2 */
#define TRAILER 16           /* u64 byte count, u64 XXH3-64 of the lane's bytes (TLS) */
#define CARRY   8            /* the largest element, less one byte, rounded up */

/* One direction to one peer: the steps of the current window that use it, in order. */
struct lane {
	struct exec *exec;
	struct stream *stream;
	bool queued; /* in exec.ready */
	struct conn *conn;
	int peer;
	bool out;
	uint32_t *steps;
	uint32_t nsteps, head;
	uint64_t bytes;       /* of the head step that the connection has taken or given */
	uint64_t total;       /* of all windows */
	XXH3_state_t *hash;   /* NULL: the connection sums for itself */
	uint8_t carry[CARRY]; /* the beginning of an element that has not all arrived */
	size_t ncarry;
	bool starved; /* the last turn ended because the connection had no more */
	/* the end */
	uint8_t trailer[TRAILER];
	size_t trailer_done;
	bool trailer_made, ended;
};

struct stream {
	uint32_t window; /* the current one */
	bool done;       /* all its windows are */
	struct sched *sched;
	struct coll_args args; /* of the window: off and recv_off are the stream's own */
	uint64_t *off, *recv_off;
	struct fileio_map in, out; /* where the window's blocks stand in the files */
	uint64_t *progress;        /* done of every step */
	uint32_t left;             /* steps not finished */
	uint8_t **bufs;
	uint8_t *memory;
	size_t memory_size;
	struct lane *lanes;
	uint32_t *lane_steps; /* the lanes' steps, lane after lane */
	int32_t *owner;       /* of a step: its lane; else OWNER_LOCAL, or OWNER_FILE - its job */
	/* The steps that wait for step i: waiting[first_waiting[i] .. first_waiting[i+1]). */
	uint32_t *first_waiting, *waiting;
	/* Local steps and files that may be able to go on: a ring without repetition. */
	uint32_t *todo, todo_head, todo_len;
	bool *in_todo;
	struct fileio_job *jobs; /* one a READ or WRITE step */
	uint32_t *job_steps, njobs;
	uint32_t *open_jobs, nopen; /* not finished */
};

#define OWNER_LOCAL (-1)
#define OWNER_FILE  (-2)

struct exec {
	struct exec_conf conf;
	size_t esize;
	enum dtype acc;
	struct fileio io;
	bool io_ready;
	struct stream *streams;
	int *lane_out, *lane_in; /* peer -> index of its lane in every stream, or -1 */
	int nlanes;
	int open_lanes;      /* of all streams: not ended */
	int open_streams;    /* not done */
	bool silent;         /* a connection tells no events */
	struct lane **ready; /* lanes that may be able to go on: a ring without repetition */
	uint32_t ready_head, ready_len, ready_cap;
	unsigned moves;                       /* io.moves when the jobs were last looked at */
	uint8_t *scratch;                     /* QUANTUM + CARRY */
	reduce_fn *reduce[2], *reduce_acc[2]; /* [operand swapped] */
	struct exec_stats stats;
};

static inline enum dtype buf_dtype(const struct exec *x, const struct sched *s, uint32_t buf)
{
	return s->bufs[buf].type == SCHED_ACC ? x->acc : x->conf.dtype;
}

static inline size_t buf_esize(const struct exec *x, const struct sched *s, uint32_t buf)
{
	return dtype_size(buf_dtype(x, s, buf));
}

static inline uint8_t *at(const struct exec *x, const struct stream *s, struct sched_span span)
{
	return s->bufs[span.buf] + span.off * buf_esize(x, s->sched, span.buf);
}

/* How far step @i may go: the frontier rule (sched.h). */
uint64_t exec_limit(const struct stream *s, uint32_t i);

/* Look at the lane soon, at the local step or file. */
void exec_wake_lane(struct lane *l);
void exec_wake_step(struct stream *s, uint32_t i);
/* Step @i has come to @done: look at what waits for it. */
void exec_progress(struct stream *s, uint32_t i, uint64_t done);

/* lane.c: what the connection of @l is, and one turn of it, at most QUANTUM bytes. 1: progress; 0:
 * none; -1: error. */
int exec_lane_init(struct exec *x, struct stream *s, int lane, int peer, bool out, struct err *err);
void exec_lane_release(struct lane *l);
int exec_run_lane(struct exec *x, struct stream *s, struct lane *l, struct err *err);

/* local.c: dst = left op right (@swapped steps: right op left) of @n elements, the types as the
 * step's buffers have them; and let local step @i go as far as it may. */
void exec_combine(struct exec *x, const struct sched *sched, const struct sched_step *step,
                  uint8_t *dst, const uint8_t *left, const uint8_t *right, uint64_t n);
void exec_run_local(struct exec *x, struct stream *s, uint32_t i);

/* window.c: let @s begin window @w, or be done; begin its window anew; tell a writer how far it may
 * go; take over what the file threads have done. */
int exec_start_window(struct exec *x, struct stream *s, uint32_t w, struct err *err);
void exec_restart_window(struct exec *x, struct stream *s);
void exec_raise_file(struct exec *x, struct stream *s, uint32_t job);
void exec_take_files(struct exec *x, struct stream *s);

#endif
