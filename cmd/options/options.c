#include "cmd/options/options.h"
#include "cmd/text/ask_password.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/data/formats/format.h"

/* The options before COMMAND, as those of a command. */
static const struct command leading = {
        .name = "collctl",
        .job = NO_JOB,
        .groups = FOR_BEFORE | FOR_JSON,
        .max_args = -1,
        .stops_at_operand = true,
};

/* ---- the two tables as one ---- */

size_t option_count(void)
{
	return request_settings_len + command_settings_len;
}

const struct setting *option_at(size_t i)
{
	return i < request_settings_len ? &request_settings[i]
	                                : &command_settings[i - request_settings_len];
}

const char *option_section(enum setting_section section)
{
	static const char *const names[SECTIONS] = {
	        [SECTION_COLLECTIVE] = "Collective",
	        [SECTION_FILES] = "Files",
	        [SECTION_RESOURCES] = "Resources",
	        [SECTION_JOB] = "Job",
	        [SECTION_SECURITY] = "Security",
	        [SECTION_ADDRESSES] = "Addresses",
	        [SECTION_LIMITS] = "Time limits",
	        [SECTION_PLAN] = "Plan",
	        [SECTION_BENCH] = "Bench",
	        [SECTION_CHECK] = "Check",
	        [SECTION_RUN] = "Run",
	        [SECTION_STORE] = "Store",
	        [SECTION_KEYGEN] = "Key generation",
	        [SECTION_CERTIFICATES] = "Certificates",
	        [SECTION_COMMON] = "Common",
	};
	return names[section];
}

static bool of_request(const struct setting *row)
{
	return row >= request_settings && row < request_settings + request_settings_len;
}

static size_t index_of(const struct setting *row)
{
	return of_request(row) ? (size_t)(row - request_settings)
	                       : request_settings_len + (size_t)(row - command_settings);
}

/* The struct whose members the row's offsets are. */
static void *base_of(struct options *o, const struct setting *row)
{
	return of_request(row) ? (void *)&o->request : (void *)o;
}

uint64_t command_groups(const struct command *cmd)
{
	enum coll_kind kind = COLL_BARRIER;
	uint64_t groups = cmd->groups | FOR_COMMON;

	if (cmd->job != NO_JOB) {
		coll_by_name(cmd->name, &kind);
		groups |= request_groups((enum coll_work)cmd->job, kind);
	}
	return groups;
}

/* ---- values ---- */

static int set_value(struct options *o, const struct setting *row, const char *text,
                     const char *subject, struct err *err)
{
	return setting_read(row, base_of(o, row), text, subject, err);
}

void options_init(struct options *o)
{
	*o = (struct options){.ready_fd = -1};
	request_init(&o->request, WORK_COLLECTIVE);
	o->request.settings.ask = ask_on_terminal;
	for (size_t i = 0; i < command_settings_len; i++)
		setting_default(&command_settings[i], o);
}

void options_release(struct options *o)
{
	for (size_t i = 0; i < command_settings_len; i++)
		setting_release(&command_settings[i], o);
	request_release(&o->request);
}

/* ---- suggestions ---- */

#define NEAR_MAX 32 /* longer words are not compared */

static int min_int(int a, int b)
{
	return a < b ? a : b;
}

/* The number of insertions, deletions, replacements and swaps of neighbours that turn @a into @b.
 */
static int edit_distance(const char *a, const char *b)
{
	int la = (int)strlen(a), lb = (int)strlen(b);
	int d[NEAR_MAX + 1][NEAR_MAX + 1];

	for (int i = 0; i <= la; i++) {
		for (int j = 0; j <= lb; j++) {
			if (i == 0 || j == 0) {
				d[i][j] = i + j;
				continue;
			}
			int same = a[i - 1] == b[j - 1];
			d[i][j] = min_int(min_int(d[i - 1][j], d[i][j - 1]) + 1,
			                  d[i - 1][j - 1] + !same);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				d[i][j] = min_int(d[i][j], d[i - 2][j - 2] + 1);
		}
	}
	return d[la][lb];
}

const char *options_near(const char *word, const char *(*next)(void *), void *ctx)
{
	size_t len = strlen(word);
	/* About a third of the word may be wrong. */
	int best = len < 3 ? 1 : len < 7 ? 2 : 3;
	const char *near = NULL, *name;

	if (len > NEAR_MAX)
		return NULL;
	while ((name = next(ctx))) {
		size_t n = strlen(name);
		if (n > NEAR_MAX)
			continue;
		/* A prefix of a name counts as the smallest typing error. */
		int d = len >= 3 && n > len && memcmp(name, word, len) == 0
		                ? 1
		                : edit_distance(word, name);
		if (d <= best && (!near || d < best) && (size_t)d < n) {
			best = d;
			near = name;
		}
	}
	return near;
}

struct row_walk {
	const struct command *cmd;
	size_t at;
};

static const char *next_row(void *ctx)
{
	struct row_walk *w = ctx;

	while (w->at < option_count()) {
		const struct setting *row = option_at(w->at++);
		if (option_applies(row, w->cmd))
			return row->name;
	}
	return NULL;
}

