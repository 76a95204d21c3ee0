#include "cmd/json/fields.h"

#define COUNT(rows) (sizeof(rows) / sizeof(rows)[0])
#define SECTION(rows, ...)                                    \
	{                                                     \
		__VA_ARGS__, .fields = rows, .n = COUNT(rows) \
	}
#define STRING(name, ...)                       \
	{                                       \
		name, FIELD_STRING, __VA_ARGS__ \
	}
#define INTEGER(name, ...)                       \
	{                                        \
		name, FIELD_INTEGER, __VA_ARGS__ \
	}
#define NUMBER(name, ...)                       \
	{                                       \
		name, FIELD_NUMBER, __VA_ARGS__ \
	}
#define BOOLEAN(name, ...)                       \
	{                                        \
		name, FIELD_BOOLEAN, __VA_ARGS__ \
	}
#define OBJECT(name, ...)                       \
	{                                       \
		name, FIELD_OBJECT, __VA_ARGS__ \
	}
#define ARRAY(name, ...)                       \
	{                                      \
		name, FIELD_ARRAY, __VA_ARGS__ \
	}
#define NUL              FIELD_NULL
#define SOMETIMES        FIELD_SOMETIMES
#define BYTES            "bytes"
#define BYTES_PER_SECOND "bytes/s"
#define GIGABYTES        "10^9 bytes/s"
#define SECONDS          "seconds"
#define ELEMENTS         "elements"
#define PART             "0 to 1"

const struct output_form output_forms[OUTPUTS] = {
        [OUTPUT_COLLECTIVE] = {"collective", NULL, .single = true},
        [OUTPUT_BARRIER] = {"barrier", "barrier", .single = true},
        [OUTPUT_VERIFY] = {"verify", "verify", .single = true},
        [OUTPUT_CHECK] = {"check", "check", .single = true},
        [OUTPUT_BENCH] = {"bench", "bench", .single = true},
        [OUTPUT_RUN] = {"run", "run", .single = true},
        [OUTPUT_INVITE] = {"invite", "invite", .single = true},
        [OUTPUT_PLAN] = {"plan", "plan", .single = true},
        [OUTPUT_COMPARE] = {"plan_compare", "plan", .single = true},
        [OUTPUT_ALGORITHMS] = {"algorithm", NULL, .list = true},
        [OUTPUT_INFO] = {"info", "info", .single = true, .list = true},
        [OUTPUT_CLEAN] = {"clean", "clean", .single = true},
        [OUTPUT_VERSION] = {"version", "version", .single = true},
        [OUTPUT_PROGRESS] = {"progress", NULL, .single = true},
};

/* clang-format off */
static const struct field of_all[] = {
	STRING("command", NUL, NULL, "the command; null if it is not known"),
	BOOLEAN("ok", 0, NULL, "has it succeeded?"),
	OBJECT("error", NUL, NULL, "why it has failed; null if it has succeeded"),
	INTEGER("error.code", 0, NULL, "the exit code"),
	STRING("error.name", 0, NULL, "a word for the exit code, such as input"),
	INTEGER("error.rank", NUL, NULL, "the rank whose fault it is; null if it is not known"),
	STRING("error.host", NUL, NULL,
	       "the host of this rank; null if it is not known, or if all ranks are on one host"),
	STRING("error.phase", 0, NULL,
	       "when it failed: start, join, connect, run or commit"),
	STRING("error.subject", NUL, NULL,
	       "what the message is about: a file, a URL or an option; null if it is none of these"),
	STRING("error.message", 0, NULL, "the message, as on stderr"),
};

static const struct field of_job[] = {
	INTEGER("rank", NUL, NULL, "this rank; null if it is not known yet"),
	INTEGER("size", NUL, NULL, "the number of ranks; null if it is not known yet"),
	INTEGER("hosts", NUL, NULL, "the number of hosts; null if it is not known yet"),
};

