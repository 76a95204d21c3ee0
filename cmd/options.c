#include "cmd/options.h"
#include "cmd/ask_password.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/data/format.h"

#define AT(member) offsetof(struct options, member)
/* clang-format off */
#define OPT(name_, letter_, kind_, member_, arg_, help_, groups_, ...)                             \
	{.own = {.name = name_, .kind = kind_, .offset = AT(member_), __VA_ARGS__},                \
	 .letter = letter_, .arg = arg_, .help = help_, .groups = groups_}
#define REQUEST(name_, letter_, arg_, help_, groups_)                                              \
	{.own = {.name = name_, .kind = OPT_REQUEST},                                              \
	 .letter = letter_, .arg = arg_, .help = help_, .groups = groups_}
#define SECTION(title) {.own = {.name = title, .kind = OPT_SECTION}}
/* clang-format on */

const struct option_row option_rows[] = {
        SECTION("Collective"),
        REQUEST("op", 0, "OP", "reduction operation", OPTS_REDUCE | OPTS_BENCH),
        REQUEST("order", 0, "ORDER",
                "order in which numbers are added; 'rank' adds in rank order, floats in f64",
                OPTS_REDUCE),
        REQUEST("weight", 0, "W[,W,...]",
                "weight of this rank's inputs in an average, one for all or one for each; 0 "
                "ignores them",
                OPTS_AVG),
        REQUEST("integers", 0, "HOW",
                "how to average integers: take the values of rank 0 (first), the same but fail if "
                "another rank has different values (equal), or round the exact average to the "
                "nearest "
                "integer (round)",
                OPTS_AVG),
        REQUEST("algorithm", 'a', "NAME",
                "algorithm to use; 'collctl algorithms' lists all; bench also takes several, "
                "separated "
                "by commas, or 'all'",
                OPTS_ALGO),
        REQUEST("tuning", 0, "FILE",
                "choose the algorithm by the rates and measurements in this file (see 'collctl "
                "bench "
                "--tuning-out')",
                OPTS_ALGO),
        REQUEST("allow-divergent", 0, NULL,
                "allow algorithms that add floats in a different order on each rank, so that the "
                "last "
                "bits of the results may differ between ranks",
                OPTS_REDUCE | OPTS_BENCH),
        REQUEST("explain", 0, NULL,
                "print the predicted time of each algorithm, and why one was chosen", OPTS_ARRAY),
        OPT("trace", 0, SETTING_STRING, trace, "FILE",
            "write what every rank does and when, for Perfetto or chrome://tracing; only rank 0's "
            "FILE counts",
            OPTS_ARRAY),
        OPT("trace-svg", 0, SETTING_STRING, trace_svg, "FILE",
            "draw what every rank does and when, as 'plan --svg' draws the plan", OPTS_ARRAY),
        REQUEST("dry-run", 0, NULL,
                "agree on what to do and print it, but move no data and create no file; all ranks "
                "must give this option",
                OPTS_ARRAY),
        REQUEST("root", 0, "RANK|HOST",
                "rank that has the input or gets the result, or the name of its host (default: 0; "
                "with "
                "--rank auto, broadcast and scatter take the one rank that gives an input)",
                OPTS_ROOT),
        REQUEST("counts", 0, "N,N,...",
                "rows of each rank's part, in rank order (default: as even as possible)",
                OPTS_ROWS),
        REQUEST("base", 0, "B", "radix of the bcube and bruck algorithms (default: 2)",
                OPTS_BASE | OPTS_PLAN | OPTS_BENCH),
        REQUEST("steps", 0, "C",
                "number of partners of each rank, at distances 1, 2, 4 ...; 2^C must divide the "
                "number "
                "of ranks",
                OPTS_STEPS | OPTS_PLAN | OPTS_BENCH),

        SECTION("Files"),
        REQUEST("output", 'o', "FILE",
                "output file; '-' is stdout; {rank}, {size} and {host} are replaced", OPTS_OUTPUT),
        REQUEST("each", 0, NULL, "process each input separately; -o names a folder", OPTS_OUTPUT),
        REQUEST("raw-file", 0, NULL, "treat files of any format as a sequence of bytes",
                OPTS_BYTES),
        REQUEST("times", 0, NULL,
                "with --raw-file, give the copies the modification times of the originals",
                OPTS_TIMES),
        REQUEST("format", 0, "FORMAT", "file format (default: by extension)", OPTS_INPUT),
        REQUEST("dtype", 0, "TYPE",
                "element type of raw files; bf16 also reads .npy files of type V2, f8e4m3 and "
                "f8e5m2 "
                "of type V1",
                OPTS_INPUT),
        REQUEST("shape", 0, "N,N,...", "shape of raw files", OPTS_INPUT),
        REQUEST("include", 0, "GLOB", "use only tensors whose names match; repeatable", OPTS_INPUT),
        REQUEST("exclude", 0, "GLOB", "skip tensors whose names match; repeatable", OPTS_INPUT),
        REQUEST("same", 0, NULL,
                "compare the local files with each other, too, not only with those in the same "
                "place on other ranks",
                OPTS_SAME),
        REQUEST("stats", 0, NULL,
                "report tensors that contain NaN or Inf; info also prints minimum, maximum and "
                "mean",
                OPTS_STATS),
        REQUEST("force", 0, NULL,
                "if the output is a symbolic link, replace the file that it points to; replace "
                "files also where another rank chooses their names",
                OPTS_OUTPUT),
        REQUEST("no-sync", 0, NULL, "do not wait until the output is on disk", OPTS_OUTPUT),

        SECTION("Resources"),
        REQUEST("memory", 0, "SIZE", "memory for buffers; larger arrays are processed in parts",
                OPTS_INPUT),
        REQUEST("streams", 0, "K", "parallel connections per direction (default: automatic)",
                OPTS_ARRAY),
        REQUEST("limit-rate", 0, "RATE",
                "send at most this much over all data connections of this rank together: 100Mbit, "
                "1Gbit (bits a second), 10M (bytes)",
                OPTS_ARRAY | OPTS_BENCH),

        REQUEST("threads", 0, "N|auto",
                "threads that encrypt, add and copy, at most one for each stream (auto: the "
                "processors that the other ranks of this host do not use)",
                OPTS_ARRAY),
        REQUEST("lanes", 0, "WAY",
                "how ranks of the same host and user send to each other: through memory that they "
                "share where that works (auto), always as to other hosts (tcp), or fail where "
                "memory does not work (memory)",
                OPTS_ARRAY | OPTS_BENCH),
        REQUEST("device", 0, "cpu|cuda[:LIST]",
                "memory of inputs and outputs: the host's, or that of GPUs: cuda:0,1 puts input i "
                "on the i-th of the list; cuda alone on one GPU for each rank of a host",
                OPTS_ARRAY | OPTS_BENCH | OPTS_PLAN),
        REQUEST("device-path", 0, "PATH",
                "how a rank's GPUs reach each other's memory: direct access (peer), copies through "
                "the host (host), NCCL also where its order changes the last bits of sums of "
                "floats (nccl), or what is there, with NCCL in long jobs for integers (auto)",
                OPTS_ARRAY | OPTS_BENCH),
        REQUEST("device-memory", 0, "SIZE",
                "memory for buffers on each GPU (default: three quarters of what is free)",
                OPTS_ARRAY),

        OPT("progress", 0, SETTING_WORD, progress, "WHEN",
            "progress on stderr: a bar if it is a terminal (auto), also a line every 5 seconds if "
            "it is not (always), JSON lines (json), or nothing (never)",
            OPTS_INPUT | OPTS_WAITS, .def = "auto", .choices = "auto|always|never|json"),

        SECTION("Job"),
        REQUEST("size", 'n', "N", "number of ranks", OPTS_JOB | OPTS_PLAN),
        REQUEST("size", 'n', "N", "number of ranks to start", OPTS_RUN),
        REQUEST("rank", 'r', "N|auto",
                "rank of this process; 'auto' numbers the ranks in the order of host, address and "
                "input file (default: from the launcher or the hostfile)",
                OPTS_JOB),
        OPT("rank", 'r', SETTING_INT, request.settings.rank, "N", "show only this rank", OPTS_PLAN,
            .max = SETTING_RANKS_MAX - 1, .once = true),
        REQUEST("rendezvous", 'R', "URL",
                "store where the ranks meet: http(s)://, consul+http(s):// or etcd+http(s)://, the "
                "last "
                "with one or more hosts, separated by commas",
                OPTS_JOB),
        REQUEST("hostfile", 'H', "FILE|HOST,...",
                "hosts of the ranks in rank order: a file with one per line, or a list; a file of "
                "this name is read",
                OPTS_JOB),
        REQUEST("job", 'j', "NAME",
                "name of the job; jobs that share a store need different names (default: the "
                "launcher's job id, else 'default')",
                OPTS_JOB),

        SECTION("Security"),
        REQUEST("secret-file", 0, "FILE",
                "file with the job's secret, made by 'collctl keygen' (default: COLLCTL_SECRET)",
                OPTS_JOB),
        REQUEST("secret-fd", 0, "N", "read the secret from this file descriptor", OPTS_JOB),
        REQUEST("tls-cert", 0, "FILE",
                "certificate of this rank, in place of a secret: it names the rank "
                "(URI:collctl:rank:N, as 'collctl ca issue' makes it) or its host in the hostfile; "
                "{rank}, {size} and {host} are replaced",
                OPTS_JOB),
        REQUEST("tls-key", 0, "FILE", "key of that certificate (default: in the same file)",
                OPTS_JOB),
        REQUEST("tls-ca", 0, "FILE", "the CA that has signed the certificates of all ranks",
                OPTS_JOB),
        REQUEST("tls-crl", 0, "FILE", "the CA's list of revoked certificates", OPTS_JOB),
        REQUEST("tls-key-password-fd", 0, "N",
                "read the password of an encrypted key from this file descriptor (default: ask on "
                "the terminal)",
                OPTS_JOB | OPTS_CA),
        REQUEST("store-token-file", 0, "FILE",
                "file with the access token of the store; for etcd it may be USER:PASSWORD",
                OPTS_JOB),
        REQUEST("store-ca", 0, "FILE",
                "trust a store's certificate by this file (default: CURL_CA_BUNDLE, SSL_CERT_FILE, "
                "else the system's)",
                OPTS_JOB),
        REQUEST("store-cert", 0, "FILE", "certificate that this rank shows to the store", OPTS_JOB),
        REQUEST("store-key", 0, "FILE", "key of the certificate given by --store-cert", OPTS_JOB),
        REQUEST("insecure", 0, NULL,
                "use plain TCP without encryption and authentication; all ranks must give this "
                "option",
                OPTS_JOB),

        SECTION("Addresses"),
        REQUEST("listen", 0, "ADDR[:PORT]", "address on which to accept connections", OPTS_JOB),
        REQUEST("advertise", 0, "ADDR[:PORT]", "address at which other ranks reach this one",
                OPTS_JOB),
        REQUEST("port-range", 0, "A-B", "accept connections on a port of this range", OPTS_JOB),
        REQUEST("iface", 0, "NAME|CIDR",
                "accept connections on the address of this interface, or on the address in this "
                "network",
                OPTS_JOB),

        SECTION("Time limits"),
        REQUEST("join-timeout", 0, "DURATION",
                "fail if the other ranks have not joined after this time", OPTS_JOB),
        REQUEST("timeout", 0, "DURATION",
                "fail if the job makes no progress for this long after all ranks have joined",
                OPTS_JOB),

        OPT("retry", 0, SETTING_INT, retry, "N",
            "if a rank or a link is lost, begin the job again, at most N times: the other "
            "ranks wait until the lost one is started again",
            OPTS_RETRY, .max = 1000000),

        SECTION("Plan"),
        OPT("count", 0, SETTING_SIZE, count, "N",
            "number of elements of a rank's input or output, whichever is larger", OPTS_PLAN,
            .max = INT64_MAX, .have = AT(have_count)),
        OPT("bytes", 0, SETTING_SIZE, bytes, "SIZE",
            "size of a rank's input or output in bytes, whichever is larger (default: 1M)",
            OPTS_PLAN, .max = INT64_MAX, .have = AT(have_bytes)),
        REQUEST("insecure", 0, NULL, "predict for connections without encryption", OPTS_PLAN),
        REQUEST("lanes", 0, "WAY",
                "predict for ranks of one host that send to each other through memory (auto, "
                "memory), or as to other hosts (tcp)",
                OPTS_PLAN),
        OPT("hosts", 0, SETTING_STRING, hosts, "NxM|N,N,...",
            "plan for ranks that share hosts: N hosts of M ranks each, or the ranks of each host",
            OPTS_PLAN, .once = true),
        OPT("host-cpus", 0, SETTING_INT, host_cpus, "N",
            "predict for ranks that share one host with N processors; with --hosts, each host has "
            "N (default: one for each rank)",
            OPTS_PLAN, .min = 1, .max = SETTING_RANKS_MAX),
        OPT("compare", 0, SETTING_FLAG, compare, NULL, "predict the time of every algorithm",
            OPTS_PLAN),
        OPT("verify", 0, SETTING_FLAG, verify, NULL,
            "prove that the schedules of all ranks are correct", OPTS_PLAN),

        SECTION("Bench"),
        REQUEST("minbytes", 'b', "SIZE", "smallest size", OPTS_BENCH),
        REQUEST("maxbytes", 'e', "SIZE", "largest size", OPTS_BENCH),
        REQUEST("stepfactor", 'f', "N", "factor between sizes", OPTS_BENCH),
        REQUEST("warmup", 'w', "N", "iterations before the measurement", OPTS_BENCH),
        REQUEST("iters", 0, "N", "measured iterations", OPTS_BENCH),
        REQUEST("barrier", 0, NULL,
                "wait for all ranks before each iteration: then its time is that of one "
                "collective, as in a job; always with --tuning-out",
                OPTS_BENCH),
        REQUEST("dtype", 0, "TYPE", "element type (default: f32)", OPTS_BENCH | OPTS_PLAN),
        REQUEST("check", 0, NULL, "compare each element on each rank with the expected value",
                OPTS_BENCH),
        REQUEST("tuning-out", 0, "FILE",
                "write the measured rates, and those of bench's cases, to this tuning file",
                OPTS_BENCH | OPTS_CHECK),
        OPT("csv", 0, SETTING_FLAG, csv, NULL, "print the table as comma-separated values",
            OPTS_BENCH),

        SECTION("Check"),
        REQUEST("time", 0, "DURATION", "measure each link's bandwidth for this long", OPTS_CHECK),
        REQUEST("min-bandwidth", 0, "RATE",
                "fail if a link has less: 100Mbit, 1Gbit (bits a second), 10M (bytes)", OPTS_CHECK),
        REQUEST("max-latency", 0, "DURATION", "fail if the median round trip of a link is longer",
                OPTS_CHECK),
        OPT("svg", 0, SETTING_STRING, svg, "FILE",
            "draw the links, the messages, the prices or the bandwidths; '-' is stdout, in place "
            "of the text",
            OPTS_CHECK | OPTS_PLAN | OPTS_BENCH),

        SECTION("Run"),
        OPT("label", 0, SETTING_FLAG, label, NULL, "prefix the lines of stdout with [rank], too",
            OPTS_RUN),
        OPT("hostfile", 'H', SETTING_STRING, request.settings.hostfile, "FILE|HOST,...",
            "start the ranks on these hosts, by ssh; in a file a host has one rank, or slots=N; a "
            "file without a folder is ./FILE, a list of one host HOST,",
            OPTS_RUN | OPTS_ACTS, .once = true),
        OPT("ssh", 0, SETTING_STRING, ssh, "COMMAND",
            "start remote commands with this in place of ssh; it gets the host and the command",
            OPTS_RUN),
        OPT("remote-path", 0, SETTING_STRING, remote_path, "PATH",
            "collctl on the hosts (default: collctl, found by their PATH)", OPTS_RUN),
        OPT("copy", 0, SETTING_FLAG, copy, NULL,
            "copy this program to the hosts while they need it", OPTS_RUN),
        OPT("chdir", 0, SETTING_STRING, chdir, "DIR",
            "with -H, the folder of all hosts in which to work (default: that of the same name "
            "as here, if all hosts have one)",
            OPTS_RUN),
        OPT("dry-run", 0, SETTING_FLAG, dry_run, NULL, "print what would be started on which host",
            OPTS_RUN),

        SECTION("Store"),
        OPT("listen", 0, SETTING_STRING, request.settings.listen, "ADDR:PORT",
            "address on which to accept requests (default: 127.0.0.1:8500); port 0 takes any free "
            "port",
            OPTS_SERVE),
        OPT("once", 0, SETTING_FLAG, once, NULL, "exit after the first job has deleted its record",
            OPTS_SERVE),
        OPT("port-file", 0, SETTING_STRING, port_file, "FILE", "write the port number to this file",
            OPTS_SERVE),
        OPT("ready-fd", 0, SETTING_INT, ready_fd, "N",
            "write the port number to this file descriptor when the store is ready", OPTS_SERVE,
            .max = INT32_MAX),
        OPT("token-file", 0, SETTING_STRING, token_file, "FILE",
            "require the access token in this file; clients give it with --store-token-file",
            OPTS_SERVE),
        /* No variables: those are of the ranks' certificates. */
        OPT("tls-cert", 0, SETTING_STRING, tls_cert, "FILE",
            "serve HTTPS (TLS 1.2 and 1.3) with this certificate", OPTS_SERVE | OPTS_ACTS),
        OPT("tls-key", 0, SETTING_STRING, tls_key, "FILE",
            "private key of the certificate; only its owner may read the file",
            OPTS_SERVE | OPTS_ACTS),
        OPT("ttl", 0, SETTING_DURATION, ttl, "DURATION",
            "delete each record this long after its last write; 0 keeps records", OPTS_SERVE,
            .def = "0", .max = INT64_MAX),

        SECTION("Key generation"),
        OPT("force", 0, SETTING_FLAG, request.force, NULL, "overwrite FILE if it exists",
            OPTS_KEYGEN | OPTS_ACTS),

        SECTION("Certificates"),
        OPT("rank", 'r', SETTING_INT, request.settings.rank, "N",
            "issue a certificate of this rank", OPTS_CA | OPTS_ACTS, .max = SETTING_RANKS_MAX - 1,
            .once = true),
        OPT("host", 0, SETTING_STRING, ca.host, "NAME",
            "issue a certificate of this host, for the ranks that a hostfile puts there",
            OPTS_CA | OPTS_ACTS, .once = true),
        OPT("days", 0, SETTING_INT, ca.days, "N",
            "make it valid for this long (default: 365; a CA: 3650)", OPTS_CA | OPTS_ACTS, .min = 1,
            .max = 36500),
        OPT("name", 0, SETTING_STRING, ca.name, "NAME", "name of a new CA (default: collctl CA)",
            OPTS_CA | OPTS_ACTS),
        OPT("force", 0, SETTING_FLAG, request.force, NULL, "overwrite files that exist",
            OPTS_CA | OPTS_ACTS),

        SECTION("Common"),
        OPT("json", 0, SETTING_FLAG, json, NULL, "print the result or the error as one JSON value",
            OPTS_JSON),
        OPT("verbose", 'v', OPT_LOUDER, verbose, NULL,
            "print more on stderr; -vv prints still more", OPTS_COMMON, .max = 9),
        OPT("quiet", 'q', OPT_QUIET, verbose, NULL, "print only errors on stderr", OPTS_COMMON),
        OPT("help", 'h', SETTING_FLAG, help, NULL, "print this help", OPTS_COMMON | OPTS_ACTS),
        OPT("version", 0, SETTING_FLAG, version, NULL, "print the version",
            OPTS_BEFORE | OPTS_ACTS),
        OPT("mdoc", 0, SETTING_FLAG, mdoc, NULL, "print the generated part of the manual page",
            OPTS_HELP | OPTS_ACTS),
        OPT("completions", 0, SETTING_WORD, completions, "SHELL", "print a completion script",
            OPTS_HELP | OPTS_ACTS, .choices = "bash|zsh|fish"),
};
const size_t option_rows_len = sizeof option_rows / sizeof option_rows[0];
_Static_assert(sizeof option_rows / sizeof option_rows[0] <= OPTIONS_MAX, "struct options.given");

