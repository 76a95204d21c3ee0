#include "cmd/text/ask_password.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "lib/base/io.h"

/* Read a line, or take a signal of @fd_signals into *ended. -1: neither. */
static ssize_t read_line(int tty, int fd_signals, char *text, size_t cap, int *ended)
{
	struct pollfd fds[2] = {{.fd = tty, .events = POLLIN},
	                        {.fd = fd_signals, .events = POLLIN}};
	struct signalfd_siginfo info;
	if (io_retry(poll(fds, 2, -1)) < 0)
		return -1;
	if (fds[1].revents && read(fd_signals, &info, sizeof info) == sizeof info) {
		*ended = (int)info.ssi_signo;
		return -1;
	}
	ssize_t len = io_retry(read(tty, text, cap)); /* a terminal gives whole lines */
	return len > 0 && text[len - 1] == '\n' ? len - 1 : len;
}

int ask_on_terminal(const char *question, char *text, size_t cap)
{
	static const int ends[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};
	struct termios before, quiet;
	sigset_t signals, mask;
	int ended = 0;
	ssize_t len = -1;
	int tty = io_retry(open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY));
	if (tty < 0 || tcgetattr(tty, &before) < 0) {
		if (tty >= 0)
			close(tty);
		return -1;
	}
	sigemptyset(&signals);
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
		sigaddset(&signals, ends[i]);
	(void)sigprocmask(SIG_BLOCK, &signals, &mask);
	int fd_signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	quiet = before;
	quiet.c_lflag &= ~(tcflag_t)ECHO;
	if (fd_signals >= 0 && tcsetattr(tty, TCSAFLUSH, &quiet) == 0) {
		(void)write_all(tty, question, strlen(question));
		len = read_line(tty, fd_signals, text, cap, &ended);
		(void)tcsetattr(tty, TCSAFLUSH, &before);
		(void)write_all(tty, "\n", 1);
	}
	if (fd_signals >= 0)
		close(fd_signals);
	close(tty);
	if (ended)
		(void)raise(ended);
	(void)sigprocmask(SIG_SETMASK, &mask, NULL); /* a signal ends the process here */
	return (int)len;
}
