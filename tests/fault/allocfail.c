/*
 * LD_PRELOAD: the k-th allocation of this process fails, once.
 *
 *   ALLOCFAIL_AT=k      counted from main on, by malloc, calloc, realloc, reallocarray,
 *                       posix_memalign, aligned_alloc, memalign and large anonymous maps; 0: none
 *   ALLOCFAIL_REPORT=f  "COUNT FAILED" is written to f at the end, however the process exits
 *
 * What it forks is left alone. Nothing here allocates.
 */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* glibc's own, under their other names; in a program with ASAN, ASAN's, which finds the leaks. */
#define ALLOCATOR(ret, name, args, ...)                                         \
	extern ret __libc_##name args;                                          \
	extern ret __interceptor_##name args __attribute__((weak));             \
	static ret real_##name args                                             \
	{                                                                       \
		return __interceptor_##name ? __interceptor_##name(__VA_ARGS__) \
		                            : __libc_##name(__VA_ARGS__);       \
	}
ALLOCATOR(void *, malloc, (size_t n), n)
ALLOCATOR(void *, calloc, (size_t n, size_t size), n, size)
ALLOCATOR(void *, realloc, (void *p, size_t n), p, n)
ALLOCATOR(void *, memalign, (size_t alignment, size_t n), alignment, n)

static atomic_long count, failed;
static atomic_bool counting;
static long at;
static char report[512];

static long number(const char *name)
{
	const char *text = getenv(name);
	return text && *text ? atol(text) : -1;
}

static void tell(void)
{
	char text[64];
	int fd = *report ? open(report, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) : -1;
	if (fd < 0)
		return;
	int n = snprintf(text, sizeof text, "%ld %ld\n", atomic_load(&count), atomic_load(&failed));
	if (write(fd, text, (size_t)n) != n)
		_exit(98);
	close(fd);
}

/* The callers, into a file beside the report. */
static void trace(const char *suffix)
{
	void *frames[48];
	char name[600];
	snprintf(name, sizeof name, "%s.%s", report, suffix);
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (fd < 0)
		return;
	backtrace_symbols_fd(frames, backtrace(frames, 48), fd);
	close(fd);
}

/* Tell where, for the known exceptions of libraries; then end as it would have. */
static void crashed(int sig)
{
	signal(sig, SIG_DFL);
	tell();
	trace("stack");
	raise(sig);
}

static void forked(void)
{
	atomic_store(&counting, false);
}

__attribute__((constructor)) static void begin(void)
{
	static char stack[65536];
	stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
	struct sigaction action = {.sa_handler = crashed, .sa_flags = SA_ONSTACK | SA_RESETHAND};
	void *frame;
	const char *to = getenv("ALLOCFAIL_REPORT");
	at = number("ALLOCFAIL_AT");
	if (at < 0)
		return;
	snprintf(report, sizeof report, "%s", to ? to : "");
	backtrace(&frame, 1); /* loads what it needs */
	sigaltstack(&alternate, NULL);
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
	sigaction(SIGABRT, &action, NULL);
	pthread_atfork(NULL, NULL, forked);
	atomic_store(&counting, true);
}

__attribute__((destructor)) static void end(void)
{
	if (atomic_exchange(&counting, false))
		tell();
}

static bool fails(void)
{
	if (!atomic_load_explicit(&counting, memory_order_relaxed))
		return false;
	if (atomic_fetch_add(&count, 1) + 1 != at)
		return false;
	atomic_fetch_add(&failed, 1);
	trace("where");
	errno = ENOMEM;
	return true;
}

void *malloc(size_t n)
{
	return fails() ? NULL : real_malloc(n);
}

void *calloc(size_t n, size_t size)
{
	return fails() ? NULL : real_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
	return fails() ? NULL : real_realloc(p, n);
}

void *reallocarray(void *p, size_t n, size_t size)
{
	size_t bytes;
	if (fails() || __builtin_mul_overflow(n, size, &bytes))
		return NULL;
	return real_realloc(p, bytes);
}

void *memalign(size_t alignment, size_t n)
{
	return fails() ? NULL : real_memalign(alignment, n);
}

void *aligned_alloc(size_t alignment, size_t n)
{
	return fails() ? NULL : real_memalign(alignment, n);
}

int posix_memalign(void **p, size_t alignment, size_t n)
{
	if (fails())
		return ENOMEM;
	*p = real_memalign(alignment, n);
	return *p ? 0 : ENOMEM;
}

void *mmap(void *where, size_t n, int prot, int flags, int fd, off_t offset)
{
	static void *(*real)(void *, size_t, int, int, int, off_t);
	if (!real)
		real = (void *(*)(void *, size_t, int, int, int, off_t))dlsym(RTLD_NEXT, "mmap");
	if ((flags & MAP_ANONYMOUS) && fails())
		return MAP_FAILED;
	return real(where, n, prot, flags, fd, offset);
}
