/*
 * `collctl help`, and the texts that the build generates from the tables: the man page's lists of
 * commands and options, and the completions.
 */
#include <stdio.h>
#include <string.h>

#include "cmd/commands.h"
#include "completions/completions.h"

#define WIDTH      80
#define COLUMN     30 /* column of the explanations */
#define ROFF_WIDTH 66 /* escapes make some lines longer */

/* Print @text from @column on, wrapped at WIDTH, and end the line. */
static void print_wrapped(FILE *f, const char *text, int column)
{
	int at = column;

	while (*text) {
		int len = (int)strcspn(text, " ");
		if (at > column && at + 1 + len > WIDTH) {
			fprintf(f, "\n%*s", column, "");
			at = column;
		}
		at += fprintf(f, "%s%.*s", at > column ? " " : "", len, text);
		text += len;
		text += strspn(text, " ");
	}
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

/* The help of @row with its choices and its default. */
static const char *explain(const struct option_row *row, char *buf, size_t cap)
{
	size_t at = (size_t)snprintf(buf, cap, "%s", row->help);

	if (option_setting(row)->choices) {
		at += (size_t)snprintf(buf + at, cap - at, "; one of ");
		for (const char *c = option_setting(row)->choices; *c && at + 3 < cap; c++) {
			buf[at++] = *c == '|' ? ',' : *c;
			if (*c == '|')
				buf[at++] = ' ';
		}
		buf[at] = '\0';
	}
	if (option_setting(row)->def)
		snprintf(buf + at, cap - at, " (default: %s)", option_setting(row)->def);
	return buf;
}

static void print_option(FILE *f, const struct option_row *row)
{
	char left[64], text[512];
	int n = row->letter ? snprintf(left, sizeof left, "  -%c, ", row->letter)
	                    : snprintf(left, sizeof left, "      ");

	snprintf(left + n, sizeof left - (size_t)n, "--%s%s%s", row->own.name, row->arg ? " " : "",
	         row->arg ? row->arg : "");
	print_entry(f, left, explain(row, text, sizeof text));
}

static bool is_listed(const struct option_row *row, const struct command *cmd)
{
	return option_applies(row, cmd) && !(row->groups & OPTS_HELP);
}

static void print_options(FILE *f, const struct command *cmd)
{
	const char *section = NULL;

	for (size_t i = 0; i < option_rows_len; i++) {
		const struct option_row *row = &option_rows[i];
		if (row->own.kind == OPT_SECTION) {
			section = row->own.name;
		} else if (is_listed(row, cmd)) {
			if (section)
				fprintf(f, "\n%s:\n", section);
			section = NULL;
			print_option(f, row);
		}
	}
}

static void help_program(FILE *f)
{
	static const struct command before = {.opts = OPTS_BEFORE | OPTS_JSON};

	fputs("Usage: collctl [-v|-q|--json|--version|--help] COMMAND [OPTIONS] [FILE...]\n\n"
	      "Collective operations over files: each rank names a file, the ranks find each\n"
	      "other, and each rank gets its output file.\n\nCommands:\n",
	      f);
	for (const struct command *c = commands; c->name; c++) {
		char left[32];
		snprintf(left, sizeof left, "  %s", c->name);
		print_entry(f, left, c->help);
	}
	print_options(f, &before);
	fputs("\n'collctl help COMMAND' describes a command and its options.\n", f);
}

void options_help(const struct command *cmd, void *file)
{
	if (!cmd) {
		help_program(file);
		return;
	}
	fprintf(file, "Usage: collctl %s%s%s [OPTIONS]\n\n", cmd->name, *cmd->synopsis ? " " : "",
	        cmd->synopsis);
	fprintf(file, "%c%s.\n", cmd->help[0] - 'a' + 'A', cmd->help + 1);
	print_options(file, cmd);
	if (cmd->opts & OPTS_JOB)
		fputs("\nEvery long option has an environment variable, such as "
		      "COLLCTL_JOIN_TIMEOUT for\n"
		      "--join-timeout. Options on the command line take precedence.\n",
		      file);
}

/* ---- the man page ---- */

/* roff takes '\\' for an escape, "'" for a typographic quote and '-' for a hyphen. */
static void roff_word(FILE *f, const char *word, int len)
{
	if (*word == '.' || *word == '\'')
		fputs("\\&", f); /* at the start of a line it would be a roff request */
	for (; len > 0; word++, len--) {
		if (*word == '\\')
			fputs("\\e", f);
		else if (*word == '\'')
			fputs("\\(aq", f);
		else if (*word == '-')
			fputs("\\-", f);
		else
			fputc(*word, f);
	}
}

/* @text as a paragraph that ends with a full stop, in lines that mandoc's linter accepts. */
static void roff_sentence(FILE *f, const char *text)
{
	char first[2] = {text[0], '\0'};
	int at = 1;

	if (first[0] >= 'a' && first[0] <= 'z')
		first[0] = (char)(first[0] - 'a' + 'A');
	roff_word(f, first, 1);
	for (text++; *text;) {
		int len = (int)strcspn(text, " ");
		if (at + len > ROFF_WIDTH) {
			fputc('\n', f);
			at = 0;
		} else if (at > 1) {
			fputc(' ', f);
		}
		roff_word(f, text, len);
		at += len + 1;
		text += len;
		text += strspn(text, " ");
	}
	fputs(".\n", f);
}

static void mdoc_option(FILE *f, const struct option_row *row)
{
	char text[512];

	fputs(".It ", f);
	if (row->letter)
		fprintf(f, "Fl %c , ", row->letter);
	fputs("Fl \\-", f);
	roff_word(f, row->own.name, (int)strlen(row->own.name));
	if (row->arg) {
		fputs(" Ar ", f);
		roff_word(f, row->arg, (int)strlen(row->arg));
	}
	fputc('\n', f);
	roff_sentence(f, explain(row, text, sizeof text));
}

/* Print the options of all commands under the headings of --help, each with the commands that take
 * it. */
static void mdoc_options(FILE *f)
{
	bool open = false;

	for (size_t i = 0; i < option_rows_len; i++) {
		const struct option_row *row = &option_rows[i];
		if (row->own.kind == OPT_SECTION) {
			if (open)
				fputs(".El\n", f);
			fprintf(f, ".Ss %s\n.Bl -tag -width Ds\n", row->own.name);
			open = true;
			continue;
		}
		if (row->groups & OPTS_HELP)
			continue;
		mdoc_option(f, row);
		if (row->groups & (OPTS_COMMON | OPTS_BEFORE))
			continue;
		fputs("Taken by", f);
		const char *comma = "";
		for (const struct command *c = commands; c->name; c++) {
			if (!option_applies(row, c))
				continue;
			fprintf(f, "%s\n.Cm %s", comma, c->name);
			comma = " ,";
		}
		fputs(" .\n", f);
	}
	if (open)
		fputs(".El\n", f);
}

static void mdoc_commands(FILE *f)
{
	fputs(".Bl -tag -width Ds\n", f);
	for (const struct command *c = commands; c->name; c++) {
		fprintf(f, ".It Cm %s", c->name);
		if (*c->synopsis) {
			fputs(" Ar ", f);
			roff_word(f, c->synopsis, (int)strlen(c->synopsis));
			fputs("\\&", f); /* or a bracket at the end would count as punctuation */
		}
		fputc('\n', f);
		roff_sentence(f, c->help);
	}
	fputs(".El\n", f);
}

int cmd_help(const struct command *cmd, struct options *o, int argc, char **argv)
{
	(void)cmd;
	if (o->mdoc) {
		fputs(".Sh COMMANDS\n", stdout);
		mdoc_commands(stdout);
		fputs(".Sh OPTIONS\n", stdout);
		mdoc_options(stdout);
		return 0;
	}
	if (o->completions) {
		completions_print(stdout, o->completions);
		return 0;
	}
	const struct command *about = argc > 1 ? command_find(argv[1]) : NULL;
	if (argc > 1 && !about) {
		struct err err = {.rank = ERR_RANK_SELF};
		const char *near = command_near(argv[1]);
		err_set(&err, ERR_USAGE, "%s: unknown command; %s%s%s", argv[1],
		        near ? "did you mean " : "'collctl --help' lists them", near ? near : "",
		        near ? "?" : "");
		return report(&err, -1);
	}
	options_help(about, stdout);
	return 0;
}
