/*
 * The rows of request_settings.c: section, name, letter, argument, kind, member, groups, help,
 * other members of struct setting.
 */
S(COLLECTIVE, "op", 0, "OP", OP, op, FOR_REDUCE | FOR_BENCH,
  "reduction operation; trimmed:F is the mean of what is left without the least and the greatest "
  "values, a part F (0 to below 0.5) of all inputs at either end; ties:D and dare:D,SEED merge "
  "differences to an origin, of which they keep a part D; slerp:T interpolates between two inputs "
  "on an arc",
  .def = "sum", .choices = OPS, .other = AT(param), .agree = FOR_REDUCE | FOR_BENCH)
S(COLLECTIVE, "origin", 0, "FILE", STRING, origin, FOR_AVERAGE,
  "file with the same tensors: the operation is applied to the differences of the inputs to them, "
  "and its result is added to them",
  .once = true)
S(COLLECTIVE, "scale", 0, "L", NUMBER, scale, FOR_AVERAGE,
  "with --origin, the factor of what is added", .def = "1", .have = AT(have_scale),
  .agree = FOR_AVERAGE)
S(COLLECTIVE, "outer", 0, "nesterov:LR,MU", OUTER, outer, FOR_SHARDS,
  "with --origin and --momentum, add the result as a step of an optimiser: gradient descent at the "
  "learning rate LR with Nesterov's momentum MU, as DiLoCo's outer optimiser",
  .have = AT(have_outer), .agree = FOR_SHARDS)
S(COLLECTIVE, "momentum", 0, "FILE", STRING, momentum, FOR_SHARDS,
  "momentum of --outer, which is read if it exists, and replaced together with the output; {rank}, "
  "{size} and {host} are replaced",
  .once = true)
S(COLLECTIVE, "order", 0, "ORDER", ORDER, ordered, FOR_REDUCE,
  "order in which numbers are added; rank: in rank order, floats in f64", .def = "any",
  .choices = "any|rank", .agree = FOR_REDUCE)
S(COLLECTIVE, "weight", 0, "W[,W,...]", WEIGHTS, weights, FOR_AVERAGE,
  "weight of this rank's inputs in an average: one number for all inputs, or one for each; an "
  "input of weight 0 is ignored",
  .other = AT(nweights), .def = "1")
S(COLLECTIVE, "integers", 0, "HOW", INTEGERS, integers, FOR_AVERAGE,
  "how to average integers, also in a trimmed mean or a median of an even number: take the values "
  "of rank 0 (first), the same but fail if another rank has different values (equal), or round the "
  "exact average to the nearest integer (round)",
  .choices = "first|equal|round", .agree = FOR_AVERAGE)
S(COLLECTIVE, "algorithm", 'a', "NAME", STRING, algorithm, FOR_CHOICE,
  "algorithm to use; 'collctl algorithms' lists all; bench also takes several, separated "
  "by commas, or 'all'",
  .def = "auto", .once = true, .agree = FOR_CHOICE)
S(COLLECTIVE, "tuning", 0, "FILE", STRING, tuning, FOR_CHOICE,
  "choose the algorithm by the rates and measurements in this file (see 'collctl bench "
  "--tuning-out')",
  .once = true)
S(COLLECTIVE, "allow-divergent", 0, NULL, FLAG, divergent, FOR_REDUCE | FOR_BENCH,
  "allow algorithms that add floats in a different order on each rank, so that the last "
  "bits of the results may differ between ranks",
  .agree = FOR_REDUCE | FOR_BENCH)
S(COLLECTIVE, "explain", 0, NULL, FLAG, explain, FOR_MOVES,
  "print the predicted time of each algorithm, and the reason for the choice")
S(COLLECTIVE, "dry-run", 0, NULL, FLAG, dry_run, FOR_MOVES,
  "agree on what to do and print it, but move no data and create no file; all ranks must "
  "give this option",
  .agree = FOR_MOVES)
S(COLLECTIVE, "root", 0, "RANK|HOST", ROOT, root, FOR_ROOT,
  "rank that has the input or gets the result, or the name of its host (default: 0; with "
  "--rank auto, broadcast and scatter take the one rank that gives an input)",
  .max = JOB_MAX_SIZE - 1, .other = AT(root_host), .have = AT(have_root))