static const struct field of_result[] = {
	STRING("algorithm", NUL, NULL, "the algorithm that has run; null: none"),
	STRING("requested", NUL, NULL, "the algorithm of the command line, such as auto"),
	STRING("op", NUL, NULL, "the operation; null if nothing is reduced"),
	STRING("dtype", NUL, NULL, "the type of the elements; mixed: several; null: there are none"),
	INTEGER("count", 0, ELEMENTS, "the elements of the result"),
	INTEGER("bytes", 0, BYTES, "the bytes of these elements"),
	INTEGER("tensors", SOMETIMES, NULL, "the number of tensors, if they have names"),
	ARRAY("inputs", 0, NULL, "the names of this rank's inputs"),
	STRING("inputs[]", 0, NULL, "a file"),
	STRING("output", NUL, NULL, "the name of the first output; null: this rank writes none"),
	STRING("digest", NUL, NULL,
	       "32 hexadecimal digits, as info prints them; null if the ranks do not have the same "
	       "result, or not all of it was read"),
	INTEGER("steps", 0, NULL, "the number of messages that this rank has sent"),
	INTEGER("peers", 0, NULL, "the number of ranks with which this rank has exchanged data"),
	INTEGER("windows", 0, NULL, "the number of parts in which the data were processed"),
	INTEGER("streams", 0, NULL, "how many of them were processed at once"),
	INTEGER("reconnects", 0, NULL,
	        "how often all ranks connected anew, because a connection broke while data moved; "
	        "what moved again counts in the bytes sent and received"),
	OBJECT("lanes", 0, NULL, "this rank's connections"),
	INTEGER("lanes.memory", 0, NULL, "the number of those in shared memory"),
	INTEGER("lanes.tcp", 0, NULL, "the number of those over TCP"),
	OBJECT("network", SOMETIMES, NULL,
	       "what is known of the link of this rank's host, if the ranks are on several hosts"),
	OBJECT("network.rate", NUL, NULL, "its rate; null if it is not known"),
	INTEGER("network.rate.up", 0, BYTES_PER_SECOND, "out of the host"),
	INTEGER("network.rate.down", 0, BYTES_PER_SECOND, "into the host"),
	NUMBER("network.rtt", NUL, SECONDS,
	       "the shortest round trip to rank 0; null if it was not measured"),
	STRING("network.from", NUL, NULL,
	       "the source of the rate: interface, --tuning or --link-rate; null if it is not known"),
	INTEGER("bytes_sent", 0, BYTES, "the data that this rank has sent"),
	INTEGER("bytes_received", 0, BYTES, "the data that this rank has received"),
	OBJECT("seconds", 0, NULL, "the time of each phase"),
	NUMBER("seconds.total", 0, SECONDS, "all phases"),
	NUMBER("seconds.join", 0, SECONDS, "until all ranks have joined and agree"),
	NUMBER("seconds.connect", 0, SECONDS, "until the connections for data are open"),
	NUMBER("seconds.run", 0, SECONDS, "while data moved"),
	NUMBER("seconds.commit", 0, SECONDS, "until all outputs are complete and have their names"),
	OBJECT("bandwidth", 0, NULL, "the bandwidths of the run"),
	NUMBER("bandwidth.algorithm", 0, BYTES_PER_SECOND, "bytes divided by seconds.run"),
	NUMBER("bandwidth.bus", 0, BYTES_PER_SECOND,
	       "the same times the factor of the collective, as in nccl-tests; 0 where there is none"),
	NUMBER("algbw", 0, GIGABYTES, "bandwidth.algorithm in another unit"),
	NUMBER("busbw", 0, GIGABYTES, "bandwidth.bus in another unit"),
};

static const struct field of_some_ranks[] = {
	ARRAY("missing", SOMETIMES, NULL,
	      "with --min-ranks: the ranks that take no part in the job"),
	INTEGER("missing[]", 0, NULL, "a rank"),
};

