#include "cmd/text/bar.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "cmd/text/report.h"
#include "cmd/text/terminal.h"
#include "lib/base/io.h"
#include "lib/base/text.h"

/* The cursor stands at the bar's beginning. If the terminal becomes narrower, it wraps the bar or
 * cuts it, and keeps the cursor at that beginning: all that is left of it is from there on. */
#define ERASE "\033[J" /* to the end of the screen */

/* One bar per process, because a process has one stderr. */
static bool launched;              /* bars are lines for the launcher */
static int launcher_terminal = -1; /* -1: it is on another host, and has */
static int launcher_columns;
static int launcher_cleared = -1; /* an eventfd */
static volatile sig_atomic_t stands;

static const char erase[] = "\r" ERASE;

void bar_launched(int terminal, int cleared)
{
	launched = true;
	launcher_terminal = terminal;
	launcher_cleared = cleared;
}

void bar_launched_far(int columns, int cleared)
{
	launched = true;
	launcher_columns = columns;
	launcher_cleared = cleared;
}

bool bar_possible(void)
{
	return launched || terminal_can_draw(STDERR_FILENO);
}

int bar_width(void)
{
	const int columns = launched && launcher_terminal < 0
	                            ? launcher_columns
	                            : terminal_width(launched ? launcher_terminal : STDERR_FILENO);

	return columns > 0 ? columns : 80;
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

static void erase_and_end(int sig)
{
	if (stands && write(STDERR_FILENO, erase, sizeof erase - 1) < 0)
		stands = false;
	raise(sig); /* its default action, by SA_RESETHAND */
}

/* A signal that ends the process erases the bar, unless the process handles or ignores it. */
static void watch_signals(void)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
	static bool watched;
	struct sigaction now,
	        action = {.sa_handler = erase_and_end, .sa_flags = (int)SA_RESETHAND | SA_NODEFER};

	for (size_t i = 0; !watched && i < sizeof signals / sizeof *signals; i++)
		if (sigaction(signals[i], NULL, &now) == 0 && now.sa_handler == SIG_DFL)
			sigaction(signals[i], &action, NULL);
	watched = true;
}

void bar_draw(const char *text)
{
	char line[BAR_MAX + sizeof ERASE + 3], safe[BAR_MAX];
	int n;

	if (!bar_writable())
		return;
	terminal_cut(text_escape(safe, sizeof safe, text), bar_width() - 1);
	if (launched)
		n = snprintf(line, sizeof line, "%c%s\n", BAR_MARK, safe);
	else if (in_foreground() && lock(F_WRLCK))
		n = snprintf(line, sizeof line, "\r%s%s\r", safe, ERASE);
	else
		return;
	if (!launched)
		watch_signals();
	stands = write_all(STDERR_FILENO, line, (size_t)n) == 0;
}

const char *bar_erasure(void)
{
	const bool mine = stands;

	stands = false;
	if (launched)
		return mine ? BAR_CLEAR "\n" : "";
	if (mine)
		lock(F_UNLCK);
	else if (!is_anothers())
		return "";
	return erase;
}

/* The launcher may be stopped, or its terminal may not be read: then the bar may stay. */
#define LONGEST 3000 /* ms */

static void ask_launcher(void)
{
	static const char line[] = BAR_TELL "\n";
	struct pollfd p = {.fd = launcher_cleared, .events = POLLIN};

	event_clear(launcher_cleared);
	if (write_all(STDERR_FILENO, line, sizeof line - 1) == 0)
		poll(&p, 1, LONGEST);
	stands = false;
}

void bar_clear(void)
{
	if (launched && stands && launcher_cleared >= 0) {
		ask_launcher();
		return;
	}
	const char *text = bar_erasure();

	write_all(STDERR_FILENO, text, strlen(text));
}
