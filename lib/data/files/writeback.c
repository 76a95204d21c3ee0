#include "lib/data/files/writeback.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/io.h"

#define LEAST   (WRITEBACK_CHUNKS / 2)
#define AT_ONCE NS_PER_MS /* a wait that is shorter: the bytes were on disk already */

/* If the file system does not support it, fsync does all the work. */
static int sync_chunk(int fd, uint64_t at, unsigned how)
{
	if (io_retry(sync_file_range(fd, (off_t)at, (off_t)WRITEBACK_CHUNK, how)) == 0)
		return 0;
	return errno == EIO || errno == ENOSPC || errno == EDQUOT ? -1 : 0;
}

/* @bytes more are on disk, after a wait since @from. */
static void count(struct writeback *w, uint64_t bytes, int64_t from)
{
	const int64_t ns = clock_ns() - from;

	atomic_fetch_add(&w->stored, bytes);
	if (ns < AT_ONCE)
		return;
	atomic_fetch_add(&w->waited, bytes);
	atomic_fetch_add(&w->waited_ns, (uint64_t)ns);
}

static int finish_first(struct writeback *w, int fd)
{
	const uint64_t at = w->begun[w->first];
	const int64_t from = clock_ns();

	w->first = (w->first + 1) % WRITEBACK_CHUNKS;
	w->n--;
	int ret = sync_chunk(fd, at,
	                     SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
	                             SYNC_FILE_RANGE_WAIT_AFTER);
	if (ret == 0)
		count(w, WRITEBACK_CHUNK, from);
	return ret;
}

static unsigned most_of(uint64_t size)
{
	const uint64_t n = size / 16 / WRITEBACK_CHUNK;

	return n < LEAST ? LEAST : n < WRITEBACK_CHUNKS ? (unsigned)n : WRITEBACK_CHUNKS;
}

static int begin(struct writeback *w, int fd, uint64_t size, uint64_t at)
{
	if (sync_chunk(fd, at, SYNC_FILE_RANGE_WRITE) ||
	    (w->n == most_of(size) && finish_first(w, fd)))
		return -1;
	w->begun[(w->first + w->n++) % WRITEBACK_CHUNKS] = at;
	return 0;
}

int writeback_chunks(struct writeback *w, int fd, uint64_t size, uint64_t pos, uint64_t bytes)
{
	const uint64_t lo = pos - pos % WRITEBACK_CHUNK;
	const uint64_t hi = pos + bytes - (pos + bytes) % WRITEBACK_CHUNK;
	int ret = 0;

	if (hi <= lo)
		return 0;
	pthread_mutex_lock(&w->lock);
	for (uint64_t at = lo; at < hi && ret == 0; at += WRITEBACK_CHUNK)
		ret = begin(w, fd, size, at);
	pthread_mutex_unlock(&w->lock);
	return ret;
}

static int finish_chunks(struct writeback *w, int fd)
{
	int ret = 0;

	pthread_mutex_lock(&w->lock);
	while (w->n && ret == 0)
		ret = finish_first(w, fd);
	pthread_mutex_unlock(&w->lock);
	return ret;
}

int writeback_sync(struct writeback *w, int fd, uint64_t size)
{
	if (finish_chunks(w, fd))
		return -1;
	const uint64_t stored = atomic_load(&w->stored);
	const int64_t from = clock_ns();
	if (io_retry(fsync(fd)))
		return -1;
	count(w, stored < size ? size - stored : 0, from);
	return 0;
}
