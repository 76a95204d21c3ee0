#!/usr/bin/env bats
# --limit-rate: what a rank sends over all its data connections together, per second.

load helpers

MIB=1048576 # bytes per second of --limit-rate 1M, whose burst is 1/20 of it

setup() {
	common_setup
	export COLLCTL_LANES=tcp # memory lanes have no limit
}

# not_faster FILE RATE: each JSON object of a rank has sent its bytes in as much time as RATE needs, at least
not_faster() {
	local fast
	fast=$(jq -s --argjson rate "$2" 'map(select(.bytes_sent - ([$rate / 20, 16384] | max) > .seconds.run * 1.01 * $rate))' "$1")
	[[ $fast == '[]' ]] || fail "faster than $2: $fast"
}

# bats test_tags=smoke
@test "results are right, and no rank sends faster, by several algorithms over TLS" {
	local a
	make_shards 3 i32 50000
	for a in ring direct recursive_doubling rabenseifner; do
		collctl run -n 3 -- allreduce --no-sync --json -a "$a" --limit-rate 1M 'in.{rank}.npy' -o 'out.{rank}.npy' >j
		check_out sum 3
		(($(jq -s 'map(.bytes_sent) | min' j) >= 100000)) || fail "$a: $(<j)"
		not_faster j "$MIB"
	done
}

@test "in windows, on several streams, without TLS" {
	local s
	make_shards 4 i32 64,1024
	for s in 1 3; do
		collctl run -n 4 -- alltoall --insecure --no-sync --json --memory 128K --streams "$s" --limit-rate 8Mbit \
			'in.{rank}.npy' -o 'out.{rank}.npy' >j
		check_coll alltoall 4
		(($(jq -s 'map(.windows) | min' j) > 1)) || fail "one window: $(<j)"
		not_faster j 1000000
	done
}

@test "one rank may have a limit that the others do not have" {
	local r limit
	make_shards 3 f32 60000
	make_secret
	start_serve
	for r in 0 1 2; do
		limit=()
		[[ $r != 1 ]] || limit=(--limit-rate 1M)
		rank "$r" 3 allgather --no-sync --json "in.$r.npy" -o "out.$r.npy" "${limit[@]}"
	done
	wait_ranks
	assert_ranks 3 0
	check_coll allgather 3
	not_faster 1.out "$MIB"
}

@test "a rank that waits for its limit is not taken for one without progress" {
	make_shards 2 i32 40000
	collctl run -n 2 -- allreduce --no-sync --json --timeout 1s --limit-rate 40K 'in.{rank}.npy' -o 'out.{rank}.npy' >j
	check_out sum 2
	not_faster j 40960
	jq -e '.seconds.run > 3' j
}

@test "nor is one that receives a TLS record for longer than --timeout" {
	make_shards 2 i32 8000
	collctl run -n 2 -- broadcast --no-sync --json --timeout 500ms --limit-rate 8K in.0.npy --raw-file -o 'out.{rank}.npy' >j
	cmp in.0.npy out.1.npy
	not_faster j 8192
}

@test "the lowest limit counts in the prediction" {
	local r limit=()
	make_shards 2 i32 1000
	make_secret
	start_serve
	for r in 0 1; do
		rank "$r" 2 allreduce --no-sync --explain "in.$r.npy" -o "out.$r.npy" "${limit[@]}"
		limit=(--limit-rate 100K)
	done
	wait_ranks
	assert_ranks 2 0
	# 4000 bytes, which each rank sends at least once
	awk '/ms predicted/ { n++; if ($3 < 4000 / 102400 * 1000) exit 1 } END { exit !n }' 0.err || fail "$(<0.err)"
}

@test "bench obeys it" {
	local began=${EPOCHREALTIME/./}
	collctl run -n 2 -- bench allreduce -b 256K -e 256K -w 0 --iters 3 --limit-rate 1M --check
	((${EPOCHREALTIME/./} - began >= (3 * 262144 - MIB / 20) * 1000000 / MIB)) || fail "3 times 256 KiB took less time"
}

@test "what is no rate, and commands that have no use for one" {
	run -2 --separate-stderr collctl allreduce -n 1 --limit-rate 1023 a.npy -o b.npy
	[[ $stderr == *"--limit-rate: '1023' is not a rate of at least 1K"* ]]
	run -2 --separate-stderr collctl allreduce -n 1 --limit-rate fast a.npy -o b.npy
	[[ $stderr == *"--limit-rate"* ]]
	run -2 --separate-stderr collctl barrier -n 1 --limit-rate 1M
	[[ $stderr == *"limit-rate"* ]]
}
