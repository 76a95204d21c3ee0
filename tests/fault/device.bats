#!/usr/bin/env bats
# Faults of devices, over the stand-in: exit code 11 and a sentence that names the device; the old
# output stays, nothing is left behind, the other ranks end with the same words.

load ../cli/helpers

setup() {
	common_setup
	use_standin 2
	make_shards 2 f32 30000
	make_secret
	make_hostfile hosts 2
	cp in.0.npy out.0.npy
	cp in.0.npy out.1.npy
	# A rank that ends while a thread opens its devices leaves them as they are.
	export TSAN_OPTIONS=${TSAN_OPTIONS-}:report_thread_leaks=0
}

# job CODE TEXT [VARIABLE=VALUE...]: rank 1 has the variables and a device, rank 0 a device; all end with
# CODE and say TEXT, and the old outputs are whole
job() {
	local code=$1 text=$2 r
	shift 2
	for r in 0 1; do
		((r == 0)) || set -- "$@" --
		spawn_rank "$r" env "${@:1:r ? $# - 1 : 0}" "$COLLCTL" allreduce -a ring_chunked --no-sync -r "$r" -n 2 -H hosts \
			--secret-file job.key --device cuda:0,1 --timeout "${TIMEOUT:-100s}" "in.$r.npy" in.0.npy -o "out.$r.npy"
	done
	wait_ranks
	assert_ranks 2 "$code" "$text"
	cmp in.0.npy out.0.npy
	cmp in.0.npy out.1.npy
	assert_only_files hosts in.0.npy in.1.npy job.key out.0.npy out.1.npy 0.out 0.err 1.out 1.err
}

# bats test_tags=smoke
@test "59: the plug-in: missing, not readable, no shared object, another program's, of another version" {
	local needs
	job 11 'rank 1: --device cuda: the plug-in /none.so cannot be read' COLLCTL_PLUGIN_PATH=/none.so
	job 11 'rank 1: --device cuda: the plug-in cannot be opened: ' COLLCTL_PLUGIN_PATH="$PWD/hosts"
	job 11 'is no plug-in of collctl: it has no collctl_gpu_plugin' COLLCTL_PLUGIN_PATH="$(dirname "$COLLCTL")/libcollctl.so.0"
	cat >other.c <<-'C'
		struct { unsigned long size; unsigned version; } collctl_gpu_plugin = {16, 9};
	C
	cc -shared -fPIC -o "$BATS_FILE_TMPDIR/other.so" other.c
	rm other.c
	needs=$(sed -n 's/^#define GPU_PLUGIN_VERSION //p' "$ROOT/cuda/plugin.h")
	job 11 "other.so has version 9 (16 bytes), this program needs version $needs (" COLLCTL_PLUGIN_PATH="$BATS_FILE_TMPDIR/other.so"
	unset COLLCTL_PLUGIN_PATH
	mkdir bin
	cp "$COLLCTL" bin/ # with no plug-in beside it
	run -11 --separate-stderr bin/collctl allreduce -n 1 --device cuda in.0.npy -o x.npy
	[[ $stderr == *"the plug-in $PWD/bin/collctl-cuda.so cannot be read: No such file"* ]] || fail "$stderr"
	# What lies in the current folder is not opened, however the program was found.
	mkdir collctl
	cp "${COLLCTL%/*}/collctl-standin.so" collctl/collctl-cuda.so
	cp collctl/collctl-cuda.so .
	run -0 env PATH="$PWD/bin:$PATH" collctl version
	refute_output --partial stand-in
	COLLCTL_PLUGIN_PATH=collctl-cuda.so run -0 bin/collctl version # unless it is named
	assert_output --partial "stand-in, $PWD/collctl-cuda.so"
	run -0 bin/collctl version
	assert_line --partial 'GPU plug-in'
}

# bats test_tags=smoke
@test "59: no driver, no device, a number that is too high, lists that are none" {
	local list
	job 11 'rank 1: --device cuda: no NVIDIA driver is installed' COLLCTL_STANDIN_DRIVER=no
	job 11 'rank 1: --device cuda: the NVIDIA driver is for CUDA 12.4, but this plug-in needs ' COLLCTL_STANDIN_DRIVER=old
	job 11 'rank 1: --device cuda: GPU 0 has compute capability 7.0, but this plug-in needs 7.5' COLLCTL_STANDIN_CAPABILITY=70
	job 11 'rank 1: --device cuda: this machine has no device' COLLCTL_STANDIN_DEVICES=0
	job 11 'rank 1: --device cuda:1: this machine has 1 device, from 0 on' COLLCTL_STANDIN_DEVICES=1
	for list in gpu cuda: cuda:x 'cuda:0,' cuda:-1 cuda:0,0 'cuda:0 1' cuda:99999999999; do
		run -2 --separate-stderr "$COLLCTL" allreduce -n 1 --device "$list" in.0.npy -o x.npy
		[[ $stderr == *'--device'* ]] || fail "$list: $stderr"
	done
}

