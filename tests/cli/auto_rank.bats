#!/usr/bin/env bats
# --rank auto: the numbering of the ranks, and the roots of rooted collectives.

load helpers

setup() {
	common_setup
	make_secret
}

# auto_rank NAME P COMMAND [ARGS...]: one rank of P; NAME is its index in PIDS and RC
auto_rank() {
	local name=$1 size=$2
	shift 2
	spawn_rank "$name" "$COLLCTL" "$@" -r auto -n "$size" -R "$STORE" -j job --secret-file "$SECRET" \
		--format raw --dtype u8
}

raw_inputs() {
	local name
	for name; do
		printf '%s' "$name" >"$name"
	done
}

# bats test_tags=smoke
@test "the order of ranks is that of their inputs, whoever comes first" {
	local first name
	raw_inputs 1 2 3
	start_serve
	for first in 3 1; do
		auto_rank "$first" 3 gather --shape 1 --root 0 "$first" -o out
		wait_record
		for name in 2 3 1; do
			[[ $name == "$first" ]] || auto_rank "$name" 3 gather --shape 1 --root 0 "$name" -o out
		done
		wait_ranks
		for name in 1 2 3; do
			assert_rank "$name" 0
		done
		assert_equal "$(<out)" 123
		rm out
	done
}

@test "hosts come before inputs; --root HOST is the rank on that host" {
	local name
	need_hosts
	raw_inputs 1 2 3
	start_serve
	collctl_on() { # HOST INPUT
		spawn_rank "$2" on_host "$1" "$COLLCTL" gather -r auto -n 3 -R "$STORE" --secret-file "$SECRET" \
			--format raw --dtype u8 --shape 1 --root nodeb -v "$2" -o "$2.got"
	}
	collctl_on nodec 1
	collctl_on nodeb.example 2
	collctl_on nodea 3
	wait_ranks
	for name in 1 2 3; do
		assert_rank "$name" 0 ': nodea (rank 0), nodeb.example (rank 1), nodec (rank 2)'
	done
	assert_equal "$(<2.got)" 321
	assert_file_not_exist 1.got
	assert_file_not_exist 3.got
	for name in 1 2; do # two ranks on the host
		spawn_rank "$name" on_host nodeb "$COLLCTL" gather -r auto -n 2 -R "$STORE" \
			--secret-file "$SECRET" --format raw --dtype u8 --shape 1 --root nodeb "$name" -o "$name.got"
	done
	wait_ranks
	assert_rank 1 7 '--root nodeb: ranks 0, 1 are on this host'
	assert_rank 2 7 '--root nodeb: ranks 0, 1 are on this host'
}

@test "gather --raw-file --root HOST: a file of each rank, on that host" {
	local name
	need_hosts
	raw_inputs 1 2
	start_serve
	for name in 1 2; do
		spawn_rank "$name" on_host "node$name" "$COLLCTL" gather --raw-file --root node2 -r auto -n 2 \
			-R "$STORE" --secret-file "$SECRET" "$name" -o "got.$name/{host}/"
	done
	wait_ranks
	assert_rank 1 0
	assert_rank 2 0
	assert_equal "$(<got.2/node1/1)$(<got.2/node2/2)" 12
	assert_not_exist got.1
}

@test "the one rank that gives an input is the root" {
	raw_inputs 12
	start_serve
	auto_rank 1 2 scatter --shape 2 -o 1.part
	wait_record
	auto_rank 2 2 scatter --shape 2 12 -o 2.part
	wait_ranks
	assert_rank 1 0
	assert_rank 2 0
	assert_equal "$(cat 1.part 2.part | fold -w1 | sort | tr -d '\n')" 12
	# The same command line on all ranks: the root is the rank whose file exists.
	mkdir here there
	cp 12 here/file
	for name in here there; do
		cd "$name" || return
		auto_rank 1 2 broadcast --shape 2 file -o got
		cd .. || return
		[[ $name != here ]] || PIDS[0]=${PIDS[1]}
	done
	wait_ranks
	assert_equal "${RC[0]} ${RC[1]}" '0 0'
	assert_equal "$(cat here/got there/got)" 1212
	# The same with a pattern.
	for name in here there; do
		cd "$name" || return
		spawn_rank 1 "$COLLCTL" broadcast --raw-file --each 'f*' -o each/ -r auto -n 2 -R "$STORE" \
			--secret-file "$SECRET"
		cd .. || return
		[[ $name != here ]] || PIDS[0]=${PIDS[1]}
	done
	wait_ranks
	assert_equal "${RC[0]} ${RC[1]}" '0 0'
	assert_equal "$(cat here/each/file there/each/file)" 1212
}

