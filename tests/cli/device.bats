#!/usr/bin/env bats
# Inputs and outputs in device memory (--device cuda), over the stand-in: host memory that only a
# device's tasks may touch, tasks that are late. The oracle is --device cpu, which the other tests
# compare with numpy: the bits must be the same.

load helpers

setup() {
	common_setup
	use_standin 4 "COLLCTL_STANDIN_DELAY=200,$BATS_TEST_NUMBER"
}

# bats test_tags=smoke
@test "every collective, on one device and on two" {
	local kind
	make_shards 3 f32 1000,3
	for kind in allreduce reduce reduce-scatter broadcast scatter gather allgather alltoall scan exscan; do
		DEVICES=cuda both 3 "$kind" 'in.{rank}.npy'
		DEVICES=cuda:1,3 both 3 "$kind" 'in.{rank}.npy'
	done
	DEVICES=cuda both 1 allreduce in.0.npy
	DEVICES=cuda both 1 exscan in.0.npy
	collctl run -n 3 -- barrier --insecure
	collctl run -n 2 -- exchange --insecure --steps 1 --device cuda in.0.npy
}

@test "every algorithm of every collective" {
	local kind a
	make_shards 4 i32 501 # exact: an algorithm may add in any order
	for kind in allreduce reduce reduce-scatter broadcast scatter gather allgather alltoall scan exscan; do
		for a in $(algorithms_of "$kind"); do
			both 4 "$kind" -a "$a" 'in.{rank}.npy'
		done
	done
}

@test "several inputs are folded on the devices: every type and operation" {
	local t op n=0
	export COLLCTL_STANDIN_PEERS=0 # all inputs on the first device, or one on each
	for t in "${DTYPES[@]}"; do
		COLLCTL_STANDIN_PEERS=$((1 - COLLCTL_STANDIN_PEERS))
		shards "$t" exact 301 301 301 301
		for op in $(ops_of "$t"); do
			# Each type with some of its operations; all in the long runs.
			((LONG || n++ % 3 == 0)) || continue
			# shellcheck disable=SC2046 # an option and its value
			both 2 allreduce --op "$op" $(hints "$t") 'in.{rank}.npy' in.2.npy in.3.npy
		done
	done
}

@test "more inputs than devices, as many, fewer; ranks with other numbers of them" {
	local r list peers
	make_shards 6 bf16 777 random
	for list in cuda:0 cuda:0,1 cuda:3,2,1,0; do
		for peers in 0 1; do
			COLLCTL_STANDIN_PEERS=$peers DEVICES=$list both 2 allreduce --dtype bf16 'in.{rank}.npy' in.2.npy in.3.npy in.4.npy
		done
	done
	make_secret
	make_hostfile hosts 3
	for where in 'cpu cpu cpu' 'cpu cuda:1 cuda:0,2'; do
		# shellcheck disable=SC2086 # words
		set -- $where
		for r in 0 1 2; do
			spawn_rank "$r" "$COLLCTL" allreduce -r "$r" -n 3 -H hosts --secret-file job.key --no-sync \
				--dtype bf16 --device "${*:r + 1:1}" "in.$r.npy" "in.$((r + 3)).npy" -o "$1.$r.${#where}.npy"
		done
		wait_ranks
		assert_ranks 3 0
	done
	for r in 0 1 2; do cmp cpu.$r.11.npy cpu.$r.19.npy; done
}

