#!/usr/bin/env bats
# Outputs that are written once and cloned (lib/coll/files/clones.h), when something goes wrong. Numbers are the rows of the table of
# faults.

# shellcheck disable=SC2016 # for the whole file: ranks expand their own variables
load ../cli/helpers
load fault

setup_file() { compile_sysfault; }

setup() {
	common_setup
	need_sysfault
	no_leak_check
	make_shards 3 f32 5000000
	collctl run -n 3 -- allreduce -q --no-sync 'in.{rank}.npy' -o want.npy
}

# job FOLDER RANK FAULT...: three ranks whose outputs are FOLDER/out.R.npy; RANK (all: each; -1: none) runs under `sysfault FAULT...`
job() {
	run --separate-stderr collctl run -n 3 -- bash -c '((COLLCTL_RANK == $2)) || [[ $2 == all ]] || exec "$0" "${@:5:$4}" -o "$3/out.$COLLCTL_RANK.npy"
		exec "$1" "${@:5+$4}" -- "$0" "${@:5:$4}" -o "$3/out.$COLLCTL_RANK.npy"' \
		"$COLLCTL" "$SYSFAULT" "$2" "$1" 4 allreduce 'in.{rank}.npy' -v --json "${@:3}"
	grep '^{' <<<"$output" >json || true
}

old() { for r in 0 1 2; do echo old >"$1/out.$r.npy"; done; }
assert_old() { # FOLDER [PATTERN of what may be left]
	for r in 0 1 2; do assert_equal "$(<"$1/out.$r.npy")" old; done
	assert_equal "$(find "$1" -name '.*' -type f ! -name "${2-}")" ''
}
assert_new() {
	for r in 0 1 2; do cmp want.npy "$1/out.$r.npy"; done
	assert_equal "$(find "$1" -name '.*' -type f)" ''
}

@test "96: a file system that promises clones and makes none, such as this one: the bytes are copied" {
	mkdir d
	job d all 'error=0' 1 FICLONE
	assert_success
	[[ $stderr == *'rank 1: d/out.1.npy: copied from rank 0: cannot be cloned: '* && $stderr == *'rank 2: d/out.2.npy: copied from rank 1'* ]]
	assert_equal "$(jq -s 'map(.cloned) | any' json)" false
	assert_new d
	# One rank that it promises nothing.
	job d 1 'error=95' 1 FICLONE
	assert_success
	assert_new d
}

# held_at RANK CALL: the job stands still when RANK is about to make CALL for the first time
held_at() {
	old x
	rm -f go
	mkfifo go
	SYSFAULT_GO=$PWD/go "$COLLCTL" run -n 3 -- bash -c 'args=("$0" allreduce "in.$COLLCTL_RANK.npy" -o "x/out.$COLLCTL_RANK.npy")
		((COLLCTL_RANK != $2)) || args=("$1" hold 1 "$3" -- "${args[@]}")
		"${args[@]}" & echo $! >"pid.$COLLCTL_RANK"
		wait $! || echo $? >"rc.$COLLCTL_RANK"' "$COLLCTL" "$SYSFAULT" "$1" "$2" 2>err &
	STARTED+=($!)
	exec {GO}>go # once the rank stands still there
}

# lose: kill rank 0 of the held job, and let the other rank go on: 8, rank 0 is named, all is old
lose() {
	kill -KILL "$(<pid.0)"
	exec {GO}>&-
	wait "${STARTED[-1]}" || true
	assert_equal "$(cat rc.0 rc.1 rc.2 | tr '\n' ' ')" '137 8 8 '
	[[ $(<err) == *'collctl: rank 0: lost during the commit'* ]] || fail "$(<err)"
	assert_old x '.out.0.npy.*' # the dead rank's own
}

@test "96: the rank that writes is killed before and after it has passed its files: 8, it is named, all is old" {
	image xfs x
	held_at 0 fsync
	lose
	held_at 1 FICLONERANGE
	lose
	rm x/.out.0.npy.*
	job x -1
	assert_success
	assert_new x
}

@test "96: a clone that fails, with room for a copy and without, a full disk, a quota, no lane" {
	image xfs x
	local error
	old x
	for error in 5 18 28 122; do # EIO, EXDEV, ENOSPC, EDQUOT
		job x 1 "error=$error" 1 FICLONERANGE
		assert_success
		[[ $stderr == *'rank 1: x/out.1.npy: copied from rank 0: cannot be cloned: '* && $stderr == *'out.2.npy: cloned from rank 1'* ]]
		assert_new x
	done
	# Rank 2 has no lane from rank 1, which has no memory for one.
	job x 1 'error=12*9' 1 memfd_create
	assert_success
	[[ $stderr == *'out.1.npy: cloned from rank 0'* && $stderr == *'out.2.npy: is written, not cloned: no memory lane from rank 1'* ]]
	assert_new x

	# There is room for one output, and for no copy of it.
	mkdir x/full
	old x/full
	fallocate -l $(($(df -B1 --output=avail x | tail -1) - 30000000)) x/fill
	job x/full 2 'error=28' 1 FICLONERANGE
	((status == 4))
	[[ $stderr == *'rank 2: x/full/out.2.npy: No space left on device'* ]] || fail "$stderr"
	assert_old x/full
	job x/full -1
	assert_success
	assert_new x/full
}

@test "96: a quota of btrfs counts the blocks of clones once; a copy in place of a clone is beyond it: 4" {
	image btrfs b
	btrfs quota enable b
	btrfs subvolume create b/s >/dev/null
	btrfs qgroup limit 30m b/s
	old b/s
	job b/s 2 'error=122' 1 FICLONERANGE
	((status == 4))
	[[ $stderr == *'rank 2: b/s/out.2.npy: '*'Disk quota exceeded'* ]] || fail "$stderr"
	assert_old b/s
	job b/s -1
	assert_success
	assert_new b/s
}
