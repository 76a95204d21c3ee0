#!/usr/bin/env bats
# Whole jobs on the devices of a plug-in: build/collctl-cuda.so, or the one that COLLTEST_PLUGIN names.
# The oracle is --device cpu, which other tests compare with numpy: the bits must be the same. The
# lists of devices follow from their number. tests/run.sh runs this over the stand-in, whose variables are
# kept: COLLCTL_STANDIN_DEVICES=3 COLLTEST_PLUGIN=build/collctl-standin.so bats tests/gpu/jobs.bats

load ../cli/helpers

PLUGIN=$(realpath -m "${COLLTEST_PLUGIN:-${COLLCTL%/*}/collctl-cuda.so}")
KINDS='allreduce reduce reduce-scatter broadcast scatter gather allgather alltoall scan exscan'

setup() {
	local v kept n
	mapfile -t kept < <(env | grep -E '^COLLCTL_(STANDIN_|NCCL_PATH=)')
	common_setup
	for v in "COLLCTL_PLUGIN_PATH=$PLUGIN" "${kept[@]}"; do
		export "${v?}"
	done
	n=$("$ROOT/tests/gpu/devices.sh" "$COLLCTL" "$PLUGIN") || skip "$n"
	LISTS=(cuda:0)
	((n < 2)) || LISTS+=("cuda:1,0")
	((n < 3)) || LISTS+=("cuda:$(seq -s, 0 $((n < 4 ? n - 1 : 3)))")
	ALL=${LISTS[-1]} TURN=0 CASES=0
}

# next_lists: sets SOME to the next of the lists; in the long runs to all
next_lists() {
	SOME=("${LISTS[TURN++ % ${#LISTS[@]}]}")
	((!LONG)) || SOME=("${LISTS[@]}")
}

# one_of N: is it the turn of this case in a sample of one of N? All have it in the long runs.
one_of() { ((LONG || CASES++ % $1 == 0)); }

# ---- results ----

@test "every collective by every algorithm" {
	local kind a list r
	make_shards 4 i32 5001 # exact: an algorithm may add in any order
	for kind in $KINDS; do
		DEVICES=$ALL both 4 "$kind" 'in.{rank}.npy'
		for a in $(algorithms_of "$kind"); do
			next_lists
			for list in "${SOME[@]}"; do
				rm -f out.*
				collctl run -n 4 -- "$kind" --no-sync --insecure -q -a "$a" --device "$list" 'in.{rank}.npy' \
					-o 'out.{rank}.npy' 2>err || fail "$kind $a, $list: $(<err)"
				for r in 0 1 2 3; do
					[[ ! -e cpu.$r.npy ]] || cmp "cpu.$r.npy" "out.$r.npy" || fail "$kind $a, $list: rank $r"
				done
			done
		done
	done
	collctl run -n 2 -- exchange --insecure --steps 1 --device "$ALL" in.0.npy
}

@test "every type and operation, several inputs a rank" {
	local t op
	for t in "${DTYPES[@]}"; do
		shards "$t" exact 3001 3001 3001 3001
		for op in $(ops_of "$t"); do
			one_of 4 || continue
			next_lists
			for DEVICES in "${SOME[@]}"; do
				# shellcheck disable=SC2046 # an option and its value
				both 2 allreduce --op "$op" $(hints "$t") 'in.{rank}.npy' in.2.npy in.3.npy
			done
		done
	done
}

# bats test_tags=smoke
@test "random numbers: more inputs than devices, as many, fewer; in rank order" {
	make_shards 6 bf16 7001 random
	for DEVICES in "${LISTS[@]}"; do
		both 2 allreduce --dtype bf16 'in.{rank}.npy' in.2.npy in.3.npy in.4.npy
	done
	make_shards 3 f32 7001 random
	for DEVICES in "${LISTS[@]}"; do
		both 2 allreduce 'in.{rank}.npy' in.2.npy
		both 2 allreduce --order rank --stats 'in.{rank}.npy' in.2.npy
	done
}