static const struct field of_collective[] = {
	NUMBER("predicted", NUL, SECONDS,
	       "what the model predicts for seconds.run, without files; null on the ranks that do not "
	       "plan"),
	INTEGER("all_inputs", SOMETIMES, NULL, "the number of inputs of all ranks together"),
	BOOLEAN("cloned", SOMETIMES, NULL,
	        "all outputs of this rank share their blocks with those of another rank of its host"),
	INTEGER("equal_files", SOMETIMES, NULL, "files.equal, with --update or --delta"),
	OBJECT("files", SOMETIMES, NULL,
	       "of a broadcast or gather of files; of a gather those of this rank and, at the root, of "
	       "all"),
	INTEGER("files.equal", 0, NULL,
	        "the number of files of which all ranks, or the root of a gather, had a copy"),
	INTEGER("files.sent", 0, NULL, "the number of files of which something was sent"),
	INTEGER("files.deleted", 0, NULL,
	        "the number of files and folders that --delete has removed on this rank"),
	INTEGER("content_bytes", SOMETIMES, BYTES,
	        "of these files: their contents, those of hard links once, with holes"),
	OBJECT("pieces", SOMETIMES, NULL,
	       "of a broadcast of files: the numbers of pieces of 1 MiB, and of the shorter last ones"),
	INTEGER("pieces.equal", 0, NULL, "not sent, because no rank lacks them"),
	INTEGER("pieces.delta", 0, NULL, "sent as differences to an old version"),
	INTEGER("pieces.compressed", 0, NULL, "sent compressed"),
	INTEGER("pieces.raw", 0, NULL, "sent as they are"),
	INTEGER("plain_bytes", SOMETIMES, BYTES,
	        "with --delta, or --update between slow hosts: the bytes before they were coded"),
	OBJECT("without_old", SOMETIMES, NULL, "with --delta: what lacks the old version"),
	ARRAY("without_old.ranks", 0, NULL, "the ranks that lack some of it"),
	INTEGER("without_old.ranks[]", 0, NULL, "a rank"),
	INTEGER("without_old.bytes", 0, BYTES, "of the pieces that were sent to them whole"),
	OBJECT("wire", SOMETIMES, NULL, "with --wire: how data travelled to and from other hosts"),
	STRING("wire.coding", 0, NULL, "raw, lossless or q8"),
	INTEGER("wire.plain_bytes", 0, BYTES, "this rank's data before they were coded"),
	INTEGER("wire.coded_bytes", 0, BYTES, "the same data on their way"),
	NUMBER("wire.max_error", NUL | SOMETIMES, NULL,
	       "with q8: how far an element may be off, rounded up; null: there is no bound"),
	OBJECT("device", SOMETIMES, NULL, "with --device"),
	STRING("device.memory", 0, NULL, "the option's value"),
	STRING("device.local", NUL, NULL,
	       "how the devices of the rank reached each other's memory; null if there is one"),
	OBJECT("device.nccl", NUL, NULL, "what NCCL did; null without --device-path nccl"),
	INTEGER("device.nccl.reductions", 0, NULL, "the number of reductions"),
	STRING("device.nccl.version", SOMETIMES, NULL, "its version, if it was used"),
	STRING("device.nccl.error", SOMETIMES, NULL, "why it was not used"),
	OBJECT("where", SOMETIMES, NULL, "where the time went, if data have moved"),
	ARRAY("where.spent", 0, NULL, "the time of each stage by resource"),
	STRING("where.spent[].stage", 0, NULL, "join, connect, run or commit"),
	STRING("where.spent[].resource", 0, NULL, "such as read, receive, cipher or processor"),
	NUMBER("where.spent[].seconds", 0, SECONDS, "its time, of one thread"),
	ARRAY("where.peers", 0, NULL, "for which ranks this rank has waited"),
	INTEGER("where.peers[].rank", 0, NULL, "a rank"),
	NUMBER("where.peers[].seconds", 0, SECONDS, "how long"),
	NUMBER("where.reading", 0, SECONDS, "while files were read, beside the rest"),
	NUMBER("where.writing", 0, SECONDS, "while files were written, beside the rest"),
	INTEGER("where.threads", 0, NULL, "the number of threads"),
	OBJECT("where.limit", 0, NULL, "the longest time of where.spent"),
	STRING("where.limit.stage", 0, NULL, "its stage"),
	STRING("where.limit.resource", 0, NULL, "its resource"),
	NUMBER("where.limit.share", 0, PART, "its share of all times"),
	INTEGER("where.limit.rank", NUL, NULL,
	        "the rank that it waits for most; null if it does not wait for ranks"),
	OBJECT("where.busiest", NUL, NULL, "the rank that worked longest; null if it is not known"),
	INTEGER("where.busiest.rank", 0, NULL, "this rank"),
	STRING("where.busiest.resource", 0, NULL, "what it did most"),
	NUMBER("where.busiest.share", 0, PART, "the share of this in its time"),
	OBJECT("stats", SOMETIMES, NULL, "with --stats: the values of this rank's inputs"),
	INTEGER("stats.count", 0, ELEMENTS, "all of them"),
	INTEGER("stats.nan", 0, ELEMENTS, "those that are NaN"),
	INTEGER("stats.inf", 0, ELEMENTS, "those that are infinite"),
	INTEGER("stats.overflowed", 0, ELEMENTS,
	        "those of the output that are too large for --output-dtype"),
	ARRAY("stats.tensors", 0, NULL, "the tensors that have NaN or infinite elements"),
	STRING("stats.tensors[].input", 0, NULL, "the file"),
	STRING("stats.tensors[].name", 0, NULL, "the tensor; empty if the file is an array"),
	INTEGER("stats.tensors[].count", 0, ELEMENTS, "its elements"),
	INTEGER("stats.tensors[].nan", 0, ELEMENTS, "those that are NaN"),
	INTEGER("stats.tensors[].inf", 0, ELEMENTS, "those that are infinite"),
	OBJECT("dry_run", SOMETIMES, NULL,
	       "with --dry-run: what the job would do; the other fields then have what is expected"),
	INTEGER("dry_run.bytes_read", 0, BYTES, "what this rank would read of its inputs"),
	INTEGER("dry_run.bytes_written", 0, BYTES, "what it would write"),
	ARRAY("dry_run.vectors", 0, NULL, "the parts that have one type and one algorithm each"),
	STRING("dry_run.vectors[].algorithm", 0, NULL, "the algorithm"),
	STRING("dry_run.vectors[].dtype", 0, NULL, "the type in the inputs"),
	STRING("dry_run.vectors[].wire", 0, NULL, "the type that is sent"),
	STRING("dry_run.vectors[].output_dtype", 0, NULL, "the type in the outputs"),
	INTEGER("dry_run.vectors[].count", 0, ELEMENTS, "its elements"),
	INTEGER("dry_run.vectors[].bytes", 0, BYTES, "their bytes in the inputs"),
	INTEGER("dry_run.vectors[].windows", 0, NULL, "in how many parts it would be processed"),
	NUMBER("dry_run.vectors[].predicted", NUL, SECONDS, "as predicted, for this part"),
	ARRAY("dry_run.outputs", 0, NULL, "the files that this rank would write"),
	STRING("dry_run.outputs[].file", 0, NULL, "the file"),
	STRING("dry_run.outputs[].action", 0, NULL,
	       "create, replace, keep (it is the input), equal (it is as the root's), leave (another "
	       "rank writes it) or stdout"),
	INTEGER("dry_run.outputs[].bytes", NUL, BYTES, "its size; null if it is an archive"),
	STRING("dry_run.outputs[].link", SOMETIMES, NULL, "the target of a symbolic link"),
	ARRAY("dry_run.deletes", 0, NULL, "what --delete would remove"),
	STRING("dry_run.deletes[]", 0, NULL, "a path below the output"),
};