# bats test_tags=smoke
@test "the rows cuda_*: right, and they need a device" {
	local a
	make_shards 3 i32 4001
	for a in ring ring_chunked halving_doubling; do
		collctl run -n 3 -- allreduce --no-sync --insecure -q -a $a 'in.{rank}.npy' -o "host.$a.{rank}.npy"
	done
	for a in cuda_ring cuda_ring_chunked cuda_halving_doubling cuda_halving_doubling_pipelined; do
		collctl run -n 3 -- allreduce --no-sync --insecure --json --device cuda:0,1 -a $a 'in.{rank}.npy' \
			-o "$a.{rank}.npy" >json
		[[ $(jq -rs '.[0].algorithm' json) == "$a" ]]
		cmp host.ring.1.npy $a.1.npy
	done
	collctl run -n 3 -- broadcast --no-sync --insecure --device cuda -a cuda_broadcast_one_to_all in.0.npy -o 'b.{rank}.npy'
	cmp in.0.npy b.2.npy
	run -2 --separate-stderr collctl run -n 3 -- allreduce -a cuda_ring 'in.{rank}.npy' -o 'o.{rank}.npy'
	[[ $stderr == *'--algorithm cuda_ring needs --device cuda'* ]]
	for a in ring ring_chunked halving_doubling halving_doubling_pipelined; do
		run -0 collctl plan allreduce -n 5 -a "cuda_$a" --count 103 --verify
		assert_line --partial 'verified: all 5 schedules'
		assert_line --regexp 'copy +out.* <- gpu0\.in0'
		assert_line --regexp 'write +output0.* <- out'
		refute_line --regexp 'copy +gpu0\.in0.* <- out'
	done
}

@test "plan: a row cuda_* has one device, or those of --device; it is refused with --device cpu" {
	run -0 collctl plan allreduce -n 3 -a cuda_ring --count 99
	assert_line --partial 'gpu0.in0'
	COLLCTL_DEVICE=cpu run -0 collctl plan allreduce -n 3 -a cuda_ring --count 99 --device cuda --verify
	assert_line --partial 'gpu0.in0'
	run -0 collctl plan allreduce -n 3 -a ring --count 99 --device cpu
	refute_output --partial 'gpu0.in0'
	run -2 --separate-stderr collctl plan allreduce -n 3 -a cuda_ring --device cpu
	assert_equal "$stderr" 'collctl: --algorithm cuda_ring needs --device cuda'
	run -0 collctl plan allreduce -n 3 --count 99 --device cuda:0,1,2 --verify # an input on each
	assert_line --regexp 'read +gpu2.in2'
	assert_line --regexp 'local-reduce +gpu0.in0.* <- all inputs'
	run -0 collctl plan allreduce -n 3 --count 99 --device cuda:0,1,2 --compare
	assert_output --partial 'simulated with 3 devices a rank; the formula leaves devices out'
	COLLCTL_DEVICE=cpu run -2 --separate-stderr collctl plan broadcast -n 3 -a cuda_broadcast_one_to_all
	assert_equal "$stderr" 'collctl: --algorithm cuda_broadcast_one_to_all needs --device cuda'
}

@test "an output for each input, of fewer and more than devices, whether they access each other's memory or not" {
	local peers k n r inputs outputs
	make_shards 6 i32 30001
	for n in 1 2 3 5; do
		inputs=('in.{rank}.npy' in.2.npy in.3.npy in.4.npy in.5.npy)
		collctl run -n 2 -- allreduce --no-sync --insecure "${inputs[@]:0:n}" -o 'want.{rank}.npy'
		for peers in 0 1; do
			outputs=()
			for k in $(seq "$n"); do outputs+=(-o "out.{rank}.$k.npy"); done
			COLLCTL_STANDIN_PEERS=$peers collctl run -n 2 -- allreduce --no-sync --insecure --device cuda:0,1,2 --streams 2 \
				"${inputs[@]:0:n}" "${outputs[@]}"
			for r in 0 1; do
				for k in $(seq "$n"); do cmp "want.$r.npy" "out.$r.$k.npy"; done
			done
			rm out.*
		done
		rm want.*
	done
}

# bats test_tags=smoke
@test "windows: host memory and device memory bound them" {
	local json
	make_shards 2 f32 300000
	both 2 allreduce --memory 300K 'in.{rank}.npy'
	COLLCTL_STANDIN_MEMORY=232768 both 2 allreduce 'in.{rank}.npy' # 200,000 more than the plug-in's own
	both 2 alltoall --device-memory 100K --streams 2 'in.{rank}.npy'
	json=$(collctl run -n 2 -- allreduce --no-sync --device cuda:0,1 --device-memory 256K --json 'in.{rank}.npy' \
		-o 'o.{rank}.npy' | jq -cs '.[0] | [.windows > 8, .device.memory, .device.local]')
	assert_equal "$json" '[true,"cuda:0,1","host"]'
}

