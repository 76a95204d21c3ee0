#!/usr/bin/env bats
# gather --raw-file DIR: the root gets the folder of every rank.

# shellcheck disable=SC2016 # for the whole file: ranks expand their own variables
load helpers

# make_folders: n0, n1 and n2, of which the last is empty
make_folders() {
	mkdir -p n0/a/b n0/empty/er n0/.hidden n1/sub n2
	echo run >n0/run.sh
	head -c 3000000 /dev/urandom >n0/a/b/big
	: >n0/a/nothing
	echo secret >n0/.hidden/.f
	echo odd >$'n0/a/new\nline \xff'
	ln n0/a/b/big n0/z
	ln n0/run.sh n0/a/link
	truncate -s 20M n1/sub/sparse
	printf data | dd of=n1/sub/sparse bs=1 seek=5000000 conv=notrunc status=none
	echo one >n1/log
	chmod 755 n0/run.sh n0
	chmod 600 n0/.hidden/.f
	chmod 711 n0/.hidden n2
	chmod 500 n0/empty/er
	find n? -exec touch -d '2001-02-03 04:05:06.000000789' {} +
	touch -d '1969-12-31 23:59:58.5 UTC' n0/a/nothing
}

# bats test_tags=smoke
@test "gather --raw-file of a folder of each rank: names, empty folders, modes, times, hard links, holes; links are left out" {
	local r out
	make_folders
	for r in 0 1 2; do
		listing n$r >want.$r
		listing -t n$r >times.$r
		linked n$r >linked.$r
	done
	ln -s run.sh n0/link
	go 3 gather --json --raw-file --root 1 'n{rank}/' -o 'all/{rank}/' >j
	grep -F 'rank 0: n0/link: is a symbolic link: skipped' err
	rm n0/link
	touch -d '2001-02-03 04:05:06.000000789' n0
	go 3 gather --raw-file --times --memory 64K 'n{rank}' -o 'deep/er/{host}.{rank}'
	for r in 0 1 2; do
		listing all/$r | diff - want.$r
		out=deep/er/$(hostname).$r
		listing -t "$out" | diff - times.$r
		linked "$out" | diff - linked.$r
	done
	jq -se 'sort_by(.rank) | map([.content_bytes, .files.sent]) == [[3000015, 5], [23971539, 7], [0, 0]] and .[1].digest == null' j
	if (($(stat -c %b n1/sub/sparse) < 1000)); then
		(($(stat -c %b all/1/sub/sparse) <= $(stat -c %b n1/sub/sparse) + 8))
		jq -se 'all(.bytes < 3500000)' j
	fi
	# Into folders that exist: their other files and modes stay.
	mkdir -p there/0/a
	chmod 700 there/0/a
	echo mine >there/0/mine
	echo old >there/0/run.sh
	go 3 gather --raw-file 'n{rank}' -o 'there/{rank}'
	assert_equal "$(<there/0/mine) $(<there/0/run.sh) $(stat -c %a there/0/a there/0/run.sh | xargs)" 'mine run 700 755'
	# The root's own folder is left alone.
	find n0 -printf '%p %i %C@\n' | sort >before
	cp -r n1 other
	go 2 bash -c '((COLLCTL_RANK)) && in=other || in=n0; exec "$0" gather --raw-file $in -o "n{rank}" "$@"' "$COLLCTL"
	find n0 -printf '%p %i %C@\n' | sort | diff - before
	# One rank needs no {rank}; nor does a file beside folders need one of its own.
	go 1 gather --raw-file n0/ -o one
	listing one | diff - want.0
	go 2 bash -c '((COLLCTL_RANK)) && in=n1/log || in=n2/; exec "$0" gather --raw-file $in -o "mixed/{rank}/" "$@"' "$COLLCTL"
	assert_equal "$(<mixed/1/log) $(stat -c %a mixed/0)" 'one 711'
	go 2 gather --raw-file n2 -o 'nothing/{rank}'
	assert_equal "$(find nothing -printf '%P %m ')" ' 755 0 711 1 711 '
	assert_equal "$(find . -name '.*collctl*')" ''
}

