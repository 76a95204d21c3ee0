/* Where the time of an executor's thread goes: exec_times and the trace. See exec_internal.h. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/exec/exec_internal.h"

#define SHORT_WAIT 10000 /* ns: shorter ones are not recorded in a trace */

/* ns in which this thread was ready to run and did not; 0: the system does not say. */
static int64_t contention(void)
{
	long long ran = 0, waited = 0;
	char text[96];
	int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	return sscanf(text, "%lld %lld", &ran, &waited) == 2 ? waited : 0;
}

int exec_watch_init(struct exec *x, struct err *err)
{
	size_t size = (size_t)exec_ranks(&x->conf);
	if (!x->conf.timed)
		return 0;
	x->watch.lap = clock_ns();
	x->watch.peers = err_calloc(size, sizeof *x->watch.peers, "the times", err);
	return x->watch.peers ? 0 : -1;
}

void exec_spend(struct exec *x, enum spent kind)
{
	struct stopwatch *w = &x->watch;
	if (!x->conf.timed)
		return;
	int64_t now = clock_ns();
	w->ns[kind] += now - w->lap;
	w->lap = now;
}

void exec_spend_conn(struct exec *x, struct conn *c)
{
	struct stopwatch *w = &x->watch;
	if (!x->conf.timed)
		return;
	int64_t before = w->lap, system = c->system_ns;
	exec_spend(x, SPENT_CIPHER);
	if (system > w->lap - before)
		system = w->lap - before;
	w->ns[SPENT_CIPHER] -= system;
	w->ns[SPENT_NETWORK] += system;
	c->system_ns = 0;
}

/* Count the time since the last lap as sleep. */
static void doze(struct stopwatch *w)
{
	int64_t now = clock_ns();
	if (!w->idle)
		w->idle_from = w->lap;
	w->idle += now - w->lap;
	w->lap = now;
	w->asleep = false;
}

void exec_watch_wake(struct exec *x)
{
	struct stopwatch *w = &x->watch;
	if (!x->conf.timed)
		return;
	if (!w->started) {
		w->started = true;
		w->contended = -contention();
	}
	if (w->asleep)
		doze(w);
	else
		exec_spend(x, SPENT_OTHER);
}

void exec_watch_pause(struct exec *x, bool sleeps)
{
	exec_spend(x, SPENT_OTHER);
	x->watch.asleep = sleeps && x->conf.timed;
}

static void flush_local(struct exec *x)
{
	struct trace_event *e = &x->watch.local;
	if (e->end)
		trace_add(x->conf.trace, e);
	e->end = 0;
}

void exec_watch_end(struct exec *x)
{
	struct stopwatch *w = &x->watch;
	if (!x->conf.timed)
		return;
	exec_spend(x, SPENT_OTHER);
	w->ns[SPENT_OTHER] += w->idle;
	w->idle = 0;
	w->contended += contention();
	if (x->conf.trace)
		flush_local(x);
}

void exec_waited(struct exec *x, enum spent kind, int peer)
{
	static const uint8_t kinds[SPENT_KINDS] = {
	        [SPENT_READ] = TRACE_WAIT_READ,     [SPENT_WRITE] = TRACE_WAIT_WRITE,
	        [SPENT_DEVICE] = TRACE_WAIT_DEVICE, [SPENT_RECV] = TRACE_WAIT_RECV,
	        [SPENT_SEND] = TRACE_WAIT_SEND,
	};
	struct stopwatch *w = &x->watch;
	if (w->asleep)
		doze(w);
	if (!w->idle)
		return;
	w->ns[kind] += w->idle;
	if (peer >= 0)
		w->peers[peer] += w->idle;
	if (x->conf.trace && w->idle >= SHORT_WAIT)
		trace_add(x->conf.trace, &(struct trace_event){.start = w->idle_from,
		                                               .end = w->idle_from + w->idle,
		                                               .window = TRACE_NONE,
		                                               .step = TRACE_NONE,
		                                               .peer = peer,
		                                               .stream = (uint16_t)x->conf.member,
		                                               .kind = kinds[kind]});
	w->idle = 0;
}

void exec_times(const struct exec *x, struct exec_times *sum)
{
	const struct stopwatch *w = &x->watch;
	sum->threads++;
	for (int k = 0; k < SPENT_KINDS; k++)
		sum->ns[k] += w->ns[k];
	sum->reading += atomic_load(&x->io.reader.busy);
	sum->writing += atomic_load(&x->io.writer.busy);
	sum->contended += w->contended;
	for (int p = 0; p < exec_ranks(&x->conf); p++)
		sum->peers[p] += w->peers[p];
}

/* ---- the trace ---- */

static struct trace_event event_of(const struct exec *x, const struct stream *s, uint32_t step)
{
	return (struct trace_event){
	        .window = (uint32_t)s->number,
	        .step = step,
	        .peer = -1,
	        .stream = (uint16_t)stream_number(x, s),
	        .end = x->watch.lap,
	};
}

void exec_trace_step(struct exec *x, struct lane *l, uint32_t step)
{
	const struct stream *s = l->stream;
	if (!x->conf.trace)
		return;
	struct trace_event e = event_of(x, s, step);
	e.kind = l->out                                          ? TRACE_SEND
	         : s->sched->steps[step].op == SCHED_RECV_REDUCE ? TRACE_ADD
	                                                         : TRACE_RECV;
	e.start = l->began;
	e.bytes = s->sched->steps[step].len * s->vector->esize;
	e.peer = l->peer;
	e.number = l->number++;
	e.memory = l->conn->ops->lending != NULL;
	trace_add(x->conf.trace, &e);
}

void exec_trace_local(struct exec *x, const struct stream *s, uint32_t step, uint64_t n,
                      int64_t from)
{
	struct trace_event *last = &x->watch.local;
	const struct sched_step *of = &s->sched->steps[step];
	if (!x->conf.trace)
		return;
	struct trace_event e = event_of(x, s, step);
	e.start = from;
	e.kind = of->op == SCHED_COPY || of->op == SCHED_IDENTITY ? TRACE_COPY : TRACE_REDUCE;
	e.bytes = n * s->vector->esize;
	if (last->end && last->window == e.window && last->step == step) {
		last->end = e.end;
		last->bytes += e.bytes;
		return;
	}
	flush_local(x);
	*last = e;
}

void exec_trace_window(struct exec *x, const struct stream *s)
{
	if (!x->conf.trace)
		return;
	struct trace_event e = event_of(x, s, TRACE_NONE);
	e.start = s->began;
	e.end = clock_ns();
	e.kind = TRACE_WINDOW;
	trace_add(x->conf.trace, &e);
}
