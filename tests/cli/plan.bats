#!/usr/bin/env bats
# plan: the schedule offline, proved.

load helpers

# bats test_tags=smoke
@test "--verify proves every algorithm of every collective" {
	local c a size
	all_algorithms >names
	while read -r c a; do
		for size in 1 2 3 4 5 6 7 8 9 11 16 17; do
			collctl plan "$c" -n "$size" -a "$a" --count 100 --verify >plan.txt </dev/null || fail "$c $a $size"
		done
		collctl plan "$c" -n 6 -a "$a" --count 4 --verify >plan.txt </dev/null || fail "$c $a: few elements"
		collctl plan "$c" -n 6 -a "$a" --count 0 --verify >plan.txt </dev/null || fail "$c $a: none"
	done <names
}

@test "--verify, many ranks" {
	local c a size
	all_algorithms >names
	while read -r c a; do
		for size in 31 32 33 $( ((LONG == 0)) || echo 64 65 100 127 128); do
			collctl plan "$c" -n "$size" -a "$a" --count 1000 --verify >plan.txt </dev/null || fail "$c $a $size"
		done
	done <names
}

@test "text: the schedule on stdout, with the algorithm's name" {
	run -0 --separate-stderr collctl plan allreduce -n 4 -a ring_chunked --count 16
	assert_output --partial ring_chunked
	assert_output --regexp '[Ss]end'
}

@test "auto is chosen, and always the same" {
	collctl plan allreduce -n 6 --bytes 64M >a
	collctl plan allreduce -n 6 --bytes 64M >b
	cmp a b
}

@test "--json is one value for every algorithm" {
	local c a
	all_algorithms >names
	while read -r c a; do
		collctl plan "$c" -n 5 -a "$a" --count 50 --json >plan.json </dev/null
		assert_equal "$(json plan.json .algorithm)" "$a"
		assert_equal "$(json plan.json .size)" 5
	done <names
}

@test "--rank shows one rank, and not one outside" {
	collctl plan allreduce -n 4 -a ring_chunked --count 16 >all
	collctl plan allreduce -n 4 -a ring_chunked --count 16 --rank 1 >one
	[[ -s one ]]
	(($(wc -l <one) < $(wc -l <all)))
	run -2 collctl plan allreduce -n 4 -a ring_chunked --count 16 --rank 4
}

@test "--count is accepted for barrier" {
	collctl plan barrier -n 4 -a all_to_one --count 7 >/dev/null
}

@test "usage errors: unknown collective, unknown algorithm, no size" {
	run -2 --separate-stderr collctl plan allgoof -n 4
	[[ $stderr == *allgoof* ]]
	run -2 --separate-stderr collctl plan allreduce -n 4 -a zigzag
	[[ $stderr == *zigzag* ]]
	run -2 collctl plan allreduce
	run -2 collctl plan
}
