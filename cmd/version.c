/*
 * version: the program's build, and the libraries, the system and the features found at run time:
 * what a bug report needs of a host.
 */
#include <gnu/libc-version.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#ifdef __x86_64__
#include <cpuid.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif
#include <jansson.h>
#include <openssl/crypto.h>
#include <xxhash.h>

#include "cmd/commands.h"
#include "lib/base/clock.h"
#include "lib/base/text.h"
#include "lib/data/coding/coding.h"
#include "lib/data/formats/npz.h"
#include "lib/exec/device.h"
#include "lib/job/proto.h"
#include "lib/net/tls/tls.h"
#include "lib/net/tls/tls_gcm.h"
#include "lib/store/http.h"
#include "lib/store/server/store_server.h"

/* That a driver may take to answer: it starts each GPU that nothing keeps ready. */
#define DRIVER_TIME (20 * NS_PER_SEC)

#ifdef __clang__
#define COMPILER __VERSION__
#else
#define COMPILER "gcc " __VERSION__
#endif

#ifdef COLLCTL_SANITIZED
#define SANITIZED true
#else
#define SANITIZED false
#endif

/* What a program that contains its libraries cannot do. */
static const char *const lacks[] = {
#ifdef COLLCTL_STATIC
        "GPU plug-ins",
#endif
#ifdef COLLCTL_LINKED
        "serve over HTTPS",
#endif
#ifdef COLLCTL_STATIC
        "names from other sources than /etc/hosts and DNS",
#endif
        NULL,
};

struct found {
	const char *name, *version; /* version: NULL if not available */
	const char *needed;
};

#define LIBRARIES 9

static void find_libraries(struct found libraries[LIBRARIES], char xxhash[16])
{
	const unsigned x = XXH_versionNumber();
	const struct found found[LIBRARIES] = {
	        {"glibc", gnu_get_libc_version(), ""},
	        {"openssl", OpenSSL_version(OPENSSL_VERSION_STRING), ""},
	        {"jansson", jansson_version_str(), ""},
	        {"xxhash", xxhash, ""},
	        {"libcurl", http_library(), "for a store"},
	        {"libmicrohttpd", store_server_library(), "to serve a store"},
	        {"libzip", npz_library(), "for .npz"},
	        {"libzstd", coding_library(), "for compressed pieces"},
	        {"ipsec-mb", tls_gcm_library(), "for faster TLS, with AVX-512 and VAES"},
	};

	snprintf(xxhash, 16, "%u.%u.%u", x / 10000, x / 100 % 100, x % 100);
	for (int i = 0; i < LIBRARIES; i++)
		libraries[i] = found[i];
}

/* Processor features that kernels of this program or of its libraries use. */
#ifdef __x86_64__
struct feature {
	const char *name;
	unsigned leaf, reg, bit; /* of cpuid: reg 1 is ebx, 2 ecx */
};

static const struct feature features[] = {
        {"aes", 1, 2, 25},     {"pclmulqdq", 1, 2, 1}, {"f16c", 1, 2, 29}, {"avx2", 7, 1, 5},
        {"avx512f", 7, 1, 16}, {"avx512vl", 7, 1, 31}, {"vaes", 7, 2, 9},  {"vpclmulqdq", 7, 2, 10},
};

static bool has_feature(const struct feature *f)
{
	unsigned reg[4] = {0};

	return __get_cpuid_count(f->leaf, 0, &reg[0], &reg[1], &reg[2], &reg[3]) &&
	       reg[f->reg] >> f->bit & 1;
}
#elif defined(__aarch64__)
struct feature {
	const char *name;
	unsigned long hwcap;
};

static const struct feature features[] = {
        {"asimd", HWCAP_ASIMD}, {"aes", HWCAP_AES},         {"pmull", HWCAP_PMULL},
        {"sha2", HWCAP_SHA2},   {"atomics", HWCAP_ATOMICS},
};

static bool has_feature(const struct feature *f)
{
	return getauxval(AT_HWCAP) & f->hwcap;
}
#else
struct feature {
	const char *name;
};

static const struct feature features[] = {{"unknown"}};

static bool has_feature(const struct feature *f)
{
	(void)f;
	return false;
}
#endif

/* The machine and the limits of this process. */
struct host {
	struct utsname uname;
	char distribution[128]; /* "": not known */
	int processors;         /* that this process may use */
	unsigned long long memory, files;
};

/* PRETTY_NAME of os-release(5). */
static void find_distribution(char *text, size_t cap)
{
	static const char key[] = "PRETTY_NAME=";
	char line[256];
	FILE *f = fopen("/etc/os-release", "re");

	text[0] = '\0';
	while (f && !*text && fgets(line, sizeof line, f))
		if (strncmp(line, key, sizeof key - 1) == 0) {
			char *value = line + sizeof key - 1;
			value += *value == '"';
			value[strcspn(value, "\"\n")] = '\0';
			text_escape(text, cap, value);
		}
	if (f)
		fclose(f);
}

static void find_host(struct host *h)
{
	struct sysinfo info = {0};
	struct rlimit files = {0};
	cpu_set_t allowed;

	*h = (struct host){0};
	(void)uname(&h->uname);
	find_distribution(h->distribution, sizeof h->distribution);
	if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
		h->processors = CPU_COUNT(&allowed);
	if (sysinfo(&info) == 0)
		h->memory = (unsigned long long)info.totalram * info.mem_unit;
	if (getrlimit(RLIMIT_NOFILE, &files) == 0)
		h->files = files.rlim_max;
}

