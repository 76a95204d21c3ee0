#!/usr/bin/env bats
# Faults of the links between the ranks: listeners under a flood, partitions, loss, slow links. Numbers
# are the rows of the table of faults.

load ../cli/helpers

FAULT_DIR=$HELPERS_DIR/../fault

setup() {
	common_setup
	make_secret
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