@test "with a device several windows run at a time, also where the ranks have all processors of the host" {
	local where
	make_shards 2 f32 4000000
	for where in cpu:1 cuda:3 cuda:0,1:3; do
		taskset -c "$(taskset -cp $$ | grep -oE '[0-9]+' | sed -n 2p)" "$COLLCTL" run -n 2 -- allreduce --no-sync --insecure --json \
			--device "${where%:*}" 'in.{rank}.npy' -o "out.${where%:*}.{rank}.npy" >json
		assert_equal "$(jq -cs 'map(.streams) | unique' json)" "[${where##*:}]"
	done
	cmp out.cpu.0.npy out.cuda.0.npy
	cmp out.cpu.1.npy out.cuda:0,1.1.npy
}

@test "checkpoints, sets, npz and raw files; weights, integers, stats, each, in place" {
	local r
	oracle checkpoint make mixed 2
	SUFFIX=.safetensors both 2 allreduce --op avg --integers round 'in.{rank}.safetensors'
	SUFFIX=.safetensors both 2 allreduce --op avg --integers first --weight 0.25 --memory 64K 'in.{rank}.safetensors'
	SUFFIX=.safetensors both 2 broadcast in.0.safetensors
	make_shards 2 f32 5000
	both 2 allreduce --order rank --stats 'in.{rank}.npy' in.0.npy
	both 2 allreduce --op avg --weight 3 'in.{rank}.npy'
	SUFFIX=.raw both 2 allreduce --format raw --dtype u8 'in.{rank}.npy'
	SUFFIX='' both 2 broadcast --raw-file in.0.npy
	for r in 0 1; do
		"$PYTHON" -c "import numpy as np, sys; np.savez(f'in.{sys.argv[1]}.npz', a=np.load(f'in.{sys.argv[1]}.npy'), b=np.arange(9.0))" $r
	done
	SUFFIX=.npz both 2 allreduce 'in.{rank}.npz'
	collctl run -n 2 -- allreduce --no-sync --each --device cuda:0,1 in.0.npy in.1.npy -o 'each.{rank}'
	collctl run -n 2 -- allreduce --no-sync --each in.0.npy in.1.npy -o 'want.{rank}'
	diff -r want.0 each.0
	cp in.0.npy a.0.npy
	cp in.1.npy a.1.npy
	collctl run -n 2 -- allreduce --no-sync --device cuda 'a.{rank}.npy' -o 'a.{rank}.npy'
	both 2 allreduce 'in.{rank}.npy'
	cmp a.1.npy cpu.1.npy
}

@test "--device cuda: the launcher's local rank, modulo the devices" {
	make_shards 2 f32 100
	export COLLCTL_STANDIN_DEVICES=2 COLLCTL_STANDIN_FAIL=1
	run -11 --separate-stderr env OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 \
		OMPI_COMM_WORLD_LOCAL_RANK=3 "$COLLCTL" allreduce -n 1 --device cuda in.0.npy -o out.npy
	[[ $stderr == *'device cuda:1: '* ]] || fail "$stderr"
	run -11 --separate-stderr "$COLLCTL" allreduce -n 1 --device cuda in.0.npy -o out.npy
	[[ $stderr == *'device cuda:0: '* ]] || fail "$stderr"
}