S(COLLECTIVE, "counts", 0, "N,N,...", ROWS, counts, FOR_ROWS,
  "rows of each rank's part, in rank order (default: as even as possible)", .other = AT(ncounts))
S(COLLECTIVE, "base", 0, "B", INT, base, FOR_RADIX | FOR_PLAN | FOR_BENCH,
  "radix of the bcube and bruck algorithms (default: 2)", .min = 2, .max = JOB_MAX_SIZE,
  .agree = FOR_RADIX | FOR_BENCH)
S(COLLECTIVE, "steps", 0, "C", INT, steps, FOR_STEPS | FOR_PLAN | FOR_BENCH,
  "number of partners of each rank, at distances 1, 2, 4 ...; 2^C must divide the number "
  "of ranks",
  .min = 1, .max = 16, .agree = FOR_STEPS | FOR_BENCH)
S(FILES, "output", 'o', "FILE", LIST, outputs, FOR_OUTPUT,
  "output file; '-' is stdout; {rank}, {size} and {host} are replaced", .other = AT(noutputs))
S(FILES, "output-dtype", 0, "TYPE", DTYPE, output_dtype, FOR_CONVERT,
  "element type of the output; tensors that are not floats keep their type (default: that of the "
  "input)",
  .choices = DTYPES_FLOAT, .aliases = DTYPES_FLOAT_NUMPY, .agree = FOR_CONVERT)
S(FILES, "max-shard-size", 0, "SIZE", SIZE, max_shard, FOR_SHARDS | FOR_JOINED,
  "write a folder of .safetensors files with an index, each with at most this many bytes of "
  "tensors; a larger tensor has a file alone",
  .min = 1, .max = INT64_MAX)
S(FILES, "with-files", 0, NULL, FLAG, with_files, FOR_SETS,
  "the folder of the output also gets the other files of the input's folder, such as config.json: "
  "those of rank 0 or of the root, from its first input; they replace files of the same names",
  .agree = FOR_SETS)
S(FILES, "each", 0, NULL, FLAG, each, FOR_OUTPUT,
  "process each input separately; -o names a folder", .agree = FOR_OUTPUT)
S(FILES, "consolidate", 0, NULL, FLAG, consolidate, FOR_JOINED,
  "make whole tensors of the pieces of a checkpoint that lie on the disks of all ranks: folders of "
  "DCP or FSDP, or files of them; the output is a .safetensors file",
  .agree = FOR_JOINED)
S(FILES, "check-replicas", 0, NULL, FLAG, check_replicas, FOR_JOINED,
  "with --consolidate, compare the digests of pieces that several ranks have", .agree = FOR_JOINED)
S(FILES, "shard-dim", 0, "D", INT, shard_dim, FOR_SCATTER,
  "cut the tensors of the root's checkpoint along this axis, from 0, as torch's Shard(D) does; "
  "each rank writes its shard of a distributed checkpoint (DCP with safetensors) to the folder -o",
  .max = 63, .have = AT(have_shard_dim), .agree = FOR_SCATTER)
S(FILES, "raw-file", 0, NULL, FLAG, files.raw_file, FOR_BYTES,
  "treat files of any format as a sequence of bytes", .agree = FOR_BYTES)
S(FILES, "times", 0, NULL, FLAG, times, FOR_COPIES,
  "with --raw-file, give the copies the modification times of the originals")
S(FILES, "update", 0, NULL, FLAG, update, FOR_COPIES,
  "do not send files of which all ranks, or the root of a gather, have a copy, with the size, "
  "permissions and modification time of the original; copies get these times",
  .agree = FOR_COPIES)
S(FILES, "delta", 0, "OLD", STRING, delta, FOR_UPDATE,
  "as --update, and what changed is sent as differences to OLD, the root's old version of the "
  "input, where all ranks have the same; all ranks must give it, and only the root reads OLD",
  .once = true)
S(FILES, "resume", 0, NULL, FLAG, resume, FOR_UPDATE,
  "go on where a job was ended: what an aborted or killed job leaves of OUT is "
  ".OUT.collctl-part, and pieces of 1 MiB that all ranks have are not sent again; "
  "'collctl clean' removes old ones",
  .agree = FOR_UPDATE)
