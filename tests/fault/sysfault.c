/*
 * Run a command and let one of its system calls go wrong (ptrace), counted over all its threads
 * from its exec on.
 *
 *   sysfault count [NAME] -- COMMAND...      how many there are
 *   sysfault kill[+N] K [NAME] -- COMMAND...
 *                                            SIGKILL in place of the K-th, or N calls after it
 *   sysfault hold K NAME -- COMMAND...       the command stands still at the K-th until somebody
 *                                            opens the FIFO $SYSFAULT_GO for writing and closes it
 *   sysfault delay=MS K NAME -- COMMAND...
 *                                            the thread stands still at the K-th for so long; the
 *                                            others go on
 *   sysfault signal=S K [NAME] -- COMMAND... signal S comes with the K-th
 *   sysfault error=E[*N] K NAME -- COMMAND...
 *                                            the K-th NAME, and N - 1 after it, fails with errno E
 *                                            and has no effect; E 0: it seems to succeed
 *   sysfault short K NAME -- COMMAND...      the K-th NAME (of fd, buffer, length) does half
 *
 * Ends as the command does, by the same signal too. Last the file that SYSFAULT_REPORT names gets a
 * line: calls that were counted, whether the fault was injected (0, 1), sendmsg calls that sent
 * something, calls of any kind after the K-th until the fault of kill+N.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef __x86_64__
int main(void)
{
	fprintf(stderr, "sysfault: knows the registers of x86-64 only\n");
	return 77;
}
#else

#define OPTIONS                                                                                   \
	(PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | \
	 PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL)
#define THREADS 256

enum action { COUNT, KILL, SIGNAL, HOLD, DELAY, FAIL, SHORT };

static const struct {
	const char *name;
	long nr;
	unsigned long request; /* of an ioctl; 0: any */
} names[] = {
        {"pwrite64", SYS_pwrite64},
        {"pread64", SYS_pread64},
        {"write", SYS_write},
        {"fsync", SYS_fsync},
        {"close", SYS_close},
        {"renameat", SYS_renameat},
        {"linkat", SYS_linkat},
        {"fallocate", SYS_fallocate},
        {"openat", SYS_openat},
        {"sync_file_range", SYS_sync_file_range},
        {"newfstatat", SYS_newfstatat},
        {"connect", SYS_connect},
        {"accept4", SYS_accept4},
        {"sendmsg", SYS_sendmsg},
        {"recvfrom", SYS_recvfrom},
        {"epoll_wait", SYS_epoll_wait},
        {"epoll_ctl", SYS_epoll_ctl},
        {"epoll_create1", SYS_epoll_create1},
        {"socket", SYS_socket},
        {"mmap", SYS_mmap},
        {"clone3", SYS_clone3},
        {"memfd_create", SYS_memfd_create},
        {"FICLONE", SYS_ioctl, FICLONE},
        {"FICLONERANGE", SYS_ioctl, FICLONERANGE},
};

static struct {
	enum action action;
	int error, times, signal, ms;
	pid_t delayed, alarm;     /* the thread, and the process that ends when it goes on */
	long k, nr;               /* nr -1: any */
	unsigned long request;    /* 0: any */
	long after;               /* calls of any kind from the K-th on */
	long count, sent, passed; /* passed: calls of any kind after the K-th */
	int injected;
} fault = {.nr = -1};

/* Between a call's entry and its exit: what to make of its result. */
static struct {
	pid_t tid;
	int inside;
	bool replaced; /* the result */
	int failing;   /* errno to put in its place, or 0 */
} threads[THREADS];

static int slot(pid_t tid)
{
	int free_slot = -1;
	for (int i = 0; i < THREADS; i++) {
		if (threads[i].tid == tid)
			return i;
		if (!threads[i].tid && free_slot < 0)
			free_slot = i;
	}
	if (free_slot < 0) {
		fprintf(stderr, "sysfault: too many threads\n");
		exit(1);
	}
	threads[free_slot].tid = tid;
	threads[free_slot].inside = threads[free_slot].replaced = 0;
	return free_slot;
}

static void usage(void)
{
	fprintf(stderr, "usage: sysfault count|kill[+N]|hold|delay=MS|signal=S|error=E[*N]|short "
	                "[K] [NAME] "
	                "-- COMMAND...\n");
	exit(2);
}

static long number_of(const char *name, unsigned long *request)
{
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (strcmp(names[i].name, name) == 0) {
			*request = names[i].request;
			return names[i].nr;
		}
	fprintf(stderr, "sysfault: system call '%s' is not in the table\n", name);
	exit(2);
}

/* Returns the index of the command. */
static int parse(int argc, char **argv)
{
	int i = 1;
	if (argc < 4)
		usage();
	const char *action = argv[i++];
	if (strncmp(action, "kill", 4) == 0)
		fault.action = KILL;
	else if (strcmp(action, "hold") == 0)
		fault.action = HOLD;
	else if (strncmp(action, "delay=", 6) == 0)
		fault.action = DELAY;
	else if (strncmp(action, "signal=", 7) == 0)
		fault.action = SIGNAL;
	else if (strcmp(action, "short") == 0)
		fault.action = SHORT;
	else if (strncmp(action, "error=", 6) == 0)
		fault.action = FAIL;
	else if (strcmp(action, "count") != 0)
		usage();
	if (fault.action == KILL)
		fault.after = atol(action + 4);
	if (fault.action == FAIL) {
		const char *times = strchr(action, '*');
		fault.error = atoi(action + 6);
		fault.times = times ? atoi(times + 1) : 1;
	}
	if (fault.action == DELAY)
		fault.ms = atoi(action + 6);
	if (fault.action == SIGNAL)
		fault.signal = atoi(action + 7);
	if (fault.action != COUNT)
		fault.k = atol(argv[i++]);
	if (i < argc && strcmp(argv[i], "--") != 0)
		fault.nr = number_of(argv[i++], &fault.request);
	if (i + 1 >= argc || strcmp(argv[i], "--") != 0)
		usage();
	return i + 1;
}