# hanging_plugin: $PLUGIN hangs while it is loaded, and writes a line to $HUNG before that
hanging_plugin() {
	PLUGIN=$BATS_FILE_TMPDIR/hang.so HUNG=$BATS_FILE_TMPDIR/hung
	cc -shared -fPIC -x c -o "$PLUGIN" - <<-'C'
		#include <fcntl.h>
		#include <stdlib.h>
		#include <unistd.h>
		__attribute__((constructor)) static void hang(void)
		{
			const char *to = getenv("HUNG");
			if (to && write(open(to, O_WRONLY), "\n", 1) != 1)
				abort();
			for (;;)
				pause();
		}
	C
	[[ -p $HUNG ]] || mkfifo "$HUNG"
}

# bats test_tags=smoke
@test "59: a driver that hangs, also while it is loaded: the end of --timeout names the rank" {
	local text='rank 1: --device cuda: the driver has not answered for 2 s (--timeout)'
	hanging_plugin
	TIMEOUT=2s job 11 "$text" COLLCTL_STANDIN_DRIVER=hang
	TIMEOUT=2s job 11 "$text" COLLCTL_PLUGIN_PATH="$PLUGIN"
	COLLCTL_STANDIN_DRIVER=hang run -11 --separate-stderr "$COLLCTL" allreduce -n 1 --device cuda --timeout 100ms --json \
		in.0.npy -o x.npy
	assert_equal "$(jq -r .error.message <<<"$output")" '--device cuda: the driver has not answered for 0.1 s (--timeout)'
}

@test "59: SIGINT while the driver hangs: 130, the other rank says so, nothing is left" {
	local r
	hanging_plugin
	for r in 0 1; do
		((r == 0)) || export HUNG COLLCTL_PLUGIN_PATH=$PLUGIN
		spawn_rank "$r" "$COLLCTL" allreduce --no-sync -r "$r" -n 2 -H hosts --secret-file job.key --device cuda:0 \
			"in.$r.npy" -o "out.$r.npy"
	done
	read -r <"$HUNG"
	kill -INT "${PIDS[1]}"
	wait_ranks
	assert_rank 1 130 SIGINT
	assert_rank 0 8 'rank 1: ended by SIGINT'
	cmp in.0.npy out.0.npy
	cmp in.0.npy out.1.npy
	assert_only_files hosts in.0.npy in.1.npy job.key out.0.npy out.1.npy 0.out 0.err 1.out 1.err
}

# bats test_tags=smoke
@test "60: device memory: too little for a window of one element a rank; else smaller windows" {
	local own=$((32 << 10)) # bytes of each device that the plug-in needs for itself
	job 11 'rank 1: --device cuda: GPU 0 cannot be opened (cudaErrorMemoryAllocation: ' COLLCTL_STANDIN_MEMORY=1000
	job 11 'rank 1: device cuda:0: no memory for ' "COLLCTL_STANDIN_MEMORY=$((own + 1000))"
	COLLCTL_STANDIN_MEMORY=$((own + 40000)) collctl run -n 2 -- allreduce --no-sync --device cuda:0 'in.{rank}.npy' -o 'x.{rank}.npy'
	collctl run -n 2 -- allreduce --no-sync 'in.{rank}.npy' -o 'y.{rank}.npy'
	cmp x.1.npy y.1.npy
}

# each_in_turn VARIABLE TEXT: VARIABLE=1, 2, ... until a job of one rank with two devices succeeds: it ends with 11
# and TEXT before, and the old output is whole. FAILURES: how often.
each_in_turn() {
	local k rc
	cp in.0.npy out.0.npy
	for ((k = 1; k < 100; k++)); do
		rc=0
		env "$1=$k" "$COLLCTL" allreduce -n 1 --no-sync --device cuda:0,1 in.0.npy in.1.npy -o out.0.npy 2>err || rc=$?
		((rc)) || break
		assert_equal "$rc" 11
		grep -q "$2" err || fail "$k: $(<err)"
		cmp in.0.npy out.0.npy
		assert_only_files hosts in.0.npy in.1.npy job.key out.0.npy out.1.npy err
	done
	((rc == 0)) || fail "$1=100 still fails"
	"$COLLCTL" allreduce -q -n 1 --no-sync in.0.npy in.1.npy -o want.npy
	cmp want.npy out.0.npy
	rm want.npy
	FAILURES=$((k - 1))
}