S(FILES, "checksum", 0, NULL, FLAG, checksum, FOR_COPIES,
  "with --update, compare digests of the files, and not their times", .agree = FOR_COPIES)
S(FILES, "delete", 0, NULL, FLAG, deletes, FOR_UPDATE,
  "with --raw-file and a folder, remove from the output folder the files and folders that the "
  "root's folder does not have, once all ranks have the copy",
  .agree = FOR_UPDATE)
S(FILES, "links", 0, NULL, FLAG, links, FOR_COPIES,
  "with --raw-file and a folder, copy symbolic links as links, if their targets stay in it; others "
  "are skipped, with a message",
  .agree = FOR_COPIES)
S(FILES, "no-digest-cache", 0, NULL, FLAG, no_digest_cache, FOR_COPIES,
  "read files whose digests an earlier job has stored in ~/.cache/collctl/digests, too, and store "
  "none")
S(FILES, "format", 0, "FORMAT", FORMAT, files.format, FOR_INPUT,
  "file format (default: by extension)", .choices = format_choices + 1)
S(FILES, "dtype", 0, "TYPE", DTYPE, files.dtype, FOR_INPUT,
  "element type of raw files; bf16 also reads .npy files of type V2; f8e4m3 and f8e5m2 also "
  "read .npy files of type V1",
  .choices = DTYPES_ALL, .aliases = DTYPES_NUMPY)
S(FILES, "shape", 0, "N,N,...", STRING, files.shape, FOR_INPUT, "shape of raw files", .once = true)
S(FILES, "include", 0, "GLOB", LIST, files.include, FOR_INPUT,
  "use only tensors whose names match; with --raw-file, of a folder only files whose paths match; "
  "repeatable",
  .other = AT(files.ninclude), .agree = FOR_VERIFY)
S(FILES, "exclude", 0, "GLOB", LIST, files.exclude, FOR_INPUT,
  "skip tensors whose names match, or files and folders with --raw-file; repeatable",
  .other = AT(files.nexclude), .agree = FOR_VERIFY)
S(FILES, "strip", 0, "PREFIX", LIST, files.strip, FOR_INPUT,
  "take this prefix from the names of tensors, after --include and --exclude; repeatable",
  .other = AT(files.nstrip), .agree = FOR_VERIFY)
S(FILES, "same", 0, NULL, FLAG, same, FOR_VERIFY,
  "also compare the files of each rank with each other (default: only file k of each rank with "
  "file k of the other ranks)",
  .agree = FOR_VERIFY)
S(FILES, "stats", 0, NULL, FLAG, stats, FOR_STATS,
  "report tensors that contain NaN or Inf; info also prints minimum, maximum and mean")
S(FILES, "force", 0, NULL, FLAG, force, FOR_OUTPUT,
  "if the output is a symbolic link, replace the file that it points to; also replace files "
  "whose names another rank chooses")
S(FILES, "no-sync", 0, NULL, FLAG, no_sync, FOR_OUTPUT, "do not wait until the output is on disk")
S(RESOURCES, "memory", 0, "SIZE", SIZE, settings.memory, FOR_INPUT,
  "memory for buffers; larger arrays are processed in parts", .def = "256M", .min = 1,
  .max = INT64_MAX)
S(RESOURCES, "streams", 0, "K", INT, streams, FOR_MOVES,
  "parallel connections per direction (default: 1 to 3; as many as fill a link to a far host, at "
  "most 16)",
  .min = 1, .max = 64)
/* At the lowest rate some bytes still move every 10 ms, so it does not count as a stall. */
S(RESOURCES, "limit-rate", 0, "RATE", RATE, settings.limit_rate, FOR_MOVES | FOR_BENCH,
  "limit what this rank sends over all its data connections together: 100Mbit, 1Gbit (bits a "
  "second), 10M (bytes a second)",
  .min = 1024, .max = INT64_MAX)
S(RESOURCES, "congestion", 0, "NAME", STRING, settings.congestion, FOR_JOIN,
  "TCP's congestion control for what this rank sends to other ranks, one that its kernel has: "
  "cubic, bbr (default: that of the kernel; reno inside one machine)")
