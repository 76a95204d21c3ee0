#!/usr/bin/env bats
# Unchanged copies: broadcast --raw-file of files and folders, gather --raw-file of one file per
# rank; modes, times, and the names that a peer may send.

# shellcheck disable=SC2016
load helpers

make_tree() {
	mkdir -p tree/a/b tree/empty/er tree/.hidden
	echo run >tree/run.sh
	head -c 3000000 /dev/urandom >tree/a/b/big
	: >tree/a/nothing
	echo secret >tree/.hidden/.f
	echo odd >$'tree/a/new\nline \xff'
	chmod 755 tree/run.sh tree
	chmod 600 tree/.hidden/.f
	chmod 711 tree/.hidden
	chmod 500 tree/empty/er
	chmod 644 tree/a/b/big
	find tree -exec touch -d '2001-02-03 04:05:06.000000789' {} +
	touch -d '1969-12-31 23:59:58.5 UTC' tree/a/nothing
}

# bats test_tags=smoke
@test "broadcast --raw-file keeps the mode and, with --times, the time; the root's own file is left alone" {
	umask 077
	echo '#!/bin/true' >tool
	chmod 755 tool
	touch -d 2001-02-03T04:05:06.7 tool
	echo old >copy.1
	chmod 400 copy.1
	go 2 broadcast --raw-file tool -o 'copy.{rank}'
	go 2 broadcast --raw-file --times tool -o 'timed.{rank}'
	assert_equal "$(stat -c %a copy.0 copy.1 timed.1)" $'755\n755\n755'
	./copy.1
	assert_equal "$(stat -c %y timed.1)" "$(stat -c %y tool)"
	[[ copy.1 -nt tool ]]
	# A pipe has neither mode nor time.
	# shellcheck disable=SC2002
	(umask 022 && cat tool | go 2 broadcast --raw-file --times - -o 'piped.{rank}')
	assert_equal "$(stat -c %a piped.0 piped.1)" $'644\n644'
	# shellcheck disable=SC2002
	(umask 027 && cat tool | go 1 gather --raw-file --times - -o 'got/{rank}')
	assert_equal "$(stat -c %a got/0)" 640
	[[ piped.1 -nt tool ]]
	# The same name on all ranks, in separate folders: the root's file is not replaced.
	mkdir n0 n1
	cp -p tool n0/tool
	local before
	before=$(stat -c '%i %z' n0/tool)
	go 2 bash -c 'cd "n$COLLCTL_RANK" && exec "$0" broadcast --raw-file tool -o ./tool "$@"' "$COLLCTL"
	assert_equal "$(stat -c '%i %z' n0/tool)" "$before"
	cmp n1/tool tool
	refused 2 '--times: needs --raw-file' 1 broadcast --times tool -o x
	run -2 collctl allreduce --times x -o y
}

@test "broadcast --raw-file of a folder: names, empty folders, modes and times; links are left out" {
	make_tree
	listing tree >want
	listing -t tree >want.times
	ln -s run.sh tree/link
	mkfifo tree/a/pipe
	go 3 broadcast --raw-file --root 1 tree/ -o 'out.{rank}/'
	grep -F 'rank 1: tree/link: is a symbolic link: skipped' err
	grep -F 'rank 1: tree/a/pipe: is neither a file nor a folder: skipped' err
	rm tree/link tree/a/pipe
	touch -d '2001-02-03 04:05:06.000000789' tree tree/a
	go 3 broadcast --raw-file --times --memory 64K tree -o 'timed.{rank}'
	local r
	for r in 0 1 2; do
		listing out.$r | diff - want
		listing -t timed.$r | diff - want.times
	done
	# Into an existing folder: its other files and the modes of folders stay.
	mkdir -p there/a
	chmod 700 there/a
	echo mine >there/mine
	echo old >there/run.sh
	# The root's folder does not change.
	find tree -printf '%p %i %C@\n' | sort >before
	go 2 bash -c '((COLLCTL_RANK)) && o=there || o=tree/; exec "$0" broadcast --raw-file tree/ -o "$o" "$@"' "$COLLCTL"
	find tree -printf '%p %i %C@\n' | sort | diff - before
	assert_equal "$(<there/mine) $(<there/run.sh) $(stat -c %a there/a there/run.sh | xargs)" 'mine run 700 755'
	go 2 broadcast --raw-file --root 1 tree/ -o tree/
	find tree -printf '%p %i %C@\n' | sort | diff - before
	mkdir hollow
	go 2 broadcast --raw-file hollow -o 'hollow.{rank}'
	[[ -d hollow.0 && -d hollow.1 ]]
	# Several ranks, one folder: written once.
	go 3 broadcast --raw-file tree -o one
	listing one | diff - want
	# One rank creates the folders and sets their modes and times when their contents are complete.
	for r in 0 1 2 3 4 5; do
		go 3 broadcast --raw-file --times tree -o timed.one$r/
		listing -t timed.one$r | diff - want.times
	done
	refused 3 'tree: is a directory' 1 broadcast --raw-file --each tree -o x
	refused 3 'none/: cannot open' 1 broadcast --raw-file none/ -o x
	refused 2 "-: several files cannot be written to stdout" 1 broadcast --raw-file tree -o -
	refused 4 'want: is a file: expected a folder' 2 broadcast --raw-file tree -o want
	ln -s nothing dangling
	refused 4 'dangling: is a symbolic link that leads nowhere: expected a folder' 2 broadcast --raw-file tree -o dangling
	[[ -L dangling && ! -e nothing ]]
}

