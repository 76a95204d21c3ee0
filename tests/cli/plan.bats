#!/usr/bin/env bats
# plan: shows and verifies schedules offline.

load helpers

# An exchange needs an even number of ranks.
serves() { # COLLECTIVE P
	[[ $1 != exchange ]] || (($2 == 1 || $2 % 2 == 0))
}

# bats test_tags=smoke
@test "--verify proves every algorithm of every collective" {
	local c a size
	all_algorithms >names
	while read -r c a; do
		for size in 1 2 5 8 $( ((LONG == 0)) || echo 3 4 6 7 9 11 16 17); do
			serves "$c" "$size" || continue
			collctl plan "$c" -n "$size" -a "$a" --count 100 --verify >plan.txt </dev/null || fail "$c $a $size"
		done
		collctl plan "$c" -n 6 -a "$a" --count 4 --verify >plan.txt </dev/null || fail "$c $a: few elements"
		collctl plan "$c" -n 6 -a "$a" --count 0 --verify >plan.txt </dev/null || fail "$c $a: none"
	done <names
}

@test "more elements than can be counted are refused" {
	run -2 collctl plan allreduce -n 4 --count 2305843009213693951
	assert_output --partial '2305843009213693951 elements are too many'
	collctl plan allreduce -n 4 -a ring --count 576460752303423487 --json >plan.json
	grep -q '"bytes":6917529027641081844,' plan.json
}

@test "--verify, many ranks" {
	local c a size
	all_algorithms >names
	while read -r c a; do
		for size in 17 $( ((LONG == 0)) || echo 31 32 33 64 65 100 127 128); do
			serves "$c" "$size" || continue
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
		collctl plan "$c" -n 6 -a "$a" --count 60 --json >plan.json </dev/null
		assert_equal "$(json plan.json '"\(.algorithm) \(.size)"')" "$a 6"
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

@test "--steps and --base shape the schedule; what they can't be is refused" {
	collctl plan exchange -n 8 --steps 2 --count 8 --json >two
	collctl plan exchange -n 8 --count 8 --json >most
	assert_equal "$(json two .steps) $(json most .steps)" "2 3"
	collctl plan allgather -n 27 -a bruck --base 3 --count 27 --json >three
	collctl plan allgather -n 27 -a bruck --count 27 --json >two
	assert_equal "$(json three .steps) $(json two .steps)" "3 5"
	run -2 --separate-stderr collctl plan exchange -n 6 --steps 2
	[[ $stderr == *'--steps 2'* ]]
	run -2 collctl plan exchange -n 5
}

@test "an algorithm that stands for another here says for which" {
	run -0 collctl plan allgather -n 5 -a neighbor --count 50
	assert_line --index 0 --partial 'neighbor, which falls back to ring'
	collctl plan allgather -n 5 -a neighbor --count 50 --json >plan.json
	assert_equal "$(json plan.json '.algorithm + " " + .runs')" "neighbor ring"
}

@test "a step without a source is printed without one" {
	run -0 collctl plan exscan -n 3 -a linear --count 4 --rank 0
	assert_line --regexp 'identity +out\[0,4\) <- the identity'
}

@test "one rank of very many: its schedule, without the others'" {
	collctl plan allreduce -n 65536 -a direct --count 65536 --rank 65535 --json >one.json
	run -0 json one.json '(.ranks | length), (.ranks[0].steps | map(select(.op == "send")) | length),
		(.predicted.formula > 0 and .predicted.simulated == null)'
	assert_output $'1\n131070\ntrue'
	run -0 collctl plan broadcast -n 65536 -a circulant --rank 1
	assert_line --index 2 --partial 'not simulated (65536 schedules of about'
}
