/* verify: do all ranks have the same data? */
#include "cmd/job_command.h"

int cmd_verify(const struct command *cmd, struct options *o, int argc, char **argv)
{
	return job_command(WORK_VERIFY, cmd, o, argc, argv);
}
