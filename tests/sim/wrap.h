/*
 * The product's calls of libc that the simulation answers: the linker sends a call of NAME to
 * __wrap_NAME, and __real_NAME is libc's own. The simulator's own calls (current == NULL) always go
 * to libc. A line each; the Makefile reads the names of this file for the linker's options.
 * Likewise the calls from one of the product's files to another through which an insider acts.
 */
#ifndef COLLCTL_TESTS_SIM_WRAP_H
#define COLLCTL_TESTS_SIM_WRAP_H

#include <dlfcn.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <time.h>

#include "lib/job/coordinator/coord.h"
#include "lib/job/ctl.h"

#define WRAP(type, name, ...)            \
	type __real_##name(__VA_ARGS__); \
	type __wrap_##name(__VA_ARGS__);

/* clang-format off */
/* sched.c */
WRAP(int, pthread_create, pthread_t *, const pthread_attr_t *, void *(*)(void *), void *)
WRAP(int, pthread_join, pthread_t, void **)
WRAP(int, pthread_mutex_init, pthread_mutex_t *, const pthread_mutexattr_t *)
WRAP(int, pthread_mutex_destroy, pthread_mutex_t *)
WRAP(int, pthread_mutex_lock, pthread_mutex_t *)
WRAP(int, pthread_mutex_unlock, pthread_mutex_t *)
WRAP(int, pthread_cond_init, pthread_cond_t *, const pthread_condattr_t *)
WRAP(int, pthread_cond_destroy, pthread_cond_t *)
WRAP(int, pthread_cond_wait, pthread_cond_t *, pthread_mutex_t *)
WRAP(int, pthread_cond_signal, pthread_cond_t *)
/* net.c */
WRAP(int, socket, int, int, int)
WRAP(int, bind, int, const struct sockaddr *, socklen_t)
WRAP(int, listen, int, int)
WRAP(int, accept4, int, struct sockaddr *, socklen_t *, int)
WRAP(int, connect, int, const struct sockaddr *, socklen_t)
WRAP(int, getsockopt, int, int, int, void *, socklen_t *)
WRAP(int, setsockopt, int, int, int, const void *, socklen_t)
WRAP(int, getsockname, int, struct sockaddr *, socklen_t *)
WRAP(int, getpeername, int, struct sockaddr *, socklen_t *)
WRAP(ssize_t, recv, int, void *, size_t, int)
WRAP(ssize_t, send, int, const void *, size_t, int)
WRAP(ssize_t, readv, int, const struct iovec *, int)
WRAP(ssize_t, writev, int, const struct iovec *, int)
WRAP(ssize_t, sendmsg, int, const struct msghdr *, int)
WRAP(int, shutdown, int, int)
WRAP(int, ioctl, int, unsigned long, ...)
WRAP(int, epoll_create1, int)
WRAP(int, epoll_ctl, int, int, int, struct epoll_event *)
WRAP(int, epoll_wait, int, struct epoll_event *, int, int)
WRAP(int, eventfd, unsigned, int)
WRAP(int, signalfd, int, const sigset_t *, int)
/* files.c */
WRAP(ssize_t, read, int, void *, size_t)
WRAP(ssize_t, write, int, const void *, size_t)
WRAP(int, close, int)
WRAP(int, fcntl64, int, int, ...)
WRAP(int, poll, struct pollfd *, nfds_t, int)
WRAP(int, open64, const char *, int, ...)
WRAP(int, openat64, int, const char *, int, ...)
WRAP(ssize_t, pread64, int, void *, size_t, off64_t)
WRAP(ssize_t, pwrite64, int, const void *, size_t, off64_t)
WRAP(int, fsync, int)
WRAP(int, sync_file_range, int, off64_t, off64_t, unsigned)
WRAP(int, fallocate64, int, int, off64_t, off64_t)
WRAP(int, ftruncate64, int, off64_t)
WRAP(int, linkat, int, const char *, int, const char *, int)
WRAP(int, renameat, int, const char *, int, const char *)
WRAP(int, renameat2, int, const char *, int, const char *, unsigned)
WRAP(int, unlinkat, int, const char *, int)
WRAP(int, fchmod, int, mode_t)
WRAP(int, fstat64, int, struct stat64 *)
WRAP(int, fstatfs64, int, struct statfs64 *)
WRAP(int, dup2, int, int)
WRAP(FILE *, fopen64, const char *, const char *)
WRAP(char *, realpath, const char *, char *)
WRAP(char *, getcwd, char *, size_t)
/* world.c */
WRAP(int, clock_gettime, clockid_t, struct timespec *)
WRAP(int, sched_yield, void)
WRAP(ssize_t, getrandom, void *, size_t, unsigned)
WRAP(int, getaddrinfo, const char *, const char *, const struct addrinfo *, struct addrinfo **)
WRAP(void, freeaddrinfo, struct addrinfo *)
WRAP(int, getifaddrs, struct ifaddrs **)
WRAP(void, freeifaddrs, struct ifaddrs *)
WRAP(int, gethostname, char *, size_t)
WRAP(pid_t, getpid, void)
WRAP(char *, getenv, const char *)
WRAP(int, prctl, int, ...)
WRAP(int, getrlimit64, __rlimit_resource_t, struct rlimit64 *)
WRAP(int, setrlimit64, __rlimit_resource_t, const struct rlimit64 *)
WRAP(int, sigprocmask, int, const sigset_t *, sigset_t *)
WRAP(__sighandler_t, signal, int, __sighandler_t)
WRAP(int, isatty, int)
WRAP(int, sched_getaffinity, pid_t, size_t, cpu_set_t *)
WRAP(int, sched_setaffinity, pid_t, size_t, const cpu_set_t *)
WRAP(int, sched_getcpu, void)
/* store.c */
WRAP(void *, dlopen, const char *, int)
WRAP(void *, dlsym, void *, const char *)
WRAP(int, dlclose, void *)
WRAP(char *, dlerror, void)
/* insider.c: the product's own */
WRAP(int, ctl_start, struct ctl *, struct conn *, struct loop *, struct err *)
WRAP(int, ctl_take, struct ctl *, struct ctl *, struct loop *, struct err *)
WRAP(void, ctl_send, struct ctl *, uint8_t, const struct buf *)
WRAP(void, conn_free, struct conn *)
WRAP(struct coord *, coord_open, const struct coord_conf *, int, struct err *)
WRAP(void, coord_receive, struct coord *, uint8_t, struct view)
WRAP(void, job_handle_message, void *, uint8_t, struct view)
WRAP(int, greeting_advance, struct greeting *, struct conn *, struct err *)
WRAP(int, hkdf, const uint8_t *, size_t, const void *, size_t, uint8_t *, size_t)
/* clang-format on */

#endif
