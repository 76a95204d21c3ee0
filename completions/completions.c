#include "algorithms/table.h"
#include "completions/completions.h"

#include <string.h>

#include "cmd/commands.h"
#include "lib/sched/sched.h"

/* The values of an option: the words of a list, the algorithms, a file, or unknown. */
enum follows { FOLLOWS_NOTHING, FOLLOWS_WORDS, FOLLOWS_ALGORITHM, FOLLOWS_FILE, FOLLOWS_ANY };

static enum follows what_follows(const struct setting *row)
{
	if (!row->arg)
		return FOLLOWS_NOTHING;
	if (row->choices)
		return FOLLOWS_WORDS;
	if (strcmp(row->name, "algorithm") == 0)
		return FOLLOWS_ALGORITHM;
	return strcmp(row->arg, "FILE") == 0 ? FOLLOWS_FILE : FOLLOWS_ANY;
}

static bool is_offered(const struct setting *row, const struct command *cmd)
{
	return option_applies(row, cmd) && !(row->groups & FOR_HELP);
}

/* The words of @list, which '|' separates, with spaces between them; of a word that goes on with a
 * number, such as trimmed:F, what is before it. */
static void print_words(FILE *f, const char *list)
{
	for (; *list; list++) {
		if (*list == ':')
			list += strcspn(list, "|");
		if (!*list)
			break;
		fputc(*list == '|' ? ' ' : *list, f);
	}
}

static bool is_first_of_its_name(size_t i)
{
	for (size_t j = 0; j < i; j++)
		if (strcmp(coll_algorithms[j]->name, coll_algorithms[i]->name) == 0)
			return false;
	return true;
}

/* "auto" and every algorithm of the collective @command, or of all collectives if @command is not
 * one (plan). */
static void print_algorithms(FILE *f, const char *command)
{
	enum coll_kind kind;
	bool one = coll_by_name(command, &kind) == 0;

	fputs("auto", f);
	for (size_t i = 0; i < coll_algorithms_len; i++)
		if (one ? coll_algorithms[i]->kind == kind : is_first_of_its_name(i))
			fprintf(f, " %s", coll_algorithms[i]->name);
}

/* The collectives that have an algorithm: the operand of plan, bench and algorithms. */
static void print_collectives(FILE *f)
{
	const char *space = "";

	for (int kind = 0; kind < COLL_KINDS; kind++) {
		size_t i = 0;
		while (i < coll_algorithms_len && (int)coll_algorithms[i]->kind != kind)
			i++;
		if (i == coll_algorithms_len)
			continue;
		fprintf(f, "%s%s", space, coll_name((enum coll_kind)kind));
		space = " ";
	}
}

static void print_commands(FILE *f)
{
	for (const struct command *c = commands; c->name; c++)
		fprintf(f, "%s%s", c == commands ? "" : " ", c->name);
}

/* Is the operand of @cmd a collective? */
static bool takes_collective(const struct command *cmd)
{
	return command_groups(cmd) & (FOR_PLAN | FOR_BENCH) || strcmp(cmd->name, "algorithms") == 0;
}

/* Are the operands of @cmd only words that are known? */
static bool takes_only_words(const struct command *cmd)
{
	return takes_collective(cmd) || command_groups(cmd) & (FOR_RUN | FOR_HELP);
}

/* The length of the first word of @cmd's synopsis. */
static size_t first_operand(const struct command *cmd)
{
	return strcspn(cmd->synopsis, " ");
}

/* Is its first operand one of several words ("init|issue|revoke")? */
static bool has_choices(const struct command *cmd)
{
	return memchr(cmd->synopsis, '|', first_operand(cmd));
}

/* The words that the operands of @cmd may be: collectives, commands, or those choices. */
static void print_operands(FILE *f, const struct command *cmd)
{
	char choices[64];

	if (takes_collective(cmd)) {
		print_collectives(f);
	} else if (command_groups(cmd) & (FOR_RUN | FOR_HELP)) {
		print_commands(f);
	} else if (has_choices(cmd)) {
		snprintf(choices, sizeof choices, "%.*s", (int)first_operand(cmd), cmd->synopsis);
		print_words(f, choices);
	}
}