# bats test_tags=smoke
@test "the rows cuda_*" {
	local kind a r
	make_shards 3 i32 40001
	for kind in allreduce broadcast; do
		DEVICES=$ALL both 3 "$kind" 'in.{rank}.npy'
		for a in $(all_algorithms | grep -oP "^$kind \Kcuda_.*"); do
			collctl run -n 3 -- "$kind" --no-sync --insecure --json --device "$ALL" -a "$a" 'in.{rank}.npy' \
				-o 'out.{rank}.npy' >json
			assert_equal "$(jq -rs 'map(.algorithm) | unique | join(" ")' json)" "$a"
			for r in 0 1 2; do cmp "cpu.$r.npy" "out.$r.npy"; done
		done
	done
}

# bats test_tags=smoke
@test "the rows cuda_*: the result goes back into all inputs, each on its device" {
	local a r k n=0
	make_shards 6 i32 40001
	collctl allreduce -q -n 1 --no-sync in.?.npy -o want.npy
	for a in $(all_algorithms | grep -oP "^allreduce \Kcuda_.*"); do
		for r in 0 1; do
			for k in 0 1 2; do
				cp "in.$((3 * r + k)).npy" "gpu$k.$r.npy"
			done
		done
		collctl run -n 2 -- allreduce --no-sync --insecure -q --device "$ALL" -a "$a" 'gpu'{0,1,2}'.{rank}.npy' \
			-o 'gpu0.{rank}.npy' -o 'gpu1.{rank}.npy' -o 'gpu2.{rank}.npy'
		for k in gpu?.?.npy; do
			cmp want.npy "$k" || fail "$a: $k"
			n=$((n + 1))
		done
	done
	assert_equal "$n" 24
}

@test "windows: little host memory, little device memory" {
	local json
	make_shards 2 f32 300000
	for DEVICES in "${LISTS[@]}"; do
		both 2 allreduce --memory 300K 'in.{rank}.npy'
		both 2 alltoall --device-memory 100K --streams 2 'in.{rank}.npy'
		json=$(collctl run -n 2 -- allreduce --no-sync --device "$DEVICES" --device-memory 256K --json 'in.{rank}.npy' \
			-o 'out.{rank}.npy' | jq -cs '.[0] | [.windows > 8, .device.memory]')
		assert_equal "$json" "[true,\"$DEVICES\"]"
		cmp out.0.npy out.1.npy
	done
}

@test "in place, checkpoints, weights" {
	DEVICES=$ALL
	oracle checkpoint make mixed 2
	SUFFIX=.safetensors both 2 allreduce --op avg --integers round 'in.{rank}.safetensors'
	SUFFIX=.safetensors both 2 allreduce --op avg --integers first --weight 0.25 --memory 64K 'in.{rank}.safetensors'
	SUFFIX=.safetensors both 2 broadcast in.0.safetensors
	make_shards 2 f32 50000 random
	both 2 allreduce --op avg --weight 3 'in.{rank}.npy'
	both 2 allreduce 'in.{rank}.npy'
	cp in.0.npy a.0.npy
	cp in.1.npy a.1.npy
	collctl run -n 2 -- allreduce --no-sync --device "$DEVICES" 'a.{rank}.npy' -o 'a.{rank}.npy'
	cmp a.0.npy cpu.0.npy
	cmp a.1.npy cpu.1.npy
}

@test "two and four ranks on one device; each rank on its own" {
	make_shards 4 f32 100000 random
	for DEVICES in cuda:0 cuda; do
		both 2 allreduce 'in.{rank}.npy' in.2.npy
		both 4 allreduce -a ring_chunked 'in.{rank}.npy'
		both 4 alltoall 'in.{rank}.npy'
	done
}

@test "bench with buffers on the devices, checked" {
	local kind
	for kind in $KINDS; do
		one_of 3 || continue
		collctl run -n 2 -- bench "$kind" --insecure --device cuda -b 4K -e 64K --iters 2 -w 1 --check --csv >csv
		assert_equal "$(awk -F, 'NR > 1 && $NF != 0' csv)" ''
	done
	collctl run -n 2 -- bench allreduce --insecure --device "$ALL" -a all -b 64K -e 64K --iters 2 -w 1 --check --csv >csv
	grep -q cuda_ring_chunked csv
	assert_equal "$(awk -F, 'NR > 1 && $NF != 0' csv)" ''
}

# ---- paths ----

# took: how the devices reached each other in the job of `json`, and whether NCCL added, of all ranks
took() { jq -cs 'map(.device | [.local, (.nccl.reductions // 0) > 0]) | unique' json; }

