/*
 * The commands. How to add one: write its body in cmd/<name>.c, declare it here and add its row to
 * the table in commands.c. The parser, --help, the man page and the completions use this row.
 */
#ifndef COLLCTL_CMD_COMMANDS_H
#define COLLCTL_CMD_COMMANDS_H

#include "cmd/options/options.h"
#include "cmd/text/report.h"
#include "lib/base/version.h"
#include "lib/data/kernels/reduce.h"
#include "lib/sched/sched.h"

/* The program, without exiting: parses, runs the command and returns the exit code. `run` calls it
 * in forked children. */
int collctl_main(int argc, char **argv);

/* The row of @name, or NULL. */
const struct command *command_find(const char *name);
/* The name of the command nearest to the misspelled @name, or NULL. */
const char *command_near(const char *name);

/* A barrier with --algorithm auto uses no schedule. plan and bench need one, and print this
 * remark. */
#define BARRIER_AUTO \
	"barrier without -a uses only the links to rank 0; -a all_to_all tests every link"

/* The commands. They print their output and errors, and return the exit code. */
int cmd_collective(const struct command *, struct options *, int argc, char **argv);
int cmd_barrier(const struct command *, struct options *, int argc, char **argv);
int cmd_check(const struct command *, struct options *, int argc, char **argv);
int cmd_run(const struct command *, struct options *, int argc, char **argv);
int cmd_invite(const struct command *, struct options *, int argc, char **argv);
int cmd_bench(const struct command *, struct options *, int argc, char **argv);
int cmd_serve(const struct command *, struct options *, int argc, char **argv);
int cmd_plan(const struct command *, struct options *, int argc, char **argv);
int cmd_algorithms(const struct command *, struct options *, int argc, char **argv);
int cmd_info(const struct command *, struct options *, int argc, char **argv);
int cmd_verify(const struct command *, struct options *, int argc, char **argv);
int cmd_clean(const struct command *, struct options *, int argc, char **argv);
int cmd_keygen(const struct command *, struct options *, int argc, char **argv);
int cmd_ca(const struct command *, struct options *, int argc, char **argv);
int cmd_version(const struct command *, struct options *, int argc, char **argv);
int cmd_help(const struct command *, struct options *, int argc, char **argv);

#endif
