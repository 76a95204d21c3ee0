#!/usr/bin/env bats
# broadcast --raw-file --delete: what the root's folder does not have is removed from the copies, after the verdict.

# shellcheck disable=SC2016 # for the whole file: ranks expand their own variables
load helpers

setup_tree() {
	mkdir -p t/a/b t/e
	echo 1 >t/a/f
	echo 2 >t/a/b/g
	echo 3 >t/z
	collctl run -n 3 -- broadcast -q --raw-file t/ -o 'o.{rank}/'
}

names() {
	(cd "$1" && find . -mindepth 1 -printf '%P\n' | sort | xargs)
}

@test "75: --delete removes what the root does not have, and leaves links, FIFOs, files of jobs, and their folders; --dry-run lists it" {
	setup_tree
	mkdir -p o.1/x/y o.1/s o.1/p o.2/keep out
	echo >o.1/x/y/f
	echo >o.1/a/b/h
	echo >out/s
	ln -s ../../out o.1/a/l
	ln -s "$PWD/out" o.1/s/l
	mkfifo o.1/p/fifo
	echo >o.1/s/q
	echo >o.2/keep/.x.collctl-part
	echo >o.2/keep/.x.collctl-abcdefghijkl
	echo >o.2/.hidden
	local before
	before=$(names o.1)
	collctl run -n 3 -- broadcast --json --dry-run --raw-file --delete t/ -o 'o.{rank}/' >j
	jq -se 'map(select(.rank == 1))[0].dry_run.deletes == ["a/b/h", "s/q", "x/y/f", "x/y", "x"]' j
	run collctl run -n 3 -- broadcast --dry-run --raw-file --delete t/ -o 'o.{rank}/'
	[[ $output == *'rank 1: would delete o.1/x/y/f'* && $output == *'rank 2: would delete o.2/.hidden'* ]]
	assert_equal "$(names o.1)" "$before"
	run collctl run -n 3 -- broadcast --raw-file --update --delete t/ -o 'o.{rank}/'
	[[ $output == *'rank 1: o.1/: files and folders deleted: 5'* && $output == *'rank 0: o.0/: files and folders deleted: 0'* ]] || fail "$output"
	assert_equal "$(names o.1)" 'a a/b a/b/g a/f a/l e p p/fifo s s/l z'
	assert_equal "$(names o.2)" 'a a/b a/b/g a/f e keep keep/.x.collctl-abcdefghijkl keep/.x.collctl-part z'
	assert_equal "$(names out)" s
	echo >o.2/x
	rm t/a/f
	collctl run -n 3 -- broadcast --json --raw-file --delete t/ -o 'o.{rank}/' >j
	jq -se 'sort_by(.rank) | map(.files.deleted) == [1, 1, 2]' j
}

@test "--delete protects what --include and --exclude leave out; all ranks must give the same patterns" {
	setup_tree
	echo >t/l.o
	mkdir -p o.1/.git/x o.1/n
	touch o.1/.git/x/y o.1/k.o o.1/n/k.o o.1/n/old.c
	collctl run -n 3 -- broadcast -q --raw-file --delete --exclude .git --exclude '*.o' t/ -o 'o.{rank}/'
	assert_equal "$(names o.1)" '.git .git/x .git/x/y a a/b a/b/g a/f e k.o n n/k.o z'
	touch o.1/n/f
	collctl run -n 3 -- broadcast -q --raw-file --delete --include f t/ -o 'o.{rank}/'
	assert_equal "$(names o.1)" '.git .git/x .git/x/y a a/b a/b/g a/f e k.o n n/k.o z'
	touch o.1/gone
	run -7 collctl run -n 2 -- bash -c '((COLLCTL_RANK)) && with= || with="--exclude k.o"
		exec "$0" broadcast -q --raw-file --delete $with t/ -o "o.$COLLCTL_RANK/"' "$COLLCTL"
	[[ $output == *--exclude* && -e o.1/gone && -e o.1/k.o ]]
}

