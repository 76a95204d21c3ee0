/* The settings of struct coll_request: names, kinds, limits, defaults. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/coll/request/request.h"
#include "lib/coll/request/setting.h"
#include "lib/data/formats/format.h"

#define AT(member) offsetof(struct coll_request, member)
/* clang-format off */
#define S(name_, groups_, kind_, member_, ...)                                                     \
	{.name = name_, .kind = SETTING_##kind_, .offset = AT(member_), .groups = groups_, __VA_ARGS__}
/* clang-format on */

#define OPS        "sum|prod|min|max|avg|band|bor|bxor|land|lor|lxor"
#define DTYPES_ALL "f16|bf16|f32|f64|f8e4m3|f8e5m2|i8|i16|i32|i64|u8|u16|u32|u64|bool|c64|c128"
#define DTYPES_NUMPY                                                                               \
	"float16|bfloat16|float32|float64|float8_e4m3fn|float8_e5m2|int8|int16|int32|int64|uint8|" \
	"uint16|uint32|uint64|bool_|complex64|complex128"

const struct setting request_settings[] = {
        S("op", SETTING_FOR_REDUCE | SETTING_FOR_BENCH, OP, op, .def = "sum", .choices = OPS),
        S("order", SETTING_FOR_REDUCE, ORDER, ordered, .def = "any", .choices = "any|rank"),
        S("weight", SETTING_FOR_AVERAGE, WEIGHTS, weights, .other = AT(nweights), .def = "1",
          .once = true),
        S("integers", SETTING_FOR_AVERAGE, INTEGERS, integers, .choices = "first|equal|round"),
        S("algorithm", SETTING_FOR_CHOICE, STRING, algorithm, .def = "auto", .once = true),
        S("tuning", SETTING_FOR_CHOICE, STRING, tuning),
        S("allow-divergent", SETTING_FOR_REDUCE | SETTING_FOR_BENCH, FLAG, divergent),
        S("explain", SETTING_FOR_MOVES, FLAG, explain),
        S("dry-run", SETTING_FOR_MOVES, FLAG, dry_run),
        S("root", SETTING_FOR_ROOT, ROOT, root, .max = SETTING_RANKS_MAX - 1,
          .other = AT(root_host), .have = AT(have_root)),
        S("counts", SETTING_FOR_ROWS, ROWS, counts, .other = AT(ncounts), .once = true),
        S("base", SETTING_FOR_RADIX | SETTING_FOR_BENCH, INT, base, .min = 2,
          .max = SETTING_RANKS_MAX),
        S("steps", SETTING_FOR_STEPS | SETTING_FOR_BENCH, INT, steps, .min = 1, .max = 16),
        S("output", SETTING_FOR_OUTPUT, LIST, outputs, .other = AT(noutputs)),
        S("each", SETTING_FOR_OUTPUT, FLAG, each),
        S("raw-file", SETTING_FOR_BYTES, FLAG, files.raw_file),
        S("times", SETTING_FOR_COPIES, FLAG, times),
        S("format", SETTING_FOR_INPUT, FORMAT, files.format, .choices = format_choices + 1,
          .once = true),
        S("dtype", SETTING_FOR_INPUT | SETTING_FOR_BENCH, DTYPE, files.dtype, .choices = DTYPES_ALL,
          .aliases = DTYPES_NUMPY, .once = true),
        S("shape", SETTING_FOR_INPUT, STRING, files.shape, .once = true),
        S("include", SETTING_FOR_INPUT, LIST, files.include, .other = AT(files.ninclude)),
        S("exclude", SETTING_FOR_INPUT, LIST, files.exclude, .other = AT(files.nexclude)),
        S("same", SETTING_FOR_VERIFY, FLAG, same),
        S("stats", SETTING_FOR_STATS, FLAG, stats),
        S("force", SETTING_FOR_OUTPUT, FLAG, force),
        S("no-sync", SETTING_FOR_OUTPUT, FLAG, no_sync),
        S("memory", SETTING_FOR_INPUT, SIZE, settings.memory, .def = "256M", .min = 1,
          .max = INT64_MAX),
        S("streams", SETTING_FOR_MOVES, INT, streams, .min = 1, .max = 64),
        /* At the lowest rate bytes still move every 10 ms, so that it is not taken for a stall. */
        S("limit-rate", SETTING_FOR_MOVES | SETTING_FOR_BENCH, RATE, settings.limit_rate,
          .min = 1024, .max = INT64_MAX),
        S("threads", SETTING_FOR_MOVES, THREADS, threads, .def = "auto", .min = 1, .max = 64),
        S("lanes", SETTING_FOR_MOVES | SETTING_FOR_BENCH, WORD, settings.lanes, .def = "auto",
          .choices = "auto|tcp|memory"),
        S("device", SETTING_FOR_MOVES | SETTING_FOR_BENCH, DEVICE, devices, .def = "cpu",
          .have = AT(have_devices), .once = true),
        S("device-path", SETTING_FOR_MOVES | SETTING_FOR_BENCH, GPU_PATH, device_path,
          .def = "auto", .choices = GPU_PATHS),
        S("device-memory", SETTING_FOR_MOVES, SIZE, device_memory, .min = 1, .max = INT64_MAX),
        S("size", SETTING_FOR_JOIN, INT, settings.size, .min = 1, .max = SETTING_RANKS_MAX),
        S("rank", SETTING_FOR_JOIN, RANK, settings.rank, .max = SETTING_RANKS_MAX - 1),
        S("rendezvous", SETTING_FOR_JOIN, STRING, settings.rendezvous),
        S("hostfile", SETTING_FOR_JOIN, STRING, settings.hostfile, .once = true),
        S("job", SETTING_FOR_JOIN, STRING, settings.job),
        S("secret-file", SETTING_FOR_JOIN, STRING, settings.secret_file),
        S("secret-fd", SETTING_FOR_JOIN, INT, settings.secret_fd, .max = INT32_MAX),
        S("tls-cert", SETTING_FOR_JOIN, STRING, settings.tls_cert),
        S("tls-key", SETTING_FOR_JOIN, STRING, settings.tls_key),
        S("tls-ca", SETTING_FOR_JOIN, STRING, settings.tls_ca, .once = true),
        S("tls-crl", SETTING_FOR_JOIN, STRING, settings.tls_crl, .once = true),
        S("tls-key-password-fd", SETTING_FOR_JOIN, INT, settings.tls_key_password_fd,
          .max = INT32_MAX),
        S("store-token-file", SETTING_FOR_JOIN, STRING, settings.store_token_file),
        S("store-ca", SETTING_FOR_JOIN, STRING, settings.store_ca, .once = true),
        S("store-cert", SETTING_FOR_JOIN, STRING, settings.store_cert),
        S("store-key", SETTING_FOR_JOIN, STRING, settings.store_key),
        S("insecure", SETTING_FOR_JOIN, FLAG, settings.insecure),
        S("listen", SETTING_FOR_JOIN, STRING, settings.listen),
        S("advertise", SETTING_FOR_JOIN, STRING, settings.advertise),
        S("port-range", SETTING_FOR_JOIN, PORTS, settings.port_lo, .min = 1, .max = 65535,
          .other = AT(settings.port_hi)),
        S("iface", SETTING_FOR_JOIN, STRING, settings.iface),
        S("join-timeout", SETTING_FOR_JOIN, DURATION, settings.join_timeout, .def = "2m",
          .min = NS_PER_MS, .max = INT64_MAX),
        S("timeout", SETTING_FOR_JOIN, DURATION, settings.timeout, .def = "30s", .min = NS_PER_MS,
          .max = INT64_MAX),
        S("minbytes", SETTING_FOR_BENCH, SIZE, bench.minbytes, .def = "4K", .max = INT64_MAX),
        S("maxbytes", SETTING_FOR_BENCH, SIZE, bench.maxbytes, .def = "64M", .max = INT64_MAX),
        S("stepfactor", SETTING_FOR_BENCH, INT, bench.factor, .def = "4", .min = 2, .max = 1 << 20),
        S("warmup", SETTING_FOR_BENCH, INT, bench.warmup, .def = "5", .max = 1000000),
        S("iters", SETTING_FOR_BENCH, INT, bench.iters, .def = "20", .min = 1, .max = 1000000),
        S("check", SETTING_FOR_BENCH, FLAG, bench.check),
        S("barrier", SETTING_FOR_BENCH, FLAG, bench.barrier),
        S("tuning-out", SETTING_FOR_BENCH | SETTING_FOR_CHECK, STRING, tuning_out),
        S("time", SETTING_FOR_CHECK, DURATION, check.time, .def = "200ms", .min = NS_PER_MS,
          .max = 3600 * NS_PER_SEC),
        S("min-bandwidth", SETTING_FOR_CHECK, RATE, check.min_bandwidth, .min = 1,
          .max = INT64_MAX),
        S("max-latency", SETTING_FOR_CHECK, DURATION, check.max_latency, .min = 1,
          .max = INT64_MAX),
};
const size_t request_settings_len = sizeof request_settings / sizeof request_settings[0];

const struct setting *request_setting(const char *name)
{
	for (size_t i = 0; i < request_settings_len; i++)
		if (strcmp(request_settings[i].name, name) == 0)
			return &request_settings[i];
	return NULL;
}

/* The groups of settings that a job takes. */
static unsigned groups_of(const struct coll_request *r)
{
	const struct coll_rules *rules = coll_rules(r->kind);
	const unsigned all = SETTING_FOR_JOIN;
	if (r->work == WORK_BARRIER)
		return all | SETTING_FOR_CHOICE;
	if (r->work == WORK_VERIFY)
		return all | SETTING_FOR_INPUT | SETTING_FOR_BYTES | SETTING_FOR_VERIFY;
	if (r->work == WORK_CHECK)
		return all | SETTING_FOR_CHECK;
	if (r->work == WORK_BENCH)
		return all | SETTING_FOR_CHOICE | SETTING_FOR_ROOT | SETTING_FOR_BENCH;
	return all | SETTING_FOR_CHOICE | SETTING_FOR_MOVES | SETTING_FOR_INPUT |
	       SETTING_FOR_STATS |
	       (r->kind == COLL_EXCHANGE ? SETTING_FOR_STEPS : SETTING_FOR_OUTPUT) |
	       (coll_reduces(r->kind) ? SETTING_FOR_REDUCE : 0) |
	       (rules->averages ? SETTING_FOR_AVERAGE : 0) |
	       (rules->rooted ? SETTING_FOR_ROOT : 0) |
	       (rules->cut == CUT_ROWS ? SETTING_FOR_ROWS : 0) |
	       (rules->bytes ? SETTING_FOR_BYTES | SETTING_FOR_COPIES : 0) |
	       (rules->radix ? SETTING_FOR_RADIX : 0);
}

int request_takes(const struct coll_request *r, const struct setting *s)
{
	return (s->groups & groups_of(r)) != 0;
}

bool settings_memory(const struct coll_settings *s)
{
	return !s->lanes || strcmp(s->lanes, "tcp") != 0;
}

void request_init(struct coll_request *r, enum coll_work work)
{
	*r = (struct coll_request){.work = work,
	                           .settings = {.rank = -1,
	                                        .secret_fd = -1,
	                                        .started = clock_ns(),
	                                        .tls_key_password_fd = -1,
	                                        .cancel_fd = -1},
	                           .files.dtype = DTYPE_NONE};
	for (size_t i = 0; i < request_settings_len; i++)
		setting_default(&request_settings[i], r);
}

void request_release(struct coll_request *r)
{
	free(r->outputs);
	free(r->files.include);
	free(r->files.exclude);
	free(r->counts);
	free(r->weights);
	*r = (struct coll_request){0};
}
