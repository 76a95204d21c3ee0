/* What else a process asks its host: the time, random numbers, names and addresses, limits. */
#include "tests/sim/sim.h"
#include "tests/sim/wrap.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	if (!current)
		return __real_clock_gettime(clock, ts);
	now += 50;
	int64_t t = now + current->clock_base; /* each host has booted at another time */
	ts->tv_sec = t / SEC;
	ts->tv_nsec = t % SEC;
	return 0;
}

int __wrap_sched_yield(void)
{
	if (!current)
		return __real_sched_yield();
	step_and_yield();
	return 0;
}

ssize_t __wrap_getrandom(void *buf, size_t n, unsigned flags)
{
	if (!current)
		return __real_getrandom(buf, n, flags);
	step();
	rng_bytes(&product_rng, buf, n);
	return (ssize_t)n;
}

/* Numeric addresses, and h0, h1 ... of the hosts. */
int __wrap_getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                       struct addrinfo **out)
{
	struct {
		struct addrinfo info;
		struct sockaddr_in in;
	} * found;
	struct in_addr a;
	int host;
	if (!current)
		return __real_getaddrinfo(name, service, hints, out);
	step();
	if (sscanf(name, "h%d", &host) == 1)
		a.s_addr = htonl(0x0a000001u + (uint32_t)host);
	else if (inet_pton(AF_INET, name, &a) != 1)
		return EAI_NONAME;
	found = calloc(1, sizeof *found);
	if (!found)
		return EAI_MEMORY;
	found->in.sin_family = AF_INET;
	found->in.sin_addr = a;
	found->info.ai_family = AF_INET;
	found->info.ai_socktype = SOCK_STREAM;
	found->info.ai_addrlen = sizeof found->in;
	found->info.ai_addr = (struct sockaddr *)&found->in;
	*out = &found->info;
	return 0;
}

void __wrap_freeaddrinfo(struct addrinfo *info)
{
	if (current)
		free(info);
	else
		__real_freeaddrinfo(info);
}

int __wrap_getifaddrs(struct ifaddrs **out)
{
	struct {
		struct ifaddrs i;
		struct sockaddr_in in;
	} * one;
	if (!current)
		return __real_getifaddrs(out);
	step();
	one = calloc(1, sizeof *one);
	if (!one)
		return -1;
	one->in.sin_family = AF_INET;
	one->in.sin_addr.s_addr = htonl(0x0a000001u + (uint32_t)current->host);
	one->i.ifa_name = (char *)"eth0";
	one->i.ifa_flags = IFF_UP;
	one->i.ifa_addr = (struct sockaddr *)&one->in;
	*out = &one->i;
	return 0;
}

void __wrap_freeifaddrs(struct ifaddrs *list)
{
	if (current)
		free(list);
	else
		__real_freeifaddrs(list);
}

int __wrap_gethostname(char *name, size_t n)
{
	if (!current)
		return __real_gethostname(name, n);
	snprintf(name, n, "h%d", current->host);
	return 0;
}

pid_t __wrap_getpid(void)
{
	return current ? 1000 + current->id : __real_getpid();
}

char *__wrap_getenv(const char *name)
{
	return current ? NULL : __real_getenv(name);
}

int __wrap_prctl(int option, ...)
{
	(void)option;
	return 0;
}

int __wrap_getrlimit64(__rlimit_resource_t resource, struct rlimit64 *limit)
{
	if (!current)
		return __real_getrlimit64(resource, limit);
	limit->rlim_cur = limit->rlim_max = resource == RLIMIT_NOFILE ? 65536 : RLIM64_INFINITY;
	return 0;
}

int __wrap_setrlimit64(__rlimit_resource_t resource, const struct rlimit64 *limit)
{
	return current ? 0 : __real_setrlimit64(resource, limit);
}

int __wrap_sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	if (!current)
		return __real_sigprocmask(how, set, old);
	current->blocks_signals = how == SIG_BLOCK;
	return 0;
}

__sighandler_t __wrap_signal(int sig, __sighandler_t handler)
{
	return current ? SIG_DFL : __real_signal(sig, handler);
}

int __wrap_isatty(int fd)
{
	return current ? 0 : __real_isatty(fd);
}

int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
	if (!current)
		return __real_sched_getaffinity(pid, size, set);
	memset(set, 0, size);
	CPU_SET(0, set);
	CPU_SET(1, set);
	return 0;
}

int __wrap_sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *set)
{
	return current ? 0 : __real_sched_setaffinity(pid, size, set);
}

int __wrap_sched_getcpu(void)
{
	return current ? 0 : __real_sched_getcpu();
}