/* The words that may follow @row's option on the line of @cmd. */
static void print_values(FILE *f, const struct setting *row, const struct command *cmd)
{
	if (what_follows(row) == FOLLOWS_WORDS)
		print_words(f, row->choices);
	else if (what_follows(row) == FOLLOWS_ALGORITHM)
		print_algorithms(f, cmd->name);
}

/* ---- bash ---- */

static void bash_value(FILE *f, const struct setting *row, const struct command *cmd)
{
	enum follows what = what_follows(row);

	if (what == FOLLOWS_NOTHING)
		return;
	fputs("\t\t", f);
	if (row->letter)
		fprintf(f, "-%c | ", row->letter);
	fprintf(f, "--%s) ", row->name);
	if (what == FOLLOWS_FILE) {
		fputs("files=1 ;;\n", f);
	} else {
		fputs("words='", f);
		print_values(f, row, cmd);
		fputs("' ;;\n", f);
	}
}

static void bash_command(FILE *f, const struct command *cmd)
{
	fprintf(f, "\t%s)\n\t\tcase $prev in\n", cmd->name);
	for (size_t i = 0; i < option_count(); i++)
		if (is_offered(option_at(i), cmd))
			bash_value(f, option_at(i), cmd);
	fputs("\t\t*)\n\t\t\tif [[ $cur == -* ]]; then\n\t\t\t\twords='", f);
	const char *space = "";
	for (size_t i = 0; i < option_count(); i++) {
		if (!is_offered(option_at(i), cmd))
			continue;
		fprintf(f, "%s--%s", space, option_at(i)->name);
		space = " ";
	}
	fputs("'\n\t\t\telse\n\t\t\t\twords='", f);
	print_operands(f, cmd);
	fputs(takes_only_words(cmd) ? "'" : "' files=1", f);
	fputs("\n\t\t\tfi\n\t\t\t;;\n\t\tesac\n\t\t;;\n", f);
}

static void bash_script(FILE *f)
{
	fputs("# bash completion for collctl, made by 'collctl help --completions bash'\n\n"
	      "_collctl()\n{\n"
	      "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
	      "\tlocal commands='",
	      f);
	print_commands(f);
	/* --option=value is three words if COMP_WORDBREAKS contains '=', else one. In 'run COMMAND'
	 * the options are those of COMMAND. */
	fputs("' cmd= words= files= before= i\n\n"
	      "\tif [[ $cur == = ]]; then\n\t\tcur=\n"
	      "\telif [[ $prev == = ]] && ((COMP_CWORD > 2)); then\n"
	      "\t\tprev=${COMP_WORDS[COMP_CWORD - 2]}\n"
	      "\telif [[ $cur == --*=* ]]; then\n"
	      "\t\tprev=${cur%%=*} before=${cur%%=*}= cur=${cur#*=}\n"
	      "\tfi\n"
	      "\tfor ((i = 1; i < COMP_CWORD; i++)); do\n"
	      "\t\tif [[ \" $commands \" == *\" ${COMP_WORDS[i]} \"* ]]; then\n"
	      "\t\t\tcmd=${COMP_WORDS[i]}\n"
	      "\t\t\t[[ $cmd == run ]] || break\n"
	      "\t\tfi\n\tdone\n\n"
	      "\tcase $cmd in\n",
	      f);
	for (const struct command *c = commands; c->name; c++)
		bash_command(f, c);
	fputs("\t*) words=\"$commands --json --verbose --quiet --help --version\" ;;\n\tesac\n\n"
	      "\tmapfile -t COMPREPLY < <(compgen -P \"$before\" -W \"$words\" -- \"$cur\")\n"
	      "\tif [[ $files ]]; then\n"
	      "\t\tcompopt -o filenames\n"
	      "\t\tmapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -P \"$before\" -f -- "
	      "\"$cur\")\n"
	      "\tfi\n}\n"
	      "complete -F _collctl collctl\n",
	      f);
}

/* ---- zsh ---- */

