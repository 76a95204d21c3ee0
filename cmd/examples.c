#include "cmd/examples.h"

#include <stddef.h>
#include <string.h>

/* clang-format off */
const struct example examples[] = {
	{"allreduce", "Average four shards; every rank gets the result",
	 "collctl run -n 4 -- allreduce --op avg shard.{rank}.npy \\\n"
	 "    -o mean.{rank}.npy"},
	{"allreduce", "The same on four hosts, which ssh reaches and where each has its shard",
	 "collctl run -H a,b,c,d -- allreduce --op avg shard.npy -o mean.npy"},
	{"allreduce", "Average checkpoints on this machine, without other ranks",
	 "collctl allreduce -n 1 --op avg a.safetensors b.safetensors \\\n"
	 "    -o mean.safetensors"},
	{"reduce", "The largest element at each place of four arrays; rank 0 gets the result",
	 "collctl run -n 4 -- reduce --op max shard.{rank}.npy -o max.npy"},
	{"reduce", "Add in rank order, with intermediate sums in f64; rank 2 gets the result",
	 "collctl run -n 4 -- reduce --order rank --root 2 shard.{rank}.npy \\\n"
	 "    -o sum.npy"},
	{"reduce", "Add the histograms that a program prints as 64-bit integers",
	 "cat counts.bin |\n"
	 "    collctl reduce -n 1 --format raw --dtype i64 - -o total.bin"},
	{"reduce-scatter", "Add four arrays; each rank gets a quarter of the rows",
	 "collctl run -n 4 -- reduce-scatter shard.{rank}.npy -o part.{rank}.npy"},
	{"reduce-scatter", "The same, but rank 0 gets half of eight rows",
	 "collctl run -n 4 -- reduce-scatter --counts 4,2,1,1 \\\n"
	 "    shard.{rank}.npy -o part.{rank}.npy"},
	{"reduce-scatter", "An average in which rank 3 counts twice",
	 "collctl run -n 4 -- sh -c 'collctl reduce-scatter --op avg \\\n"
	 "    --weight $((COLLCTL_RANK == 3 ? 2 : 1)) \\\n"
	 "    shard.$COLLCTL_RANK.npy -o part.$COLLCTL_RANK.npy'"},
	{"broadcast", "Give every rank the file of rank 0",
	 "collctl run -n 4 -- broadcast all.npy -o copy.{rank}.npy"},
	{"broadcast", "Copy a file of any format to three other hosts",
	 "collctl run -H a,b,c,d -- broadcast --raw-file model.tar -o copy.tar"},
	{"broadcast", "Copy a folder, with the modification times",
	 "collctl run -n 2 -- broadcast --raw-file --times folder -o copies.{rank}"},
	{"scatter", "Split an array by rows; each of three ranks gets a part",
	 "collctl run -n 3 -- scatter all.npy -o part.{rank}.npy"},
	{"scatter", "Choose the parts",
	 "collctl run -n 3 -- scatter --counts 10,0,6 all.npy -o part.{rank}.npy"},
	{"scatter", "Print what would be sent, and move nothing",
	 "collctl run -n 3 -- scatter --dry-run all.npy -o part.{rank}.npy"},
	{"gather", "Concatenate four arrays by rows; rank 0 gets the result",
	 "collctl run -n 4 -- gather shard.{rank}.npy -o all.npy"},
	{"gather", "Collect a log file of every rank in a folder of the root",
	 "collctl run -n 4 -- gather --raw-file log.{rank} -o logs/"},
	{"gather", "Read raw elements; --dtype gives their type",
	 "collctl run -n 2 -- gather --format raw --dtype i64 counts.bin -o all.npy"},
	{"allgather", "Concatenate four arrays by rows; every rank gets the result",
	 "collctl run -n 4 -- allgather shard.{rank}.npy -o all.{rank}.npy"},
	{"allgather", "Name the algorithm",
	 "collctl run -n 4 -- allgather -a ring shard.{rank}.npy -o all.{rank}.npy"},
	{"allgather", "Print the predicted time of each algorithm, and which one is chosen",
	 "collctl run -n 4 -- allgather --explain shard.{rank}.npy \\\n"
	 "    -o all.{rank}.npy"},
	{"alltoall", "Rank r gets part r of every array: a transposition of the parts",
	 "collctl run -n 4 -- alltoall shard.{rank}.npy -o column.{rank}.npy"},
	{"alltoall", "Every rank sends five rows to rank 0 and one to the others",
	 "collctl run -n 4 -- alltoall --counts 5,1,1,1 \\\n"
	 "    shard.{rank}.npy -o column.{rank}.npy"},
	{"alltoall", "Record what every rank does, for https://ui.perfetto.dev",
	 "collctl run -n 4 -- alltoall --trace trace.json \\\n"
	 "    shard.{rank}.npy -o column.{rank}.npy"},
	{"scan", "Running sums: rank r gets the sum of the arrays of ranks 0 to r",
	 "collctl run -n 4 -- scan shard.{rank}.npy -o sum.{rank}.npy"},
	{"scan", "Running products of integers",
	 "collctl run -n 2 -- scan --op prod --format raw --dtype i64 \\\n"
	 "    counts.bin -o product.{rank}.npy"},
	{"scan", "Show where the time went",
	 "collctl run -n 4 -- scan -v shard.{rank}.npy -o sum.{rank}.npy"},
	{"exscan", "Rank r gets the sum of the arrays of the ranks before it",
	 "collctl run -n 4 -- exscan shard.{rank}.npy -o before.{rank}.npy"},
	{"exscan", "From each rank's number of rows: its first row in a common file",
	 "collctl run -n 4 -- exscan --format raw --dtype i64 \\\n"
	 "    counts.bin -o first.{rank}.npy"},
	{"exscan", "Print the result as JSON, an object for each rank",
	 "collctl run -n 4 -- exscan --json shard.{rank}.npy -o before.{rank}.npy"},
	{"exchange", "Time the exchange of an array with one partner",
	 "collctl run -n 2 -- exchange --steps 1 shard.{rank}.npy"},
	{"exchange", "With three partners, at distances 1, 2 and 4",
	 "collctl run -n 8 -- exchange --steps 3 all.npy"},
	{"exchange", "Over TCP, also between ranks of one host",
	 "collctl run -n 4 -- exchange --steps 2 --lanes tcp shard.{rank}.npy"},
	{"barrier", "Wait for all ranks",
	 "collctl run -n 4 -- barrier"},
	{"barrier", "Try every link between four hosts; name those that fail",
	 "collctl run -H a,b,c,d -- barrier -a all_to_all"},
	{"barrier", "One of two ranks, which wait up to ten minutes for each other at a store",
	 "collctl barrier -n 2 -r 0 -R http://head:7700 \\\n"
	 "    --secret-file job.key --join-timeout 10m"},
	{"check", "Test and measure every link between four hosts",
	 "collctl run -H a,b,c,d -- check"},
	{"check", "Fail if a link has less than 10 Mbit/s, or a round trip of more than a "
	          "second",
	 "collctl run -n 3 -- check --min-bandwidth 10Mbit --max-latency 1s"},
	{"check", "Draw the links",
	 "collctl run -n 3 -- check --time 50ms --svg links.svg"},
	{"run", "Run a collective with four ranks on this machine",
	 "collctl run -n 4 -- allreduce shard.{rank}.npy -o sum.{rank}.npy"},
	{"run", "Run a program that calls collctl",
	 "collctl run -n 2 -- sh -c 'collctl barrier &&\n"
	 "    echo rank $COLLCTL_RANK has met all others'"},
	{"run", "Print what would be started on which host",
	 "collctl run --dry-run -H a,b -- barrier"},
	{"serve", "Run a store for any number of jobs",
	 "collctl serve --listen 0.0.0.0:7700"},
	{"serve", "Let the kernel choose the port; write it to a file",
	 "collctl serve --listen 127.0.0.1:0 --port-file port"},
	{"serve", "With TLS; clients give the token in the file",
	 "collctl serve --tls-cert store.pem --tls-key store.key --token-file token"},
	{"bench", "Measure an allreduce of 4 KiB to 64 KiB, with the algorithm that auto "
	          "chooses",
	 "collctl run -n 4 -- bench allreduce -b 4K -e 64K"},
	{"bench", "Compare all algorithms, and draw their bandwidths",
	 "collctl run -n 3 -- bench broadcast -a all -b 1K -e 4K --svg bench.svg"},
	{"bench", "Measure this cluster's rates, for --tuning",
	 "collctl run -n 2 -- bench allreduce -b 4K -e 1M --tuning-out rates.json"},
	{"plan", "Print the schedule of a small allreduce",
	 "collctl plan allreduce -n 4 --bytes 64K"},
	{"plan", "Compare all algorithms for 4 hosts with 4 ranks each",
	 "collctl plan allreduce -n 16 --hosts 4x4 --bytes 64M --compare"},
	{"plan", "Draw the messages of a ring",
	 "collctl plan allreduce -n 8 -a ring --bytes 64M --svg ring.svg"},
	{"algorithms", "List the algorithms of all collectives",
	 "collctl algorithms"},
	{"algorithms", "Those of one collective",
	 "collctl algorithms allreduce"},
	{"algorithms", "Their names, for a script",
	 "collctl algorithms allreduce --json | jq -r '.[].algorithm'"},
	{"info", "Show the tensors of a checkpoint",
	 "collctl info a.safetensors"},
	{"info", "Count NaN and Inf",
	 "collctl info --stats shard.0.npy shard.1.npy"},
	{"info", "Print the digests",
	 "collctl info --json shard.*.npy | jq -r '.[].digest'"},
	{"verify", "Check that four files are the same",
	 "collctl run -n 4 -- verify copy.{rank}.npy"},
	{"verify", "Check the copies on four hosts",
	 "collctl run -H a,b,c,d -- verify mean.npy"},
	{"verify", "Compare files of any format",
	 "collctl run -n 2 -- verify --raw-file model.{rank}.tar"},
	{"clean", "Remove what ended jobs have left in a folder more than a day ago",
	 "collctl clean folder"},
	{"clean", "Show what is there, old or new",
	 "collctl clean --dry-run --older-than 0 folder"},
	{"clean", "How many bytes are in it?",
	 "collctl clean --dry-run --json folder | jq .bytes"},
	{"keygen", "Make a secret for the ranks of a job",
	 "collctl keygen job.key"},
	{"keygen", "Make a secret on another host, without a file here",
	 "collctl keygen | ssh b 'umask 77; cat >job.key'"},
	{"ca", "Make an authority, and certificates for two ranks",
	 "collctl ca init pki\n"
	 "collctl ca issue pki --rank 0\n"
	 "collctl ca issue pki --rank 1"},
	{"ca", "A certificate for the ranks of a host, or for its store",
	 "collctl ca init pki && collctl ca issue pki --host node1"},
	{"ca", "Revoke a certificate whose key is lost",
	 "collctl ca init pki && collctl ca issue pki --rank 7 &&\n"
	 "    collctl ca revoke pki pki/rank-7.pem"},
	{"version", "Show what a bug report needs",
	 "collctl version"},
	{"help", "List the commands",
	 "collctl help"},
	{"help", "Describe a command",
	 "collctl help allreduce"},
	{0},
};
/* clang-format on */

const struct example *examples_of(const char *command)
{
	for (const struct example *e = examples; e->command; e++)
		if (strcmp(e->command, command) == 0)
			return e;
	return NULL;
}
