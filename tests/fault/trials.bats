#!/usr/bin/env bats
# One fault a job, at every place or at a seeded sample of them (tests/fault/trials.py). Numbers are
# the rows of the table of faults.

load ../cli/helpers
load fault

export BATS_TEST_TIMEOUT=$((LONG ? 7200 : ${BATS_TEST_TIMEOUT:-600}))

setup_file() { compile_sysfault; }

# trials WHAT [ARGS...]
trials() {
	local all=()
	((!LONG)) || all=(--all)
	COLLCTL=$COLLCTL TMPDIR=$BATS_TEST_TMPDIR run "$PYTHON" "$FAULT_DIR/trials.py" "$@" "${all[@]}"
	echo "$output"
	((status == 0))
}

@test "17: SIGKILL in place of any system call of a rank" {
	need_sysfault
	trials kill "$SYSFAULT"
}

@test "67: SIGKILL in place of any system call of a rank that makes or uses memory lanes" {
	need_sysfault
	trials lanes "$SYSFAULT"
}

@test "30, 51: SIGKILL at the rename or after it: 8 and the rank named, unless it has said that it is done" {
	need_sysfault
	trials verdict "$SYSFAULT"
}

@test "51: a rank that stands still after the verdict: 8, named; it finishes when it goes on" {
	need_sysfault
	trials stopped "$SYSFAULT"
}

@test "18: a disk that is slower than --timeout: its heartbeats go on, the job succeeds" {
	local call job jobs=() r slow wrap
	need_sysfault
	no_leak_check
	make_shards 2 f32 20
	# Each fsync, and the rename, of rank 0 and of rank 1: a job each, side by side.
	for slow in 0 1; do
		for call in '1 fsync' '2 fsync' '1 renameat'; do
			job=$slow.${call/ /.}
			jobs+=("$job")
			make_hostfile "hosts.$job" 2
			for r in 0 1; do
				wrap=()
				# shellcheck disable=SC2206 # two words
				((r != slow)) || wrap=("$SYSFAULT" delay=15000 $call --)
				SYSFAULT_REPORT=report.$job spawn_rank "${#PIDS[@]}" "${wrap[@]}" "$COLLCTL" allreduce \
					--insecure -H "hosts.$job" -r "$r" --timeout 6s "in.$r.npy" -o "out.$job.$r.npy"
			done
		done
	done
	wait_ranks
	assert_ranks $((2 * ${#jobs[@]})) 0
	for job in "${jobs[@]}"; do
		assert_equal "$(cut -d' ' -f2 "report.$job")" 1
		check_numpy sum "out.$job.0.npy" "out.$job.1.npy" --in in.0.npy in.1.npy
	done
}

@test "51: --json after a loss: not ok, the rank, and the digest of an output that is in place" {
	local r wrap
	need_sysfault
	make_shards 3 f32 20
	make_hostfile hosts 3
	for r in 0 1 2; do
		wrap=()
		((r != 1)) || wrap=("$SYSFAULT" kill 1 renameat --)
		spawn_rank "$r" "${wrap[@]}" "$COLLCTL" allreduce -H hosts -r "$r" --insecure --json "in.$r.npy" -o "out.$r.npy"
	done
	wait_ranks
	for r in 0 2; do
		assert_rank "$r" 8 'rank 1: lost after the verdict: its output may be the old one'
		assert_equal "$(json "$r.out" '[.ok, .error.code, .error.rank, .error.phase, .output] | @json')" \
			'[false,8,1,"commit","out.'"$r"'.npy"]'
		assert_equal "$(json "$r.out" .digest)" "$(collctl info --json "out.$r.npy" | jq -r .digest)"
	done
	[[ ! -e out.1.npy ]]
	# The same command again makes it whole.
	rm -f .out.1.npy.*
	run -0 --separate-stderr collctl run -n 3 -- allreduce --insecure 'in.{rank}.npy' -o 'out.{rank}.npy'
	check_out sum 3
}

@test "39: two ranks killed at the same moment: 8, one cause on all survivors" {
	need_sysfault
	trials pairs "$SYSFAULT"
}

@test "17: rank 0 killed anywhere: named by all; nothing is left, and the same command succeeds" {
	need_sysfault
	start_serve
	trials coordinator "$SYSFAULT" "$STORE"
}

@test "40: SIGTERM or SIGINT with any system call of a rank: 143 or 130 there, 8 elsewhere, nothing left" {
	need_sysfault
	trials signals "$SYSFAULT"
}

# disk CALL ERROR
disk() {
	need_sysfault
	trials disk "$SYSFAULT" "$@"
}

@test "28: no space at the k-th write: 4" { disk pwrite64 ENOSPC; }
@test "28: an I/O error at the k-th write: 4" { disk pwrite64 EIO; }
@test "28: short writes go on" { disk pwrite64 short; }
@test "28: no space for the whole file: 4" { disk fallocate ENOSPC; }
@test "29: fsync fails: 4" { disk fsync EIO; }
@test "29: close fails: 4" { disk close EIO; }
@test "29: link fails: 4" { disk linkat EIO; }
@test "29: rename fails: 4 on every rank, the others' files are in place" { disk renameat EIO; }
@test "29: the output can't be created: 4" { disk openat EACCES; }
@test "36: the k-th read fails: 3" { disk pread64 EIO; }
@test "36: short reads go on" { disk pread64 short; }
@test "25: fsync is interrupted: no failure" { disk fsync EINTR; }
@test "25: linkat is interrupted: no failure" { disk linkat EINTR; }
@test "25: renameat is interrupted: no failure" { disk renameat EINTR; }
@test "25: connect is interrupted: no failure" { disk connect EINTR; }
@test "25: each byte arrives alone, TLS: right" { trials drip; }
@test "25: each byte arrives alone, plain: right" { trials drip --insecure; }

@test "90: a data connection reset at any byte, TLS: all ranks go back, the job succeeds" { trials reset; }
@test "90: a data connection reset at any byte, plain: all ranks go back, the job succeeds" { trials reset --insecure; }
@test "90: data connections reset again and again, TLS: the job succeeds, or ends with 8 after 8 times" { trials breaks; }
@test "90: data connections reset again and again, plain: the job succeeds, or ends with 8 after 8 times" { trials breaks --insecure; }
@test "23: a bit of any byte flipped, TLS: 10" { trials flip; }
@test "23: a bit of any byte flipped, plain: 10" { trials flip --insecure; }
@test "23: a bit of any byte of a control link flipped, TLS: dialled again, or 10 at both ends" { trials link; }
@test "23: a bit of any byte of a control link flipped, plain: dialled again, or 10 at both ends" { trials link --insecure; }
@test "19: a control link ends before the WELCOME: the rank is lost, not said to be started twice" { trials welcome; }
@test "89: a control link reset, cut or corrupt about the vote, TLS: all new or all old" { trials asks; }
@test "89: a control link reset, cut or corrupt about the vote, plain: all new or all old" { trials asks --insecure; }
@test "89: rank 0 does not answer who asks for the verdict: it does later, or the rank keeps its old output: 8" { trials unanswered; }
@test "24: cut at any byte, TLS: 10" { trials cut; }
@test "24: cut at any byte, plain: 10" { trials cut --insecure; }
@test "26: oversized, repeated, missing, unplanned frames: 10" { trials frames; }
@test "26: oversized, unknown, unexpected control messages: 10" { trials control; }
