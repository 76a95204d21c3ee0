#!/usr/bin/env bats
# Faults while data moves. Rank 0's data go to rank 1 through a proxy that holds the stream after some
# bytes, so that a fault comes in the middle. Numbers are the rows of the table of faults.

load ../cli/helpers
load fault


setup() {
	common_setup
	make_secret
	make_shards 3 f32 4000000
	for r in 0 1 2; do
		echo old >"out.$r.npy"
	done
}

# start_held [OPTION...]: three ranks, stopped in the middle of the run; `resume` lets them go on
start_held() {
	local r options=()
	hold_data 3000000
	make_hostfile hosts 3
	for r in 0 1 2; do
		options=()
		((r != 1)) || options=("${THROUGH[@]}")
		spawn_rank "$r" "$COLLCTL" allreduce -a ring_chunked --streams 1 --memory 8M -H hosts -r "$r" \
			--secret-file "$SECRET" "in.$r.npy" -o "out.$r.npy" "${options[@]}" "$@"
	done
	read -r -t 60 <held
}

# assert_aborted R...: those ranks say the same, every output is the old one, no temporary file is left
assert_aborted() {
	local first=$1 r
	for r; do
		assert_equal "$(<"$r.err")" "$(<"$first.err")"
	done
	for r in 0 1 2; do
		assert_equal "$(<"out.$r.npy")" old
	done
	assert_equal "$(find . -name '.*' -type f)" ''
}

@test "a stream that is held and goes on: the job succeeds" {
	start_held
	resume
	wait_ranks
	assert_ranks 3 0
	check_out sum 3
}

@test "18: a stopped rank: 9, named by the others" {
	start_held --timeout 8s
	kill -STOP "${PIDS[2]}"
	resume
	wait_ranks 0 1
	assert_rank 0 9 'rank 2: no message for ' 'while data were moving'
	assert_rank 1 9 'rank 2: '
	kill -CONT "${PIDS[2]}"
	wait_ranks
	((RC[2] != 0))
	assert_aborted 0 1
}

@test "18: a stopped rank 0: 9, named by the others" {
	start_held --timeout 8s
	kill -STOP "${PIDS[0]}"
	resume
	wait_ranks 1 2
	assert_rank 1 9 'rank 0: '
	assert_rank 2 9 'rank 0: '
	kill -CONT "${PIDS[0]}"
	wait_ranks
	((RC[0] != 0))
	assert_aborted # files
}

@test "18: stopped for less than the timeout: the job succeeds" {
	local r
	start_held --timeout 20s
	for r in 0 1 2; do
		kill -STOP "${PIDS[r]}"
	done
	resume
	read -r -t 1 <>held || true # the fault's duration: nobody writes
	for r in 2 1 0; do
		kill -CONT "${PIDS[r]}"
	done
	wait_ranks
	assert_ranks 3 0
	check_out sum 3
}

@test "17: a rank killed in the middle: 8, named by the others" {
	start_held
	kill -KILL "${PIDS[2]}"
	wait_ranks
	assert_rank 2 137
	assert_rank 0 8 'rank 2: lost while data were moving: connection '
	assert_rank 1 8 'rank 2: lost while data were moving: connection '
	assert_aborted 0 1
}

@test "17: rank 0 killed in the middle: 8, named by the others" {
	start_held
	kill -KILL "${PIDS[0]}"
	wait_ranks
	assert_rank 0 137
	assert_rank 1 8 'rank 0: lost while data were moving'
	assert_rank 2 8 'rank 0: lost while data were moving'
	assert_aborted # files; each names its own link
}

# signalled SIGNAL CODE RANK
signalled() {
	local r others=()
	start_held
	kill -"$1" "${PIDS[$3]}"
	wait_ranks
	for r in 0 1 2; do
		if ((r == $3)); then
			assert_rank "$r" "$2" "rank $3: ended by SIG$1"
		else
			assert_rank "$r" 8 "rank $3: ended by SIG$1"
			others+=("$r")
		fi
	done
	assert_aborted "${others[@]}"
}

# bats test_tags=smoke
@test "40: SIGTERM on one rank: 143 there, 8 elsewhere" { signalled TERM 143 1; }
@test "40: SIGINT on one rank: 130 there, 8 elsewhere" { signalled INT 130 2; }
@test "40: SIGTERM on rank 0: 143 there, 8 elsewhere" { signalled TERM 143 0; }

@test "40: SIGTERM while stdin is read: 143" {
	mkfifo endless
	# shellcheck disable=SC2016
	spawn_rank 0 bash -c 'exec "$@" <>endless' - "$COLLCTL" allreduce -n 1 -r 0 --insecure - -o out.0.npy
	head -c 131072 in.0.npy >endless # more than a pipe holds: it is being read
	kill -TERM "${PIDS[0]}"
	wait_ranks
	assert_rank 0 143
	assert_aborted
}