# by PATH: an allreduce of three inputs a rank by it, on as many devices; the bits are the host's. 11: $stderr
# says why not
by() {
	DEVICES=$ALL
	((${#LISTS[@]} < 3)) || DEVICES=cuda:0,1,2 # NCCL adds if each device has an input
	shards i32 exact 20001 20001 20001 20001
	run --separate-stderr collctl run -n 2 -- allreduce --no-sync -q --json --device "$DEVICES" --device-path "$1" 'in.{rank}.npy' \
		in.2.npy in.3.npy -o 'out.{rank}.npy'
	((status != 11)) || return 11
	assert_success
	printf '%s\n' "$output" >json
	both 2 allreduce --device-path "$1" 'in.{rank}.npy' in.2.npy in.3.npy
	cmp cpu.0.npy out.0.npy
	cmp cpu.1.npy out.1.npy
}

# bats test_tags=smoke
@test "--device-path auto and host" {
	by auto
	[[ $(took) =~ ^'[['('null'|'"peer"'|'"host"')',false]]'$ ]] || fail "$(took)"
	by host
	assert_equal "$(took)" "[[$( ((${#LISTS[@]} > 1)) && echo '"host"' || echo null),false]]"
}

@test "--device-path peer" {
	by peer || {
		assert_equal "$status" 11
		[[ $stderr == *"the devices cannot access each other's memory"* ]] || fail "$stderr"
		skip "the devices cannot access each other's memory"
	}
	assert_equal "$(took)" "[[$( ((${#LISTS[@]} > 1)) && echo '"peer"' || echo null),false]]"
}

@test "--device-path nccl" {
	local op
	by nccl || {
		[[ $stderr =~ [^$'\n']*'cannot open shared object file' ]] || fail "$stderr"
		skip "${BASH_REMATCH[0]##*: NCCL cannot be used: }"
	}
	assert_equal "$(took)" '[["nccl",true]]' # with one device, too
	for op in prod min max band; do
		both 2 allreduce --op "$op" --device-path nccl 'in.{rank}.npy' in.2.npy in.3.npy
	done
	make_shards 4 f32 20001 # exact
	both 2 allreduce --device-path nccl 'in.{rank}.npy' in.2.npy in.3.npy
	make_shards 4 bf16 3001 random # the plug-in's own kernels
	both 2 allreduce --device-path nccl --dtype bf16 'in.{rank}.npy' in.2.npy in.3.npy
}

# ---- faults ----

# start_moving: two ranks, of which rank 1 has moved a part of 16 seconds' data. Its stderr is a FIFO.
start_moving() {
	local r line
	make_secret
	make_hostfile hosts 2
	make_shards 2 f32 4000000
	mkfifo 1.err
	for r in 0 1; do
		echo old >"out.$r.npy"
		spawn_rank "$r" "$COLLCTL" allreduce -a ring_chunked --no-sync -r "$r" -n 2 -H hosts --secret-file job.key \
			--lanes tcp --limit-rate 1M --device "$ALL" --progress json "in.$r.npy" -o "out.$r.npy"
	done
	exec {SAID}<1.err
	while read -r -u "$SAID" line && [[ ! $line =~ '"phase":"run","moved":'[1-9] ]]; do :; done
}

# assert_ended CODE TEXT: rank 1 ended with CODE, rank 0 with 8 and TEXT; the old outputs stay, nothing
# else is left, and the devices do the next job
assert_ended() {
	wait_ranks
	cat <&"$SAID" >said
	mv said 1.err
	assert_rank 1 "$1"
	assert_rank 0 8 "$2"
	assert_equal "$(cat out.0.npy out.1.npy)" $'old\nold'
	assert_only_files hosts in.0.npy in.1.npy job.key out.0.npy out.1.npy 0.out 0.err 1.out 1.err
	DEVICES=$ALL both 2 allreduce 'in.{rank}.npy'
}

# bats test_tags=smoke
@test "SIGINT in the middle: 130, the other rank says so, nothing is left" {
	start_moving
	kill -INT "${PIDS[1]}"
	assert_ended 130 'rank 1: ended by SIGINT'
}

@test "a rank is killed in the middle: the other rank says so, nothing is left" {
	start_moving
	kill -KILL "${PIDS[1]}"
	assert_ended 137 'rank 1: lost while data were moving'
}
