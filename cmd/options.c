#include "cmd/options.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"

#define AT(member) offsetof(struct options, member)
/* clang-format off */
#define OPT(name_, letter_, kind_, member_, arg_, help_, groups_, ...)                             \
	{.name = name_, .letter = letter_, .kind = kind_, .offset = AT(member_), .arg = arg_,      \
	 .help = help_, .groups = groups_, __VA_ARGS__}
#define SECTION(title) {.name = title, .kind = OPT_SECTION}
/* clang-format on */

#define OPS    "sum|prod|min|max|avg|band|bor|bxor|land|lor|lxor"
#define DTYPES "f16|bf16|f32|f64|f8e4m3|f8e5m2|i8|i16|i32|i64|u8|u16|u32|u64|bool|c64|c128"
#define DTYPES_NUMPY                                                                               \
	"float16|bfloat16|float32|float64|float8_e4m3fn|float8_e5m2|int8|int16|int32|int64|uint8|" \
	"uint16|uint32|uint64|bool_|complex64|complex128"

/* A list option's count follows its pointer, and a range's upper end its lower one. */
_Static_assert(AT(noutputs) == AT(outputs) + sizeof(char **), "OPT_LIST");
_Static_assert(AT(ninclude) == AT(include) + sizeof(char **), "OPT_LIST");
_Static_assert(AT(nexclude) == AT(exclude) + sizeof(char **), "OPT_LIST");
_Static_assert(AT(port_hi) == AT(port_lo) + sizeof(int), "OPT_PORTS");