@test "36: an input truncated while the job runs: 3" {
	start_held
	truncate -s 100 in.2.npy
	resume
	wait_ranks
	assert_ranks 3 3 'rank 2: in.2.npy: became shorter'
	assert_aborted 0 1 2
}

@test "36: an input changed while the job runs: 3" {
	start_held
	printf '\1' | dd of=in.1.npy bs=1 seek=500 conv=notrunc status=none
	resume
	wait_ranks
	assert_ranks 3 3 'rank 1: in.1.npy: was changed'
	assert_aborted 0 1 2
}

@test "52: an input rewritten in place, its modification time put back: 3" {
	touch -r in.1.npy before
	start_held
	printf '\1' | dd of=in.1.npy bs=1 seek=500 conv=notrunc status=none
	touch -r before in.1.npy
	resume
	wait_ranks
	assert_ranks 3 3 'rank 1: in.1.npy: was changed while it was read: its ctime differs'
	rm before
	assert_aborted 0 1 2
}

@test "36: an input that can't be opened: 3" {
	rm in.1.npy
	run --separate-stderr collctl run -n 3 -- allreduce 'in.{rank}.npy' -o 'out.{rank}.npy'
	((status == 3))
	[[ $stderr == *in.1.npy* ]]
	assert_aborted
}

@test "28: a full disk on one rank: 4" {
	mkdir full
	mount -t tmpfs -o size=4m collctl-test full 2>/dev/null || skip 'no tmpfs to be had here'
	# shellcheck disable=SC2016
	run --separate-stderr collctl run -n 3 -- bash -c \
		'out=out.$COLLCTL_RANK.npy; [[ $COLLCTL_RANK != 1 ]] || out=full/out.npy
		exec "$0" allreduce "in.$COLLCTL_RANK.npy" -o "$out"' "$COLLCTL"
	local left
	left=$(find full -type f)
	umount full
	((status == 4))
	assert_equal "$left" ''
	assert_equal "$(grep -c 'rank 1: full/out.npy: .*No space left on device' <<<"$stderr")" 1
	assert_aborted
}

@test "28: stdout is full: 4 on every rank, the others' files are in place; its reader is gone: 4, all is old" {
	local r
	[[ -c /dev/full ]] || skip 'no /dev/full'
	make_shards 3 f32 20000
	make_hostfile hosts 3
	full() { exec "$@" >/dev/full; }
	gone() { exec "$PYTHON" -c 'import os, sys
r, w = os.pipe()
os.close(r)
os.dup2(w, 1)
os.execv(sys.argv[1], sys.argv[1:])' "$@"; }
	for to in full gone; do
		for r in 0 1 2; do
			echo old >"out.$r.npy"
		done
		spawn_rank 0 "$COLLCTL" allreduce -H hosts -r 0 --insecure in.0.npy -o out.0.npy
		spawn_rank 1 $to "$COLLCTL" allreduce -H hosts -r 1 --insecure in.1.npy -o -
		spawn_rank 2 "$COLLCTL" allreduce -H hosts -r 2 --insecure in.2.npy -o out.2.npy
		wait_ranks
		assert_ranks 3 4 'rank 1: stdout: '
		# That the reader is gone is known before the vote.
		if [[ $to == gone ]]; then
			assert_equal "$(cat out.0.npy out.2.npy)" $'old\nold'
		else
			check_numpy sum out.0.npy out.2.npy --in in.0.npy in.1.npy in.2.npy
		fi
	done
	assert_equal "$(find . -name '.*' -type f)" ''
}

@test "29: what forbids to replace an output, or to rename in its folder, is found before data move: 4, and all is old" {
	local r set
	make_shards 3 f32 20
	mkdir folder
	for set in 'i out.1.npy' 'a out.1.npy' 'i folder' 'a folder'; do
		for r in 0 1 2; do
			echo old | tee out.$r.npy >folder/out.$r.npy
		done
		chattr "+${set% *}" "${set#* }" 2>/dev/null || skip 'no attributes of files to be had here'
		run collctl run -n 3 -- allreduce --insecure 'in.{rank}.npy' -o "$([[ $set != *folder ]] || echo folder/)out.{rank}.npy"
		chattr "-${set% *}" "${set#* }"
		((status == 4)) || fail "$set: $status: $output"
		[[ $output == *"chattr -${set%% *} changes that"* ]] || fail "$set: $output"
		for r in 0 1 2; do
			assert_equal "$(<out.$r.npy) $(<folder/out.$r.npy)" 'old old'
		done
	done
	assert_equal "$(find . -name '.*' -type f)" ''
}

@test "35: a symlink, a folder or a FIFO is no output of any kind: 4, and nothing is touched" {
	local kind command target what code
	files_of_each_kind 20
	mkdir each
	for kind in npy bin npz safetensors files gather each; do
		target=target.$kind
		case $kind in
		npy | npz | safetensors) command=(allreduce "in.{rank}.$kind" -o "$target") ;;
		bin) command=(allreduce --dtype f32 'in.{rank}.bin' -o "$target") ;;
		files) command=(broadcast --raw-file in.0.npz -o "$target") ;;
		gather) target=target.npy command=(gather 'in.{rank}.npy' -o "$target") ;;
		each) target=each/in.0.npy command=(broadcast --each in.0.npy -o each) ;;
		esac
		for what in symlink folder FIFO; do
			echo elsewhere >elsewhere
			case $what in
			symlink) ln -s "$PWD/elsewhere" "$target" ;;
			folder) mkdir "$target" ;;
			FIFO) mkfifo "$target" ;;
			esac
			run --separate-stderr collctl run -n 2 -- "${command[@]}" --insecure
			code=4
			[[ $kind,$what != npz,folder && $kind,$what != safetensors,folder ]] || code=2 # a set's name
			((status == code)) || fail "$kind, $what: $status: $stderr"
			grep -qF "$target: is " <<<"$stderr" || fail "$kind, $what: $stderr"
			assert_equal "$(<elsewhere)" elsewhere
			rm -d "$target"
		done
	done
	assert_equal "$(find . -name '.*' -type f)" ''
}