static int unknown_long(const struct command *cmd, const char *name, struct err *err)
{
	for (size_t i = 0; i < option_count(); i++) {
		const struct setting *row = option_at(i);
		if ((row->groups & FOR_HELP) || strcmp(row->name, name) != 0)
			continue;
		if (cmd == &leading)
			return err_set(err, ERR_USAGE, "--%s goes after COMMAND", name);
		return err_set(err, ERR_USAGE, "--%s is not an option of %s", name, cmd->name);
	}
	struct row_walk walk = {cmd, 0};
	const char *near = options_near(name, next_row, &walk);
	if (near)
		return err_set(err, ERR_USAGE, "--%s: unknown option; did you mean --%s?", name,
		               near);
	return err_set(err, ERR_USAGE, "--%s: unknown option; see 'collctl%s%s --help'", name,
	               cmd == &leading ? "" : " ", cmd == &leading ? "" : cmd->name);
}

static int unknown_letter(const struct command *cmd, char letter, struct err *err)
{
	for (size_t i = 0; i < option_count(); i++) {
		if (option_at(i)->letter != letter)
			continue;
		if (cmd == &leading)
			return err_set(err, ERR_USAGE, "-%c goes after COMMAND", letter);
		return err_set(err, ERR_USAGE, "-%c is not an option of %s", letter, cmd->name);
	}
	return err_set(err, ERR_USAGE, "-%c: unknown option; see 'collctl%s%s --help'", letter,
	               cmd == &leading ? "" : " ", cmd == &leading ? "" : cmd->name);
}

/* ---- the parser ---- */

/* The parser's state. *err keeps the first error; parsing continues after it, so that --json and -v
 * are found at any position. */
struct parser {
	const struct command *cmd;
	struct options *o;
	int argc, at; /* argv[at] is the next word */
	char **argv;
	struct err *err;
	const char *taken[OPTIONS_MAX]; /* the value of a given option_at(i) that has one */
};

static const struct setting *find_long(const struct command *cmd, const char *name, size_t len)
{
	for (size_t i = 0; i < option_count(); i++) {
		const struct setting *row = option_at(i);
		if (option_applies(row, cmd) && strlen(row->name) == len &&
		    memcmp(row->name, name, len) == 0)
			return row;
	}
	return NULL;
}

static const struct setting *find_letter(const struct command *cmd, char letter)
{
	for (size_t i = 0; i < option_count(); i++)
		if (option_at(i)->letter == letter && option_applies(option_at(i), cmd))
			return option_at(i);
	return NULL;
}

static void set_given(struct options *o, size_t row)
{
	o->given[row / 64] |= (uint64_t)1 << row % 64;
}

static bool is_given(const struct options *o, size_t row)
{
	return o->given[row / 64] >> row % 64 & 1;
}

/* Of other kinds the reader refuses what is empty. */
static bool takes_text(const struct setting *s)
{
	return s->kind == SETTING_STRING || s->kind == SETTING_LIST;
}

static void take_option(struct parser *p, const struct setting *row, const char *value,
                        const char *subject)
{
	const size_t index = index_of(row);
	if (row->arg && !value) {
		if (p->at == p->argc) {
			err_set(p->err, ERR_USAGE, "%s needs an argument: %s", subject, row->arg);
			return;
		}
		value = p->argv[p->at++];
	}
	if (value && !*value && takes_text(row))
		err_set(p->err, ERR_USAGE, "%s: its value is empty: give %s", subject, row->arg);
	else if (setting_is_once(row) && p->taken[index])
		err_set(p->err, ERR_USAGE, "%s: is given twice, '%s' and '%s': give it once, as %s",
		        subject, p->taken[index], value, row->arg);
	else if (set_value(p->o, row, value, subject, p->err) == 0)
		set_given(p->o, index);
	p->taken[index] = value;
}

/* @arg is "--name" or "--name=value". */
static void parse_long(struct parser *p, const char *arg)
{
	const char *equals = strchrnul(arg, '=');
	int len = (int)(equals - arg);
	char subject[64];
	const struct setting *row = find_long(p->cmd, arg + 2, (size_t)len - 2);

	/* The message truncates a word that is too long for the buffer. */
	snprintf(subject, sizeof subject, "%.*s", len, arg);
	if (!row) {
		unknown_long(p->cmd, subject + 2, p->err);
		p->o->json |= strcmp(arg, "--json") == 0; /* print the error as JSON */
	} else if (*equals && !row->arg) {
		err_set(p->err, ERR_USAGE, "%s takes no argument", subject);
	} else {
		take_option(p, row, *equals ? equals + 1 : NULL, subject);
	}
}

/* @arg is "-abc": flags, of which the last may have an argument in the same or the next word. */
static void parse_letters(struct parser *p, const char *arg)
{
	for (const char *c = arg + 1; *c; c++) {
		const struct setting *row = find_letter(p->cmd, *c);
		char subject[3] = {'-', *c, '\0'};
		if (!row) {
			unknown_letter(p->cmd, *c, p->err);
			return;
		}
		take_option(p, row, row->arg && c[1] ? c + 1 : NULL, subject);
		if (row->arg)
			return;
	}
}

