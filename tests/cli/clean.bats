#!/usr/bin/env bats
# clean: removes the parts and temporary files that ended jobs have left, and nothing else.

load helpers

# old FILE...: files of three bytes that were written to two days ago
old() {
	local f
	for f; do
		printf abc >"$f"
		touch -d '2 days ago' "$f"
	done
}

# left: the files below d
left() { (cd d && find . ! -type d | sort); }

# bats test_tags=smoke
@test "old parts and temporary files go, in all folders; others, young ones and what links lead to stay" {
	mkdir -p d/a/b d/.hidden elsewhere
	ln -s b d/a/.l.collctl-abcdefghij05
	touch -h -d '2 days ago' d/a/.l.collctl-abcdefghij05
	old d/.x.collctl-part d/a/b/.y.collctl-part d/.hidden/.z.collctl-part d/a/.t.collctl-abcdefghij05 $'d/.\n.collctl-part'
	old d/x.collctl-part d/a/.t.collctl-abcdefghij06 d/.collctl-part d/.t.collctl-abc d/data d/.t.collctl-part.old
	old elsewhere/.e.collctl-part e
	ln -s "$PWD/elsewhere" d/folder
	ln -s "$PWD/e" d/.link.collctl-part
	mkdir d/.dir.collctl-part
	mkfifo d/.fifo.collctl-part
	printf young >d/.young.collctl-part
	touch -d tomorrow d/.future.collctl-part
	local before
	before=$(left)
	run -0 --separate-stderr collctl clean --dry-run d
	grep -qxF 'would remove d/.x.collctl-part, 3 bytes' <<<"$output"
	assert_equal "${lines[-1]}" '6 files, 15 bytes would be removed'
	assert_equal "$(left)" "$before"
	run -0 --separate-stderr collctl clean d/
	assert_equal "$stderr" ''
	assert_equal "$(sort <<<"$output")" "$(sort <<-'END'
		6 files, 15 bytes removed
		removed d/.\x0a.collctl-part, 3 bytes
		removed d/.hidden/.z.collctl-part, 3 bytes
		removed d/.x.collctl-part, 3 bytes
		removed d/a/.l.collctl-abcdefghij05, 0 bytes
		removed d/a/.t.collctl-abcdefghij05, 3 bytes
		removed d/a/b/.y.collctl-part, 3 bytes
	END
	)"
	assert_equal "$(left)" "$(sort <<-'END'
		./.collctl-part
		./.fifo.collctl-part
		./.future.collctl-part
		./.link.collctl-part
		./.t.collctl-abc
		./.t.collctl-part.old
		./.young.collctl-part
		./a/.t.collctl-abcdefghij06
		./data
		./folder
		./x.collctl-part
	END
	)"
	[[ -d d/.dir.collctl-part && -s e && -s elsewhere/.e.collctl-part ]]
	run -0 collctl clean --older-than 0 d elsewhere
	[[ ! -e d/.young.collctl-part && ! -e elsewhere/.e.collctl-part && -e d/.future.collctl-part ]]
	run -0 collctl clean --json d
	jq -e '. == {command: "clean", ok: true, dry_run: false, files: 0, bytes: 0, removed: [], in_use: [], kept: [], failed: [], error: null}' <<<"$output"
}

@test "a file that a job uses stays, and an old version that was kept" {
	mkdir d
	old d/.x.collctl-part d/.y.collctl-old-abcdefghijkl
	exec {lock}<d/.x.collctl-part
	flock "$lock"
	run -0 --separate-stderr collctl clean --older-than 1h d
	assert_output '0 files, 0 bytes removed'
	[[ $stderr == *'d/.x.collctl-part: a job uses it'* && $stderr == *'d/.y.collctl-old-abcdefghijkl: the old version of a file'* ]]
	run -0 --separate-stderr collctl clean -q d
	assert_equal "$stderr" ''
	run -0 --separate-stderr collctl clean --json d
	jq -e '.in_use[0].path == "d/.x.collctl-part" and .kept[0].bytes == 3 and .removed == []' <<<"$output"
	exec {lock}<&-
	run -0 --separate-stderr collctl clean d
	assert_equal "$(left)" ./.y.collctl-old-abcdefghijkl
	# A part and a temporary file of a job that goes on.
	head -c 2000000 /dev/urandom >src
	make_hostfile hosts 2
	make_secret
	spawn_rank 0 "$COLLCTL" broadcast --raw-file --resume -H hosts -r 0 --secret-file "$SECRET" src -o src --lanes tcp --limit-rate 8Mbit
	spawn_rank 1 "$COLLCTL" broadcast --raw-file --resume -H hosts -r 1 --secret-file "$SECRET" -o d/out --lanes tcp
	until [[ -s d/.out.collctl-part ]]; do :; done
	kill -STOP "${PIDS[1]}"
	run -0 --separate-stderr collctl clean --older-than 0 d
	[[ $stderr == *'d/.out.collctl-part: a job uses it'* ]] || fail "$output $stderr"
	kill -CONT "${PIDS[1]}"
	wait_ranks
	assert_ranks 2 0
	cmp src d/out
}

@test "a reader of the list that goes away does not stop it" {
	mkdir d
	for i in {1..2000}; do : >"d/.f$i.collctl-part"; done
	"$COLLCTL" clean --older-than 0 d | :
	assert_equal "${PIPESTATUS[*]}" '0 0'
	assert_equal "$(left)" ''
}

@test "what cannot be read or removed is named, and the others are removed" {
	mkdir -p d/a d/z
	old d/z/.x.collctl-part
	run -3 --separate-stderr collctl clean nowhere d
	[[ $stderr == *'nowhere: cannot open the folder'* ]]
	assert_equal "$(left)" ''
	run -3 --separate-stderr collctl clean --json d/none
	jq -e '.ok == false and .error.code == 3' <<<"$output"
	: >file
	run -3 collctl clean file
	run -2 collctl clean
	run -2 collctl clean --older-than yesterday d
	run -2 collctl clean --older-than '' d
	run -2 collctl clean --older-than -1 d
	run -2 --separate-stderr collctl clean --resume d
	another_user
	mkdir "$OTHER/d" "$OTHER/d/a" "$OTHER/d/b"
	old "$OTHER/d/.mine.collctl-part" "$OTHER/d/a/.x.collctl-part" "$OTHER/d/b/.y.collctl-part"
	chown nobody "$OTHER/d/a/.x.collctl-part" "$OTHER/d/b" "$OTHER/d/b/.y.collctl-part"
	chmod 700 "$OTHER/d"/.mine*
	chmod 777 "$OTHER/d"
	mkdir -m 700 "$OTHER/d/closed"
	run -4 --separate-stderr "${AS_OTHER[@]}" "$OTHER/collctl" clean "$OTHER/d"
	[[ $stderr == *'.x.collctl-part: cannot be cleaned: Permission denied; and 1 other'* ]] || fail "$stderr"
	[[ -e $OTHER/d/.mine.collctl-part && -e $OTHER/d/a/.x.collctl-part && ! -e $OTHER/d/b/.y.collctl-part ]]
	run -0 collctl clean "$OTHER/d" # root's
	[[ ! -e $OTHER/d/.mine.collctl-part && ! -e $OTHER/d/a/.x.collctl-part ]]
}