@test "60: each allocation of device memory and of pinned memory fails in turn" {
	each_in_turn COLLCTL_STANDIN_ALLOC_FAIL 'out of memory (stand-in))'
	((FAILURES >= 4)) || fail "only $FAILURES allocations"
	use_nccl # and memory for what NCCL cannot add
	COLLCTL_DEVICE_PATH=nccl each_in_turn COLLCTL_STANDIN_ALLOC_FAIL 'out of memory (stand-in))\|no memory for NCCL: cudaErrorMemoryAllocation'
	((FAILURES >= 16)) || fail "only $FAILURES allocations"
}

@test "61: each copy and reduction fails in turn, in a device's own memory and in that of another" {
	local opening="the devices' access .* fails (cudaErrorLaunchFailure\|NCCL cannot be used: "
	export COLLCTL_STANDIN_PEERS
	for COLLCTL_STANDIN_PEERS in 0 1; do
		each_in_turn COLLCTL_STANDIN_FAIL "launch failed (stand-in)), in step\|$opening"
		# With access, 16 try it first.
		((FAILURES >= (COLLCTL_STANDIN_PEERS ? 20 : 4))) || fail "only $FAILURES copies and reductions"
	done
	use_nccl
	export COLLCTL_DEVICE_PATH=nccl
	COLLCTL_STANDIN_PEERS=0
	# A maximum of floats is none of NCCL's: the second input is copied to host memory and to the first device.
	COLLCTL_OP=max each_in_turn COLLCTL_STANDIN_FAIL "launch failed (stand-in)), in step\|$opening"
	((FAILURES >= 11)) || fail "only $FAILURES copies and reductions" # of which NCCL begins with five
	for _ in 1 2 3 4 5; do # which of the devices' kernels is the k-th is not known
		each_in_turn COLLCTL_STANDIN_FAIL "(cudaErrorLaunchFailure.*, in step\|$opening"
		((FAILURES >= 5)) || fail "only $FAILURES copies and reductions"
	done
}

@test "61: the k-th copy or fold fails, for each k" {
	local k
	for k in $(seq 1 $((LONG ? 1 : 3)) 14); do
		job 11 'rank 1: device cuda:' "COLLCTL_STANDIN_FAIL=$k"
		grep -q 'GPU [01] .*launch failed (stand-in)), in step [0-9]* of [a-z_]* (' 1.err || fail "$k: $(cat 1.err)"
	done
}

@test "62: the k-th never completes: the end of --timeout names rank, device and step" {
	local k
	for k in 1 4 7; do
		# Allocations and releases wait for the device, too, in some orders.
		TIMEOUT=2s job 9 'rank 1: no progress for ' "COLLCTL_STANDIN_HANG=$k" "COLLCTL_STANDIN_DELAY=200,$k"
		grep -q 'device cuda:[01] has not completed step [0-9]* of .*(.* of [0-9]* elements)' 1.err || fail "$(cat 0.err 1.err)"
	done
}

@test "62: a stream waits for ever for a device that has failed: the end of --timeout names device and step" {
	local seed hung=0
	use_nccl
	for seed in 1 2 3; do
		# A maximum of floats is none of NCCL's. After its start, five copies and kernels, and those of the inputs, the eighth
		# copies that of the second device to the host. If it fails before the rest has begun: 11.
		run --separate-stderr env COLLCTL_STANDIN_FAIL=8,hang "COLLCTL_STANDIN_DELAY=100000,$seed" "$COLLCTL" allreduce -n 1 --no-sync \
			--timeout 2s --device cuda:0,1 --device-path nccl --op max in.0.npy in.1.npy -o out.0.npy
		((status != 9)) || hung=1
		case $status in
		9) [[ $stderr == *': device cuda:0 has not completed step '*' (local-reduce of 30000 elements)'* ]] || fail "$stderr" ;;
		11) [[ $stderr == *'GPU '[01]*'launch failed (stand-in)'* ]] || fail "$stderr" ;;
		*) fail "exit code $status: $stderr" ;;
		esac
		cmp in.0.npy out.0.npy
		assert_only_files hosts in.0.npy in.1.npy job.key out.0.npy out.1.npy
	done
	((hung)) || fail 'no stream waited'
}