S(RESOURCES, "link-rate", 0, "UP[,DOWN]", LINK, settings.link.up, FOR_MOVES | FOR_BENCH,
  "rate at which this rank's host sends to other hosts and, if it differs, receives, for the "
  "choice of the algorithm, and of compression: 1Gbit, 200Mbit,1Gbit (default: that of its "
  "interface, if known)",
  .min = 1024, .max = INT64_MAX, .other = AT(settings.link.down))
S(RESOURCES, "wire", 0, "HOW", CHOICE, wire, FOR_MOVES,
  "how data travel to other hosts: as they are (raw); each piece of at most 256 KiB coded by zstd "
  "where that is shorter (lossless); sums and averages of floats in 8 bits each (q8); lossless if "
  "the slowest link is known to be slower than the coder (auto)",
  .def = "raw", .choices = "raw|lossless|q8|auto", .agree = FOR_MOVES)
S(RESOURCES, "max-error", 0, "E", NUMBER, max_error, FOR_AVERAGE,
  "with --wire q8, fail if an element of the result may differ from the exact one by more than E",
  .have = AT(have_max_error), .agree = FOR_AVERAGE)
S(RESOURCES, "threads", 0, "N|auto", THREADS, threads, FOR_MOVES,
  "threads that encrypt, add and copy, at most one for each stream (auto: the processors that "
  "this rank may use, divided by the number of ranks on its host)",
  .def = "auto", .min = 1, .max = 64)
S(RESOURCES, "lanes", 0, "WAY", CHOICE, settings.lanes, FOR_MOVES | FOR_BENCH,
  "how ranks of the same host and user send to each other: through shared memory if possible, "
  "else as to other hosts (auto); always as to other hosts (tcp); only through shared memory, "
  "or fail (memory)",
  .def = "auto", .choices = "auto|tcp|memory")
S(RESOURCES, "device", 0, "cpu|cuda[:LIST]", DEVICE, devices, FOR_MOVES | FOR_BENCH | FOR_PLAN,
  "memory of inputs and outputs: that of the host (cpu); that of the listed GPUs, input i on "
  "the i-th if they reach each other's memory (cuda:0,1); that of one GPU, chosen by the rank's "
  "number on its host (cuda)",
  .def = "cpu", .have = AT(have_devices))
S(RESOURCES, "device-path", 0, "PATH", CHOICE, device_path, FOR_MOVES | FOR_BENCH,
  "how a rank's GPUs reach each other's memory: by direct access (peer); through the host, so that "
  "the first GPU has all inputs (host); by direct access if all GPUs have it, else as host (auto); "
  "by NCCL, whose "
  "order of addition may change the last bits of sums of floats (nccl)",
  .def = "auto", .choices = GPU_PATHS)
S(RESOURCES, "device-memory", 0, "SIZE", SIZE, device_memory, FOR_MOVES,
  "memory for buffers on each GPU (default: three quarters of what is free)", .min = 1,
  .max = INT64_MAX)
S(JOB, "size", 'n', "N", INT, settings.size, FOR_JOIN | FOR_PLAN | FOR_INVITE, "number of ranks",
  .min = 1, .max = JOB_MAX_SIZE)
S(JOB, "size", 'n', "N", INT, settings.size, FOR_RUN, "number of ranks to start", .min = 1,
  .max = JOB_MAX_SIZE)
S(JOB, "rank", 'r', "N|auto", RANK, settings.rank, FOR_JOIN,
  "rank of this process; 'auto' numbers the ranks in the order of host, address and input "
  "file (default: from the launcher or the hostfile)",
  .max = JOB_MAX_SIZE - 1)
S(JOB, "rendezvous", 'R', "URL", STRING, settings.rendezvous, FOR_JOIN,
  "URL of the store where the ranks meet: http(s)://..., consul+http(s)://... or "
  "etcd+http(s)://...; that of etcd may have several hosts, separated by commas")
S(JOB, "hostfile", 'H', "FILE|HOST,...", STRING, settings.hostfile, FOR_JOIN,
  "hosts of the ranks in rank order: a list, or a file with one host on each line; if a file of "
  "this name exists, it is read",
  .once = true)
