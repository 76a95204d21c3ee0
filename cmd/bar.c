#include "cmd/bar.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "lib/base/io.h"

#define ERASE "\033[K" /* to the end of the line */

/* One bar per process, because a process has one stderr. */
static int launcher_terminal = -1; /* >= 0: bars are lines for the launcher */
static bool stands;

void bar_launched(int terminal)
{
	launcher_terminal = terminal;
}

bool bar_possible(void)
{
	const char *term = getenv("TERM");

	return launcher_terminal >= 0 ||
	       (isatty(STDERR_FILENO) && !(term && strcmp(term, "dumb") == 0));
}

int bar_width(void)
{
	struct winsize size;
	int fd = launcher_terminal >= 0 ? launcher_terminal : STDERR_FILENO;

	return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

bool bar_writable(void)
{
	struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};

	return poll(&p, 1, 0) == 1 && (p.revents & POLLOUT);
}

/* A job in the background must not draw over the shell's prompt, nor be stopped for it (tostop). */
static bool in_foreground(void)
{
	pid_t group = tcgetpgrp(STDERR_FILENO);

	return group < 0 || group == getpgrp();
}

/* Lock the terminal for this process. False: another process has the lock. The lock lasts until the
 * process ends or clears its bar. */
static bool lock(short type)
{
	struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_len = 1};

	return fcntl(STDERR_FILENO, F_SETLK, &l) == 0 || (errno != EAGAIN && errno != EACCES);
}

/* Does another process have the lock, and so show its bar? */
static bool is_anothers(void)
{
	struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};

	return bar_possible() && fcntl(STDERR_FILENO, F_GETLK, &l) == 0 && l.l_type != F_UNLCK;
}

void bar_draw(const char *text)
{
	char line[BAR_MAX + sizeof ERASE];
	int n;

	if (!bar_writable())
		return;
	if (launcher_terminal >= 0)
		n = snprintf(line, sizeof line, "%c%s\n", BAR_MARK, text);
	else if (in_foreground() && lock(F_WRLCK))
		n = snprintf(line, sizeof line, "\r%s%s", text, ERASE);
	else
		return;
	stands = write_all(STDERR_FILENO, line, (size_t)n) == 0;
}

void bar_clear(void)
{
	static const char launched[] = {BAR_MARK, '\n'}, direct[] = "\r" ERASE;
	bool mine = stands;

	stands = false;
	if (launcher_terminal >= 0 && mine)
		write_all(STDERR_FILENO, launched, sizeof launched);
	if (launcher_terminal >= 0 || (!mine && !is_anothers()))
		return;
	write_all(STDERR_FILENO, direct, sizeof direct - 1);
	if (mine)
		lock(F_UNLCK);
}