@test "a root that can't be told: 7, and what to do" {
	raw_inputs 1 2
	start_serve
	auto_rank 1 2 broadcast --shape 1 1 -o 1.got
	auto_rank 2 2 broadcast --shape 1 2 -o 2.got
	wait_ranks
	assert_rank 1 7 'ranks 0, 1 give an input' '--root HOST'
	assert_rank 2 7 'ranks 0, 1 give an input' '--root HOST'
	assert_file_not_exist 1.got
	auto_rank 1 2 broadcast -o 1.got
	auto_rank 2 2 broadcast -o 2.got
	wait_ranks
	assert_rank 1 7 'no rank gives an input'
	assert_rank 2 7 'no rank gives an input'
	auto_rank 1 2 gather --shape 1 1 -o 1.got
	wait_ranks
	assert_rank 1 2 '--root HOST'
}

@test "missing ranks are counted by host" {
	need_hosts
	start_serve
	spawn_rank 1 on_host nodeb "$COLLCTL" barrier -r auto -n 4 -R "$STORE" --secret-file "$SECRET" \
		--join-timeout 8s
	spawn_rank 2 on_host nodea "$COLLCTL" barrier -r auto -n 4 -R "$STORE" --secret-file "$SECRET" \
		--join-timeout 10s
	wait_ranks
	# Either may coordinate; the first knows the ranks that have joined.
	grep -qE '2 of 4 ranks have joined .*: node[ab], node[ab]; 2 are missing' 1.err || fail "$(<1.err)"
	assert_rank 1 5
	assert_rank 2 5
}

@test "a coordinator that dies while ranks are missing is replaced" {
	local name
	raw_inputs 1 2 3
	start_serve
	auto_rank 1 3 gather --shape 1 --root 0 1 -o out
	wait_record
	auto_rank 2 3 gather --shape 1 --root 0 2 -o out -vv
	until grep -qs 'connecting to the coordinator' 2.err; do kill -0 "${PIDS[2]}"; done
	kill -KILL "${PIDS[1]}"
	wait_ranks 1
	auto_rank 1 3 gather --shape 1 --root 0 1 -o out
	auto_rank 3 3 gather --shape 1 --root 0 3 -o out
	wait_ranks
	for name in 1 2 3; do
		assert_rank "$name" 0
	done
	assert_equal "$(<out)" 123
}

@test "messages name the host where ranks are on several" {
	local r
	need_hosts
	start_serve
	printf abc >in.3
	printf ab >in.2
	for r in 0 1; do
		spawn_rank "$r" on_host "node$r" "$COLLCTL" allreduce -r "$r" -n 2 -R "$STORE" \
			--secret-file "$SECRET" --json --format raw --dtype u8 --shape $((r + 2)) "in.$((r + 2))" -o out
	done
	wait_ranks
	assert_ranks 2 7 'collctl: rank 1 (node1): '
	assert_equal "$(json 0.out .error.host)" node1
	assert_equal "$(json 0.out .error.rank)" 1
	for r in 0 1; do # on one host it is left out
		spawn_rank "$r" "$COLLCTL" allreduce -r "$r" -n 2 -R "$STORE" --secret-file "$SECRET" \
			--json --format raw --dtype u8 --shape $((r + 2)) "in.$((r + 2))" -o out
	done
	wait_ranks
	assert_ranks 2 7 'collctl: rank 1: '
	assert_equal "$(json 0.out .error.host)" null
}

@test "under run too" {
	raw_inputs 0 1 2
	collctl run -n 3 -- gather -r auto --root 0 --format raw --dtype u8 --shape 1 '{rank}' -o out
	assert_equal "$(<out)" 012
	run -7 --separate-stderr collctl run -n 3 -- gather --root nosuch --format raw --dtype u8 --shape 1 \
		'{rank}' -o out
	assert_equal "${stderr#\[?\] }" \
		'collctl: rank 0: --root nosuch: no rank is on a host of this name'
}
