#!/usr/bin/env bats
# Faults of memory lanes. Rank 2 stands still while it writes its output, so that a fault comes while spans are
# lent. Numbers are the rows of the table of faults.

load ../cli/helpers

setup_file() {
	"${CC:-cc}" -std=c17 -D_GNU_SOURCE -O1 -o "$BATS_FILE_TMPDIR/sysfault" "$HELPERS_DIR/../fault/sysfault.c"
}

setup() {
	common_setup
	make_secret
}

need_ptrace() {
	local rc=0
	"$BATS_FILE_TMPDIR/sysfault" count -- true || rc=$?
	((rc == 0)) || skip "ptrace is not to be had here"
	export SYSFAULT_GO=$PWD/go ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0 # LSAN does not work under ptrace
	[[ -p go ]] || mkfifo go
}

# start_held [OPTION...]: three ranks; rank 2 stands still in the middle of the run until `resume`
start_held() {
	local r wrap
	need_ptrace
	make_shards 3 f32 1000000
	make_hostfile hosts 3
	for r in 0 1 2; do
		echo old >"out.$r.npy"
		wrap=()
		((r != 2)) || wrap=("$BATS_FILE_TMPDIR/sysfault" hold 3 pwrite64 --)
		spawn_rank "$r" "${wrap[@]}" "$COLLCTL" allreduce --lanes memory -a ring_chunked --streams 1 --memory 1M \
			-H hosts -r "$r" --secret-file "$SECRET" "in.$r.npy" -o "out.$r.npy" "$@"
	done
	exec {GO}>go # rank 2 stands there
}

resume() { exec {GO}>&-; }

# assert_aborted R...: those ranks say the same, every output is the old one, no temporary file of theirs is left
assert_aborted() {
	local first=$1 r
	for r; do
		assert_equal "$(<"$r.err")" "$(<"$first.err")"
		assert_equal "$(find . -name ".out.$r.*" -type f)" ''
	done
	for r in 0 1 2; do
		assert_equal "$(<"out.$r.npy")" old
	done
}

@test "a rank that stands still and goes on: the job succeeds" {
	start_held
	resume
	wait_ranks
	assert_ranks 3 0
	check_out sum 3
}

@test "68: a stopped rank: 9, named by the others" {
	start_held --timeout 8s
	kill -STOP "${PIDS[1]}"
	resume
	wait_ranks 0 2
	assert_rank 0 9 'rank 1: no message for ' 'while data were moving'
	assert_rank 2 9 'rank 1: no message for '
	kill -CONT "${PIDS[1]}"
	wait_ranks
	((RC[1] != 0))
	assert_aborted 0 2
	assert_equal "$(find . -name '.*' -type f)" ''
}

@test "68: a stopped rank 0: 9, named by the others" {
	start_held --timeout 8s
	kill -STOP "${PIDS[0]}"
	resume
	wait_ranks 1 2
	assert_rank 1 9 'rank 0: '
	assert_rank 2 9 'rank 0: '
	kill -CONT "${PIDS[0]}"
	wait_ranks
	((RC[0] != 0))
	assert_equal "$(find . -name '.*' -type f)" ''
}

@test "68: stopped for less than the timeout: the job succeeds" {
	start_held
	kill -STOP "${PIDS[0]}" "${PIDS[1]}"
	resume
	kill -CONT "${PIDS[0]}" "${PIDS[1]}"
	wait_ranks
	assert_ranks 3 0
	check_out sum 3
}

@test "69: a rank killed before it has released what was lent to it: 8, named by the others" {
	start_held
	kill -KILL "${PIDS[2]}" # and the rank with its tracer
	wait_ranks
	assert_rank 0 8 'rank 2: lost while data were moving: connection '
	assert_rank 1 8 'rank 2: lost while data were moving: connection '
	assert_aborted 0 1
}

@test "69: a rank killed before what it has lent is released: 8, named by the others" {
	start_held
	kill -KILL "${PIDS[1]}"
	wait_ranks 1
	resume
	wait_ranks
	assert_rank 1 137
	assert_rank 0 8 'rank 1: lost while data were moving: connection '
	assert_rank 2 8 'rank 1: lost while data were moving: connection '
	assert_aborted 0 2
}

@test "69: rank 0 killed while spans are lent: 8, named by the others" {
	start_held
	kill -KILL "${PIDS[0]}"
	wait_ranks 0
	resume
	wait_ranks
	assert_rank 0 137
	assert_rank 1 8 'rank 0: lost while data were moving'
	assert_rank 2 8 'rank 0: lost while data were moving'
	assert_aborted # files; each tells of its own link
}

# few RANK CALL K N [OPTION...]: rank 0 sends to rank 1; the K-th CALL of one of them, and N - 1 after it, find no
# free descriptor
few() {
	local r wrap
	need_ptrace
	make_hostfile hosts 2
	rm -f out.?.npy
	for r in 0 1; do
		wrap=()
		((r != $1)) || wrap=("$BATS_FILE_TMPDIR/sysfault" "error=24*$4" "$3" "$2" --)
		spawn_rank "$r" "${wrap[@]}" "$COLLCTL" broadcast -v -a one_to_all -H hosts -r "$r" --secret-file "$SECRET" \
			--json in.0.npy -o "out.$r.npy" --memory 1M "${@:5}"
	done
	wait_ranks
}

# assert_few MEMORY TCP: the bytes, and how many lanes of rank 0 are of each kind
assert_few() {
	assert_ranks 2 0
	cmp out.0.npy in.0.npy
	cmp out.1.npy in.0.npy
	assert_equal "$(json 0.out '.lanes | "\(.memory) \(.tcp)"')" "$1 $2"
	(($2 == 0)) || assert_rank 0 0 'no memory lane to rank 1, so TCP: '
}

@test "70: no descriptor for a socket that dials a memory lane, for some time, or ever: TCP, or 11 with the reason" {
	make_shards 1 f32 200000
	few 1 accept4 1 1 --streams 2 --lanes memory
	assert_few 2 0
	few 1 accept4 1 2 --streams 2
	assert_few 0 2
	few 1 accept4 1 2 --lanes memory
	assert_ranks 2 11 'rank 0: no memory lane to rank 1: ' '--lanes auto uses TCP there'
	few 1 accept4 1 1000
	assert_ranks 2 11 'rank 1: a connection from another rank: accept: Too many open files'
	few 1 accept4 1 1000 --lanes tcp
	assert_ranks 2 11 'rank 1: a connection from another rank: accept: Too many open files'
	assert_only_files in.0.npy job.key hosts 0.out 0.err 1.out 1.err
}

@test "70: no descriptor for the memory of memory lanes: TCP" {
	local k
	make_shards 1 f32 200000
	for k in 1 2; do # the arena, the lane
		few 0 memfd_create $k 1 --streams 1
		assert_few 0 1
		assert_rank 0 0 'memfd_create: Too many open files'
	done
}