/* Print @text inside '...[...]': escapes quotes and brackets, which would end it. */
static void zsh_text(FILE *f, const char *text)
{
	for (; *text; text++) {
		if (*text == '\'')
			fputs("'\\''", f);
		else if (*text == '[' || *text == ']' || *text == ':' || *text == '\\')
			fprintf(f, "\\%c", *text);
		else
			fputc(*text, f);
	}
}

static void zsh_option(FILE *f, const struct setting *row, const struct command *cmd)
{
	enum follows what = what_follows(row);
	bool again = row->kind == SETTING_LIST || row->kind == SETTING_LOUDER;

	fputs(" \\\n\t\t\t", f);
	/* "-a+": the value is in the same word or the next; "--name=": after '=' or in the next. */
	const char *plus = row->arg ? "+" : "", *equals = row->arg ? "=" : "";
	if (row->letter && again)
		fprintf(f, "'*'{-%c%s,--%s%s}'[", row->letter, plus, row->name, equals);
	else if (row->letter)
		fprintf(f, "'(-%c --%s)'{-%c%s,--%s%s}'[", row->letter, row->name, row->letter,
		        plus, row->name, equals);
	else
		fprintf(f, "'%s--%s%s[", again ? "*" : "", row->name, equals);
	zsh_text(f, row->help);
	fputc(']', f);
	if (what != FOLLOWS_NOTHING) {
		fputc(':', f);
		zsh_text(f, row->arg);
		fputc(':', f);
	}
	if (what == FOLLOWS_FILE)
		fputs("_files", f);
	if (what == FOLLOWS_WORDS || what == FOLLOWS_ALGORITHM) {
		fputc('(', f);
		print_values(f, row, cmd);
		fputc(')', f);
	}
	fputc('\'', f);
}

static void zsh_command(FILE *f, const struct command *cmd)
{
	fprintf(f, "\t\t%s)\n\t\t\t_arguments -s -S", cmd->name);
	for (size_t i = 0; i < option_count(); i++)
		if (is_offered(option_at(i), cmd))
			zsh_option(f, option_at(i), cmd);
	if (command_groups(cmd) & FOR_RUN) {
		fputs(" \\\n\t\t\t'*:::command:_collctl_or_program'", f);
	} else if (cmd->max_args != 0) {
		if (has_choices(cmd) || takes_only_words(cmd)) {
			fprintf(f, " \\\n\t\t\t'%s:operand:(", has_choices(cmd) ? "1" : "*");
			print_operands(f, cmd);
			fputs(")'", f);
		}
		if (!takes_only_words(cmd))
			fputs(" \\\n\t\t\t'*:file:_files'", f);
	}
	fputs("\n\t\t\t;;\n", f);
}

static void zsh_script(FILE *f)
{
	fputs("#compdef collctl\n"
	      "# zsh completion for collctl, made by 'collctl help --completions zsh'\n\n"
	      "_collctl_commands()\n{\n\tlocal -a commands=(\n",
	      f);
	for (const struct command *c = commands; c->name; c++) {
		fprintf(f, "\t\t'%s:", c->name);
		zsh_text(f, c->help);
		fputs("'\n", f);
	}
	fputs("\t)\n\t_describe command commands\n}\n\n"
	      "_collctl_or_program()\n{\n"
	      "\tif ((CURRENT > 1)); then\n\t\t_collctl_command\n"
	      "\telse\n\t\t_collctl_commands\n\t\t_command_names -e\n\tfi\n}\n\n"
	      "_collctl_command()\n{\n\tcase $words[1] in\n",
	      f);
	for (const struct command *c = commands; c->name; c++)
		zsh_command(f, c);
	fputs("\t\t*) _normal ;;\n\tesac\n}\n\n"
	      "_collctl()\n{\n"
	      "\t_arguments -s '--json' '*'{-v,--verbose} '(-q --quiet)'{-q,--quiet} \\\n"
	      "\t\t'(-h --help)'{-h,--help} '--version' \\\n"
	      "\t\t'1:command:_collctl_commands' '*::argument:_collctl_command'\n}\n\n"
	      "_collctl \"$@\"\n",
	      f);
}

/* ---- fish ---- */