@test "a folder that comes stays in its folder: a symbolic link there is refused, nothing is written or left" {
	make_tree
	mkdir outside there to
	ln -s "$PWD/outside" there/a
	refused 4 'there/a: is a symbolic link: expected a folder' 2 bash -c \
		'((COLLCTL_RANK)) && o=there || o=fine; exec "$0" broadcast --raw-file tree -o $o "$@"' "$COLLCTL"
	ln -s "$PWD/outside/run.sh" to/run.sh
	refused 4 'to/run.sh: is a symbolic link, which is not followed in this folder: remove it' 2 bash -c \
		'((COLLCTL_RANK)) && o=to || o=fine; exec "$0" broadcast --raw-file --force tree -o $o "$@"' "$COLLCTL"
	assert_equal "$(ls -A outside there to)" $'outside:\n\nthere:\na\n\nto:\nrun.sh'
	[[ ! -e fine ]]
}

@test "gather --raw-file: a file of each rank stays a file at the root, by {rank} or {host}" {
	local r
	for r in 0 1 2; do
		mkdir n$r
		echo "log of $r" >n$r/.log
		chmod 64$r n$r/.log
		touch -d 200$r-02-03 n$r/.log
	done
	: >n2/.log
	head -c 3000000 /dev/urandom >n1/.log
	touch -d 2001-02-03 n1/.log
	go 3 gather --raw-file --root 1 'n{rank}/.log' -o 'logs/{rank}/'
	go 3 gather --raw-file --memory 64K --times 'n{rank}/.log' -o 'new/x/{host}-{rank}.txt'
	for r in 0 1 2; do
		cmp logs/$r/.log n$r/.log
		cmp "new/x/$(hostname)-$r.txt" n$r/.log
		assert_equal "$(stat -c %a logs/$r/.log)" 64$r
		assert_equal "$(stat -c %Y "new/x/$(hostname)-$r.txt")" "$(stat -c %Y n$r/.log)"
	done
	assert_equal "$(find logs new -type f | wc -l)" 6
	# Without a placeholder they are joined.
	go 3 gather --raw-file 'n{rank}/.log' -o joined
	cat n?/.log | cmp - joined
	# Different names need no placeholder, equal names do; several files per rank.
	for r in 0 1; do
		cp n$r/.log n$r.txt
	done
	go 2 gather --raw-file 'n{rank}.txt' -o flat/
	cmp flat/n1.txt n1.txt
	refused 2 'flat/.log: is given as output twice: put {rank} into -o' 2 gather --raw-file 'n{rank}/.log' -o flat/
	go 2 gather --raw-file --each 'n{rank}/.log' 'n{rank}.txt' -o 'each/{rank}'
	cmp each/1/n1.txt n1.txt
	cmp each/0/.log n0/.log
	# All or none: one of them cannot be replaced.
	mkdir -p keep/0 keep/1/.log
	echo old >keep/0/.log
	refused 4 'keep/1/.log: is a directory' 2 gather --raw-file 'n{rank}/.log' -o 'keep/{rank}/'
	assert_equal "$(<keep/0/.log)" old
}
