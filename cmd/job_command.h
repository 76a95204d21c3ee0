/* Shared by the commands that run a job: the observer that shows progress, and the report. */
#ifndef COLLCTL_CMD_JOB_COMMAND_H
#define COLLCTL_CMD_JOB_COMMAND_H

#include "cmd/commands.h"
#include "cmd/text/progress.h"
#include "cmd/trace/trace_files.h"
#include "lib/coll/coll.h"

struct job_view {
	const struct options *o;
	const char *command;
	struct progress progress;
	struct trace_files trace;
};
/* Shows notes, the sources of settings (-v), progress and --explain. @view must live as long as the
 * job. */
struct coll_observer job_observer(struct job_view *view, const struct command *,
                                  const struct options *);

/* With devices: set environment variables for CUDA and NCCL that the user has not set, so that NCCL
 * listens only on this host and writes nothing to stdout, where the result is printed. Call it
 * before threads exist. */
void job_set_device_environment(const struct coll_request *);

/* Make the jobs of this process write a byte to @fd (-1: nowhere) at the verdict. `run` needs it,
 * because it may lose the connection to a rank that has committed. */
void job_tell_verdict(int fd);

/* A command that runs a job of this kind: request, run, report. Returns the exit code. */
int job_command(enum coll_work, const struct command *, const struct options *, int argc,
                char **argv);

#endif