# bats test_tags=smoke
@test "61, 62: the same where several threads run a rank's streams" {
	local k
	export COLLCTL_MEMORY=300K COLLCTL_STREAMS=3 COLLCTL_THREADS=3
	for k in 2 9 20; do
		job 11 'rank 1: device cuda:' "COLLCTL_STANDIN_FAIL=$k"
		grep -q 'GPU [01] .*launch failed (stand-in)), in step [0-9]* of [a-z_]* (' 1.err || fail "$k: $(<1.err)"
	done
	# The devices are opened for each thread: with access to each other's memory that needs 16 copies and kernels each time.
	for k in 5 20; do
		TIMEOUT=2s job 11 'rank 1: --device cuda: the driver has not answered for 2 s (--timeout)' "COLLCTL_STANDIN_HANG=$k" COLLCTL_STANDIN_PEERS=1
	done
	TIMEOUT=2s job 9 'rank 1: no progress for ' COLLCTL_STANDIN_HANG=9
	grep -q 'device cuda:[01] has not completed step [0-9]* of .*(.* of [0-9]* elements)' 1.err || fail "$(<1.err)"
}

@test "62: the same with types whose windows need more and more memory" {
	local k threads
	"$PYTHON" -c 'import numpy as np
a = {"a": np.ones(3000, "f4"), "b": np.ones(50000, "i4"), "c": np.ones(300, "u1"), "d": np.ones(90000), "e": np.ones(150000, "i8"), "f": np.ones(700000, "i2")}
for r in range(2): np.savez(f"many.{r}.npz", **a)'
	for threads in 1 3; do
		for k in 2 6 8; do
			run --separate-stderr env "COLLCTL_STANDIN_HANG=$k" timeout -k 1 30 "$COLLCTL" run -n 2 -- allreduce --no-sync --insecure --timeout 1s \
				--streams 3 --threads "$threads" --device cuda:0,1 'many.{rank}.npz' many.1.npz -o 'out.{rank}.npz'
			assert_failure 9
			[[ $stderr == *': device cuda:'[01]' has not completed step '* ]] || fail "$threads, $k: $stderr"
		done
	done
}

@test "62: SIGINT while a device hangs: 130, the other rank says so, nothing is left" {
	local r
	for r in 0 1; do
		spawn_rank "$r" env "COLLCTL_STANDIN_HANG=$((r * 3))" "$COLLCTL" allreduce -a ring_chunked --no-sync -r "$r" -n 2 -H hosts \
			--secret-file job.key --device cuda:0,1 -vv --progress json "in.$r.npy" -o "out.$r.npy"
	done
	until grep -q 'phase run' 1.err; do :; done
	kill -INT "${PIDS[1]}"
	wait_ranks
	assert_rank 1 130 SIGINT
	assert_rank 0 8 'rank 1: ended by SIGINT'
	cmp in.0.npy out.1.npy
}

@test "two ranks on one device at the same time" {
	export COLLCTL_STANDIN_DELAY=500,3
	collctl run -n 2 -- allreduce --no-sync --device cuda:0 'in.{rank}.npy' -o 'x.{rank}.npy'
	collctl run -n 2 -- allreduce --no-sync 'in.{rank}.npy' -o 'y.{rank}.npy'
	cmp x.0.npy y.0.npy
}

# bats test_tags=smoke
@test "73: NCCL is missing, too old, cannot start, or hangs while it starts: --device-path nccl says so" {
	local none='rank 1: --device cuda: NCCL cannot be used: '
	use_nccl
	job 11 "${none}/none.so: cannot open shared object file" COLLCTL_DEVICE_PATH=nccl COLLCTL_NCCL_PATH=/none.so
	job 11 "${none}NCCL has version 2.14, but this plug-in needs 2.18" COLLCTL_DEVICE_PATH=nccl COLLCTL_STANDIN_NCCL=old
	job 11 "${none}unhandled system error" COLLCTL_DEVICE_PATH=nccl COLLCTL_STANDIN_NCCL=fail
	job 11 "${none}unhandled system error" COLLCTL_DEVICE_PATH=nccl COLLCTL_STANDIN_NCCL=fail=1 # the trial
	job 11 "${none}CUDA_LAUNCH_BLOCKING=1 lets" COLLCTL_DEVICE_PATH=nccl CUDA_LAUNCH_BLOCKING=1
	TIMEOUT=8s # from here on it ends the job; a busy machine opens the devices in less
	job 11 "$none" COLLCTL_DEVICE_PATH=nccl COLLCTL_STANDIN_NCCL=hang
	grep -q 'did not start in time' 1.err
	job 11 "$none" COLLCTL_DEVICE_PATH=nccl COLLCTL_STANDIN_NCCL=hang=1
	grep -q 'did not start in time' 1.err
	job 11 "$none" COLLCTL_DEVICE_PATH=nccl COLLCTL_STANDIN_NCCL=dead # nor can it be ended
}