@test "bench with buffers on the devices, checked; version names the plug-in" {
	collctl run -n 2 -- bench allreduce --insecure --device cuda:0,1 -a all -b 4K -e 64K --iters 2 -w 1 --check --csv >csv
	grep -q cuda_ring_chunked csv
	assert_equal "$(awk -F, 'NR > 1 && $NF != 0' csv)" ''
	collctl run -n 3 -- bench allgather --insecure --device cuda -b 4K -e 4K --iters 2 --check --csv >csv
	run -0 collctl version
	assert_line --regexp '^GPU plug-in +stand-in, .*/collctl-standin.so: 4 devices$'
	assert_equal "$(collctl version --json | jq -c '[.gpu_plugin.name, .gpu_plugin.devices, .gpu_plugin_why]')" '["stand-in",4,null]'
}

# bench_rates DEVICE DEVICE [OPTIONS...]: a short bench of two ranks with these devices writes the file `tuning`
bench_rates() {
	# shellcheck disable=SC2016 # for the ranks' shells
	collctl run -n 2 -- sh -c 'device=$1
		[ "$COLLCTL_RANK" = 0 ] || device=$2
		shift 2
		exec "$0" bench allreduce --insecure -b 4K -e 4K -w 0 --iters 2 --tuning-out tuning --device "$device" "$@"' \
		"$COLLCTL" "$@"
}

# device_rates LIST: those of devices in `tuning`
device_rates() {
	jq -cS ".$1 | with_entries(select(.key | startswith(\"device_\")))" tuning
}

@test "bench measures devices for the tuning file: each rank its own, the slowest counts" {
	local before rate=20000000
	# The buffers fit the memory: a copy of 2 MiB takes a tenth of a second.
	export COLLCTL_STANDIN_MEMORY=8000000
	bench_rates cpu cpu
	jq -e '.rates | [.device_start, .device_copy, .device_fold] == [1e-5, 4e-11, 1e-12]' tuning # built in
	COLLCTL_STANDIN_RATE=$rate bench_rates cpu cuda:0,1
	jq -e "[.rates, .memory_rates] | all(.device_copy > 0.9 / $rate and .device_fold > 0 and
		.device_start > 0 and .device_start != 1e-5 and .device_fold != 1e-12)" tuning || fail "$(<tuning)"
	before=$(device_rates rates)
	bench_rates cpu cpu -a circulant
	assert_equal "$(device_rates rates)" "$before"
	assert_equal "$(device_rates memory_rates)" "$before"
	jq -e '[.measured[].times | keys[]] | index("circulant")' tuning
	bench_rates cuda cuda
	[[ $(device_rates rates) != "$before" ]] || fail "$before"
	assert_equal "$(device_rates memory_rates)" "$(device_rates rates)"
}

@test "plan counts with the rates of devices that bench measured" {
	local bytes=1048576 rate=20000000 where with without
	export COLLCTL_STANDIN_MEMORY=8000000
	COLLCTL_STANDIN_RATE=$rate bench_rates cuda cpu
	for where in '-n 2' '--hosts 2' '--hosts 1,1'; do
		# shellcheck disable=SC2086 # words
		with=$(collctl plan allreduce $where --device cuda --bytes $bytes --tuning tuning --json | jq .predicted.simulated)
		# shellcheck disable=SC2086
		without=$(collctl plan allreduce $where --bytes $bytes --tuning tuning --json | jq .predicted.simulated)
		# To the device and from it, one after the other or both at once.
		jq -en "$with - $without > 0.9 * $bytes / $rate" >/dev/null || fail "$where: $with, $without"
	done
}

@test "a device fails while bench measures it: 11, and the tuning file stays" {
	bench_rates cpu cpu
	cp tuning before
	COLLCTL_STANDIN_FAIL=3 run -11 --separate-stderr bench_rates cpu cuda
	[[ $stderr == *'rank 1: device cuda:1: a task '*'launch failed (stand-in)'* ]] || fail "$stderr"
	cmp before tuning
	COLLCTL_STANDIN_MEMORY=100000 run -11 --separate-stderr bench_rates cuda cpu
	[[ $stderr == *'device cuda:0: no memory for '* ]] || fail "$stderr"
	cmp before tuning
}

