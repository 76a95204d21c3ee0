#!/usr/bin/env bats
# Folders as rsync's users expect them: broadcast --raw-file of hard links, sparse files, and a folder that changes meanwhile.

# shellcheck disable=SC2016 # for the whole file: ranks expand their own variables
load helpers

@test "hard links of a folder are sent once and linked again; --update makes those that a copy lacks" {
	local r
	mkdir -p t/a/b t/empty/er
	head -c 3000000 /dev/urandom >t/a/f
	ln t/a/f t/a/b/g
	ln t/a/f t/z
	echo other >outside
	ln outside t/alone # its other name is not in the folder
	collctl run -n 3 -- broadcast --json --raw-file t/ -o 'o.{rank}/' >j
	linked t >want
	grep -q '^1 z' want
	for r in 0 1 2; do
		diff -r t o.$r
		linked o.$r | diff want -
		[[ -d o.$r/empty/er ]]
	done
	jq -se 'all(.bytes == 3000006 and .content_bytes == 3000006 and .files == {"equal": 0, "sent": 2, "deleted": 0} and
		.pieces == {"equal": 0, "delta": 0, "compressed": 0, "raw": 4})' j
	rm o.1/z
	echo own >o.2/x && mv o.2/x o.2/a/b/g
	collctl run -n 3 -- broadcast --json --raw-file --update t/ -o 'o.{rank}/' >/dev/null
	collctl run -n 3 -- broadcast --json --raw-file --update t/ -o 'o.{rank}/' >j
	rm o.1/z
	collctl run -n 3 -- broadcast --json --raw-file --update t/ -o 'o.{rank}/' >j
	jq -se 'all(.bytes == 0 and .files == {"equal": 4, "sent": 0, "deleted": 0})' j
	for r in 0 1; do
		diff -r t o.$r
		linked o.$r | diff want -
	done
	# A copy whose files are links to those that it is made of.
	cp -al t snap
	rm snap/z
	collctl run -n 2 -- bash -c '((COLLCTL_RANK)) && o=snap || o=t; exec "$0" broadcast -q --raw-file --update t/ -o $o/' "$COLLCTL"
	[[ snap/z -ef t/z ]]
	rm -r snap
	# One folder of several ranks, and the root's own.
	collctl run -n 3 -- broadcast -q --raw-file t/ -o one/
	linked one | diff want -
	linked t >before
	collctl run -n 2 -- bash -c '((COLLCTL_RANK)) && o=two || o=t; exec "$0" broadcast -q --raw-file t -o $o/' "$COLLCTL"
	linked t | diff before -
	linked two | diff want -
	assert_equal "$(find . -name '.*collctl*')" ''
}

@test "holes of sparse files are neither sent nor written, by broadcast, --update and gather" {
	mkdir t
	truncate -s 60M t/sparse
	printf data | dd of=t/sparse bs=1 seek=20000000 conv=notrunc status=none
	truncate -s 30M t/hole
	echo full >t/full
	local blocks r
	blocks=$(stat -c %b t/sparse)
	((blocks < 1000)) || skip 'this file system has no holes'
	collctl run -n 3 -- broadcast --json --raw-file t/ -o 'o.{rank}/' >j
	jq -se 'all(.bytes < 500000 and .digest == null)' j
	for r in 0 1 2; do
		diff -r t "o.$r"
		(($(stat -c %b "o.$r/sparse") <= blocks && $(stat -c %b "o.$r/hole") == 0))
	done
	# Of a piece that has changed the holes stay, too.
	printf DATA | dd of=t/sparse bs=1 seek=20500000 conv=notrunc status=none
	collctl run -n 3 -- broadcast -q --raw-file --update t/ -o 'o.{rank}/'
	collctl run -n 3 -- broadcast -q --raw-file --memory 64K t/sparse -o 's.{rank}'
	collctl run -n 2 -- gather -q --raw-file t/sparse -o 'g/{rank}'
	blocks=$(stat -c %b t/sparse)
	for r in o.1/sparse s.0 s.2 g/0 g/1; do
		cmp t/sparse "$r"
		(($(stat -c %b "$r") <= blocks + 8)) || fail "$r: $(stat -c %b "$r") blocks, not $blocks"
	done
}

# changed COMMAND OPTION...: t/ is copied, and COMMAND runs when the root has read its names
changed() {
	rm -rf t out.*
	mkdir -p t/a
	echo x >t/a/f
	echo x >t/a/g
	ln -s f t/a/l
	ln -s /f t/zz # the root says that it skips this, after it has seen the others
	mkfifo said go
	collctl run -n 2 -- bash -c '((COLLCTL_RANK == 0)) || read -r _ <go
		exec "$0" broadcast --raw-file "$@" t/ -o "out.$COLLCTL_RANK"' "$COLLCTL" "${@:2}" >said 2>&1 &
	STARTED+=($!)
	all='' rc=0
	local line
	while read -r line; do
		all+=$line$'\n'
		[[ $line != *'t/zz: is a symbolic link'*': skipped'* ]] || {
			eval "$1"
			echo >go
		}
	done <said
	wait "${STARTED[-1]}" || rc=$?
	rm said go
}

