/* The tasks of steps, and the steps that are local to a rank. See exec_internal.h. */
#include "lib/exec/exec_internal.h"

#define DEVICE_PIECE (4u << 20) /* bytes of one task of a device */
/* Bytes of one turn of a step in host memory: lanes send what is complete between two turns, while
 * it is still in the cache. */
#define LOCAL_PIECE QUANTUM

/* ---- tasks ---- */

/* Must @step apply the operation's final function? */
static bool is_final(const struct vector_ops *p, const struct sched_step *step)
{
	return (step->flags & SCHED_FINAL) && p->conf->op == REDUCE_AVG && !p->conf->defer_final;
}

/* A task for elements [pos, pos + n) of @step. The caller fills in the operands and their types. */
static struct memory_task task_of(const struct stream *s, const struct sched_step *step,
                                  enum memory_op op, uint64_t pos, uint64_t n)
{
	const struct vector_ops *p = s->vector;
	return (struct memory_task){
	        .op = op,
	        .swapped = step->flags & SCHED_WIRE_LEFT,
	        .final = is_final(p, step),
	        .dst = at(s, span_add(step->dst, pos)),
	        .n = n,
	        .to = buf_dtype(s, step->dst.buf),
	        .acc = p->acc,
	        .reduce = p->conf->op,
	        .divisor = p->conf->divisor,
	        .owner = s->exec,
	};
}

int exec_arrived(const struct stream *s, const struct sched_step *step, uint64_t pos,
                 const uint8_t *wire, uint64_t n, struct err *err)
{
	bool recv = step->op == SCHED_RECV;
	struct memory_task t = task_of(s, step, recv ? MEMORY_CONVERT : MEMORY_COMBINE, pos, n);
	if (recv) {
		t.a = wire;
		t.of = s->vector->dtype;
	} else {
		t.a = at(s, span_add(step->src, pos));
		t.of = buf_dtype(s, step->src.buf);
		t.b = wire;
		t.with = s->vector->dtype;
	}
	int ret = s->exec->spaces[0]->start(s->exec->spaces[0], &t, err);
	exec_spend(s->exec, SPENT_ARITHMETIC);
	return ret < 0 ? -1 : 0;
}

static struct memory_task task_local(const struct stream *s, const struct sched_step *step,
                                     uint64_t pos, uint64_t n)
{
	static const enum memory_op ops[SCHED_OPS] = {
	        [SCHED_COPY] = MEMORY_CONVERT,      [SCHED_REDUCE] = MEMORY_COMBINE,
	        [SCHED_LOCAL_REDUCE] = MEMORY_FOLD, [SCHED_JOINT] = MEMORY_JOINT,
	        [SCHED_IDENTITY] = MEMORY_IDENTITY,
	};
	struct memory_task t = task_of(s, step, ops[step->op], pos, n);
	switch (t.op) {
	case MEMORY_CONVERT:
		t.a = at(s, span_add(step->src, pos));
		t.of = buf_dtype(s, step->src.buf);
		break;
	case MEMORY_COMBINE:
		t.a = t.dst;
		t.of = t.to;
		t.b = at(s, span_add(step->src, pos));
		t.with = buf_dtype(s, step->src.buf);
		break;
	case MEMORY_FOLD:
		t.inputs = s->bufs;
		t.ninputs = s->sched->ninputs;
		t.of = s->vector->dtype;
		t.offset = (step->src.off + pos) * s->vector->esize;
		break;
	case MEMORY_JOINT:
		t.inputs = s->bufs + step->src.buf;
		t.ninputs = (int)s->sched->njoint;
		t.of = s->vector->dtype;
		t.offset = (step->src.off + pos) * s->vector->esize;
		t.cut = s->vector->cut;
		break;
	default:
		break;
	}
	return t;
}

/* ---- tasks that are complete later ---- */

void exec_fail(struct exec *x, const struct err *why)
{
	if (!x->why.code)
		x->why = *why;
}

/* The task of step @i has failed. */
static void fail_step(struct stream *s, uint32_t i, const struct err *why)
{
	struct err err = ERR_INIT;
	err_set(&err, why->code, "%s, in step %u of %s (%s)", why->text, (unsigned)i,
	        s->window.algorithm->name, sched_op_name(s->sched->steps[i].op));
	exec_fail(s->exec, &err);
}

static void completed(void *ctx, const struct err *why)
{
	struct pending *p = ctx;
	struct stream *s = p->stream;
	uint32_t i = (uint32_t)(p - s->pending);
	p->busy = false;
	exec_waited(s->exec, SPENT_DEVICE, -1);
	if (why)
		fail_step(s, i, why);
	else
		p->then(s, i);
}

/* Start @t at @place for local or file step @i, as exec_copy does. */
static bool start_task(struct stream *s, uint32_t i, unsigned place, struct memory_task *t,
                       uint64_t to, void (*then)(struct stream *s, uint32_t i))
{
	const struct memory_space *space = s->exec->spaces[place];
	struct err err = ERR_INIT;
	struct pending *p = &s->pending[i];
	p->stream = s;
	p->to = to;
	p->then = then;
	p->device = space->name;
	p->busy = true;
	t->done = completed;
	t->ctx = p;
	int ret = space->start(space, t, &err);
	if (ret < 0)
		fail_step(s, i, &err);
	p->busy = ret == 0;
	return ret == 1;
}

bool exec_copy(struct stream *s, uint32_t i, unsigned place, void *dst, const void *src, uint64_t n,
               uint64_t to, void (*then)(struct stream *s, uint32_t i))
{
	struct memory_task t = {.op = MEMORY_CONVERT,
	                        .dst = dst,
	                        .a = src,
	                        .n = n,
	                        .to = DTYPE_U8,
	                        .of = DTYPE_U8,
	                        .owner = s->exec};
	return start_task(s, i, place, &t, to, then);
}

/* ---- local steps ---- */

static void came_further(struct stream *s, uint32_t i)
{
	exec_progress(s, i, s->pending[i].to);
	exec_wake_step(s, i);
}

/* The place whose space runs the step: the device that has an operand, if one has. */
static unsigned place_of(const struct stream *s, const struct sched_step *step)
{
	unsigned place = buf_place(s, step->dst.buf);
	return place || step->op != SCHED_COPY ? place : buf_place(s, step->src.buf);
}

void exec_run_local(struct stream *s, uint32_t i)
{
	const struct sched_step *step = &s->sched->steps[i];
	uint64_t done = s->progress[i], limit = done < step->len ? exec_limit(s, i) : done;
	unsigned place = place_of(s, step);
	if (done == limit || s->pending[i].busy)
		return;
	if (place && limit < step->len && limit - done < DEVICE_TASK / s->vector->esize)
		return;
	const uint64_t most = (place ? DEVICE_PIECE : LOCAL_PIECE) / s->vector->esize;
	if (limit - done > most)
		limit = done + most;
	struct memory_task t = task_local(s, step, done, limit - done);
	exec_spend(s->exec, SPENT_OTHER);
	int64_t from = s->exec->watch.lap;
	bool complete = start_task(s, i, place, &t, limit, came_further);
	exec_spend(s->exec, SPENT_ARITHMETIC);
	exec_trace_local(s->exec, s, i, limit - done, from);
	if (complete)
		exec_progress(s, i, limit);
	if (complete && !place && limit < step->len)
		exec_wake_step(s, i);
}
