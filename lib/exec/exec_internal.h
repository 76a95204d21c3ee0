/*
 * The executor's inside, shared by its files: exec.c (its life and its rounds), parts.c (what is
 * asked for: parts, the schedules of their windows), window.c (a stream's window: its buffers and
 * file jobs), lane.c (sending and receiving), local.c (arithmetic and copies).
 */
#ifndef COLLCTL_EXEC_EXEC_INTERNAL_H
#define COLLCTL_EXEC_EXEC_INTERNAL_H

#include <xxhash.h>

#include "lib/exec/exec.h"

#define QUANTUM     (256u << 10) /* bytes of one turn of a lane; the scratch stays in L2 */
#define TRAILER     16           /* u64 byte count, u64 XXH3-64 of the lane's bytes (TLS) */
#define ELEMENT_MAX 16           /* bytes of the largest element, and its alignment */

/* A part, with what its steps need, found once. */
struct part {
	const struct exec_part *conf;
	uint64_t first; /* its first window, of those of all parts */
	struct coll_layout layout;
	enum dtype dtype, acc;
	size_t esize, acc_esize;
	reduce_fn *reduce[2], *reduce_acc[2]; /* [operand swapped] */
};

/* What a window is asked to do. */
struct window {
	const struct coll_algorithm *algorithm; /* NULL: none yet */
	struct coll_args args;
	uint64_t *off, *recv_off; /* those of args, [size + 1] */
};

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
	uint64_t bytes;             /* of the head step that the connection has taken or given */
	uint64_t total;             /* of all windows */
	XXH3_state_t *hash;         /* NULL: the connection sums for itself */
	uint8_t carry[ELEMENT_MAX]; /* the beginning of an element that has not all arrived */
	size_t ncarry;
	bool starved; /* the last turn ended because the connection had no more */
	/* the end */
	uint8_t trailer[TRAILER];
	size_t trailer_done;
	bool trailer_made, ended;
};

struct stream {
	uint64_t number;         /* of the current window, of those of all parts */
	bool done;               /* all its windows are */
	const struct part *part; /* the current window's */
	struct window window;
	struct sched *sched;
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
	struct part *parts;
	uint64_t windows; /* of all parts */
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
	unsigned moves;      /* io.moves when the jobs were last looked at */
	uint8_t *scratch;    /* QUANTUM + ELEMENT_MAX */
	uint64_t moves_once; /* bytes_total of one run */
	struct exec_stats stats;
};

static inline enum dtype buf_dtype(const struct stream *s, uint32_t buf)
{
	return s->sched->bufs[buf].type == SCHED_ACC ? s->part->acc : s->part->dtype;
}

static inline size_t buf_esize(const struct stream *s, uint32_t buf)
{
	return s->sched->bufs[buf].type == SCHED_ACC ? s->part->acc_esize : s->part->esize;
}

static inline uint8_t *at(const struct stream *s, struct sched_span span)
{
	return s->bufs[span.buf] + span.off * buf_esize(s, span.buf);
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
void exec_combine(const struct stream *s, const struct sched_step *step, uint8_t *dst,
                  const uint8_t *left, const uint8_t *right, uint64_t n);
void exec_run_local(struct exec *x, struct stream *s, uint32_t i);

/* parts.c: the parts of x->conf; and what they move, once the first windows have begun. */
int exec_init_parts(struct exec *x, struct err *err);
int exec_count_moves(struct exec *x, struct err *err);

/* A window of part @p comes: number @k of its windows. Does it need another schedule than the
 * window before? */
int window_init(struct window *, int size, struct err *err);
void window_release(struct window *); /* also after window_init has failed, and of zeros */
bool window_set(struct window *, const struct exec_part *p, uint32_t k);
struct sched *window_sched(const struct window *, struct err *err); /* NULL: error */

/* Where window @k of @windows begins in a block of @len elements. */
static inline uint64_t exec_share(uint64_t len, uint32_t k, uint32_t windows)
{
	return (uint64_t)((unsigned __int128)len * k / windows);
}

/* window.c: let @s begin the window of that number, or be done; begin its window anew; tell a
 * writer how far it may go; take over what the file threads have done. */
int exec_start_window(struct exec *x, struct stream *s, uint64_t number, struct err *err);
void exec_restart_window(struct exec *x, struct stream *s);
void exec_raise_file(struct exec *x, struct stream *s, uint32_t job);
void exec_take_files(struct exec *x, struct stream *s);

#endif
