#include "cmd/run/retry.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/run/run_rank.h"
#include "lib/base/io.h"
#include "lib/base/private.h"

static int child(retry_fn *once, void *ctx, int left, int pipe_end, pid_t parent,
                 const sigset_t *signals)
{
	bool again = false;
	rank_die_with(parent, SIGTERM);
	(void)sigprocmask(SIG_SETMASK, signals, NULL);
	int code = once(ctx, left, &again);
	if (again)
		(void)write_all(pipe_end, "", 1);
	close(pipe_end);
	return code;
}

/* Wait for the child, and pass on the signals that come meanwhile; *ended is the last one. Returns
 * its exit code. */
static int await_child(pid_t pid, const sigset_t *signals, int *ended)
{
	siginfo_t info;
	int status;
	for (;;) {
		if (sigwaitinfo(signals, &info) < 0)
			continue;
		if (info.si_signo != SIGCHLD) { /* a terminal may have sent it to this one alone */
			*ended = info.si_signo;
			(void)kill(pid, *ended);
		}
		if (io_retry(waitpid(pid, &status, WNOHANG)) == pid)
			return rank_exit_code(status);
	}
}

/* The number of a signal that is pending; 0: none. */
static int take_signal(const sigset_t *signals)
{
	static const struct timespec none;
	siginfo_t info;
	for (;;) {
		if (sigtimedwait(signals, &info, &none) < 0)
			return 0;
		if (info.si_signo != SIGCHLD)
			return info.si_signo;
	}
}

int retry(int retries, retry_fn *once, void *ctx, struct err *err)
{
	static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGCHLD};
	const pid_t self = getpid();
	sigset_t signals, before;
	int code = 0, ended = 0, ends_of_pipe[2];
	char asked = 1;
	private_process(NULL);          /* its environment keeps the secret */
	(void)signal(SIGCHLD, SIG_DFL); /* if it is ignored, no child can be waited for */
	sigemptyset(&signals);
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
		sigaddset(&signals, ends[i]);
	(void)sigprocmask(SIG_BLOCK, &signals, &before);
	for (int left = retries; asked; left--) {
		/* A signal may have come when no try was there to end. */
		ended = take_signal(&signals);
		if (ended)
			return 128 + ended;
		if (pipe2(ends_of_pipe, O_CLOEXEC) < 0)
			return err_errno(err, ERR_RESOURCE, "pipe");
		(void)fflush(NULL);
		pid_t pid = fork();
		if (pid == 0) {
			close(ends_of_pipe[0]);
			return child(once, ctx, left, ends_of_pipe[1], self, &before);
		}
		close(ends_of_pipe[1]);
		if (pid < 0) {
			close(ends_of_pipe[0]);
			return err_errno(err, ERR_RESOURCE, "fork");
		}
		code = await_child(pid, &signals, &ended);
		asked = read_full(ends_of_pipe[0], &asked, 1) == 1;
		close(ends_of_pipe[0]);
		if (asked && ended) /* that try was over when it came */
			return 128 + ended;
	}
	return code;
}