@test "a folder that changes while it is read: 3, with the name of what has come, gone or been replaced, and no copy" {
	changed 'echo new >t/a/h'
	((rc == 3)) && [[ $all == *'t/a/h: has appeared while the folder was read'* && ! -e out.1 ]] || fail "$rc: $all"
	changed 'rm t/a/g'
	((rc == 3)) && [[ $all == *'t/a/g: was removed while the folder was read'* && ! -e out.1 ]] || fail "$rc: $all"
	changed 'echo y >t/y && mv t/y t/a/f'
	((rc == 3)) && [[ $all == *'t/a/f: was replaced while the folder was read'* && ! -e out.1 ]] || fail "$rc: $all"
	# Other links and temporary files of other jobs may come and go; so may the outputs, in the folder itself.
	changed 'ln -s f t/a/link; echo >t/a/.f.collctl-abcdefghijkl'
	((rc == 0)) || fail "$rc: $all"
	# With --links these count, too.
	changed 'ln -s g t/a/link' --links
	((rc == 3)) && [[ $all == *'t/a/link: has appeared while the folder was read'* && ! -e out.1 ]] || fail "$rc: $all"
	changed 'rm t/a/l' --links
	((rc == 3)) && [[ $all == *'t/a/l: was removed while the folder was read'* && ! -e out.1 ]] || fail "$rc: $all"
	changed 'ln -sf g t/a/l' --links
	((rc == 3)) && [[ $all == *'t/a/l: was replaced while the folder was read'* && ! -e out.1 ]] || fail "$rc: $all"
	changed 'ln -s /etc t/a/away' --links
	((rc == 0)) && [[ -L out.1/a/l && ! -e out.1/a/away ]] || fail "$rc: $all"
	collctl run -n 3 -- bash -c 'cd t && exec "$0" broadcast -q --raw-file . -o "out.$COLLCTL_RANK"' "$COLLCTL"
	cmp t/a/f t/out.2/a/f
}

# chosen OPTION...: the names that a copy of t/ has
chosen() {
	rm -rf o.0 o.1
	collctl run -n 2 -- broadcast --raw-file "$@" t/ -o 'o.{rank}/' >said 2>&1 || fail "$(<said)"
	diff -r o.0 o.1
	(cd o.1 && find . -mindepth 1 -printf '%P\n' | sort | xargs)
}

@test "--include and --exclude choose files and folders of a folder by their paths, as rsync's patterns do" {
	mkdir -p t/.git/x t/src/build t/build t/docs/none
	touch t/.git/x/y t/a.c t/src/a.c t/src/b.o t/src/build/c.o t/build/d.c t/docs/e 't/docs/[z]'
	ln -s a.c t/docs/link
	assert_equal "$(chosen --exclude .git --exclude '*.o' --exclude docs)" 'a.c build build/d.c src src/a.c src/build'
	run ! grep link said # in a folder that is left out nothing is looked at
	assert_equal "$(chosen --include docs/ --exclude / --exclude e)" 'docs docs/[z] docs/none'
	grep -q "t/: no file or folder matches --exclude '/'" said
	assert_equal "$(chosen --exclude /build --exclude .git/ --exclude docs/)" 'a.c src src/a.c src/b.o src/build src/build/c.o'
	assert_equal "$(chosen --include '*.c')" 'a.c build build/d.c src src/a.c'
	assert_equal "$(chosen --include build --exclude '*.o')" 'build build/d.c src src/build'
	assert_equal "$(chosen --include 'src/*.c' --include docs/none --include 'docs/[z]')" 'docs docs/[z] docs/none src src/a.c'
	assert_equal "$(chosen --include 'src/**/*.o')" 'src src/b.o src/build src/build/c.o'
	assert_equal "$(chosen --include docs/ --exclude 'e/' --exclude nothing --update)" 'docs docs/[z] docs/e docs/none'
	grep -q "t/: no file or folder matches --exclude 'nothing'" said
	chmod 0 t/.git/x # not looked at either
	assert_equal "$(chosen --exclude .git --include a.c)" 'a.c src src/a.c'
	chmod 700 t/.git/x
	run -2 --separate-stderr collctl run -n 2 -- broadcast --raw-file --include 'a.?' --include nothing t/ -o 'no.{rank}/'
	[[ $stderr == *"t/: no file or folder matches --include 'nothing'"* && $stderr != *'for its bytes'* && ! -e no.1 ]]
	run -2 --separate-stderr collctl run -n 2 -- broadcast --raw-file --exclude x t/a.c -o 'no.{rank}'
	[[ $stderr == *"t/a.c: --include and --exclude with --raw-file choose files of a folder"* && ! -e no.1 ]]
}

# Small files are open only while they are read, and created only at the end.
@test "a folder of more small files than descriptors; --update, gather, the root's own folder" {
	local i
	for i in {0..9}; do
		mkdir -p "t/$i"
		seq "$i" 1000 | split -l 10 - "t/$i/"
	done
	head -c 300000 /dev/urandom >t/large
	: >t/empty
	limited() {
		bash -c 'ulimit -n 120 && exec "$0" "$@"' "$COLLCTL" "$@"
	}
	limited run -n 2 -- broadcast -q --raw-file t/ -o 'o.{rank}/'
	diff -r t o.0
	diff -r t o.1
	echo changed >t/3/aa
	rm o.1/4/ab o.0/5/ac
	limited run -n 2 -- broadcast --json --raw-file --update --checksum t/ -o 'o.{rank}/' >j
	jq -se 'all(.files == {"equal": 1000, "sent": 3, "deleted": 0})' j
	diff -r t o.0
	diff -r t o.1
	# One output folder of two ranks, and the root's own folder.
	limited run -n 2 -- broadcast -q --raw-file t/ -o one/
	diff -r t one
	limited run -n 2 -- bash -c '((COLLCTL_RANK)) && o=two || o=t; exec "$0" broadcast -q --raw-file t/ -o $o/' "$COLLCTL"
	diff -r t two
	limited run -n 2 -- gather -q --raw-file t/ -o 'all/{rank}/'
	diff -r t all/1
	assert_equal "$(find . -name '.*collctl*')" ''
}