/* The options before COMMAND, as those of a command. */
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

const struct setting *option_setting(const struct option_row *row)
{
	return row->own.kind == OPT_REQUEST ? request_setting(row->own.name) : &row->own;
}

/* ---- values ---- */

/* Set @row's member to @text (NULL: an option without a value). @subject: the name in messages. */
static int set_value(struct options *o, const struct option_row *row, const char *text,
                     const char *subject, struct err *err)
{
	int *level = member(o, row->own.offset);

	switch (row->own.kind) {
	case OPT_LOUDER:
		*level = *level < 0 ? 1 : *level + 1;
		return 0;
	case OPT_QUIET:
		*level = -1;
		return 0;
	case OPT_REQUEST:
		return setting_read(option_setting(row), &o->request, text, subject, err);
	default:
		return setting_read(&row->own, o, text, subject, err);
	}
}

void options_init(struct options *o)
{
	*o = (struct options){.ready_fd = -1};
	request_init(&o->request, WORK_COLLECTIVE);
	o->request.settings.ask = ask_on_terminal;
	for (size_t i = 0; i < option_rows_len; i++)
		if (option_rows[i].own.kind < SETTING_KINDS)
			setting_default(&option_rows[i].own, o);
}

void options_release(struct options *o)
{
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

	while (w->at < option_rows_len) {
		const struct option_row *row = &option_rows[w->at++];
		if (option_applies(row, w->cmd))
			return row->own.name;
	}
	return NULL;
}