static const struct field of_verify[] = {
	ARRAY("files", 0, NULL, "the files of this rank"),
	STRING("files[].file", 0, NULL, "a file"),
	STRING("files[].digest", 0, NULL, "its digest"),
	OBJECT("compared", SOMETIMES, NULL, "what was compared with what, if all are the same"),
	INTEGER("compared.files", 0, NULL, "the number of files of this rank"),
	BOOLEAN("compared.with_local", 0, NULL, "with each other?"),
	BOOLEAN("compared.with_ranks", 0, NULL, "with those of other ranks?"),
};

static const struct field of_check[] = {
	ARRAY("missing", 0, NULL, "the ranks that did not join"),
	INTEGER("missing[]", 0, NULL, "a rank"),
	OBJECT("median", SOMETIMES, NULL, "of all links that work; on the rank that coordinates"),
	NUMBER("median.connect", NUL, SECONDS, "to open a TCP connection"),
	NUMBER("median.handshake", NUL, SECONDS, "of the TLS handshake"),
	NUMBER("median.round_trip", NUL, SECONDS, "of the links' median round trips"),
	NUMBER("median.bandwidth", NUL, BYTES_PER_SECOND, "of the links' bandwidths"),
	ARRAY("links", SOMETIMES, NULL, "each ordered pair of ranks once"),
	INTEGER("links[].from", 0, NULL, "the rank that connects and sends"),
	INTEGER("links[].to", 0, NULL, "the rank that accepts and receives"),
	STRING("links[].state", 0, NULL, "works, or how it fails"),
	STRING("links[].why", NUL, NULL, "why it fails; null if it works"),
	NUMBER("links[].connect", NUL, SECONDS, "to open a TCP connection; null if it is not measured"),
	NUMBER("links[].handshake", NUL, SECONDS, "of the TLS handshake"),
	OBJECT("links[].round_trip", 0, NULL, "of 24 bytes"),
	NUMBER("links[].round_trip.min", NUL, SECONDS, "the shortest, between the hosts' kernels"),
	NUMBER("links[].round_trip.median", NUL, SECONDS, "the median, between two processes"),
	NUMBER("links[].bandwidth", NUL, BYTES_PER_SECOND, "of the data, without headers"),
	ARRAY("findings", SOMETIMES, NULL, "what the links that fail or are slow have in common"),
	STRING("findings[]", 0, NULL, "a sentence"),
	ARRAY("absent", SOMETIMES, NULL, "hosts of run -H that have no rank, or too few"),
	STRING("absent[]", 0, NULL, "the host and why"),
};

static const struct field of_bench[] = {
	STRING("collective", 0, NULL, "what was measured"),
	ARRAY("rows", 0, NULL, "a row for each size and algorithm"),
	INTEGER("rows[].size", 0, BYTES, "of a rank's input or output, whichever is larger"),
	INTEGER("rows[].count", 0, ELEMENTS, "as nccl-tests counts them"),
	STRING("rows[].type", 0, NULL, "the type of the elements"),
	STRING("rows[].op", 0, NULL, "the operation; none: nothing is reduced"),
	STRING("rows[].algorithm", 0, NULL, "the algorithm"),
	OBJECT("rows[].seconds", 0, NULL, "the time of an iteration on the slowest rank"),
	NUMBER("rows[].seconds.min", 0, SECONDS, "the shortest"),
	NUMBER("rows[].seconds.p50", 0, SECONDS, "the median"),
	NUMBER("rows[].seconds.p99", 0, SECONDS, "99 of 100 are shorter"),
	OBJECT("rows[].bandwidth", 0, NULL, "computed from the median"),
	NUMBER("rows[].bandwidth.algorithm", 0, BYTES_PER_SECOND, "size divided by seconds.p50"),
	NUMBER("rows[].bandwidth.bus", 0, BYTES_PER_SECOND,
	       "the same times the factor of the collective, as in nccl-tests"),
	NUMBER("rows[].algbw", 0, GIGABYTES, "bandwidth.algorithm in another unit"),
	NUMBER("rows[].busbw", 0, GIGABYTES, "bandwidth.bus in another unit"),
	INTEGER("rows[].wrong", NUL, ELEMENTS, "wrong elements on all ranks; null without --check"),
};

