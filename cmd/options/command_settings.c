/* The options of commands that are no settings of a request: members of struct options. See
 * lib/coll/request/setting.h. */
#include "cmd/options/options.h"
#include "lib/base/clock.h"

#define AT(member) offsetof(struct options, member)
#define OPT(...)   SETTING(struct options, __VA_ARGS__)

const struct setting command_settings[] = {
        OPT(COLLECTIVE, "trace", 0, "FILE", STRING, trace, FOR_MOVES,
            "record what every rank does and when, for Perfetto or chrome://tracing; rank 0 "
            "writes its FILE, and needs this option"),
        OPT(COLLECTIVE, "trace-svg", 0, "FILE", STRING, trace_svg, FOR_MOVES,
            "draw the messages of all ranks in this file, as 'plan --svg' draws those of a plan"),
        OPT(FILES, "no-digest", 0, NULL, FLAG, no_digest, FOR_INFO,
            "read only the headers: show no digests"),
        OPT(FILES, "older-than", 0, "DURATION", DURATION, older_than, FOR_CLEAN,
            "leave files that were written to more recently", .def = "24h", .max = INT64_MAX),
        OPT(FILES, "dry-run", 0, NULL, FLAG, dry_run, FOR_CLEAN,
            "print what would be removed, and remove nothing"),
        OPT(RESOURCES, "progress", 0, "WHEN", WORD, progress, FOR_INPUT | FOR_WAITS,
            "progress on stderr: a bar on a terminal (auto); a bar on a terminal, elsewhere a "
            "line every 5 seconds (always); JSON lines (json); nothing (never)",
            .def = "auto", .choices = "auto|always|never|json"),
        OPT(JOB, "rank", 'r', "N", INT, request.settings.rank, FOR_PLAN, "show only this rank",
            .max = JOB_MAX_SIZE - 1, .once = true),
        OPT(LIMITS, "retry", 0, "N", INT, retry, FOR_RETRY,
            "if a rank or a link is lost, begin the job again, at most N times: the other ranks "
            "wait until the lost one is started again",
            .max = 1000000),
        OPT(PLAN, "count", 0, "N", SIZE, count, FOR_PLAN,
            "number of elements of a rank's input or output, whichever is larger", .max = INT64_MAX,
            .have = AT(have_count)),
        OPT(PLAN, "bytes", 0, "SIZE", SIZE, bytes, FOR_PLAN,
            "size of a rank's input or output in bytes, whichever is larger (default: 1M)",
            .max = INT64_MAX, .have = AT(have_bytes)),
        OPT(PLAN, "hosts", 0, "NxM|N,N,...", STRING, hosts, FOR_PLAN,
            "plan for ranks that share hosts: N hosts of M ranks each (NxM), or the number of "
            "ranks of each host (N,N,...)",
            .once = true),
        OPT(PLAN, "rates", 0, "R,R,...", RATES, rates, FOR_PLAN,
            "predict for hosts whose links have these rates, each UP or UP:DOWN as with "
            "--link-rate; without --hosts, of each rank",
            .min = 1024, .max = INT64_MAX, .other = AT(nrates), .once = true),
        OPT(PLAN, "host-cpus", 0, "N", INT, host_cpus, FOR_PLAN,
            "predict for ranks that share one host with N processors; with --hosts, each host "
            "has N (default: one processor for each rank)",
            .min = 1, .max = JOB_MAX_SIZE),
        OPT(PLAN, "compare", 0, NULL, FLAG, compare, FOR_PLAN,
            "predict the time of every algorithm"),
        OPT(PLAN, "verify", 0, NULL, FLAG, verify, FOR_PLAN,
            "prove that the schedules of all ranks are correct"),
        OPT(BENCH, "csv", 0, NULL, FLAG, csv, FOR_BENCH,
            "print the table as comma-separated values"),
        OPT(CHECK, "svg", 0, "FILE", STRING, svg, FOR_CHECK | FOR_PLAN | FOR_BENCH,
            "draw the links (check), the messages (plan), the predicted times (plan --compare) "
            "or the bandwidths (bench) in this file; '-' prints the picture instead of the text"),
        OPT(RUN, "label", 0, NULL, FLAG, label, FOR_RUN,
            "also prefix the lines of stdout with [rank], as those of stderr"),
        OPT(RUN, "hostfile", 'H', "FILE|HOST,...", STRING, request.settings.hostfile, FOR_RUN,
            "start the ranks on these hosts by ssh: a list, or a file with one host on each "
            "line, where slots=N starts N ranks; write ./FILE for a file in this folder, and "
            "'HOST,' for a list of one host",
            .action = true, .once = true),
        OPT(RUN, "ssh", 0, "COMMAND", STRING, ssh, FOR_RUN,
            "command that replaces ssh; its last two arguments are the host and the remote "
            "command"),
        OPT(RUN, "remote-path", 0, "PATH", STRING, remote_path, FOR_RUN,
            "path of collctl on the hosts (default: collctl, found in their PATH)"),
        OPT(RUN, "copy", 0, NULL, FLAG, copy, FOR_RUN,
            "copy this program to the hosts, and remove it after the job"),
        OPT(RUN, "chdir", 0, "DIR", STRING, chdir, FOR_RUN,
            "with -H, the folder in which the ranks work on every host (default: the folder of "
            "the same name as here, if all hosts have it)"),
        OPT(RUN, "dry-run", 0, NULL, FLAG, dry_run, FOR_RUN,
            "print what would be started on which host"),
        OPT(STORE, "listen", 0, "ADDR:PORT", STRING, request.settings.addresses.listen, FOR_SERVE,
            "address on which to accept requests (default: 127.0.0.1:8500); port 0 takes any free "
            "port"),
        OPT(STORE, "once", 0, NULL, FLAG, once, FOR_SERVE,
            "exit after the first job has deleted its record"),
        OPT(STORE, "port-file", 0, "FILE", STRING, port_file, FOR_SERVE,
            "write the port number to this file"),
        OPT(STORE, "ready-fd", 0, "N", INT, ready_fd, FOR_SERVE,
            "write the port number to this file descriptor when the store is ready",
            .max = INT32_MAX),
        OPT(STORE, "token-file", 0, "FILE", STRING, token_file, FOR_SERVE,
            "require the access token in this file; clients give it with --store-token-file"),
        /* No variables: those are of the ranks' certificates. */
        OPT(STORE, "tls-cert", 0, "FILE", STRING, tls_cert, FOR_SERVE,
            "serve HTTPS (TLS 1.2 and 1.3) with this certificate", .action = true),
        OPT(STORE, "tls-key", 0, "FILE", STRING, tls_key, FOR_SERVE,
            "private key of the certificate; only its owner may read the file", .action = true),
        OPT(STORE, "ttl", 0, "DURATION", DURATION, ttl, FOR_SERVE,
            "delete each record this long after its last write; 0 keeps records", .def = "0",
            .max = INT64_MAX),
        OPT(JOB, "valid", 0, "DURATION", DURATION, valid, FOR_INVITE,
            "how long ranks may join with the ticket", .def = "1h", .min = NS_PER_SEC,
            .max = 366 * 24 * 3600 * NS_PER_SEC),
        OPT(KEYGEN, "force", 0, NULL, FLAG, request.force, FOR_KEYGEN,
            "overwrite FILE if it exists", .action = true),
        OPT(CERTIFICATES, "rank", 'r', "N", INT, request.settings.rank, FOR_CA,
            "issue a certificate for this rank", .action = true, .max = JOB_MAX_SIZE - 1,
            .once = true),
        OPT(CERTIFICATES, "host", 0, "NAME", STRING, ca.host, FOR_CA,
            "issue a certificate for this host, which all ranks that a hostfile puts there may "
            "use",
            .action = true, .once = true),
        OPT(CERTIFICATES, "days", 0, "N", INT, ca.days, FOR_CA,
            "days for which the certificate is valid (default: 365; for a CA: 3650)",
            .action = true, .min = 1, .max = 36500),
        OPT(CERTIFICATES, "name", 0, "NAME", STRING, ca.name, FOR_CA,
            "name of a new CA (default: collctl CA)", .action = true),
        OPT(CERTIFICATES, "force", 0, NULL, FLAG, request.force, FOR_CA,
            "overwrite files that exist", .action = true),
        OPT(COMMON, "json", 0, NULL, FLAG, json, FOR_JSON,
            "print the result or the error as one JSON value"),
        OPT(COMMON, "verbose", 'v', NULL, LOUDER, verbose, FOR_COMMON,
            "print more on stderr; -vv prints still more", .max = 9),
        OPT(COMMON, "quiet", 'q', NULL, QUIET, verbose, FOR_COMMON, "print only errors on stderr"),
        OPT(COMMON, "help", 'h', NULL, FLAG, help, FOR_COMMON, "print this help", .action = true),
        OPT(COMMON, "version", 0, NULL, FLAG, version, FOR_BEFORE, "print the version",
            .action = true),
        OPT(COMMON, "mdoc", 0, NULL, FLAG, mdoc, FOR_HELP,
            "print the generated part of the manual page", .action = true),
        OPT(COMMON, "completions", 0, "SHELL", WORD, completions, FOR_HELP,
            "print a completion script", .action = true, .choices = "bash|zsh|fish"),
};
const size_t command_settings_len = sizeof command_settings / sizeof command_settings[0];
