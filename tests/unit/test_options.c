/* The command line: the table of options, its parser, the environment. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/text.h"
#include "tests/unit/options_test.h"

#define MAX_WORDS 16

/* A parsed command line. */
struct line {
	char words[256];
	char *argv[MAX_WORDS];
	int argc, ret;
	struct options o;
	struct err err;
};

/* Parse @text, whose words blanks separate and whose first is the command. */
static void parse(struct line *l, const char *text)
{
	memset(l, 0, sizeof *l);
	snprintf(l->words, sizeof l->words, "%s", text);
	for (char *w = strtok(l->words, " "); w; w = strtok(NULL, " ")) {
		assert_true(l->argc < MAX_WORDS - 1);
		l->argv[l->argc++] = w;
	}
	const struct command *cmd = command_find(l->argv[0]);
	assert_non_null(cmd);
	options_init(&l->o);
	err_clear(&l->err);
	l->ret = options_parse(cmd, &l->o, &l->argc, l->argv, &l->err);
	assert_int_equal(l->ret, l->err.code ? -1 : 0);
}

static void accepts(struct line *l, const char *text)
{
	parse(l, text);
	if (l->ret)
		fail_msg("%s: %s", text, l->err.text);
}

static void refuses(const char *text, const char *message)
{
	struct line l;

	parse(&l, text);
	if (!l.ret)
		fail_msg("%s: accepted", text);
	assert_int_equal(l.err.code, ERR_USAGE);
	assert_string_equal(l.err.text, message);
	options_release(&l.o);
}

/* ---- the tables ---- */

OPTIONS_TEST(rows_are_whole)
{
	for (size_t i = 0; i < option_count(); i++) {
		const struct setting *row = option_at(i);
		assert_non_null(row->name);
		if (!row->help || !*row->help || !row->groups)
			fail_msg("--%s has no help or belongs to no command", row->name);
		if (row->help[strlen(row->help) - 1] == '.')
			fail_msg("--%s: its help ends with a full stop", row->name);
		const struct setting *s = row;
		assert_non_null(s);
		bool takes = s->kind != SETTING_FLAG && s->kind != SETTING_LOUDER &&
		             s->kind != SETTING_QUIET;
		if (takes != (row->arg != NULL))
			fail_msg("--%s: kind and argument differ", row->name);
		bool words = s->kind == SETTING_WORD ||
		             (s->kind >= SETTING_OP && s->kind <= SETTING_CHOICE);
		if (words && !s->choices)
			fail_msg("--%s has no choices", row->name);
		bool ranged = s->kind == SETTING_INT || s->kind == SETTING_RANK ||
		              s->kind == SETTING_SIZE || s->kind == SETTING_RATE ||
		              s->kind == SETTING_DURATION || s->kind == SETTING_PORTS ||
		              s->kind == SETTING_LOUDER;
		if (ranged && s->max <= s->min)
			fail_msg("--%s has no range", row->name);
	}
}

/* The command line offers what the library takes. */
OPTIONS_TEST(commands_take_what_jobs_take)
{
	for (const struct command *c = commands; c->name; c++) {
		struct coll_request r = {.work = WORK_COLLECTIVE};
		r.work = strcmp(c->name, "barrier") == 0  ? WORK_BARRIER
		         : strcmp(c->name, "verify") == 0 ? WORK_VERIFY
		         : strcmp(c->name, "bench") == 0  ? WORK_BENCH
		         : strcmp(c->name, "check") == 0  ? WORK_CHECK
		                                          : WORK_COLLECTIVE;
		if (r.work == WORK_COLLECTIVE && coll_by_name(c->name, &r.kind) < 0) {
			assert_int_equal(c->job, NO_JOB);
			continue;
		}
		assert_int_equal(c->job, r.work);
		for (size_t i = 0; i < request_settings_len; i++) {
			const struct setting *s = &request_settings[i];
			if (option_applies(s, c) != request_takes(&r, s))
				fail_msg("%s: --%s", c->name, s->name);
		}
	}
}

OPTIONS_TEST(names_are_unique)
{
	for (const struct command *c = commands; c->name; c++)
		for (size_t i = 0; i < option_count(); i++)
			for (size_t j = 0; j < i; j++) {
				const struct setting *a = option_at(i), *b = option_at(j);
				if (!option_applies(a, c) || !option_applies(b, c))
					continue;
				if (strcmp(a->name, b->name) == 0)
					fail_msg("%s has --%s twice", c->name, a->name);
				if (a->letter && a->letter == b->letter)
					fail_msg("%s has -%c twice", c->name, a->letter);
			}
}

