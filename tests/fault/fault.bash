# Shared by the tests of faults, which load it after ../cli/helpers.
# shellcheck shell=bash

FAULT_DIR=$HELPERS_DIR/../fault

# compile_sysfault: for setup_file; need_sysfault finds the program
compile_sysfault() {
	"${CC:-cc}" -std=c17 -D_GNU_SOURCE -O1 -o "$BATS_FILE_TMPDIR/sysfault" "$FAULT_DIR/sysfault.c"
}

# need_sysfault: sets SYSFAULT, the program that makes system calls of a command fail (sysfault.c). The test is skipped where no
# process can be traced.
need_sysfault() {
	SYSFAULT=$BATS_FILE_TMPDIR/sysfault
	"$SYSFAULT" count -- true || skip 'ptrace is not to be had here'
}

# no_leak_check: for commands that run under sysfault: LSAN does not work under ptrace
no_leak_check() { export ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0; }

# start_proxy PORT ACTION [ARG]... (proxy.py): a proxy of 127.0.0.1:PORT. Sets PROXY, its own port, and PROXY_PID.
start_proxy() {
	rm -f ready
	mkfifo ready
	"$PYTHON" "$FAULT_DIR/proxy.py" "$@" --ready ready 3>&- &
	PROXY_PID=$!
	STARTED+=("$PROXY_PID")
	read -r -t 60 PROXY <ready
}

# data_through ACTION [ARG]...: what other ranks send to the rank with the options "${THROUGH[@]}" goes through such a proxy
data_through() {
	free_port
	start_proxy "$PORT" "$@"
	# The proxy sees what TCP carries, so the rank has no memory lanes.
	# shellcheck disable=SC2034 # for the test files
	THROUGH=(--listen "127.0.0.1:$PORT" --advertise "127.0.0.1:$PROXY" --lanes tcp)
}

# hold_data BYTES [OPTION...]: the proxy holds the data after so many bytes, and writes a line to `held`; `resume` lets them go on
hold_data() {
	rm -f held go
	mkfifo held go
	data_through hold "$@" --held held --go go
}

resume() { echo >go; }

# files_of_each_kind N: in.R.npy, .bin, .npz and .safetensors of two ranks; the first two have N elements of f32
files_of_each_kind() {
	make_shards 2 f32 "$1"
	head -c $((4 * $1)) /dev/zero | tee in.0.bin >in.1.bin
	py <<-'E'
		for r in range(2):
		    t = {"a": some("f4", (3, 5), [r])}
		    np.savez(f"in.{r}.npz", **t)
		    save_safetensors(f"in.{r}.safetensors", t)
	E
}
