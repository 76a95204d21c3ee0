#!/usr/bin/env bats
# barrier: no rank leaves before all have entered; errors name the missing ranks.

load helpers

# bats test_tags=smoke
@test "auto, 1, 2, 5 and 16 ranks" {
	local size
	for size in 1 2 5 16; do
		run -0 --separate-stderr collctl run -n "$size" -- barrier
		assert_output ''
	done
}

@test "every algorithm, 1, 2, 5 and 16 ranks" {
	local a size
	algorithms_of barrier >names
	for a in all_to_all all_to_one dissemination; do
		grep -qx "$a" names || fail "no $a"
	done
	while read -r a; do
		for size in 1 2 5 16; do
			collctl run -n "$size" -- barrier -a "$a" </dev/null || fail "$a, $size ranks"
		done
	done <names
}

# bats test_tags=smoke
@test "nobody leaves before the last has come" {
	local a r
	make_secret
	start_serve
	for a in auto all_to_all; do
		# Each rank writes a line before it enters and counts the lines after it has left.
		: >came
		enter() {
			local rank=$1
			echo "$rank" >>came
			"$COLLCTL" barrier -a "$a" -r "$rank" -n 4 -R "$STORE" --secret-file "$SECRET" -j "$a" && wc -l <came
		}
		for r in 0 1 2; do spawn_rank "$r" enter "$r"; done
		JOB=$a wait_record
		spawn_rank 3 enter 3
		wait_ranks
		assert_ranks 4 0
		for r in 0 1 2 3; do assert_equal "$(tail -n 1 "$r.out")" 4; done
	done
}

# bats test_tags=smoke
@test "a missing rank: 5, and it is named" {
	make_secret
	start_serve
	rank 0 4 barrier --join-timeout 3s
	rank 1 4 barrier --join-timeout 3s
	rank 3 4 barrier --join-timeout 3s
	wait_ranks
	assert_rank 0 5 2
	assert_rank 1 5
	assert_rank 3 5
	grep -qE '\b2\b.* did not join within .* s \(--join-timeout\)' 0.err
}

@test "by a hostfile" {
	local r
	make_secret
	make_hostfile hosts 5
	for r in 4 3 2 1 0; do
		spawn_rank "$r" "$COLLCTL" barrier -H hosts -r "$r" --secret-file "$SECRET"
	done
	wait_ranks
	assert_ranks 5 0
}

@test "--json" {
	local r
	make_secret
	start_serve
	ranks 3 barrier --json
	assert_ranks 3 0
	for r in 0 1 2; do
		assert_equal "$(json "$r.out" '[.command, .ok, .rank, .size, .error] | @json')" \
			"[\"barrier\",true,$r,3,null]"
	done
}

@test "it takes no operands" {
	run -2 collctl run -n 1 -- barrier file.npy
}

@test "it says which links it tried; plan and bench say the same default" {
	local says='barrier without -a uses only the links to rank 0; -a all_to_all tests every link'
	run -0 --separate-stderr collctl run -n 2 -- barrier
	[[ $stderr == *"$says"* ]]
	run -0 collctl help barrier
	assert_output --partial 'over the links to rank 0'
	run -0 --separate-stderr collctl run -n 2 -- barrier -a all_to_all
	[[ $stderr == *'every link'* && $stderr != *"$says"* ]]
	run -0 collctl plan barrier -n 4
	assert_output --partial "$says"
	assert_output --partial 'barrier all_to_one'
	run -0 collctl plan barrier -n 4 -a dissemination
	refute_output --partial "$says"
	run -0 --separate-stderr collctl run -n 2 -- bench barrier --iters 3
	assert_output --partial "$says"
	assert_output --partial ' all_to_one '
	run -0 --separate-stderr collctl run -n 2 -- bench barrier --iters 3 -a dissemination
	refute_output --partial "$says"
}