/* Nobody is resumed while the tracer waits. */
static void hold(void)
{
	const char *go = getenv("SYSFAULT_GO");
	char end;
	int fd = go ? open(go, O_RDONLY) : -1;
	if (fd < 0) {
		perror("sysfault: SYSFAULT_GO");
		exit(1);
	}
	while (read(fd, &end, 1) > 0)
		continue;
	close(fd);
}

/* The thread is resumed when the alarm ends, which the tracer waits for as for any other. */
static void delay(pid_t tid)
{
	fault.delayed = tid;
	fault.alarm = fork();
	if (fault.alarm == 0) {
		poll(NULL, 0, fault.ms);
		_exit(0);
	}
}

static void inject(pid_t pid, pid_t tid, int s, struct user_regs_struct *regs)
{
	fault.injected = 1;
	switch (fault.action) {
	case KILL:
		kill(pid, SIGKILL);
		return;
	case HOLD:
		hold();
		return;
	case DELAY:
		delay(tid);
		return;
	case SIGNAL:
		kill(pid, fault.signal);
		return;
	case FAIL: /* no such call has no effect; its result is replaced at the exit */
		regs->orig_rax = (unsigned long long)-1;
		threads[s].replaced = true;
		threads[s].failing = fault.error;
		ptrace(PTRACE_SETREGS, tid, NULL, regs);
		return;
	case SHORT:
		regs->rdx = regs->rdx > 1 ? regs->rdx / 2 : 1;
		ptrace(PTRACE_SETREGS, tid, NULL, regs);
		return;
	default:
		return;
	}
}

/* The fault's call? renameat is also a renameat2 into place: not from one temporary name to
 * another. */
static bool is_call(pid_t tid, long nr, const struct user_regs_struct *regs)
{
	char first = '.';
	struct iovec here = {&first, 1}, there = {(void *)regs->r10, 1};
	if (fault.nr < 0)
		return true;
	if (fault.nr == SYS_renameat && nr == SYS_renameat2)
		return process_vm_readv(tid, &here, 1, &there, 1, 0) == 1 && first != '.';
	return nr == fault.nr && (!fault.request || regs->rsi == fault.request);
}

static void at_syscall(pid_t pid, pid_t tid)
{
	struct user_regs_struct regs;
	int s = slot(tid);
	if (ptrace(PTRACE_GETREGS, tid, NULL, &regs) < 0)
		return;
	threads[s].inside = !threads[s].inside;
	long nr = (long)regs.orig_rax;
	if (threads[s].inside) {
		bool counts = is_call(tid, nr, &regs);
		bool reached = fault.count >= fault.k;
		fault.count += counts;
		if (fault.injected && counts && --fault.times > 0)
			inject(pid, tid, s, &regs);
		if (fault.action == COUNT || fault.injected)
			return;
		fault.passed += reached;
		if (reached ? --fault.after == 0 : fault.count == fault.k && fault.after == 0)
			inject(pid, tid, s, &regs);
		return;
	}
	if (threads[s].replaced) {
		regs.rax = (unsigned long long)-threads[s].failing;
		ptrace(PTRACE_SETREGS, tid, NULL, &regs);
		threads[s].replaced = false;
	}
	fault.sent += nr == SYS_sendmsg && (long)regs.rax > 0;
}

static int trace(pid_t pid)
{
	int status, code = 0;
	pid_t tid;
	waitpid(pid, &status, 0); /* stopped at its exec */
	ptrace(PTRACE_SETOPTIONS, pid, NULL, OPTIONS);
	ptrace(PTRACE_SYSCALL, pid, NULL, 0);
	while ((tid = waitpid(-1, &status, __WALL)) > 0 || errno == EINTR) {
		int sig = 0;
		if (tid <= 0)
			continue;
		if (tid == fault.alarm) {
			ptrace(PTRACE_SYSCALL, fault.delayed, NULL, 0);
			fault.delayed = 0;
			continue;
		}
		if (WIFEXITED(status) || WIFSIGNALED(status)) {
			int s = slot(tid);
			threads[s].tid = 0;
			if (tid == pid)
				code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
			continue;
		}
		if (WSTOPSIG(status) == (SIGTRAP | 0x80))
			at_syscall(pid, tid);
		else if (status >> 16 == 0 && WSTOPSIG(status) != SIGSTOP)
			sig = WSTOPSIG(
			        status); /* a signal of its own; a new thread begins stopped */
		if (tid != fault.delayed)
			ptrace(PTRACE_SYSCALL, tid, NULL, sig);
	}
	return code;
}

int main(int argc, char **argv)
{
	int command = parse(argc, argv);
	pid_t pid = fork();
	if (pid < 0) {
		perror("sysfault: fork");
		return 1;
	}
	if (pid == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0) {
			perror("sysfault: ptrace");
			_exit(77);
		}
		execvp(argv[command], argv + command);
		perror(argv[command]);
		_exit(127);
	}
	/* Whoever signals us means the command. */
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	int code = trace(pid);
	const char *report = getenv("SYSFAULT_REPORT");
	FILE *f = report ? fopen(report, "w") : NULL;
	if (f) {
		fprintf(f, "%ld %d %ld %ld\n", fault.count, fault.injected, fault.sent,
		        fault.passed);
		fclose(f);
	}
	if (code < 0) {
		signal(-code, SIG_DFL);
		raise(-code);
	}
	return code;
}
#endif
