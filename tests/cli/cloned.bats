#!/usr/bin/env bats
# Outputs of ranks of one host that are written once, and cloned where the file system can.

load helpers

BYTES=20000000 # of an output: more than the least that is cloned

# inputs N: in.0.npy, ..., each of BYTES
inputs() { make_shards "$1" f32 $((BYTES / 4)); }

# ranks_that_clone: of the lines of --json in json, sorted
ranks_that_clone() { jq -r 'select(.cloned) | .rank' json | sort -n | tr '\n' ' '; }

# used FOLDER: bytes of its file system
used() {
	sync -f "$1"
	df -B1 --output=used "$1" | tail -1
}

# once FOLDER BEFORE: its file system has one output more than BEFORE bytes
once() {
	local more=$(($(used "$1") - $2))
	((more > BYTES * 9 / 10 && more < BYTES * 13 / 10)) || fail "$more bytes of $1 used for $BYTES of an output"
}

# job COMMAND...: four ranks; the lines of --json go to json
job() { collctl run -n 4 -- "$@" --json >json || fail "$*: $(<json)"; }

@test "xfs: an allreduce, an allgather and copies of files are written once, and the others clone them" {
	image xfs x
	inputs 4
	local before
	before=$(used x)
	run --separate-stderr collctl run -n 4 -- allreduce -v 'in.{rank}.npy' -o 'x/out.{rank}.npy'
	assert_success
	[[ $stderr == *'rank 1: x/out.1.npy: cloned from rank 0, not written'* ]]
	[[ $stderr == *'rank 3: x/out.3.npy: cloned from rank 2, not written'* && $stderr != *'out.0.npy: cloned'* ]]
	once x "$before"
	[[ $(filefrag -v x/out.3.npy) == *shared* ]]
	collctl run -n 4 -- allreduce -q 'in.{rank}.npy' -o 'out.{rank}.npy'
	for r in 0 1 2 3; do cmp out.0.npy "x/out.$r.npy"; done
	# A clone is a file of its own.
	echo other | dd of=x/out.1.npy conv=notrunc status=none
	cmp out.0.npy x/out.0.npy

	before=$(used x)
	job allgather 'in.{rank}.npy' -o 'x/all.{rank}.npy'
	[[ $(ranks_that_clone) == '1 2 3 ' ]]
	BYTES=80000000 once x "$before"
	collctl run -n 4 -- allgather -q 'in.{rank}.npy' -o all.npy
	for r in 0 1 2 3; do cmp all.npy "x/all.$r.npy"; done

	# Several files, with modes, times, links and holes.
	mkdir -p src/sub
	cp in.0.npy src/sub/a
	head -c 3000000 /dev/urandom >src/b
	: >src/empty
	ln src/b src/sub/link
	ln -s ../b src/sub/symlink
	truncate -s 100M src/holes
	dd if=src/b of=src/holes bs=1M seek=40 conv=notrunc status=none
	chmod 640 src/b
	touch -d 2001-02-03 src/b
	before=$(used x)
	job broadcast --raw-file --times --links src/ -o 'x/copy.{rank}/'
	[[ $(ranks_that_clone) == '1 2 3 ' ]]
	BYTES=26000000 once x "$before"
	for r in 0 1 2 3; do
		diff -r src "x/copy.$r"
		assert_equal "$(stat -c '%a %Y' "x/copy.$r/b")" "$(stat -c '%a %Y' src/b)"
		[[ x/copy.$r/b -ef x/copy.$r/sub/link && $(readlink "x/copy.$r/sub/symlink") == ../b ]]
		(($(stat -c %b "x/copy.$r/holes") * 512 < 5000000))
	done
	assert_equal "$(find x -name '.*' -type f)" ''
}

@test "btrfs: the others clone, without ranks of other names and formats" {
	image btrfs b
	inputs 4
	local before
	before=$(used b)
	job allreduce 'in.{rank}.npy' -o 'b/out.{rank}.npy'
	[[ $(ranks_that_clone) == '1 2 3 ' ]]
	once b "$before"
	[[ $(filefrag -v b/out.3.npy) == *shared* ]]
	for r in 1 2 3; do cmp b/out.0.npy "b/out.$r.npy"; done
}

# shellcheck disable=SC2016 # ranks expand their own variables
@test "who cannot clone writes: another file system, another format, --no-sync, no lane; one path of several ranks" {
	image xfs x
	inputs 4
	job allreduce 'in.{rank}.npy' -o 'x/want.{rank}.npy'
	each() { # rank 1's OUT IN OPTION...
		run -0 --separate-stderr collctl run -n 4 -- bash -c 'args=("in.$COLLCTL_RANK.npy" -o "x/out.$COLLCTL_RANK.npy")
			((COLLCTL_RANK != 1)) || args=(-o "$@")
			exec "$0" allreduce -v --json "${args[@]}"' "$COLLCTL" "$@"
		grep '^{' <<<"$output" >json
	}
	each out.npy in.1.npy
	[[ $(ranks_that_clone) == '2 3 ' && $stderr == *'out.2.npy: cloned from rank 0,'* ]]
	cmp x/want.0.npy out.npy
	tail -c $BYTES in.1.npy >in.1.bin
	each x/out.bin in.1.bin --dtype f32 --shape $((BYTES / 4))
	[[ $(ranks_that_clone) == '2 3 ' ]]
	cmp <(tail -c $BYTES x/want.0.npy) x/out.bin
	each x/other.npy in.1.npy --no-sync
	[[ $(ranks_that_clone) == '2 3 ' ]]
	cmp x/want.0.npy x/other.npy
	each x/tcp.npy in.1.npy --lanes tcp
	[[ $(ranks_that_clone) == '2 3 ' ]]
	cmp x/want.0.npy x/tcp.npy
	each x/out.0.npy in.1.npy # rank 0 writes it; rank 1 needs the bytes for the digest
	[[ $(ranks_that_clone) == '1 2 3 ' ]]
	for r in 0 2 3; do cmp x/want.0.npy "x/out.$r.npy"; done
	# One that nobody may clone
	job allreduce 'in.{rank}.npy' -o 'x/out.{rank}.npy' --no-sync
	[[ $(ranks_that_clone) == '' ]]
	job broadcast --raw-file --update in.0.npy -o 'x/up.{rank}'
	[[ $(ranks_that_clone) == '' ]]
	for r in 0 1 2 3; do cmp x/want.0.npy "x/out.$r.npy" && cmp in.0.npy "x/up.$r"; done
	mkdir many
	for r in {1..70}; do echo "$r" >"many/$r"; done
	mv in.3.npy many/
	job broadcast --raw-file many/ -o 'x/many.{rank}/'
	[[ $(ranks_that_clone) == '' ]]
	for r in 0 1 2 3; do diff -r many "x/many.$r"; done
	(($(jq -r .cloned json | sort -u | wc -l) == 1))
}
