/* The collectives over files. */
#include "cmd/job_command.h"

int cmd_collective(const struct command *cmd, struct options *o, int argc, char **argv)
{
	return job_command(WORK_COLLECTIVE, cmd, o, argc, argv);
}