const struct option_row option_rows[] = {
        SECTION("Collective"),
        OPT("op", 0, OPT_ENUM, op, "OP", "reduction operation", OPTS_REDUCE | OPTS_BENCH,
            .def = "sum", .choices = OPS),
        OPT("order", 0, OPT_ENUM, order, "ORDER",
            "order in which numbers are added; rank: rank order, floats in f64", OPTS_REDUCE,
            .def = "any", .choices = "any|rank"),
        OPT("weight", 0, OPT_WEIGHT, weight, "W",
            "weight of this rank's inputs in an average; 0 ignores them", OPTS_AVG, .def = "1"),
        OPT("integers", 0, OPT_ENUM, integers, "HOW",
            "average of integers: the values of rank 0, the same but they must be equal on all "
            "ranks, or the exact average rounded to the nearest integer",
            OPTS_AVG, .choices = "first|equal|round"),
        OPT("algorithm", 'a', OPT_STRING, algorithm, "NAME",
            "algorithm; 'collctl algorithms' lists them; bench also takes several, separated by "
            "commas, or 'all'",
            OPTS_ALGO, .def = "auto"),
        OPT("tuning", 0, OPT_STRING, tuning, "FILE",
            "choose the algorithm by the rates and measurements in this file (see 'collctl bench "
            "--tuning-out')",
            OPTS_ALGO),
        OPT("allow-divergent", 0, OPT_FLAG, allow_divergent, NULL,
            "allow algorithms that add floats in a different order on each rank, so that the last "
            "bits of the results may differ between ranks",
            OPTS_REDUCE | OPTS_BENCH),
        OPT("explain", 0, OPT_FLAG, explain, NULL,
            "print the predicted times of all algorithms, and why one was chosen", OPTS_ARRAY),
        OPT("root", 0, OPT_ROOT, root, "RANK|HOST",
            "rank that has the input or gets the result, or the host of one rank (default: 0; with"
            " --rank auto: of a broadcast or scatter the one rank that gives an input)",
            OPTS_ROOT, .max = RANKS_MAX - 1, .have = AT(have_root)),
        OPT("counts", 0, OPT_STRING, counts, "N,N,...",
            "rows of each rank's part (default: as even as possible)", OPTS_ROWS),
        OPT("base", 0, OPT_INT, base, "B",
            "radix of the bcube and bruck algorithms (default: the algorithm's own)",
            OPTS_BASE | OPTS_PLAN | OPTS_BENCH, .min = 2, .max = RANKS_MAX),
        OPT("steps", 0, OPT_INT, steps, "C",
            "number of partners of each rank, at distances 1, 2, 4 ...; 2^C must divide the number "
            "of ranks",
            OPTS_STEPS | OPTS_PLAN | OPTS_BENCH, .min = 1, .max = 16),

        SECTION("Files"),
        OPT("output", 'o', OPT_LIST, outputs, "FILE",
            "output file; '-' is stdout; {rank}, {size} and {host} are replaced", OPTS_OUTPUT),
        OPT("each", 0, OPT_FLAG, each, NULL, "process each input separately; -o names a folder",
            OPTS_OUTPUT),
        OPT("raw-file", 0, OPT_FLAG, raw_file, NULL, "treat files as bytes, whatever they hold",
            OPTS_BYTES),
        OPT("times", 0, OPT_FLAG, times, NULL,
            "with --raw-file, give the copies the modification times of the originals", OPTS_TIMES),
        OPT("format", 0, OPT_ENUM, format, "FORMAT", "file format (default: by extension)",
            OPTS_INPUT, .choices = "npy|raw|safetensors|npz"),
        OPT("dtype", 0, OPT_ENUM, dtype, "TYPE",
            "element type of raw files; bf16 also reads .npy files of type V2, f8e4m3 and f8e5m2 "
            "of type V1",
            OPTS_INPUT, .choices = DTYPES, .aliases = DTYPES_NUMPY),
        OPT("shape", 0, OPT_STRING, shape, "N,N,...", "shape of raw files", OPTS_INPUT),
        OPT("include", 0, OPT_LIST, include, "GLOB",
            "use only tensors whose names match; repeatable", OPTS_INPUT),
        OPT("exclude", 0, OPT_LIST, exclude, "GLOB", "skip tensors whose names match; repeatable",
            OPTS_INPUT),
        OPT("stats", 0, OPT_FLAG, stats, NULL,
            "report tensors that contain NaN or Inf; info: also minimum, maximum and mean",
            OPTS_STATS),
        OPT("force", 0, OPT_FLAG, force, NULL,
            "if the output is a symbolic link, replace the file that it points to", OPTS_OUTPUT),
        OPT("no-sync", 0, OPT_FLAG, no_sync, NULL, "do not wait until the output is on disk",
            OPTS_OUTPUT),

        SECTION("Resources"),
        OPT("memory", 0, OPT_SIZE, memory, "SIZE",
            "memory for buffers; larger arrays are processed in parts", OPTS_INPUT, .def = "256M",
            .min = 1, .max = INT64_MAX),
        OPT("streams", 0, OPT_INT, streams, "K",
            "parallel connections per direction (default: automatic)", OPTS_ARRAY, .min = 1,
            .max = 64),

        OPT("progress", 0, OPT_ENUM, progress, "WHEN",
            "show progress on stderr: a bar on a terminal (auto), elsewhere also a line every 5 "
            "seconds (always), JSON lines (json), or nothing (never)",
            OPTS_INPUT | OPTS_WAITS, .def = "auto", .choices = "auto|always|never|json"),

        SECTION("Job"),
        OPT("size", 'n', OPT_INT, size, "N", "number of ranks", OPTS_JOB | OPTS_PLAN, .min = 1,
            .max = RANKS_MAX),
        OPT("size", 'n', OPT_INT, size, "N", "number of ranks to start", OPTS_RUN, .min = 1,
            .max = RANKS_MAX),
        OPT("rank", 'r', OPT_RANK, rank, "N|auto",
            "rank of this process; auto: sorted by host, address and input file (default: from the "
            "launcher or the hostfile)",
            OPTS_JOB, .max = RANKS_MAX - 1),
        OPT("rank", 'r', OPT_INT, rank, "N", "show only this rank", OPTS_PLAN,
            .max = RANKS_MAX - 1),
        OPT("rendezvous", 'R', OPT_STRING, rendezvous, "URL",
            "store where the ranks meet: http://, https:// or consul+http(s)://", OPTS_JOB),
        OPT("hostfile", 'H', OPT_STRING, hostfile, "FILE",
            "hosts of the ranks, one per line in rank order; rank 0 is on the first", OPTS_JOB),
        OPT("job", 'j', OPT_STRING, job, "NAME",
            "name of the job; jobs that share a store need different names (default: the launcher's"
            " id, else 'default')",
            OPTS_JOB),

        SECTION("Security"),
        OPT("secret-file", 0, OPT_STRING, secret_file, "FILE",
            "file with the job's secret, made by 'collctl keygen' (default: COLLCTL_SECRET)",
            OPTS_JOB),
        OPT("secret-fd", 0, OPT_INT, secret_fd, "N", "read the secret from this file descriptor",
            OPTS_JOB, .max = INT32_MAX),
        OPT("store-token-file", 0, OPT_STRING, store_token_file, "FILE",
            "file with the access token of the store", OPTS_JOB),
        OPT("insecure", 0, OPT_FLAG, insecure, NULL,
            "no encryption and no authentication; all ranks must agree", OPTS_JOB),

        SECTION("Addresses"),
        OPT("listen", 0, OPT_STRING, listen, "ADDR[:PORT]", "address to accept connections at",
            OPTS_JOB),
        OPT("advertise", 0, OPT_STRING, advertise, "ADDR[:PORT]",
            "address at which other ranks reach this one", OPTS_JOB),
        OPT("port-range", 0, OPT_PORTS, port_lo, "A-B",
            "accept connections at a port of this range", OPTS_JOB, .min = 1, .max = 65535),
        OPT("iface", 0, OPT_STRING, iface, "NAME|CIDR",
            "accept connections at the address of this interface, or in this network", OPTS_JOB),

        SECTION("Time limits"),
        OPT("join-timeout", 0, OPT_DURATION, join_timeout, "DURATION",
            "how long to wait for the other ranks", OPTS_JOB, .def = "2m", .min = NS_PER_MS,
            .max = INT64_MAX),
        OPT("timeout", 0, OPT_DURATION, timeout, "DURATION",
            "how long a later phase may go without progress", OPTS_JOB, .def = "30s",
            .min = NS_PER_MS, .max = INT64_MAX),

        SECTION("Plan"),
        OPT("count", 0, OPT_SIZE, count, "N",
            "number of elements of a rank's input or output, whichever is larger", OPTS_PLAN,
            .max = INT64_MAX, .have = AT(have_count)),
        OPT("bytes", 0, OPT_SIZE, bytes, "SIZE", "the same in bytes (default: 1M)", OPTS_PLAN,
            .max = INT64_MAX, .have = AT(have_bytes)),
        OPT("insecure", 0, OPT_FLAG, insecure, NULL, "predict for connections without encryption",
            OPTS_PLAN),
        OPT("host-cpus", 0, OPT_INT, host_cpus, "N",
            "predict for ranks that share one host with N processors", OPTS_PLAN, .min = 1,
            .max = RANKS_MAX),
        OPT("compare", 0, OPT_FLAG, compare, NULL, "predict the time of every algorithm",
            OPTS_PLAN),
        OPT("verify", 0, OPT_FLAG, verify, NULL,
            "prove that the schedules of all ranks are correct", OPTS_PLAN),

        SECTION("Bench"),
        OPT("minbytes", 'b', OPT_SIZE, minbytes, "SIZE", "smallest size", OPTS_BENCH, .def = "4K",
            .max = INT64_MAX),
        OPT("maxbytes", 'e', OPT_SIZE, maxbytes, "SIZE", "largest size", OPTS_BENCH, .def = "64M",
            .max = INT64_MAX),
        OPT("stepfactor", 'f', OPT_INT, stepfactor, "N", "factor between sizes", OPTS_BENCH,
            .def = "4", .min = 2, .max = 1 << 20),
        OPT("warmup", 'w', OPT_INT, warmup, "N", "iterations before the measurement", OPTS_BENCH,
            .def = "5", .max = 1000000),
        OPT("iters", 0, OPT_INT, iters, "N", "measured iterations", OPTS_BENCH, .def = "20",
            .min = 1, .max = 1000000),
        OPT("dtype", 0, OPT_ENUM, dtype, "TYPE", "element type (default: f32)",
            OPTS_BENCH | OPTS_PLAN, .choices = DTYPES, .aliases = DTYPES_NUMPY),
        OPT("check", 0, OPT_FLAG, check, NULL,
            "compare every element on every rank with the expected value", OPTS_BENCH),
        OPT("tuning-out", 0, OPT_STRING, tuning_out, "FILE",
            "add the measurements to this tuning file and fit its rates", OPTS_BENCH),
        OPT("csv", 0, OPT_FLAG, csv, NULL, "print comma-separated values", OPTS_BENCH),

        SECTION("Run"),
        OPT("label", 0, OPT_FLAG, label, NULL, "prefix lines of stdout with [rank] too", OPTS_RUN),

        SECTION("Store"),
        OPT("listen", 0, OPT_STRING, listen, "ADDR:PORT",
            "address to accept requests at (default: 127.0.0.1:8500); port 0: any free port",
            OPTS_SERVE),
        OPT("once", 0, OPT_FLAG, once, NULL, "exit after the first job's record was withdrawn",
            OPTS_SERVE),
        OPT("port-file", 0, OPT_STRING, port_file, "FILE", "write the port number to this file",
            OPTS_SERVE),
        OPT("ready-fd", 0, OPT_INT, ready_fd, "N",
            "write the port number to this file descriptor when the store is ready", OPTS_SERVE,
            .max = INT32_MAX),
        OPT("token-file", 0, OPT_STRING, token_file, "FILE",
            "require the access token in this file (clients: --store-token-file)", OPTS_SERVE),
        OPT("tls-cert", 0, OPT_STRING, tls_cert, "FILE", "serve HTTPS with this certificate",
            OPTS_SERVE),
        OPT("tls-key", 0, OPT_STRING, tls_key, "FILE", "private key of the certificate",
            OPTS_SERVE),
        OPT("ttl", 0, OPT_DURATION, ttl, "DURATION",
            "delete records this long after they were last written; 0: never", OPTS_SERVE,
            .def = "0", .max = INT64_MAX),

        SECTION("Key generation"),
        OPT("force", 0, OPT_FLAG, force, NULL, "overwrite FILE if it exists",
            OPTS_KEYGEN | OPTS_ACTS),

        SECTION("Common"),
        OPT("json", 0, OPT_FLAG, json, NULL, "print the result or the error as one JSON value",
            OPTS_JSON),
        OPT("verbose", 'v', OPT_LOUDER, verbose, NULL, "print more on stderr; twice: still more",
            OPTS_COMMON, .max = 9),
        OPT("quiet", 'q', OPT_QUIET, verbose, NULL, "print only errors on stderr", OPTS_COMMON),
        OPT("help", 'h', OPT_FLAG, help, NULL, "print this help", OPTS_COMMON | OPTS_ACTS),
        OPT("version", 0, OPT_FLAG, version, NULL, "print the version", OPTS_BEFORE | OPTS_ACTS),
        OPT("mdoc", 0, OPT_FLAG, mdoc, NULL, "print the generated part of the manual page",
            OPTS_HELP | OPTS_ACTS),
        OPT("completions", 0, OPT_ENUM, completions, "SHELL", "print a completion script",
            OPTS_HELP | OPTS_ACTS, .choices = "bash|zsh|fish"),
};
const size_t option_rows_len = sizeof option_rows / sizeof option_rows[0];
_Static_assert(sizeof option_rows / sizeof option_rows[0] <= OPTIONS_MAX, "struct options.given");

