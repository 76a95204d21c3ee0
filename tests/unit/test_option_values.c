/* The values of each option of each command: two of them, an empty one. */
#include <stdio.h>
#include <string.h>

#include "tests/unit/options_test.h"

/* Two values of the row, different and valid. */
static void two_values(const struct setting *s, const char *values[2], char buf[2][64])
{
	values[0] = "a";
	values[1] = "b";
	switch (s->kind) {
	case SETTING_INT:
	case SETTING_RANK:
	case SETTING_THREADS:
		snprintf(buf[0], sizeof buf[0], "%d", (int)s->min + 1);
		snprintf(buf[1], sizeof buf[1], "%d", (int)s->min + 2);
		break;
	case SETTING_ROOT:
		strcpy(buf[0], "host");
		strcpy(buf[1], "2");
		break;
	case SETTING_SIZE:
	case SETTING_RATE:
	case SETTING_LINK:
		strcpy(buf[0], "5000");
		strcpy(buf[1], "6000");
		break;
	case SETTING_DURATION:
		strcpy(buf[0], "5s");
		strcpy(buf[1], "6s");
		break;
	case SETTING_PORTS:
		strcpy(buf[0], "7000-7010");
		strcpy(buf[1], "8000-8010");
		break;
	case SETTING_OUTER:
		strcpy(buf[0], "nesterov:0.7,0.9");
		strcpy(buf[1], "nesterov:1,0");
		break;
	case SETTING_NUMBER:
		strcpy(buf[0], "-0.5");
		strcpy(buf[1], "2");
		break;
	case SETTING_RATES:
		strcpy(buf[0], "1M,2M");
		strcpy(buf[1], "3M,4M");
		break;
	case SETTING_WEIGHTS:
	case SETTING_ROWS:
		strcpy(buf[0], "1,2");
		strcpy(buf[1], "3,4");
		break;
	case SETTING_DEVICE:
		strcpy(buf[0], "cuda:0");
		strcpy(buf[1], "cuda:1");
		break;
	default:
		if (!s->choices)
			return;
		const char *bar = strchr(s->choices, '|');
		assert_non_null(bar);
		snprintf(buf[0], sizeof buf[0], "%.*s", (int)strcspn(bar + 1, "|"), bar + 1);
		snprintf(buf[1], sizeof buf[1], "%.*s", (int)(bar - s->choices), s->choices);
	}
	values[0] = buf[0];
	values[1] = buf[1];
}

static size_t bytes_of(const struct setting *s)
{
	switch (s->kind) {
	case SETTING_ORDER:
		return sizeof(bool);
	case SETTING_INT:
	case SETTING_RANK:
	case SETTING_THREADS:
	case SETTING_ROOT:
	case SETTING_PORTS:
	case SETTING_OP:
	case SETTING_DTYPE:
	case SETTING_INTEGERS:
	case SETTING_CHOICE:
		return sizeof(int);
	default:
		return sizeof(uint64_t); /* numbers and pointers */
	}
}

/* Parse "--name value" for each of @values[n], with the operands that the command needs. */
static int parse_values(struct options *o, const struct command *cmd, const struct setting *row,
                        const char *const *values, int n, struct err *err)
{
	static char words[4][96];
	char *argv[12] = {(char *)cmd->name};
	int argc = 1;

	for (int i = 0; i < n; i++) {
		snprintf(words[i], sizeof words[i], "--%s", row->name);
		argv[argc++] = words[i];
		argv[argc++] = (char *)values[i];
	}
	for (int i = 0; i < cmd->min_args; i++)
		argv[argc++] = "x";
	options_init(o);
	err_clear(err);
	return options_parse(cmd, o, &argc, argv, err);
}

static void *member_of(struct options *o, const struct setting *row)
{
	const bool of_request =
	        row >= request_settings && row < request_settings + request_settings_len;
	return (char *)(of_request ? (void *)&o->request : o) + row->offset;
}

static int listed(struct options *o, const struct setting *row)
{
	return *(const int *)((char *)&o->request + row->other);
}

/* Both have the value of the row. Of lists of numbers the lengths are enough: they may be given
 * once. */
static void same_value(struct options *a, struct options *b, const struct setting *row)
{
	const struct setting *s = row;
	if (s->kind == SETTING_LIST || s->kind == SETTING_WEIGHTS || s->kind == SETTING_ROWS ||
	    s->kind == SETTING_RATES)
		assert_int_equal(listed(a, row), listed(b, row));
	else if (memcmp(member_of(a, row), member_of(b, row), bytes_of(s)) != 0)
		fail_msg("--%s: another value than that of its last word", row->name);
}

