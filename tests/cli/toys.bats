#!/usr/bin/env bats
# An example for each table, added by one file and one line (tests/toys/toys.mk).

load helpers

setup() {
	common_setup
	COLLCTL=$(dirname "$COLLCTL")/toys/collctl
	[[ -x $COLLCTL ]] || skip "no $COLLCTL: make unit"
}

# bats test_tags=smoke
@test "an algorithm: listed, proved, priced, and it runs a job" {
	algorithms_of allreduce | grep -qx star
	run -0 collctl plan allreduce -n 3 -a star --count 100 --verify
	make_shards 3 f32 1000
	collctl run -n 3 -- allreduce --no-sync -a star --explain 'in.{rank}.npy' -o 'out.{rank}.npy' 2>err
	check_out sum 3
	grep -q star err
}

# bats test_tags=smoke
@test "a format: read and written by its suffix and by its name" {
	local r
	for r in 0 1 2; do
		{ echo "vec i32 4"; printf "\\0$((r + 1))\\0\\0\\0%.0s" 1 2 3 4; } >"in.$r.vec"
	done
	collctl run -n 3 -- allreduce --no-sync 'in.{rank}.vec' -o 'out.{rank}.vec'
	{ echo "vec i32 4"; printf '\6\0\0\0%.0s' 1 2 3 4; } >want
	for r in 0 1 2; do cmp "out.$r.vec" want; done
	collctl run -n 2 -- broadcast --no-sync --format vec - -o 'copy.{rank}' <want
	cmp copy.1 want
	assert_equal "$(collctl info --json want --format vec | jq -r '.format')" vec
	echo text >none.x
	run -2 --separate-stderr collctl info none.x
	[[ $stderr == *'.vec'*'vec|'* ]]
	collctl allreduce --help | grep -q 'vec'
	run -2 --separate-stderr collctl run -n 3 -- allreduce 'in.{rank}.vec' -o 'out.{rank}.npy'
	[[ $stderr == *'end its name in .vec'* ]]
}

# bats test_tags=smoke
@test "a transport: whole jobs over it" {
	make_shards 4 f32 3000
	collctl run -n 4 -- allreduce --no-sync --insecure -v 'in.{rank}.npy' -o 'out.{rank}.npy'
	check_out sum 4
	collctl run -n 4 -- barrier --insecure -a all_to_all
}

# bats test_tags=smoke
@test "a setting: an option and its variable, in help and completions, and compared between the ranks" {
	local r
	make_shards 2 f32 1000
	collctl run -n 2 -- allreduce --no-sync --pace 10M 'in.{rank}.npy' -o 'out.{rank}.npy'
	check_out sum 2
	COLLCTL_PACE=x run -2 --separate-stderr collctl run -n 2 -- allreduce 'in.{rank}.npy' -o 'out.{rank}.npy'
	[[ $stderr == *"COLLCTL_PACE: 'x' is not a rate"* ]]
	collctl allreduce --help | grep -q -- '--pace RATE'
	collctl help --mdoc | grep -q 'pace'
	for r in bash zsh fish; do collctl help --completions "$r" | grep -q pace; done
	run -2 --separate-stderr collctl barrier --pace 10M
	[[ $stderr == *'--pace is not an option of barrier'* ]]
	# shellcheck disable=SC2016 # for the ranks' shells
	run -7 --separate-stderr collctl run -n 2 -- sh -c 'exec "$0" allreduce --pace "1${COLLCTL_RANK}M" "in.$COLLCTL_RANK.npy" -o "out.$COLLCTL_RANK.npy"' "$COLLCTL"
	[[ $stderr == *'--pace'* ]]
}
