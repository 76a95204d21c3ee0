#!/usr/bin/env bats
# What the kernel may do and seldom does, at every call (tests/fault/flaky.c): the result has the same
# bits. Numbers are the rows of the table of faults.

load ../cli/helpers

setup_file() {
	"${CC:-cc}" -std=c17 -D_GNU_SOURCE -O1 -shared -fPIC -o "$BATS_FILE_TMPDIR/flaky.so" \
		"$HELPERS_DIR/../fault/flaky.c" -ldl
}

setup() {
	common_setup
	no_sanitizers 'must be loaded first'
	make_shards 3 f32 20000 # over 64 KiB: files have threads
	mkfifo go
	for mode in eintr byte small clock fsync; do
		cat >"$mode" <<-X
			#!/bin/sh
			FLAKY=$mode FLAKY_REPORT=$PWD/$mode.done FLAKY_GO=$PWD/go LD_PRELOAD=$BATS_FILE_TMPDIR/flaky.so exec "$COLLCTL" "\$@"
		X
		chmod +x "$mode"
	done
}

# each_job: jobs of three ranks whose outputs are compared; files of one, several and compressed members
each_job() {
	local options
	for options in '' --insecure '--no-sync --insecure -a ring_chunked --streams 2'; do
		# shellcheck disable=SC2086
		"$1" run -n 3 -- allreduce $options 'in.{rank}.npy' -o 'out.{rank}.npy' || return
		check_out sum 3 || return
	done
	py <<-'E'
		for r in range(3):
		    t = {n: some(d, (70, 10), [r, i]) for i, (n, d) in enumerate((("a", "f4"), ("b", "f2"), ("c", "i8")))}
		    np.savez_compressed(f"in.{r}.npz", **t)
		    save_safetensors(f"in.{r}.safetensors", t)
	E
	for suffix in npz safetensors; do
		collctl run -q -n 3 -- allreduce --insecure "in.{rank}.$suffix" -o "want.{rank}.$suffix"
		"$1" run -n 3 -- allreduce "in.{rank}.$suffix" -o "out.{rank}.$suffix" || return
		cmp want.0.$suffix out.2.$suffix || return
	done
	"$1" run -n 3 -- broadcast --raw-file in.0.npz -o 'copy.{rank}' && cmp in.0.npz copy.2
	assert_equal "$(find . -name '.*' -type f)" ''
}

@test "25: every other call is interrupted (EINTR): the same bits" {
	each_job ./eintr
	[[ -e eintr.done ]]
}

@test "25: the same by a store and a secret's file: every other call is interrupted" {
	start_serve # libmicrohttpd trusts that no call of a non-blocking socket is interrupted
	./eintr keygen key
	SECRET=$PWD/key COLLCTL=./eintr ranks 3 allreduce 'in.{rank}.npy' -o 'out.{rank}.npy'
	assert_ranks 3 0
	check_out sum 3
}

@test "25: one byte a read or write of a file: the same bits" {
	each_job ./byte
	[[ -e byte.done ]]
}

@test "25: the smallest socket buffers, full and empty all the time (EAGAIN): the same bits" {
	each_job ./small
	[[ -e small.done ]]
}

@test "41: the wall clock jumps by hours at every look: nothing, also at the store" {
	COLLCTL=./clock start_serve --ttl 60s
	make_secret
	COLLCTL=./clock ranks 3 allreduce 'in.{rank}.npy' -o 'out.{rank}.npy'
	assert_ranks 3 0
	check_out sum 3
	[[ -e clock.done ]]
}

@test "41: the wall clock is compared with the times of files and tickets, and with nothing else" {
	run grep -rnE 'CLOCK_REALTIME|CLOCK_TAI|gettimeofday|timespec_get|[^_a-z.]time\((NULL|0|&)|pthread_cond_timedwait' \
		"$ROOT"/{lib,cmd,algorithms} --include='*.[ch]'
	assert_equal "$(grep -v '/lib/base/clock\.h:' <<<"$output")" ''
	assert_equal "$(cd "$ROOT" && grep -rl clock_wall_ns lib cmd algorithms --include="*.[ch]" | sort | xargs)" \
		'cmd/invite.c lib/base/clock.h lib/coll/member.c lib/data/digest_cache.c lib/data/files/leftovers.c'
}

