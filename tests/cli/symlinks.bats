#!/usr/bin/env bats
# broadcast --raw-file --links: symbolic links of a folder are copied as links, if they stay in the folder.

# shellcheck disable=SC2016 # for the whole file: ranks expand their own variables
load helpers

# entries FOLDER: names, kinds and the targets of links
entries() {
	(cd "$1" && find . -mindepth 1 -printf '%P %y %l\n' | sort)
}

setup_tree() {
	mkdir -p t/a/b
	echo 1 >t/a/f
	ln -s a/f t/l
	ln -s ./a//b t/dir
	ln -s ../f t/a/b/up
	ln -s ../.. t/a/b/top
	ln -s nowhere t/a/dangling
	ln -s . t/.self
}

# go SIZE OPTION...: a job that succeeds
go() {
	collctl run -n "$1" -- broadcast --raw-file "${@:2}" t/ -o 'o.{rank}/' >said 2>&1 || fail "$(<said)"
}

# refused CODE TEXT OPTION...: a job of two ranks that fails, and says why
refused() {
	run -"$1" collctl run -n 2 -- broadcast --raw-file "${@:3}" t/ -o 'o.{rank}/'
	[[ $output == *"$2"* ]] || fail "$output"
}

@test "--links copies links that stay in the folder; others are skipped by name; an equal link is left, another is replaced" {
	local r i inode
	setup_tree
	entries t >want
	ln -s /etc/passwd t/absolute
	ln -s ../out t/out
	ln -s ../../.. t/a/b/far
	ln -s a/../../out t/middle
	collctl run -n 2 -- broadcast --json --dry-run --raw-file --links t/ -o 'o.{rank}/' >j 2>/dev/null
	jq -se 'all([.dry_run.outputs[] | select(.link) | [.file[3:], .action, .link]] == [["/.self", "create", "."],
		["/a/b/top", "create", "../.."], ["/a/b/up", "create", "../f"], ["/a/dangling", "create", "nowhere"],
		["/dir", "create", "./a//b"], ["/l", "create", "a/f"]])' j || fail "$(<j)"
	[[ ! -e o.0 ]]
	go 3 --links --times
	for r in 0 1 2; do
		entries o.$r | diff want -
		assert_equal "$(stat -c %Y o.$r/l)" "$(stat -c %Y t/l)"
	done
	for i in "absolute: is a symbolic link to '/etc/passwd'" "out: is a symbolic link to '../out'" \
		"a/b/far: is a symbolic link to '../../..'" "middle: is a symbolic link to 'a/../../out'"; do
		assert_equal "$(grep -c "t/$i, which may lead out of the folder: skipped" said)" 1
	done
	# An equal link stays the same; one to something else, of any kind, is replaced itself.
	echo own >own
	ln -sfn "$PWD/own" o.1/l
	ln -sfn a/b o.2/dir
	inode=$(stat -c %i o.1/dir)
	go 3 --dry-run --links --update
	grep -q 'rank 1: would replace o.1/l -> a/f' said
	run ! grep -e 'o.1/dir' -e 'o.0/l' said
	go 3 --links --update
	for r in 0 1 2; do
		entries o.$r | diff want -
	done
	assert_equal "$(stat -c %i o.1/dir)" "$inode"
	assert_equal "$(<own)" own
	# Ranks that share a folder, and the root's own; a folder with nothing but links.
	collctl run -n 3 -- bash -c '((COLLCTL_RANK)) && o=one || o=t; exec "$0" broadcast -q --raw-file --links t/ -o $o/' "$COLLCTL"
	entries one | diff want -
	mkdir t/only
	ln -s x t/only/y
	"$PYTHON" -c 'import os
for i in range(400): os.symlink("x", f"t/only/{i}")'
	(ulimit -n 200 && collctl run -n 2 -- broadcast -q --raw-file --links t/only -o 'only.{rank}') # a link needs no descriptor
	diff <(entries t/only) <(entries only.1)
	# Without --links they are skipped, and with it they are chosen by their paths.
	go 2
	grep -q 't/l: is a symbolic link: skipped' said
	rm -r o.*
	go 2 --links --include 'a/b/*' --exclude up
	assert_equal "$(entries o.1)" $'a d \na/b d \na/b/top l ../..'
	assert_equal "$(find . -name '.*collctl*')" ''
}

