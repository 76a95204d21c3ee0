#include "cmd/commands.h"
#include "cmd/run/remote.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/base/json.h"
#include "lib/base/stuck.h"
#include "lib/crypto/crypto.h"

#define COLLECTIVE WORK_COLLECTIVE, FOR_RETRY | FOR_JSON

/* clang-format off */
const struct command commands[] = {
	{"allreduce", "IN... -o OUT",
	 "reduce the arrays of all ranks; every rank gets the result",
	 COLLECTIVE, 1, -1, false, cmd_collective},
	{"reduce", "IN... -o OUT [--root R]",
	 "reduce the arrays of all ranks; the root gets the result",
	 COLLECTIVE, 1, -1, false, cmd_collective},
	{"reduce-scatter", "IN... -o OUT [--counts N,N,...]",
	 "reduce the arrays of all ranks; each rank gets its part of the rows",
	 COLLECTIVE, 1, -1, false, cmd_collective},
	{"broadcast", "[IN] -o OUT [--root R]", "give the root's file to every rank",
	 COLLECTIVE, 0, -1, false, cmd_collective},
	{"scatter", "[IN] -o OUT [--root R] [--counts N,N,...]",
	 "split the root's array along axis 0; each rank gets its part",
	 COLLECTIVE, 0, -1, false, cmd_collective},
	{"gather", "IN -o OUT [--root R]",
	 "concatenate the arrays of all ranks along axis 0; the root gets the result",
	 COLLECTIVE, 1, -1, false, cmd_collective},
	{"allgather", "IN -o OUT",
	 "concatenate the arrays of all ranks along axis 0; every rank gets the result",
	 COLLECTIVE, 1, -1, false, cmd_collective},
	{"alltoall", "IN -o OUT [--counts N,N,...]",
	 "split every array along axis 0; rank r gets part r of each",
	 COLLECTIVE, 1, -1, false, cmd_collective},
	{"scan", "IN -o OUT", "rank r gets the reduction of the arrays of ranks 0 to r",
	 COLLECTIVE, 1, -1, false, cmd_collective},
	{"exscan", "IN -o OUT",
	 "rank r gets the reduction of the arrays of ranks 0 to r-1",
	 COLLECTIVE, 1, -1, false, cmd_collective},
	{"exchange", "IN --steps C",
	 "measure the time of an exchange of pieces of the array with C partners",
	 COLLECTIVE, 1, 1, false, cmd_collective},
	{"barrier", "", "wait for all ranks, over the links to rank 0; -a all_to_all tests every link",
	 WORK_BARRIER, FOR_RETRY | FOR_WAITS | FOR_JSON, 0, 0, false, cmd_barrier},
	{"check", "", "test and measure every link between the ranks",
	 WORK_CHECK, FOR_JSON, 0, 0, false, cmd_check},
	{"run", "-n N | -H HOSTS [--] COMMAND...",
	 "start the ranks of a collective or a program, on this host or on others by ssh",
	 NO_JOB, FOR_RUN | FOR_JSON, 1, -1, true, cmd_run},
	{"invite", "-n N [--] [COMMAND...]",
	 "make a ticket with which the ranks of a job find each other, and serve their meeting",
	 NO_JOB, FOR_INVITE | FOR_JSON, 0, -1, true, cmd_invite},
	{"serve", "[--listen ADDR:PORT]", "run the store where ranks meet",
	 NO_JOB, FOR_SERVE, 0, 0, false, cmd_serve},
	{"bench", "COLLECTIVE",
	 "measure a collective in memory, over sizes and algorithms",
	 WORK_BENCH, FOR_JSON, 1, 1, false, cmd_bench},
	{"plan", "COLLECTIVE -n P [--count N|--bytes SIZE]",
	 "print the schedule of an algorithm and predict its time",
	 NO_JOB, FOR_PLAN | FOR_REDUCE | FOR_CHOICE | FOR_ROOT | FOR_JSON, 1, 1, false, cmd_plan},
	{"algorithms", "[COLLECTIVE]", "list all algorithms, or those of one collective",
	 NO_JOB, FOR_JSON, 0, 1, false, cmd_algorithms},
	{"info", "FILE...", "show types, shapes, tensors, digests and statistics of files",
	 NO_JOB, FOR_INPUT | FOR_STATS | FOR_BYTES | FOR_INFO | FOR_JSON, 1, -1, false, cmd_info},
	{"verify", "FILE...", "check that all ranks have the same data; name the ranks that differ",
	 WORK_VERIFY, FOR_RETRY | FOR_JSON, 1, -1, false,
	 cmd_verify},
	{"clean", "DIR...", "remove what ended jobs have left: parts and temporary files", NO_JOB,
	 FOR_CLEAN | FOR_JSON, 1, -1, false, cmd_clean},
	{"keygen", "[FILE]", "create a job secret", NO_JOB, FOR_KEYGEN, 0, 1, false, cmd_keygen},
	{"ca", "init|issue|revoke DIR [CERTIFICATE...]",
	 "make certificates for ranks that share no secret", NO_JOB, FOR_CA, 2, -1, false, cmd_ca},
	{"version", "", "show what a bug report needs: version, libraries, processor, system",
	 NO_JOB, FOR_JSON, 0, 0, false, cmd_version},
	{"help", "[COMMAND]", "describe a command and its options", NO_JOB, FOR_HELP, 0, 1, false, cmd_help},
	{0},
};
/* clang-format on */