S(JOB, "job", 'j', "NAME", STRING, settings.job, FOR_JOIN,
  "name of the job; jobs that share a store need different names (default: the launcher's "
  "job id, else 'default')")
S(JOB, "ticket-file", 0, "FILE", STRING, settings.ticket_file, FOR_JOIN,
  "file with the ticket that 'collctl invite' has printed, in place of --size, --rank, "
  "--rendezvous, --job and --secret-file; -: stdin (default: COLLCTL_TICKET)",
  .once = true)
S(SECURITY, "secret-file", 0, "FILE", STRING, settings.secret_file, FOR_JOIN,
  "file with the job's secret, made by 'collctl keygen' (default: COLLCTL_SECRET)")
S(SECURITY, "secret-fd", 0, "N", INT, settings.secret_fd, FOR_JOIN,
  "read the secret from this file descriptor", .max = INT32_MAX)
S(SECURITY, "tls-cert", 0, "FILE", STRING, settings.tls_cert, FOR_JOIN,
  "certificate of this rank, in place of a secret: it names the rank (URI:collctl:rank:N, "
  "as 'collctl ca issue' makes it) or its host in the hostfile; {rank}, {size} and {host} "
  "are replaced")
S(SECURITY, "tls-key", 0, "FILE", STRING, settings.tls_key, FOR_JOIN,
  "key of that certificate (default: in the same file)")
S(SECURITY, "tls-ca", 0, "FILE", STRING, settings.tls_ca, FOR_JOIN,
  "certificate of the CA that has signed the certificates of all ranks", .once = true)
S(SECURITY, "tls-crl", 0, "FILE", STRING, settings.tls_crl, FOR_JOIN,
  "the CA's list of revoked certificates", .once = true)
S(SECURITY, "tls-key-password-fd", 0, "N", INT, settings.tls_key_password_fd, FOR_JOIN | FOR_CA,
  "read the password of an encrypted key from this file descriptor (default: ask on the "
  "terminal)",
  .max = INT32_MAX)
S(SECURITY, "store-token-file", 0, "FILE", STRING, settings.store_token_file, FOR_JOIN,
  "file with the access token of the store; for etcd it may be USER:PASSWORD")
S(SECURITY, "store-ca", 0, "FILE", STRING, settings.store_ca, FOR_JOIN,
  "file with the CA certificates to trust for the store (default: that of CURL_CA_BUNDLE or "
  "SSL_CERT_FILE, else the system's)",
  .once = true)
S(SECURITY, "store-cert", 0, "FILE", STRING, settings.store_cert, FOR_JOIN,
  "certificate that this rank shows to the store")
S(SECURITY, "store-key", 0, "FILE", STRING, settings.store_key, FOR_JOIN,
  "key of the certificate given by --store-cert")
S(SECURITY, "insecure", 0, NULL, FLAG, settings.insecure, FOR_JOIN,
  "use plain TCP without encryption and authentication; all ranks must give this option")
S(ADDRESSES, "listen", 0, "ADDR[:PORT]", STRING, settings.addresses.listen, FOR_JOIN | FOR_INVITE,
  "address on which to accept connections")
S(ADDRESSES, "advertise", 0, "ADDR[:PORT]", STRING, settings.addresses.advertise,
  FOR_JOIN | FOR_INVITE, "address at which other ranks reach this one")
S(ADDRESSES, "port-range", 0, "A-B", PORTS, settings.addresses.port_lo, FOR_JOIN,
  "accept connections on a port of this range", .min = 1, .max = 65535,
  .other = AT(settings.addresses.port_hi))
S(ADDRESSES, "iface", 0, "NAME|CIDR", STRING, settings.addresses.iface, FOR_JOIN,
  "accept connections on the address of this interface, or on the address in this network")
S(LIMITS, "join-timeout", 0, "DURATION", DURATION, settings.join_timeout, FOR_JOIN,
  "fail if the other ranks have not joined after this time", .def = "2m", .min = NS_PER_MS,
  .max = INT64_MAX)