static void fish_text(FILE *f, const char *text)
{
	for (; *text; text++) {
		if (*text == '\'' || *text == '\\')
			fputc('\\', f);
		fputc(*text, f);
	}
}

static void fish_option(FILE *f, const struct setting *row, const struct command *cmd)
{
	enum follows what = what_follows(row);

	fprintf(f, "complete -c collctl -n '__collctl_is %s' -l %s", cmd->name, row->name);
	if (row->letter)
		fprintf(f, " -s %c", row->letter);
	if (what == FOLLOWS_FILE)
		fputs(" -r -F", f);
	else if (what != FOLLOWS_NOTHING)
		fputs(" -x", f);
	if (what == FOLLOWS_WORDS || what == FOLLOWS_ALGORITHM) {
		fputs(" -a '", f);
		print_values(f, row, cmd);
		fputc('\'', f);
	}
	fputs(" -d '", f);
	fish_text(f, row->help);
	fputs("'\n", f);
}

/* A command's name, after collctl and after run. */
static void fish_name(FILE *f, const struct command *cmd, const char *where)
{
	fprintf(f, "complete -c collctl -n '__collctl_is %s' -f -a %s -d '", where, cmd->name);
	fish_text(f, cmd->help);
	fputs("'\n", f);
}

static void fish_command(FILE *f, const struct command *cmd)
{
	fish_name(f, cmd, "none");
	fish_name(f, cmd, "run");
	if (takes_collective(cmd) || command_groups(cmd) & FOR_HELP || has_choices(cmd)) {
		fprintf(f, "complete -c collctl -n '__collctl_is %s'%s -a '", cmd->name,
		        has_choices(cmd) ? "" : " -f");
		print_operands(f, cmd);
		fputs("'\n", f);
	}
	for (size_t i = 0; i < option_count(); i++)
		if (is_offered(option_at(i), cmd))
			fish_option(f, option_at(i), cmd);
}

/* fish completes no options after "--". So the rest of the line is completed as a separate line:
 * "collctl run -n 4 -- allreduce --op" as "collctl allreduce --op". */
static void fish_script(FILE *f)
{
	fputs("# fish completion for collctl, made by 'collctl help --completions fish'\n\n"
	      "# The command on the line; the one behind run, if there is one.\n"
	      "function __collctl_command\n"
	      "\tset -l found none\n"
	      "\tfor word in (commandline -opc)[2..-1]\n"
	      "\t\tif contains -- $word ",
	      f);
	print_commands(f);
	fputs("\n\t\t\tset found $word\n"
	      "\t\t\ttest $word = run; or break\n"
	      "\t\tend\n\tend\n"
	      "\techo $found\nend\n\n"
	      "function __collctl_is\n\ttest (__collctl_command) = $argv[1]\nend\n\n"
	      "function __collctl_after_dashes\n\tcontains -- -- (commandline -opc)\nend\n\n"
	      "function __collctl_behind_dashes\n"
	      "\tset -l words (commandline -opc)\n"
	      "\tset -l rest $words[(math (contains -i -- -- $words) + 1)..-1]\n"
	      "\tcomplete -C (string join -- ' ' collctl (string escape -- $rest) "
	      "(commandline -ct))\nend\n\n"
	      "complete -c collctl -n __collctl_after_dashes -f -a '(__collctl_behind_dashes)'\n"
	      "complete -c collctl -n '__collctl_is none' -l json -d 'print JSON'\n"
	      "complete -c collctl -n '__collctl_is none' -s v -l verbose -d 'print more on "
	      "stderr'\n"
	      "complete -c collctl -n '__collctl_is none' -s q -l quiet -d 'print only errors'\n"
	      "complete -c collctl -n '__collctl_is none' -s h -l help -d 'print this help'\n"
	      "complete -c collctl -n '__collctl_is none' -l version -d 'print the version'\n",
	      f);
	for (const struct command *c = commands; c->name; c++)
		fish_command(f, c);
}

void completions_print(FILE *f, const char *shell)
{
	if (strcmp(shell, "bash") == 0)
		bash_script(f);
	else if (strcmp(shell, "zsh") == 0)
		zsh_script(f);
	else
		fish_script(f);
}
