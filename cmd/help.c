/* `collctl help`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/commands.h"
#include "cmd/examples.h"
#include "cmd/json/schema.h"
#include "cmd/manual.h"
#include "cmd/text/terminal.h"
#include "completions/completions.h"

#define COLUMN    30 /* column of the explanations */
#define WIDTH     80 /* where the terminal's is not known */
#define WIDTH_MIN 60
#define WIDTH_MAX 120

/* The columns of a line: of COLUMNS, else of the terminal. */
static int line_width(void)
{
	const char *columns = getenv("COLUMNS");
	const int given = columns ? atoi(columns) : 0;
	const int width = given > 0 ? given : terminal_width(STDOUT_FILENO);

	if (width <= 0)
		return WIDTH;
	return width < WIDTH_MIN ? WIDTH_MIN : width > WIDTH_MAX ? WIDTH_MAX : width;
}

/* Print @text from @column on, wrapped at the end of the line, and end the line. */
static void print_wrapped(FILE *f, const char *text, int column)
{
	terminal_wrap(f, text, column, line_width(), NULL);
	fputc('\n', f);
}

/* @left in its column, then the explanation; on the next line if @left is too long. */
static void print_entry(FILE *f, const char *left, const char *text)
{
	if (fprintf(f, "%-*s", COLUMN - 1, left) >= COLUMN)
		fprintf(f, "\n%*s", COLUMN - 1, "");
	fputc(' ', f);
	print_wrapped(f, text, COLUMN);
}

const char *option_explain(const struct setting *row, char *buf, size_t cap)
{
	size_t at = (size_t)snprintf(buf, cap, "%s", row->help);

	if (row->choices) {
		at += (size_t)snprintf(buf + at, cap - at, "; one of ");
		setting_choices(row, buf + at, cap - at);
		at += strlen(buf + at);
	}
	if (row->def)
		snprintf(buf + at, cap - at, " (default: %s)", row->def);
	return buf;
}

static void print_option(FILE *f, const struct setting *row)
{
	char left[64], text[512];
	int n = row->letter ? snprintf(left, sizeof left, "  -%c, ", row->letter)
	                    : snprintf(left, sizeof left, "      ");

	snprintf(left + n, sizeof left - (size_t)n, "--%s%s%s", row->name, row->arg ? " " : "",
	         row->arg ? row->arg : "");
	print_entry(f, left, option_explain(row, text, sizeof text));
}

static bool is_listed(const struct setting *row, const struct command *cmd)
{
	return option_applies(row, cmd) && !(row->groups & FOR_HELP);
}

static void print_section(FILE *f, enum setting_section section, const struct command *cmd)
{
	bool any = false;

	for (size_t i = 0; i < option_count(); i++) {
		const struct setting *row = option_at(i);
		if (row->section != section || !is_listed(row, cmd))
			continue;
		if (!any)
			fprintf(f, "\n%s:\n", option_section(section));
		any = true;
		print_option(f, row);
	}
}

static void print_options(FILE *f, const struct command *cmd)
{
	for (unsigned section = 0; section < SECTIONS; section++)
		print_section(f, section, cmd);
}

static void help_program(FILE *f)
{
	static const struct command before = {.job = NO_JOB, .groups = FOR_BEFORE | FOR_JSON};

	fputs("Usage: collctl [-v|-q|--json|--version|--help] COMMAND [OPTIONS] [FILE...]\n\n", f);
	print_wrapped(f,
	              "Collective operations over files: each rank names a file, the ranks find "
	              "each other, and each rank gets its output file.",
	              0);
	fputs("\nCommands:\n", f);
	for (const struct command *c = commands; c->name; c++) {
		char left[32];
		snprintf(left, sizeof left, "  %s", c->name);
		print_entry(f, left, c->help);
	}
	print_options(f, &before);
	fputc('\n', f);
	print_wrapped(f,
	              "'collctl help COMMAND' describes a command and its options. The manual has "
	              "more: man collctl.",
	              0);
}

void options_begin(void *file)
{
	fputs("To average a file of 4 ranks on this machine, see a plan of it, and try the links "
	      "of two hosts:\n"
	      "    collctl run -n 4 -- allreduce --op avg 'x{rank}.npy' -o 'avg{rank}.npy'\n"
	      "    collctl plan allreduce -n 4 --bytes 64M\n"
	      "    collctl run -H host1,host2 -- check\n",
	      file);
}

static void print_examples(FILE *f, const struct command *cmd)
{
	const struct example *e = examples_of(cmd->name);

	if (e)
		fputs("\nExamples:\n", f);
	for (; e && e->command && strcmp(e->command, cmd->name) == 0; e++) {
		fputs("  ", f);
		print_wrapped(f, e->what, 2);
		fputs("      ", f);
		for (const char *c = e->lines; *c; c++) {
			fputc(*c, f);
			if (*c == '\n')
				fputs("      ", f);
		}
		fputc('\n', f);
	}
}

void options_help(const struct command *cmd, void *file)
{
	char about[256];

	if (!cmd) {
		help_program(file);
		return;
	}
	fprintf(file, "Usage: collctl %s%s%s [OPTIONS]\n\n", cmd->name, *cmd->synopsis ? " " : "",
	        cmd->synopsis);
	snprintf(about, sizeof about, "%c%s.", cmd->help[0] - 'a' + 'A', cmd->help + 1);
	print_wrapped(file, about, 0);
	print_options(file, cmd);
	if (cmd->job != NO_JOB) {
		fputc('\n', file);
		print_wrapped(
		        file,
		        "Every long option has an environment variable, such as "
		        "COLLCTL_JOIN_TIMEOUT for --join-timeout. Options on the command line "
		        "take precedence.",
		        0);
	}
	print_examples(file, cmd);
	fprintf(file, "\nThe manual has more: man collctl-%s\n", cmd->name);
}

int cmd_help(const struct command *cmd, struct options *o, int argc, char **argv)
{
	(void)cmd;
	const struct command *about = argc > 1 ? command_find(argv[1]) : NULL;
	if (o->mdoc && argc > 1 && strcmp(argv[1], "json") == 0) {
		manual_print_json(stdout);
		return 0;
	}
	if (o->mdoc && (about || argc == 1)) {
		manual_print(stdout, about);
		return 0;
	}
	if (o->json_schema)
		return schema_print();
	if (o->completions) {
		completions_print(stdout, o->completions);
		return 0;
	}
	if (argc > 1 && !about) {
		struct err err = ERR_INIT;
		const char *near = command_near(argv[1]);
		err_set(&err, ERR_USAGE, "%s: unknown command; %s%s%s", argv[1],
		        near ? "did you mean " : "'collctl --help' lists them", near ? near : "",
		        near ? "?" : "");
		return report(&err, -1);
	}
	options_help(about, stdout);
	return 0;
}