@test "40: SIGINT while the output is synced: 130 there, 8 elsewhere, nothing left" {
	local r binary
	make_hostfile hosts 3
	for r in 0 1 2; do
		echo old >"out.$r.npy"
		binary=$COLLCTL
		((r != 1)) || binary=./fsync
		spawn_rank "$r" "$binary" allreduce -H hosts -r "$r" --insecure "in.$r.npy" -o "out.$r.npy"
	done
	exec {go}>go # it is in fsync, and stays there until this is closed
	kill -INT "${PIDS[1]}"
	exec {go}>&-
	wait_ranks
	assert_rank 1 130 'rank 1: ended by SIGINT'
	for r in 0 1 2; do
		((r == 1)) || assert_rank "$r" 8 'rank 1: ended by SIGINT'
		assert_equal "$(<"out.$r.npy")" old
	done
	assert_equal "$(find . -name '.*' -type f)" ''
}

# syncing NAME COMMAND...: run it with outputs NAME.0 and NAME.1 in the background, until a rank is in fsync; it stays there until
# the descriptor ${GO[NAME]} is closed. RUNNER[NAME] is run.
syncing() {
	mkfifo "go.$1"
	echo old >"$1.0.npy"
	FLAKY=fsync FLAKY_GO=$PWD/go.$1 LD_PRELOAD=$BATS_FILE_TMPDIR/flaky.so exec "$COLLCTL" run "${@:2}" -- \
		allreduce 'in.{rank}.npy' -o "$1.{rank}.npy" 2>"$1.err" 3>&- &
	RUNNER[$1]=$!
	STARTED+=($!)
	exec {fd}>"go.$1"
	GO[$1]=$fd
}

says() { until grep -q "$2" "$1.err"; do kill -0 "${RUNNER[$1]}"; done; }

@test "64: ranks of run that wait for a slow disk when a signal comes, or a rank fails: run waits for them, and says so; a second signal kills" {
	local name rc
	declare -gA GO=() RUNNER=()
	# shellcheck disable=SC2016 # for the host's shell
	printf '#!/bin/sh\nexec setsid -w sh -c "$2"\n' >here # as sshd's, it is no child of ssh
	chmod +x here
	local there=(-H '127.0.0.2,127.0.0.1' --ssh "$PWD/here" --remote-path "$COLLCTL")
	local -A codes=([far]=143 [here]=143 [fails]=137 [far_twice]=143 [here_twice]=143)
	syncing far "${there[@]}"
	syncing here -n 2
	syncing fails -n 2
	kill -TERM "${RUNNER[far]}" "${RUNNER[here]}"
	kill -KILL "$(pgrep -P "${RUNNER[fails]}" -n)"
	for name in far here fails; do
		says $name 'collctl: waiting for ranks\? .* to end and to remove temporary files; a.* signal kills'
	done
	grep -q "(127.0.0.[12])" far.err
	syncing far_twice "${there[@]}"
	syncing here_twice -n 2
	for name in far_twice here_twice; do
		kill -TERM "${RUNNER[$name]}"
		says $name 'waiting for ranks\? '
		kill -TERM "${RUNNER[$name]}"
	done
	sleep 8 # The disk is slow. Programs are killed after 7 s.
	for name in far here fails; do
		eval "exec ${GO[$name]}>&-"
	done
	for name in "${!RUNNER[@]}"; do
		rc=0
		wait "${RUNNER[$name]}" || rc=$?
		assert_equal "$name $rc" "$name ${codes[$name]}"
		assert_equal "$(<"$name.0.npy")" old
		[[ ! -e $name.1.npy ]]
	done
	assert_equal "$(find . -name '.*' -type f)" ''
	for name in far_twice here_twice; do
		grep -q 'collctl: killed ranks\? .*: temporary files may stay beside the outputs' $name.err || fail "$(<$name.err)"
	done
}
