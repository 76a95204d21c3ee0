#!/usr/bin/env bats
# broadcast --resume: what a job that was ended has written is a part beside the output, and is not sent again.

# shellcheck disable=SC2016 # for the whole file: ranks expand their own variables
load helpers

MIB=1048576

# send OPTION...: src of rank 0 to out.1 and out.2; stdout and stderr to said
send() {
	collctl run -n 3 -- bash -c 'out=src
		((COLLCTL_RANK == 0)) || out=out.$COLLCTL_RANK
		[[ ! -d src ]] || out+=/
		[[ ! -d src ]] || set -- "$@" src/
		[[ -d src ]] || set -- "$@" src
		exec "$0" broadcast --insecure --no-sync --raw-file --resume "$@" -o "$out"' "$COLLCTL" "$@" >said 2>&1 || fail "$(<said)"
}

# sent BYTES: the vector had so many
sent() {
	grep -q "rank 0: broadcast of 3 ranks by .*: $1 of u8" said || fail "$(<said)"
}

# assert_copies: both copies are whole, and no part is left
assert_copies() {
	diff -r src out.1 || fail "$(<said)"
	diff -r src out.2 || fail "$(<said)"
	assert_equal "$(find . -name '.*.collctl-*')" ''
}

# part R FIRST LAST: rank R has a part with these pieces of src, counted from 0, and a hole before them
part() {
	dd if=src of=".out.$1.collctl-part" bs=$MIB skip="$2" seek="$2" count=$(($3 - $2 + 1)) status=none
	chmod 600 ".out.$1.collctl-part"
}

# scribble FILE AT: another byte there
scribble() { printf '\1\2\3' | dd of="$1" bs=1 seek="$2" conv=notrunc status=none; }

# bats test_tags=smoke
@test "only pieces are sent that a rank's part lacks: parts of other lengths, with holes, damaged, too long, complete" {
	head -c 5243000 /dev/urandom >src # five pieces and 120 bytes
	send
	sent '5.0 MiB'
	assert_copies
	rm out.1
	part 1 0 2
	part 2 0 2
	send
	sent '2.0 MiB'
	grep -q '3.0 MiB of others are as the root.s: not sent' said
	assert_copies
	part 1 0 2
	part 2 1 4 # a hole where the first piece would be
	send --memory 64K --streams 3
	sent '3.0 MiB'
	assert_copies
	part 1 0 5
	part 2 0 5
	scribble .out.2.collctl-part 2500000
	send
	sent '1.0 MiB'
	assert_copies
	for r in 1 2; do
		part $r 0 5
		head -c 3000000 /dev/urandom >>.out.$r.collctl-part
	done
	truncate -s 20000000 .out.1.collctl-part # a hole at its end
	send --threads 2 --streams 2
	sent '0 bytes'
	assert_copies
	part 1 0 2 # rank 2 has none
	send
	sent '5.0 MiB'
	assert_copies
	: >.out.1.collctl-part
	head -c 700 src >.out.2.collctl-part
	send
	assert_copies
	truncate -s 9000000 .out.1.collctl-part .out.2.collctl-part # pieces of zeros are right where the root has zeros
	truncate -s 6000000 src
	scribble src 10
	: >src.0 && truncate -s 2000000 src.0 && cat src.0 >>src
	send
	assert_copies
	: >src
	part 1 0 0
	send
	assert_copies
}

@test "with --update and --delta, the old output and the part have pieces" {
	head -c 5243000 /dev/urandom >src
	send --update
	cp out.1 old
	scribble src 100
	scribble src 1500000
	scribble src 2500000
	part 1 0 1
	part 2 1 1
	send --update
	sent '2.0 MiB'
	assert_copies
	assert_equal "$(stat -c %Y out.1 out.2)" "$(stat -c $'%Y\n%Y' src)"
	# A part of a file that is as the root's is not needed.
	part 1 0 1
	scribble .out.1.collctl-part 5
	send --update
	grep -q '1 of 1 files are as the root.s' said
	assert_copies
	# --delta
	cp src OLD
	scribble src 300
	scribble src 1600000
	part 1 0 0
	part 2 0 0
	send --delta OLD
	grep -q '1.0 MiB of files are sent as' said || fail "$(<said)"
	assert_copies
	cp OLD out.1
	cp OLD out.2
	part 1 0 0 # rank 2 lacks this piece
	send --delta OLD
	grep -q '2.0 MiB of files are sent as' said || fail "$(<said)"
	assert_copies
	rm out.2 out.1
	part 1 0 0
	part 2 0 0
	send --delta OLD --checksum
	assert_copies
}