static void gives_twice(const struct command *cmd, const struct setting *row)
{
	const struct setting *s = row;
	const char *values[2];
	char buf[2][64], name[64];
	const bool once = setting_is_once(s);
	struct options both, last;
	struct err err;
	char both_values[160];

	two_values(s, values, buf);
	snprintf(both_values, sizeof both_values,
	         "--%s: is given twice, '%s' and '%s': give it once, as %s", row->name, values[0],
	         values[1], row->arg);
	for (int i = 0; i < 2; i++) {
		if (parse_values(&last, cmd, row, &values[i], 1, &err) < 0)
			fail_msg("%s --%s %s: %s", cmd->name, row->name, values[i], err.text);
		options_release(&last);
	}
	parse_values(&last, cmd, row, &values[1], 1, &err);
	const int ret = parse_values(&both, cmd, row, values, 2, &err);
	if (once != (ret < 0))
		fail_msg("%s --%s twice: %s", cmd->name, row->name, ret ? err.text : "taken");
	if (once) {
		assert_int_equal(err.code, ERR_USAGE);
		assert_string_equal(err.text, both_values);
	} else if (s->kind == SETTING_LIST) {
		assert_int_equal(listed(&both, row), 2);
	} else {
		same_value(&both, &last, row);
	}
	options_release(&both);
	/* A flag wins over the variable, also where both could be kept. */
	if (option_variable(row, name, sizeof name)) {
		setenv(name, values[0], 1);
		if (parse_values(&both, cmd, row, &values[1], 1, &err) < 0)
			fail_msg("%s and --%s: %s", name, row->name, err.text);
		same_value(&both, &last, row);
		options_release(&both);
		unsetenv(name);
	}
	options_release(&last);
}

/* Of run only the first: the others belong to the program that it starts. */
OPTIONS_TEST(an_empty_operand_is_an_error)
{
	for (const struct command *c = commands; c->name; c++)
		for (int at = 1; at <= 2 && c->max_args; at++) {
			char *argv[] = {(char *)c->name, "x", "x", NULL};
			int argc = c->max_args == 1 ? 2 : 3;
			struct options o;
			struct err err;
			if (at >= argc)
				continue;
			argv[argc] = NULL;
			argv[at] = "";
			options_init(&o);
			err_clear(&err);
			int ret = options_parse(c, &o, &argc, argv, &err);
			if (c->stops_at_operand && at > 1)
				assert_int_equal(ret, 0);
			else if (ret == 0 || !strstr(err.text, " is empty"))
				fail_msg("%s '': %s", c->name, err.text);
			options_release(&o);
		}
}

/* As a script gives it whose variable is not set. */
OPTIONS_TEST(an_empty_value_is_an_error)
{
	for (const struct command *c = commands; c->name; c++)
		for (size_t i = 0; i < option_count(); i++) {
			const struct setting *row = option_at(i);
			const char *nothing = "";
			struct options o;
			struct err err;
			char begin[64];
			if (!option_applies(row, c) || !row->arg)
				continue;
			snprintf(begin, sizeof begin, "--%s: ", row->name);
			if (parse_values(&o, c, row, &nothing, 1, &err) == 0 ||
			    err.code != ERR_USAGE || strncmp(err.text, begin, strlen(begin)) != 0)
				fail_msg("%s --%s '': %s", c->name, row->name, err.text);
			options_release(&o);
		}
}

/* Names and other texts of which a job has one, so that the last value counts, as collctl(1) says.
 * A new option is in this list, or once: files that are written, and inputs, are. */
static bool last_text_counts(const struct setting *s)
{
	static const char *const names[] = {
	        "advertise",  "chdir",
	        "congestion", "iface",
	        "job",        "listen",
	        "name",       "remote-path",
	        "rendezvous", "secret-file",
	        "ssh",        "store-cert",
	        "store-key",  "store-token-file",
	        "tls-cert",   "tls-key",
	        "token-file",
	};

	for (size_t i = 0; i < LENGTH(names); i++)
		if (strcmp(s->name, names[i]) == 0)
			return true;
	return false;
}

/* Every option with a value, of every command. */
OPTIONS_TEST(the_last_value_counts_or_it_is_an_error)
{
	for (const struct command *c = commands; c->name; c++)
		for (size_t i = 0; i < option_count(); i++) {
			const struct setting *row = option_at(i);
			if (!option_applies(row, c) || !row->arg)
				continue;
			const struct setting *s = row;
			const bool list = strchr(row->arg, ',') && s->kind != SETTING_OUTER;
			if (list && !setting_is_once(s))
				fail_msg("--%s %s: a list is given once", row->name, row->arg);
			if (s->kind == SETTING_STRING && last_text_counts(s) == setting_is_once(s))
				fail_msg("--%s: does the last value count, or is it given once?",
				         row->name);
			assert_true(s->kind != SETTING_LIST || !setting_is_once(s));
			gives_twice(c, row);
		}
}

int main(void)
{
	return unit_run(NULL, NULL);
}
