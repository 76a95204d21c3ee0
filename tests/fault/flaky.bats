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
	PYTHONPATH=$HELPERS_DIR PYTHONDONTWRITEBYTECODE=1 "$PYTHON" -c '
from files import *
for r in range(3):
    t = {n: some(d, (70, 10), [r, i]) for i, (n, d) in enumerate((("a", "f4"), ("b", "f2"), ("c", "i8")))}
    np.savez_compressed(f"in.{r}.npz", **t)
    save_safetensors(f"in.{r}.safetensors", t)'
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