/* One name has one letter, whichever command it is given to. */
OPTIONS_TEST(letters_are_the_same_everywhere)
{
	for (size_t i = 0; i < option_count(); i++)
		for (size_t j = 0; j < i; j++) {
			const struct setting *a = option_at(i), *b = option_at(j);
			bool same_name = strcmp(a->name, b->name) == 0;
			if (same_name != (a->letter && a->letter == b->letter) &&
			    (a->letter || b->letter))
				fail_msg("--%s and --%s", a->name, b->name);
		}
}

/* As that of a flag: 0 is no. */
OPTIONS_TEST(the_variable_of_quiet_is_a_truth)
{
	static const struct {
		const char *text;
		int verbose; /* 1: an error */
	} cases[] = {{"1", -1}, {"yes", -1}, {"0", 0}, {"off", 0}, {"2", 1}, {"banana", 1}};

	for (size_t i = 0; i < LENGTH(cases); i++) {
		char *argv[] = {"version", NULL};
		struct options o;
		struct err err = ERR_INIT;
		int argc = 1;
		setenv("COLLCTL_QUIET", cases[i].text, 1);
		options_init(&o);
		const int ret = options_parse(command_find("version"), &o, &argc, argv, &err);
		assert_int_equal(ret, cases[i].verbose > 0 ? -1 : 0);
		if (ret < 0)
			assert_non_null(strstr(err.text, "' is not 1 or 0"));
		else
			assert_int_equal(o.verbose, cases[i].verbose);
		options_release(&o);
	}
	unsetenv("COLLCTL_QUIET");
}

/* What scripts may rely on. */
OPTIONS_TEST(contract_is_spelt_exactly)
{
	static const struct {
		const char *command, *name;
		char letter;
	} contract[] = {
	        {"allreduce", "size", 'n'},
	        {"allreduce", "rank", 'r'},
	        {"allreduce", "rendezvous", 'R'},
	        {"allreduce", "hostfile", 'H'},
	        {"allreduce", "job", 'j'},
	        {"allreduce", "secret-file", 0},
	        {"allreduce", "secret-fd", 0},
	        {"allreduce", "store-token-file", 0},
	        {"allreduce", "store-ca", 0},
	        {"allreduce", "store-cert", 0},
	        {"allreduce", "store-key", 0},
	        {"allreduce", "insecure", 0},
	        {"allreduce", "listen", 0},
	        {"allreduce", "advertise", 0},
	        {"allreduce", "port-range", 0},
	        {"allreduce", "iface", 0},
	        {"allreduce", "op", 0},
	        {"allreduce", "algorithm", 'a'},
	        {"allreduce", "order", 0},
	        {"allreduce", "dtype", 0},
	        {"allreduce", "shape", 0},
	        {"allreduce", "format", 0},
	        {"allreduce", "memory", 0},
	        {"allreduce", "streams", 0},
	        {"allreduce", "join-timeout", 0},
	        {"allreduce", "timeout", 0},
	        {"allreduce", "no-sync", 0},
	        {"allreduce", "force", 0},
	        {"allreduce", "allow-divergent", 0},
	        {"allreduce", "explain", 0},
	        {"allreduce", "output", 'o'},
	        {"barrier", "size", 'n'},
	        {"barrier", "algorithm", 'a'},
	        {"barrier", "join-timeout", 0},
	        {"plan", "size", 'n'},
	        {"plan", "count", 0},
	        {"plan", "bytes", 0},
	        {"plan", "verify", 0},
	        {"plan", "rank", 'r'},
	        {"plan", "json", 0},
	        {"algorithms", "json", 0},
	        {"run", "size", 'n'},
	        {"run", "label", 0},
	        {"serve", "listen", 0},
	        {"serve", "once", 0},
	        {"serve", "port-file", 0},
	        {"serve", "ready-fd", 0},
	        {"serve", "token-file", 0},
	        {"serve", "ttl", 0},
	        {"serve", "tls-cert", 0},
	        {"serve", "tls-key", 0},
	        {"keygen", "verbose", 'v'},
	        {"keygen", "quiet", 'q'},
	        {"keygen", "help", 'h'},
	};

	for (size_t i = 0; i < LENGTH(contract); i++) {
		const struct command *cmd = command_find(contract[i].command);
		bool found = false;
		for (size_t j = 0; j < option_count(); j++)
			found |= option_applies(option_at(j), cmd) &&
			         strcmp(option_at(j)->name, contract[i].name) == 0 &&
			         option_at(j)->letter == contract[i].letter;
		if (!found)
			fail_msg("%s --%s", contract[i].command, contract[i].name);
	}
}

