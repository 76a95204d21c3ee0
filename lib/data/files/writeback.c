#include "lib/data/files/writeback.h"

#include <errno.h>
#include <fcntl.h>

#include "lib/base/io.h"

#define LEAST (WRITEBACK_CHUNKS / 2)

/* If the file system does not support it, fsync does all the work. */
static int sync_chunk(int fd, uint64_t at, unsigned how)
{
	if (io_retry(sync_file_range(fd, (off_t)at, (off_t)WRITEBACK_CHUNK, how)) == 0)
		return 0;
	return errno == EIO || errno == ENOSPC || errno == EDQUOT ? -1 : 0;
}

static int finish_first(struct writeback *w, int fd)
{
	const uint64_t at = w->begun[w->first];

	w->first = (w->first + 1) % WRITEBACK_CHUNKS;
	w->n--;
	int ret = sync_chunk(fd, at,
	                     SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
	                             SYNC_FILE_RANGE_WAIT_AFTER);
	atomic_store(&w->behind, w->n * WRITEBACK_CHUNK);
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
	atomic_store(&w->behind, w->n * WRITEBACK_CHUNK);
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

int writeback_finish(struct writeback *w, int fd)
{
	int ret = 0;

	pthread_mutex_lock(&w->lock);
	while (w->n && ret == 0)
		ret = finish_first(w, fd);
	pthread_mutex_unlock(&w->lock);
	return ret;
}