# what JSON... : "local" and the number of reductions by NCCL, as rank 0 says them
nccl_of() {
	jq -cs '.[0].device | [.local, (.nccl.reductions // 0) > 0, .nccl.version, .nccl.error]' "$@"
}

# bats test_tags=smoke
@test "--device-path: peer, host and nccl have the bits of the host; what ran is in the result" {
	local way t op peers
	shards i32 exact 20001 20001 20001 20001
	for peers in 0 1; do
		export COLLCTL_STANDIN_PEERS=$peers
		for way in auto host; do
			both 2 allreduce --device-path $way 'in.{rank}.npy' in.2.npy in.3.npy
		done
	done
	both 2 allreduce --device-path peer 'in.{rank}.npy' in.2.npy in.3.npy
	collctl run -n 2 -- allreduce --no-sync --device cuda:0,1 --device-path peer --json 'in.{rank}.npy' in.2.npy -o 'o.{rank}.npy' >json
	assert_equal "$(nccl_of json)" '["peer",false,null,null]'
	use_nccl
	for t in i8 u8 i32 u32 i64 u64; do
		shards "$t" exact 5003 5003 5003 5003
		for op in sum prod min max; do
			both 2 allreduce --op $op --device-path nccl 'in.{rank}.npy' in.2.npy in.3.npy
		done
	done
	collctl run -n 2 -- allreduce --no-sync --device cuda:0,1 --device-path nccl --json 'in.{rank}.npy' in.2.npy -o 'o.{rank}.npy' >json
	assert_equal "$(nccl_of json)" '["nccl",true,"2.18.0",null]'
	# What NCCL would compute otherwise is left to the kernels.
	for t in f16 bf16 i16 bool c64; do
		shards "$t" exact 301 301 301 301
		for COLLCTL_STANDIN_PEERS in 0 1; do
			# shellcheck disable=SC2046 # an option and its value
			both 2 allreduce $(hints "$t") --device-path nccl 'in.{rank}.npy' in.2.npy in.3.npy
		done
	done
	make_shards 4 f32 3001
	both 2 allreduce --op max --device-path nccl 'in.{rank}.npy' in.2.npy in.3.npy
	# One device: NCCL runs if it is asked for.
	shards i32 exact 3001 3001 3001
	for way in auto nccl; do
		DEVICES=cuda:2 both 2 allreduce --device-path $way 'in.{rank}.npy' in.2.npy
		collctl run -n 2 -- allreduce --no-sync --device cuda:2 --device-path $way --json 'in.{rank}.npy' in.2.npy -o 'o.{rank}.npy' >$way.json
	done
	assert_equal "$(nccl_of auto.json) $(nccl_of nccl.json)" '[null,false,null,null] ["nccl",true,"2.18.0",null]'
	run -11 --separate-stderr env COLLCTL_STANDIN_PEERS=0 "$COLLCTL" allreduce -n 1 --device cuda:0,1 --device-path peer in.0.npy in.1.npy -o o.npy
	[[ $stderr == *"the devices cannot access each other's memory"* ]] || fail "$stderr"
	run -0 --separate-stderr env COLLCTL_STANDIN_PEERS=0 "$COLLCTL" allreduce -n 1 -v --no-sync --device cuda:1,0 in.0.npy in.1.npy -o o.npy
	[[ $stderr == *"devices: cuda:1, cuda:0; without access to each other's memory, so all inputs are on cuda:1"* ]] || fail "$stderr"
}

