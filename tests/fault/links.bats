#!/usr/bin/env bats
# Faults of the links between the ranks: listeners under a flood, partitions, loss, slow links. Numbers
# are the rows of the table of faults.

load ../cli/helpers
load fault

load nets

setup() {
	common_setup
	make_secret
}

teardown() {
	common_teardown
	net_close
}

# flood PORT [hold]: flood.py until the end of the test
flood() {
	mkfifo -m 600 "flood.$1"
	"$PYTHON" "$FAULT_DIR/flood.py" "$1" "flood.$1" "${@:2}" 3>&- &
	STARTED+=($!)
	read -r -t 60 <"flood.$1"
}

# flooded_jobs N OPTION...: N jobs while the data listener of rank 1 is flooded
flooded_jobs() {
	local jobs=$1 data i r at
	shift
	make_shards 3 f32 20
	free_port
	data=$PORT
	make_hostfile hosts 3
	flood "$data" "${HOLD[@]}"
	((!LONG)) || flood "$PORT" "${HOLD[@]}"
	for ((i = 0; i < jobs; i++)); do
		for r in 0 1 2; do
			at=()
			((r != 1)) || at=(--listen "127.0.0.1:$data")
			spawn_rank "$r" "$COLLCTL" allreduce -a direct -H hosts -r "$r" "${at[@]}" --join-timeout $((LONG ? 10 : 40))s \
				"in.$r.npy" -o "out.$r.npy" "$@"
		done
		wait_ranks
		assert_ranks 3 0
		check_out sum 3
	done
}

# With the long runs the control listener is flooded too: row 3.
@test "48: connect and close at a data listener, from the ranks' address, TLS: every job succeeds" {
	HOLD=() flooded_jobs $((LONG ? 25 : 3)) --secret-file "$SECRET"
}

@test "48: connect and close at a data listener, from the ranks' address, plain: every job succeeds" {
	HOLD=() flooded_jobs $((LONG ? 25 : 3)) --insecure
}

@test "48: silent connections that fill a data listener, from the ranks' address: every job succeeds" {
	HOLD=(hold) flooded_jobs $((LONG ? 25 : 3)) --secret-file "$SECRET"
}

@test "54: barrier -a all_to_all names every link that fails, one way and both, with addresses" {
	net_open 4
	drop_to 1 3
	drop_to 3 1
	drop_full 0 2
	net_ranks barrier -a all_to_all --timeout 6s
	assert_ranks 4 8 '3 links failed: ' 'no answer for 6 s: rank 1 (10.77.0.2) <-> rank 3 (10.77.0.4)' \
		'rank 0 (10.77.0.1) -> rank 2 (10.77.0.3)' 'full-size packets do not arrive'
}

@test "54: barrier -a all_to_all: a link that is refused does not end the others" {
	net_open 3
	ip -n "$NET-1" route add unreachable 10.77.0.3/32 # rank 1 can't dial rank 2, nor answer it
	net_ranks barrier -a all_to_all --timeout 6s
	assert_ranks 3 8 'links failed: ' 'rank 1 (10.77.0.2) -> rank 2 (10.77.0.3)' 'No route to host'
}

@test "54: barrier -a all_to_all over links that work" {
	net_open 3
	net_ranks barrier -a all_to_all --timeout 6s
	assert_ranks 3 0
	net_ranks barrier
	assert_ranks 3 0
}

# under_way R BYTES: until host R has sent so many bytes
under_way() {
	local sent=0
	until ((sent > $2)); do
		sent=$(on "$1" cat /sys/class/net/eth0/statistics/tx_bytes)
		kill -0 "${PIDS[$1]}" || return
	done
}

# partitioned "FROM TO"...: three hosts at 8 Mbit/s; what FROM sends to TO is lost once data moves, as
# they would for many seconds
partitioned() {
	local link r
	net_open 3
	make_shards 3 f32 2500000
	for r in 0 1 2; do
		shaped "$r" 8mbit 100k
		echo old >"out.$r.npy"
		net_rank "$r" allreduce -a direct --timeout 6s "in.$r.npy" -o "out.$r.npy"
	done
	under_way 1 200000
	for link; do
		# shellcheck disable=SC2086
		drop_to $link
	done
	wait_ranks
	for r in 0 1 2; do
		[[ ${RC[r]} == [89] ]] || fail "rank $r ended with ${RC[r]}: $(<"$r.err")"
		assert_equal "$(<"out.$r.npy")" old
	done
}