OPTIONS_TEST(defaults)
{
	struct options o;

	options_init(&o);
	assert_int_equal(o.request.settings.size, 0);
	assert_int_equal(o.request.settings.rank, -1);
	assert_int_equal(o.request.settings.secret_fd, -1);
	assert_int_equal(o.ready_fd, -1);
	assert_int_equal(o.request.op, REDUCE_SUM);
	assert_false(o.request.ordered);
	assert_string_equal(o.request.algorithm, "auto");
	assert_null(o.request.settings.job); /* the launcher's id, or "default" */
	assert_int_equal(o.request.root, 0);
	assert_true(o.request.settings.memory == 256u << 20);
	assert_true(o.request.settings.join_timeout == 120 * NS_PER_SEC);
	assert_true(o.request.settings.timeout == 30 * NS_PER_SEC);
	assert_true(o.ttl == 0);
	assert_null(o.request.outputs);
}

/* ---- kinds ---- */

OPTIONS_TEST(sizes)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} good[] = {
	        {"1", 1},
	        {"4096", 4096},
	        {"64K", 64 << 10},
	        {"64k", 64 << 10},
	        {"3M", 3 << 20},
	        {"2G", 2ull << 30},
	        {"1T", 1ull << 40},
	        {"64KiB", 64 << 10},
	        {"2GiB", 2ull << 30},
	        {"9223372036854775807", INT64_MAX},
	        {"8388607T", 8388607ull << 40},
	};
	static const char *const bad[] = {
	        "0",
	        "-1",
	        "1.5G",
	        "K",
	        "64KB",
	        "1KK",
	        "0x10",
	        "1Kib2",
	        "1P",
	        "+1",
	        "9223372036854775808",
	        "8388608T",
	        "18446744073709551616",
	        "99999999999999999999999",
	};
	struct line l;
	char text[128], message[256];

	for (size_t i = 0; i < LENGTH(good); i++) {
		snprintf(text, sizeof text, "allreduce x --memory=%s", good[i].text);
		accepts(&l, text);
		assert_true(l.o.request.settings.memory == good[i].bytes);
	}
	for (size_t i = 0; i < LENGTH(bad); i++) {
		snprintf(text, sizeof text, "allreduce x --memory %s", bad[i]);
		snprintf(message, sizeof message,
		         "--memory: '%s' is not a size above 0, such as 4096, 64K, 256M or 2GiB",
		         bad[i]);
		refuses(text, message);
	}
	accepts(&l, "plan allreduce --count 0 --bytes 1K");
	assert_true(l.o.have_count && l.o.count == 0);
	assert_true(l.o.have_bytes && l.o.bytes == 1024);
	accepts(&l, "plan allreduce");
	assert_false(l.o.have_count || l.o.have_bytes);
}

OPTIONS_TEST(durations)
{
	static const struct {
		const char *text;
		int64_t ns;
	} good[] = {
	        {"30", 30 * NS_PER_SEC},    {"30s", 30 * NS_PER_SEC},
	        {"1ms", NS_PER_MS},         {"500ms", 500 * NS_PER_MS},
	        {"2m", 120 * NS_PER_SEC},   {"1h", 3600 * NS_PER_SEC},
	        {"1.5s", 1500 * NS_PER_MS}, {"0.25", 250 * NS_PER_MS},
	        {"0.000001h", 3600 * 1000}, {"2562047h", 2562047ll * 3600 * NS_PER_SEC},
	};
	static const char *const bad[] = {
	        "",          "0",        "s",
	        "1x",        "-1s",      "1.s",
	        ".5",        "1e3",      "1.2.3",
	        "1.0000001", "2562048h", "9223372036.9",
	        "1sec",      "0.5ms",    "99999999999999999999",
	};
	struct line l;
	char text[128], message[256];

	for (size_t i = 0; i < LENGTH(good); i++) {
		snprintf(text, sizeof text, "barrier --timeout %s", good[i].text);
		parse(&l, text);
		if (l.ret || l.o.request.settings.timeout != good[i].ns)
			fail_msg("%s: %lld %s", good[i].text,
			         (long long)l.o.request.settings.timeout, l.err.text);
	}
	for (size_t i = 0; i < LENGTH(bad); i++) {
		snprintf(text, sizeof text, "barrier --timeout=%s", bad[i]);
		snprintf(message, sizeof message,
		         "--timeout: '%s' is not a duration of 1ms or more, such as 30s, 500ms or "
		         "2m",
		         bad[i]);
		refuses(text, message);
	}
	accepts(&l, "serve --ttl 0");
	assert_true(l.o.ttl == 0);
}

