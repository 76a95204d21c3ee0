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

@test "the steps of all ranks up to 16; of more a summary, or those of --rank" {
	local line='steps: --rank R prints those of rank R, --json those of all ranks'

	run -0 collctl plan allreduce -n 16 -a ring --count 160
	assert_equal "$(grep -c '^rank ' <<<"$output")" 16
	refute_line "$line"
	run -0 collctl plan allreduce -n 17 -a ring --count 170
	assert_equal "$(grep -c '^rank ' <<<"$output")" 0
	assert_line --index 0 --partial 'allreduce ring, 17 ranks, 170 elements'
	assert_line "$line"
	run -0 collctl plan allreduce -n 17 -a ring --count 170 --rank 16
	assert_equal "$(grep '^rank ' <<<"$output")" 'rank 16'
	refute_line "$line"
	collctl plan allreduce -n 17 -a ring --count 170 --json >plan.json
	assert_equal "$(json plan.json '.ranks | length')" 17
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

# ---- ranks that share hosts ----

# bats test_tags=smoke
@test "--hosts: the number of ranks, what leaves a host, and a proof" {
	local c hosts
	for c in allreduce reduce reduce-scatter allgather broadcast gather scatter alltoall barrier; do
		for hosts in 2x2 3,5,2 4x3 $( ((LONG == 0)) || echo 8x8 1,1,9 16x4); do
			collctl plan "$c" --hosts "$hosts" -a hosts --count 240 --verify --json >plan.json || fail "$c $hosts"
			assert_equal "$(json plan.json '"\(.runs) \(.verified)"')" "hosts true"
		done
	done
	run -0 collctl plan allreduce --hosts 3,5,2 -a hosts --count 1200
	assert_line --index 0 --partial 'allreduce hosts, 10 ranks, 1200 elements'
	assert_line 'hosts: 3,5,2; at most 6400 bytes leave a host, 6400 enter one' # 2 (N-1)/N of 4800
	collctl plan allreduce --hosts 3,5,2 -a hosts --count 1200 --json >plan.json
	assert_equal "$(json plan.json '.hosts | tojson')" '{"of_ranks":[0,0,0,1,1,1,1,1,2,2],"bytes_out":6400,"bytes_in":6400}'
	collctl plan allreduce -n 10 -a direct --json >plan.json
	assert_equal "$(json plan.json 'has("hosts")')" false
}

@test "--hosts: circulant sends no more out of a host than it must" {
	collctl plan allreduce --hosts 4x8 -a circulant --count 320 --verify --json >plan.json
	assert_equal "$(json plan.json .hosts.bytes_out)" 1920 # 2 * 3/4 of 1280
	collctl plan allreduce -n 32 --hosts 4x8 -a direct --count 320 --json >plan.json
	assert_equal "$(json plan.json .hosts.bytes_out)" 15360 # 12 times the vector
}

@test "--hosts: the prices, and the choice of auto" {
	collctl plan allreduce --hosts 5x3 --bytes 64M --compare --json >shared.json
	collctl plan allreduce -n 15 --bytes 64M --compare --json >apart.json
	assert_equal "$(json shared.json '.algorithm | IN("hosts", "circulant")')" true
	assert_equal "$(json apart.json '.algorithms[] | select(.algorithm == "hosts") | .runs')" circulant
	jq -es '[.[].algorithms[] | select(.algorithm == "direct") | .simulated] | .[0] > 2 * .[1]' shared.json apart.json
	run -0 collctl plan allreduce --hosts 4x8 --bytes 64M --compare
	assert_line --index 1 --regexp ' out of +formula '
	assert_line --regexp '^hosts .* 100663296 '
	collctl plan allreduce --hosts 2x8 --bytes 64M -a hosts --json >each.json
	collctl plan allreduce --hosts 2x8 --bytes 64M -a hosts --host-cpus 1 --json >crowded.json
	jq -es '[.[].predicted.simulated] | .[1] > 1.5 * .[0]' each.json crowded.json
	run -0 collctl plan allreduce --hosts 2x8 --host-cpus 4
	assert_line --partial '; TLS, hosts of 4 processors'
}

@test "--hosts that are none" {
	local hosts
	run -2 --separate-stderr collctl plan allreduce --hosts ''
	[[ $stderr == *'--hosts: its value is empty'* ]] || fail "$stderr"
	for hosts in x 4x x8 0x3 3x0 3,0 '3,' ',3' 3x2x2 3,2x2 -1 3,-1 ' 3' 65537 9999999999999x2 65536x2; do
		run -2 --separate-stderr collctl plan allreduce --hosts "$hosts"
		[[ $stderr == *"--hosts: '$hosts' is neither"* ]] || fail "$hosts: $stderr"
	done
	run -2 --separate-stderr collctl plan allreduce -n 9 --hosts 4x2
	[[ $stderr == *'--hosts: 4x2 are 8 ranks, but --size is 9'* ]]
	run -2 collctl plan allreduce --hosts 4x2 --rank 8
	run -0 collctl plan allreduce -n 8 --hosts 4x2
}

@test "one rank of very many: its schedule, without the others'" {
	collctl plan allreduce -n 65536 -a direct --count 65536 --rank 65535 --json >one.json
	run -0 json one.json '(.ranks | length), (.ranks[0].steps | map(select(.op == "send")) | length),
		(.predicted.formula > 0 and .predicted.simulated == null)'
	assert_output $'1\n131070\ntrue'
	run -0 collctl plan broadcast -n 65536 -a circulant --rank 1
	assert_line --index 2 --partial 'not simulated (65536 schedules of about'
}
