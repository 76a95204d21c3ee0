#!/usr/bin/env bats
# shellcheck disable=SC2016 # for the ranks' shells
# Devices and the ranks of one host, over the stand-in: what devices copy is in memory that other ranks read
# (memory lanes), and several threads run a rank's streams. The oracle is --device cpu: the bits must be the same.

load helpers

setup() {
	common_setup
	use_standin 4 "COLLCTL_STANDIN_DELAY=200,$BATS_TEST_NUMBER"
	export COLLCTL_LANES=memory # TCP would be an error
}

# each_its_own SIZE SCRIPT OPTIONS...: the ranks of an allreduce run SCRIPT, which may set variables and $device;
# the results have the bits of a job without devices
each_its_own() {
	local size=$1 script=$2 r
	shift 2
	rm -f cpu.* out.*
	collctl run -n "$size" -- allreduce --no-sync --insecure -q "$@" 'in.{rank}.npy' -o 'cpu.{rank}.npy'
	collctl run -n "$size" -- sh -c 'device=cuda:0
		eval "$1"
		shift
		exec "$0" allreduce --no-sync --insecure --device "$device" --json "$@" "in.{rank}.npy" -o "out.{rank}.npy"' \
		"$COLLCTL" "$script" "$@" >json 2>err || fail "$script: $(<err)"
	for ((r = 0; r < size; r++)); do
		cmp "cpu.$r.npy" "out.$r.npy" || fail "$script: rank $r"
	done
	[[ $COLLCTL_LANES == tcp ]] || assert_equal "$(jq -cs 'map(.lanes.tcp) | unique' json)" '[0]'
}

# bats test_tags=smoke
@test "memory lanes: 2 and 4 ranks, one device and three, several types, small windows" {
	local t
	for t in f32 bf16 i8 c64; do
		shards "$t" exact 70001 70001 70001 70001
		# shellcheck disable=SC2046 # an option and its value
		DEVICES=cuda:0 both 2 allreduce $(hints "$t") 'in.{rank}.npy'
		# shellcheck disable=SC2046
		DEVICES=cuda:3,1,2 both 4 allreduce $(hints "$t") --memory 1M 'in.{rank}.npy' in.2.npy in.3.npy
	done
	make_shards 4 f32 60000 random
	DEVICES=cuda:0 both 4 allreduce 'in.{rank}.npy'
	DEVICES=cuda:0 both 4 alltoall --memory 300K 'in.{rank}.npy'
	DEVICES=cuda:0 both 3 allgather 'in.{rank}.npy'
}

# bats test_tags=smoke
@test "ranks with devices beside ranks without" {
	make_shards 4 f32 60000 random
	each_its_own 2 '[ "$COLLCTL_RANK" = 0 ] || device=cpu'
	each_its_own 2 '[ "$COLLCTL_RANK" = 1 ] || device=cpu'
	each_its_own 4 'case $COLLCTL_RANK in 0) device=cpu ;; 2) device=cuda:1,0 ;; esac' --memory 1M
}

# bats test_tags=smoke
@test "memory that the driver does not pin is copied to the lanes, and -v says so" {
	local ranks value
	make_shards 4 f32 60000 random
	for ranks in 0 1 '[0-9]'; do
		for value in fails no; do
			each_its_own 2 "case \$COLLCTL_RANK in $ranks) export COLLCTL_STANDIN_REGISTER=$value ;; esac" -v
			grep -q "rank $ranks: memory lanes copy elements of devices: [0-9]* bytes cannot be pinned (cudaErrorNotSupported: " err ||
				fail "$(<err)"
		done
	done
	each_its_own 4 '[ "$COLLCTL_RANK" != 2 ] || export COLLCTL_STANDIN_REGISTER=fails' --memory 1M -v
	assert_equal "$(grep -c 'memory lanes copy' err)" 1
	each_its_own 4 : -v
	run -1 grep 'memory lanes copy' err
}

@test "each allocation of a rank fails in turn: 11, or the bits of the host by copies" {
	local k rc copied=0
	make_shards 2 f32 60000 random
	collctl run -n 2 -- allreduce --no-sync --insecure -q 'in.{rank}.npy' -o 'cpu.{rank}.npy'
	for ((k = 1; k < 40; k++)); do
		rm -f out.*
		rc=0
		collctl run -n 2 -- sh -c '[ "$COLLCTL_RANK" = 0 ] || export COLLCTL_STANDIN_ALLOC_FAIL=$1
			exec "$0" allreduce --no-sync --insecure --device cuda:0 -v "in.{rank}.npy" -o "out.{rank}.npy"' \
			"$COLLCTL" "$k" 2>err || rc=$?
		if ((rc)); then
			assert_equal "$rc" 11
			grep -q 'rank 1: .*out of memory (stand-in)' err || fail "$k: $(<err)"
			continue
		fi
		cmp cpu.0.npy out.0.npy
		cmp cpu.1.npy out.1.npy
		grep -q 'memory lanes copy.*cudaErrorMemoryAllocation' err || break
		copied=$((copied + 1))
	done
	((k < 40 && k > 4 && copied >= 1)) || fail "$k allocations, $copied copied"
}

# bats test_tags=smoke
@test "several threads: the bits of one, memory lanes and TCP, all paths between devices" {
	local way lanes
	make_shards 4 f32 60000 random
	export COLLCTL_MEMORY=1M COLLCTL_STREAMS=3 COLLCTL_THREADS=3
	for lanes in memory tcp; do
		export COLLCTL_LANES=$lanes
		DEVICES=cuda:0 both 2 allreduce 'in.{rank}.npy'
		DEVICES=cuda:2,0,1 both 3 allreduce 'in.{rank}.npy' in.2.npy in.3.npy
		DEVICES=cuda:0 both 4 alltoall 'in.{rank}.npy'
	done
	for way in peer host; do
		COLLCTL_STANDIN_PEERS=1 DEVICES=cuda:0,1,2 both 2 allreduce --device-path $way 'in.{rank}.npy' in.2.npy in.3.npy
	done
	COLLCTL_STANDIN_REGISTER=fails DEVICES=cuda:0,1 both 2 allreduce 'in.{rank}.npy' in.2.npy
	each_its_own 2 ''
	assert_equal "$(jq -cs 'map(.where.threads) | unique' json)" '[3]'
	# No memory is left for another thread's streams.
	COLLCTL_STANDIN_MEMORY=150000 DEVICES=cuda:0 both 2 allreduce 'in.{rank}.npy'
}