@test "folders: a part beside each file; what a job that was ended has created gets the permissions of the originals" {
	local r
	umask 022
	mkdir -p src/a/b src/empty
	for f in a/b/x a/y z; do head -c 2500000 /dev/urandom >src/$f; done
	chmod 751 src/a
	chmod 440 src/z
	for r in 1 2; do
		mkdir -p out.$r/a/b
		chmod 1700 out.$r out.$r/a out.$r/a/b
		head -c 2000000 src/a/b/x >out.$r/a/b/.x.collctl-part
		head -c 1100000 src/a/y >out.$r/a/.y.collctl-part
		cp src/z out.$r/.z.collctl-part
	done
	chmod 700 out.2 # this one was there before, and is private
	send
	sent '2.8 MiB'
	assert_copies
	assert_equal "$(stat -c %a out.1 out.1/a out.1/a/b out.1/z out.1/empty)" $'755\n751\n755\n440\n755'
	assert_equal "$(stat -c %a out.2 out.2/a)" $'700\n751'
	# Parts and temporary files are no files of the folder; an output that is the input needs no part.
	cp src/z src/.z.collctl-part
	cp src/z src/a/.y.collctl-abcdefghijkl
	send --update # the times differ
	[[ -e src/a/.y.collctl-abcdefghijkl ]]
	rm src/a/.y.collctl-abcdefghijkl
	assert_copies
	send --update
	grep -q '3 of 3 files' said
	assert_copies
	# A link is not written to a part; one that is there is removed.
	ln src/z src/zz
	head -c 5 src/z >out.1/.zz.collctl-part
	send
	assert_copies
}

@test "a checkpoint's set; two ranks that write one file; another root; standard output" {
	py <<-'END'
		os.makedirs("set")
		save_set("set", {"a.safetensors": {"w": np.ones(900000, "f4")}, "b.safetensors": {"v": np.arange(900000, dtype="f4")}})
	END
	mkdir copy.1
	head -c 3000000 set/b.safetensors >copy.1/.b.safetensors.collctl-part
	cp set/a.safetensors copy.1/.a.safetensors.collctl-part
	collctl run -n 2 -- bash -c '((COLLCTL_RANK)) && o=copy.1/ || o=set/; exec "$0" broadcast --no-sync --resume set/ -o "$o"' "$COLLCTL" >said 2>&1 || fail "$(<said)"
	grep -q '5.4 MiB of others' said || fail "$(<said)"
	diff -r set copy.1
	head -c 3000000 /dev/urandom >src
	head -c 2500000 src >.both.collctl-part
	collctl run -n 3 -- bash -c '((COLLCTL_RANK == 1)) && o=src || o=both; exec "$0" broadcast --no-sync --raw-file --root 1 --resume src -o "$o"' "$COLLCTL" >said 2>&1 || fail "$(<said)"
	grep -q '2.0 MiB of others' said || fail "$(<said)"
	cmp src both
	assert_equal "$(find . -name '.*.collctl-*')" ''
	collctl run -n 2 -- bash -c '((COLLCTL_RANK)) && o=- || o=src; exec "$0" broadcast --raw-file --resume src -o "$o"' "$COLLCTL" 2>said | cmp - src
	collctl broadcast -q -n 1 --insecure --raw-file --resume src -o alone
	cmp src alone
}

@test "a part that cannot be used is not touched, and the job says so and succeeds" {
	local part=.out.1.collctl-part long why
	head -c 3000000 /dev/urandom >src
	cp src other
	fresh() { rm -rf "$part" out.1 out.2; }
	unusable() { # TEXT OPTION...
		why=$1
		shift
		send "$@"
		[[ $(<said) == *"out.1: cannot be resumed: the part cannot be used: $why"* ]] || fail "$(<said)"
		sent '2.9 MiB'
		cmp src out.1
		cmp src out.2
		cmp src other
	}
	ln -s other "$part"
	unusable 'it is a symbolic link'
	[[ -L $part ]]
	fresh
	ln -s nothing "$part"
	unusable 'it is a symbolic link'
	[[ ! -e nothing ]]
	fresh
	mkdir "$part"
	unusable 'it is a folder'
	fresh
	mkfifo "$part"
	unusable 'it is no regular file'
	fresh
	ln other "$part"
	unusable 'it has other names'
	fresh
	cp src "$part"
	exec {lock}<"$part"
	flock "$lock"
	unusable 'another job uses it'
	cmp src "$part"
	exec {lock}<&-
	send
	sent '2.9 MiB' # rank 2 has no part
	fresh
	long=$(printf 'n%.0s' {1..250})
	collctl run -n 2 -- bash -c '((COLLCTL_RANK)) && o=$1 || o=src; exec "$0" broadcast --raw-file --resume src -o "$o"' "$COLLCTL" "$long" >said 2>&1
	grep -q 'cannot be resumed: the part cannot be used: its name would be too long' said
	cmp src "$long"
	((EUID == 0)) || return 0
	cp src "$part"
	chown nobody "$part"
	unusable 'it belongs to another user'
	cmp src "$part"
}