@test "NCCL and sums of floats: only where it is asked for, not with --order rank, the same on all ranks" {
	local way
	use_nccl
	make_shards 6 f32 60000 random
	both 2 allreduce 'in.{rank}.npy' in.2.npy in.3.npy in.4.npy # auto
	DEVICES=cuda:0,1,2 both 2 allreduce 'in.{rank}.npy' in.2.npy in.3.npy in.4.npy
	for way in auto nccl; do
		collctl run -n 2 -- allreduce --no-sync --device cuda:0,1,2 --device-path $way --json 'in.{rank}.npy' in.2.npy in.3.npy in.4.npy \
			-o "$way.{rank}.npy" >$way.json
		cmp $way.0.npy $way.1.npy
	done
	assert_equal "$(nccl_of auto.json)" '["host",false,null,null]'
	assert_equal "$(nccl_of nccl.json)" '["nccl",true,"2.18.0",null]'
	"$PYTHON" -c 'import numpy as np
a, b = np.load("auto.0.npy"), np.load("nccl.0.npy")
size = sum(np.abs(np.load(f"in.{i}.npy").astype(np.float64)) * (1 + (i > 1)) for i in range(5))
assert (np.abs(a.astype(np.float64) - b) <= 1e-6 * size).all() and (a != b).any()'
	run -2 --separate-stderr collctl run -n 2 -- allreduce --order rank --device cuda:0,1 --device-path nccl 'in.{rank}.npy' -o 'o.{rank}.npy'
	[[ $stderr == *'--device-path nccl lets NCCL choose the order'* ]] || fail "$stderr"
}

@test "all kernels are loaded when NCCL starts, because its own wait for those of other devices" {
	use_nccl
	export DEVICES=cuda:0,1
	shards i32 exact 3001 3001 # two inputs on one device: NCCL adds the sum of a kernel
	both 1 allreduce --device-path nccl in.0.npy in.1.npy in.0.npy
	oracle checkpoint make mixed 2 # then kernels of other types
	SUFFIX=.safetensors both 2 allreduce --device-path nccl 'in.{rank}.safetensors' in.0.safetensors in.1.safetensors
}

@test "peer access that loses data is found, and host memory that cannot be registered is replaced" {
	local how
	shards i32 exact 3001 3001 3001
	export COLLCTL_STANDIN_PEERS=2
	both 2 allreduce --device-path auto 'in.{rank}.npy' in.2.npy
	run -11 --separate-stderr "$COLLCTL" allreduce -n 1 --device cuda:0,1 --device-path peer in.0.npy in.1.npy -o o.npy
	[[ $stderr == *"data between the devices' memories are lost"* ]] || fail "$stderr"
	for how in no fails; do
		COLLCTL_STANDIN_REGISTER=$how both 2 allreduce 'in.{rank}.npy' in.2.npy
	done
}

@test "devices whose tasks are done in the call, as measurements have them" {
	export COLLCTL_STANDIN_DIRECT=1 COLLCTL_STANDIN_DELAY=0 COLLCTL_STANDIN_PEERS DEVICES=cuda:0,1
	make_shards 4 f32 60000 random
	for COLLCTL_STANDIN_PEERS in 0 1; do
		both 2 allreduce --memory 1M 'in.{rank}.npy' in.2.npy in.3.npy
		both 2 alltoall --memory 300K --threads 2 'in.{rank}.npy'
	done
	use_nccl
	both 2 allreduce --device-path nccl --op max 'in.{rank}.npy' in.2.npy in.3.npy # not NCCL's: through pinned memory
}

@test "without peer access, little memory: what the plug-in needs for itself is less" {
	make_shards 4 f32 300000
	DEVICES=cuda:0,1,2,3
	both 2 allreduce --memory 8M 'in.{rank}.npy' in.2.npy in.3.npy
	collctl run -n 2 -- allreduce --no-sync --device $DEVICES --memory 8M --json 'in.{rank}.npy' in.2.npy in.3.npy -o 'o.{rank}.npy' >json
	[[ $(jq -s '.[0].windows' json) -lt 100 ]] || fail "$(jq .windows json) windows"
	COLLCTL_STANDIN_MEMORY=10000000 both 2 allreduce 'in.{rank}.npy' in.2.npy in.3.npy
}

