#!/usr/bin/env bats
# broadcast --update and --delta with files that change meanwhile, and with ranks that lie. Numbers are the rows of the table of
# faults.

# shellcheck disable=SC2016 # for the whole file: ranks expand their own variables
load ../cli/helpers

# weights NAME SEED: OLD is the weights without changes
weights() {
	"$PYTHON" - "$@" <<-'END'
		import sys, numpy as np
		r = np.random.default_rng(4)
		w = (r.normal(size=1500000) * 0.02).astype("f4")
		if len(sys.argv) > 2:
		    i = np.random.default_rng(int(sys.argv[2])).random(len(w)) < 0.02
		    w[i] += np.float32(1e-4)
		w.tofile(sys.argv[1])
	END
}

@test "92: an old version that changes between the comparison and its use: 3, with its name, and no output; the next run is right" {
	weights OLD
	weights new 7
	cp OLD out.1
	mkfifo said
	# At this rate the differences are on their way for some ten seconds after the ranks have compared.
	collctl run -n 2 -- bash -c '((COLLCTL_RANK)) && own=out.1 || own=new
		exec "$0" broadcast --raw-file --insecure --lanes tcp --limit-rate 8K --threads 3 --delta OLD new -o "$own"' "$COLLCTL" >said 2>&1 &
	STARTED+=($!)
	local line all=
	while read -r line; do
		all+=$line$'\n'
		[[ $line != *' are sent as '* ]] || printf 'ZZZZ' | dd of=out.1 bs=1 seek=5000000 conv=notrunc status=none
	done <said
	local rc=0
	wait "${STARTED[-1]}" || rc=$?
	((rc == 3)) || fail "$rc: $all"
	[[ $all == *'rank 1: '*'out.1: has changed since the ranks compared'* ]] || fail "$all"
	assert_equal "$(dd if=out.1 bs=1 skip=5000000 count=4 status=none)" ZZZZ
	assert_equal "$(find . -name '.*' -type f)" ''
	collctl run -n 2 -- bash -c '((COLLCTL_RANK)) && own=out.1 || own=new
		exec "$0" broadcast -q --raw-file --delta OLD new -o "$own"' "$COLLCTL"
	cmp new out.1
}

@test "92: a file that was left because it is as the root's, and changes before the job ends: 3, with its name, and no new file" {
	mkdir src
	head -c 300000 /dev/urandom >src/big
	echo small >src/small
	cp -rp src out.1
	head -c 300000 /dev/urandom >src/big
	cp out.1/big old
	mkfifo said
	collctl run -n 2 -- bash -c '((COLLCTL_RANK)) && own=out.1/ || own=src/
		exec "$0" broadcast --raw-file --insecure --lanes tcp --limit-rate 30K --update src/ -o "$own"' "$COLLCTL" >said 2>&1 &
	STARTED+=($!)
	local line all=
	while read -r line; do
		all+=$line$'\n'
		[[ $line != *'1 of 2 files are as the root'* ]] || echo EVIL >out.1/small
	done <said
	local rc=0
	wait "${STARTED[-1]}" || rc=$?
	((rc == 3)) || fail "$rc: $all"
	[[ $all == *'rank 1: '*'out.1/small: has changed since the ranks compared'* ]] || fail "$all"
	cmp old out.1/big
	assert_equal "$(<out.1/small)" EVIL
}

@test "92: a part that changes between the comparison and its use: 3, with its name, and no output; the next run is right" {
	head -c 6000000 /dev/urandom >src
	head -c 5000000 src >.out.1.collctl-part
	mkfifo said
	collctl run -n 2 -- bash -c '((COLLCTL_RANK)) && own=out.1 || own=src
		exec "$0" broadcast --raw-file --insecure --lanes tcp --limit-rate 300K --resume src -o "$own"' "$COLLCTL" >said 2>&1 &
	STARTED+=($!)
	local line all=
	while read -r line; do
		all+=$line$'\n'
		[[ $line != *'are as the root'* ]] || printf 'ZZZZ' | dd of=.out.1.collctl-part bs=1 seek=2000000 conv=notrunc status=none
	done <said
	local rc=0
	wait "${STARTED[-1]}" || rc=$?
	((rc == 3)) || fail "$rc: $all"
	[[ $all == *'rank 1: '*'out.1: its part has changed since the ranks compared'* ]] || fail "$all"
	assert_equal "$(find . -name '*out*')" ./.out.1.collctl-part
	collctl run -n 2 -- bash -c '((COLLCTL_RANK)) && own=out.1 || own=src
		exec "$0" broadcast --raw-file --resume src -o "$own"' "$COLLCTL" >again 2>&1
	grep -q '4.7 MiB of others are as' again || fail "$(<again)"
	cmp src out.1
	assert_equal "$(find . -name '*out*')" ./out.1
}

@test "17: a rank that is killed while data move leaves its part, as the ranks that end then; both go on with it" {
	head -c 12000000 /dev/urandom >src
	make_hostfile hosts 3
	make_secret
	one() { # RANK OUT OPTION...
		spawn_rank "$1" "$COLLCTL" broadcast --raw-file --no-sync --lanes tcp -H hosts -r "$1" --secret-file "$SECRET" "${@:3}" --resume src -o "$2"
	}
	one 0 src --limit-rate 16Mbit # six seconds
	one 1 out.1
	one 2 out.2
	until cmp -s -n 1048576 src .out.1.collctl-part && cmp -s -n 1048576 src .out.2.collctl-part; do :; done
	kill -KILL "${PIDS[1]}"
	wait_ranks
	assert_rank 1 137
	assert_rank 0 8 'rank 1: lost'
	assert_rank 2 8 'rank 1: lost'
	assert_equal "$(find . -name '*out.*' | sort)" $'./.out.1.collctl-part\n./.out.2.collctl-part'
	one 0 src
	one 1 out.1
	one 2 out.2
	wait_ranks
	assert_ranks 3 0
	assert_rank 0 0 '0 of 1 files, and ' "MiB of others are as the root's: not sent"
	cmp src out.1
	cmp src out.2
	assert_equal "$(find . -name '*out.*' | sort)" $'./out.1\n./out.2'
}