static void print_host(void)
{
	struct host h;

	find_host(&h);
	printf("%-14s %s %s %s%s%s\n", "system", h.uname.sysname, h.uname.release, h.uname.machine,
	       *h.distribution ? ", " : "", h.distribution);
	printf("%-14s %d processor%s, %.1f GiB of memory, %llu open files\n", "limits",
	       h.processors, h.processors == 1 ? "" : "s", (double)h.memory / (1 << 30), h.files);
}

static json_t *host_json(void)
{
	struct host h;

	find_host(&h);
	return json_pack("{s:s, s:s, s:s, s:s?, s:i, s:I, s:I}", "kernel", h.uname.sysname,
	                 "release", h.uname.release, "machine", h.uname.machine, "distribution",
	                 *h.distribution ? h.distribution : NULL, "processors", h.processors,
	                 "memory", (json_int_t)h.memory, "open_files", (json_int_t)h.files);
}

static void print_plugin(void)
{
	struct device_plugin p;
	char name[4 * sizeof p.name], path[4 * sizeof p.path], why[4 * sizeof p.why];

	device_plugin_find(&p, DRIVER_TIME);
	text_escape(name, sizeof name, p.name);
	text_escape(path, sizeof path, p.path);
	text_escape(why, sizeof why, p.why);
	if (!*p.name)
		printf("%-14s none: %s\n", "GPU plug-in", why);
	else if (p.count < 0)
		printf("%-14s %s, %s: %s\n", "GPU plug-in", name, path, why);
	else
		printf("%-14s %s, %s: %d device%s\n", "GPU plug-in", name, path, p.count,
		       p.count == 1 ? "" : "s");
}

/* Null if it cannot be used. */
static json_t *plugin_json(const struct device_plugin *p)
{
	if (!*p->name)
		return json_null();
	return json_pack("{s:s, s:s, s:o, s:o}", "name", p->name, "path", p->path, "devices",
	                 p->count < 0 ? json_null() : json_integer(p->count), "why",
	                 p->count < 0 ? json_string(p->why) : json_null());
}

static void print_text(const struct found *libraries, const char *records)
{
	printf("collctl %s\n", COLLCTL_VERSION);
	if (*COLLCTL_COMMIT)
		printf("%-14s %s\n", "commit", COLLCTL_COMMIT);
	printf("%-14s %d\n", "protocol", PROTO_VERSION);
	printf("%-14s %s%s\n", "compiler", COMPILER, SANITIZED ? ", with sanitizers" : "");
	for (int i = 0; i < LIBRARIES; i++) {
		const struct found *l = &libraries[i];
		if (l->version)
			printf("%-14s %s\n", l->name, l->version);
		else
			printf("%-14s not usable here (needed %s)\n", l->name, l->needed);
	}
	printf("%-14s %s\n", "TLS records", records);
	printf("%-14s", "processor");
	for (size_t i = 0; i < sizeof features / sizeof *features; i++)
		if (has_feature(&features[i]))
			printf(" %s", features[i].name);
	putchar('\n');
	print_plugin();
	for (size_t i = 0; lacks[i]; i++)
		printf("%-14s %s\n", i ? "" : "lacks", lacks[i]);
	print_host();
	puts("\nA bug report needs this output of each host, the commands of all ranks, and what "
	     "they "
	     "print\non stderr with -vv.");
}

static int print_json(const struct found *libraries, const char *records)
{
	json_t *found = json_object(), *processor = json_array(), *missing = json_array();
	struct device_plugin plugin;

	for (int i = 0; i < LIBRARIES; i++)
		json_object_set_new(found, libraries[i].name,
		                    libraries[i].version ? json_string(libraries[i].version)
		                                         : json_null());
	for (size_t i = 0; i < sizeof features / sizeof *features; i++)
		if (has_feature(&features[i]))
			json_array_append_new(processor, json_string(features[i].name));
	for (size_t i = 0; lacks[i]; i++)
		json_array_append_new(missing, json_string(lacks[i]));
	device_plugin_find(&plugin, DRIVER_TIME);
	return report_json(json_pack(
	        "{s:s, s:b, s:s, s:{s:s, s:b, s:s?, s:o}, s:i, s:o, s:s, s:o, s:o, s:s?, s:o, s:n}",
	        "command", "version", "ok", 1, "version", COLLCTL_VERSION, "build", "compiler",
	        COMPILER, "sanitizers", (int)SANITIZED, "commit",
	        *COLLCTL_COMMIT ? COLLCTL_COMMIT : NULL, "lacks", missing, "protocol",
	        PROTO_VERSION, "libraries", found, "tls_records", records, "processor", processor,
	        "gpu_plugin", plugin_json(&plugin), "gpu_plugin_why",
	        *plugin.name ? NULL : plugin.why, "system", host_json(), "error"));
}

int cmd_version(const struct command *cmd, struct options *o, int argc, char **argv)
{
	struct found libraries[LIBRARIES];
	struct err err = ERR_INIT;
	const char *records = tls_records(&err);
	char xxhash[16];

	(void)argc;
	(void)argv;
	find_libraries(libraries, xxhash);
	if (!records)
		return report_failure(cmd->name, o->json, &err);
	if (o->json)
		return print_json(libraries, records);
	print_text(libraries, records);
	return 0;
}