static const struct field of_run[] = {
	INTEGER("size", 0, NULL, "the number of ranks"),
	ARRAY("ranks", 0, NULL, "what each rank has printed, in rank order"),
	{"ranks[]", FIELD_RESULT, NUL, NULL, "the object of the rank; null if it printed none"},
};

static const struct field of_invite[] = {
	STRING("ticket", 0, NULL, "the ticket; whoever has it can join"),
	INTEGER("size", 0, NULL, "the number of ranks"),
	INTEGER("expires", 0, "seconds since 1970", "until when ranks may join, by this host's clock"),
};

static const struct field of_any_plan[] = {
	STRING("collective", 0, NULL, "the collective"),
	INTEGER("size", 0, NULL, "the number of ranks"),
	INTEGER("count", 0, ELEMENTS, "of a rank's input or output, whichever is larger"),
	STRING("dtype", 0, NULL, "their type"),
};

static const struct field of_plan[] = {
	STRING("algorithm", 0, NULL, "the algorithm"),
	STRING("runs", 0, NULL, "the algorithm to which it falls back here, or itself"),
	STRING("wire", 0, NULL, "the type that is sent"),
	INTEGER("steps", 0, NULL, "messages in sequence, by the algorithm's formula"),
	INTEGER("chain", NUL, NULL,
	        "messages in sequence, counted; null, as the next four, if only --rank is planned"),
	INTEGER("messages", NUL, NULL, "the most that a rank sends"),
	INTEGER("bytes", NUL, BYTES, "the most that a rank sends"),
	INTEGER("peers", NUL, NULL, "the most ranks with which a rank exchanges data"),
	INTEGER("scratch", NUL, ELEMENTS, "the most space that a rank needs besides its vector"),
	OBJECT("predicted", 0, NULL, "the time that the model predicts"),
	NUMBER("predicted.formula", 0, SECONDS, "by formula"),
	NUMBER("predicted.simulated", NUL, SECONDS, "simulated; null if the steps are too many"),
	OBJECT("hosts", SOMETIMES, NULL, "with --hosts"),
	ARRAY("hosts.of_ranks", 0, NULL, "the number of the host of each rank"),
	INTEGER("hosts.of_ranks[]", 0, NULL, "a host, from 0"),
	INTEGER("hosts.bytes_out", NUL, BYTES, "the most that leave a host"),
	INTEGER("hosts.bytes_in", NUL, BYTES, "the most that enter a host"),
	BOOLEAN("verified", SOMETIMES, NULL, "with --verify: true"),
	ARRAY("ranks", 0, NULL, "the schedule of each rank, or that of --rank"),
	INTEGER("ranks[].rank", 0, NULL, "the rank"),
	ARRAY("ranks[].steps", 0, NULL, "its steps"),
	STRING("ranks[].steps[].op", 0, NULL, "such as send, recv or reduce"),
	INTEGER("ranks[].steps[].peer", NUL, NULL, "the other rank; null: none"),
	OBJECT("ranks[].steps[].dst", NUL, NULL, "the first element that it writes; null: none"),
	STRING("ranks[].steps[].dst.buffer", 0, NULL, "such as out, in0, scratch0 or gpu0.in1"),
	INTEGER("ranks[].steps[].dst.offset", 0, ELEMENTS, "its place there"),
	OBJECT("ranks[].steps[].src", NUL, NULL, "the first element that it reads; null: none"),
	STRING("ranks[].steps[].src.buffer", 0, NULL, "as in dst"),
	INTEGER("ranks[].steps[].src.offset", 0, ELEMENTS, "as in dst"),
	INTEGER("ranks[].steps[].count", 0, ELEMENTS, "how many"),
	BOOLEAN("ranks[].steps[].wire_left", 0, NULL,
	        "is what is received the left operand of the reduction?"),
	BOOLEAN("ranks[].steps[].final", 0, NULL, "does it complete elements of the output?"),
	ARRAY("ranks[].steps[].after", 0, NULL, "the steps that must be done before"),
	INTEGER("ranks[].steps[].after[]", 0, NULL, "the number of a step of this rank, from 0"),
};

