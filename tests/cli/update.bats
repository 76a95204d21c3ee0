#!/usr/bin/env bats
# broadcast --update: files of which all ranks have a copy are not sent.

# shellcheck disable=SC2016 # for the whole file: ranks expand their own variables
load helpers

# send ROOT-OUTPUT OPTION...: src/ of rank 0 to out.1/ and out.2/; stdout and stderr to said
send() {
	local own=$1
	shift
	collctl run -n 3 -- bash -c 'own=$1
		shift
		((COLLCTL_RANK)) && own=out.$COLLCTL_RANK/
		exec "$0" broadcast --insecure --no-sync --update "$@" src/ -o "$own"' "$COLLCTL" "$own" --raw-file "$@" >said 2>&1 || fail "$(<said)"
}

# assert_copies: names, contents, permissions and times of the copies are those of src
assert_copies() {
	local r
	for r in 1 2; do
		diff -r src "out.$r" || fail "out.$r"
		assert_equal "$(cd "out.$r" && find . -type f -printf '%P %m %s %T@\n' | sort)" "$(cd src && find . -type f -printf '%P %m %s %T@\n' | sort)"
	done
}

make_folder() {
	local i
	mkdir -p src/a/b
	for i in 0 1 2 3 4 5 6 7 8 9; do
		head -c $((i * 1000)) /dev/urandom >"src/a/f$i"
	done
	chmod 750 src/a/f3
	echo x >src/a/b/g
	: >src/empty
}

inodes() { stat -c '%i %n' "$@"; }

