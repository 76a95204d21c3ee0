#include "cmd/manual.h"

#include <ctype.h>
#include <string.h>

#include "cmd/examples.h"
#include "cmd/json/fields.h"
#include "cmd/text/terminal.h"

#define ROFF_WIDTH 66 /* escapes make some lines longer */

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

/* @text as a paragraph that ends with a full stop or its question mark, in lines that mandoc's
 * linter accepts. */
static void roff_sentence(FILE *f, const char *text)
{
	char sentence[512];

	snprintf(sentence, sizeof sentence, "%c%s", toupper((unsigned char)*text), text + 1);
	terminal_wrap(f, sentence, 0, ROFF_WIDTH, roff_word);
	fputs(text[strlen(text) - 1] == '?' ? "\n" : ".\n", f);
}

static void mdoc_option(FILE *f, const struct setting *row)
{
	char text[512];

	fputs(".It ", f);
	if (row->letter)
		fprintf(f, "Fl %c , ", row->letter);
	fputs("Fl \\-", f);
	roff_word(f, row->name, (int)strlen(row->name));
	if (row->arg) {
		fputs(" Ar ", f);
		roff_word(f, row->arg, (int)strlen(row->arg));
	}
	fputc('\n', f);
	roff_sentence(f, option_explain(row, text, sizeof text));
}

static void mdoc_takers(FILE *f, const struct setting *row)
{
	const char *comma = "";

	fputs("Taken by", f);
	for (const struct command *c = commands; c->name; c++) {
		if (!option_applies(row, c))
			continue;
		fprintf(f, "%s\n.Cm %s", comma, c->name);
		comma = " ,";
	}
	fputs(" .\n", f);
}

/* Print the options of @cmd in a section of --help; NULL: of all commands, each with those that
 * take it. */
static void mdoc_section(FILE *f, enum setting_section section, const struct command *cmd)
{
	bool any = false;

	for (size_t i = 0; i < option_count(); i++) {
		const struct setting *row = option_at(i);
		if (row->section != section || (row->groups & FOR_HELP) ||
		    (cmd && !option_applies(row, cmd)))
			continue;
		if (!any)
			fprintf(f, ".Ss %s\n.Bl -tag -width Ds\n", option_section(section));
		any = true;
		mdoc_option(f, row);
		if (!cmd && !(row->groups & (FOR_COMMON | FOR_BEFORE)))
			mdoc_takers(f, row);
	}
	if (any)
		fputs(".El\n", f);
}

static void mdoc_options(FILE *f, const struct command *cmd)
{
	for (unsigned section = 0; section < SECTIONS; section++)
		mdoc_section(f, section, cmd);
}

static void mdoc_synopsis(FILE *f, const struct command *c)
{
	if (*c->synopsis) {
		fputs(" Ar ", f);
		roff_word(f, c->synopsis, (int)strlen(c->synopsis));
		fputs("\\&", f); /* or a bracket at the end would count as punctuation */
	}
	fputc('\n', f);
}

static void mdoc_commands(FILE *f)
{
	fputs(".Bl -tag -width Ds\n", f);
	for (const struct command *c = commands; c->name; c++) {
		fprintf(f, ".It Cm %s", c->name);
		mdoc_synopsis(f, c);
		roff_sentence(f, c->help);
		fprintf(f, "See\n.Xr collctl-%s 1 .\n", c->name);
	}
	fputs(".El\n", f);
}

static void mdoc_examples(FILE *f, const struct command *cmd)
{
	const struct example *e = examples_of(cmd->name);

	if (!e)
		return;
	fputs(".Sh EXAMPLES\n", f);
	for (; e->command && strcmp(e->command, cmd->name) == 0; e++) {
		roff_sentence(f, e->what);
		fputs(".Bd -literal -offset 2n\n", f);
		roff_word(f, e->lines, (int)strlen(e->lines));
		fputs("\n.Ed\n", f);
		if (e[1].command && strcmp(e[1].command, cmd->name) == 0)
			fputs(".Pp\n", f);
	}
}

/* The pages that a reader of the page of a command wants next; of a collective that is not here
 * those of COLLECTIVE. */