@test "--include and --exclude choose on each rank; --dry-run lists what the root would write" {
	make_folders
	cp n0/run.sh n2/run.sh
	go 3 gather --raw-file --include '*.sh' --include /sub/ --exclude /sub/sparse 'n{rank}' -o 'some/{rank}'
	grep -F "rank 1: n1: no file or folder matches --include '*.sh'" err
	assert_equal "$(cd some && find . -mindepth 1 | sort | xargs)" './0 ./0/run.sh ./1 ./1/sub ./2 ./2/run.sh'
	mkdir -p x/1
	echo old >x/1/log
	go 3 gather --json --dry-run --raw-file --exclude '/[ar.]*' 'n{rank}' -o 'x/{rank}/' >j
	jq -se 'map(.dry_run.outputs | map(.action + " " + .file)) | map(select(length > 0)) ==
		[["create x/0/z", "replace x/1/log", "create x/1/sub/sparse"]]' j
	assert_equal "$(find x -type f -exec cat {} +)" old
	refused 2 '--include and --exclude with --raw-file choose files of a folder' 2 gather --raw-file --include x n1/log -o 'no/{rank}'
	[[ ! -e no ]]
}

# again OPTION...: gathers again to rank 1; prints what was left, what was sent, and the bytes, of all ranks
again() {
	go 3 gather --json --raw-file --root 1 --update "$@" 'n{rank}' -o 'all/{rank}' >j
	jq -cs 'sort_by(.rank) | map([.files.equal, .files.sent, .bytes]) | unique' j
}

@test "--update sends only files that the root lacks or has otherwise; --checksum compares contents" {
	local r
	make_folders
	again
	for r in 0 1 2; do
		listing -t n$r >times.$r
		linked n$r >linked.$r
		listing -t all/$r | diff - times.$r
	done
	find all -type f -printf '%i\n' | sort >before
	assert_equal "$(again)" '[[0,0,0],[5,0,0],[7,0,0]]'
	find all -type f -printf '%i\n' | sort | diff - before
	grep -F 'rank 1: 7 of 9 files are as the ranks'"': not sent" err
	jq -se 'map(select(.rank == 1))[0] | .digest == null and .content_bytes == 23971539' j
	# Newer at the root, other permissions, gone, changed; a link that the root lacks.
	rm all/0/run.sh all/0/z
	echo newer >all/0/a/nothing
	chmod 640 all/1/log
	assert_equal "$(again --memory 64K)" '[[0,0,4],[4,1,4],[5,2,4]]'
	for r in 0 1 2; do
		diff <(listing all/$r) <(listing n$r)
		linked all/$r | diff - linked.$r
	done
	touch n0/run.sh all/1/sub/sparse
	assert_equal "$(again --checksum --dry-run)" '[[0,0,0],[5,0,0],[7,0,0]]'
	assert_equal "$(again --checksum)" '[[0,0,0],[5,0,0],[7,0,0]]'
	echo ONE >n1/log
	touch -r all/1/log n1/log
	assert_equal "$(again --checksum)" '[[0,0,4],[5,0,4],[6,1,4]]'
	cmp n1/log all/1/log
	# One rank, and single files.
	go 1 gather --raw-file --update n0 -o one
	go 1 gather --json --raw-file --update --checksum n0 -o one >j
	jq -e '.files == {"equal": 5, "sent": 0, "deleted": 0}' j
	cp n1/log n0/log
	go 2 gather --raw-file --update 'n{rank}/log' -o 'logs/{rank}/'
	echo more >>n1/log
	go 2 gather --json --raw-file --update 'n{rank}/log' -o 'logs/{rank}/' >j
	cmp n1/log logs/1/log
	jq -se 'map(select(.rank == 0))[0].files == {"equal": 1, "sent": 1, "deleted": 0}' j
	refused 2 'all.log is one file for all ranks: put {rank} into -o' 2 gather --raw-file --update 'n{rank}/log' -o all.log
	refused 2 '--update: gather needs --raw-file with it' 1 gather --update n1/log -o x
}

