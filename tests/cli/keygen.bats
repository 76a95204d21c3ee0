#!/usr/bin/env bats
# keygen: the secret's form, its file's mode, and errors.

load helpers

# bats test_tags=smoke
@test "64 hex digits and a newline on stdout, another each time" {
	collctl keygen >a
	collctl keygen >b
	assert_equal "$(wc -c <a)" 65
	grep -qxE '[0-9a-f]{64}' a
	run -1 cmp -s a b
}

# bats test_tags=smoke
@test "to a file of mode 0600 whatever the umask, nothing on stdout" {
	umask 000
	run -0 --separate-stderr collctl keygen key
	assert_output ''
	assert_equal "$(stat -c %a key)" 600
	grep -qxE '[0-9a-f]{64}' key
	assert_equal "$(wc -c <key)" 65
}

@test "an existing file is not overwritten: 4" {
	echo mine >key
	run -4 --separate-stderr collctl keygen key
	[[ $stderr == *key* ]]
	assert_equal "$(<key)" mine
}

@test "a symlink is not followed" {
	ln -s elsewhere key
	run -4 collctl keygen key
	assert_file_not_exist elsewhere
}

@test "a folder that does not exist: 4, named" {
	run -4 --separate-stderr collctl keygen nowhere/key
	[[ $stderr == *nowhere/key* ]]
}

# bats test_tags=smoke
@test "a group- or world-readable secret file is refused with the chmod that mends it" {
	local mode
	make_shards 1 f32 4
	make_secret
	for mode in 640 604 644 620; do
		chmod "$mode" job.key
		run -6 --separate-stderr collctl allreduce -n 1 -r 0 --secret-file job.key in.0.npy -o out.npy
		[[ $stderr == *chmod* && $stderr == *job.key* ]]
		assert_file_not_exist out.npy
	done
}

@test "a missing or malformed secret file is 6, its content never shown" {
	local text
	make_shards 1 f32 4
	run -6 --separate-stderr collctl allreduce -n 1 -r 0 --secret-file nowhere in.0.npy -o out.npy
	[[ $stderr == *nowhere* ]]
	umask 077
	for text in '' 0badc0de "$(printf 'g%.0s' {1..64})" "$(printf 'abc%.0s' {1..40})"; do
		printf '%s\n' "$text" >job.key
		run -6 --separate-stderr collctl allreduce -n 1 -r 0 --secret-file job.key in.0.npy -o out.npy
		[[ $stderr == *job.key* ]]
		[[ -z $text || $stderr != *"$text"* ]]
	done
}

@test "the secret by descriptor" {
	local r
	make_shards 2 f32 4
	make_secret
	start_serve
	by_fd() { "$COLLCTL" "$@" --secret-fd 8 8<job.key; }
	for r in 0 1; do
		spawn_rank "$r" by_fd allreduce -n 2 -r "$r" -R "$STORE" "in.$r.npy" -o "out.$r.npy"
	done
	wait_ranks
	assert_ranks 2 0
	check_out sum 2
}

@test "--force replaces the file, a symlink itself, and leaves nothing else" {
	local first
	collctl keygen key
	first=$(<key)
	collctl keygen --force key
	grep -qxE '[0-9a-f]{64}' key
	assert_not_equal "$(<key)" "$first"
	echo untouched >elsewhere
	ln -sf elsewhere key
	collctl keygen --force key
	assert_equal "$(<elsewhere)" untouched
	assert_equal "$(stat -c '%F %a' key)" 'regular file 600'
	COLLCTL_FORCE=1 run -4 collctl keygen key # it has no variable
	run -4 collctl keygen --force nowhere/key
	assert_only_files key elsewhere
}