static const struct field of_compare[] = {
	INTEGER("root", 0, NULL, "the root"),
	INTEGER("bytes", 0, BYTES, "of the elements of count"),
	STRING("op", 0, NULL, "the operation"),
	BOOLEAN("insecure", 0, NULL, "without encryption?"),
	STRING("algorithm", NUL, NULL, "the choice of auto; null: no algorithm can run"),
	ARRAY("algorithms", 0, NULL, "all algorithms of the collective, the fastest first"),
	STRING("algorithms[].algorithm", 0, NULL, "its name"),
	STRING("algorithms[].runs", 0, NULL, "the algorithm to which it falls back here, or itself"),
	STRING("algorithms[].wire", 0, NULL, "the type that is sent"),
	BOOLEAN("algorithms[].candidate", 0, NULL, "may auto choose it?"),
	BOOLEAN("algorithms[].taken", 0, NULL, "is it the choice of auto?"),
	STRING("algorithms[].remark", 0, NULL, "why it is chosen or excluded, or empty"),
	NUMBER("algorithms[].steps", 0, NULL, "messages in sequence"),
	NUMBER("algorithms[].messages", 0, NULL, "the most that a rank sends"),
	NUMBER("algorithms[].bytes_sent", 0, BYTES, "the most that a rank sends"),
	NUMBER("algorithms[].bytes_received", 0, BYTES, "the most that a rank receives"),
	NUMBER("algorithms[].formula", 0, SECONDS, "the predicted time by formula"),
	NUMBER("algorithms[].simulated", NUL, SECONDS, "the simulated time; null if it is too long"),
	STRING("algorithms[].not_simulated", NUL, NULL, "why it is not simulated; null if it is"),
	NUMBER("algorithms[].measured", NUL, SECONDS,
	       "the time in the tuning file for the nearest size; null: there is none"),
};

static const struct field of_algorithms[] = {
	STRING("collective", 0, NULL, "the collective"),
	STRING("algorithm", 0, NULL, "its name"),
	STRING("help", 0, NULL, "what it does"),
	STRING("steps", 0, NULL, "messages in sequence, as a formula"),
	STRING("bytes", 0, NULL, "the bytes that a rank sends, as a formula"),
	STRING("restrictions", 0, NULL, "where it cannot run, or empty"),
	STRING("source", 0, NULL, "the publication"),
	BOOLEAN("joint", 0, NULL, "does it have operations on all inputs at once, such as median?"),
};

static const struct field of_info[] = {
	STRING("file", 0, NULL, "the file or folder"),
	STRING("format", 0, NULL, "its format"),
	STRING("dtype", NUL, NULL, "the type of all elements; null if there are several"),
	ARRAY("shape", NUL, NULL, "of an array; null if there are tensors with names"),
	INTEGER("shape[]", 0, ELEMENTS, "along an axis"),
	INTEGER("count", 0, ELEMENTS, "all elements"),
	INTEGER("bytes", 0, BYTES, "of all elements"),
	STRING("digest", NUL, NULL,
	       "32 hexadecimal digits: of the type, the shape and the values; null with --no-digest, "
	       "or if pieces are missing"),
	ARRAY("files", 0, NULL, "the files that it consists of"),
	STRING("files[]", 0, NULL, "a file"),
	ARRAY("tensors", 0, NULL, "the tensors, by name; an array is one of the empty name"),
	STRING("tensors[].name", 0, NULL, "its name"),
	STRING("tensors[].dtype", 0, NULL, "its type"),
	ARRAY("tensors[].shape", 0, NULL, "its shape"),
	INTEGER("tensors[].shape[]", 0, ELEMENTS, "along an axis"),
	INTEGER("tensors[].count", 0, ELEMENTS, "its elements"),
	INTEGER("tensors[].bytes", 0, BYTES, "of its elements"),
	STRING("tensors[].digest", NUL, NULL, "its digest; null with --no-digest"),
	BOOLEAN("tensors[].fortran_order", 0, NULL, "does the first axis vary fastest?"),
	BOOLEAN("tensors[].big_endian", 0, NULL, "are its bytes in big-endian order?"),
	ARRAY("tensors[].pieces", 0, NULL,
	      "where its bytes lie in the files, in C order; empty for a view of other elements, and "
	      "in an archive"),
	STRING("tensors[].pieces[].file", 0, NULL, "the file"),
	INTEGER("tensors[].pieces[].offset", 0, BYTES, "where the piece begins"),
	INTEGER("tensors[].pieces[].bytes", 0, BYTES, "its length"),
	STRING("tensors[].alias_of", NUL, NULL,
	       "the first tensor that is the same bytes of a file; null: none"),
	ARRAY("tensors[].offsets", SOMETIMES, NULL,
	      "if pieces of the checkpoint are missing: where this piece begins in its tensor"),
	INTEGER("tensors[].offsets[]", 0, ELEMENTS, "along an axis"),
	ARRAY("tensors[].whole", NUL | SOMETIMES, NULL,
	      "the shape of this piece's tensor; null if it is not known"),
	INTEGER("tensors[].whole[]", 0, ELEMENTS, "along an axis"),
	NUMBER("tensors[].min", NUL | SOMETIMES, NULL,
	       "with --stats, if the type has arithmetic: the smallest finite element; null: none"),
	NUMBER("tensors[].max", NUL | SOMETIMES, NULL, "the same: the largest finite element"),
	NUMBER("tensors[].mean", NUL | SOMETIMES, NULL, "the same: the mean of the finite elements"),
	INTEGER("tensors[].nan", SOMETIMES, ELEMENTS, "the same: those that are NaN"),
	INTEGER("tensors[].inf", SOMETIMES, ELEMENTS, "the same: those that are infinite"),
	ARRAY("values", 0, NULL, "of a file of torch.save: the values that are no tensors"),
	STRING("values[].name", 0, NULL, "its name"),
	{"values[].value", FIELD_ANY, NUL, NULL, "the value"},
	ARRAY("missing", SOMETIMES, NULL, "the first missing piece of each tensor of a checkpoint"),
	STRING("missing[].name", 0, NULL, "the tensor"),
	ARRAY("missing[].offsets", 0, NULL, "where the piece begins"),
	INTEGER("missing[].offsets[]", 0, ELEMENTS, "along an axis"),
	ARRAY("missing[].shape", 0, NULL, "its shape"),
	INTEGER("missing[].shape[]", 0, ELEMENTS, "along an axis"),
};