#define COLLECTIVE "algorithms bench plan run"
static const struct {
	const char *command, *others;
} related[] = {
        {"algorithms", "bench plan"},
        {"barrier", "check run"},
        {"bench", "algorithms check plan run"},
        {"ca", "keygen serve"},
        {"check", "barrier bench run"},
        {"clean", "broadcast"},
        {"exscan", COLLECTIVE " scan"},
        {"help", "version"},
        {"info", "verify"},
        {"keygen", "ca run"},
        {"plan", "algorithms bench"},
        {"run", "keygen serve"},
        {"scan", "algorithms bench exscan plan run"},
        {"serve", "ca run"},
        {"verify", "info run"},
        {"version", "help"},
};

static void mdoc_related(FILE *f, const struct command *cmd)
{
	const char *others = COLLECTIVE;

	for (size_t i = 0; i < sizeof related / sizeof related[0]; i++)
		if (strcmp(related[i].command, cmd->name) == 0)
			others = related[i].others;
	fputs(".Sh SEE ALSO\n.Xr collctl 1", f);
	for (size_t n; *others; others += n + (others[n] == ' ')) {
		n = strcspn(others, " ");
		fprintf(f, " ,\n.Xr collctl-%.*s 1", (int)n, others);
	}
	fputc('\n', f);
}

static void mdoc_page(FILE *f, const struct command *cmd)
{
	fprintf(f, ".Dd $Mdocdate$\n.Dt COLLCTL-");
	for (const char *c = cmd->name; *c; c++)
		fputc(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c, f);
	fprintf(f, " 1\n.Os\n.Sh NAME\n.Nm collctl-%s\n.Nd ", cmd->name);
	roff_word(f, cmd->help, (int)strlen(cmd->help));
	fprintf(f, "\n.Sh SYNOPSIS\n.Nm collctl\n.Cm %s\n.Op Ar OPTIONS\n", cmd->name);
	if (*cmd->synopsis) {
		fputs(".Ar ", f);
		roff_word(f, cmd->synopsis, (int)strlen(cmd->synopsis));
		fputs("\\&\n", f);
	}
	fputs(".Sh DESCRIPTION\n@FRAGMENT@\n", f);
	if (cmd->job != NO_JOB)
		fputs(".Pp\n.Xr collctl 1\ndescribes how the ranks find each other, secrets, "
		      "files, "
		      "types and results.\n",
		      f);
	fputs(".Sh OPTIONS\n", f);
	mdoc_options(f, cmd);
	fputs(".Sh EXIT STATUS\n0 if all went well.\n.Xr collctl 1\nlists the other codes.\n", f);
	if (command_groups(cmd) & FOR_JSON)
		fputs(".Xr collctl-json 5\ndescribes what\n.Fl \\-json\nprints.\n", f);
	mdoc_examples(f, cmd);
	mdoc_related(f, cmd);
}

void manual_print(FILE *f, const struct command *cmd)
{
	if (cmd) {
		mdoc_page(f, cmd);
		return;
	}
	fputs(".Sh COMMANDS\n", f);
	mdoc_commands(f);
	fputs(".Sh OPTIONS\n", f);
	mdoc_options(f, NULL);
}

/* ---- collctl-json(5) ---- */

static void mdoc_field(FILE *f, const struct field *row)
{
	fputs(".It Va ", f);
	roff_word(f, row->name, (int)strlen(row->name));
	fprintf(f, " Pq %s%s", field_type_name(row->type),
	        row->flags & FIELD_NULL ? " or null" : "");
	if (row->unit)
		fprintf(f, ", %s", row->unit);
	fputc('\n', f);
	roff_sentence(f, row->meaning);
}

void manual_print_json(FILE *f)
{
	for (size_t i = 0; i < field_sections_len; i++) {
		const struct field_section *s = &field_sections[i];

		fprintf(f, ".Ss %s\n", s->title);
		if (s->about)
			roff_sentence(f, s->about);
		fputs(".Bl -tag -width Ds -compact\n", f);
		for (size_t k = 0; k < s->n; k++)
			mdoc_field(f, &s->fields[k]);
		fputs(".El\n", f);
	}
}
