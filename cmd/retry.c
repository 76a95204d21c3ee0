#include "cmd/retry.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/report.h"
#include "lib/base/io.h"
#include "lib/base/private.h"

static int child(retry_fn *once, void *ctx, int left, int pipe_end, pid_t parent,
                 const sigset_t *signals)
{
	bool again = false;
	(void)prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent) /* it has ended already */
		return 128 + SIGTERM;
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
		if (info.si_signo != SIGCHLD) {
			*ended = info.si_signo;
			if (info.si_code != SI_KERNEL) /* the terminal has sent it to both */
				(void)kill(pid, *ended);
		}
		if (io_retry(waitpid(pid, &status, WNOHANG)) == pid)
			return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	}
}

static int failed(const char *what)
{
	struct err err = {.rank = ERR_RANK_SELF};
	err_errno(&err, ERR_RESOURCE, "%s", what);
	return report(&err, -1);
}

int retry(int retries, retry_fn *once, void *ctx)
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
		if (pipe2(ends_of_pipe, O_CLOEXEC) < 0)
			return failed("pipe");
		(void)fflush(NULL);
		pid_t pid = fork();
		if (pid == 0) {
			close(ends_of_pipe[0]);
			return child(once, ctx, left, ends_of_pipe[1], self, &before);
		}
		close(ends_of_pipe[1]);
		if (pid < 0) {
			close(ends_of_pipe[0]);
			return failed("fork");
		}
		code = await_child(pid, &signals, &ended);
		asked = read_full(ends_of_pipe[0], &asked, 1) == 1;
		close(ends_of_pipe[0]);
		if (asked && ended) /* it came when that try was over */
			return 128 + ended;
	}
	return code;
}