@test "--links: a link, a file and a folder do not replace each other without --force; an abort leaves the old ones" {
	setup_tree
	go 2 --links
	echo own >outside
	rm o.1/l && echo own >o.1/l
	ln -sfn nowhere o.1/dir
	ln -sf "$PWD/outside" o.1/a/f
	entries o.1 >before
	rm o.0/a/f
	refused 4 "o.1/a/f: is a symbolic link: expected a file or none: remove it, or give --force" --links
	refused 4 "o.1/a/f: is a symbolic link: expected a file or none" --links --dry-run
	refused 4 "o.1/a/f: is a symbolic link, which is not followed" --force
	echo x >t/a/g
	ln -sf a/g t/l
	rm o.1/a/f
	refused 4 "o.1/l: is a file: expected a symbolic link or none: remove it, or give --force" --links --update
	ln -s "$PWD/outside" o.1/a/f
	entries o.1 | diff before -
	assert_equal "$(readlink o.0/l)" a/f
	[[ ! -e o.0/a/f ]]
	go 2 --links --force --dry-run
	grep -q 'would replace o.1/l -> a/g' said
	grep -q 'would replace o.1/a/f' said
	go 2 --links --force
	diff <(entries t) <(entries o.1)
	diff <(entries t) <(entries o.0)
	assert_equal "$(<outside)" own
	# A folder stays, whatever is forced.
	rm o.1/l && mkdir o.1/l && echo own >o.1/l/f
	refused 4 'o.1/l: is a directory: expected a symbolic link or none' --links --force
	rm -r o.1/l o.1/a/b
	ln -s "$PWD" o.1/a/b
	refused 4 'o.1/a/b: is a symbolic link: expected a folder or none' --links --force
	[[ ! -e up ]]
	assert_equal "$(find . -name '.*collctl*')" ''
}

@test "--links and --delete: links that the root does not have are removed themselves; with --resume an old part goes" {
	setup_tree
	go 2 --links
	mkdir out o.1/x
	echo own >out/f
	ln -s ../a o.1/x/y
	ln -s nothing o.1/z
	ln -s nothing o.1/k
	ln -s "$PWD/out" o.1/away # the root would skip it
	go 2 --delete # without --links they stay
	[[ -L o.1/x/y && -L o.1/z && -L o.1/l ]]
	collctl run -n 2 -- broadcast --json --dry-run --raw-file --links --delete --exclude k t/ -o 'o.{rank}/' >j
	jq -se 'map(select(.rank == 1))[0].dry_run.deletes == ["x/y", "x", "z"]' j
	go 2 --links --delete --exclude k
	assert_equal "$(entries o.1)" "$( (entries t; echo 'k l nothing'; echo "away l $PWD/out") | sort)"
	assert_equal "$(<out/f)$(<o.1/a/f)" own1
	rm o.1/away
	echo old >o.1/.l.collctl-part
	rm o.1/l
	go 2 --links --resume --delete
	diff <(entries t) <(entries o.1)
	# A folder of links alone is no empty one.
	mkdir links && mv t/l links/ && rm -r t && mv links t
	go 2 --links --delete
	assert_equal "$(entries o.1)" 'l l a/f'
}

@test "gather --links copies the links of each rank's folder; a rank whose link leads out of it is told" {
	setup_tree
	mkdir s
	ln -s ../t/a/f s/l
	ln -s f s/m
	collctl run -n 2 -- bash -c '((COLLCTL_RANK)) && i=s || i=t; exec "$0" gather --raw-file --links $i/ -o "g/{rank}/"' "$COLLCTL" >said 2>&1
	diff <(entries t) <(entries g/0)
	assert_equal "$(entries g/1)" 'm l f'
	grep -q "s/l: is a symbolic link to '../t/a/f', which may lead out of the folder: skipped" said || fail "$(<said)"
}

@test "--links is for folders, with --raw-file, and on all ranks" {
	setup_tree
	run -2 collctl run -n 2 -- broadcast --raw-file --links t/l -o 'o.{rank}'
	[[ $output == *'t/l: --links copies the symbolic links of a folder'* ]] || fail "$output"
	run -2 collctl run -n 2 -- broadcast --links t/ -o 'o.{rank}/'
	[[ $output == *'--links: needs --raw-file'* ]] || fail "$output"
	run -2 collctl run -n 2 -- broadcast --links --raw-file --each t/a/f -o 'o.{rank}/'
	[[ $output == *'--links: takes one folder: remove --each'* ]] || fail "$output"
	run -7 collctl run -n 2 -- bash -c '((COLLCTL_RANK)) && with= || with=--links
		exec "$0" broadcast --raw-file $with t/ -o "o.$COLLCTL_RANK/"' "$COLLCTL"
	[[ $output == *--links* && ! -e o.1 ]] || fail "$output"
	# The name of a hidden link is hidden.
	mkdir home
	HOME=$PWD/home run -7 collctl run -n 2 -- broadcast --raw-file --links t/ -o home
	[[ $output == *"'.self' is hidden"* ]] || fail "$output"
	assert_equal "$(entries home)" ''
}