@test "40: SIGTERM about the time of the vote: all commit, or none" {
	make_shards 4 f32 2000000
	make_hostfile hosts 4
	run -0 "$PYTHON" "$FAULT_DIR/vote.py" "$COLLCTL" $((LONG ? 100 : 12))
}

# needed: the number of descriptors that a message demands
needed() { sed -nE 's/.*at least ([0-9]+) are needed.*/\1/p' | head -n 1; }

@test "32: too few descriptors for the files of a folder, of a set and of the output: 11, with how many are needed" {
	local what limit tries
	mkdir tree set
	"$PYTHON" - <<-'E'
		import json, struct
		names = [f"model-{i:05}.safetensors" for i in range(40)]
		for i, name in enumerate(names):
		    open(f"tree/{i}", "w").write("x" * 70000)  # small ones are not kept open
		    head = json.dumps({f"t{i}": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
		    open(f"set/{name}", "wb").write(struct.pack("<Q", len(head)) + head + b"1234")
		where = {f"t{i}": name for i, name in enumerate(names)}
		json.dump({"metadata": {}, "weight_map": where}, open("set/model.safetensors.index.json", "w"))
	E
	for what in 'broadcast --raw-file tree' 'broadcast set' 'allreduce set' 'broadcast --root 1 set'; do
		read -ra words <<<"$what"
		limit=20 tries=0
		while rm -rf out.? && run --separate-stderr prlimit --nofile="$limit" -- "$COLLCTL" run -n 2 -- "${words[@]}" \
			-o 'out.{rank}/' && ((status)); do
			((status == 11 && tries++ < 3)) || fail "$what: $limit descriptors: $status: $stderr"
			((limit < $(needed <<<"$stderr"))) || fail "$what: $limit descriptors do not do: $stderr"
			limit=$(needed <<<"$stderr")
			((tries > 1)) || [[ $stderr == *"with the 40 files of "* ]] || fail "$what: $stderr"
		done
		assert_equal "$(find out.0 -type f | wc -l)" "$(find out.1 -type f | wc -l)"
	done
}

@test "32: too few descriptors on a rank: 11, with how many are needed" {
	local r
	make_shards 6 f32 20
	few() { # RANK LIMIT TIME-TO-JOIN
		make_hostfile hosts 6
		for r in 0 1 2 3 4 5; do
			local limit=()
			((r != $1)) || limit=(prlimit --nofile="$2" --)
			spawn_rank "$r" "${limit[@]}" "$COLLCTL" allreduce -a direct -H hosts -r "$r" --insecure \
				--join-timeout "$3" "in.$r.npy" -o "out.$r.npy"
		done
		wait_ranks
	}
	# Rank 0 can't take the others' control links; another rank not their data.
	few 0 11 5s
	assert_rank 0 11 'rank 0: too few descriptors: with the control links of 6 ranks at least ' "'ulimit -n' allows 11"
	assert_rank 1 5 'rank 0: not found'
	few 2 14 120s
	assert_ranks 6 11 "rank 2: too few descriptors: with the 10 connections to other ranks and the output's 1 file at least " \
		"'ulimit -n' allows 14"
	assert_equal "$(find . -name '.*' -type f)" ''
	# That many are enough; make_hostfile holds one more now.
	few 2 $(($(needed <2.err) + 1)) 120s
	assert_ranks 6 0
}
