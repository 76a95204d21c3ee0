#!/usr/bin/env bats
# gather --consolidate with ranks that lie about their pieces. Numbers are the rows of the table of faults.

load ../cli/helpers

# hostile LIE: two ranks, each with half of a tensor; rank 1 changes what it says of its half (hostile_rank.c, ROUND)
hostile() {
	local r wrap
	[[ -x ${COLLCTL%/*}/fault/hostile_rank ]] || skip "no ${COLLCTL%/*}/fault/hostile_rank: make unit"
	[[ -e r0.safetensors ]] || oracle consolidate piece r0.safetensors w F32 6,4 0:3,0:4
	[[ -e r1.safetensors ]] || oracle consolidate piece r1.safetensors w F32 6,4 3:6,0:4
	make_hostfile hosts 2
	echo old >out.safetensors
	for r in 0 1; do
		wrap=("$COLLCTL")
		((r == 0)) || wrap=(env "ROUND=$1" "${COLLCTL%/*}/fault/hostile_rank")
		spawn_rank "$r" "${wrap[@]}" gather --consolidate --check-replicas --insecure -H hosts -r "$r" "r$r.safetensors" -o out.safetensors
	done
	wait_ranks
}

# A part of the first round: u8 more, u16 length, "w", u8 type, u8 axes, u8 known, u64 6, u64 4, u32 pieces, u8 0, u64 3, u64 0, u64 3, u64 4.
@test "37: a rank's table of pieces that cannot be: 10, with the rank; the output stays" {
	local lie
	hostile 9:0:0 # no lie
	assert_ranks 2 0
	oracle consolidate is out.safetensors w F32 6,4
	# more without end, a name that is no text, no such type, 65 axes, a shape, a count and a range that cannot be, a table that is cut
	for lie in 0:0:1 0:2:255 0:3:255 0:3:0 0:4:238 0:5:65 0:6:2 0:14:128 0:23:2 0:24:1 0:27:255 0:28:4 0:36:1 0:44:4 0:61:1 1:9:1; do
		hostile "$lie"
		assert_rank 0 10 'rank 1: '
		assert_equal "$(<out.safetensors)" old
	done
}

@test "37: a rank that says another place or size of its piece than it has: no output, no crash" {
	local lie
	for lie in 0:28:2 0:44:2 0:52:3; do # [2:5, 0:4], [3:5, 0:4], [3:6, 0:3]
		hostile "$lie"
		((RC[0] == 3 || RC[0] == 7 || RC[0] == 10)) || fail "$lie: ${RC[0]}: $(<0.err)"
		assert_equal "$(<out.safetensors)" old
	done
}

@test "87: a table that has more pieces than --memory leaves room for: 11" {
	oracle consolidate piece r0.safetensors w F32 6,4 0:3,0:4
	oracle consolidate piece r1.safetensors w F32 6,4 3:6,0:4
	hostile 0:1000000:0 # u16 0: a tensor "" of type 0
	assert_rank 0 10 'rank 1: '
	oracle consolidate names names.safetensors 40000
	run --separate-stderr collctl run -n 2 -- gather --consolidate --memory 1M names.safetensors -o out.safetensors
	assert_equal "$status" 11
	[[ $stderr == *'give more --memory'* ]] || fail "$stderr"
	assert_equal "$(<out.safetensors)" old
	collctl run -n 2 -- gather --consolidate -q --memory 256M names.safetensors -o out.safetensors
	oracle consolidate same out.safetensors names.safetensors
}