OPTIONS_TEST(numbers)
{
	struct line l;

	accepts(&l, "barrier -n 65536 -r 65535 --secret-fd 0");
	assert_int_equal(l.o.request.settings.size, 65536);
	assert_int_equal(l.o.request.settings.rank, 65535);
	assert_int_equal(l.o.request.settings.secret_fd, 0);
	refuses("barrier -n 0", "-n: '0' is not a number from 1 to 65536");
	refuses("barrier --size 65537", "--size: '65537' is not a number from 1 to 65536");
	refuses("barrier -n4x", "-n: '4x' is not a number from 1 to 65536");
	refuses("barrier -n 18446744073709551617",
	        "-n: '18446744073709551617' is not a number from 1 to 65536");
	refuses("barrier --secret-fd 2147483648", "--secret-fd: '2147483648' is not a number");
	refuses("barrier --secret-fd -1", "--secret-fd: '-1' is not a number");
}

OPTIONS_TEST(ranks)
{
	struct line l;

	accepts(&l, "barrier -r auto");
	assert_int_equal(l.o.request.settings.rank, SETTINGS_RANK_AUTO);
	accepts(&l, "barrier --rank=3");
	assert_int_equal(l.o.request.settings.rank, 3);
	refuses("barrier -r first", "-r: 'first' is not a rank: a number, or auto");
	refuses("barrier -r 65536", "-r: '65536' is not a rank: a number, or auto");
	refuses("plan allreduce -r auto", "-r: 'auto' is not a number from 0 to 65535");
}

OPTIONS_TEST(port_ranges)
{
	static const char *const bad[] = {
	        "7000",  "7100-7000", "0-10", "1-65536", "1-",
	        "-7000", "1-2-3",     "a-b",  "",        "99999999999-99999999999"};
	struct line l;
	char text[128], message[256];

	accepts(&l, "barrier --port-range 7000-7100");
	assert_int_equal(l.o.request.settings.addresses.port_lo, 7000);
	assert_int_equal(l.o.request.settings.addresses.port_hi, 7100);
	accepts(&l, "barrier --port-range 1-1");
	for (size_t i = 0; i < LENGTH(bad); i++) {
		snprintf(text, sizeof text, "barrier --port-range=%s", bad[i]);
		snprintf(message, sizeof message,
		         "--port-range: '%s' is not a range of ports, such as 7000-7100", bad[i]);
		refuses(text, message);
	}
}

OPTIONS_TEST(devices)
{
	static const char *const bad[] = {
	        "gpu",     "cpu:0",    "cuda:",           "cuda:x",
	        "cuda:0,", "cuda0",    "cuda:,0",         "cuda:-1",
	        "cuda:+1", "cuda:0-1", "cuda:2147483648", "cuda:18446744073709551616",
	        ""};
	struct line l;
	char text[512], message[600];

	accepts(&l, "allreduce x");
	assert_false(l.o.request.devices.wanted);
	assert_false(l.o.request.have_devices);
	accepts(&l, "bench allreduce --device cuda");
	assert_true(l.o.request.devices.wanted);
	assert_int_equal(l.o.request.devices.n, 0);
	accepts(&l, "plan allreduce --device cuda:3,0,2147483647");
	assert_int_equal(l.o.request.devices.n, 3);
	assert_memory_equal(l.o.request.devices.numbers, ((int[]){3, 0, INT32_MAX}),
	                    3 * sizeof(int));
	assert_string_equal(l.o.request.devices.text, "cuda:3,0,2147483647");
	accepts(&l, "allreduce x --device cpu");
	assert_false(l.o.request.devices.wanted);
	assert_true(l.o.request.have_devices);
	for (size_t i = 0; i < LENGTH(bad); i++) {
		snprintf(text, sizeof text, "allreduce --device=%s", bad[i]);
		snprintf(message, sizeof message,
		         "--device: '%s' is not cpu, cuda or cuda:LIST, such as cuda:0,1", bad[i]);
		refuses(text, message);
	}
	refuses("allreduce --device cuda:1,01", "--device: 'cuda:1,01' lists device 1 twice");
	size_t at = (size_t)snprintf(text, sizeof text, "allreduce x --device cuda:0");
	for (int i = 1; i < DEVICES_MOST; i++)
		at += (size_t)snprintf(text + at, sizeof text - at, ",%d", i);
	accepts(&l, text);
	assert_int_equal(l.o.request.devices.n, DEVICES_MOST);
	snprintf(text + at, sizeof text - at, ",%d", DEVICES_MOST);
	snprintf(message, sizeof message, "--device: '%s' lists more than %d devices",
	         strstr(text, "cuda"), DEVICES_MOST);
	refuses(text, message);
}

