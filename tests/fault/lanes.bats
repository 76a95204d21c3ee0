#!/usr/bin/env bats
# Faults of lanes. Those of memory lanes: rank 2 stands still while it writes its output, so that a fault comes while spans are
# lent. Numbers are the rows of the table of faults.

load ../cli/helpers
load fault
load nets

setup_file() { compile_sysfault; }

setup() {
	common_setup
	make_secret
}

teardown() {
	common_teardown
	net_close
	[[ -z ${GROUP-} ]] || rmdir "$GROUP"
}

may_hold() {
	need_sysfault
	no_leak_check
	export SYSFAULT_GO=$PWD/go
	[[ -p go ]] || mkfifo go
}

# start_held [OPTION...]: three ranks; rank 2 stands still in the middle of the run, or at the K-th call $HELD, until
# `go_on`
start_held() {
	local r wrap held
	read -ra held <<<"${HELD:-3 pwrite64}"
	may_hold
	make_shards 3 f32 1000000
	make_hostfile hosts 3
	for r in 0 1 2; do
		echo old >"out.$r.npy"
		wrap=()
		((r != 2)) || wrap=("$SYSFAULT" hold "${held[@]}" --)
		spawn_rank "$r" "${wrap[@]}" "$COLLCTL" allreduce --lanes memory -a ring_chunked --streams 1 --memory 1M \
			-H hosts -r "$r" --secret-file "$SECRET" "in.$r.npy" -o "out.$r.npy" "$@"
	done
	exec {GO}>go # rank 2 stands there
}

go_on() { exec {GO}>&-; }

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
	go_on
	wait_ranks
	assert_ranks 3 0
	check_out sum 3
}

@test "68: a stopped rank: 9, named by the others" {
	start_held --timeout 8s
	kill -STOP "${PIDS[1]}"
	go_on
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
	go_on
	wait_ranks 1 2
	assert_rank 1 9 'rank 0: '
	assert_rank 2 9 'rank 0: '
	kill -CONT "${PIDS[0]}"
	wait_ranks
	((RC[0] != 0))
	assert_equal "$(find . -name '.*' -type f)" ''
}

@test "68: a rank that stands still before it accepts a memory lane: 9, named by the others" {
	HELD='1 accept4' start_held --timeout 8s
	wait_ranks 0 1
	assert_rank 0 9 'rank 2: no message for '
	assert_rank 1 9 'rank 2: no message for '
	go_on
	wait_ranks
	((RC[2] != 0))
	assert_aborted 0 1
	assert_equal "$(find . -name '.*' -type f)" ''
}

@test "68: stopped for less than the timeout: the job succeeds" {
	start_held
	kill -STOP "${PIDS[0]}" "${PIDS[1]}"
	go_on
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
	go_on
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
	go_on
	wait_ranks
	assert_rank 0 137
	assert_rank 1 8 'rank 0: lost while data were moving'
	assert_rank 2 8 'rank 0: lost while data were moving'
	assert_aborted # files; each names its own link
}

# ---- a hostile rank ----

