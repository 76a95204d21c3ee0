/* The tasks of steps, and the steps that are local to a rank. See exec_internal.h. */
#include "lib/exec/exec_internal.h"

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

struct memory_task exec_task_bytes(const struct stream *s, void *dst, const void *src, uint64_t n)
{
	return (struct memory_task){.op = MEMORY_CONVERT,
	                            .dst = dst,
	                            .a = src,
	                            .n = n,
	                            .to = DTYPE_U8,
	                            .of = DTYPE_U8,
	                            .owner = s->exec};
}

struct memory_task exec_task_arrived(const struct stream *s, const struct sched_step *step,
                                     uint64_t pos, const uint8_t *wire, uint64_t n)
{
	bool recv = step->op == SCHED_RECV;
	struct memory_task t = task_of(s, step, recv ? MEMORY_CONVERT : MEMORY_COMBINE, pos, n);
	t.from_host = true;
	if (recv) {
		t.a = wire;
		t.of = s->vector->dtype;
		return t;
	}
	t.a = at(s, span_add(step->src, pos));
	t.of = buf_dtype(s, step->src.buf);
	t.b = wire;
	t.with = s->vector->dtype;
	return t;
}

static struct memory_task task_local(const struct stream *s, const struct sched_step *step,
                                     uint64_t pos, uint64_t n)
{
	static const enum memory_op ops[SCHED_OPS] = {
	        [SCHED_COPY] = MEMORY_CONVERT,
	        [SCHED_REDUCE] = MEMORY_COMBINE,
	        [SCHED_LOCAL_REDUCE] = MEMORY_FOLD,
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

static void completed(void *ctx, const struct err *why)
{
	struct pending *p = ctx;
	struct stream *s = p->stream;
	p->busy = false;
	if (why)
		exec_fail(s->exec, why);
	else
		p->then(s, (uint32_t)(p - s->pending));
}

bool exec_start_task(struct stream *s, uint32_t i, struct memory_task *t, uint64_t to,
                     void (*then)(struct stream *s, uint32_t i))
{
	struct err err = {.rank = ERR_RANK_SELF};
	struct pending *p = &s->pending[i];
	p->stream = s;
	p->to = to;
	p->then = then;
	p->busy = true;
	t->done = completed;
	t->ctx = p;
	int ret = s->exec->space->start(s->exec->space, t, &err);
	if (ret < 0)
		exec_fail(s->exec, &err);
	p->busy = ret == 0;
	return ret == 1;
}

/* ---- local steps ---- */

static void came_further(struct stream *s, uint32_t i)
{
	exec_progress(s, i, s->pending[i].to);
	exec_wake_step(s, i);
}

void exec_run_local(struct stream *s, uint32_t i)
{
	const struct sched_step *step = &s->sched->steps[i];
	uint64_t done = s->progress[i], limit = done < step->len ? exec_limit(s, i) : done;
	if (done == limit || s->pending[i].busy)
		return;
	struct memory_task t = task_local(s, step, done, limit - done);
	if (exec_start_task(s, i, &t, limit, came_further))
		exec_progress(s, i, limit);
}