const struct command *command_find(const char *name)
{
	for (const struct command *c = commands; c->name; c++)
		if (strcmp(c->name, name) == 0)
			return c;
	return NULL;
}

static const char *next_command(void *ctx)
{
	const struct command **at = ctx;

	return (*at)->name ? (*at)++->name : NULL;
}

const char *command_near(const char *name)
{
	const struct command *at = commands;

	return options_near(name, next_command, &at);
}

/* Did the user ask for JSON? The command may be unknown. */
static bool asks_for_json(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (strcmp(argv[i], "--json") == 0)
			return true;
	return false;
}

static int unknown_command(const char *name, struct err *err)
{
	const char *near = command_near(name);

	if (near)
		return err_set(err, ERR_USAGE, "%s: unknown command; did you mean %s?", name, near);
	return err_set(err, ERR_USAGE, "%s: unknown command; 'collctl --help' lists them", name);
}

/* @argv[0] is the command's name. */
static int run_command(const struct command *cmd, struct options *o, int argc, char **argv)
{
	struct err err = ERR_INIT;

	if (options_parse(cmd, o, &argc, argv, &err) < 0)
		return report_failure(cmd->name, o->json, &err);
	if (o->help) {
		options_help(cmd, stdout);
		return 0;
	}
	/* In a job, and where files are removed, a closed pipe must be an error of write(); a
	 * command that only prints ends by the signal, as other programs in a pipeline do. */
	if (cmd->job != NO_JOB ||
	    command_groups(cmd) & (FOR_RUN | FOR_SERVE | FOR_CA | FOR_INVITE | FOR_CLEAN))
		signal(SIGPIPE, SIG_IGN);
	/* Needed for connections to many ranks and for the files of a set. */
	if (command_groups(cmd) & (FOR_JOIN | FOR_INPUT))
		raise_file_limit(NULL);
	return cmd->run(cmd, o, argc, argv);
}

static int print_version(bool json)
{
	if (json)
		return report_json(json_pack("{s:s, s:b, s:s, s:n}", "command", "version", "ok", 1,
		                             "version", COLLCTL_VERSION, "error"));
	printf("collctl %s\n", COLLCTL_VERSION);
	return 0;
}

static int dispatch(struct options *o, int argc, char **argv)
{
	struct err err = ERR_INIT;
	bool json = asks_for_json(argc, argv);

	if (options_parse_leading(o, &argc, argv, &err) < 0)
		return report_failure(NULL, json, &err);
	if (o->version)
		return print_version(o->json);
	if (o->help) {
		options_help(argc > 1 ? command_find(argv[1]) : NULL, stdout);
		return 0;
	}
	if (argc == 1) {
		err_set(&err, ERR_USAGE, "no command given; 'collctl --help' lists them");
		report_failure(NULL, json, &err);
		if (!json)
			options_begin(stderr);
		return ERR_USAGE;
	}
	if (strcmp(argv[1], REMOTE_COMMAND) == 0)
		return remote_main(argc - 1, argv + 1);
	const struct command *cmd = command_find(argv[1]);
	if (!cmd) {
		unknown_command(argv[1], &err);
		return report_failure(NULL, json, &err);
	}
	return run_command(cmd, o, argc - 1, argv + 1);
}

/* Flush stdio's buffer, so that a full disk is reported as an error. A reader that has gone wanted
 * no more. */
static int flush_stdout(int code)
{
	struct err err = ERR_INIT;

	errno = 0;
	if ((fflush(stdout) == 0 && !ferror(stdout)) || !stdout_is_read())
		return code;
	if (errno)
		err_errno(&err, ERR_OUTPUT, "stdout");
	else /* an earlier write failed, and its errno is lost */
		err_set(&err, ERR_OUTPUT, "stdout: cannot write all of the output");
	report(&err, -1);
	return code ? code : ERR_OUTPUT;
}

int collctl_main(int argc, char **argv)
{
	struct options o;

	/* A file that is too large must be an error of write(), not a signal. */
	signal(SIGXFSZ, SIG_IGN);
	crypto_own_process();
	json_watch_memory();
	options_init(&o);
	int code = flush_stdout(dispatch(&o, argc, argv));
	options_release(&o);
	if (stuck_any())
		_exit(code);
	return code;
}