OPTIONS_TEST(choices)
{
	struct line l;

	accepts(&l, "allreduce x --op bxor --order rank --format raw --dtype bf16");
	assert_int_equal(l.o.request.op, REDUCE_BXOR);
	assert_true(l.o.request.ordered);
	assert_ptr_equal(l.o.request.files.format, format_by_name("raw"));
	assert_int_equal(l.o.request.files.dtype, DTYPE_BF16);
	accepts(&l, "allreduce x --dtype float32");
	assert_int_equal(l.o.request.files.dtype, DTYPE_F32);
	refuses("allreduce x --op su",
	        "--op: 'su' is not one of sum, prod, min, max, avg, band, "
	        "bor, bxor, land, lor, lxor, median, trimmed:F, ties:D, dare:D,SEED, slerp:T");
	refuses("allreduce x --order=", "--order: '' is not one of any, rank");
	refuses("allreduce x --op sum|prod", "--op: 'sum|prod' is not one of sum, prod, min, max, "
	                                     "avg, band, bor, bxor, land, lor, lxor, median, "
	                                     "trimmed:F, ties:D, dare:D,SEED, slerp:T");
}

OPTIONS_TEST(trimmed_means)
{
	static const char *const wrong[] = {"trimmed",       "trimmed:",     "trimmed:F",
	                                    "trimmed:0.5",   "trimmed:-0.1", "trimmed:0.1:0.1",
	                                    "trimmed:nan",   "trimmed:0.1,", "trimmed:0,1",
	                                    "trimmed:1e-1x", "trimmedx"};
	static const struct {
		const char *text, *says;
		double trim;
	} right[] = {{"trimmed:0", "trimmed:0", 0},
	             {"trimmed:0.10", "trimmed:0.1", 0.1},
	             {"trimmed:.25", "trimmed:0.25", 0.25},
	             {"trimmed:1e-1", "trimmed:0.1", 0.1},
	             {"trimmed:0.33333333333333331", "trimmed:0.33333333333333331", 1.0 / 3},
	             {"median", "median", 0}};
	char line[80], text[160];
	struct line l;
	struct err err = {0};

	for (size_t i = 0; i < LENGTH(right); i++) {
		struct buf b;
		snprintf(line, sizeof line, "allreduce x --op %s", right[i].text);
		accepts(&l, line);
		assert_int_equal(l.o.request.op, i < 5 ? REDUCE_TRIMMED : REDUCE_MEDIAN);
		assert_true(l.o.request.param.part >= right[i].trim &&
		            l.o.request.param.part <= right[i].trim);
		buf_init(&b, 100);
		assert_int_equal(
		        setting_text(request_setting(&l.o.request, "op"), &l.o.request, &b, &err),
		        0);
		assert_string_equal((const char *)b.data, right[i].says);
		buf_release(&b);
		options_release(&l.o);
	}
	for (size_t i = 0; i < LENGTH(wrong); i++) {
		snprintf(line, sizeof line, "allreduce x --op %s", wrong[i]);
		snprintf(text, sizeof text,
		         "--op: '%s' is not trimmed:F with one number F from 0 to below 0.5, such "
		         "as "
		         "trimmed:0.1",
		         wrong[i]);
		refuses(line, text);
	}
	refuses("allreduce x --op median:1", "--op: 'median:1' is not one of sum, prod, min, max, "
	                                     "avg, band, bor, bxor, land, lor, lxor, median, "
	                                     "trimmed:F, ties:D, dare:D,SEED, slerp:T");
}

OPTIONS_TEST(outputs)
{
	struct line l;

	accepts(&l, "allreduce -o a -ob x --output=c y --output -");
	assert_int_equal(l.o.request.noutputs, 4);
	assert_string_equal(l.o.request.outputs[0], "a");
	assert_string_equal(l.o.request.outputs[1], "b");
	assert_string_equal(l.o.request.outputs[2], "c");
	assert_string_equal(l.o.request.outputs[3], "-");
	assert_int_equal(l.argc, 3);
	options_release(&l.o);
	refuses("allreduce x -o - --json", "--json and '-o -' both write to stdout");
}

/* ---- the form of the line ---- */

OPTIONS_TEST(mixed_with_operands)
{
	struct line l;

	accepts(&l, "allreduce a --op max b -n 3 - c");
	assert_int_equal(l.argc, 5);
	assert_string_equal(l.argv[1], "a");
	assert_string_equal(l.argv[2], "b");
	assert_string_equal(l.argv[3], "-");
	assert_string_equal(l.argv[4], "c");
	assert_null(l.argv[5]);
	assert_int_equal(l.o.request.settings.size, 3);
}

OPTIONS_TEST(two_dashes_end_options)
{
	struct line l;

	accepts(&l, "allreduce -n 3 -- --op -v -- x");
	assert_int_equal(l.argc, 5);
	assert_string_equal(l.argv[1], "--op");
	assert_string_equal(l.argv[2], "-v");
	assert_string_equal(l.argv[3], "--");
	assert_int_equal(l.o.verbose, 0);
}