@test "--delete removes nothing in the root's folder, around it, or where ranks' folders overlap, and refuses what is no folder" {
	setup_tree
	mkdir -p in/deep own/sub
	mv t in/deep/t
	touch in/own in/deep/own own/f own/sub/f
	run collctl run -n 2 -- bash -c '((COLLCTL_RANK)) && o=in/ || o=in/deep/t; exec "$0" broadcast --raw-file --delete in/deep/t -o $o' "$COLLCTL"
	[[ $status == 0 && $output == *'in/: nothing is deleted: '* && -e in/own && -e in/deep/own && -e in/deep/t/z ]] || fail "$output"
	run collctl run -n 2 -- bash -c '((COLLCTL_RANK)) && o=own/ || o=own/sub; exec "$0" broadcast --raw-file --delete in/deep/t -o $o' "$COLLCTL"
	[[ $status == 0 && $output == *'own/: nothing is deleted: '* && $output == *'own/sub: nothing is deleted: '* && -e own/f && -e own/sub/f ]] || fail "$output"
	# One rank writes a folder that several name.
	touch o.1/f
	collctl run -n 3 -- broadcast --json --raw-file --delete in/deep/t -o o.1/ >j
	jq -se 'map(.files.deleted) | sort == [0, 0, 1]' j
	[[ ! -e o.1/f ]]
	mkdir none home
	touch o.1/f home/f
	run -2 collctl run -n 2 -- broadcast --raw-file --delete none/ -o 'o.{rank}/'
	[[ $output == *--force* && -e o.1/f ]]
	run -2 collctl run -n 2 -- broadcast --raw-file --delete in/own -o 'o.{rank}/f'
	[[ $output == *'name a folder'* ]]
	run -2 collctl run -n 2 -- broadcast --delete in/deep/t -o 'o.{rank}/'
	[[ $output == *--raw-file* ]]
	HOME=$PWD/home run -2 collctl run -n 2 -- broadcast --raw-file --delete in/deep/t -o home/
	[[ $output == *'name the folder'* && -e home/f ]]
	run -2 collctl run -n 2 -- bash -c 'cd o.1 && exec "$0" broadcast --raw-file --delete ../in/deep/t -o .' "$COLLCTL"
	[[ -e o.1/f ]]
	collctl run -n 2 -- broadcast -q --raw-file --force --delete none/ -o 'o.{rank}/'
	assert_equal "$(names o.1)" ''
}

@test "--delete removes nothing if the job fails before the verdict; a removal that fails: 4, listed, the rest is done" {
	setup_tree
	touch o.0/old o.1/old o.1/older
	mkdir o.1/busy o.2/z.d
	touch o.1/busy/f
	rm o.2/z
	mkdir o.2/z
	run -4 collctl run -n 3 -- broadcast --raw-file --delete t/ -o 'o.{rank}/'
	[[ -e o.0/old && -e o.1/old && -e o.2/z.d ]]
	rmdir o.2/z
	unshare -rm mount --bind t/z o.1/old 2>/dev/null || skip 'this machine lets nobody mount'
	run -4 unshare -rm bash -c 'mount --bind t/e o.1/busy && mount --bind t/z o.1/old && "$0" run -n 3 -- broadcast --raw-file --delete t/ -o "o.{rank}/"' "$COLLCTL"
	[[ $output == *'o.1/: old: cannot delete: '*'1 of 2 were not deleted'* ]] || fail "$output"
	[[ ! -e o.0/old && -e o.1/old && -e o.1/busy/f && ! -e o.1/older && -e o.2/z && ! -e o.2/z.d ]]
}

# meanwhile COMMAND: a job of three ranks with --delete, and COMMAND when all have walked their folders and data are about to move
meanwhile() {
	local line
	rm -rf src o.* && mkdir -p src o.1/sub
	echo small >src/small
	head -c 200000 /dev/urandom >src/big
	cp -p src/small o.1/
	cp -r o.1 o.0 && cp -p src/small o.0/
	cp -pr o.0 o.2
	touch o.{0,1,2}/{gone,changed,replaced,sub/gone}
	mkfifo said
	collctl run -n 3 -- bash -c 'echo $$ >"pid.$COLLCTL_RANK"
		exec "$0" broadcast --raw-file --insecure --lanes tcp --limit-rate 100K --update --delete src/ -o "o.$COLLCTL_RANK/"' "$COLLCTL" >said 2>&1 &
	STARTED+=($!)
	all='' rc=0
	while read -r line; do
		all+=$line$'\n'
		[[ $line != *'1 of 2 files are as the root'* ]] || eval "$1"
	done <said
	wait "${STARTED[-1]}" || rc=$?
	rm said
}

@test "75, 17: files that come or change once --delete has found what to remove stay; if a rank is killed before the verdict all stay" {
	meanwhile 'echo new >o.1/sub/new; echo more >o.1/changed; echo other >x; mv x o.1/replaced; mkdir o.2/gone.d; rm o.2/gone'
	((rc == 0)) || fail "$rc: $all"
	assert_equal "$(names o.0)" 'big small'
	assert_equal "$(names o.1)" 'big changed replaced small sub sub/new'
	assert_equal "$(names o.2)" 'big gone.d small'
	[[ $all == *'rank 1: o.1/: files and folders deleted: 2'* && $all == *'rank 2: o.2/: files and folders deleted: 4'* ]] || fail "$all"
	meanwhile 'kill -KILL "$(<pid.1)"'
	((rc != 0)) || fail "$rc: $all"
	for r in 0 1 2; do
		assert_equal "$(names o.$r)" 'changed gone replaced small sub sub/gone'
	done
}