#define LEFTOVERS(list, meaning)                                      \
	ARRAY(list, 0, NULL, meaning),                                \
	STRING(list "[].path", 0, NULL, "the file"),                  \
	INTEGER(list "[].bytes", 0, BYTES, "its size"),               \
	STRING(list "[].why", NUL, NULL, "why it failed; else null")

static const struct field of_clean[] = {
	BOOLEAN("dry_run", 0, NULL, "with --dry-run: nothing was removed"),
	INTEGER("files", 0, NULL, "the number of files that were removed"),
	INTEGER("bytes", 0, BYTES, "of these files"),
	LEFTOVERS("removed", "what was removed, or with --dry-run would be"),
	LEFTOVERS("in_use", "what a job uses"),
	LEFTOVERS("kept", "old versions of files, which stay"),
	LEFTOVERS("failed", "what could not be removed"),
};

static const struct field of_version[] = {
	STRING("version", 0, NULL, "the version; with --version the only field besides those of all"),
	OBJECT("build", SOMETIMES, NULL, "how it was built"),
	STRING("build.compiler", 0, NULL, "the compiler"),
	BOOLEAN("build.sanitizers", 0, NULL, "with sanitizers?"),
	STRING("build.commit", NUL, NULL, "the commit; null if it is not known"),
	ARRAY("build.lacks", 0, NULL, "what a program that contains its libraries cannot do"),
	STRING("build.lacks[]", 0, NULL, "in words"),
	INTEGER("protocol", SOMETIMES, NULL, "the version of the protocol between ranks"),
	OBJECT("libraries", SOMETIMES, NULL, "the libraries that it uses"),
	STRING("libraries.*", NUL, NULL, "the version; null if it cannot be used here"),
	STRING("tls_records", SOMETIMES, NULL, "what encrypts: own or openssl"),
	ARRAY("processor", SOMETIMES, NULL, "the features of the processor that make it faster"),
	STRING("processor[]", 0, NULL, "a feature"),
	OBJECT("gpu_plugin", NUL | SOMETIMES, NULL, "the GPU plug-in; null: there is none"),
	STRING("gpu_plugin.name", 0, NULL, "its name"),
	STRING("gpu_plugin.path", 0, NULL, "its file"),
	INTEGER("gpu_plugin.devices", NUL, NULL, "the number of devices; null if it cannot say"),
	STRING("gpu_plugin.why", NUL, NULL, "why it cannot; else null"),
	STRING("gpu_plugin_why", NUL | SOMETIMES, NULL, "why there is no plug-in; else null"),
	OBJECT("system", SOMETIMES, NULL, "this host"),
	STRING("system.kernel", 0, NULL, "the name of the kernel"),
	STRING("system.release", 0, NULL, "its release"),
	STRING("system.machine", 0, NULL, "the processor's architecture"),
	STRING("system.distribution", NUL, NULL, "the distribution; null if it is not known"),
	INTEGER("system.processors", 0, NULL, "the number of processors that it may use"),
	INTEGER("system.memory", 0, BYTES, "the memory of the host"),
	INTEGER("system.open_files", 0, NULL, "the most files that it may open"),
};