OPTIONS_TEST(run_stops_at_its_command)
{
	struct line l;

	accepts(&l, "run -n 3 --label allreduce -n 4 --json x");
	assert_int_equal(l.o.request.settings.size, 3);
	assert_true(l.o.label);
	assert_false(l.o.json);
	assert_int_equal(l.argc, 6);
	assert_string_equal(l.argv[2], "-n");
	accepts(&l, "run -n 3 -- sh -c --label");
	assert_int_equal(l.argc, 4);
	assert_string_equal(l.argv[1], "sh");
	assert_false(l.o.label);
}

OPTIONS_TEST(bundles)
{
	struct line l;

	accepts(&l, "barrier -vvj night -r2");
	assert_int_equal(l.o.verbose, 2);
	assert_string_equal(l.o.request.settings.job, "night");
	assert_int_equal(l.o.request.settings.rank, 2);
	accepts(&l, "barrier -vjnight");
	assert_string_equal(l.o.request.settings.job, "night");
	accepts(&l, "barrier -vq");
	assert_int_equal(l.o.verbose, -1);
	accepts(&l, "barrier -qv");
	assert_int_equal(l.o.verbose, 1);
	accepts(&l, "barrier -j -v");
	assert_string_equal(l.o.request.settings.job, "-v");
	refuses("barrier -vX", "-X: unknown option; see 'collctl barrier --help'");
	refuses("barrier -vj", "-j needs an argument: NAME");
}

OPTIONS_TEST(arguments_where_they_belong)
{
	refuses("barrier --timeout", "--timeout needs an argument: DURATION");
	refuses("barrier --insecure=1", "--insecure takes no argument");
	refuses("barrier --json=", "--json takes no argument");
}

OPTIONS_TEST(unknown_options)
{
	refuses("barrier --timout 3", "--timout: unknown option; did you mean --timeout?");
	refuses("barrier --timout 3", "--timout: unknown option; did you mean --timeout?");
	refuses("barrier --tiemout=3", "--tiemout: unknown option; did you mean --timeout?");
	refuses("barrier --jion-timeout=3",
	        "--jion-timeout: unknown option; did you mean --join-timeout?");
	refuses("barrier --frobnicate",
	        "--frobnicate: unknown option; see 'collctl barrier --help'");
	refuses("barrier --op sum", "--op is not an option of barrier");
	refuses("barrier -o x", "-o is not an option of barrier");
	refuses("allreduce x --ttl 3", "--ttl is not an option of allreduce");
	refuses("keygen --json", "--json is not an option of keygen");
	/* hidden options are not betrayed */
	refuses("barrier --mdoc", "--mdoc: unknown option; see 'collctl barrier --help'");
	/* of the contract, but of later */
	refuses("allreduce x --quux ca.pem",
	        "--quux: unknown option; see 'collctl allreduce --help'");
	refuses("barrier --averyveryveryveryveryveryveryveryveryveryveryveryveryverylongname",
	        "--averyveryveryveryveryveryveryveryveryveryveryveryveryverylong: unknown option;"
	        " see 'collctl barrier --help'");
}

OPTIONS_TEST(operand_counts)
{
	refuses("allreduce -o x",
	        "allreduce: too few operands; usage: collctl allreduce IN... -o OUT");
	refuses("barrier x", "barrier: 'x' is one operand too many; usage: collctl barrier");
	refuses("keygen a b", "keygen: 'b' is one operand too many; usage: collctl keygen [FILE]");
}

/* Scripts get their JSON and people their help wherever the words stand. */
OPTIONS_TEST(the_first_error_stays)
{
	struct line l;

	parse(&l, "allreduce --frobnicate --op nothing x --json -v");
	assert_int_equal(l.ret, -1);
	assert_true(strstr(l.err.text, "frobnicate") != NULL);
	assert_true(l.o.json);
	assert_int_equal(l.o.verbose, 1);
	setenv("COLLCTL_TIMEOUT", "never", 1);
	accepts(&l, "allreduce --help");
	assert_true(l.o.help);
	unsetenv("COLLCTL_TIMEOUT");
}

OPTIONS_TEST(before_the_command)
{
	char *argv[] = {"collctl", "-v", "--json", "barrier", "-v", NULL};
	char *bad[] = {"collctl", "--op", "sum", NULL};
	int argc = 5;
	struct options o;
	struct err err = {.rank = ERR_RANK_SELF};

	options_init(&o);
	assert_int_equal(options_parse_leading(&o, &argc, argv, &err), 0);
	assert_int_equal(argc, 3);
	assert_string_equal(argv[1], "barrier");
	assert_int_equal(
	        options_parse(command_find("barrier"), &o, &(int){argc - 1}, argv + 1, &err), 0);
	assert_int_equal(o.verbose, 2);
	assert_true(o.json);
	argc = 3;
	assert_int_equal(options_parse_leading(&o, &argc, bad, &err), -1);
	assert_string_equal(err.text, "--op goes after COMMAND");
}

