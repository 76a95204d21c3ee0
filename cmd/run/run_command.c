/* The COMMAND that `run` starts: what it is, and errors that are reported once, before every rank
 * would. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/commands.h"
#include "cmd/run/run_internal.h"
#include "cmd/text/progress.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/coll/request/request.h"

/* Is @word this program, by name or by path? */
static bool is_self(const char *word)
{
	struct stat a, b;

	if (!strchr(word, '/'))
		return strcmp(word, "collctl") == 0;
	return stat(word, &a) == 0 && stat("/proc/self/exe", &b) == 0 && io_same_file(&a, &b);
}

static bool is_collective(const char *word)
{
	const struct command *cmd = command_find(word);

	return cmd && cmd->job != NO_JOB;
}

/* How long a live host may be silent: longer than --timeout of the ranks, which say more about what
 * is lost. For a program it is that of the environment. @o: of the collective, or of run. */
static int64_t find_silence(const struct options *o)
{
	const int64_t day = 24 * 3600 * NS_PER_SEC;
	const struct setting *timeout = request_setting(&o->request, "timeout");
	const char *text = getenv("COLLCTL_TIMEOUT");
	struct coll_request request = o->request;
	struct err ignored = {0};
	if (text && *text && !options_given(o, &o->request.settings.timeout) &&
	    setting_read(timeout, &request, text, "COLLCTL_TIMEOUT", &ignored) < 0)
		errno = 0; /* the ranks report it */
	const int64_t ns = request.settings.timeout < day ? 2 * request.settings.timeout : 2 * day;
	return ns > REMOTE_SILENCE ? ns : REMOTE_SILENCE;
}

void run_understand(struct run *r, int argc, char **argv)
{
	static char name[] = "collctl";

	r->silence = find_silence(r->o);
	if (is_collective(argv[1])) {
		argv[0] = name;
		r->argc = argc;
		r->argv = argv;
		return;
	}
	r->argc = argc - 1;
	r->argv = argv + 1;
	int word = 1;
	while (word < r->argc && r->argv[word][0] == '-')
		word++;
	r->program = !(is_self(argv[1]) && word < r->argc && is_collective(r->argv[word]));
}

/* The ranks share one stdout. */
static int check_stdout(const struct coll_request *q, enum coll_kind kind, int size, bool label,
                        struct err *err)
{
	const char *variable = getenv("COLLCTL_OUTPUT");
	bool to_stdout = !q->noutputs && variable && strcmp(variable, "-") == 0;
	int writers = 0;
	for (int i = 0; i < q->noutputs; i++)
		to_stdout |= strcmp(q->outputs[i], "-") == 0;
	for (int r = 0; r < size && to_stdout && !q->dry_run && !q->each; r++)
		writers += coll_writes(kind, r, size, q->root);
	if (writers > 1)
		return err_set(err, ERR_USAGE,
		               "-o -: %d ranks would write to one stdout: put {rank} into a file's "
		               "name",
		               writers);
	if (writers && label)
		return err_set(err, ERR_USAGE,
		               "-o - and --label exclude each other: the output is "
		               "not lines of text");
	return 0;
}

/* The collective's --min-ranks, or that of the environment; 0: it is not given. */
static int find_fewest(const struct command *cmd, const struct options *o)
{
	const struct setting *fewest = request_setting(&o->request, "min-ranks");
	const char *text = getenv("COLLCTL_MIN_RANKS");
	struct coll_request request = o->request;
	struct err ignored = {0};
	if (!cmd || !(command_groups(cmd) & FOR_FEWER))
		return 0;
	if (text && *text && !request.settings.min_ranks &&
	    setting_read(fewest, &request, text, "COLLCTL_MIN_RANKS", &ignored) < 0)
		return 0; /* the ranks report it */
	return request.settings.min_ranks;
}

/* Do the words fit the ranks that are started, of which each gets its number? Others may be started
 * elsewhere only if there is a place where all meet. */
