#include "lib/exec/fileio.h"

#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/io.h"

#define QUANTUM (512u << 10) /* bytes of one transfer: half of a core's second-level cache */

/* Makes a system call only if the owner sleeps or is about to. */
static void notify(struct fileio *io)
{
	if (io->eventfd >= 0 && atomic_exchange(&io->armed, false))
		event_signal(io->eventfd);
}

void fileio_arm(struct fileio *io)
{
	atomic_store(&io->armed, true);
}

static void fail(struct fileio *io, const struct err *err)
{
	static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER;
	pthread_mutex_lock(&first);
	if (!atomic_load(&io->failed)) {
		io->err = *err;
		atomic_store(&io->failed, true);
	}
	pthread_mutex_unlock(&first);
}

/* The block of @map that contains element @pos of the window. */
static int block_of(const struct fileio_map *map, uint64_t pos)
{
	int lo = 0, hi = map->nblocks;
	while (hi - lo > 1) { /* search the last block that begins at or before @pos */
		int mid = lo + (hi - lo) / 2;
		if (map->at[mid] <= pos)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

/* Move elements [pos, pos + n) of the window, block by block. */
static int transfer_blocks(struct fileio *io, const struct fileio_job *job, uint8_t *buf,
                           uint64_t pos, uint64_t n, struct err *err)
{
	const struct fileio_map *map = job->map;
	for (int k = block_of(map, pos); n; k++) {
		uint64_t len = map->at[k + 1] - pos, file = map->file[k] + (pos - map->at[k]);
		if (len > n)
			len = n;
		int ret = 0;
		if (len && job->write)
			ret = io->ops.write(io->ops.ctx, job->vector, buf, file, len, job->final,
			                    err);
		else if (len)
			ret = io->ops.read(io->ops.ctx, job->vector, job->input, buf, file, len,
			                   err);
		if (ret < 0)
			return -1;
		buf += len * job->esize;
		pos += len;
		n -= len;
	}
	return 0;
}

static void record(struct fileio *io, const struct fileio_job *job, uint64_t n, int64_t from)
{
	struct fileio_worker *w = job->write ? &io->writer : &io->reader;
	int64_t now = clock_ns();
	atomic_fetch_add_explicit(&w->busy, now - from, memory_order_relaxed);
	if (io->trace)
		trace_add(io->trace,
		          &(struct trace_event){.start = from,
		                                .end = now,
		                                .bytes = n * job->esize,
		                                .window = job->window,
		                                .step = job->step,
		                                .peer = -1,
		                                .stream = job->stream,
		                                .kind = job->write ? TRACE_WRITE : TRACE_READ});
}

/* Move elements [done, done + n) of @job. */
static int transfer(struct fileio *io, struct fileio_job *job, uint64_t done, uint64_t n)
{
	struct err err = {0};
	uint8_t *buf = job->buf + done * job->esize;
	int64_t from = io->timed ? clock_ns() : 0;
	int ret = transfer_blocks(io, job, buf, job->pos + done, n, &err);
	if (io->timed)
		record(io, job, n, from);
	if (ret < 0)
		fail(io, &err);
	else
		atomic_store_explicit(&job->done, done + n, memory_order_release);
	atomic_fetch_add(&io->moves, 1);
	notify(io);
	return ret;
}

static uint64_t done_of(struct fileio_job *job)
{
	return atomic_load_explicit(&job->done, memory_order_relaxed);
}

/* The first job that can continue. Called with the lock held. */
static struct fileio_job *next_job(struct fileio_worker *w)
{
	for (struct fileio_job *j = w->jobs; j; j = j->next)
		if (done_of(j) < j->limit)
			return j;
	return NULL;
}

static void unlink_job(struct fileio_worker *w, struct fileio_job *job)
{
	struct fileio_job **p = &w->jobs;
	while (*p != job)
		p = &(*p)->next;
	*p = job->next;
	if (w->tail == &job->next)
		w->tail = p;
}

static void *work(void *arg)
{
	struct fileio_worker *w = arg;
	struct fileio *io = w->io;
	pthread_mutex_lock(&w->lock);
	while (!w->stop) {
		struct fileio_job *job = next_job(w);
		if (!job) {
			pthread_cond_wait(&w->wake, &w->lock);
			continue;
		}
		uint64_t done = done_of(job), n = job->limit - done;
		uint64_t quantum = QUANTUM / job->esize;
		if (n > quantum)
			n = quantum;
		/* Unlink the job first: once done reaches count, its owner may free it. */
		if (done + n == job->count)
			unlink_job(w, job);
		pthread_mutex_unlock(&w->lock);
		int ret = transfer(io, job, done, n);
		pthread_mutex_lock(&w->lock);
		if (ret < 0)
			break;
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

static int worker_start(struct fileio_worker *w, struct fileio *io, struct err *err)
{
	w->io = io;
	w->tail = &w->jobs;
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->wake, NULL);
	if (io->eventfd < 0)
		return 0;
	if (pthread_create(&w->thread, NULL, work, w) != 0)
		return err_set(err, ERR_RESOURCE, "cannot start a file thread");
	w->started = true;
	return 0;
}

static void worker_stop(struct fileio_worker *w)
{
	if (!w->io)
		return;
	pthread_mutex_lock(&w->lock);
	w->stop = true;
	pthread_cond_signal(&w->wake);
	pthread_mutex_unlock(&w->lock);
	if (w->started)
		pthread_join(w->thread, NULL);
	pthread_mutex_destroy(&w->lock);
	pthread_cond_destroy(&w->wake);
	w->io = NULL;
}

int fileio_init(struct fileio *io, const struct fileio_ops *ops, bool threads, struct err *err)
{
	memset(io, 0, sizeof *io);
	io->ops = *ops;
	io->eventfd = -1;
	if (threads) {
		io->eventfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (io->eventfd < 0)
			return err_errno(err, ERR_RESOURCE, "eventfd");
	}
	if (worker_start(&io->reader, io, err) == 0 && worker_start(&io->writer, io, err) == 0)
		return 0;
	fileio_release(io);
	return -1;
}

void fileio_release(struct fileio *io)
{
	worker_stop(&io->reader);
	worker_stop(&io->writer);
	if (io->eventfd >= 0)
		close(io->eventfd);
	io->eventfd = -1;
}

static void run_inline(struct fileio *io, struct fileio_job *job)
{
	uint64_t done = done_of(job);
	if (done < job->limit && !atomic_load(&io->failed))
		transfer(io, job, done, job->limit - done);
}

void fileio_submit(struct fileio *io, struct fileio_job *job)
{
	struct fileio_worker *w = job->write ? &io->writer : &io->reader;
	if (io->eventfd < 0) {
		run_inline(io, job);
		return;
	}
	pthread_mutex_lock(&w->lock);
	job->next = NULL;
	*w->tail = job;
	w->tail = &job->next;
	const bool ready = job->limit > 0;
	pthread_mutex_unlock(&w->lock);
	if (ready)
		pthread_cond_signal(&w->wake);
}

void fileio_raise(struct fileio *io, struct fileio_job *job, uint64_t limit)
{
	struct fileio_worker *w = job->write ? &io->writer : &io->reader;
	if (io->eventfd < 0) {
		job->limit = limit;
		run_inline(io, job);
		return;
	}
	pthread_mutex_lock(&w->lock);
	job->limit = limit;
	pthread_mutex_unlock(&w->lock);
	pthread_cond_signal(
	        &w->wake); /* with the lock held, the thread would wake to wait for it */
}

int fileio_check(struct fileio *io, struct err *err)
{
	if (!atomic_load(&io->failed))
		return 0;
	if (err && !err->code)
		*err = io->err;
	return -1;
}
