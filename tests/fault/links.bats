#!/usr/bin/env bats
# Faults of the links between the ranks: listeners under a flood, partitions, loss, slow links. Numbers
# are the rows of the table of faults.

load ../cli/helpers

FAULT_DIR=$HELPERS_DIR/../fault
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
	for ((i = 0; i < jobs; i++)); do
		for r in 0 1 2; do
			at=()
			((r != 1)) || at=(--listen "127.0.0.1:$data")
			spawn_rank "$r" "$COLLCTL" allreduce -a direct -H hosts -r "$r" "${at[@]}" --join-timeout 10s \
				"in.$r.npy" -o "out.$r.npy" "$@"
		done
		wait_ranks
		assert_ranks 3 0
		check_out sum 3
	done
}

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
	net_ranks barrier -a all_to_all --timeout 2s
	assert_ranks 4 8 '3 links failed: ' 'no answer for 2 s: rank 1 (10.77.0.2) <-> rank 3 (10.77.0.4)' \
		'rank 0 (10.77.0.1) -> rank 2 (10.77.0.3)' 'full-size packets do not arrive'
}

@test "54: barrier -a all_to_all: a link that is refused does not end the others" {
	net_open 3
	ip -n "$NET-1" route add unreachable 10.77.0.3/32 # rank 1 can't dial rank 2, nor answer it
	net_ranks barrier -a all_to_all --timeout 2s
	assert_ranks 3 8 'links failed: ' 'rank 1 (10.77.0.2) -> rank 2 (10.77.0.3)' 'No route to host'
}

@test "54: barrier -a all_to_all over links that work" {
	net_open 3
	net_ranks barrier -a all_to_all --timeout 2s
	assert_ranks 3 0
	net_ranks barrier
	assert_ranks 3 0
}