/* ---- the environment ---- */

OPTIONS_TEST(every_option_has_its_variable)
{
	char name[64];
	int n = 0;

	for (size_t i = 0; i < option_count(); i++) {
		const struct setting *row = option_at(i);
		if (!option_variable(row, name, sizeof name)) {
			assert_true(row->action);
			continue;
		}
		n++;
		assert_memory_equal(name, "COLLCTL_", 8);
		assert_int_equal(strlen(name), 8 + strlen(row->name));
		assert_int_equal(strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_"), strlen(name));
		/* The secret and the launcher's own variables are not options'. */
		assert_string_not_equal(name, "COLLCTL_SECRET");
		assert_string_not_equal(name, "COLLCTL_STORE_TOKEN");
		assert_string_not_equal(name, "COLLCTL_COORDINATOR");
		assert_string_not_equal(name, "COLLCTL_LISTEN_FD");
		assert_string_not_equal(name, "COLLCTL_HOST_ID");
	}
	assert_true(n > 40);
}

OPTIONS_TEST(variables_are_applied)
{
	struct line l;

	setenv("COLLCTL_SIZE", "5", 1);
	setenv("COLLCTL_RANK", "auto", 1);
	setenv("COLLCTL_JOIN_TIMEOUT", "10m", 1);
	setenv("COLLCTL_PORT_RANGE", "10-20", 1);
	setenv("COLLCTL_INSECURE", "yes", 1);
	setenv("COLLCTL_JSON", "0", 1);
	setenv("COLLCTL_VERBOSE", "2", 1);
	setenv("COLLCTL_OP", "prod", 1);
	setenv("COLLCTL_OUTPUT", "x.npy", 1);
	setenv("COLLCTL_MEMORY", "1G", 1);
	accepts(&l, "allreduce x");
	assert_int_equal(l.o.request.settings.size, 5);
	assert_int_equal(l.o.request.settings.rank, SETTINGS_RANK_AUTO);
	assert_true(l.o.request.settings.join_timeout == 600 * NS_PER_SEC);
	assert_int_equal(l.o.request.settings.addresses.port_lo, 10);
	assert_int_equal(l.o.request.settings.addresses.port_hi, 20);
	assert_true(l.o.request.settings.insecure);
	assert_false(l.o.json);
	assert_int_equal(l.o.verbose, 2);
	assert_int_equal(l.o.request.op, REDUCE_PROD);
	assert_true(l.o.request.settings.memory == 1u << 30);
	assert_int_equal(l.o.request.noutputs, 1);
	assert_string_equal(l.o.request.outputs[0], "x.npy");
	options_release(&l.o);
}

OPTIONS_TEST(flags_win)
{
	struct line l;

	setenv("COLLCTL_SIZE", "5", 1);
	setenv("COLLCTL_OUTPUT", "x.npy", 1);
	setenv("COLLCTL_VERBOSE", "3", 1);
	setenv("COLLCTL_TIMEOUT", "malformed", 1);
	accepts(&l, "allreduce x -n 4 -o y -q --timeout 3");
	assert_int_equal(l.o.request.settings.size, 4);
	assert_int_equal(l.o.request.noutputs, 1);
	assert_string_equal(l.o.request.outputs[0], "y");
	assert_int_equal(l.o.verbose, -1);
	assert_true(l.o.request.settings.timeout == 3 * NS_PER_SEC);
	options_release(&l.o);
}

OPTIONS_TEST(empty_is_unset)
{
	struct line l;

	setenv("COLLCTL_SIZE", "", 1);
	setenv("COLLCTL_INSECURE", "", 1);
	accepts(&l, "barrier");
	assert_int_equal(l.o.request.settings.size, 0);
	assert_false(l.o.request.settings.insecure);
}

OPTIONS_TEST(malformed_variables_are_named)
{
	setenv("COLLCTL_JOIN_TIMEOUT", "soon", 1);
	refuses("barrier", "COLLCTL_JOIN_TIMEOUT: 'soon' is not a duration of 1ms or more, such as"
	                   " 30s, 500ms or 2m");
	unsetenv("COLLCTL_JOIN_TIMEOUT");
	setenv("COLLCTL_INSECURE", "maybe", 1);
	refuses("barrier", "COLLCTL_INSECURE: 'maybe' is not 1 or 0");
	unsetenv("COLLCTL_INSECURE");
	setenv("COLLCTL_VERBOSE", "loud", 1);
	refuses("barrier", "COLLCTL_VERBOSE: 'loud' is not a number from 0 to 9");
	unsetenv("COLLCTL_VERBOSE");
	setenv("COLLCTL_DEVICE", "gpu", 1);
	refuses("allreduce", "COLLCTL_DEVICE: 'gpu' is not cpu, cuda or cuda:LIST, such as "
	                     "cuda:0,1");
}

OPTIONS_TEST(variables_of_other_commands_are_ignored)
{
	struct line l;

	setenv("COLLCTL_OP", "nonsense", 1);
	setenv("COLLCTL_TTL", "nonsense", 1);
	setenv("COLLCTL_HELP", "1", 1);
	accepts(&l, "barrier");
	assert_false(l.o.help);
	unsetenv("COLLCTL_HELP");
}

/* ---- what was meant, what is printed ---- */

OPTIONS_TEST(commands_meant)
{
	assert_string_equal(command_near("alreduce"), "allreduce");
	assert_string_equal(command_near("barier"), "barrier");
	assert_string_equal(command_near("rnu"), "run");
	assert_string_equal(command_near("algo"), "algorithms");
	assert_null(command_near("frobnicate"));
	assert_null(command_near(""));
	assert_null(command_near("x"));
	assert_null(command_near("allreduceallreduceallreduceallreduce"));
}

OPTIONS_TEST(commands_are_whole)
{
	for (const struct command *c = commands; c->name; c++) {
		assert_non_null(c->synopsis);
		assert_true(c->help && c->help[0] >= 'a' && c->help[0] <= 'z');
		assert_true(c->help[strlen(c->help) - 1] != '.');
		assert_non_null(c->run);
		assert_ptr_equal(command_find(c->name), c);
	}
}

/* Does @text, a help, have an entry for --@name? */
static bool has_entry(const char *text, const char *name)
{
	char entry[64];

	snprintf(entry, sizeof entry, " --%s", name);
	for (const char *at = text; (at = strstr(at, entry)); at++) {
		char before = at == text ? '\n' : at[-1], after = at[strlen(entry)];
		if ((before == ' ' || before == ',') && (after == ' ' || after == '\n'))
			return true;
	}
	return false;
}

static bool lists(const struct command *cmd, const char *name)
{
	for (size_t i = 0; i < option_count(); i++)
		if (option_applies(option_at(i), cmd) && !(option_at(i)->groups & FOR_HELP) &&
		    strcmp(option_at(i)->name, name) == 0)
			return true;
	return false;
}

/* The help of a command has its options and no others, in lines of a terminal's width. */
OPTIONS_TEST(help_is_complete)
{
	for (const struct command *c = commands; c->name; c++) {
		char *text = NULL;
		size_t len = 0;
		FILE *f = open_memstream(&text, &len);
		options_help(c, f);
		fclose(f);
		for (size_t i = 0; i < option_count(); i++) {
			const struct setting *row = option_at(i);
			if (has_entry(text, row->name) != lists(c, row->name))
				fail_msg("%s --help and --%s", c->name, row->name);
		}
		for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
			if (strlen(line) > 80)
				fail_msg("%s --help: %s", c->name, line);
		free(text);
	}
}

OPTIONS_TEST(text_of_peers_is_escaped)
{
	char buf[64], tiny[6];

	assert_string_equal(text_escape(buf, sizeof buf, "plain, {rank} \\"), "plain, {rank} \\");
	assert_string_equal(text_escape(buf, sizeof buf, "\033[2J\n\t\177"),
	                    "\\x1b[2J\\x0a\\x09\\x7f");
	assert_string_equal(
	        text_escape(buf, sizeof buf, "gr\303\274n \342\202\254 \360\237\230\200"),
	        "gr\303\274n \342\202\254 \360\237\230\200");
	/* a C1 control, an overlong '/', a surrogate, beyond Unicode, and cut short */
	assert_string_equal(text_escape(buf, sizeof buf, "\302\233"), "\\xc2\\x9b");
	assert_string_equal(text_escape(buf, sizeof buf, "\300\257"), "\\xc0\\xaf");
	assert_string_equal(text_escape(buf, sizeof buf, "\355\240\200"), "\\xed\\xa0\\x80");
	assert_string_equal(text_escape(buf, sizeof buf, "\364\220\200\200"),
	                    "\\xf4\\x90\\x80\\x80");
	assert_string_equal(text_escape(buf, sizeof buf, "\342\202"), "\\xe2\\x82");
	/* cut where it fits, never within a character or an escape */
	assert_string_equal(text_escape(tiny, sizeof tiny, "abcdefgh"), "abcde");
	assert_string_equal(text_escape(tiny, sizeof tiny, "abc\303\274d"), "abc\303\274");
	assert_string_equal(text_escape(tiny, sizeof tiny, "ab\001"), "ab");
}

int main(void)
{
	return unit_run(NULL, NULL);
}
