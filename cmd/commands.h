/*
 * The commands. How to add one: write its body in cmd/<name>.c, declare it here and add its row to
 * the table in commands.c. Parser, --help, the man page and the completions pick it up from there.
 */
#ifndef COLLCTL_CMD_COMMANDS_H
#define COLLCTL_CMD_COMMANDS_H

#include "algorithms/sched.h"
#include "cmd/options.h"
#include "cmd/report.h"
#include "lib/data/reduce.h"

#define COLLCTL_VERSION "0.1.0"

/* The whole program, without the end of the process: parses, runs the command and returns the exit
 * code. `run` calls it in forked children, which therefore start without an exec. */
int collctl_main(int argc, char **argv);

/* The row of @name, or NULL. */
const struct command *command_find(const char *name);
/* The name of the command that @name was probably meant to be, or NULL. */
const char *command_near(const char *name);

/* The algorithm that --algorithm names; "auto": NULL. ERR_USAGE with those that there are. */
int algorithm_named(enum coll_kind kind, const char *name, const struct coll_algorithm **out,
                    struct err *err);
/* Can it serve --order rank? ERR_USAGE with those that can. */
int algorithm_orders(const struct coll_algorithm *alg, struct err *err);
/* The operation that --op names, if it is defined for @kind. */
int operation_named(enum coll_kind kind, const char *name, enum reduce_op *out, struct err *err);

/* --root and, of an exchange, --steps (given) against @size ranks. */
int options_fit(const struct options *o, enum coll_kind kind, int size, struct err *err);

/* What --algorithm auto means for a barrier: no schedule. plan and bench, which need one, say so
 * beside the one that they take. */
#define BARRIER_AUTO \
	"barrier without -a uses the links to rank 0 alone; -a all_to_all tries every link"

/* The bodies. They return the exit code, and have printed what there is to print. */
int cmd_collective(const struct command *, struct options *, int argc, char **argv);
int cmd_barrier(const struct command *, struct options *, int argc, char **argv);
int cmd_run(const struct command *, struct options *, int argc, char **argv);
int cmd_bench(const struct command *, struct options *, int argc, char **argv);
int cmd_serve(const struct command *, struct options *, int argc, char **argv);
int cmd_plan(const struct command *, struct options *, int argc, char **argv);
int cmd_algorithms(const struct command *, struct options *, int argc, char **argv);
int cmd_info(const struct command *, struct options *, int argc, char **argv);
int cmd_verify(const struct command *, struct options *, int argc, char **argv);
int cmd_keygen(const struct command *, struct options *, int argc, char **argv);
int cmd_help(const struct command *, struct options *, int argc, char **argv);

#endif