static int unknown_long(const struct command *cmd, const char *name, struct err *err)
{
	for (size_t i = 0; i < option_rows_len; i++) {
		const struct option_row *row = &option_rows[i];
		if (row->own.kind == OPT_SECTION || (row->groups & OPTS_HELP) ||
		    strcmp(row->own.name, name) != 0)
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

/* The parser's state. *err keeps the first error; parsing continues after it, so that --json and -v
 * are found at any position. */
struct parser {
	const struct command *cmd;
	struct options *o;
	int argc, at; /* argv[at] is the next word */
	char **argv;
	struct err *err;
};

static const struct option_row *find_long(const struct command *cmd, const char *name, size_t len)
{
	for (size_t i = 0; i < option_rows_len; i++) {
		const struct option_row *row = &option_rows[i];
		if (option_applies(row, cmd) && strlen(row->own.name) == len &&
		    memcmp(row->own.name, name, len) == 0)
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

static bool is_given(const struct options *o, size_t row)
{
	return o->given[row / 64] >> row % 64 & 1;
}

/* Of other kinds the reader refuses what is empty. */
static bool takes_text(const struct setting *s)
{
	return s->kind == SETTING_STRING || s->kind == SETTING_LIST;
}

static void take_option(struct parser *p, const struct option_row *row, const char *value,
                        const char *subject)
{
	const size_t index = (size_t)(row - option_rows);
	if (row->arg && !value) {
		if (p->at == p->argc) {
			err_set(p->err, ERR_USAGE, "%s needs an argument: %s", subject, row->arg);
			return;
		}
		value = p->argv[p->at++];
	}
	if (value && !*value && takes_text(option_setting(row)))
		err_set(p->err, ERR_USAGE, "%s: its value is empty: give %s", subject, row->arg);
	else if (option_setting(row)->once && is_given(p->o, index))
		err_set(p->err, ERR_USAGE, "%s: is given twice: give it once, as %s", subject,
		        row->arg);
	else if (set_value(p->o, row, value, subject, p->err) == 0)
		set_given(p->o, index);
}

/* @arg is "--name" or "--name=value". */
static void parse_long(struct parser *p, const char *arg)
{
	const char *equals = strchrnul(arg, '=');
	int len = (int)(equals - arg);
	char subject[64];
	const struct option_row *row = find_long(p->cmd, arg + 2, (size_t)len - 2);

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

/* The place of the row's value. */
static const void *place(const struct options *o, const struct option_row *row)
{
	const void *base = row->own.kind == OPT_REQUEST ? (const void *)&o->request : o;
	return (const char *)base + option_setting(row)->offset;
}

bool options_given(const struct options *o, const void *member)
{
	for (size_t i = 0; i < option_rows_len; i++)
		if (is_given(o, i) && place(o, &option_rows[i]) == member)
			return true;
	return false;
}

const char *option_variable(const struct option_row *row, char *buf, size_t cap)
{
	if (row->own.kind == OPT_SECTION || (row->groups & OPTS_ACTS))
		return NULL;
	size_t at = (size_t)snprintf(buf, cap, "COLLCTL_%s", row->own.name);
	for (size_t i = 0; i < at && i < cap; i++)
		buf[i] = buf[i] == '-' ? '_' : (char)toupper((unsigned char)buf[i]);
	return buf;
}

const char *options_source(const struct options *o, const void *member, char *buf, size_t cap)
{
	for (size_t i = 0; i < option_rows_len; i++) {
		const struct option_row *row = &option_rows[i];
		if (row->own.kind == OPT_SECTION || place(o, row) != member)
			continue;
		if (!options_given(o, member))
			return option_variable(row, buf, cap);
		snprintf(buf, cap, "--%s", row->own.name);
		return buf;
	}
	return "";
}

static int apply_variable(struct options *o, const struct option_row *row, const char *name,
                          const char *text, struct err *err)
{
	if (row->own.kind == OPT_LOUDER) {
		const struct setting level = {.kind = SETTING_INT,
		                              .offset = row->own.offset,
		                              .min = row->own.min,
		                              .max = row->own.max};
		return setting_read(&level, o, text, name, err);
	}
	if (!row->arg) {
		const struct setting flag = {.kind = SETTING_FLAG};
		const int truth = setting_truth(text);
		if (truth < 0)
			return setting_malformed(&flag, text, name, err);
		if (truth == 0)
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
		    options_given(o, place(o, row)))
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
	if (!err->code && o->json && !(cmd->opts & OPTS_JSON))
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