/* What may stand before COMMAND, as if it were a command. */
static const struct command leading = {
        .name = "collctl",
        .opts = OPTS_BEFORE | OPTS_JSON,
        .max_args = -1,
        .stops_at_operand = true,
};

static void *member(struct options *o, size_t offset)
{
	return (char *)o + offset;
}

/* ---- values ---- */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Read decimal digits at *p into *out, moving *p behind them. False: none, or too many. */
static bool read_digits(const char **p, uint64_t *out)
{
	const char *s = *p;
	uint64_t v = 0;

	for (; is_digit(*s); s++)
		if (__builtin_mul_overflow(v, 10u, &v) ||
		    __builtin_add_overflow(v, (unsigned)(*s - '0'), &v))
			return false;
	bool any = s != *p;
	*p = s;
	*out = v;
	return any;
}

static bool read_int(const char *s, int64_t min, int64_t max, int *out)
{
	uint64_t v;

	if (!read_digits(&s, &v) || *s || v > (uint64_t)max || (int64_t)v < min)
		return false;
	*out = (int)v;
	return true;
}

static bool read_size(const char *s, int64_t min, uint64_t *out)
{
	static const char units[] = "KMGT";
	uint64_t v;

	if (!read_digits(&s, &v))
		return false;
	const char *unit = *s ? strchr(units, toupper((unsigned char)*s)) : NULL;
	if (unit) {
		if (__builtin_mul_overflow(v, (uint64_t)1 << 10 * (unit - units + 1), &v))
			return false;
		s += strcmp(s + 1, "iB") == 0 ? 3 : 1;
	}
	/* Sizes are file offsets sooner or later: 63 bits. */
	if (*s || v > INT64_MAX || (int64_t)v < min)
		return false;
	*out = v;
	return true;
}