# blames R PATTERN: what rank R says matches
blames() { grep -qE -e "$2" "$1.err" || fail "rank $1 does not say '$2': $(<"$1.err")"; }

@test "20: a silent partition of two ranks, both ways: 8 or 9, one of them named" {
	((LONG)) || skip 'the one way is the sample: only in the long runs'
	partitioned '1 2' '2 1'
	for r in 0 1 2; do blames "$r" 'rank 1: .*rank 2|rank 2: .*rank 1'; done
}

@test "20: a silent partition of two ranks, one way: 8 or 9, one of them named" {
	partitioned '1 2'
	for r in 0 1 2; do blames "$r" 'rank 1: .*rank 2|rank 2: .*rank 1'; done
}

@test "20: a rank cut off from all others: 8 or 9, that rank named; it names rank 0" {
	partitioned '1 0' '1 2' '0 1' '2 1'
	blames 0 'collctl: rank 1: '
	blames 2 'collctl: rank 1: '
	blames 1 'collctl: rank 0: '
}

@test "53: a path that drops full-size packets: a collective names the pair" {
	net_open 3
	make_shards 3 f32 30000
	drop_full 1 2
	net_ranks allreduce -a direct --timeout 6s 'in.{rank}.npy' -o 'out.{rank}.npy'
	for r in 0 1 2; do
		[[ ${RC[r]} == [89] ]] || fail "rank $r ended with ${RC[r]}: $(<"$r.err")"
		blames "$r" 'rank 1: .*rank 2|rank 2: .*rank 1'
	done
}

@test "21: one packet in 16 lost: the right result" {
	net_open 3
	make_shards 3 f32 $((LONG ? 1000000 : 50000))
	for r in 0 1 2; do lossy "$r"; done
	net_ranks allreduce 'in.{rank}.npy' -o 'out.{rank}.npy'
	assert_ranks 3 0
	check_out sum 3
}

@test "21: hosts 100 ms apart, one packet in 1,000 lost on each line: the right result" {
	local r
	wan_open 4 --delay 25 --loss 0.001
	make_shards 4 f32 500000
	for r in 0 1 2 3; do on "$r" sh -c 'echo 4096 16384 1048576 >/proc/sys/net/ipv4/tcp_wmem'; done
	net_ranks allreduce -v --json --link-rate 1Gbit 'in.{rank}.npy' -o 'out.{rank}.npy'
	assert_ranks 4 0
	check_out sum 4
	grep -E 'the longest link holds .*, one connection 512.0 KiB of it: 10 streams, one for each window' 0.err
	jq -es 'map(.streams) | unique == [10]' ./[0-3].out
	net_ranks allreduce -vv --force --json --streams 2 --link-rate 1Gbit 'in.{rank}.npy' -o 'out.{rank}.npy'
	assert_ranks 4 0
	check_out sum 4
	jq -es 'map(.streams) | unique == [2]' ./[0-3].out
	grep -E 'the longest link holds .*: 2 streams \(--streams\)' 0.err
	grep -E 'the join took as long as [0-9.]+ round trips to rank 0, the connections for data [0-9.]+' 1.err
}

@test "22: links of 1 Mbit/s: no false timeout" {
	local a all=(ring_chunked)
	net_open 3
	make_shards 3 f32 120000
	for r in 0 1 2; do shaped "$r" 1mbit 20k; done
	((!LONG)) || mapfile -t all < <(algorithms_of allreduce)
	for a in "${all[@]}"; do
		net_ranks allreduce -a "$a" --allow-divergent --timeout 4s 'in.{rank}.npy' -o 'out.{rank}.npy'
		assert_ranks 3 0
		check_out sum 3
	done
}

@test "55: links of 1 Mbit/s with 8 s of queue, --timeout 4s: no false timeout" {
	local a all=(direct)
	net_open 4
	make_shards 4 f32 $((LONG ? 200000 : 100000))
	for r in 0 1 2 3; do shaped "$r" 1mbit 1000k; done
	((!LONG)) || mapfile -t all < <(algorithms_of allreduce)
	for a in "${all[@]}"; do
		net_ranks allreduce -a "$a" --allow-divergent --timeout 4s 'in.{rank}.npy' -o 'out.{rank}.npy'
		assert_ranks 4 0
		check_out sum 4
	done
}