@test "folders are not merged, joined or sent to stdout; all or none" {
	make_folders
	local out
	for out in all all/ 'all/{size}/'; do
		refused 2 'is the output of ranks 0 and 1, whose folders are not merged: put {rank} into -o' 3 gather --raw-file 'n{rank}' -o "$out"
	done
	refused 2 "all/$(hostname)/: is the output of ranks 0 and 1" 3 gather --raw-file 'n{rank}' -o 'all/{host}/'
	refused 2 'all: is the output of ranks 0 and 1' 2 bash -c '((COLLCTL_RANK)) && in=n1/log || in=n2
		exec "$0" gather --raw-file $in -o all "$@"' "$COLLCTL"
	refused 2 "-: several files cannot be written to stdout" 1 gather --raw-file n0 -o -
	refused 3 'n0: is a directory' 1 gather --raw-file --each n0 -o all
	refused 3 'none/: cannot open' 1 gather --raw-file none/ -o all
	local option
	for option in --delete --resume '--delta n0'; do
		# shellcheck disable=SC2086
		refused 2 "${option% *} is not an option of gather" 1 gather --raw-file $option n0 -o all
	done
	[[ ! -e all ]]
	mkdir -p keep/1 outside
	ln -s "$PWD/outside" keep/1/sub
	refused 4 'keep/1/sub: is a symbolic link: expected a folder' 2 gather --raw-file --force 'n{rank}' -o 'keep/{rank}'
	rm keep/1/sub
	ln -s "$PWD/outside/x" keep/1/log
	refused 4 'keep/1/log: is a symbolic link, which is not followed in this folder' 2 gather --raw-file --force 'n{rank}' -o 'keep/{rank}'
	rm keep/1/log
	mkdir keep/1/log
	refused 4 'keep/1/log: is a directory' 2 gather --raw-file 'n{rank}' -o 'keep/{rank}'
	assert_equal "$(find outside keep | sort | xargs)" 'keep keep/1 keep/1/log outside'
}

# changed COMMAND: n0/ is gathered at rank 1, and COMMAND runs when rank 0 has read its names
changed() {
	rm -rf n0 n1 all
	mkdir -p n0/a n1
	echo x >n0/a/f
	ln -s f n0/zz # the rank says that it skips this, after it has seen the others
	mkfifo said go
	collctl run -n 2 -- bash -c '((COLLCTL_RANK == 0)) || read -r _ <go
		exec "$0" gather --raw-file --root 1 "n$COLLCTL_RANK" -o "all/{rank}"' "$COLLCTL" >said 2>&1 &
	STARTED+=($!)
	said='' rc=0
	local line
	while read -r line; do
		said+=$line$'\n'
		[[ $line != *'n0/zz: is a symbolic link: skipped'* ]] || {
			eval "$1"
			echo >go
		}
	done <said
	wait "${STARTED[-1]}" || rc=$?
	rm said go
}

@test "a rank's folder that changes while it is read: 3, with the rank and the name, and no copy" {
	changed 'echo new >n0/a/h'
	((rc == 3)) && [[ $said == *'rank 0: n0/a/h: has appeared while the folder was read'* && ! -e all ]] || fail "$rc: $said"
	changed 'rm n0/a/f'
	((rc == 3)) && [[ $said == *'rank 0: n0/a/f: was removed while the folder was read'* && ! -e all ]] || fail "$rc: $said"
	changed :
	((rc == 0)) && cmp n0/a/f all/0/a/f || fail "$rc: $said"
}

@test "the lists of all ranks together need no message if the root is rank 0, and else one: 11, with what to do" {
	py <<<'
for r in range(3):
    os.mkdir(f"n{r}")
    for i in range(720):
        open(f"n{r}/{i:03}" + 240 * "x", "w").close()
'
	go 3 gather --raw-file --update --checksum 'n{rank}' -o 'all/{rank}'
	assert_equal "$(find all/2 -type f | wc -l)" 720
	refused 11 'the names of the 2160 files of all ranks do not fit a message' 3 gather --raw-file --root 1 'n{rank}' -o 'no/{rank}'
	[[ $stderr == *'let rank 0 be the root, or gather fewer'* && ! -e no ]]
}