/* A fraction is fine ("1.5s"): up to six digits, so that even those of an hour fit 64 bits. */
static bool read_duration(const char *s, int64_t min, int64_t *out)
{
	static const struct {
		const char *name;
		int64_t ns;
	} units[] = {
	        {"ms", NS_PER_MS},      {"s", NS_PER_SEC},        {"", NS_PER_SEC},
	        {"m", 60 * NS_PER_SEC}, {"h", 3600 * NS_PER_SEC},
	};
	uint64_t whole, part = 0;
	int64_t scale = 1, ns;

	if (!read_digits(&s, &whole) || whole > INT64_MAX)
		return false;
	if (*s == '.') {
		const char *start = ++s;
		if (!read_digits(&s, &part) || s - start > 6)
			return false;
		for (ptrdiff_t i = s - start; i > 0; i--)
			scale *= 10;
	}
	for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
		if (strcmp(s, units[i].name) != 0)
			continue;
		if (__builtin_mul_overflow((int64_t)whole, units[i].ns, &ns) ||
		    __builtin_add_overflow(ns, (int64_t)part * units[i].ns / scale, &ns))
			return false;
		*out = ns;
		return ns >= min;
	}
	return false;
}

static bool read_ports(const char *s, int64_t min, int64_t max, int out[2])
{
	uint64_t lo, hi;

	if (!read_digits(&s, &lo) || *s++ != '-' || !read_digits(&s, &hi) || *s)
		return false;
	if (lo < (uint64_t)min || hi > (uint64_t)max || lo > hi)
		return false;
	out[0] = (int)lo;
	out[1] = (int)hi;
	return true;
}