# hostile LIE OPTION...: three ranks; rank 1 changes what it sends in a ROUND (hostile_rank.c)
hostile() {
	local lie=$1 r wrap own
	shift
	[[ -x ${COLLCTL%/*}/fault/hostile_rank ]] || skip "no ${COLLCTL%/*}/fault/hostile_rank: make unit"
	make_hostfile hosts 3
	for r in 0 1 2; do
		wrap=("$COLLCTL") own=out.$r
		((r == 1)) && wrap=(env "ROUND=$lie" "${COLLCTL%/*}/fault/hostile_rank")
		((r == 0)) && own=new
		spawn_rank "$r" "${wrap[@]}" broadcast --raw-file --insecure "$@" -H hosts -r "$r" new -o "$own"
	done
	wait_ranks
}

# A part is u8 what it has, u32 number, and bits or digests.
@test "37: a rank that sends what it cannot have, or another part than it is asked for: 10, with the rank; the outputs stay" {
	local lie
	weights OLD
	weights new 7
	# no such kind, kinds of the root, a kind out of its turn, another number
	for lie in 0:0:0 0:0:10 0:0:8 0:0:1 0:0:3 0:0:7 0:0:4 0:1:1 1:0:2 1:4:9 2:0:6; do
		cp OLD out.1
		cp OLD out.2
		hostile "$lie" --delta OLD
		assert_rank 0 10 'rank 1: '
		cmp OLD out.2
	done
	hostile 9:0:0 --delta OLD # no lie
	assert_ranks 3 0
	cmp new out.2
}

@test "37: a rank that says that it has what it lacks harms itself alone, and one that lacks all costs time" {
	weights OLD
	weights new 7
	cp OLD out.1
	cp OLD out.2
	hostile 0:5:0 --update # it lacks no file
	assert_rank 0 0
	assert_rank 2 0
	cmp new out.2
	cp OLD out.2
	hostile 0:5:255 --update
	assert_rank 2 0
	cmp new out.2
	# It lacks the old versions of pieces, and has them; so do the other ranks.
	cp OLD out.1
	cp OLD out.2
	hostile 4:5:255 --delta OLD
	assert_ranks 3 0
	cmp new out.1
	cmp new out.2
	cp OLD out.1
	cp OLD out.2
	hostile 4:6:255 --delta OLD
	assert_ranks 3 0
	assert_rank 0 0 'ranks 0-2 lack all or part'
	cmp new out.1
	cmp new out.2
	head -c 3000000 new >.out.1.collctl-part
	head -c 3000000 new >.out.2.collctl-part
	hostile 0:5:0 --resume
	assert_rank 0 0
	assert_rank 2 0
	cmp new out.2
}

@test "92: gather --update: a file that was left because the root has it, and changes there before the job ends: 3, with its name" {
	mkdir src
	echo small >src/small
	collctl run -n 2 -- gather -q --raw-file --update src -o 'all/{rank}'
	head -c 100000 /dev/urandom >src/big
	mkfifo said
	collctl run -n 2 -- gather --raw-file --insecure --lanes tcp --limit-rate 30K --update src -o 'all/{rank}' >said 2>&1 &
	STARTED+=($!)
	local line all=
	while read -r line; do
		all+=$line$'\n'
		[[ $line != *"2 of 4 files are as the ranks'"* ]] || echo EVIL >all/1/small
	done <said
	local rc=0
	wait "${STARTED[-1]}" || rc=$?
	((rc == 3)) || fail "$rc: $all"
	[[ $all == *'rank 0: all/1/small: has changed since the ranks compared'* ]] || fail "$all"
	assert_equal "$(find all -type f | sort | xargs)" 'all/0/small all/1/small'
	assert_equal "$(<all/1/small)" EVIL
}

# The part of the root is for each rank u64 bytes, u32 files, bits; those of others are digests.
@test "37: gather --update: a root or a rank that sends what cannot be: 10, with the rank; nothing is written" {
	[[ -x ${COLLCTL%/*}/fault/hostile_rank ]] || skip "no ${COLLCTL%/*}/fault/hostile_rank: make unit"
	local lie r wrap root
	mkdir src all all/0
	echo data >src/f
	make_hostfile hosts 3
	# more bytes than there are, fewer, another number of files, a file that is left and counted, bytes that follow, digests of no file
	for lie in '1 0:0:6' '1 0:0:0' '1 0:8:2' '1 0:12:1' '1 0:45:0' '0 0:20:1 --checksum' '1 1:13:200 --checksum'; do
		# shellcheck disable=SC2086 # words
		set -- $lie
		root=$1
		for r in 0 1 2; do
			wrap=("$COLLCTL")
			((r == 1)) && wrap=(env "ROUND=$2" "${COLLCTL%/*}/fault/hostile_rank")
			spawn_rank "$r" "${wrap[@]}" gather --raw-file --insecure --update "${@:3}" --root "$root" -H hosts -r "$r" src -o 'all/{rank}'
		done
		wait_ranks
		assert_rank 0 10 'rank 1: '
		assert_rank 2 10 'rank 1: '
		assert_equal "$(find all | sort | xargs)" 'all all/0'
	done
}
