#include "lib/net/arena.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

#define NO_RESIZE (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* A range that is allocated, or free. They cover the arena, in ascending order. */
struct range {
	size_t at, size;
	bool used;
	struct range *next;
};

struct arena {
	int fd;
	uint8_t *base;
	size_t size;
	bool kept;
	size_t touched; /* no range beyond it has been allocated yet, so its pages are zero */
	struct range *first;
	pthread_mutex_t lock; /* of the ranges */
};

static size_t pages(size_t bytes)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	return (bytes + page - 1) & ~(page - 1);
}

int sealed_memory(const char *name, size_t size, int seals, void **base, struct err *err)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return err_errno(err, ERR_RESOURCE, "memfd_create");
	*base = MAP_FAILED;
	if (ftruncate(fd, (off_t)size) == 0)
		*base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (*base != MAP_FAILED && fcntl(fd, F_ADD_SEALS, NO_RESIZE | seals) == 0)
		return fd;
	err_errno(err, ERR_RESOURCE, "%zu bytes of shared memory", size);
	if (*base != MAP_FAILED)
		munmap(*base, size);
	close(fd);
	return -1;
}

int64_t sealed_size(int fd, struct err *err)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || (seals & NO_RESIZE) != NO_RESIZE || fstat(fd, &st) < 0)
		return err_set(err, ERR_INTEGRITY, "the shared memory is not sealed");
	return st.st_size;
}

struct arena *arena_new(size_t size, struct err *err)
{
	struct arena *a = err_calloc(1, sizeof *a, "shared memory", err);
	struct range *all = err_calloc(1, sizeof *all, "shared memory", err);
	void *base;
	if (!a || !all)
		goto fail;
	size = pages(size);
	a->fd = sealed_memory("collctl windows", size, F_SEAL_FUTURE_WRITE, &base, err);
	if (a->fd < 0)
		goto fail;
	a->base = base;
	a->size = all->size = size;
	a->first = all;
	pthread_mutex_init(&a->lock, NULL);
	return a;
fail:
	free(a);
	free(all);
	return NULL;
}

void arena_free(struct arena *a)
{
	if (!a)
		return;
	while (a->first) {
		struct range *r = a->first;
		a->first = r->next;
		free(r);
	}
	if (!a->kept)
		munmap(a->base, a->size);
	close(a->fd);
	pthread_mutex_destroy(&a->lock);
	free(a);
}

static void *alloc_locked(struct arena *a, size_t bytes)
{
	struct range *r = a->first, *rest;
	while (r && (r->used || r->size < bytes))
		r = r->next;
	if (!r || !bytes)
		return NULL;
	if (r->size > bytes) {
		rest = calloc(1, sizeof *rest);
		if (!rest)
			return NULL;
		*rest = (struct range){
		        .at = r->at + bytes, .size = r->size - bytes, .next = r->next};
		r->size = bytes;
		r->next = rest;
	}
	r->used = true;
	if (r->at < a->touched)
		memset(a->base + r->at, 0,
		       r->size < a->touched - r->at ? r->size : a->touched - r->at);
	if (r->at + r->size > a->touched)
		a->touched = r->at + r->size;
	return a->base + r->at;
}

void *arena_alloc(struct arena *a, size_t bytes)
{
	pthread_mutex_lock(&a->lock);
	void *p = alloc_locked(a, pages(bytes));
	pthread_mutex_unlock(&a->lock);
	return p;
}

/* Join a free range with the free one that follows. */
static void join(struct range *r)
{
	struct range *next = r ? r->next : NULL;
	if (!next || r->used || next->used)
		return;
	r->size += next->size;
	r->next = next->next;
	free(next);
}

static bool release_locked(struct arena *a, size_t at)
{
	struct range *before = NULL, *r = a->first;
	while (r && r->at != at) {
		before = r;
		r = r->next;
	}
	if (!r || !r->used)
		return false;
	r->used = false;
	join(r);
	join(before);
	return true;
}

bool arena_release(struct arena *a, void *p, size_t bytes)
{
	int64_t at = arena_offset(a, p, bytes);
	pthread_mutex_lock(&a->lock);
	bool there = at >= 0 && release_locked(a, (size_t)at);
	pthread_mutex_unlock(&a->lock);
	return there;
}

void arena_keep(struct arena *a)
{
	a->kept = true;
}

int64_t arena_offset(const struct arena *a, const void *p, size_t n)
{
	uintptr_t base = (uintptr_t)a->base, at = (uintptr_t)p;
	if (at < base || n > a->size || at - base > a->size - n)
		return -1;
	return (int64_t)(at - base);
}

int arena_fd(const struct arena *a)
{
	return a->fd;
}

struct arena_map *arena_map(struct arena_maps *maps, int fd, struct err *err)
{
	struct stat st;
	int64_t size = sealed_size(fd, err);
	if (size < 0)
		return NULL;
	if (fstat(fd, &st) < 0) {
		err_errno(err, ERR_RESOURCE, "fstat");
		return NULL;
	}
	for (struct arena_map *m = maps->first; m; m = m->next)
		if (m->dev == st.st_dev && m->ino == st.st_ino) {
			m->users++;
			return m;
		}
	struct arena_map *m = err_calloc(1, sizeof *m, "shared memory", err);
	if (!m)
		return NULL;
	void *base = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED) {
		err_errno(err, ERR_RESOURCE, "%lld bytes of shared memory", (long long)size);
		free(m);
		return NULL;
	}
	*m = (struct arena_map){.base = base,
	                        .size = (size_t)size,
	                        .dev = st.st_dev,
	                        .ino = st.st_ino,
	                        .users = 1,
	                        .next = maps->first};
	maps->first = m;
	return m;
}

void arena_unmap(struct arena_maps *maps, struct arena_map *m)
{
	if (!m || --m->users)
		return;
	struct arena_map **at = &maps->first;
	while (*at != m)
		at = &(*at)->next;
	*at = m->next;
	munmap((void *)m->base, m->size);
	free(m);
}