@test "73: a reduction by NCCL fails, or never ends; SIGINT meanwhile" {
	local r
	use_nccl
	job 11 'a reduction by NCCL failed on GPU 0 (unhandled system error (stand-in)), in step ' \
		COLLCTL_DEVICE_PATH=nccl COLLCTL_STANDIN_NCCL=fail=2
	TIMEOUT=2s job 9 'rank 1: no progress for ' COLLCTL_DEVICE_PATH=nccl COLLCTL_STANDIN_NCCL=hang=2
	grep -q 'device cuda:0 has not completed step [0-9]* of .*(local-reduce of [0-9]* elements)' 1.err || fail "$(cat 0.err 1.err)"
	for r in 0 1; do
		spawn_rank "$r" env "COLLCTL_STANDIN_NCCL=hang=$((r * 2))" "$COLLCTL" allreduce -a ring_chunked --no-sync -r "$r" -n 2 -H hosts \
			--secret-file job.key --device cuda:0,1 --device-path nccl -vv --progress json "in.$r.npy" in.0.npy -o "out.$r.npy"
	done
	until grep -q 'phase run' 1.err; do :; done
	kill -INT "${PIDS[1]}"
	wait_ranks
	assert_rank 1 130 SIGINT
	cmp in.0.npy out.1.npy
}

# library_program FILE: what comes from stdin, after a function job(device, path, inputs...) that runs a job by the library
library_program() {
	cat - >"$1.rest"
	cat >"$1" - "$1.rest" <<-'PY'
		import ctypes, os, sys
		lib = ctypes.CDLL(os.environ["COLLCTL_LIBRARY"])
		lib.collctl_new.restype = lib.collctl_message.restype = ctypes.c_void_p
		for name in ("set", "input", "output", "run", "free"):
		    getattr(lib, "collctl_" + name).argtypes = [ctypes.c_void_p] + [ctypes.c_char_p] * {"set": 2, "input": 1, "output": 1}.get(name, 0)
		def job(device, path, *inputs):
		    job = lib.collctl_new(b"allreduce")
		    for name, value in (("size", "1"), ("device", device), ("device-path", path), ("timeout", "2s")):
		        assert lib.collctl_set(job, name.encode(), value.encode()) == 0
		    for name in inputs:
		        assert lib.collctl_input(job, name.encode()) == 0
		    assert lib.collctl_output(job, b"out.0.npy") == 0
		    code = lib.collctl_run(job)
		    lib.collctl_free(job)
		    return code
	PY
	rm "$1.rest"
	export COLLCTL_LIBRARY=${COLLCTL%/*}/libcollctl.so.0
}

@test "a program that calls the library has no thread more after a job with devices, also one that failed" {
	no_sanitizers "a program without them cannot load the library"
	use_nccl
	library_program threads.py <<-'PY'
		before = os.listdir("/proc/self/task")
		code = job("cuda:0,1", sys.argv[1], "in.0.npy", "in.1.npy")
		print(code, sorted(os.listdir("/proc/self/task")) == sorted(before))
	PY
	assert_equal "$("$PYTHON" threads.py auto)" '0 True'
	assert_equal "$("$PYTHON" threads.py nccl)" '0 True'
	assert_equal "$(COLLCTL_STANDIN_FAIL=3 "$PYTHON" threads.py auto)" '11 True'
	assert_equal "$(COLLCTL_STANDIN_ALLOC_FAIL=3 "$PYTHON" threads.py auto)" '11 True'
	assert_equal "$(COLLCTL_STANDIN_NCCL=fail=2 "$PYTHON" threads.py nccl)" '11 True'
	assert_equal "$(COLLCTL_STANDIN_NCCL=hang=2 "$PYTHON" threads.py nccl)" '9 True'
	assert_equal "$(COLLCTL_STANDIN_NCCL=hang "$PYTHON" threads.py nccl)" '11 True'
}

@test "a device that has failed stays failed for the process; the others serve its next job" {
	no_sanitizers "a program without them cannot load the library"
	library_program again.py <<-'PY'
		print(*(job(device, "auto", "in.0.npy") for device in ("cuda:0", "cuda:0", "cuda:1")))
	PY
	assert_equal "$(COLLCTL_STANDIN_FAIL=1 "$PYTHON" again.py 2>err)" '11 11 0'
	"$COLLCTL" allreduce -q -n 1 --no-sync in.0.npy -o want.npy
	cmp want.npy out.0.npy
}