# hostile WORDS OPTION...: three ranks, of which rank 2 is hostile, with WORDS in its environment
hostile() {
	local r wrap words
	read -ra words <<<"$1"
	shift
	[[ -x ${COLLCTL%/*}/fault/hostile_rank ]] || skip "no ${COLLCTL%/*}/fault/hostile_rank: make unit"
	make_shards 3 f32 1000
	make_hostfile hosts 3
	for r in 0 1 2; do
		wrap=("$COLLCTL")
		((r != 2)) || wrap=(env "${words[@]}" "${COLLCTL%/*}/fault/hostile_rank")
		spawn_rank "$r" "${wrap[@]}" allreduce -a direct --streams 1 -H hosts -r "$r" "in.$r.npy" -o "out.$r.npy" --force "$@"
	done
	wait_ranks
}

# assert_stranger: it was dropped, and the job succeeded
assert_stranger() {
	assert_ranks 3 0
	check_out sum 3
	assert_rank 2 0 'connection to rank 1 at 127.0.0.1:' ': another process answers there, without the key of this lane'
	[[ $(<2.err) != *admitted* ]] || fail "$(<2.err)"
}

@test "80: a rank dials a lane as another rank: it is dropped, and the job succeeds" {
	hostile 'AS=0 TO=1' --lanes tcp --secret-file "$SECRET"
	assert_stranger
	hostile 'AS=0 TO=1' --lanes memory --secret-file "$SECRET"
	assert_stranger
	assert_rank 2 0 'by memory: the listener of a memory lane has another key'
	hostile 'AS=2 TO=1' --lanes tcp --secret-file "$SECRET" # its own lane: this test can tell
	assert_regex "$(<2.err)" '^admitted'
}

@test "80: a rank without the keys of its pairs: 9 after the timeout" {
	hostile KEYS=wrong --lanes tcp --secret-file "$SECRET" --timeout 8s
	assert_ranks 3 9 'another process answers there, without the key of this lane'
	assert_not_exist out.0.npy
}

@test "80: a rank with a certificate dials a lane as another rank: it is dropped, and the job succeeds" {
	local r
	collctl -q ca init pki
	for r in 0 1 2; do collctl -q ca issue pki --rank $r; done
	hostile 'AS=0 TO=1' --lanes tcp --tls-cert 'pki/rank-{rank}.pem' --tls-key 'pki/rank-{rank}.key' --tls-ca pki/ca.pem
	assert_stranger
}

@test "85: a rank scribbles in the memory of its lanes: 10, and no rank crashes" {
	local r seed wrap
	[[ -x ${COLLCTL%/*}/fault/hostile_rank ]] || skip "no ${COLLCTL%/*}/fault/hostile_rank: make unit"
	make_shards 3 f32 100000
	for seed in 1 2 3; do
		make_hostfile hosts 3
		for r in 0 1 2; do
			echo old >"out.$r.npy"
			wrap=("$COLLCTL")
			((r != 2)) || wrap=(env "SCRIBBLE=$seed" "${COLLCTL%/*}/fault/hostile_rank")
			spawn_rank "$r" "${wrap[@]}" allreduce -a direct --lanes memory --streams 1 -H hosts -r "$r" \
				--secret-file "$SECRET" "in.$r.npy" -o "out.$r.npy"
		done
		wait_ranks 0 1
		kill -KILL "${PIDS[2]}"
		wait_ranks
		assert_rank 0 10 'memory lane' corrupt
		assert_rank 1 10 'memory lane' corrupt
		assert_regex "$(<2.err)" '^scribbled into 4 lanes$'
		assert_aborted 0 1
	done
}

# few RANK CALL K N [OPTION...]: rank 0 sends to rank 1; the K-th CALL of one of them, and N - 1 after it, find no
# free descriptor
few() {
	local r wrap
	may_hold
	make_hostfile hosts 2
	rm -f out.?.npy
	for r in 0 1; do
		wrap=()
		((r != $1)) || wrap=("$SYSFAULT" "error=24*$4" "$3" "$2" --)
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

# ---- ranks of one host that do not see the same ----

# make_pair: inputs of two ranks, and the outputs over TCP
make_pair() {
	make_shards 2 f32 120017 random
	collctl run -n 2 -- allreduce -q --lanes tcp --secret-file "$SECRET" 'in.{rank}.npy' -o 'want.{rank}.npy'
}

# pair R WORDS...: the job, with ranks R and more behind WORDS
pair() {
	local from=$1 r wrap
	shift
	make_hostfile hosts 2
	rm -f out.?.npy
	for r in 0 1; do
		wrap=()
		((r < from)) || wrap=("$@")
		spawn_rank "$r" "${wrap[@]}" "$COLLCTL" allreduce -v --json -H hosts -r "$r" --secret-file "$SECRET" \
			"in.$r.npy" -o "out.$r.npy"
	done
	wait_ranks
}

# assert_pair HOSTS MEMORY TCP: the bytes that TCP gives, and the hosts and lanes of rank 0
assert_pair() {
	assert_ranks 2 0
	cmp out.0.npy want.0.npy
	cmp out.1.npy want.1.npy
	assert_equal "$(json 0.out '"\(.hosts) \(.lanes.memory) \(.lanes.tcp)"')" "$*"
}

# same_memory OPTION...: ranks in namespaces of `unshare OPTION...`, one and both
same_memory() {
	unshare "$@" true 2>why || skip "unshare $*: $(<why)"
	make_pair
	pair 1 unshare "$@"
	assert_pair 1 2 0
	pair 0 unshare "$@"
	assert_pair 1 2 0
}

@test "71: ranks of other user namespaces that map their user share memory" { same_memory -U -r; }
@test "71: ranks of other pid namespaces share memory" { same_memory -p -f; }
@test "71: ranks of other mount, IPC, UTS and cgroup namespaces share memory" { same_memory -m -i -u -C; }

@test "71: ranks of user namespaces that map no user use TCP for a reason" {
	local from
	unshare -U true 2>why || skip "unshare -U: $(<why)"
	make_pair
	for from in 0 1; do
		pair $from unshare -U
		assert_pair 1 0 2
		assert_rank 1 0 'so TCP: this user namespace does not tell which user it runs as'
	done
}

@test "71: ranks of other network namespaces: they count as hosts, or use TCP for a reason" {
	local r
	net_open 2
	make_pair
	for r in 0 1; do net_rank $r allreduce -v --json in.$r.npy -o out.$r.npy; done
	wait_ranks
	assert_pair 2 0 2
	assert_rank 0 0 'they are on 2 hosts'
	rm out.?.npy
	export COLLCTL_HOST_ID=one
	for r in 0 1; do net_rank $r allreduce -v --json in.$r.npy -o out.$r.npy; done
	wait_ranks
	assert_pair 1 0 2
	assert_rank 0 0 'they are on 1 host' 'no memory lane to rank 1, so TCP: ' 'Connection refused'
	rm out.?.npy
	for r in 0 1; do net_rank $r allreduce --lanes memory in.$r.npy -o out.$r.npy; done
	wait_ranks
	assert_ranks 2 11 'no memory lane to rank ' 'Connection refused' '--lanes auto uses TCP there'
	assert_not_exist out.0.npy
	assert_not_exist out.1.npy
}

@test "71: a rank in a chroot without /proc and /dev: another host, or shared memory if COLLCTL_HOST_ID says so" {
	local lib
	no_sanitizers "need /proc"
	chroot / true 2>why || skip "$(<why)"
	make_pair
	make_hostfile hosts 2
	mkdir root
	ldd "$COLLCTL" | grep -oE '/[^ ]+' | while read -r lib; do
		mkdir -p "root${lib%/*}"
		cp -L "$lib" "root$lib"
	done
	cp "$COLLCTL" root/collctl
	cp in.1.npy hosts "$SECRET" root
	confined() { # LANES...
		spawn_rank 0 "$COLLCTL" allreduce -v --json -H hosts -r 0 --secret-file "$SECRET" in.0.npy -o out.0.npy --force
		spawn_rank 1 chroot root /collctl allreduce -v --json -H hosts -r 1 --secret-file "${SECRET##*/}" in.1.npy \
			-o out.1.npy --force
		wait_ranks
		mv root/out.1.npy .
		assert_pair "$@"
	}
	confined 2 0 2
	COLLCTL_HOST_ID=one confined 1 2 0
}

# memory_group BYTES: a cgroup with a limit. Sets GROUP.
memory_group() {
	local at=/sys/fs/cgroup/memory limit=memory.limit_in_bytes
	[[ -e $at/$limit ]] || at=/sys/fs/cgroup limit=memory.max
	GROUP=$at/collctl.$BASHPID.$RANDOM
	mkdir "$GROUP" 2>why || { GROUP='' && skip "no memory cgroup can be made here: $(<why)"; }
	echo "$1" >"$GROUP/$limit" || skip "no memory cgroup with a limit can be had here"
}

@test "71: ranks in a memory cgroup with a limit share memory" {
	local r
	no_sanitizers "need more memory"
	make_shards 2 f32 5000000 random
	collctl run -n 2 -- allreduce -q --lanes tcp --secret-file "$SECRET" 'in.{rank}.npy' -o 'want.{rank}.npy'
	memory_group 40M
	# shellcheck disable=SC2016 # for the inner shell
	run -0 --separate-stderr sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$GROUP" "$COLLCTL" run -n 2 -- allreduce \
		--memory 8M --lanes memory --secret-file "$SECRET" 'in.{rank}.npy' -o 'out.{rank}.npy'
	for r in 0 1; do cmp out.$r.npy want.$r.npy; done
}
