#include <fcntl.h>
#include <unistd.h>

#include "cmd/commands.h"

/* A closed standard descriptor must not become a socket or an output file, which would receive
 * messages. Its replacement fails to read (0) or to write (1, 2), like a closed one. */
static void hold_standard_descriptors(void)
{
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			(void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int main(int argc, char **argv)
{
	hold_standard_descriptors();
	return collctl_main(argc, argv);
}