/* Is @word one of the words of @list, which '|' separates? */
static bool in_list(const char *list, const char *word)
{
	size_t len = strlen(word);

	while (list) {
		const char *bar = strchrnul(list, '|');
		if ((size_t)(bar - list) == len && memcmp(list, word, len) == 0)
			return true;
		list = *bar ? bar + 1 : NULL;
	}
	return false;
}

/* "sum, prod, min" of "sum|prod|min" */
static const char *spell_list(const char *list, char *buf, size_t cap)
{
	size_t at = 0;

	for (; *list && at + 3 < cap; list++) {
		buf[at++] = *list == '|' ? ',' : *list;
		if (*list == '|')
			buf[at++] = ' ';
	}
	buf[at] = '\0';
	return buf;
}

/* A number of 0 or more, as strtod reads it. */
static bool read_weight(const char *text, double *out)
{
	char *end;

	if (!is_digit(*text) && *text != '.')
		return false;
	errno = 0;
	double w = strtod(text, &end);
	*out = w;
	return !*end && end != text && w >= 0 && w <= 1e300 && errno != ERANGE;
}

static int add_to_list(struct options *o, const struct option_row *row, const char *text,
                       struct err *err)
{
	const char ***list = member(o, row->offset);
	int *n = member(o, row->offset + sizeof *list);
	size_t bytes = ((size_t)*n + 1) * sizeof **list;
	const char **grown = realloc(*list, bytes);