static int check_numbers(const struct run *r, const struct command *cmd, const struct options *o,
                         struct err *err)
{
	const struct job_settings *s = &o->request.settings;
	const bool meets = s->rendezvous || s->hostfile || s->ticket_file;
	if (s->rank >= 0 && r->size > 1)
		return err_set(err, ERR_USAGE,
		               "--rank %d: run gives each of its %d ranks a number: remove it",
		               s->rank, r->size);
	if (s->size && s->size != r->size && !meets && !find_fewest(cmd, o))
		return err_set(
		        err, ERR_USAGE,
		        "--size %d: run starts %d rank%s, and nobody starts others: remove it",
		        s->size, r->size, r->size == 1 ? "" : "s");
	return 0;
}

/* Parse the words like each rank, but without the environment, which differs there. Returns the
 * command to explain or run; NULL: the whole program, or an error. */
static const struct command *parse_collective(struct options *o, const struct run *r, int argc,
                                              char **argv, struct err *err)
{
	if (options_parse_leading(o, &argc, argv, err) < 0 || argc < 2)
		return NULL;
	const struct command *cmd = command_find(argv[1]);
	enum coll_kind kind;
	argc--;
	if (cmd && !o->help && options_parse_words(cmd, o, &argc, argv + 1, err) == 0 && !o->help &&
	    (cmd->job == NO_JOB || check_numbers(r, cmd, o, err) == 0) &&
	    coll_by_name(cmd->name, &kind) == 0 &&
	    request_check_ranks(kind, o->request.root, o->request.steps, r->size, err) == 0 &&
	    request_check_fewest(&o->request.settings, r->size, false, err) == 0)
		check_stdout(&o->request, kind, r->size, r->o->label, err);
	return cmd;
}

int run_check_collective(struct run *r, bool *json, struct err *err)
{
	struct options o;
	/* parsing sorts it */
	char **argv = err_calloc((size_t)r->argc + 1, sizeof *argv, "the command line", err);
	if (!argv)
		return -1;
	memcpy(argv, r->argv, (size_t)r->argc * sizeof *argv);
	options_init(&o);
	const struct command *cmd = parse_collective(&o, r, r->argc, argv, err);
	*json |= o.json;
	r->silence = find_silence(&o);
	r->bars = progress_has_bar(&o) && r->o->verbose >= 0 && !getenv("COLLCTL_PROGRESS");
	r->fewest = find_fewest(cmd, &o);
	r->root = o.request.root;
	r->insecure = o.request.settings.insecure;
	r->writes = cmd && (command_groups(cmd) & FOR_OUTPUT) && !o.request.dry_run;
	if (o.help && !err->code)
		options_help(cmd, stdout);
	r->spares = cmd && cmd->job == WORK_CHECK;
	int ret = err->code ? -1 : o.help;
	options_release(&o);
	free(argv);
	return ret;
}

/* Can execvp find @name? */
static bool is_program(const char *name)
{
	if (strchr(name, '/'))
		return access(name, X_OK) == 0;
	const char *path = getenv("PATH");
	for (const char *dir = path ? path : "/usr/bin:/bin"; dir;) {
		const char *colon = strchrnul(dir, ':');
		char file[4096];
		int n = snprintf(file, sizeof file, "%.*s/%s", (int)(colon - dir), dir, name);
		const char *tried = colon == dir ? name : file; /* an empty entry is "." */
		if (n < (int)sizeof file && access(tried, X_OK) == 0)
			return true;
		dir = *colon ? colon + 1 : NULL;
	}
	return false;
}

int run_check_program(const char *name, struct err *err)
{
	if (is_program(name))
		return 0;
	const struct command *cmd = command_find(name);
	const char *near = command_near(name);
	if (cmd)
		return err_set(err, ERR_USAGE, "%s is not a collective: run cannot start it", name);
	if (near && is_collective(near))
		return err_set(err, ERR_USAGE,
		               "%s: no such collective or program; did you mean %s?", name, near);
	return err_set(err, ERR_USAGE, "%s: no such collective or program", name);
}