@test "NCCL's messages stay out of the result; a driver that hangs does not stop version" {
	use_nccl
	COLLCTL_STANDIN_DRIVER=hang "$COLLCTL" version >said & # until the driver has had its time
	local version=$!
	make_shards 2 f32 3000
	NCCL_DEBUG=INFO collctl run -n 2 -- allreduce --no-sync --json --device cuda:0,1 --device-path nccl 'in.{rank}.npy' in.0.npy -o 'o.{rank}.npy' >json
	assert_equal "$(nccl_of json)" '["nccl",true,"2.18.0",null]'
	NCCL_DEBUG=VERSION NCCL_DEBUG_FILE=x collctl run -n 2 -- allreduce --no-sync --json --force --device cuda:0,1 --device-path nccl \
		'in.{rank}.npy' in.0.npy -o 'o.{rank}.npy' >json
	assert_equal "$(nccl_of json)" '["nccl",true,"2.18.0",null]'
	wait "$version"
	grep -qE '^GPU plug-in +stand-in, .*: the driver has not answered for 20 s$' said
}

@test "a rank runs, and pins its memory, on the NUMA node that is near all of its devices" {
	local nodes devices
	no_sanitizers 'do not run under ptrace'
	[[ -d /sys/bus/pci/devices && -d /sys/devices/system/node/node0 ]] || skip 'this machine tells nothing of its nodes'
	strace -o /dev/null true || skip 'strace cannot trace here'
	make_shards 2 f32 30000
	mkdir gpu{0,1}
	echo 0 >gpu0/numa_node
	for nodes in cuda:0=0 cuda:0,1=0 cuda:0,1=7 cuda:0,1=-1 cuda:1=; do
		devices=${nodes%=*}
		echo "${nodes#*=}" >gpu1/numa_node
		COLLCTL_STANDIN_PCI=../../../../proc/self/cwd/gpu strace -f -qq -o trace -e trace=set_mempolicy,sched_setaffinity \
			"$COLLCTL" allreduce -q -n 1 --no-sync --force --device "$devices" in.0.npy in.1.npy -o o.npy
		if [[ $nodes == *=0 ]]; then
			grep -q 'set_mempolicy(MPOL_PREFERRED, \[0x0*1[],]' trace || fail "$nodes: $(<trace)"
			(($(grep -c 'sched_setaffinity(0, ' trace) >= 2)) || fail "$nodes: $(<trace)" # there, and free again
		else
			! grep set_mempolicy trace || fail "$nodes"
		fi
	done
}

@test "without --device-path nccl no job opens NCCL, not even one that adds many integers" {
	local way
	use_nccl dead # if it starts, it never ends
	make_shards 4 i32 400000
	collctl run -n 2 -- allreduce --no-sync 'in.{rank}.npy' in.2.npy in.3.npy -o 'cpu.{rank}.npy'
	for way in auto peer host; do
		COLLCTL_STANDIN_PEERS=1 collctl run -n 2 -- allreduce --no-sync --device cuda:0,1 --device-path $way --json \
			'in.{rank}.npy' in.2.npy in.3.npy -o 'o.{rank}.npy' >json
		cmp cpu.0.npy o.0.npy
		[[ $(jq -cs 'map(.device.nccl) | unique' json) == '[null]' ]] || fail "$way: $(<json)"
	done
}

@test "NVIDIA's own NCCL, which cannot start without a driver" {
	local nccl
	for nccl in /usr/local/cuda/lib*/libnccl.so.2 "${COLLCTL%/*}"/cuda-toolkit/nvidia/nccl/lib/libnccl.so.2; do
		[[ ! -e $nccl ]] || break
	done
	[[ -e $nccl ]] || skip 'no libnccl.so.2 of a CUDA toolkit'
	[[ ! -e /dev/nvidiactl ]] || skip 'there is a driver'
	make_shards 2 i32 100000
	export COLLCTL_NCCL_PATH=$nccl
	run -11 --separate-stderr "$COLLCTL" allreduce -n 1 --no-sync --device cuda:0,1 --device-path nccl in.0.npy in.1.npy -o x.npy
	[[ $stderr == *'NCCL cannot be used: unhandled cuda error'* ]] || fail "$stderr"
	both 1 allreduce in.0.npy in.1.npy
}