@test "two jobs into one output at the same time: one has the part, both succeed" {
	head -c 2000000 /dev/urandom >src
	mkfifo go
	# The first holds its part until the second has ended: its rank 0 starts last.
	make_hostfile hosts 2
	make_secret
	spawn_rank 1 "$COLLCTL" broadcast --raw-file --resume -H hosts -r 1 --secret-file "$SECRET" -o out
	exec {held}<>.out.collctl-part
	flock "$held"
	spawn_rank 0 "$COLLCTL" broadcast --raw-file --resume -H hosts -r 0 --secret-file "$SECRET" src -o src
	wait_ranks
	assert_ranks 2 0
	assert_rank 1 0 'another job uses it'
	cmp src out
}

@test "permissions: a part is this user's alone; the output's are those of the file it replaces, or of the root's, or by umask" {
	umask 027
	head -c 2000000 /dev/urandom >src
	chmod 604 src
	cp src out.1
	chmod 640 out.1
	send
	assert_equal "$(stat -c %a out.1 out.2)" $'604\n604'
	py <<<'save_safetensors("m.safetensors", {"w": np.ones(400000, "f4")})'
	: >m.1.safetensors
	chmod 444 m.1.safetensors
	head -c 1100000 m.safetensors >.m.2.safetensors.collctl-part
	cp m.safetensors .m.1.safetensors.collctl-part
	chmod 644 .m.*.collctl-part
	collctl run -n 3 -- broadcast --resume m.safetensors -o 'm.{rank}.safetensors' --no-sync >said 2>&1
	cmp m.safetensors m.1.safetensors
	cmp m.safetensors m.2.safetensors
	assert_equal "$(stat -c %a m.0.safetensors m.1.safetensors m.2.safetensors)" $'640\n444\n640'
}

@test "an abort leaves what was written, and nothing where nothing was; without --resume nothing is left" {
	head -c 3000000 /dev/urandom >src
	part 1 0 0
	run collctl run -n 3 -- bash -c 'out=out.$COLLCTL_RANK
		((COLLCTL_RANK < 2)) || { ulimit -f 1000; trap "" XFSZ; }
		exec "$0" broadcast --insecure --no-sync --raw-file --resume src -o "$out"' "$COLLCTL"
	((status == 4)) || fail "$output"
	cmp -n $MIB src .out.1.collctl-part
	assert_equal "$(find . -name '*out.*')" ./.out.1.collctl-part
	cp .out.1.collctl-part before
	collctl run -n 2 -- bash -c '((COLLCTL_RANK)) && o=out.1 || o=src; exec "$0" broadcast -q --raw-file src -o "$o"' "$COLLCTL"
	cmp before .out.1.collctl-part # not this job's
	rm out.1
	collctl run -n 2 -- bash -c '((COLLCTL_RANK)) && o=out.1 || o=src; exec "$0" broadcast --raw-file --resume --update --dry-run --checksum src -o "$o"' "$COLLCTL" >said 2>&1
	grep -q '1.0 MiB of others are as' said || fail "$(<said)"
	cmp before .out.1.collctl-part
}

@test "what a part has already needs no room" {
	mkdir small
	mount -t tmpfs -o size=5m collctl-test small 2>/dev/null || skip 'no tmpfs to be had here'
	head -c 4000000 /dev/urandom >src
	head -c 3500000 src >small/.out.collctl-part
	chmod 600 small/.out.collctl-part
	local rc=0 option
	for option in --dry-run --no-sync; do
		collctl run -n 2 -- bash -c '((COLLCTL_RANK)) && o=small/out || o=src; exec "$0" broadcast --raw-file --update --checksum --resume "$1" src -o "$o"' "$COLLCTL" "$option" >said 2>&1 || rc=$?
	done
	cmp src small/out || rc=1
	umount small
	((rc == 0)) || fail "$(<said)"
}

@test "what has no meaning is refused; ranks must agree" {
	head -c 300 /dev/urandom >src
	py <<<'np.save("x.npy", np.ones(4))'
	refused 2 'x.npy: --resume compares whole files, and this one is broadcast as an array: give --raw-file' 2 broadcast --resume x.npy -o 'y.{rank}.npy'
	refused 2 '--resume: compares whole files' 2 broadcast --resume --include w src -o 'o.{rank}'
	refused 2 '--resume is not an option of gather' 2 gather --raw-file --resume src -o 'o.{rank}'
	refused 2 '--checksum: needs --update' 2 broadcast --raw-file --resume --checksum src -o 'o.{rank}'
	run -7 collctl run -n 2 -- bash -c '((COLLCTL_RANK)) || set -- --resume; exec "$0" broadcast --raw-file "$@" src -o "o.$COLLCTL_RANK"' "$COLLCTL"
	assert_equal "$(find . -name '*o.*')" ''
	collctl run -n 2 -- broadcast -q --raw-file --resume --resume src -o 'o.{rank}'
	cmp src o.1
}