static void parse_words(const struct command *cmd, struct options *o, int *argc, char **argv,
                        struct err *err)
{
	struct parser p = {cmd, o, *argc, 1, argv, err, {NULL}};
	bool options = true;
	int kept = 1;

	while (p.at < p.argc) {
		char *arg = argv[p.at++];
		if (options && strcmp(arg, "--") == 0) {
			options = false;
		} else if (options && arg[0] == '-' && arg[1] == '-') {
			parse_long(&p, arg);
		} else if (options && arg[0] == '-' && arg[1]) {
			parse_letters(&p, arg);
		} else {
			argv[kept++] = arg;
			options = options && !cmd->stops_at_operand;
		}
	}
	argv[kept] = NULL;
	*argc = kept;
}

/* The place of the row's value. */
static const void *place(const struct options *o, const struct setting *row)
{
	return (const char *)base_of((struct options *)o, row) + row->offset;
}

bool options_given(const struct options *o, const void *member)
{
	for (size_t i = 0; i < option_count(); i++)
		if (is_given(o, i) && place(o, option_at(i)) == member)
			return true;
	return false;
}

const char *option_variable(const struct setting *row, char *buf, size_t cap)
{
	if (row->action)
		return NULL;
	size_t at = (size_t)snprintf(buf, cap, "COLLCTL_%s", row->name);
	for (size_t i = 0; i < at && i < cap; i++)
		buf[i] = buf[i] == '-' ? '_' : (char)toupper((unsigned char)buf[i]);
	return buf;
}

const char *options_source(const struct options *o, const void *member, char *buf, size_t cap)
{
	for (size_t i = 0; i < option_count(); i++) {
		const struct setting *row = option_at(i);
		if (place(o, row) != member)
			continue;
		if (!options_given(o, member))
			return option_variable(row, buf, cap);
		snprintf(buf, cap, "--%s", row->name);
		return buf;
	}
	return "";
}

bool options_svg_to_stdout(const struct options *o)
{
	return o->svg && strcmp(o->svg, "-") == 0;
}

static void apply_environment(const struct command *cmd, struct options *o, struct err *err)
{
	char name[64];

	for (size_t i = 0; i < option_count(); i++) {
		const struct setting *row = option_at(i);
		if (!option_applies(row, cmd) || !option_variable(row, name, sizeof name) ||
		    options_given(o, place(o, row)))
			continue;
		const char *text = getenv(name);
		if (text && *text)
			set_value(o, row, text, name, err);
	}
}

static int check_operands(const struct command *cmd, const struct options *o, int argc, char **argv,
                          struct err *err)
{
	const char *space = *cmd->synopsis ? " " : "";

	if (argc - 1 < cmd->min_args)
		return err_set(err, ERR_USAGE, "%s: too few operands; usage: collctl %s%s%s",
		               cmd->name, cmd->name, space, cmd->synopsis);
	if (cmd->max_args >= 0 && argc - 1 > cmd->max_args)
		return err_set(err, ERR_USAGE,
		               "%s: '%s' is one operand too many; usage: collctl %s%s%s", cmd->name,
		               argv[cmd->max_args + 1], cmd->name, space, cmd->synopsis);
	/* What follows the first operand of run are words of a program. */
	for (int i = 1; i < argc && (i == 1 || !cmd->stops_at_operand); i++)
		if (!*argv[i])
			return err_set(err, ERR_USAGE, "%s: operand %d is empty", cmd->name, i);
	for (int i = 0; o->json && i < o->request.noutputs; i++)
		if (strcmp(o->request.outputs[i], "-") == 0)
			return err_set(err, ERR_USAGE, "--json and '-o -' both write to stdout");
	return 0;
}

int options_parse(const struct command *cmd, struct options *o, int *argc, char **argv,
                  struct err *err)
{
	struct err local = ERR_INIT;

	if (!err)
		err = &local; /* the code below checks it */
	parse_words(cmd, o, argc, argv, err);
	if (o->help)
		return err->code ? -1 : 0;
	apply_environment(cmd, o, err);
	if (!err->code && o->json && !(cmd->groups & FOR_JSON))
		err_set(err, ERR_USAGE, "--json is not an option of %s", cmd->name);
	if (!err->code)
		check_operands(cmd, o, *argc, argv, err);
	return err->code ? -1 : 0;
}

int options_parse_words(const struct command *cmd, struct options *o, int *argc, char **argv,
                        struct err *err)
{
	parse_words(cmd, o, argc, argv, err);
	if (!o->help && !err->code)
		check_operands(cmd, o, *argc, argv, err);
	return err->code ? -1 : 0;
}

int options_parse_leading(struct options *o, int *argc, char **argv, struct err *err)
{
	parse_words(&leading, o, argc, argv, err);
	return err->code ? -1 : 0;
}