static const struct field of_progress[] = {
	OBJECT("progress", 0, NULL, "the progress of this rank"),
	INTEGER("progress.rank", NUL, NULL, "the rank; null if it is not known"),
	STRING("progress.phase", 0, NULL, "such as join, run or commit"),
	INTEGER("progress.moved", 0, BYTES,
	        "of this rank's files, counted by stages, as PROGRESS of collctl(1) says; check counts "
	        "measurements here"),
	INTEGER("progress.total", NUL, BYTES, "what moved will be; null if it is not known"),
	NUMBER("progress.rate", NUL, BYTES_PER_SECOND,
	       "of the last seconds; null if it is not known, and of check"),
	NUMBER("progress.left", NUL, SECONDS, "the time left; null if it is not known"),
	OBJECT("progress.slowest", NUL, NULL, "the rank with the least progress"),
	INTEGER("progress.slowest.rank", 0, NULL, "the rank"),
	NUMBER("progress.slowest.done", 0, PART, "its progress"),
	OBJECT("progress.bytes", SOMETIMES, NULL,
	       "once the data of a collective move, or ranks compare files: the bytes that are "
	       "through each stage"),
	INTEGER("progress.bytes.compared", 0, BYTES,
	        "compared, or coded as differences, before data move"),
	INTEGER("progress.bytes.skipped", 0, BYTES, "not sent, because all ranks have them"),
	INTEGER("progress.bytes.read", 0, BYTES, "read from files"),
	INTEGER("progress.bytes.sent", 0, BYTES, "sent to other ranks"),
	INTEGER("progress.bytes.received", 0, BYTES, "received from other ranks"),
	INTEGER("progress.bytes.written", 0, BYTES, "written to files"),
	INTEGER("progress.bytes.stored", 0, BYTES, "on disk"),
	OBJECT("progress.joined", SOMETIMES, NULL, "who has joined, while ranks are missing"),
	INTEGER("progress.joined.here", 0, NULL, "the number of ranks that have"),
	INTEGER("progress.joined.size", 0, NULL, "the number of all"),
	STRING("progress.joined.missing", SOMETIMES, NULL, "the ranks that have not"),
	STRING("progress.joined.hosts", SOMETIMES, NULL,
	       "with --rank auto, the hosts of those that have"),
};

#define BIT(name) OUTPUT_BIT(OUTPUT_##name)
#define RESULTS   (BIT(COLLECTIVE) | BIT(BARRIER) | BIT(VERIFY))

const struct field_section field_sections[] = {
	SECTION(of_all,
	        .outputs = (OUTPUT_BIT(OUTPUTS) - 1) & ~BIT(ALGORITHMS) & ~BIT(PROGRESS),
	        .title = "All commands",
	        .about = "every object has these fields, but those in the array of algorithms; a "
	                 "command that fails may have only these"),
	SECTION(of_job, .outputs = RESULTS | BIT(CHECK) | BIT(BENCH), .title = "Jobs",
	        .about = "every rank of a job prints an object, also check and bench"),
	SECTION(of_result, .outputs = RESULTS, .title = "Collectives, barrier and verify"),
	SECTION(of_some_ranks, .outputs = BIT(COLLECTIVE) | BIT(BARRIER),
	        .title = "Collectives and barrier"),
	SECTION(of_collective, .outputs = BIT(COLLECTIVE), .title = "Collectives"),
	SECTION(of_verify, .outputs = BIT(VERIFY), .title = "verify"),
	SECTION(of_check, .outputs = BIT(CHECK), .title = "check",
	        .about = "a value that was not measured is null"),
	SECTION(of_bench, .outputs = BIT(BENCH), .title = "bench"),
	SECTION(of_run, .outputs = BIT(RUN), .title = "run",
	        .about = "with --json before or after run; where only the command of the ranks has "
	                 "it, run prints the object of each rank on a line, in rank order"),
	SECTION(of_invite, .outputs = BIT(INVITE), .title = "invite"),
	SECTION(of_any_plan, .outputs = BIT(PLAN) | BIT(COMPARE), .title = "plan, also with --compare"),
	SECTION(of_plan, .outputs = BIT(PLAN), .title = "plan"),
	SECTION(of_compare, .outputs = BIT(COMPARE), .title = "plan --compare"),
	SECTION(of_algorithms, .outputs = BIT(ALGORITHMS), .title = "algorithms",
	        .about = "an array of objects with these fields"),
	SECTION(of_info, .outputs = BIT(INFO), .title = "info",
	        .about = "an object for one file, an array of objects for several"),
	SECTION(of_clean, .outputs = BIT(CLEAN), .title = "clean"),
	SECTION(of_version, .outputs = BIT(VERSION), .title = "version"),
	SECTION(of_progress, .outputs = BIT(PROGRESS), .title = "--progress json",
	        .about = "a line on stderr, every second and at the end"),
};
/* clang-format on */
const size_t field_sections_len = COUNT(field_sections);

const char *field_type_name(enum field_type t)
{
	static const char *const names[] = {
	        [FIELD_STRING] = "string",   [FIELD_INTEGER] = "integer", [FIELD_NUMBER] = "number",
	        [FIELD_BOOLEAN] = "boolean", [FIELD_OBJECT] = "object",   [FIELD_ARRAY] = "array",
	        [FIELD_ANY] = "any value",   [FIELD_RESULT] = "object",
	};
	return names[t];
}