# bats test_tags=smoke
@test "the second time nothing is sent; changes, losses, other sizes, permissions and times are, from a rank's copy too" {
	local before
	make_folder
	send src/
	assert_copies
	run ! grep -q 'not sent' said
	before=$(inodes out.1/a/* out.1/empty)
	send src/
	assert_copies
	grep -q '12 of 12 files are as the root.s: not sent' said
	assert_equal "$(inodes out.1/a/* out.1/empty)" "$before"
	echo more >>src/a/f4                  # longer
	cp -p src/a/f5 t && printf Z | dd of=src/a/f5 conv=notrunc status=none && touch -r t src/a/f5 && touch -d '2 days ago' src/a/f5
	touch -d yesterday src/a/f6           # only the time
	chmod 600 src/a/f7                    # only the permissions
	rm out.2/a/f8                         # lost on a rank
	echo own >out.1/a/f9                  # changed on a rank, which is newer
	echo new >src/a/b/h
	send src/
	grep -q '6 of 13 files, and .* of others are as the root.s: not sent' said
	assert_copies
	send src/
	grep -q '13 of 13 files are as' said
	send src/ --threads 2 --streams 2
	assert_copies
}

# sent BYTES: the vector had so many
sent() {
	grep -q "rank 0: broadcast of 3 ranks by .*: $1 of u8" said || fail "$(<said)"
}

@test "of a large file that has changed, pieces of 1 MiB are sent that a rank lacks; the others are copied" {
	mkdir src
	head -c 5243000 /dev/urandom >src/big # five pieces and 120 bytes
	head -c 3000000 /dev/urandom >src/other
	send src/
	assert_copies
	printf Z | dd of=src/big bs=1 seek=2500000 conv=notrunc status=none
	send src/
	sent '1.0 MiB'
	grep -q '1 of 2 files, and 4.0 MiB of others are as' said
	assert_copies
	echo more >>src/big # the last piece alone
	send src/
	sent '125 bytes'
	assert_copies
	head -c 2 /dev/urandom >>out.1/big # differs at the end
	printf Y | dd of=out.2/big bs=1 seek=1100000 conv=notrunc status=none
	send src/
	sent '1.0 MiB'
	assert_copies
	truncate -s 4000000 src/big # shorter: the old versions have all of it
	send src/
	sent '0 bytes'
	assert_copies
	truncate -s 100 out.1/big # an old version that has little
	send src/
	sent '3.8 MiB'
	assert_copies
	rm out.2/big
	touch -d yesterday src/big
	send src/ --memory 64K --streams 3
	sent '3.8 MiB'
	assert_copies
	printf X | dd of=src/big bs=1 seek=3999999 conv=notrunc status=none
	cp -p src/big t
	touch -r t out.1/big out.2/big
	send src/ --checksum --memory 64K
	sent '834.2 KiB'
	assert_copies
	: >src/big # empty
	send src/
	sent '0 bytes'
	assert_copies
	collctl run -n 2 -- bash -c 'exec "$0" broadcast --raw-file --update src/other -o "one.$COLLCTL_RANK"' "$COLLCTL"
	printf W | dd of=one.1 bs=1 seek=5 conv=notrunc status=none
	collctl run -n 2 -- bash -c 'exec "$0" broadcast --raw-file --update src/other -o "one.$COLLCTL_RANK"' "$COLLCTL" >said 2>&1
	grep -q '1.9 MiB of others' said
	cmp src/other one.1
	cmp src/other one.0
}

@test "a job that fails leaves the old files, and no part of the new ones" {
	mkdir src
	head -c 5243000 /dev/urandom >src/big
	send src/
	cp out.1/big old
	printf Z | dd of=src/big bs=1 seek=2500000 conv=notrunc status=none
	mkdir no
	run collctl run -n 3 -- bash -c '((COLLCTL_RANK)) && own=out.$COLLCTL_RANK/ || own=src/
		((COLLCTL_RANK < 2)) || { ulimit -f 3000; trap "" XFSZ; }
		exec "$0" broadcast --insecure --no-sync --raw-file --update src/ -o "$own"' "$COLLCTL"
	((status != 0))
	cmp out.1/big old
	cmp out.2/big old
	assert_equal "$(find out.1 out.2 -type f | sort)" $'out.1/big\nout.2/big'
}

@test "a rank that has nothing, a root in another folder, an empty folder, other files of the rank's stay" {
	make_folder
	send src/
	rm -r out.2
	echo keep >out.1/mine
	send src/
	run ! grep -q 'not sent' said
	rm out.1/mine
	assert_copies
	send copy/
	assert_equal "$(cd copy && find . -type f -printf '%P %m %s %T@\n' | sort)" "$(cd src && find . -type f -printf '%P %m %s %T@\n' | sort)"
	send copy/
	grep -q '12 of 12 files' said
	rm -r src && mkdir src
	send src/
	run ! grep -q 'not sent' said
}

@test "--checksum: contents are compared, and times are not" {
	make_folder
	send src/
	touch src/a/*
	send src/ --checksum
	grep -q '12 of 12 files' said
	# The same size and time, but another content: only --checksum sees that.
	cp -p src/a/f5 t
	printf Z | dd of=out.1/a/f5 bs=1 seek=77 conv=notrunc status=none
	touch -r src/a/f5 out.1/a/f5
	touch -r src/a/f5 out.2/a/f5
	send src/ --checksum
	grep -q '11 of 12 files' said
	cmp src/a/f5 out.1/a/f5
	send src/ --checksum
	grep -q '12 of 12 files' said
	send src/ # the times of files that were left differ
	grep -q '[1-9] of 12 files' said
	assert_copies
}

@test "the same size and time, and another content: left as it is without --checksum, as the manual says" {
	make_folder
	send src/
	printf Z | dd of=out.1/a/f5 bs=1 seek=77 conv=notrunc status=none
	touch -r src/a/f5 out.1/a/f5
	send src/
	grep -q '12 of 12 files' said
	run ! cmp -s src/a/f5 out.1/a/f5
}

@test "one file, several files, another root, checkpoints, several copies, two ranks that name one folder" {
	make_folder
	py <<<'save_safetensors("m.safetensors", {"w": np.ones(1000, "f4")})'
	for _ in 1 2; do
		collctl run -n 2 -- bash -c '((COLLCTL_RANK == 1)) && o=src/a/f9 || o=one; exec "$0" broadcast --raw-file --update --root 1 src/a/f9 -o "$o"' "$COLLCTL" >said 2>&1
		cmp one src/a/f9
	done
	grep -q '1 of 1 files are as' said
	for _ in 1 2; do
		collctl run -n 2 -- broadcast --update m.safetensors -o 'm.{rank}.safetensors' >said 2>&1
		cmp m.safetensors m.1.safetensors
	done
	grep -q '1 of 1 files are as' said
	for _ in 1 2; do
		collctl run -n 3 -- broadcast --raw-file --update src/ -o both/ >said 2>&1
		diff -r src both
	done
	grep -q '12 of 12 files are as' said
}

@test "a link or a folder where a file should be is never taken for the file; no link leads outside" {
	make_folder
	send src/
	mv out.1/a/f5 elsewhere
	ln -s "$PWD/elsewhere" out.1/a/f5
	cp elsewhere before
	run collctl run -n 3 -- bash -c '((COLLCTL_RANK)) && o=out.$COLLCTL_RANK/ || o=src/; exec "$0" broadcast --raw-file --update src/ -o "$o"' "$COLLCTL"
	[[ $output != *'12 of 12'* ]]
	cmp elsewhere before
	((status == 4)) || { [[ ! -L out.1/a/f5 ]] && cmp src/a/f5 out.1/a/f5; }
	rm -rf out.1/a/f5
	mkdir out.1/a/f5
	run collctl run -n 3 -- bash -c '((COLLCTL_RANK)) && o=out.$COLLCTL_RANK/ || o=src/; exec "$0" broadcast --raw-file --update src/ -o "$o"' "$COLLCTL"
	((status == 4))
	[[ -d out.1/a/f5 && $output == *f5* ]]
}

@test "a dry run says what would be sent, and changes nothing; --json has the numbers" {
	make_folder
	send src/
	echo more >>src/a/f4
	send src/ --dry-run
	grep -q '11 of 12 files are as' said
	grep -q 'would replace out.1/a/f4' said
	run ! grep -q 'out.1/a/f5' said
	run ! cmp -s src/a/f4 out.1/a/f4
	collctl run -n 2 -- bash -c '((COLLCTL_RANK)) && o=out.1/ || o=src/; exec "$0" broadcast --raw-file --update --json src/ -o "$o"' "$COLLCTL" >json
	grep '"rank": *0' json | head -1 | sed 's/^\[0\] //' | jq -e '.equal_files == 11 and .digest == null' || fail "$(<json)"
}

@test "what has no meaning is refused; ranks must agree" {
	make_folder
	refused 2 '--checksum: needs --update' 2 broadcast --raw-file --checksum src/a/f1 -o 'o.{rank}'
	refused 2 '--update: compares whole files' 2 broadcast --update --include w src/a/f1 -o 'o.{rank}'
	refused 2 '--update is not an option of gather' 2 gather --raw-file --update src/a/f1 -o 'o.{rank}'
	refused 2 '--update' 2 allreduce --update src/a/f1 -o 'o.{rank}'
	# shellcheck disable=SC2016
	run -7 collctl run -n 2 -- bash -c '((COLLCTL_RANK)) || set -- --update; exec "$0" broadcast --raw-file "$@" src/ -o "out.$COLLCTL_RANK/"' "$COLLCTL"
	collctl run -n 2 -- broadcast -q --raw-file --update --update src/a/f1 -o 'o.{rank}'
	cmp src/a/f1 o.1
}