S(LIMITS, "min-ranks", 0, "K", INT, settings.min_ranks, FOR_FEWER,
  "begin without the ranks that have not joined when --grace is over, once at least K have, "
  "and go on without those that are lost later, as long as K are left; the result is that of the "
  "ranks that take part (default: all ranks)",
  .min = 1, .max = JOB_MAX_SIZE, .agree = FOR_FEWER)
S(LIMITS, "grace", 0, "DURATION", DURATION, settings.grace, FOR_FEWER,
  "with --min-ranks, how long rank 0 waits for all ranks, from its start", .def = "10s",
  .min = NS_PER_MS, .max = INT64_MAX, .have = AT(settings.have_grace), .agree = FOR_FEWER)
S(LIMITS, "timeout", 0, "DURATION", DURATION, settings.timeout, FOR_JOIN,
  "fail if the job makes no progress for this long, once all ranks have joined", .def = "30s",
  .min = NS_PER_MS, .max = INT64_MAX)
S(PLAN, "insecure", 0, NULL, FLAG, settings.insecure, FOR_PLAN,
  "predict for connections without encryption")
S(PLAN, "lanes", 0, "WAY", CHOICE, settings.lanes, FOR_PLAN,
  "predict for ranks of one host that send to each other through shared memory (auto, memory) "
  "or as to other hosts (tcp)",
  .def = "auto", .choices = "auto|tcp|memory")
S(BENCH, "minbytes", 'b', "SIZE", SIZE, bench.minbytes, FOR_BENCH, "smallest size", .def = "4K",
  .max = INT64_MAX, .agree = FOR_BENCH)
S(BENCH, "maxbytes", 'e', "SIZE", SIZE, bench.maxbytes, FOR_BENCH, "largest size", .def = "64M",
  .max = INT64_MAX, .agree = FOR_BENCH)
S(BENCH, "stepfactor", 'f', "N", INT, bench.factor, FOR_BENCH, "factor between sizes", .def = "4",
  .min = 2, .max = 1 << 20, .agree = FOR_BENCH)
S(BENCH, "warmup", 'w', "N", INT, bench.warmup, FOR_BENCH, "iterations before the measurement",
  .def = "5", .max = 1000000, .agree = FOR_BENCH)
S(BENCH, "iters", 0, "N", INT, bench.iters, FOR_BENCH, "measured iterations", .def = "20", .min = 1,
  .max = 1000000, .agree = FOR_BENCH)
S(BENCH, "barrier", 0, NULL, FLAG, bench.barrier, FOR_BENCH,
  "put a barrier before each iteration, so that its time is that of one collective; "
  "--tuning-out always does so")
S(BENCH, "dtype", 0, "TYPE", DTYPE, files.dtype, FOR_BENCH | FOR_PLAN,
  "element type (default: f32)", .choices = DTYPES_ALL, .aliases = DTYPES_NUMPY)
S(BENCH, "check", 0, NULL, FLAG, bench.check, FOR_BENCH,
  "compare each element on each rank with the expected value", .agree = FOR_BENCH)
S(BENCH, "tuning-out", 0, "FILE", STRING, tuning_out, FOR_BENCH | FOR_CHECK,
  "write the measured rates to this tuning file; bench also writes the measured times",
  .once = true)
S(CHECK, "time", 0, "DURATION", DURATION, check.time, FOR_CHECK,
  "measure each link's bandwidth for this long", .def = "200ms", .min = NS_PER_MS,
  .max = 3600 * NS_PER_SEC)
S(CHECK, "min-bandwidth", 0, "RATE", RATE, check.min_bandwidth, FOR_CHECK,
  "fail if a link has less bandwidth: 100Mbit, 1Gbit (bits a second), 10M (bytes a second)",
  .min = 1, .max = INT64_MAX)
S(CHECK, "max-latency", 0, "DURATION", DURATION, check.max_latency, FOR_CHECK,
  "fail if the median round trip of a link is longer", .min = 1, .max = INT64_MAX)
S(CHECK, "hosts-out", 0, "FILE", STRING, check.hosts_out, FOR_CHECK,
  "write the largest set of hosts that all reach each other, as fast as --min-bandwidth and "
  "--max-latency demand, to this hostfile",
  .once = true)