	if (!grown)
		return err_nomem(err, "the list of files", bytes);
	*list = grown;
	grown[(*n)++] = text;
	return 0;
}

static int malformed(const struct option_row *row, const char *subject, const char *text,
                     struct err *err)
{
	static const char fmt[] = "%s: '%s' is not %s";
	char words[256];

	switch (row->kind) {
	case OPT_INT:
	case OPT_LOUDER:
		if (row->max < INT32_MAX)
			return err_set(err, ERR_USAGE,
			               "%s: '%s' is not a number from %" PRId64 " to %" PRId64,
			               subject, text, row->min, row->max);
		return err_set(err, ERR_USAGE, fmt, subject, text, "a number");
	case OPT_RANK:
		return err_set(err, ERR_USAGE, fmt, subject, text, "a rank: a number, or auto");
	case OPT_ROOT:
		return err_set(err, ERR_USAGE, fmt, subject, text,
		               "a rank from 0 to 65535, or the name of a host");
	case OPT_SIZE:
		return err_set(err, ERR_USAGE, fmt, subject, text,
		               row->min > 0 ? "a size above 0, such as 4096, 64K, 256M or 2GiB"
		                            : "a size, such as 4096, 64K, 256M or 2GiB");
	case OPT_DURATION:
		return err_set(err, ERR_USAGE, fmt, subject, text,
		               row->min > 0 ? "a duration of 1ms or more, such as 30s, 500ms or 2m"
		                            : "a duration, such as 30s, 500ms or 2m");
	case OPT_WEIGHT:
		return err_set(err, ERR_USAGE, fmt, subject, text, "a weight, such as 1 or 0.25");
	case OPT_PORTS:
		return err_set(err, ERR_USAGE, fmt, subject, text,
		               "a range of ports, such as 7000-7100");
	case OPT_ENUM:
		return err_set(err, ERR_USAGE, "%s: '%s' is not one of %s", subject, text,
		               spell_list(row->choices, words, sizeof words));
	default:
		return err_set(err, ERR_USAGE, fmt, subject, text, "1 or 0");
	}
}

/* Give @row's member the value @text (NULL: the option takes none). @subject: what to name. */
/* Can @text be the name of a host? A number can't. */
static bool is_host(const char *text)
{
	bool letter = false;

	for (const char *p = text; *p; p++) {
		letter |= isalpha((unsigned char)*p) != 0;
		if (!isalnum((unsigned char)*p) && !strchr(".-_", *p))
			return false;
	}
	return letter && isalnum((unsigned char)*text);
}

static int set_value(struct options *o, const struct option_row *row, const char *text,
                     const char *subject, struct err *err)
{
	void *to = member(o, row->offset);
	bool ok = true;

	switch (row->kind) {
	case OPT_FLAG:
		*(bool *)to = true;
		break;
	case OPT_LOUDER:
		*(int *)to = *(int *)to < 0 ? 1 : *(int *)to + 1;
		break;
	case OPT_QUIET:
		*(int *)to = -1;
		break;
	case OPT_STRING:
		*(const char **)to = text;
		break;
	case OPT_RANK:
		if (strcmp(text, "auto") == 0) {
			*(int *)to = RANK_AUTO;
			break;
		}
		/* fallthrough */
	case OPT_INT:
		ok = read_int(text, row->min, row->max, to);
		break;
	case OPT_ROOT:
		if (is_host(text))
			o->root_host = text;
		else
			ok = read_int(text, row->min, row->max, to);
		break;
	case OPT_SIZE:
		ok = read_size(text, row->min, to);
		break;
	case OPT_DURATION:
		ok = read_duration(text, row->min, to);
		break;
	case OPT_PORTS:
		ok = read_ports(text, row->min, row->max, to);
		break;
	case OPT_ENUM:
		ok = in_list(row->choices, text) || in_list(row->aliases, text);
		if (ok)
			*(const char **)to = text;
		break;
	case OPT_WEIGHT:
		ok = read_weight(text, to);
		break;
	case OPT_LIST:
		return add_to_list(o, row, text, err);
	}
	if (!ok)
		return malformed(row, subject, text, err);
	if (row->have)
		*(bool *)member(o, row->have) = true;
	return 0;
}

