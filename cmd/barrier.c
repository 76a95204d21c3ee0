/* barrier: wait for all ranks. */
#include "cmd/job_command.h"

int cmd_barrier(const struct command *cmd, struct options *o, int argc, char **argv)
{
	return job_command(WORK_BARRIER, cmd, o, argc, argv);
}