void options_init(struct options *o)
{
	*o = (struct options){.size = -1, .rank = -1, .secret_fd = -1, .ready_fd = -1};
	for (size_t i = 0; i < option_rows_len; i++)
		if (option_rows[i].def)
			set_value(o, &option_rows[i], option_rows[i].def, option_rows[i].name,
			          NULL);
}

void options_release(struct options *o)
{
	free(o->outputs);
	free(o->include);
	free(o->exclude);
	o->outputs = o->include = o->exclude = NULL;
	o->noutputs = o->ninclude = o->nexclude = 0;
}

/* ---- what was meant ---- */

#define NEAR_MAX 32 /* longer words are not compared */

static int min_int(int a, int b)
{
	return a < b ? a : b;
}

/* Insertions, deletions, replacements and swaps of neighbours that make @b of @a. */
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
		/* The beginning of a name counts as the nearest of typing errors. */
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

	while (w->at < option_rows_len) {
		const struct option_row *row = &option_rows[w->at++];
		if (option_applies(row, w->cmd))
			return row->name;
	}
	return NULL;
}

static int unknown_long(const struct command *cmd, const char *name, struct err *err)
{
	for (size_t i = 0; i < option_rows_len; i++) {
		const struct option_row *row = &option_rows[i];
		if (row->kind == OPT_SECTION || (row->groups & OPTS_HELP) ||
		    strcmp(row->name, name) != 0)
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
	for (size_t i = 0; i < option_rows_len; i++) {
		if (option_rows[i].letter != letter)
			continue;
		if (cmd == &leading)
			return err_set(err, ERR_USAGE, "-%c goes after COMMAND", letter);
		return err_set(err, ERR_USAGE, "-%c is not an option of %s", letter, cmd->name);
	}
	return err_set(err, ERR_USAGE, "-%c: unknown option; see 'collctl%s%s --help'", letter,
	               cmd == &leading ? "" : " ", cmd == &leading ? "" : cmd->name);
}

/* ---- the parser ---- */

/* Where the parser is. The first error stays in *err; parsing goes on after it, so that --json and
 * -v are known wherever they stand. */
struct parser {
	const struct command *cmd;
	struct options *o;
	int argc, at; /* argv[at] is next */
	char **argv;
	struct err *err;
};

static const struct option_row *find_long(const struct command *cmd, const char *name, size_t len)
{
	for (size_t i = 0; i < option_rows_len; i++) {
		const struct option_row *row = &option_rows[i];
		if (option_applies(row, cmd) && strlen(row->name) == len &&
		    memcmp(row->name, name, len) == 0)
			return row;
	}
	return NULL;
}

static const struct option_row *find_letter(const struct command *cmd, char letter)
{
	for (size_t i = 0; i < option_rows_len; i++)
		if (option_rows[i].letter == letter && option_applies(&option_rows[i], cmd))
			return &option_rows[i];
	return NULL;
}

static void set_given(struct options *o, size_t row)
{
	o->given[row / 64] |= (uint64_t)1 << row % 64;
}

static void take_option(struct parser *p, const struct option_row *row, const char *value,
                        const char *subject)
{
	if (row->arg && !value) {
		if (p->at == p->argc) {
			err_set(p->err, ERR_USAGE, "%s needs an argument: %s", subject, row->arg);
			return;
		}
		value = p->argv[p->at++];
	}
	if (set_value(p->o, row, value, subject, p->err) == 0)
		set_given(p->o, (size_t)(row - option_rows));
}

/* @arg is "--name" or "--name=value". */
static void parse_long(struct parser *p, const char *arg)
{
	const char *equals = strchrnul(arg, '=');
	int len = (int)(equals - arg);
	char subject[64];
	const struct option_row *row = find_long(p->cmd, arg + 2, (size_t)len - 2);

	/* A word that is too long for the buffer is cut in the message. */
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

/* @arg is "-abc": flags, and last perhaps one with an argument, here or in the next word. */
static void parse_letters(struct parser *p, const char *arg)
{
	for (const char *c = arg + 1; *c; c++) {
		const struct option_row *row = find_letter(p->cmd, *c);
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
	struct parser p = {cmd, o, *argc, 1, argv, err};
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

static bool was_given(const struct options *o, size_t offset)
{
	for (size_t i = 0; i < option_rows_len; i++)
		if ((o->given[i / 64] >> i % 64 & 1) && option_rows[i].offset == offset)
			return true;
	return false;
}

const char *option_variable(const struct option_row *row, char *buf, size_t cap)
{
	if (row->kind == OPT_SECTION || (row->groups & OPTS_ACTS))
		return NULL;
	size_t at = (size_t)snprintf(buf, cap, "COLLCTL_%s", row->name);
	for (size_t i = 0; i < at && i < cap; i++)
		buf[i] = buf[i] == '-' ? '_' : (char)toupper((unsigned char)buf[i]);
	return buf;
}

const char *options_source(const struct options *o, const void *member, char *buf, size_t cap)
{
	const size_t offset = (size_t)((const char *)member - (const char *)o);

	for (size_t i = 0; i < option_rows_len; i++)
		if (option_rows[i].kind != OPT_SECTION && option_rows[i].offset == offset) {
			if (!was_given(o, offset))
				return option_variable(&option_rows[i], buf, cap);
			snprintf(buf, cap, "--%s", option_rows[i].name);
			return buf;
		}
	return "";
}

/* The words of a flag's variable: 1, 0 or -1, malformed. */
static int truth(const char *s)
{
	if (in_list("1|true|yes|on", s))
		return 1;
	return in_list("0|false|no|off", s) ? 0 : -1;
}

static int apply_variable(struct options *o, const struct option_row *row, const char *name,
                          const char *text, struct err *err)
{
	if (row->kind == OPT_LOUDER) {
		int level;
		if (!read_int(text, row->min, row->max, &level))
			return malformed(row, name, text, err);
		*(int *)member(o, row->offset) = level;
		return 0;
	}
	if (!row->arg) {
		int t = truth(text);
		if (t < 0)
			return malformed(row, name, text, err);
		if (t == 0)
			return 0;
	}
	return set_value(o, row, text, name, err);
}

static void apply_environment(const struct command *cmd, struct options *o, struct err *err)
{
	char name[64];

	for (size_t i = 0; i < option_rows_len; i++) {
		const struct option_row *row = &option_rows[i];
		if (!option_applies(row, cmd) || !option_variable(row, name, sizeof name) ||
		    was_given(o, row->offset))
			continue;
		const char *text = getenv(name);
		if (text && *text)
			apply_variable(o, row, name, text, err);
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
	for (int i = 0; o->json && i < o->noutputs; i++)
		if (strcmp(o->outputs[i], "-") == 0)
			return err_set(err, ERR_USAGE, "--json and '-o -' both want stdout");
	return 0;
}

int options_parse(const struct command *cmd, struct options *o, int *argc, char **argv,
                  struct err *err)
{
	struct err local = {.rank = ERR_RANK_SELF};

	if (!err)
		err = &local; /* the code below asks whether one has happened */
	parse_words(cmd, o, argc, argv, err);
	if (o->help)
		return err->code ? -1 : 0;
	apply_environment(cmd, o, err);
	if (!err->code && o->json && !(cmd->opts & OPTS_JSON))
		err_set(err, ERR_USAGE, "--json is not an option of %s", cmd->name);
	if (!err->code)
		check_operands(cmd, o, *argc, argv, err);
	return err->code ? -1 : 0;
}

int options_parse_leading(struct options *o, int *argc, char **argv, struct err *err)
{
	parse_words(&leading, o, argc, argv, err);
	return err->code ? -1 : 0;
}
